//! Settings of a client's session that follow it from server session to server session.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Level, SessionKind};

/// Settings that differ from those of the pool: by name, the statement that sets each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    of: Arc<BTreeMap<String, String>>,
    /// The statement that sets `synchronous_commit`, which relaxed sessions are not given.
    commit: Option<Arc<str>>,
}

/// The setting that tells how durable a commit is to be.
const COMMIT: &str = "synchronous_commit";

/// The setting of which a statement may set one half and leave the other as it was
/// (`check_datestyle`).
const DATE: &str = "datestyle";

/// What a statement does to the settings of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// `SET name = value`: the name in lower case, and the statement.
    Set(String, String),
    /// `RESET name`.
    Reset(String),
    /// `RESET ALL`.
    ResetAll,
}

impl Change {
    /// Whether it may make a commit wait for less than it did.
    pub fn opts_out(&self) -> bool {
        match self {
            Change::Set(name, _) | Change::Reset(name) => name == COMMIT,
            Change::ResetAll => true,
        }
    }

    /// Whether its success tells nothing of what others committed. Some values have to be in the
    /// catalogs (`default_text_search_config`), some settings are granted, extensions check theirs
    /// as they like; who sets one of the others need not wait.
    pub fn tells_nothing(&self) -> bool {
        const ALONE: [&str; 20] = [
            "application_name",
            "bytea_output",
            "client_min_messages",
            "datestyle",
            "default_transaction_deferrable",
            "default_transaction_isolation",
            "default_transaction_read_only",
            "extra_float_digits",
            "idle_in_transaction_session_timeout",
            "intervalstyle",
            "jit",
            "lock_timeout",
            "plan_cache_mode",
            "row_security",
            "search_path",
            "standard_conforming_strings",
            "statement_timeout",
            "synchronous_commit",
            "timezone",
            "work_mem",
        ];
        match self {
            Change::Set(name, _) => ALONE.contains(&name.as_str()),
            Change::Reset(_) | Change::ResetAll => true,
        }
    }

    /// What one statement does that changes a setting for the session and nothing else; `None`
    /// for any other, and for what does more than that (roles, SET LOCAL).
    pub fn of(sql: &str) -> Option<Change> {
        if is_reset_of_pool(sql) {
            return Some(Change::ResetAll);
        }
        // How a session reads other letters depends on another setting, and what is white space
        // among them differs.
        if !sql.is_ascii() {
            return None;
        }
        let sql = sql.trim().trim_end_matches(';').trim_end();
        // What a backslash hides depends on another setting.
        if sql.contains([';', '\0', '\\']) || sql.contains("--") || sql.contains("/*") {
            return None;
        }
        let mut words = sql.split_whitespace();
        let first = words.next()?;
        if first.eq_ignore_ascii_case("RESET") {
            let name = words.next()?;
            return match words.next() {
                None if name.eq_ignore_ascii_case("ALL") => Some(Change::ResetAll),
                None => tracked(name).map(Change::Reset),
                Some(_) => None,
            };
        }
        if !first.eq_ignore_ascii_case("SET") {
            return None;
        }
        let mut rest = sql[first.len()..].trim_start();
        if let Some(after) = strip_word(rest, "SESSION") {
            rest = after;
        }
        let name = match strip_word(rest, "TIME").and_then(|rest| strip_word(rest, "ZONE")) {
            Some(_) => "timezone".to_owned(),
            None => {
                let end = rest.find(|c: char| c.is_whitespace() || c == '=')?;
                let (name, after) = rest.split_at(end);
                let after = after.trim_start();
                let value = after.strip_prefix('=').or_else(|| strip_word(after, "TO"))?;
                let name = tracked(name)?;
                if name == COMMIT && !is_plain(value) || name == DATE && !is_whole_date(value) {
                    return None;
                }
                name
            }
        };
        Some(Change::Set(name, sql.to_owned()))
    }
}

/// Whether a text is what asyncpg sends when a connection goes back to its pool: it leaves
/// nothing behind, so that no session has to stay for it.
pub fn is_reset_of_pool(sql: &str) -> bool {
    const RESETS: [&str; 4] =
        ["SELECT pg_advisory_unlock_all()", "CLOSE ALL", "UNLISTEN *", "RESET ALL"];
    let mut statements = sql.split(';').map(str::trim).filter(|sql| !sql.is_empty());
    let mut last = "";
    statements.all(|sql| {
        last = sql;
        RESETS.contains(&sql)
    }) && last == "RESET ALL"
}

