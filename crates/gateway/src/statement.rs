//! What a statement needs of a server session, by its leading keyword and a few names.
//!
//! No grammar: a wrong guess may cost a flush or a session of its own, never an answer that is
//! told too early. A SELECT that writes through a function runs on a session that flushes by
//! itself, and anything not known runs alone on a session that its client keeps.

use crate::lexer::{Statement, statements};
use crate::settings::{Change, is_reset_of_pool};

/// What a statement needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Which kind of session it may run on.
    pub session: SessionKind,
    /// How long it needs it.
    pub hold: Hold,
}

/// Kinds of server sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionKind {
    /// Commits without waiting for a flush.
    Relaxed,
    /// Commits as its role has it.
    Synchronous,
}

/// How long a client needs a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// Not at all: others may be sent behind it before it has answered.
    Shared,
    /// Until its transaction has ended.
    Transaction,
    /// Until the client leaves, for a reason that can be counted.
    Pinned(Pin),
}

/// Why a client keeps its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pin {
    /// A text of which it is not certain how the server reads it.
    Unread,
    /// A setting of the session was changed.
    Setting,
    /// A temporary table.
    Temporary,
    /// LISTEN.
    Listen,
    /// An advisory lock of the session.
    AdvisoryLock,
    /// A cursor that outlives its transaction.
    Cursor,
    /// PREPARE in SQL.
    Prepare,
    /// `lastval` or `currval`: what a sequence gave this session.
    Sequence,
    /// LOAD, or a function whose effect on its session DISCARD ALL does not undo.
    Session,
    /// Its pool gives sessions back when their clients leave.
    Pooling,
}

impl Pin {
    /// Every reason.
    pub const ALL: [Pin; 10] = [
        Pin::Unread,
        Pin::Setting,
        Pin::Temporary,
        Pin::Listen,
        Pin::AdvisoryLock,
        Pin::Cursor,
        Pin::Prepare,
        Pin::Sequence,
        Pin::Session,
        Pin::Pooling,
    ];

    /// Its name in metrics and in SHOW.
    pub fn name(self) -> &'static str {
        match self {
            Pin::Unread => "unread",
            Pin::Setting => "setting",
            Pin::Temporary => "temporary",
            Pin::Listen => "listen",
            Pin::AdvisoryLock => "advisory_lock",
            Pin::Cursor => "cursor",
            Pin::Prepare => "prepare",
            Pin::Sequence => "sequence",
            Pin::Session => "session",
            Pin::Pooling => "pooling",
        }
    }
}

/// What a word tells of its statement wherever it stands, in a string or a comment too.
#[derive(Debug, Clone, Copy)]
enum Sign {
    /// A function whose effect or whose input is state of the session.
    Keeps(Pin),
    /// Where INTO stands a table may be made.
    Into,
    /// What is made may be temporary.
    Temporary,
    /// The view whose rows can be updated, which sets them.
    Settings,
    /// The setting on which it depends whether a commit flushes.
    Commit,
}

