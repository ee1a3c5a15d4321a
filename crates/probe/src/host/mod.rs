//! The probe's side towards the machine: `/proc` and `/sys`, without root.

pub(crate) mod cgroup;
mod connected;
pub(crate) mod disk;
mod gateways;
mod machine;
mod neighbours;
#[cfg(test)]
mod never_panics;
mod parts;
pub(crate) mod processes;
pub(crate) mod read;
mod roles;
mod sampler;
mod threads;
mod unix_peers;

use std::path::{Path, PathBuf};

use walwright_record::TargetFacts;

pub use connected::{Listening, listener};
pub use gateways::{GatewayProcess, gateways};
pub use parts::{LoadParts, ProcessName};
pub(crate) use sampler::{HostReport, HostSampler};

/// What of this machine belongs to the server under test.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostScope {
    /// Whether the server runs on this machine. If not, only walwright itself is
    /// sampled: the rest would describe the wrong machine.
    pub local: bool,
    /// The postmaster, whose children are the server's processes.
    pub postmaster_pid: Option<u32>,
    /// The data directory.
    pub data_directory: Option<PathBuf>,
    /// Where the WAL lies.
    pub wal_directory: Option<PathBuf>,
    /// A pooler that walwright started between its load and the server; it is read as often as
    /// the server's processes.
    pub pooler: Option<u32>,
    /// Other processes that have a part in the load.
    pub parts: LoadParts,
    /// Where the server listens, to find the processes that hold connections to it:
    /// those that are nothing else are taken for the application. `None` finds none.
    pub listening: Option<Listening>,
}

impl HostScope {
    /// The scope of a server that is known already.
    pub fn of(target: &TargetFacts) -> HostScope {
        if !target.local {
            return HostScope::default();
        }
        let data = target.data_directory.as_ref().map(PathBuf::from);
        HostScope {
            local: true,
            postmaster_pid: target.postmaster_pid,
            wal_directory: data.as_deref().map(wal_directory),
            data_directory: data,
            pooler: None,
            parts: LoadParts::default(),
            listening: None,
        }
    }
}

/// Where the WAL of `data_directory` lies: `pg_wal`, or what it links to.
pub fn wal_directory(data_directory: &Path) -> PathBuf {
    let inside = data_directory.join("pg_wal");
    inside.canonicalize().unwrap_or(inside)
}