/// A word at the beginning of a text, and what follows it.
fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(word.len())?;
    let ends = rest.starts_with(|c: char| c.is_whitespace());
    (head.eq_ignore_ascii_case(word) && ends).then(|| rest.trim_start())
}

/// Whether a value is one word, quoted or not, and not one of the ways to write it differently.
fn is_plain(value: &str) -> bool {
    let value = value.trim();
    let quoted = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
    let quoted = quoted.or(value.strip_prefix('"').and_then(|value| value.strip_suffix('"')));
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    quoted.unwrap_or(value).chars().all(is_part)
}

/// Whether a value of `DateStyle` sets both what it consists of: how dates look, and the order of
/// day, month and year.
fn is_whole_date(value: &str) -> bool {
    const STYLES: [&str; 4] = ["iso", "sql", "postgres", "german"];
    const ORDERS: [&str; 7] = ["dmy", "mdy", "ymd", "euro", "european", "us", "noneuro"];
    let value = value.trim();
    let quoted = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
    let parts: Vec<String> =
        quoted.unwrap_or(value).split(',').map(|part| part.trim().to_ascii_lowercase()).collect();
    let [first, second] = parts.as_slice() else { return false };
    let is = |style: &str, order: &str| STYLES.contains(&style) && ORDERS.contains(&order);
    is(first, second) || is(second, first)
}

/// The name of a setting that is a plain property of the session.
fn tracked(name: &str) -> Option<String> {
    let name = name.trim_matches('"').to_ascii_lowercase();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let untracked = [
        "role",
        "session_authorization",
        "local",
        "transaction",
        "constraints",
        // RESET refuses these.
        "transaction_isolation",
        "transaction_read_only",
        "transaction_deferrable",
        "seed",
        // The server would end the session while another client has it.
        "idle_session_timeout",
    ];
    let is_plain = !name.is_empty() && name.chars().all(plain);
    (is_plain && !untracked.contains(&name.as_str())).then_some(name)
}