const SIGNS: [(&[u8], Sign); 30] = [
    (b"set_config", Sign::Keeps(Pin::Setting)),
    (b"pg_advisory_lock", Sign::Keeps(Pin::AdvisoryLock)),
    (b"pg_try_advisory_lock", Sign::Keeps(Pin::AdvisoryLock)),
    (b"pg_advisory_unlock", Sign::Keeps(Pin::AdvisoryLock)),
    (b"pg_advisory_lock_shared", Sign::Keeps(Pin::AdvisoryLock)),
    (b"pg_try_advisory_lock_shared", Sign::Keeps(Pin::AdvisoryLock)),
    (b"pg_advisory_unlock_shared", Sign::Keeps(Pin::AdvisoryLock)),
    (b"pg_advisory_unlock_all", Sign::Keeps(Pin::AdvisoryLock)),
    (b"lastval", Sign::Keeps(Pin::Sequence)),
    (b"currval", Sign::Keeps(Pin::Sequence)),
    (b"setseed", Sign::Keeps(Pin::Session)),
    (b"dblink_connect", Sign::Keeps(Pin::Session)),
    (b"dblink_connect_u", Sign::Keeps(Pin::Session)),
    (b"pg_create_physical_replication_slot", Sign::Keeps(Pin::Session)),
    (b"pg_create_logical_replication_slot", Sign::Keeps(Pin::Session)),
    (b"pg_copy_physical_replication_slot", Sign::Keeps(Pin::Session)),
    (b"pg_copy_logical_replication_slot", Sign::Keeps(Pin::Session)),
    (b"pg_replication_origin_session_setup", Sign::Keeps(Pin::Session)),
    (b"pg_start_backup", Sign::Keeps(Pin::Session)),
    (b"pg_backup_start", Sign::Keeps(Pin::Session)),
    (b"hypopg_create_index", Sign::Keeps(Pin::Session)),
    (b"set_user", Sign::Keeps(Pin::Session)),
    (b"set_session_auth", Sign::Keeps(Pin::Session)),
    (b"set_limit", Sign::Keeps(Pin::Setting)),
    (b"INTO", Sign::Into),
    (b"TEMP", Sign::Temporary),
    (b"TEMPORARY", Sign::Temporary),
    (b"pg_temp", Sign::Temporary),
    (b"pg_settings", Sign::Settings),
    (b"synchronous_commit", Sign::Commit),
];

impl Need {
    /// What both need together.
    #[must_use]
    pub fn and(self, other: Need) -> Need {
        Need { session: self.session.min(other.session), hold: self.hold.max(other.hold) }
    }

    /// What one statement, or several in one text, need.
    pub fn of(sql: &[u8]) -> Need {
        use Hold::{Pinned, Shared, Transaction};
        use SessionKind::{Relaxed, Synchronous};
        let mut statements = statements(sql);
        let Some(first) = statements.next() else {
            return Need { session: Synchronous, hold: Shared };
        };
        let sets = first.begins_with(&["SET", "RESET"]);
        let resets = || std::str::from_utf8(sql).is_ok_and(is_reset_of_pool);
        if sets && tracks(sql) || resets() {
            // What follows its client needs a session for its own end only. It is the whole text:
            // of a setting among others, or beside a comment, nobody takes notice.
            return Need { session: Synchronous, hold: Transaction };
        }
        let mut need = Need::of_one(&first);
        for statement in statements {
            // Any of them may open a transaction or a COPY.
            need = need.and(Need::of_one(&statement));
            need.hold = need.hold.max(Transaction);
        }
        if matches!(need.hold, Pinned(_)) {
            // It stays for what the client writes later.
            need.session = Relaxed;
        }
        need
    }

