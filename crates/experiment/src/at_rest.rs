//! Data at rest: what the runs of one bench are restored from. They lie in the cache, so
//! that they share a file system with the clusters they are copied to, and belong to a lab.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use walwright_server::Places;
use walwright_store::{Lab, write_whole};

use super::ExperimentError;

/// Where data at rest lie below the cache.
const SNAPSHOTS: &str = "snapshots";
/// The file beside them that names the directory of their lab.
const LAB: &str = "lab";

/// What data at rest take on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataOnDisk {
    /// Bytes of all sets: one for each version and each choice of workload options.
    pub bytes: u64,
    /// Bytes of the largest, of which a run has a copy.
    pub largest: u64,
    /// Bytes that are free beside them; `None` where nobody can tell.
    pub free: Option<u64>,
}

/// WAL that a run may keep beside its data: what PostgreSQL's default max_wal_size allows.
const WAL: u64 = 1 << 30;

impl DataOnDisk {
    /// Whether the disk has no room for so many more of the largest, and some WAL.
    pub fn is_tight(&self, copies: u64) -> bool {
        self.free.is_some_and(|free| free < copies * self.largest + WAL)
    }
}

/// The data at rest of one bench.
#[derive(Debug)]
pub(super) struct AtRest {
    directory: PathBuf,
    lab: PathBuf,
}

impl AtRest {
    /// Those called `name`, which are there or will be. Removes those of labs that are gone,
    /// since nobody will ask for them.
    ///
    /// # Errors
    /// When there is no place for clusters, or the lab's own cannot be told.
    pub fn of(lab: &Lab, name: &str) -> Result<AtRest, ExperimentError> {
        let all = Places::open(None)?.root().join(SNAPSHOTS);
        let lab = lab.directory();
        let lab = std::path::absolute(lab).map_err(ExperimentError::file("find", lab))?;
        sweep(&all);
        Ok(AtRest { directory: all.join(name), lab })
    }

    /// Where the data called `name` lie or will lie.
    pub(super) fn place(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// What these sets take, of so many bytes each.
    pub(super) fn space(&self, sizes: &[u64]) -> DataOnDisk {
        DataOnDisk {
            bytes: sizes.iter().sum(),
            largest: sizes.iter().copied().max().unwrap_or(0),
            free: free_bytes(&self.directory),
        }
    }

    /// Makes room for data at `place`, of which what was there is damaged.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(super) fn clear(&self, place: &Path) -> Result<(), ExperimentError> {
        remove(place)?;
        let (file, failed) = (self.directory.join(LAB), ExperimentError::file);
        fs::create_dir_all(&self.directory).map_err(failed("create", &self.directory))?;
        write_whole(&file, self.lab.as_os_str().as_bytes()).map_err(failed("write", &file))
    }

    /// Removes them.
    ///
    /// # Errors
    /// When they cannot be removed.
    pub(super) fn discard(&self) -> Result<(), ExperimentError> {
        remove(&self.directory)
    }
}

/// Bytes on the disk of a directory that may still be written; `None` where nobody can tell.
pub fn free_bytes(directory: &Path) -> Option<u64> {
    let found = nix::sys::statvfs::statvfs(directory).ok()?;
    Some(found.blocks_available() * found.fragment_size())
}

fn remove(directory: &Path) -> Result<(), ExperimentError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(ExperimentError::file("remove", directory)(error))
        }
        _ => Ok(()),
    }
}

/// Removes data whose lab is gone. What cannot be read or removed is left: it is in
/// nobody's way.
fn sweep(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let Ok(lab) = fs::read(entry.path().join(LAB)) else { continue };
        let gone = fs::metadata(OsStr::from_bytes(&lab))
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        if gone && let Err(error) = fs::remove_dir_all(entry.path()) {
            tracing::warn!("{}: {error}", entry.path().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_a_lab_that_is_gone_are_removed_and_no_others() {
        let directory = tempfile::tempdir().unwrap();
        let lab = |name: &str| directory.path().join(name);
        let all = directory.path().join(SNAPSHOTS);
        fs::create_dir(lab("here")).unwrap();
        let of = |name: &str| AtRest { directory: all.join(name), lab: lab(name) };
        for name in ["here", "gone"] {
            let data = of(name);
            data.clear(&data.place("pg18")).unwrap();
            fs::create_dir(data.place("pg18")).unwrap();
        }
        fs::create_dir_all(all.join("older/pg18")).unwrap();
        sweep(&all);
        let there = |name: &str| of(name).place("pg18").exists();
        assert_eq!((there("here"), there("gone"), there("older")), (true, false, true));
        of("here").discard().unwrap();
        assert!(!all.join("here").exists());
        of("here").discard().unwrap();
    }
}
