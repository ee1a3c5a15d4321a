//! Copying a directory tree so that the copy is the same in every byte, mode
//! and owner, sharing blocks with the original where the file system can.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::paths::stays_inside;

/// More threads than this only wait for the same disk.
const MOST_THREADS: usize = 8;

nix::ioctl_write_int!(
    /// `FICLONE` (`ioctl_ficlone(2)`): share the blocks of another file.
    ficlone, 0x94, 9
);

/// One thing below the root of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    path: PathBuf,
    kind: Kind,
    mode: u32,
    uid: u32,
    gid: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Dir,
    File { len: u64 },
    Link { target: PathBuf },
}

/// The contents of a tree, parents before children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tree {
    items: Vec<Item>,
}

/// Why a tree cannot be copied whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TreeError {
    /// A link that leaves the tree.
    #[error("{} points outside", .0.display())]
    LinkOutside(PathBuf),
    /// Neither file nor directory nor link.
    #[error("{} is neither a file nor a directory nor a link", .0.display())]
    Odd(PathBuf),
    /// A file operation failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> TreeError + use<> {
    let path = path.to_owned();
    move |source| TreeError::Io { path, source }
}

/// How many files were shared and how many copied. Empty files count as
/// neither.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) shared: u64,
    pub(crate) copied: u64,
}

impl Tree {
    /// Lists what is below `root`.
    pub(crate) fn scan(root: &Path) -> Result<Self, TreeError> {
        let mut items = Vec::new();
        let mut pending = vec![PathBuf::new()];
        while let Some(dir) = pending.pop() {
            let full = root.join(&dir);
            for entry in fs::read_dir(&full).map_err(at(&full))? {
                let entry = entry.map_err(at(&full))?;
                let path = dir.join(entry.file_name());
                let meta = entry.metadata().map_err(at(&entry.path()))?;
                let kind = if meta.is_dir() {
                    pending.push(path.clone());
                    Kind::Dir
                } else if meta.is_file() {
                    Kind::File { len: meta.len() }
                } else if meta.is_symlink() {
                    let target = fs::read_link(entry.path()).map_err(at(&entry.path()))?;
                    if !stays_inside(&dir, &target) {
                        return Err(TreeError::LinkOutside(path));
                    }
                    Kind::Link { target }
                } else {
                    return Err(TreeError::Odd(path));
                };
                items.push(Item {
                    path,
                    kind,
                    mode: meta.mode() & 0o7777,
                    uid: meta.uid(),
                    gid: meta.gid(),
                });
            }
        }
        items.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { items })
    }

    /// The number of plain files.
    pub(crate) fn files(&self) -> u64 {
        self.sizes().count() as u64
    }

    /// The sum of their sizes in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.sizes().sum()
    }

    fn sizes(&self) -> impl Iterator<Item = u64> {
        self.items.iter().filter_map(|item| match item.kind {
            Kind::File { len } => Some(len),
            Kind::Dir | Kind::Link { .. } => None,
        })
    }

    /// Copies everything from `from` into `to`, an existing empty directory, and
    /// flushes the file system of `to`.
    pub(crate) fn copy(&self, from: &Path, to: &Path) -> Result<Copied, TreeError> {
        for item in &self.items {
            let target = to.join(&item.path);
            match &item.kind {
                Kind::Dir => fs::create_dir(&target).map_err(at(&target))?,
                Kind::Link { target: points_to } => symlink(points_to, &target)
                    .and_then(|()| lchown_if_other(&target, item))
                    .map_err(at(&target))?,
                Kind::File { .. } => {}
            }
        }
        let copied = self.copy_files(from, to)?;
        // Last, and children first: a mode may forbid writing, even to us.
        for item in self.items.iter().rev().filter(|item| item.kind == Kind::Dir) {
            let target = to.join(&item.path);
            lchown_if_other(&target, item)
                .and_then(|()| fs::set_permissions(&target, PermissionsExt::from_mode(item.mode)))
                .map_err(at(&target))?;
        }
        // One flush of the file system instead of one per file: a data
        // directory has about a thousand.
        let dir = File::open(to).map_err(at(to))?;
        nix::unistd::syncfs(&dir).map_err(|error| at(to)(error.into()))?;
        Ok(copied)
    }

    fn copy_files(&self, from: &Path, to: &Path) -> Result<Copied, TreeError> {
        let files: Vec<(&Item, u64)> = self
            .items
            .iter()
            .filter_map(|item| match item.kind {
                Kind::File { len } => Some((item, len)),
                Kind::Dir | Kind::Link { .. } => None,
            })
            .collect();
        let next = AtomicUsize::new(0);
        let can_share = AtomicBool::new(true);
        let (shared, copied) = (AtomicU64::new(0), AtomicU64::new(0));
        let failure = Mutex::new(None);
        let work = || {
            while let Some((item, len)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                match copy_file(&from.join(&item.path), &to.join(&item.path), item, &can_share) {
                    Ok(_) if *len == 0 => {}
                    Ok(true) => _ = shared.fetch_add(1, Ordering::Relaxed),
                    Ok(false) => _ = copied.fetch_add(1, Ordering::Relaxed),
                    Err(error) => {
                        let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                        failure.get_or_insert(error);
                        // The others stop at their next file.
                        next.store(files.len(), Ordering::Relaxed);
                    }
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(MOST_THREADS));
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(Copied { shared: shared.into_inner(), copied: copied.into_inner() }),
        }
    }
}

