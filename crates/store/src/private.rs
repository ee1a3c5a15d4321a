//! Files and directories that nobody but their owner reads, whatever the umask.
//!
//! A lab tells what servers are called, what they run and how fast, and so does every file
//! in it.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The mode of a private file.
pub const FILE: u32 = 0o600;
/// The mode of a private directory.
const DIRECTORY: u32 = 0o700;
/// What the group and others may do.
const OTHERS: u32 = 0o077;

/// Makes a directory and those above it that are not there, all of them private. What is
/// there keeps its mode.
///
/// # Errors
/// When it cannot be made.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY).create(path)
}

/// That a directory belongs to this process's user or to root: whoever owns it decides, by
/// links, which files are written and read in it.
///
/// # Errors
/// When it is someone else's.
pub fn is_ours(directory: &Path) -> io::Result<()> {
    let owner = directory.metadata()?.uid();
    if owner == 0 || owner == Path::new("/proc/self").metadata()?.uid() {
        return Ok(());
    }
    let text = format!("it belongs to another user (id {owner})");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// How to open a file; where that makes it, it is private.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE);
    options
}

/// Takes from all but the owner what they may do with a file, or with a directory and all in
/// it. Links are not followed. What belongs to someone else stays as it is.
///
/// # Errors
/// The first that could not be changed; the others are.
pub fn tighten(path: &Path) -> io::Result<()> {
    let mut tightened = tighten_alone(path);
    if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        for entry in path.read_dir()? {
            tightened = tightened.and(entry.and_then(|entry| tighten(&entry.path())));
        }
    }
    tightened
}

/// The same for a directory without what is in it.
///
/// # Errors
/// When it cannot be changed.
pub fn tighten_alone(path: &Path) -> io::Result<()> {
    let meta = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        meta => meta?,
    };
    if meta.is_symlink() || meta.mode() & OTHERS == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(meta.mode() & 0o7777 & !OTHERS))
}
