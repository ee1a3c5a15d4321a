//! What a statement needs of a server session, by its leading keyword and a few names.
//!
//! No grammar: a wrong guess may cost a flush or a session of its own, never an answer that is
//! told too early. A SELECT that writes through a function runs on a session that flushes by
//! itself, and anything not known runs alone on a session that its client keeps.

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
    /// LOAD, or a change of the session's user.
    Session,
    /// Its pool gives sessions back when their clients leave.
    Pooling,
}

impl Pin {
    /// Every reason.
    pub const ALL: [Pin; 9] = [
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

/// Functions whose effect or whose input is state of the session.
const SESSION_FUNCTIONS: [(&[u8], Pin); 10] = [
    (b"set_config", Pin::Setting),
    (b"pg_advisory_lock", Pin::AdvisoryLock),
    (b"pg_try_advisory_lock", Pin::AdvisoryLock),
    (b"pg_advisory_unlock", Pin::AdvisoryLock),
    (b"pg_advisory_lock_shared", Pin::AdvisoryLock),
    (b"pg_try_advisory_lock_shared", Pin::AdvisoryLock),
    (b"pg_advisory_unlock_shared", Pin::AdvisoryLock),
    (b"pg_advisory_unlock_all", Pin::AdvisoryLock),
    (b"lastval", Pin::Sequence),
    (b"currval", Pin::Sequence),
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
        if std::str::from_utf8(sql).is_ok_and(is_reset_of_pool) {
            return Need { session: Synchronous, hold: Transaction };
        }
        let mut need: Option<Need> = None;
        let mut rest = sql;
        let (mut statements, mut sets) = (0, false);
        loop {
            let (keyword, after) = keyword(rest);
            let (statement, following) = split(rest);
            let words = Words(after);
            let is = |word: &str| keyword.eq_ignore_ascii_case(word.as_bytes());
            let (session, hold) = match keyword.len() {
                0 => (Synchronous, Shared),
                _ if is("INSERT") || is("UPDATE") || is("DELETE") || is("MERGE") => {
                    (Relaxed, Shared)
                }
                _ if is("WITH") => (Relaxed, Shared),
                _ if is("SELECT") || is("VALUES") || is("TABLE") => (Synchronous, Shared),
                _ if is("BEGIN") || is("START") || is("COPY") => (Relaxed, Transaction),
                _ if is("COMMIT") || is("END") || is("ROLLBACK") || is("ABORT") => {
                    (Synchronous, Transaction)
                }
                // What follows its client needs a session for its own end only.
                _ if (is("SET") || is("RESET")) && tracks(statement) => (Synchronous, Transaction),
                _ if is("SET") && !words.begin_with(&["LOCAL", "TRANSACTION", "CONSTRAINTS"]) => {
                    (Synchronous, Pinned(Pin::Setting))
                }
                _ if is("RESET") => (Synchronous, Pinned(Pin::Setting)),
                _ if is("LISTEN") || is("UNLISTEN") => (Synchronous, Pinned(Pin::Listen)),
                _ if is("PREPARE") && !words.begin_with(&["TRANSACTION"]) => {
                    (Synchronous, Pinned(Pin::Prepare))
                }
                _ if is("EXECUTE") || is("DEALLOCATE") => (Synchronous, Pinned(Pin::Prepare)),
                _ if is("LOAD") => (Synchronous, Pinned(Pin::Session)),
                _ => (Synchronous, Transaction),
            };
            sets |= (is("SET") || is("RESET")) && tracks(statement);
            let mut hold = hold;
            if is("DECLARE") && contains_word(statement, b"HOLD") {
                hold = Pinned(Pin::Cursor);
            }
            if is("CREATE") || is("DO") || contains_word(statement, b"INTO") {
                let temporary: [&[u8]; 3] = [b"TEMP", b"TEMPORARY", b"pg_temp"];
                if temporary.iter().any(|word| contains_word(statement, word)) {
                    hold = hold.max(Pinned(Pin::Temporary));
                }
            }
            for (name, pin) in SESSION_FUNCTIONS {
                if contains_word(statement, name) {
                    hold = hold.max(Pinned(pin));
                }
            }
            let this = Need { session, hold };
            need = Some(match need {
                // An empty statement behind a semicolon asks for nothing.
                Some(before) if keyword.is_empty() => before,
                Some(before) => {
                    statements += 1;
                    before.and(this)
                }
                None => {
                    statements += usize::from(!keyword.is_empty());
                    this
                }
            });
            match following {
                Some(following) => rest = following,
                None => break,
            }
        }
        let mut need = need.unwrap_or(Need { session: Synchronous, hold: Shared });
        if matches!(need.hold, Pinned(_)) {
            // It stays for what the client writes later.
            need.session = Relaxed;
        }
        if statements > 1 && sets {
            // A setting among other statements is not followed.
            return Need { session: Relaxed, hold: need.hold.max(Pinned(Pin::Setting)) };
        }
        if statements > 1 {
            // Any of them may open a transaction or a COPY.
            return Need { session: need.session, hold: need.hold.max(Transaction) };
        }
        need
    }
}

/// Whether a text is of statements that write nothing but through functions.
pub fn only_reads(sql: &[u8]) -> bool {
    const WORDS: [&[u8]; 18] = [
        b"",
        b"SELECT",
        b"VALUES",
        b"TABLE",
        b"SHOW",
        b"SET",
        b"RESET",
        b"BEGIN",
        b"START",
        b"COMMIT",
        b"END",
        b"ROLLBACK",
        b"ABORT",
        b"SAVEPOINT",
        b"RELEASE",
        b"DECLARE",
        b"FETCH",
        b"CLOSE",
    ];
    let mut rest = Some(sql);
    while let Some(sql) = rest {
        if !WORDS.iter().any(|word| keyword(sql).0.eq_ignore_ascii_case(word)) {
            return false;
        }
        rest = split(sql).1;
    }
    true
}

/// Whether a text may change what other statements mean: which objects their names stand for,
/// and which columns those have.
pub fn redefines(sql: &[u8]) -> bool {
    const HARMLESS: [&[u8]; 43] = [
        b"",
        b"SELECT",
        b"INSERT",
        b"UPDATE",
        b"DELETE",
        b"MERGE",
        b"WITH",
        b"VALUES",
        b"TABLE",
        b"COPY",
        b"BEGIN",
        b"START",
        b"COMMIT",
        b"END",
        b"ROLLBACK",
        b"ABORT",
        b"SAVEPOINT",
        b"RELEASE",
        b"DECLARE",
        b"FETCH",
        b"MOVE",
        b"CLOSE",
        b"SHOW",
        b"EXPLAIN",
        b"LOCK",
        b"TRUNCATE",
        b"VACUUM",
        b"ANALYZE",
        b"ANALYSE",
        b"CLUSTER",
        b"REINDEX",
        b"REFRESH",
        b"CHECKPOINT",
        b"GRANT",
        b"REVOKE",
        b"COMMENT",
        b"SECURITY",
        b"LISTEN",
        b"UNLISTEN",
        b"NOTIFY",
        b"PREPARE",
        b"EXECUTE",
        b"DEALLOCATE",
    ];
    const OF_PATHS: [&[u8]; 4] = [b"search_path", b"ROLE", b"AUTHORIZATION", b"ALL"];
    let mut rest = Some(sql);
    while let Some(sql) = rest {
        let (statement, following) = split(sql);
        let (word, _) = keyword(sql);
        let is = |of: &&[u8]| word.eq_ignore_ascii_case(of);
        let redefines = if [&b"SET"[..], b"RESET"].iter().any(is) {
            OF_PATHS.iter().any(|of| contains_word(statement, of))
        } else {
            !HARMLESS.iter().any(is) || contains_word(statement, b"set_config")
        };
        if redefines {
            return true;
        }
        rest = following;
    }
    false
}

/// The name of the statement that a text deallocates, where that is all it does.
pub fn deallocated(sql: &[u8]) -> Option<Vec<u8>> {
    let (word, rest) = keyword(sql);
    if !word.eq_ignore_ascii_case(b"DEALLOCATE") {
        return None;
    }
    let rest = rest.trim_ascii();
    let rest = rest.strip_suffix(b";").unwrap_or(rest).trim_ascii_end();
    let (noise, after) = keyword(rest);
    let noise = noise.eq_ignore_ascii_case(b"PREPARE")
        && after.first().is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'"');
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_$".contains(byte);
    match if noise { after.trim_ascii_start() } else { rest } {
        [b'"', quoted @ .., b'"'] if !quoted.contains(&b'"') => Some(quoted.to_vec()),
        plain if plain.iter().all(is_part) && !plain.eq_ignore_ascii_case(b"ALL") => {
            Some(plain.to_ascii_lowercase())
        }
        _ => None,
    }
}