/// Copies one file; true when its blocks are shared.
fn copy_file(
    from: &Path,
    to: &Path,
    item: &Item,
    can_share: &AtomicBool,
) -> Result<bool, TreeError> {
    let mut source = File::open(from).map_err(at(from))?;
    let mut target =
        File::options().write(true).create_new(true).mode(0o600).open(to).map_err(at(to))?;
    let mut shared = false;
    if can_share.load(Ordering::Relaxed) {
        // SAFETY: both descriptors are open for the duration of the call, and
        // the kernel reads the argument as a number, not as an address.
        let cloned =
            unsafe { ficlone(target.as_raw_fd(), source.as_raw_fd().cast_unsigned().into()) };
        shared = cloned.is_ok();
        if cloned.is_err() {
            // Not on this file system, or not between these two.
            can_share.store(false, Ordering::Relaxed);
        }
    }
    if !shared {
        // Uses copy_file_range(2): no trip through user space.
        io::copy(&mut source, &mut target).map_err(at(to))?;
    }
    let meta = target.metadata().map_err(at(to))?;
    if (meta.uid(), meta.gid()) != (item.uid, item.gid) {
        fchown(&target, Some(item.uid), Some(item.gid)).map_err(at(to))?;
    }
    target.set_permissions(PermissionsExt::from_mode(item.mode)).map_err(at(to))?;
    Ok(shared)
}

fn lchown_if_other(path: &Path, item: &Item) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    if (meta.uid(), meta.gid()) == (item.uid, item.gid) {
        return Ok(());
    }
    lchown(path, Some(item.uid), Some(item.gid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_same_tree() {
        let base = tempfile::tempdir().expect("temp dir");
        let from = base.path().join("from");
        fs::create_dir_all(from.join("a/closed")).expect("mkdir");
        fs::write(from.join("a/closed/f"), vec![7; 100_000]).expect("write");
        fs::write(from.join("empty"), "").expect("write");
        fs::set_permissions(from.join("a/closed/f"), PermissionsExt::from_mode(0o640))
            .expect("chmod");
        fs::set_permissions(from.join("a/closed"), PermissionsExt::from_mode(0o500))
            .expect("chmod");
        symlink("../a/closed", from.join("a/link")).expect("link");
        let to = base.path().join("to");
        fs::create_dir(&to).expect("mkdir");

        let tree = Tree::scan(&from).expect("scan");
        assert_eq!((tree.files(), tree.bytes()), (2, 100_000));
        let copied = tree.copy(&from, &to).expect("copy");
        assert_eq!(copied.shared + copied.copied, 1, "the empty file is neither");
        assert_eq!(Tree::scan(&to).expect("scan"), tree);
        assert_eq!(fs::read(to.join("a/closed/f")).expect("read"), vec![7; 100_000]);
        for root in [&from, &to] {
            // So that an unprivileged user can remove them.
            fs::set_permissions(root.join("a/closed"), PermissionsExt::from_mode(0o700))
                .expect("chmod");
        }
    }

    #[test]
    fn links_that_leave_are_refused() {
        for (target, outside) in [("/etc", true), ("../..", true), ("../x", false), ("y", false)] {
            let base = tempfile::tempdir().expect("temp dir");
            fs::create_dir(base.path().join("pg_tblspc")).expect("mkdir");
            symlink(target, base.path().join("pg_tblspc/16385")).expect("link");
            let scanned = Tree::scan(base.path());
            assert_eq!(
                matches!(&scanned, Err(TreeError::LinkOutside(path)) if path == Path::new("pg_tblspc/16385")),
                outside,
                "{target}"
            );
        }
    }

    #[test]
    fn a_failure_names_the_file() {
        let base = tempfile::tempdir().expect("temp dir");
        let from = base.path().join("from");
        fs::create_dir(&from).expect("mkdir");
        fs::write(from.join("f"), "x").expect("write");
        let tree = Tree::scan(&from).expect("scan");
        fs::remove_file(from.join("f")).expect("remove");
        let to = base.path().join("to");
        fs::create_dir(&to).expect("mkdir");
        let error = tree.copy(&from, &to).expect_err("gone");
        assert!(error.to_string().contains("from/f"), "{error}");
    }
}
