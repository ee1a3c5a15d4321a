//! Which file system a directory lies on.

use std::path::Path;

use walwright_record::{FileSystemId, StoragePlace};

use crate::facts::disk_facts;
use crate::host::disk::mount_of;
use crate::host::read::read_trimmed;

/// The file system of `path`; `None` where it cannot be looked at.
///
/// It is looked at by its mount point, so that a directory that may not be entered has
/// the same as one beside it.
pub fn file_system_of(path: &Path) -> Option<FileSystemId> {
    let mount = mount_of(path)?;
    let number = nix::sys::stat::stat(&mount.mount_point).ok()?.st_dev;
    let space = nix::sys::statvfs::statvfs(&mount.mount_point).ok()?;
    Some(FileSystemId {
        host: read_trimmed("/proc/sys/kernel/hostname")?,
        file_system: mount.fs_type,
        device: format!("{}:{}", nix::sys::stat::major(number), nix::sys::stat::minor(number)),
        id: format!("{:x}", space.filesystem_id()),
    })
}

/// A directory with its file system and device.
pub(super) fn place(directory: &Path) -> Option<StoragePlace> {
    Some(StoragePlace {
        directory: directory.display().to_string(),
        file_system: file_system_of(directory)?,
        disk: disk_facts(directory),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_one_file_system_have_one_name_and_others_another() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("a");
        std::fs::create_dir(&inside).unwrap();
        let name = file_system_of(&inside).unwrap();
        assert_eq!(Some(&name), file_system_of(dir.path()).as_ref());
        assert_ne!(Some(&name), file_system_of(Path::new("/proc")).as_ref());
        assert_eq!(file_system_of(Path::new("/no/such/place")), None);
    }
}
