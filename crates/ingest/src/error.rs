//! Why an ingest could not begin, or had to end.

use std::net::SocketAddr;
use std::path::PathBuf;

use walwright_coalesce::ConnectError;

/// Why an ingest could not begin, or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// The connection's parameters cannot be met.
    #[error("{0}")]
    Parameters(String),
    /// TLS to the server cannot be used.
    #[error("TLS to the server: {0}")]
    Tls(#[from] walwright_wire::TlsError),
    /// The server cannot be reached, or refuses the session.
    #[error("cannot connect to {place}: {}", crate::connect::tell(.error))]
    Reach {
        /// The host and port, or those of several.
        place: String,
        /// Why.
        error: tokio_postgres::Error,
    },
    /// The server did not answer a question.
    #[error("the server: {}", crate::connect::tell(.0))]
    Server(#[from] tokio_postgres::Error),
    /// The coalescer could not begin.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The table is not as it was named.
    #[error("table {table}: {reason}")]
    Table {
        /// As it was named.
        table: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// A certificate or key for the endpoint cannot be used.
    #[error("{}: {why}", .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The endpoint cannot listen.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// An input's header cannot be used.
    #[error("the header of {input}: {reason}")]
    Header {
        /// The input.
        input: String,
        /// What is wrong with it.
        reason: String,
    },
    /// So many rows were rejected, and kept nowhere.
    #[error(
        "{0} rows are rejected and kept nowhere: name a file for them with --rejects, and ingest \
         again; it goes on where it was"
    )]
    TooManyLost(u64),
    /// The rows cannot be written.
    #[error("{0}")]
    Write(String),
}
