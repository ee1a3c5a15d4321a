//! Files that one process holds at a time, as locks.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A file that this process holds: the kernel gives it back when the process dies, however
/// it dies, and dropping gives it back at once.
#[derive(Debug)]
pub struct HeldFile(File);

impl HeldFile {
    /// Holds the file at `path`, made for its owner alone if need be; `None` where another holds it.
    ///
    /// # Errors
    /// When it cannot be opened or locked.
    pub fn try_hold(path: &Path) -> io::Result<Option<HeldFile>> {
        let file = opened(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(HeldFile(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The same, but waits for another to give it back.
    ///
    /// # Errors
    /// As [`HeldFile::try_hold`].
    pub fn hold(path: &Path) -> io::Result<HeldFile> {
        let file = opened(path)?;
        file.lock()?;
        Ok(HeldFile(file))
    }

    /// Its content, to read and write.
    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        // Closing would leave the lock to a child that another thread has just forked, until
        // it executes its program.
        let _ = self.0.unlock();
    }
}

fn opened(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_free_once_dropped_though_a_copy_of_it_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = HeldFile::try_hold(&path).unwrap().expect("a new file is free");
        // What a forked child has until it executes its program.
        let _copy = held.0.try_clone().unwrap();
        assert!(HeldFile::try_hold(&path).unwrap().is_none());
        drop(held);
        assert!(HeldFile::try_hold(&path).unwrap().is_some());
    }
}
