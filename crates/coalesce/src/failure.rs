//! What a failed attempt says: of the rows, of the moment, or nothing.

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity};

use crate::error::{Refusal, tell};

/// Why an attempt at a batch did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Rolled back on account of one of its rows.
    Row { refusal: Refusal, which: Which },
    /// Rolled back on account of the statement: every row would fail.
    Statement(Refusal),
    /// Rolled back for something that may pass.
    Passing(String),
    /// Rolled back, and the session is of no more use: what it prepared is no longer so, or its
    /// server takes no writes.
    Stale(String),
    /// The connection was lost when the transaction could already be committing.
    Unknown(String),
    /// Committed, but the wait for a synchronous standby was cancelled.
    NotReplicated,
    /// The connection's row in the table of lanes says that the batch is written.
    Written,
    /// The connection's row in the table of lanes is gone or ahead: somebody else writes this
    /// source now.
    Displaced,
}

/// Which row of a COPY was refused, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// The server did not say.
    Untold,
    /// The line that COPY was at, which may be behind the row where rows are written together.
    Near(usize),
    /// The row itself: COPY's own checks of values and constraints, also those of the indexes,
    /// name the line that they are about, and nothing else had a part in it.
    /// `CopyMultiInsertBufferFlush` in PostgreSQL's `copyfrom.c`.
    Exactly(usize),
}

impl Failure {
    /// What `error` says of a transaction of which `committing` tells whether its COMMIT, or a
    /// statement that is its own transaction, had been sent.
    pub(crate) fn of(error: &Error, committing: bool) -> Self {
        let lost = |cause: String| {
            if committing { Self::Unknown(cause) } else { Self::Passing(cause) }
        };
        let Some(said) = error.as_db_error() else {
            return lost(tell(error));
        };
        // A session that ends while it commits says so, and may have committed.
        if !matches!(said.parsed_severity(), Some(Severity::Error)) {
            return lost(tell(error));
        }
        Self::of_error(said)
    }

    /// What an ERROR says, after which the server has rolled back.
    fn of_error(error: &DbError) -> Self {
        let refusal = Refusal::from(error);
        match error.code().code() {
            "40001" | "40P01" | "55P03" | "57014" | "25P02" => Self::Passing(refusal.to_string()),
            // A server that became a standby: another host may be the primary now.
            "25006" => Self::Stale(refusal.to_string()),
            state => match &state[..2] {
                "08" | "53" | "57" => Self::Passing(refusal.to_string()),
                // "cached plan must not change result type", and statements that a pooler lost.
                "26" => Self::Stale(refusal.to_string()),
                _ if error.routine() == Some("RevalidateCachedQuery") => {
                    Self::Stale(refusal.to_string())
                }
                // A policy's refusal of a row has the code of a missing privilege.
                _ if error.routine() == Some("ExecWithCheckOptions") => {
                    Self::Row { refusal, which: Which::Untold }
                }
                "42" | "0A" | "25" | "28" | "3D" | "3F" => Self::Statement(refusal),
                class => Self::Row { refusal, which: which(error.where_(), class) },
            },
        }
    }
}

/// The row of a COPY that an error's context names: "COPY events, line 17, column payload".
fn which(context: Option<&str>, class: &str) -> Which {
    let Some(row) = context.and_then(row_of) else {
        return Which::Untold;
    };
    // A trigger, a function or another server has a line of its own in the context.
    let alone = context.is_some_and(|context| context.lines().count() == 1);
    if alone && matches!(class, "22" | "23") { Which::Exactly(row) } else { Which::Near(row) }
}

fn row_of(context: &str) -> Option<usize> {
    let line = context.lines().find_map(|line| line.strip_prefix("COPY "))?;
    let (_, number) = line.rsplit_once(", line ")?;
    let digits = number.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse::<usize>().ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_copys_own_word_about_a_value_or_a_constraint_is_taken_for_exact() {
        let alone = Some("COPY events, line 17, column payload: \"a\nb\"");
        assert_eq!(which(Some("COPY events, line 17"), "23"), Which::Exactly(16));
        assert_eq!(which(Some("COPY events, line 17, column payload"), "22"), Which::Exactly(16));
        // A value with a line break makes the context longer than it is.
        assert_eq!(which(alone, "22"), Which::Near(16));
        assert_eq!(which(Some("COPY events, line 17"), "54"), Which::Near(16));
        let function = Some("PL/pgSQL function f() line 3 at RAISE\nCOPY events, line 17");
        assert_eq!(which(function, "23"), Which::Near(16));
        assert_eq!(which(Some("PL/pgSQL function f() line 3 at RAISE"), "23"), Which::Untold);
        assert_eq!(which(None, "23"), Which::Untold);
    }
}
