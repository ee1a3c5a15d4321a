//! Shared memory that a killed server leaves behind.
//!
//! A server takes its shared memory away when it ends. One that is killed with all its
//! processes leaves a System V segment and files in `/dev/shm`, which its next start would
//! remove; a throw-away cluster has none. So what its next start would do is done here, by
//! the same evidence (`PGSharedMemoryAttach` in `sysv_shmem.c`,
//! `dsm_cleanup_using_control_segment` in `dsm.c`, PostgreSQL 14 to 18): the lock file of
//! the data directory names the segment, the segment names the data directory by device and
//! inode and the control file of the dynamic shared memory, and that names the rest.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// `PGShmemHeader`: its size, what it begins with, and where its parts lie.
const HEADER: usize = 56;
const HEADER_MAGIC: u32 = 679_834_894;
const CONTROL_HANDLE: usize = 24;
const DEVICE: usize = 40;
const INODE: usize = 48;

/// How the files of dynamic shared memory are called, before a number.
const FILES: &str = "/dev/shm/PostgreSQL.";

/// `dsm_control_header`, followed by `dsm_control_item`s.
const CONTROL_MAGIC: u32 = 0x9a50_3d32;
const ITEMS: usize = 16;
const ITEM: usize = 40;

/// Takes away what a server of `data_dir` left in shared memory, and of `mapped` what is
/// still there. The caller knows that no process of such a server is left. What cannot be told
/// for sure to be of this data directory stays: of a server that died alone that may be a
/// piece that it had made and not named yet.
pub(crate) fn clear(data_dir: &Path, mapped: &[PathBuf]) {
    let segment = Segment::of(data_dir);
    let named = segment.as_ref().map(Segment::files).unwrap_or_default();
    let unnamed = mapped.iter().filter(|path| !named.contains(path) && path.exists());
    for path in unnamed.chain(&named) {
        match fs::remove_file(path) {
            Ok(()) => {
                tracing::info!(path = %path.display(), "removed shared memory of a dead server");
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "could not remove shared memory of a dead server");
            }
        }
    }
    if let Some(segment) = segment {
        segment.remove();
    }
}

/// The files of dynamic shared memory that these processes of a server have mapped, which no
/// other server has.
pub(crate) fn mapped_by(pids: &[u32]) -> Vec<PathBuf> {
    let mut files = BTreeSet::new();
    for pid in pids {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let paths = maps.lines().filter_map(|line| Some(&line[line.find(FILES)?..]));
        files.extend(paths.filter(|path| !path.ends_with(" (deleted)")).map(PathBuf::from));
    }
    files.into_iter().collect()
}

/// The System V segment of a dead server.
#[derive(Debug)]
struct Segment {
    id: i32,
    /// Of the control file; 0 where there is none.
    control: u32,
    /// User of the server.
    owner: u32,
}

impl Segment {
    /// The segment of the last server in `data_dir`, when that is dead and left it.
    fn of(data_dir: &Path) -> Option<Segment> {
        let lock_file = fs::read_to_string(data_dir.join("postmaster.pid")).ok()?;
        let home = fs::metadata(data_dir).ok()?;
        let id = segment_in(&lock_file)?;
        if !is_left_by(id, home.uid()) {
            return None;
        }
        let header = header(id)?;
        let at_home = number(&header, 0)? == HEADER_MAGIC
            && long(&header, DEVICE)? == home.dev()
            && long(&header, INODE)? == home.ino();
        let control = number(&header, CONTROL_HANDLE)?;
        at_home.then_some(Segment { id, control, owner: home.uid() })
    }

