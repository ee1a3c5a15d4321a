//! Why the probe refuses.

use std::path::PathBuf;

use thiserror::Error;
use walwright_server::QueryError;

use crate::BoxedError;

/// Why something could not be probed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// No connection to the server.
    #[error("the probe cannot connect to the server: {0}")]
    Connect(#[source] BoxedError),
    /// The server refused a query the probe cannot do without.
    #[error("the probe could not read {what} from the server: {source}")]
    Query {
        /// What was asked for.
        what: &'static str,
        /// What the server said.
        source: QueryError,
    },
    /// The server is too old.
    #[error("the server is version {0}; walwright needs PostgreSQL 14 or newer")]
    TooOld(String),
    /// A thread could not be started.
    #[error("the probe cannot start a thread: {0}; see the limit on processes (ulimit -u)")]
    Thread(#[source] std::io::Error),
    /// The probe's thread ended without a word.
    #[error("the probe's thread ended unexpectedly; this is an error in walwright")]
    Lost,
    /// Flush latency could not be measured.
    #[error(
        "cannot measure flush latency in {path}: {source}; check that walwright may write there"
    )]
    Storage {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A disk could not be measured.
    #[error("cannot measure the disk under {path}: {source}; check rights and room there")]
    Measure {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not enough room.
    #[error(
        "{path} has {free_mb} MB free and the measurement needs {needed_mb} MB; --size chooses a smaller data file"
    )]
    NoRoom {
        /// The directory.
        path: PathBuf,
        /// Needed, in megabytes.
        needed_mb: u64,
        /// Free, in megabytes.
        free_mb: u64,
    },
    /// A `wal_sync_method` that this platform does not have.
    #[error(
        "cannot imitate wal_sync_method '{0}' on this platform; known are fdatasync, fsync, open_datasync and open_sync"
    )]
    SyncMethod(String),
}
