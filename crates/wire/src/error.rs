//! What can go wrong between us and a server.

use std::io;
use std::time::Duration;

use thiserror::Error;

use crate::FrameError;
use crate::backend::ErrorFields;
use crate::read::Malformed;

/// Why a connection could not be made, or broke.
#[derive(Debug, Error)]
pub enum WireError {
    /// The socket could not be opened.
    #[error("cannot connect to {target}: {source}; is the server running there?")]
    Connect {
        /// Socket path or host and port.
        target: String,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing came in the time allowed.
    #[error("{target} did not answer within {} s", .limit.as_secs_f64())]
    Timeout {
        /// Socket path or host and port.
        target: String,
        /// The connect timeout.
        limit: Duration,
    },
    /// Reading or writing failed.
    #[error("the connection to the server broke: {0}")]
    Io(io::Error),
    /// The server closed the connection without a message.
    #[error("the server closed the connection unexpectedly; its log may say why")]
    Closed,
    /// The bytes are not PostgreSQL's protocol.
    #[error("the server does not speak PostgreSQL's protocol, or the stream is damaged: {0}")]
    Frame(#[from] FrameError),
    /// A message has the wrong shape inside.
    #[error("the server sent a damaged message: {0}")]
    Malformed(#[from] Malformed),
    /// A message that has no place here.
    #[error("the server sent message '{}' while {during}", char::from(*.tag))]
    Unexpected {
        /// Its type byte.
        tag: u8,
        /// What was going on.
        during: &'static str,
    },
    /// The server refused or failed.
    #[error("{0}")]
    Server(Box<ErrorFields>),
    /// The server wants a password and none is known.
    #[error(
        "the server wants a password for user \"{user}\"; set PGPASSWORD, a .pgpass entry or password= in the connection string"
    )]
    PasswordNeeded {
        /// The user that was to log in.
        user: String,
    },
    /// The server wants an authentication method that is not built in.
    #[error(
        "the server wants {method} authentication, which is not supported; use scram-sha-256, md5, password, cert, peer or trust in pg_hba.conf"
    )]
    Authentication {
        /// Name of the method.
        method: String,
    },
    /// The SCRAM exchange went wrong.
    #[error("SCRAM authentication failed: {0}")]
    Scram(String),
    /// TLS was asked for and cannot be had, or failed.
    #[error("TLS: {0}")]
    Tls(String),
    /// The options contradict each other or cannot be sent.
    #[error("connection options: {0}")]
    Options(String),
}

impl WireError {
    /// The server's error, if it sent one.
    pub fn server_error(&self) -> Option<&ErrorFields> {
        match self {
            WireError::Server(fields) => Some(fields),
            _ => None,
        }
    }
}

impl From<io::Error> for WireError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            WireError::Closed
        } else {
            WireError::Io(error)
        }
    }
}
