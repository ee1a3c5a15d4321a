//! Files that are on disk whole or not at all.
//!
//! What is written here takes the old file's place in one step. Files that only grow are
//! a [`LineFile`](crate::LineFile).

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::private;

/// The mode of a file that the umask decides on.
pub const OPEN: u32 = 0o666;

/// Writes a file whole. It is on disk when this returns; killed or failing before, what
/// was there still is. A pipe or a device is written as it comes.
///
/// # Errors
/// When it cannot be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        return fs::write(path, bytes);
    }
    replace(path, OPEN, |file| file.write_all(bytes))
}

/// The same for a file of the lab, which nobody but its owner may read.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, private::FILE, |file| file.write_all(bytes))
}

/// As [`write_whole`], where `write` makes the file what it is to be. Who may read it is
/// decided by `mode` and the umask until `write` says otherwise.
pub fn replace(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let directory = directory_of(path);
    let mut new = tempfile::Builder::new()
        .prefix(".walwright-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(directory)?;
    write(new.as_file_mut())?;
    new.as_file().sync_all()?;
    new.persist(path).map_err(|failed| failed.error)?;
    flush_directory(directory)
}

/// Flushes the names in a directory: that of a new or renamed file is as durable as what
/// the file holds only then. Where the file system cannot do that (`EINVAL`), that is how
/// it is, as it is for PostgreSQL's own `fsync_fname`.
pub fn flush_directory(directory: &Path) -> io::Result<()> {
    match File::open(directory)?.sync_all() {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        flushed => flushed,
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn what_fails_half_way_leaves_the_old_content_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept");
        write_whole(&path, b"old, and longer than the new").unwrap();
        let full = |file: &mut File| {
            file.write_all(b"ne")?;
            Err(io::ErrorKind::StorageFull.into())
        };
        assert_eq!(replace(&path, OPEN, full).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"old, and longer than the new");
        fs::create_dir(dir.path().join("taken")).unwrap();
        write_whole(&dir.path().join("taken"), b"x").unwrap_err();
        write_whole(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let mut left = names(dir.path());
        left.sort();
        assert_eq!(left, ["kept", "taken"]);
    }

    #[test]
    fn a_file_is_as_open_as_any_other() {
        let dir = tempfile::tempdir().unwrap();
        let (whole, plain) = (dir.path().join("whole"), dir.path().join("plain"));
        write_whole(&whole, b"").unwrap();
        fs::write(&plain, "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&whole), mode(&plain));
        write_private(&whole, b"").unwrap();
        assert_eq!(mode(&whole) & 0o7777, 0o600);
        assert_eq!(directory_of(Path::new("config.env")), Path::new("."));
    }

    #[test]
    fn a_device_stays_a_device() {
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        write_whole(&device, b"x").unwrap();
        assert!(fs::symlink_metadata(&device).unwrap().is_symlink());
        assert_eq!(names(dir.path()), ["null"]);
    }
}
