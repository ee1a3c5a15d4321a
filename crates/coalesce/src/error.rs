//! What became of a row that was not written.

use std::path::PathBuf;

use tokio_postgres::Error;
use tokio_postgres::error::DbError;

/// Why a row is not known to be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The row does not fit the table as it was given; nothing was sent.
    #[error("{0}")]
    Row(String),
    /// The server refused this row; it is not in the table.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The row is not in the table: what happened is not the row's doing, and went on for as
    /// long as [`Retry::within`](crate::Retry::within).
    #[error("not written: {0}")]
    Failed(String),
    /// The row may be in the table or not: the connection was lost while its COMMIT was on its
    /// way, and there is nothing to tell by.
    #[error("not known whether it was written: {0}")]
    Unknown(String),
    /// There is no room; [`write`](crate::Coalescer::write) would have waited.
    #[error("no room: {rows} rows of {bytes} bytes wait to be written")]
    Full {
        /// Rows that wait or are on their way.
        rows: usize,
        /// Their bytes.
        bytes: usize,
    },
    /// The coalescer was closed before the row was sent.
    #[error("the coalescer is closed")]
    Closed,
}

/// What the server said of a row that it refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The SQLSTATE.
    pub sqlstate: String,
    /// The constraint, where one was violated.
    pub constraint: Option<String>,
    /// The server's message, with its detail.
    pub message: String,
    /// Whether the row is among the dead letters.
    pub dead_letter: bool,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (SQLSTATE {})", self.message, self.sqlstate)
    }
}

impl From<&DbError> for Refusal {
    fn from(error: &DbError) -> Self {
        let message = match error.detail() {
            Some(detail) => format!("{}: {detail}", error.message()),
            None => error.message().to_owned(),
        };
        Self {
            sqlstate: error.code().code().to_owned(),
            constraint: error.constraint().map(str::to_owned),
            message,
            dead_letter: false,
        }
    }
}

/// Why a coalescer could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The connection string is not one.
    #[error("the connection string: {0}")]
    Url(#[source] Error),
    /// The server could not be reached, or refused.
    #[error("{}", tell(.0))]
    Server(#[source] Error),
    /// The table is not as it was named.
    #[error("table {table}: {reason}")]
    Table {
        /// As it was named.
        table: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The options do not go together.
    #[error("{0}")]
    Options(String),
    /// The file for dead letters cannot be opened.
    #[error("the file for dead letters, {}: {error}", .path.display())]
    DeadLetters {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
}

impl From<Error> for ConnectError {
    fn from(error: Error) -> Self {
        Self::Server(error)
    }
}

/// An error of the server in its own words, another with its cause.
pub(crate) fn tell(error: &Error) -> String {
    if let Some(error) = error.as_db_error() {
        return Refusal::from(error).to_string();
    }
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
