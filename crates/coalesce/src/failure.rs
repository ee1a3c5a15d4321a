//! What a failed attempt says: of the rows, of the moment, or nothing.

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity};

use crate::error::{Refusal, tell};

/// Why an attempt at a batch did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Rolled back on account of one of its rows; which, where the server said so.
    Row { refusal: Refusal, at: Option<usize> },
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
                    Self::Row { refusal, at: None }
                }
                "42" | "0A" | "25" | "28" | "3D" | "3F" => Self::Statement(refusal),
                _ => Self::Row { refusal, at: line_of(error) },
            },
        }
    }
}

/// The row of a COPY that an error names, from 0: "COPY events, line 17, column payload".
fn line_of(error: &DbError) -> Option<usize> {
    let context = error.where_()?;
    let line = context.lines().find_map(|line| line.strip_prefix("COPY "))?;
    let (_, number) = line.rsplit_once(", line ")?;
    let digits = number.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse::<usize>().ok()?.checked_sub(1)
}
