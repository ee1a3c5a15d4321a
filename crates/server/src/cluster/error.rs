//! What can go wrong with a cluster.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::settings::SettingError;
use crate::guard::ServerExit;

/// A cluster could not be made, opened, started or changed.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A file operation failed.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The disk is full.
    #[error("the disk that holds {} is full: free some space there, or choose a directory on another disk", path.display())]
    DiskFull {
        /// Something on that disk.
        path: PathBuf,
    },
    /// The user servers run as cannot reach a path.
    #[error("the user {user:?}, as whom the server runs, may not enter {}, which is on the way to {}: choose a place that user can reach, or name another user in WALWRIGHT_USER", blocked.display(), wanted.display())]
    Unreachable {
        /// The user servers run as.
        user: String,
        /// The directory that shuts the user out.
        blocked: PathBuf,
        /// What was wanted.
        wanted: PathBuf,
    },
    /// Another living process holds the directory.
    #[error("the cluster in {} is in use by {}: wait for it to end, or use another directory", dir.display(), holder(*pid))]
    InUse {
        /// The cluster directory.
        dir: PathBuf,
        /// Who holds it, if that is known.
        pid: Option<u32>,
    },
    /// The directory for a new cluster holds something already.
    #[error("{} is not empty, so no cluster was made there: choose an empty or new directory", dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory is no cluster walwright made.
    #[error("{} holds no cluster made by walwright", dir.display())]
    NotACluster {
        /// The directory.
        dir: PathBuf,
    },
    /// The data directory belongs to another major version than the install.
    #[error("the data directory {} is of PostgreSQL {found}, the programs are of {install}: use an install of the same major version", data_dir.display())]
    VersionMismatch {
        /// The data directory.
        data_dir: PathBuf,
        /// What its PG_VERSION says.
        found: String,
        /// The major version of the install.
        install: u32,
    },
    /// A setting cannot be written.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// initdb, or the bootstrap after it, failed.
    #[error("{program} failed in {}: {said}", dir.display())]
    Init {
        /// The program.
        program: &'static str,
        /// The cluster directory.
        dir: PathBuf,
        /// What it printed.
        said: String,
    },
    /// The postmaster could not be executed.
    #[error("could not start {} as the user {user:?}: {source}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// As whom.
        user: String,
        /// Why.
        source: io::Error,
    },
    /// The server ended before it accepted connections.
    #[error("the server in {} {exit} before it was ready: {}", dir.display(), reason(hint, log))]
    StartFailed {
        /// The cluster directory.
        dir: PathBuf,
        /// How it ended.
        exit: ServerExit,
        /// What to do, where the log tells.
        hint: Option<&'static str>,
        /// The last lines of its log.
        log: String,
    },
    /// The server did not get ready in time; it has been stopped.
    #[error("the server in {} was not ready after {timeout:?}, so it was stopped; its log ends with:\n{log}", dir.display())]
    StartTimeout {
        /// The cluster directory.
        dir: PathBuf,
        /// How long was waited.
        timeout: Duration,
        /// The last lines of its log.
        log: String,
    },
    /// The server writes by io_uring, which a power cut cannot see.
    #[error("a power cut does not see what io_method = io_uring writes: leave that setting out")]
    UnseenWrites,
    /// Fewer processors are there than were asked for.
    #[error(
        "the server is to use {asked} processors, and there are {there}: give --processors {there} or fewer, or leave it out"
    )]
    Processors {
        /// Asked for.
        asked: u32,
        /// That this process may use.
        there: u32,
    },
    /// The server's memory cannot be limited here.
    #[error(
        "the server's memory cannot be held to {megabytes} MB: {why}. That takes root and control groups; `systemd-run --scope -p MemoryMax={megabytes}M walwright …` limits it together with the load's"
    )]
    MemoryLimit {
        /// What was asked for.
        megabytes: u64,
        /// What stands against it.
        why: String,
    },
    /// The system does not tell which processors may be used.
    #[error("which processors this process may use is not known: {source}")]
    Affinity {
        /// What the system said.
        source: nix::Error,
    },
    /// What a power cut takes is not known.
    #[error("what the server in {} had not flushed is not known: {reason}", dir.display())]
    Unknowable {
        /// The data directory.
        dir: PathBuf,
        /// Why.
        reason: String,
    },
    /// The cluster's server runs already.
    #[error("the server in {} is running: stop it first", dir.display())]
    Running {
        /// The cluster directory.
        dir: PathBuf,
    },
    /// A process of the server would not end.
    #[error("processes {pids:?} of the server in {} did not end, even when killed: a disk that does not answer can cause this; see the kernel log", dir.display())]
    Unkillable {
        /// The cluster directory.
        dir: PathBuf,
        /// The processes.
        pids: Vec<u32>,
    },
}

impl ClusterError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| {
            if source.kind() == io::ErrorKind::StorageFull {
                Self::DiskFull { path }
            } else {
                Self::Io { action, path, source }
            }
        }
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or("another process".to_owned(), |pid| format!("process {pid}"))
}

fn reason(hint: &Option<&'static str>, log: &str) -> String {
    match hint {
        Some(hint) => format!("{hint}; its log ends with:\n{log}"),
        None => format!("its log ends with:\n{log}"),
    }
}

/// What to do about a server that did not start, read off its log.
pub(crate) fn start_hint(log: &str) -> Option<&'static str> {
    let any = |needles: &[&str]| needles.iter().any(|needle| log.contains(needle));
    if any(&["No space left on device", "Check free disk space"]) {
        Some("the disk is full, so free some space")
    } else if any(&["Address already in use"]) {
        Some("the port is taken by another server, so choose another one")
    } else if any(&["could not map anonymous shared memory", "Cannot allocate memory"]) {
        Some(
            "there is not enough memory for its settings, so lower shared_buffers or max_connections",
        )
    } else if any(&["could not resize shared memory segment"]) {
        Some("/dev/shm is too small, so give the container a larger one (--shm-size)")
    } else if any(&["unrecognized configuration parameter"]) {
        Some("this version does not know one of the settings")
    } else if any(&[
        "invalid value for parameter",
        "requires a",
        "is outside the valid range",
        "must be",
    ]) {
        Some("it does not accept one of the settings")
    } else if any(&["could not access file", "could not load library"]) {
        Some("a library it was told to preload is not installed")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::start_hint;

    #[test]
    fn the_log_tells_what_to_do() {
        let log = "FATAL:  could not map anonymous shared memory: Cannot allocate memory";
        assert!(start_hint(log).is_some_and(|hint| hint.contains("shared_buffers")));
        let log = "LOG:  unrecognized configuration parameter \"io_methods\" in file";
        assert!(start_hint(log).is_some_and(|hint| hint.contains("does not know")));
        assert_eq!(start_hint("PANIC:  something new"), None);
    }
}