    fn of_one(statement: &Statement) -> Need {
        use Hold::{Pinned, Shared, Transaction};
        use SessionKind::{Relaxed, Synchronous};
        const OF_TRANSACTION: [&str; 6] = [
            "LOCAL",
            "TRANSACTION",
            "CONSTRAINTS",
            "transaction_isolation",
            "transaction_read_only",
            "transaction_deferrable",
        ];
        let [keyword, second] = statement.words;
        let is = |word: &str| keyword.eq_ignore_ascii_case(word.as_bytes());
        let then = |word: &&str| second.eq_ignore_ascii_case(word.as_bytes());
        let has = |word: &&str| contains_word(statement.text, word);
        let (mut session, mut hold) = match keyword {
            _ if is("INSERT") || is("UPDATE") || is("DELETE") || is("MERGE") => (Relaxed, Shared),
            _ if is("WITH") => (Relaxed, Shared),
            _ if is("SELECT") || is("VALUES") || is("TABLE") => (Synchronous, Shared),
            _ if is("BEGIN") || is("START") || is("COPY") => (Relaxed, Transaction),
            _ if is("SET") && !OF_TRANSACTION.iter().any(then) => {
                (Synchronous, Pinned(Pin::Setting))
            }
            _ if is("RESET") => (Synchronous, Pinned(Pin::Setting)),
            _ if is("LISTEN") || is("UNLISTEN") => (Synchronous, Pinned(Pin::Listen)),
            _ if is("PREPARE") && !then(&"TRANSACTION") => (Synchronous, Pinned(Pin::Prepare)),
            _ if is("EXECUTE") || is("DEALLOCATE") => (Synchronous, Pinned(Pin::Prepare)),
            _ if is("LOAD") => (Synchronous, Pinned(Pin::Session)),
            _ => (Synchronous, Transaction),
        };
        let mut keep = |pin| hold = hold.max(Pinned(pin));
        let mut makes = is("CREATE") || is("DO") || is("EXPLAIN");
        let (mut temporary, mut settings, mut commit) = (false, false, false);
        for sign in signs(statement.text) {
            match sign {
                Sign::Keeps(pin) => keep(pin),
                Sign::Into => makes = true,
                Sign::Temporary => temporary = true,
                Sign::Settings => settings = true,
                Sign::Commit => commit = true,
            }
        }
        if !statement.legible {
            keep(Pin::Unread);
        }
        if settings && has(&"UPDATE") {
            keep(Pin::Setting);
        }
        if is("DECLARE") && has(&"HOLD") {
            keep(Pin::Cursor);
        }
        if makes && temporary {
            keep(Pin::Temporary);
        }
        if is("DO") && block_may_set(statement.text) {
            keep(Pin::Setting);
        }
        if commit && names_commit(statement) {
            (session, hold) = (Relaxed, hold.max(Transaction));
        }
        Need { session, hold }
    }
}

/// Whether a DO block may change settings: of what it runs no more is known than words, and not
/// those behind escapes.
fn block_may_set(text: &[u8]) -> bool {
    const SETS: [&str; 6] = ["SET", "RESET", "EXECUTE", "LISTEN", "UNLISTEN", "LOAD"];
    text.contains(&b'\\') || SETS.iter().any(|word| contains_word(text, word))
}

/// Whether a statement may change any setting, by a name that is not in it.
fn may_set(statement: &Statement) -> bool {
    let has = |word| contains_word(statement.text, word);
    has("set_config")
        || has("pg_settings") && has("UPDATE")
        || statement.begins_with(&["DO"]) && block_may_set(statement.text)
        || statement.begins_with(&["RESET"]) && has("ALL")
}

/// Whether a statement names the setting on which it depends whether a commit flushes, other than
/// to look at it.
fn names_commit(statement: &Statement) -> bool {
    let has = |word| contains_word(statement.text, word);
    let looks = || {
        let reads = statement.begins_with(&["SELECT"]) && !has("set_config");
        statement.begins_with(&["SHOW"]) || reads && (has("pg_settings") || has("current_setting"))
    };
    has("synchronous_commit") && !looks()
}

/// What a text does beside what it gives, as far as its words tell: read once, when it is prepared
/// or sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effects {
    /// Whether it may change how long its session waits when it commits.
    pub opts_out: bool,
    /// Whether it writes, other than through functions.
    pub writes: bool,
    /// Whether it writes, or calls a function by its name.
    pub acts: bool,
    /// Whether one of its statements may commit before it ends, as procedures do.
    pub commits_within: bool,
    /// Whether it may take numbers of sequences.
    pub may_call: bool,
    /// Whether it may change what other statements mean: which objects their names stand for, and
    /// which columns those have.
    pub redefines: bool,
    /// Whether it may have its session forget prepared statements.
    pub forgets: bool,
}

impl Effects {
    /// What is done by what nobody knows: what SQL prepared, or a function that is called by its
    /// number.
    pub const UNKNOWN: Effects = Effects {
        opts_out: false,
        writes: true,
        acts: true,
        commits_within: true,
        may_call: true,
        redefines: false,
        forgets: false,
    };