    /// The files of its dynamic shared memory, the control file last: what is left when this
    /// is cut short is found again.
    fn files(&self) -> Vec<PathBuf> {
        let control = file_of(self.control);
        let Ok(bytes) = self.read(&control) else { return Vec::new() };
        let Some(handles) = handles_in(&bytes) else { return Vec::new() };
        let mut files: Vec<PathBuf> = handles.into_iter().map(file_of).collect();
        files.retain(|path| {
            fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && meta.uid() == self.owner)
        });
        files.push(control);
        files
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        /// The control file of thousands of sessions has some hundred kilobytes.
        const MOST: u64 = 64 << 20;
        let mut file = fs::File::options()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() || meta.uid() != self.owner {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(MOST).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn remove(&self) {
        // SAFETY: IPC_RMID reads no memory of ours; an id that is gone is an error.
        let failed = unsafe { libc::shmctl(self.id, libc::IPC_RMID, std::ptr::null_mut()) } == -1;
        if failed {
            let error = io::Error::last_os_error();
            tracing::warn!(id = self.id, %error, "could not remove a dead server's shared memory");
        }
    }
}

/// The id of the segment in a lock file: the second number of line 7 (`miscadmin.h`,
/// `LOCK_FILE_LINE_SHMEM_KEY`).
fn segment_in(lock_file: &str) -> Option<i32> {
    let id: u64 = lock_file.lines().nth(6)?.split_ascii_whitespace().nth(1)?.parse().ok()?;
    // PostgreSQL prints its int as an unsigned long.
    i32::try_from(id.cast_signed()).ok()
}

/// Whether the segment is there, of this user, and attached by nobody.
fn is_left_by(id: i32, owner: u32) -> bool {
    let mut state = MaybeUninit::<libc::shmid_ds>::uninit();
    // SAFETY: IPC_STAT writes one shmid_ds, for which there is room, or fails.
    if unsafe { libc::shmctl(id, libc::IPC_STAT, state.as_mut_ptr()) } == -1 {
        return false;
    }
    // SAFETY: the call above succeeded, so it is written.
    let state = unsafe { state.assume_init() };
    state.shm_nattch == 0 && state.shm_perm.uid == owner && state.shm_segsz >= HEADER
}

/// The first bytes of a segment that has as many.
fn header(id: i32) -> Option<[u8; HEADER]> {
    // SAFETY: attaches read-only where the kernel chooses, over nothing of ours.
    let address = unsafe { libc::shmat(id, std::ptr::null(), libc::SHM_RDONLY) };
    // `(void *) -1` says that it failed (shmat(2)).
    if address.addr() == usize::MAX {
        return None;
    }
    // SAFETY: a mapping is a page at least, so the bytes are there. Nobody else is attached
    // that could write them.
    let bytes = unsafe { address.cast::<[u8; HEADER]>().read() };
    // SAFETY: `address` is that of an attached segment, and nothing refers into it.
    unsafe { libc::shmdt(address) };
    Some(bytes)
}

/// The file of a piece of dynamic shared memory (`dsm_impl_posix`).
fn file_of(handle: u32) -> PathBuf {
    PathBuf::from(format!("{FILES}{handle}"))
}

/// The pieces in use that a control file names; `None` where it is no control file.
fn handles_in(control: &[u8]) -> Option<Vec<u32>> {
    if number(control, 0)? != CONTROL_MAGIC {
        return None;
    }
    let items = number(control, 4)? as usize;
    let items = control.get(ITEMS..)?.chunks_exact(ITEM).take(items);
    // An item that nobody refers to is free.
    let used = items.filter(|item| number(item, 4).is_some_and(|references| references > 0));
    Some(used.filter_map(|item| number(item, 0)).collect())
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_file_names_the_segment() {
        let file = "7\n/data\n1700000000\n5432\n/sock\n\n  1234   32769\nready   \n";
        assert_eq!(segment_in(file), Some(32_769));
        assert_eq!(segment_in(&file.replace("32769", "18446744073709551615")), Some(-1));
        assert_eq!(segment_in(&file.replace("32769", "99999999999")), None);
        assert_eq!(segment_in("7\n/data\n1700000000\n5432\n"), None);
    }

    #[test]
    fn a_control_file_names_what_is_in_use_and_nothing_beyond_its_end() {
        let mut bytes = [CONTROL_MAGIC, 3, 9, 0].map(u32::to_ne_bytes).concat();
        for (handle, references) in [(20_u32, 2_u32), (22, 0), (24, 1), (26, 2)] {
            let mut item = [handle.to_ne_bytes(), references.to_ne_bytes()].concat();
            item.resize(ITEM, 0);
            bytes.extend(item);
        }
        assert_eq!(handles_in(&bytes), Some(vec![20, 24]));
        assert_eq!(handles_in(&bytes[..ITEMS + ITEM + 3]), Some(vec![20]));
        assert_eq!(handles_in(&bytes[1..]), None);
        assert_eq!(handles_in(&[]), None);
    }

    #[test]
    fn a_segment_of_another_data_directory_is_left_alone() {
        // SAFETY: makes a segment of our own, which is removed below.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, HEADER, 0o600) };
        assert_ne!(id, -1);
        let dir = tempfile::tempdir().expect("temp dir");
        let lock_file = format!("7\n/data\n1\n5432\n/sock\n\n  1   {id}\nready\n");
        fs::write(dir.path().join("postmaster.pid"), lock_file).expect("write");
        let owner = fs::metadata(dir.path()).expect("stat").uid();
        assert!(is_left_by(id, owner) && !is_left_by(id, owner + 1));
        clear(dir.path(), &[]);
        assert!(is_left_by(id, owner), "its header names no data directory");
        Segment { id, control: 0, owner }.remove();
        assert!(!is_left_by(id, owner));
    }
}
