//! Power cuts: what a server wrote and did not flush is taken from it.
//!
//! Killing every process of a server takes nothing that the operating system holds. So a
//! library that is preloaded into the server keeps what unflushed writes replaced
//! ([`journal`]), and [`put_back`] brings the data directory to what a power cut may leave.

mod journal;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::error::ClusterError;
use super::preload::Library;
use crate::places::create_owned_dir;
use crate::user::ServerUser;
use journal::{Entry, Inode, Journal, JournalError, PAGE, What};

/// Preloaded into the server (`shim/power_cut.c`).
pub(super) const LIBRARY: Library = Library {
    name: "power_cut.so",
    content: include_bytes!(concat!(env!("OUT_DIR"), "/power_cut.so")),
};
/// The journal's directory in that of a cluster.
const DIRECTORY: &str = "unflushed";

/// What a power cut takes of what was written and not flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerCut {
    /// All of it.
    All,
    /// Random pages of 4 kB, and the latest changes of names: a disk writes in an order of
    /// its own.
    Random {
        /// The same seed chooses the same.
        seed: u64,
    },
}

/// What a power cut took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unflushed {
    /// Pages of 4 kB that were written and not flushed.
    pub pages: u64,
    /// Those of them that were lost.
    pub pages_lost: u64,
    /// Files made, renamed or removed whose change was not flushed.
    pub names: u64,
    /// Those of them that were lost.
    pub names_lost: u64,
}

/// Has the server that `command` starts, with the library, keep a journal of what is not
/// flushed. What was written before counts as flushed.
pub(super) fn watch(
    command: &mut Command,
    directory: &Path,
    data_dir: &Path,
    user: &ServerUser,
) -> io::Result<()> {
    remove(directory)?;
    let journal = directory.join(DIRECTORY);
    create_owned_dir(&journal, 0o700, user)?;
    create_owned_dir(&journal.join("saved"), 0o700, user)?;
    // Open files show their paths without links.
    command.env("WALWRIGHT_POWER_CUT_DATA", fs::canonicalize(data_dir)?);
    command.env("WALWRIGHT_POWER_CUT_JOURNAL", fs::canonicalize(&journal)?);
    Ok(())
}

/// Takes the journal away.
pub(super) fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory.join(DIRECTORY)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Brings the data directory to what `cut` leaves, after the last process has ended.
pub(super) fn put_back(
    directory: &Path,
    data_dir: &Path,
    user: &ServerUser,
    cut: PowerCut,
) -> Result<Unflushed, ClusterError> {
    let at = directory.join(DIRECTORY);
    let unflushed = Journal::read(&at.join("journal"))
        .and_then(|journal| Restoring { journal, saved: at.join("saved"), cut }.all(data_dir, user))
        .map_err(|error| match error {
            JournalError::Io(error) => {
                ClusterError::io("put back what was not flushed in", data_dir)(error)
            }
            reason => {
                ClusterError::Unknowable { dir: data_dir.to_owned(), reason: reason.to_string() }
            }
        })?;
    remove(directory).map_err(ClusterError::io("remove", &at))?;
    Ok(unflushed)
}

/// A journal on its way back to the disk.
struct Restoring {
    journal: Journal,
    /// Where the files are whose names were removed.
    saved: PathBuf,
    cut: PowerCut,
}

/// The oldest state of a file that the journal has.
#[derive(Default)]
struct Old {
    size: Option<u64>,
    /// Where each page is in the journal.
    pages: BTreeMap<u64, u64>,
}

impl Restoring {
    fn all(&self, data_dir: &Path, user: &ServerUser) -> Result<Unflushed, JournalError> {
        let mut random = match self.cut {
            PowerCut::All => None,
            PowerCut::Random { seed } => Some(SplitMix(seed)),
        };
        let mut done = Unflushed::default();
        self.contents(data_dir, &mut random, &mut done)?;
        self.names(user, &mut random, &mut done)?;
        Ok(done)
    }