    /// Of a text, of which `change` is all that it does to settings where that follows its client.
    pub fn of(sql: &[u8], change: Option<&Change>) -> Effects {
        let all = statements(sql).map(|statement| Effects::of_one(&statement));
        let all = all.fold(Effects::default(), Effects::and);
        Effects { opts_out: change.map_or(all.opts_out, Change::opts_out), ..all }
    }

    /// Those of both.
    #[must_use]
    pub fn and(self, other: Effects) -> Effects {
        Effects {
            opts_out: self.opts_out || other.opts_out,
            writes: self.writes || other.writes,
            acts: self.acts || other.acts,
            commits_within: self.commits_within || other.commits_within,
            may_call: self.may_call || other.may_call,
            redefines: self.redefines || other.redefines,
            forgets: self.forgets || other.forgets,
        }
    }

    fn of_one(statement: &Statement) -> Effects {
        const READS: [&str; 9] =
            ["SELECT", "VALUES", "TABLE", "SHOW", "SET", "RESET", "DECLARE", "FETCH", "CLOSE"];
        const WHOLE: [&str; 14] = [
            "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES", "TABLE", "COPY",
            "DECLARE", "FETCH", "MOVE", "SHOW", "SET",
        ];
        let is = |any: &[&str]| statement.begins_with(any);
        let controls = statement.controls();
        let writes = !statement.legible || !(controls || is(&READS));
        Effects {
            opts_out: !statement.legible || names_commit(statement) || may_set(statement),
            writes,
            acts: writes || calls(statement.text),
            commits_within: !statement.legible || !(controls || is(&WHOLE)),
            may_call: !(controls || is(&["SET", "RESET", "SHOW"])),
            redefines: redefines(statement),
            forgets: is(&["DISCARD", "DEALLOCATE"]),
        }
    }
}

/// Whether a text may call a function by its name: a name stands before a parenthesis, or a comment
/// is among what is in front of one.
fn calls(text: &[u8]) -> bool {
    // Reserved, or never the name of a function.
    const NO_NAMES: [&[u8]; 24] = [
        b"ALL",
        b"AND",
        b"ANY",
        b"AS",
        b"BETWEEN",
        b"CASE",
        b"DISTINCT",
        b"ELSE",
        b"EXCEPT",
        b"EXISTS",
        b"FROM",
        b"HAVING",
        b"IN",
        b"INTERSECT",
        b"LATERAL",
        b"LIMIT",
        b"NOT",
        b"OFFSET",
        b"ON",
        b"OR",
        b"SELECT",
        b"THEN",
        b"UNION",
        b"USING",
    ];
    let has = |mark: &[u8]| text.windows(2).any(|two| two == mark);
    if text.contains(&b'(') && (has(b"--") || has(b"/*")) {
        return true;
    }
    let is_part =
        |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80 || b"_$\"".contains(byte);
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'\x0b';
    let opened = text.iter().enumerate().filter(|(_, byte)| **byte == b'(');
    let before = opened.map(|(at, _)| {
        let ends = text[..at].iter().rposition(|byte| !is_space(byte)).map_or(0, |at| at + 1);
        &text[..ends]
    });
    before.filter(|before| before.last().is_some_and(is_part)).any(|before| {
        let begins = before.iter().rposition(|byte| !is_part(byte)).map_or(0, |at| at + 1);
        let (front, word) = before.split_at(begins);
        let is_of_schema = front.iter().rev().find(|byte| !is_space(byte)) == Some(&b'.');
        is_of_schema || !NO_NAMES.iter().any(|of| word.eq_ignore_ascii_case(of))
    })
}

