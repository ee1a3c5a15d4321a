//! Files that are written for a measurement and gone after it, also when it is killed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::block::Block;

/// Names of all such files begin like this.
const PREFIX: &str = ".walwright-storage-";
/// Bytes written at a time when a file is filled.
const FILL: usize = 1 << 20;

/// A file that is removed when this is dropped. It holds a lock as long as its process
/// lives, so that [`sweep`] knows what a killed one left.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    file: File,
}

impl Scratch {
    /// Makes an empty file in `directory`.
    pub(super) fn create(directory: &Path) -> io::Result<Scratch> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("{PREFIX}{}-{number}", std::process::id()));
        // A file of that name is one that a killed process of this id left.
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
        let scratch = Scratch { path, file };
        // Swept in the moment before it is locked, it is a file without a name, which
        // serves as well.
        scratch.file.lock()?;
        Ok(scratch)
    }

    /// A file of `bytes` that was written whole, as PostgreSQL writes a new segment, so
    /// that no later flush waits for space to be allocated.
    pub(super) fn written(directory: &Path, bytes: u64) -> io::Result<Scratch> {
        let scratch = Scratch::create(directory)?;
        let block = Block::random(FILL, 1);
        let mut offset = 0;
        while offset < bytes {
            let part = &block.bytes()[..FILL.min((bytes - offset) as usize)];
            scratch.file.write_all_at(part, offset)?;
            offset += part.len() as u64;
        }
        scratch.file.sync_all()?;
        Ok(scratch)
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// The same file opened again, with further flags.
    pub(super) fn reopen(&self, flags: i32) -> io::Result<File> {
        let same = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        OpenOptions::new().read(true).write(true).custom_flags(flags).open(same)
    }

    /// Takes its name away now: the space is free when the last handle is closed,
    /// however this process ends.
    pub(super) fn unlink(&self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes what killed processes left in `directory`. What cannot be removed stays.
pub(super) fn sweep(directory: &Path) {
    let Ok(entries) = directory.read_dir() else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(file) = File::open(entry.path()) else { continue };
        if file.try_lock().is_ok() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_holds_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        let held = Scratch::create(dir.path()).unwrap();
        let left = dir.path().join(format!("{PREFIX}99999999-0"));
        let foreign = dir.path().join("base");
        std::fs::write(&left, "x").unwrap();
        std::fs::write(&foreign, "x").unwrap();
        sweep(dir.path());
        assert!(held.path.exists() && foreign.exists() && !left.exists());
        drop(held);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_without_a_name_can_still_be_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::written(dir.path(), 3 << 19).unwrap();
        scratch.unlink().unwrap();
        let again = scratch.reopen(libc::O_DSYNC).unwrap();
        assert_eq!(again.metadata().unwrap().len(), 3 << 19);
        again.write_all_at(b"abc", 0).unwrap();
        let mut back = [0; 3];
        scratch.file().read_exact_at(&mut back, 0).unwrap();
        assert_eq!(&back, b"abc");
    }
}