fn tracks(statement: &[u8]) -> bool {
    std::str::from_utf8(statement).is_ok_and(|sql| Change::of(sql).is_some())
}

/// The first word of a text, after blanks, comments and parentheses, and what follows it.
fn keyword(sql: &[u8]) -> (&[u8], &[u8]) {
    let mut rest = sql;
    loop {
        rest = match rest {
            [b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' | b'\x0b' | b'(', after @ ..] => after,
            [b'-', b'-', after @ ..] => {
                let end = after.iter().position(|&byte| byte == b'\n').unwrap_or(after.len());
                &after[end..]
            }
            [b'/', b'*', after @ ..] => after_comment(after),
            _ => break,
        };
    }
    let end = rest.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(rest.len());
    rest.split_at(end)
}

/// What follows a comment that has begun; they nest.
fn after_comment(mut rest: &[u8]) -> &[u8] {
    let mut depth = 1;
    while depth > 0 {
        rest = match rest {
            [b'/', b'*', after @ ..] => {
                depth += 1;
                after
            }
            [b'*', b'/', after @ ..] => {
                depth -= 1;
                after
            }
            [_, after @ ..] => after,
            [] => return rest,
        };
    }
    rest
}

/// The first statement of a text, and what follows its semicolon. Quotes are skipped roughly:
/// a semicolon that is taken for the end of a statement and is none costs a session, no more.
fn split(sql: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut at = 0;
    while let Some(&byte) = sql.get(at) {
        match byte {
            b'\'' | b'"' => {
                let rest = &sql[at + 1..];
                match rest.iter().position(|&other| other == byte) {
                    Some(end) => at += end + 1,
                    None => return (sql, None),
                }
            }
            b';' => return (&sql[..at], Some(&sql[at + 1..])),
            _ => {}
        }
        at += 1;
    }
    (sql, None)
}

/// The words after the keyword.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn begin_with(&self, any: &[&str]) -> bool {
        let (word, _) = keyword(self.0);
        any.iter().any(|of| word.eq_ignore_ascii_case(of.as_bytes()))
    }
}

