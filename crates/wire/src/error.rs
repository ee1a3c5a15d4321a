//! What can go wrong between us and a server.

use std::io;
use std::time::Duration;

use thiserror::Error;

use crate::backend::ErrorFields;
use crate::read::Malformed;
use crate::{FrameError, TlsError};

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
    /// The host's name has no address.
    #[error("cannot find the address of {host}: {source}; check the host's name")]
    UnknownHost {
        /// The name.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing came, or not all of it, in the time allowed.
    #[error("{target} did not answer within {} s", .limit.as_secs_f64())]
    Timeout {
        /// Socket path or host and port.
        target: String,
        /// The time.
        limit: Duration,
    },
    /// Reading or writing failed.
    #[error("the connection to the server broke: {0}")]
    Io(io::Error),
    /// The server closed the connection without a message.
    #[error("the server closed the connection unexpectedly; its log may say why")]
    Closed,
    /// What listens there is something else.
    #[error(
        "what answers at {target} does not speak PostgreSQL's protocol: it says {said:?}; check host and port"
    )]
    NotPostgres {
        /// Socket path or host and port.
        target: String,
        /// How its answer begins.
        said: String,
    },
    /// An error in the form that protocol 2 had, which a server still uses when it cannot
    /// even start a process for the connection.
    #[error("the server at {target} refused the connection: {said}")]
    OldError {
        /// Socket path or host and port.
        target: String,
        /// Its words.
        said: String,
    },
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
    /// An answer is longer than what is kept of one.
    #[error("the server's answer is longer than {} MiB", .limit / (1024 * 1024))]
    TooMuch {
        /// The longest answer that is taken, in bytes.
        limit: usize,
    },
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
    /// The server asks for what the connection's own options forbid (`require_auth`,
    /// `channel_binding`), or for a password in clear text where others could read it.
    /// Nothing was sent.
    #[error("{0}")]
    Refused(String),
    /// The SCRAM exchange went wrong.
    #[error("SCRAM authentication failed: {0}")]
    Scram(String),
    /// TLS was asked for and cannot be had, or failed.
    #[error("{0}; {hint}", hint = .0.hint())]
    Tls(#[from] TlsError),
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