/// Whether a statement may change what others mean.
fn redefines(statement: &Statement) -> bool {
    const HARMLESS: [&str; 34] = [
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "MERGE",
        "WITH",
        "VALUES",
        "TABLE",
        "COPY",
        "DECLARE",
        "FETCH",
        "MOVE",
        "CLOSE",
        "SHOW",
        "EXPLAIN",
        "LOCK",
        "TRUNCATE",
        "VACUUM",
        "ANALYZE",
        "ANALYSE",
        "CLUSTER",
        "REINDEX",
        "REFRESH",
        "CHECKPOINT",
        "GRANT",
        "REVOKE",
        "COMMENT",
        "SECURITY",
        "LISTEN",
        "UNLISTEN",
        "NOTIFY",
        "PREPARE",
        "EXECUTE",
        "DEALLOCATE",
    ];
    const OF_PATHS: [&str; 4] = ["search_path", "ROLE", "AUTHORIZATION", "ALL"];
    let has = |of: &&str| contains_word(statement.text, of);
    if !statement.legible {
        true
    } else if statement.begins_with(&["SET", "RESET"]) {
        OF_PATHS.iter().any(has)
    } else {
        !(statement.controls() || statement.begins_with(&HARMLESS))
            || has(&"set_config")
            || has(&"pg_settings") && has(&"UPDATE")
    }
}

/// The name of the statement that a text deallocates, where that is all it does.
pub fn deallocated(sql: &[u8]) -> Option<Vec<u8>> {
    let mut statements = statements(sql);
    let statement = statements.next().filter(|first| first.begins_with(&["DEALLOCATE"]))?;
    if !statement.legible || statements.next().is_some() {
        return None;
    }
    let ([_, word], behind) = (statement.words, statement.behind.map(<[u8]>::trim_ascii));
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_$".contains(byte);
    let noise = word.eq_ignore_ascii_case(b"PREPARE") && !behind[1].is_empty();
    match behind[usize::from(noise)] {
        [b'"', quoted @ .., b'"'] if !quoted.contains(&b'"') => Some(quoted.to_vec()),
        [] => None,
        plain if plain.iter().all(is_part) && !plain.eq_ignore_ascii_case(b"ALL") => {
            Some(plain.to_ascii_lowercase())
        }
        _ => None,
    }
}

/// Whether a text is one change of a setting that follows its client.
fn tracks(sql: &[u8]) -> bool {
    std::str::from_utf8(sql).is_ok_and(|sql| Change::of(sql).is_some())
}

impl Statement<'_> {
    /// Whether its first word is one of these.
    fn begins_with(&self, any: &[&str]) -> bool {
        any.iter().any(|word| self.words[0].eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Whether it begins, ends or marks a transaction and does nothing else itself.
    fn controls(&self) -> bool {
        const WORDS: [&str; 8] =
            ["BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"];
        self.begins_with(&WORDS)
    }
}

fn signs(text: &[u8]) -> impl Iterator<Item = Sign> {
    words(text).filter_map(|word| {
        let known = SIGNS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name));
        known.map(|(_, sign)| *sign)
    })
}

/// The words of a text, those in strings and comments too.
fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
}