    fn contents(
        &self,
        data_dir: &Path,
        random: &mut Option<SplitMix>,
        done: &mut Unflushed,
    ) -> io::Result<()> {
        let mut paths = BTreeMap::new();
        for directory in [data_dir, &self.saved] {
            find_files(directory, &mut paths)?;
        }
        let mut files: BTreeMap<Inode, Old> = BTreeMap::new();
        for Entry { inode, what, .. } in &self.journal.entries {
            let old = files.entry(*inode).or_default();
            // In order of making: the first is the oldest.
            match what {
                What::Page { page, image } => _ = old.pages.entry(*page).or_insert(*image),
                What::Size(size) => _ = old.size.get_or_insert(*size),
                What::Made(_) | What::Moved { .. } | What::Gone { .. } => {}
            }
        }
        for (inode, old) in files {
            // One without a name is no more, whatever it held.
            let Some(path) = paths.get(&inode) else { continue };
            let file = File::options().read(true).write(true).open(path)?;
            if let Some(size) = old.size
                && is_lost(random)
            {
                file.set_len(size)?;
            }
            let size = file.metadata()?.len();
            for (page, image) in old.pages {
                done.pages += 1;
                if !is_lost(random) {
                    continue;
                }
                done.pages_lost += 1;
                let at = page.saturating_mul(PAGE as u64);
                let length = usize::try_from(size.saturating_sub(at)).map_or(PAGE, |l| l.min(PAGE));
                file.write_all_at(&self.journal.page(image)?[..length], at)?;
            }
        }
        Ok(())
    }

    /// Undoes changes of names, the latest first: a journal of a file system loses its end.
    fn names(
        &self,
        user: &ServerUser,
        random: &mut Option<SplitMix>,
        done: &mut Unflushed,
    ) -> io::Result<()> {
        let is_name = |entry: &&Entry| !matches!(entry.what, What::Page { .. } | What::Size(_));
        let changes: Vec<&Entry> = self.journal.entries.iter().filter(is_name).collect();
        let kept = match random {
            None => 0,
            Some(random) => {
                usize::try_from(random.next() % (changes.len() as u64 + 1)).unwrap_or(0)
            }
        };
        done.names = changes.len() as u64;
        done.names_lost = (changes.len() - kept) as u64;
        for change in changes[kept..].iter().rev() {
            let saved = self.saved.join(change.number.to_string());
            match &change.what {
                What::Page { .. } | What::Size(_) => {}
                What::Made(path) if has(path, change.inode) => remove_name(path)?,
                What::Moved { old, new } => {
                    if has(new, change.inode) {
                        fs::rename(new, old)?;
                    }
                    if saved.exists() && !new.exists() {
                        fs::rename(saved, new)?;
                    }
                }
                What::Gone { path, .. } if path.exists() => {}
                What::Gone { path, .. } if saved.exists() => fs::rename(saved, path)?,
                What::Gone { path, mode } => {
                    // A directory; one within another that is no more has no place.
                    if create_owned_dir(path, 0o700, user).is_ok() {
                        fs::set_permissions(path, fs::Permissions::from_mode(*mode))?;
                    }
                }
                What::Made(_) => {}
            }
        }
        Ok(())
    }
}

/// Removes a file, or a directory if nothing in it stayed.
fn remove_name(path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        return fs::remove_file(path);
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
        _ => Ok(()),
    }
}

fn inode(of: &fs::Metadata) -> Inode {
    Inode { device: of.dev(), number: of.ino() }
}

/// Whether `path` is a name of that file.
fn has(path: &Path, wanted: Inode) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| inode(&found) == wanted)
}

/// A path of each file below `directory`.
fn find_files(directory: &Path, found: &mut BTreeMap<Inode, PathBuf>) -> io::Result<()> {
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                left.push(entry.path());
            } else if metadata.is_file() {
                found.insert(inode(&metadata), entry.path());
            }
        }
    }
    Ok(())
}

fn is_lost(random: &mut Option<SplitMix>) -> bool {
    random.as_mut().is_none_or(|random| random.next() & 1 == 1)
}

/// Random bits from a seed (Steele, Lea and Flood 2014).
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
