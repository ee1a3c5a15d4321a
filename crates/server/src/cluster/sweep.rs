//! Cleaning up after a crash: servers that outlived their owner, and
//! directories nobody will come back for.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::error::ClusterError;
use super::lease::{self, Asked, Lease, LeaseNote};
use super::{process, shared_memory, socket};
use crate::held_file::HeldFile;
use crate::places::{Places, create_open_dir};

/// How long a server gets for an immediate shutdown before it is killed: the
/// postmaster itself kills its children after five seconds.
const IMMEDIATE_SHUTDOWN: Duration = Duration::from_secs(8);

/// How long the kernel gets to end killed processes.
const AFTER_KILL: Duration = Duration::from_secs(10);

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Processes of abandoned servers that were stopped.
    pub stopped: Vec<u32>,
    /// Directories that were removed.
    pub removed: Vec<PathBuf>,
    /// Directories that could not be cleaned up, and why.
    pub failed: Vec<(PathBuf, String)>,
}

/// Stops the servers and removes the directories that crashed walwright
/// processes left under [`Places::clusters`]. What a living process holds is
/// not touched, nor what walwright did not make.
///
/// Blocks: milliseconds when there is nothing to do, some seconds per server
/// that has to be stopped.
pub fn sweep(places: &Places) -> Result<Swept, ClusterError> {
    let _registry = lock_registry(places)?;
    let clusters = places.clusters();
    let mut swept = Swept::default();
    let entries = fs::read_dir(&clusters).map_err(ClusterError::io("read", &clusters))?;
    for entry in entries.flatten() {
        let dir = entry.path();
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_dir {
            continue;
        }
        if !lease::is_present(&dir) {
            remove_stillborn(&dir);
            continue;
        }
        match sweep_one(&dir, &mut swept) {
            Ok(()) => {}
            Err(error) => swept.failed.push((dir, error.to_string())),
        }
    }
    Ok(swept)
}

/// Removes the directory of a creation that died before it had its lease. Only
/// an empty one can be removed this way, and only one that is named like ours.
fn remove_stillborn(dir: &Path) {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let ours = name
        .strip_prefix("pg")
        .and_then(|rest| rest.split_once('-'))
        .is_some_and(|(major, _)| major.parse::<u32>().is_ok());
    if ours {
        // One that holds anything stays, since it is not known to be ours.
        let _ = fs::remove_dir(dir);
    }
}

fn sweep_one(dir: &Path, swept: &mut Swept) -> Result<(), ClusterError> {
    let asked = Lease::ask(dir).map_err(ClusterError::io("open the lease in", dir))?;
    let Asked::Granted(_lease, note) = asked else {
        return Ok(());
    };
    swept.stopped.extend(stop_leftovers(dir, note.as_ref())?);
    // A lease without a note is a creation that died at once.
    if note.is_none_or(|note| note.ephemeral) {
        fs::remove_dir_all(dir).map_err(ClusterError::io("remove", dir))?;
        swept.removed.push(dir.to_owned());
    }
    Ok(())
}

/// Stops what is left of a server in `dir`, whose lease the caller holds.
pub(crate) fn stop_leftovers(
    dir: &Path,
    note: Option<&LeaseNote>,
) -> Result<Vec<u32>, ClusterError> {
    let stopped = stop_servers_in(dir)?;
    if let Some(outside) = note.and_then(|note| note.outside_socket_dir.as_ref()) {
        socket::remove_leftover(outside);
    }
    Ok(stopped)
}

/// Ends every PostgreSQL process at home in the data directory of `dir`, and takes away the
/// shared memory they leave. Gives their ids.
pub(crate) fn stop_servers_in(dir: &Path) -> Result<Vec<u32>, ClusterError> {
    let data_dir = dir.join("data");
    let found = process::servers_in(&data_dir);
    let mapped = shared_memory::mapped_by(&found);
    let stopped = end_servers(dir, &data_dir, found)?;
    shared_memory::clear(&data_dir, &mapped);
    Ok(stopped)
}

/// Kills every PostgreSQL process at home in the data directory of `dir`, and takes away the
/// shared memory they leave.
pub(crate) fn kill_servers_in(dir: &Path) -> Result<(), ClusterError> {
    let data_dir = dir.join("data");
    let mapped = shared_memory::mapped_by(&process::servers_in(&data_dir));
    kill_until_gone(dir, &data_dir)?;
    shared_memory::clear(&data_dir, &mapped);
    Ok(())
}

/// Immediate shutdown first, then SIGKILL.
fn end_servers(dir: &Path, data_dir: &Path, found: Vec<u32>) -> Result<Vec<u32>, ClusterError> {
    if found.is_empty() {
        return Ok(found);
    }
    signal_all(&found, Signal::SIGQUIT);
    // A stopped process takes the signal only when continued.
    signal_all(&found, Signal::SIGCONT);
    if all_gone(data_dir, IMMEDIATE_SHUTDOWN).is_empty() {
        return Ok(found);
    }
    kill_until_gone(dir, data_dir)?;
    Ok(found)
}

fn kill_until_gone(dir: &Path, data_dir: &Path) -> Result<(), ClusterError> {
    let deadline = Instant::now() + AFTER_KILL;
    loop {
        // A dying postmaster may have forked once more, so look again each time.
        let left = process::servers_in(data_dir);
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(ClusterError::Unkillable { dir: dir.to_owned(), pids: left });
        }
        signal_all(&left, Signal::SIGKILL);
        all_gone(data_dir, Duration::from_millis(200));
    }
}

fn signal_all(pids: &[u32], signal: Signal) {
    for pid in pids {
        // One that is gone already is what we want.
        let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
    }
}

/// Waits until no server is at home in `data_dir`; gives those still there.
fn all_gone(data_dir: &Path, timeout: Duration) -> Vec<u32> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = process::servers_in(data_dir);
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for the lock that creating and sweeping share.
pub(crate) fn lock_registry(places: &Places) -> Result<HeldFile, ClusterError> {
    let clusters = places.clusters();
    create_open_dir(&clusters).map_err(ClusterError::io("create", &clusters))?;
    let path = clusters.join(".lock");
    HeldFile::hold(&path).map_err(ClusterError::io("lock", &path))
}