/// Whether a text has a word, whatever its case, not within a longer one.
pub fn contains_word(text: &[u8], word: &str) -> bool {
    words(text).any(|of| of.eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_deallocates_alone() {
        let of =
            |sql: &str| deallocated(sql.as_bytes()).map(|name| String::from_utf8(name).unwrap());
        assert_eq!(of("DEALLOCATE a1").as_deref(), Some("a1"));
        assert_eq!(of(" deallocate /* old */ PREPARE A_1 ; ").as_deref(), Some("a_1"));
        assert_eq!(of("DEALLOCATE prepare\"A b\"").as_deref(), Some("A b"));
        assert_eq!(of("DEALLOCATE prepare_1").as_deref(), Some("prepare_1"));
        for other in [
            "DEALLOCATE",
            "DEALLOCATE ALL",
            "DEALLOCATE PREPARE all;",
            "DEALLOCATE a; SELECT 1",
            "SELECT a",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn calls_are_found_by_the_parenthesis_behind_a_name() {
        for sql in [
            "SELECT f()",
            "SELECT \"F\" (1)",
            "SELECT a.f\n(1)",
            "SELECT f/**/(1)",
            "SELECT f -- ;\n(1)",
            "SELECT count(*) FROM t",
            "SELECT * FROM g(1)",
            "SELECT é(1)",
            "SELECT app . all(1)",
            "SELECT filter(1)",
            "SELECT f\x0b(1)",
            "CALL p()",
            "INSERT INTO t VALUES (1)",
            "DO 'a'",
        ] {
            assert!(effects(sql).acts, "{sql}");
        }
        for sql in [
            "SELECT a FROM t WHERE id = $1",
            "SELECT a FROM t WHERE id IN (1, 2) AND (b OR NOT (c))",
            "SELECT * FROM (SELECT 1) AS s JOIN u USING (id)",
            "BEGIN",
            "SET a = 1",
            "SHOW a",
        ] {
            assert!(!effects(sql).acts, "{sql}");
        }
    }

    fn effects(sql: &str) -> Effects {
        Effects::of(sql.as_bytes(), Change::of(sql).as_ref())
    }

    fn need(sql: &str) -> (SessionKind, Hold) {
        let need = Need::of(sql.as_bytes());
        (need.session, need.hold)
    }

    #[test]
    fn what_other_statements_mean_is_changed_by_definitions_and_paths() {
        for sql in [
            "ALTER TABLE t ADD a int",
            "SELECT 1; drop view v",
            "set local search_path = a",
            "RESET ALL",
            "SET ROLE x",
            "SELECT set_config('search_path', 'a', true)",
            "DO 'BEGIN END'",
            "whatever comes with another version",
        ] {
            assert!(effects(sql).redefines, "{sql}");
        }
        for sql in ["INSERT INTO t VALUES (1)", "BEGIN; select 1; COMMIT", "SET work_mem = 1", ""] {
            assert!(!effects(sql).redefines, "{sql}");
        }
    }

    #[test]
    fn what_runs_alone_on_any_session_is_told_by_its_keyword() {
        use Hold::{Pinned, Shared, Transaction};
        use SessionKind::{Relaxed, Synchronous};
        for (sql, expected) in [
            ("insert into t values (1)", (Relaxed, Shared)),
            ("  /* a /* b */ */ -- c\n UPDATE t SET a = 1;", (Relaxed, Shared)),
            ("WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a", (Relaxed, Shared)),
            ("(SELECT 1)", (Synchronous, Shared)),
            ("SELECT ';'", (Synchronous, Shared)),
            ("", (Synchronous, Shared)),
            (" ; ", (Synchronous, Shared)),
            ("BEGIN", (Relaxed, Transaction)),
            ("start transaction isolation level serializable", (Relaxed, Transaction)),
            ("COPY t FROM STDIN", (Relaxed, Transaction)),
            ("insert into t values (1); BEGIN", (Relaxed, Transaction)),
            ("SELECT 1; SELECT 2", (Synchronous, Transaction)),
            ("CREATE TABLE t (a int)", (Synchronous, Transaction)),
            ("VACUUM t", (Synchronous, Transaction)),
            ("SET LOCAL work_mem = 1", (Synchronous, Transaction)),
            ("SET work_mem = 1", (Synchronous, Transaction)),
            ("SET ROLE x", (Relaxed, Pinned(Pin::Setting))),
            ("SET seed = 0.5", (Relaxed, Pinned(Pin::Setting))),
            ("SET transaction_isolation = 'serializable'", (Synchronous, Transaction)),
            ("select SET_CONFIG('a', 'b', false)", (Relaxed, Pinned(Pin::Setting))),
            ("SET work_mem = 1; SELECT 1", (Relaxed, Pinned(Pin::Setting))),
            ("SELECT 1; RESET work_mem", (Relaxed, Pinned(Pin::Setting))),
            ("SELECT pg_try_advisory_lock(1)", (Relaxed, Pinned(Pin::AdvisoryLock))),
            ("SELECT pg_try_advisory_lock_shared(1)", (Relaxed, Pinned(Pin::AdvisoryLock))),
            ("SELECT pg_advisory_xact_lock(1)", (Synchronous, Shared)),
            (
                "SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;",
                (Synchronous, Transaction),
            ),
            ("LISTEN a", (Relaxed, Pinned(Pin::Listen))),
            ("NOTIFY a", (Synchronous, Transaction)),
            ("PREPARE a AS SELECT 1", (Relaxed, Pinned(Pin::Prepare))),
            ("PREPARE TRANSACTION 'a'", (Synchronous, Transaction)),
            ("CREATE TEMP TABLE a (b int)", (Relaxed, Pinned(Pin::Temporary))),
            ("CREATE OR REPLACE TEMP VIEW a AS SELECT 1", (Relaxed, Pinned(Pin::Temporary))),
            ("CREATE TABLE pg_temp.a (b int)", (Relaxed, Pinned(Pin::Temporary))),
            ("DO $$BEGIN CREATE TEMP TABLE a (b int); END$$", (Relaxed, Pinned(Pin::Temporary))),
            ("SELECT 1 AS a INTO TEMP b", (Relaxed, Pinned(Pin::Temporary))),
            ("DECLARE c CURSOR WITH HOLD FOR SELECT 1", (Relaxed, Pinned(Pin::Cursor))),
            ("INSERT INTO t VALUES (currval('s'))", (Relaxed, Pinned(Pin::Sequence))),
            ("DISCARD ALL", (Synchronous, Transaction)),
            ("SELECT 'a\\'", (Relaxed, Pinned(Pin::Unread))),
            ("SELECT $$a", (Relaxed, Pinned(Pin::Unread))),
            ("EXPLAIN ANALYZE CREATE TEMP TABLE a AS SELECT 1", (Relaxed, Pinned(Pin::Temporary))),
        ] {
            assert_eq!(need(sql), expected, "{sql}");
        }
    }

    #[test]
    fn what_a_quote_or_a_comment_seems_to_hide_is_found() {
        use Hold::Pinned;
        for hides in [
            "SELECT 1 -- it's\n;",
            "--\r",
            "SELECT 1 /* ' */;",
            "SELECT E'\\'';",
            "SELECT E'\\\\', $$'$$;",
            "SELECT $a$ ' $b$ $a$;",
            "SELECT \"'\";",
            "SELECT U&'!0061\"';",
            "SELECT 1 @-- '\r;",
        ] {
            for (sql, pin) in [
                ("SET ROLE x", Pin::Setting),
                ("LISTEN x", Pin::Listen),
                ("PREPARE x AS SELECT 1", Pin::Prepare),
                ("CREATE TEMP TABLE x ()", Pin::Temporary),
                ("SET search_path = x", Pin::Setting),
                ("SET synchronous_commit = off", Pin::Setting),
            ] {
                let sql = format!("{hides}{sql}");
                assert_eq!(need(&sql), (SessionKind::Relaxed, Pinned(pin)), "{sql}");
                assert!(!tracks(sql.as_bytes()), "{sql}");
            }
            let copy = format!("{hides}COPY t FROM STDIN");
            assert_eq!(need(&copy), (SessionKind::Relaxed, Hold::Transaction), "{copy}");
            let writes = format!("{hides}DELETE FROM t");
            assert!(effects(&writes).writes, "{writes}");
            let drops = format!("{hides}DROP TABLE t");
            assert!(effects(&drops).redefines, "{drops}");
            let deallocates = format!("{hides}DEALLOCATE a");
            let alone = hides == "--\r";
            assert_eq!(deallocated(deallocates.as_bytes()).is_some(), alone, "{deallocates}");
        }
        // Followed is only what is a text of its own.
        for sql in ["; SET x = 1", "SET x = 1; ;", "SET x = 1; -- a", "SET x = 1 /* a */"] {
            assert_eq!(need(sql), (SessionKind::Relaxed, Pinned(Pin::Setting)), "{sql}");
        }
    }

    #[test]
    fn settings_are_changed_by_a_view_and_within_blocks_too() {
        for sql in [
            "UPDATE pg_settings SET setting = 'off' WHERE name = 'synchronous_commit'",
            "WITH a AS (SELECT 1) update pg_catalog.pg_settings SET setting = 1",
            "EXPLAIN ANALYZE UPDATE \"pg_settings\" SET setting = 1",
            "DO 'BEGIN SET synchronous_commit = off; END'",
            "do $$BEGIN RESET work_mem; END$$",
            "DO $$BEGIN PERFORM set_config('a.b', 'c', false); END$$",
            "DO $$BEGIN EXECUTE format('%s x = 1', a); END$$",
            "DO E'BEGIN\\nLISTEN x; END'",
        ] {
            assert_eq!(need(sql), (SessionKind::Relaxed, Hold::Pinned(Pin::Setting)), "{sql}");
        }
        assert_eq!(need("SELECT * FROM pg_settings").1, Hold::Shared);
        assert_eq!(need("DO 'BEGIN PERFORM 1; END'").1, Hold::Transaction);
    }

    #[test]
    fn who_names_what_flushes_commits_does_not_run_where_they_flush() {
        for sql in [
            "SET LOCAL synchronous_commit = off",
            "SET LOCAL \"synchronous_commit\" TO local",
            "INSERT INTO t VALUES (1); SET LOCAL Synchronous_Commit = off",
            "SELECT set_config('synchronous_commit', 'off', true), current_setting('a')",
            "SELECT own_function('synchronous_commit')",
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql SET synchronous_commit = off AS ''",
            "DO 'BEGIN SET synchronous_commit = off; END'",
            "SET synchronous_commit = off; SELECT 1",
            "SET synchronous_commit = $$off$$",
            "SET LOCAL U&\"synchronous\\005fcommit\" = off",
        ] {
            assert_eq!(need(sql).0, SessionKind::Relaxed, "{sql}");
            assert!(need(sql).1 >= Hold::Transaction, "{sql}");
            assert!(effects(sql).opts_out, "{sql}");
        }
        for sql in [
            "SET synchronous_commit = off",
            "RESET synchronous_commit",
            "SHOW synchronous_commit",
            "SELECT current_setting('synchronous_commit')",
            "SELECT setting FROM pg_settings WHERE name = 'synchronous_commit'",
            "SELECT 1",
        ] {
            assert_eq!(need(sql).0, SessionKind::Synchronous, "{sql}");
            // What follows its client is known to change it.
            assert_eq!(effects(sql).opts_out, Change::of(sql).is_some(), "{sql}");
        }
    }

    #[test]
    fn a_long_text_is_classified() {
        let statement = ["SET a = 1;", "SELECT 1;", "DO '';", "DEALLOCATE a;", "pg_settings "];
        for piece in ["/*;", "--;", ";", "$a", "'", "E'\\", "--\r"].iter().chain(&statement) {
            let text = piece.repeat(1024 * 1024 / piece.len());
            let text = text.as_bytes();
            let _ = (Need::of(text), Effects::of(text, None));
            assert_eq!(deallocated(text), None, "{piece}");
        }
    }

    #[test]
    fn any_bytes_are_classified() {
        for sql in [&b"\xff\xfe"[..], b"/*", b"--", b"'", b"\"", b";;;", b"/*/", b"(((("] {
            let _ = Need::of(sql);
        }
    }
}