/// Whether a text has a word, whatever its case, not within a longer one.
fn contains_word(text: &[u8], word: &[u8]) -> bool {
    let (low, high) = (word[0].to_ascii_lowercase(), word[0].to_ascii_uppercase());
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let mut at = 0;
    while let Some(found) =
        text[at..].iter().position(|&byte| byte == low || byte == high).map(|place| at + place)
    {
        let end = found + word.len();
        if text.get(found..end).is_some_and(|part| part.eq_ignore_ascii_case(word))
            && (found == 0 || !is_part(&text[found - 1]))
            && !text.get(end).is_some_and(is_part)
        {
            return true;
        }
        at = found + 1;
    }
    false
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
        for other in
            ["DEALLOCATE ALL", "DEALLOCATE PREPARE all;", "DEALLOCATE a; SELECT 1", "SELECT a"]
        {
            assert_eq!(of(other), None, "{other}");
        }
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
            assert!(redefines(sql.as_bytes()), "{sql}");
        }
        for sql in ["INSERT INTO t VALUES (1)", "BEGIN; select 1; COMMIT", "SET work_mem = 1", ""] {
            assert!(!redefines(sql.as_bytes()), "{sql}");
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
        ] {
            assert_eq!(need(sql), expected, "{sql}");
        }
    }

    #[test]
    fn any_bytes_are_classified() {
        for sql in [&b"\xff\xfe"[..], b"/*", b"--", b"'", b"\"", b";;;", b"/*/", b"(((("] {
            let _ = Need::of(sql);
        }
    }
}