impl Settings {
    /// A change that the server has taken.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Set(name, sql) if name == COMMIT => self.commit = Some(sql.as_str().into()),
            Change::Set(name, sql) => {
                Arc::make_mut(&mut self.of).insert(name.clone(), sql.clone());
            }
            Change::Reset(name) if name == COMMIT => self.commit = None,
            Change::Reset(name) => {
                Arc::make_mut(&mut self.of).remove(name);
            }
            Change::ResetAll => *self = Settings::default(),
        }
    }

    /// Bytes of the names and statements that are kept.
    pub fn bytes(&self) -> usize {
        self.of.iter().map(|(name, sql)| name.len() + sql.len()).sum()
    }

    /// Those that a session of a kind is given: a relaxed one never waits for a flush.
    #[must_use]
    pub fn given_to(&self, kind: SessionKind) -> Settings {
        let commit = self.commit.clone().filter(|_| kind == SessionKind::Synchronous);
        Settings { of: self.of.clone(), commit }
    }

    /// Whether a session of a kind that has these is as it should be for others.
    pub fn serve(&self, others: &Settings, kind: SessionKind) -> bool {
        (Arc::ptr_eq(&self.of, &others.of) || self.of == others.of)
            && (kind == SessionKind::Relaxed || self.commit == others.commit)
    }

    /// How durable a commit is to be, where that was set; `default` is the pool's.
    pub fn level(&self, default: Option<Level>) -> Option<Level> {
        let Some(sql) = &self.commit else { return default };
        let value = sql.rsplit(|c: char| c == '=' || c.is_whitespace()).next().unwrap_or_default();
        if value.eq_ignore_ascii_case("default") { default } else { Level::of(value) }
    }

    /// The statements that make these settings of a session into others; `anew` where how it
    /// commits may not be as it was set.
    pub fn towards(&self, others: &Settings, anew: bool) -> String {
        let gone = self.of.keys().filter(|name| !others.of.contains_key(*name));
        let new = others.of.iter().filter(|(name, sql)| self.of.get(*name) != Some(sql));
        // Quoted, since a part of a name may be a word of SQL.
        let gone = gone.map(|name| format!("RESET \"{name}\";"));
        let mut all: String = gone.chain(new.map(|(_, sql)| format!("{sql};"))).collect();
        if anew || self.commit != others.commit {
            match &others.commit {
                Some(sql) => all.push_str(&format!("{sql};")),
                None => all.push_str("RESET synchronous_commit;"),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sets_one_thing_is_tracked() {
        let set = |name: &str, sql: &str| Some(Change::Set(name.to_owned(), sql.to_owned()));
        for (sql, expected) in [
            ("SET work_mem = '1MB'", set("work_mem", "SET work_mem = '1MB'")),
            (" set search_path TO a, b ; ", set("search_path", "set search_path TO a, b")),
            ("SET SESSION a.b='x'", set("a.b", "SET SESSION a.b='x'")),
            ("SET TIME ZONE 'UTC'", set("timezone", "SET TIME ZONE 'UTC'")),
            ("RESET Work_Mem", Some(Change::Reset("work_mem".to_owned()))),
            ("RESET ALL", Some(Change::ResetAll)),
            ("SET LOCAL work_mem = 1", None),
            ("SET ROLE x", None),
            ("SET role = x", None),
            ("SET transaction_read_only = on", None),
            ("SET SESSION AUTHORIZATION x", None),
            ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", None),
            ("SET a = 1; SELECT 1", None),
            ("SET a /* b */ = 1", None),
            ("SET a = 'b\\'", None),
            ("SET synchronous_commit = $$off$$", None),
            ("SET synchronous_commit TO E'off'", None),
            ("SET synchronous_commit = 'o'\n'ff'", None),
            ("SET DateStyle = 'ISO, DMY'", set("datestyle", "SET DateStyle = 'ISO, DMY'")),
            ("SET datestyle TO mdy, SQL", set("datestyle", "SET datestyle TO mdy, SQL")),
            ("SET datestyle = 'SQL'", None),
            ("SET datestyle = DMY", None),
            ("SET datestyle = 'ISO, ISO'", None),
            ("SET app.x\u{a0}= 1", None),
            ("SET search_path = a\u{a0}", None),
            ("SET", None),
            ("SELECT 1", None),
        ] {
            assert_eq!(Change::of(sql), expected, "{sql}");
        }
    }

    #[test]
    fn the_way_from_one_to_another_and_back_is_nothing() {
        let mut mine = Settings::default();
        mine.apply(&Change::of("SET a = 1").unwrap());
        mine.apply(&Change::of("SET b = 2").unwrap());
        let mut theirs = Settings::default();
        theirs.apply(&Change::of("SET b = 3").unwrap());
        assert_eq!(mine.towards(&theirs, false), "RESET \"a\";SET b = 3;");
        assert_eq!(mine.towards(&mine, false), "");
        assert_eq!(mine.towards(&mine, true), "RESET synchronous_commit;");
        mine.apply(&Change::ResetAll);
        assert_eq!(mine, Settings::default());
    }

    #[test]
    fn how_durable_a_commit_is_to_be_stays_with_the_client() {
        let mut settings = Settings::default();
        assert_eq!(settings.level(Some(Level::On)), Some(Level::On));
        for (sql, level) in [
            ("SET synchronous_commit = off", None),
            ("set Synchronous_Commit TO 'local'", Some(Level::Local)),
            ("SET synchronous_commit=remote_apply", Some(Level::RemoteApply)),
            ("SET synchronous_commit TO DEFAULT", Some(Level::On)),
            ("SET synchronous_commit TO\x0coff", None),
            ("SET synchronous_commit = 'of' ", Some(Level::RemoteApply)),
        ] {
            settings.apply(&Change::of(sql).unwrap());
            assert_eq!(settings.level(Some(Level::On)), level, "{sql}");
            let plain = Settings::default();
            assert!(plain.serve(&settings, SessionKind::Relaxed));
            assert!(!plain.serve(&settings, SessionKind::Synchronous));
            assert_eq!(plain.towards(&settings.given_to(SessionKind::Relaxed), false), "");
        }
        let set = settings.given_to(SessionKind::Synchronous);
        assert_eq!(set.towards(&Settings::default(), false), "RESET synchronous_commit;");
    }
}
