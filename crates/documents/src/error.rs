//! What can go wrong.

use std::net::SocketAddr;

use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

use crate::key::Key;

/// Why the service is not there.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The address cannot be had.
    #[error("cannot listen on {address}: {error}; give another with --listen")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// The server cannot be asked.
    #[error("the server: {0}")]
    Server(String),
    /// The tables are not those of the workload.
    #[error(
        "the database has no {0} of the workload documents: --create makes its tables and data"
    )]
    NoSchema(&'static str),
    /// Nothing would keep two documents from having one identity.
    #[error(
        "the table alias has no unique index by what it is found by (partition_key, referential_id), \
         so one identity could have two documents: create the tables with -o referential_index=true"
    )]
    NotUnique,
}

/// Why a request is not done.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such document.
    #[error("there is no such document")]
    NotFound,
    /// It has another version.
    #[error("the document has version {0}")]
    OtherVersion(i32),
    /// Its identity belongs to a document of another resource.
    #[error("this identity is that of a document of {0}")]
    OtherResource(String),
    /// It refers to what does not exist.
    #[error("no document has the identity {}", list(.0))]
    Missing(Vec<Key>),
    /// Others refer to it.
    #[error("other documents refer to it")]
    Referred,
    /// What it is cannot be stored.
    #[error("the server does not take the document: {0}")]
    Unfit(String),
    /// It met others each time it was tried. Nothing is written.
    #[error("others were writing the same; nothing is written, try again")]
    Contended,
    /// Another version than a retry saw; an attempt that met others.
    #[error("it met another transaction ({0})")]
    Met(String),
    /// No session was free in time. Nothing is written.
    #[error("all connections are busy; nothing is written, try again")]
    Exhausted,
    /// The server is away or gave up. Nothing is written.
    #[error("the server cannot do this now ({0}); nothing is written, try again")]
    Away(String),
    /// The server went away while it committed.
    #[error("the connection was lost in the commit: whether it is written is not known")]
    Unknown,
    /// What should not be.
    #[error("the server: {0}")]
    Server(String),
}

fn list(keys: &[Key]) -> String {
    let keys: Vec<String> = keys.iter().map(Key::to_string).collect();
    keys.join(", ")
}

impl StoreError {
    /// Of a statement after which nothing is written.
    pub(crate) fn of(error: &Error) -> Self {
        let Some(said) = error.as_db_error() else {
            let told = tell(error);
            return if error.is_closed() || is_io(error) {
                Self::Away(told)
            } else {
                Self::Server(told)
            };
        };
        let told = said.message().to_owned();
        match said.code() {
            code if [
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::LOCK_NOT_AVAILABLE,
                SqlState::FOREIGN_KEY_VIOLATION,
                SqlState::UNIQUE_VIOLATION,
            ]
            .contains(code) =>
            {
                Self::Met(code.code().to_owned())
            }
            // What is no jsonb, or holds what none can: a zero, a number beyond all bounds.
            code if code.code().starts_with("22") => Self::Unfit(told),
            code if ["53", "54", "57", "08"].iter().any(|class| code.code().starts_with(class)) => {
                Self::Away(told)
            }
            _ if ends_session(error) => Self::Away(told),
            _ => Self::Server(told),
        }
    }

    /// Of a statement that commits.
    pub(crate) fn of_commit(error: &Error) -> Self {
        match error.as_db_error() {
            None => Self::Unknown,
            // Its last words may come after the commit.
            Some(_) if ends_session(error) => Self::Unknown,
            Some(_) => Self::of(error),
        }
    }
}

fn ends_session(error: &Error) -> bool {
    let severity = error.as_db_error().and_then(|said| said.parsed_severity());
    matches!(severity, Some(Severity::Fatal | Severity::Panic))
}

fn is_io(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.is::<std::io::Error>())
}

/// An error of the server in its own words, another with its cause.
pub(crate) fn tell(error: &Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(said), _) => said.message().to_owned(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}
