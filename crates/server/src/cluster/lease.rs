//! The lease on a cluster directory: a locked file that says who owns it. The
//! kernel drops the lock when its holder dies, however it dies.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::process;

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
pub(crate) struct Lease {
    file: File,
}

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
        let mut file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(cluster_dir.join(LEASE_FILE))?;
        match file.try_lock() {
            Ok(()) => {
                let note = read_note(&mut file);
                Ok(Asked::Granted(Self { file }, note))
            }
            Err(TryLockError::WouldBlock) => Ok(Asked::Held(read_note(&mut file))),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Writes who holds it.
    pub(crate) fn write(&mut self, note: &LeaseNote) -> io::Result<()> {
        let text = serde_json::to_vec(note)?;
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(&text)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Closing would leave the lock to a child that another thread has just forked, until
        // it executes its program.
        let _ = self.file.unlock();
    }
}

/// Whether the directory looks like one walwright made.
pub(crate) fn is_present(cluster_dir: &Path) -> bool {
    fs::symlink_metadata(cluster_dir.join(LEASE_FILE)).is_ok_and(|meta| meta.is_file())
}

fn read_note(file: &mut File) -> Option<LeaseNote> {
    let mut text = Vec::new();
    file.rewind().ok()?;
    file.read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
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
