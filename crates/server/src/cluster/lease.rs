//! The lease on a cluster directory: a locked file that says who owns it. The
//! kernel drops the lock when its holder dies, however it dies.

use std::fs;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::process;
use crate::held_file::HeldFile;

/// The lease file's name in a cluster directory.
pub(crate) const LEASE_FILE: &str = "lease.json";

/// What the lease file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaseNote {
    /// The process that holds, or held, the cluster.
    pub(crate) pid: u32,
    /// Its start time in clock ticks since boot.
    pub(crate) start_time: Option<u64>,
    /// Whether the directory is removed when its owner is done with it.
    pub(crate) ephemeral: bool,
    /// A socket directory outside the cluster directory.
    pub(crate) outside_socket_dir: Option<PathBuf>,
}

impl LeaseNote {
    /// A note for the current process.
    pub(crate) fn mine(ephemeral: bool) -> Self {
        let pid = std::process::id();
        Self { pid, start_time: process::start_time(pid), ephemeral, outside_socket_dir: None }
    }
}

/// A held lease; dropping it releases the directory.
#[derive(Debug)]
pub(crate) struct Lease(HeldFile);

/// The outcome of asking for a lease.
#[derive(Debug)]
pub(crate) enum Asked {
    /// It is ours now; with what the last holder left in it.
    Granted(Lease, Option<LeaseNote>),
    /// A living process holds it.
    Held(Option<LeaseNote>),
}

impl Lease {
    /// Asks for the lease of `cluster_dir`, creating the file if needed.
    pub(crate) fn ask(cluster_dir: &Path) -> io::Result<Asked> {
        let path = cluster_dir.join(LEASE_FILE);
        let held = HeldFile::try_hold(&path)?;
        let note = read_note(&path);
        Ok(match held {
            Some(held) => Asked::Granted(Self(held), note),
            None => Asked::Held(note),
        })
    }

    /// Writes who holds it.
    pub(crate) fn write(&mut self, note: &LeaseNote) -> io::Result<()> {
        let text = serde_json::to_vec(note)?;
        let file = self.0.file();
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&text)
    }
}

/// Whether the directory looks like one walwright made.
pub(crate) fn is_present(cluster_dir: &Path) -> bool {
    fs::symlink_metadata(cluster_dir.join(LEASE_FILE)).is_ok_and(|meta| meta.is_file())
}

fn read_note(path: &Path) -> Option<LeaseNote> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time_and_the_next_reads_the_note() {
        let dir = tempfile::tempdir().expect("temp dir");
        let Ok(Asked::Granted(mut lease, None)) = Lease::ask(dir.path()) else {
            panic!("a new lease is free");
        };
        let note = LeaseNote { outside_socket_dir: Some("/tmp/x".into()), ..LeaseNote::mine(true) };
        lease.write(&note).expect("write");
        assert!(matches!(Lease::ask(dir.path()), Ok(Asked::Held(Some(held))) if held == note));
        drop(lease);
        assert!(
            matches!(Lease::ask(dir.path()), Ok(Asked::Granted(_, Some(left))) if left == note)
        );
    }
}
