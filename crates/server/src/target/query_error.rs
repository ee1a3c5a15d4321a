//! Why a query has no answer.

use std::time::Duration;

use tokio_postgres::error::{DbError, SqlState};

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The server refused it.
    #[error("{} (SQLSTATE {})", .0.message(), .0.code().code())]
    Refused(Box<DbError>),
    /// It took too long.
    #[error("no answer within {} s to: {query}; the server is busy, stuck or waits for a lock", limit.as_secs_f64())]
    Late {
        /// Its beginning.
        query: String,
        /// How long was waited.
        limit: Duration,
    },
    /// There is no connection any more.
    #[error("the connection to the server is gone: {0}")]
    Lost(String),
    /// The answer is not of the kind that was asked for.
    #[error("the server's answer cannot be read: column {column}: {why}")]
    Malformed {
        /// Which, counted from 1.
        column: usize,
        /// Why.
        why: String,
    },
    /// The answer is none to what was asked.
    #[error("the server's answer makes no sense: {0}")]
    Nonsense(String),
    /// Another number of rows than there must be.
    #[error("{0}")]
    Rows(String),
}

impl QueryError {
    /// What the server said, where it refused.
    pub fn as_db_error(&self) -> Option<&DbError> {
        match self {
            QueryError::Refused(said) => Some(said),
            _ => None,
        }
    }

    /// The SQLSTATE, where the server refused.
    pub fn code(&self) -> Option<&SqlState> {
        self.as_db_error().map(DbError::code)
    }
}

/// The innermost cause, which is what happened.
pub(super) fn deepest(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
