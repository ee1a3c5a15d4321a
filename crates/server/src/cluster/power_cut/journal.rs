//! What the preloaded library remembers (`shim/power_cut.c`, whose layout this is).

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;
/// What a process that uses the journal writes at its beginning.
const MAGIC: u64 = 0x3174_7563_7277_6f70;
const RECORDS: u64 = 1 << 22;
const RECORD: usize = 64;
const RECORDS_AT: u64 = PAGE as u64 + 4 * ((1 << 16) + (1 << 20));
const PAGES_AT: u64 = RECORDS_AT + RECORDS * RECORD as u64;

/// A file, whatever its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Inode {
    pub device: u64,
    pub number: u64,
}

/// Something that is not durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// In order of making.
    pub number: u64,
    pub inode: Inode,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// A page was written: its number. Where it is in the journal is `image`.
    Page { page: u64, image: u64 },
    /// The length changed, from this.
    Size(u64),
    /// A name was made.
    Made(PathBuf),
    /// A file was renamed.
    Moved { old: PathBuf, new: PathBuf },
    /// A name was removed, of a file or directory with this mode.
    Gone { path: PathBuf, mode: u32 },
}

/// A journal that no process uses any more.
pub(super) struct Journal {
    file: File,
    /// What is not durable, in order of making.
    pub entries: Vec<Entry>,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum JournalError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the server did not use it")]
    Unused,
    #[error("the server wrote more than it holds (16 GB) between two flushes")]
    Incomplete,
    #[error("it is damaged")]
    Damaged,
}

impl Journal {
    pub fn read(path: &Path) -> Result<Self, JournalError> {
        let file = File::open(path)?;
        let mut header = [0; 32];
        file.read_exact_at(&mut header, 0)?;
        if long(&header, 0) != MAGIC {
            return Err(JournalError::Unused);
        }
        if word(&header, 24) != 0 {
            return Err(JournalError::Incomplete);
        }
        let used = u64::from(word(&header, 8));
        if used == 0 || used > RECORDS {
            return Err(JournalError::Damaged);
        }
        let mut records = vec![0; usize::try_from(used).unwrap_or(0) * RECORD];
        file.read_exact_at(&mut records, RECORDS_AT)?;
        let mut entries = Vec::new();
        for (index, record) in (0..).zip(records.chunks_exact(RECORD)) {
            let inode = Inode { device: long(record, 8), number: long(record, 16) };
            let at = long(record, 24);
            let name = || names(&file, index);
            let what = match word(record, 0) {
                0 => continue,
                1 => What::Page { page: at, image: index },
                2 => What::Size(at),
                3 => What::Made(name()?.0),
                4 => name().map(|(new, old)| What::Moved { old, new })?,
                5 => What::Gone { path: name()?.0, mode: word(record, 4) },
                _ => return Err(JournalError::Damaged),
            };
            entries.push(Entry { number: long(record, 32), inode, what });
        }
        entries.sort_by_key(|entry| entry.number);
        Ok(Self { file, entries })
    }

    /// A page as it was; zeros where the file ended.
    pub fn page(&self, image: u64) -> io::Result<[u8; PAGE]> {
        let mut length = [0; 4];
        self.file.read_exact_at(&mut length, RECORDS_AT + image * RECORD as u64 + 4)?;
        let mut page = [0; PAGE];
        let length = PAGE.min(u32::from_ne_bytes(length) as usize);
        self.file.read_exact_at(&mut page[..length], PAGES_AT + image * PAGE as u64)?;
        Ok(page)
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |long| u64::from_ne_bytes(*long))
}

/// The two names in a record's page, which end with a zero each.
fn names(file: &File, index: u64) -> io::Result<(PathBuf, PathBuf)> {
    let mut page = [0; PAGE];
    file.read_exact_at(&mut page, PAGES_AT + index * PAGE as u64)?;
    let name = |half: &[u8]| -> PathBuf {
        let bytes = half.split(|byte| *byte == 0).next().unwrap_or_default();
        std::ffi::OsString::from_vec(bytes.to_vec()).into()
    };
    let (first, second) = page.split_at(PAGE / 2);
    Ok((name(first), name(second)))
}
