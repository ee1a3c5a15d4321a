//! The file of the journal: lines that are whole on disk or not there.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::private;

use super::{Contents, Entry};
use crate::whole_file::flush_directory;

/// The file, locked against other writers until it is dropped.
#[derive(Debug)]
pub(super) struct Locked(File);

impl Locked {
    /// Opens the file and waits for the lock; makes file and directory where they are
    /// not there.
    pub(super) fn open(path: &Path) -> io::Result<Locked> {
        let directory = path.parent().unwrap_or(Path::new("."));
        private::create_dir_all(directory)?;
        let new = !path.exists();
        let file = private::options().read(true).append(true).create(true).open(path)?;
        if new {
            // The name of a new file is on disk once its directory is.
            flush_directory(directory)?;
        }
        file.lock()?;
        Ok(Locked(file))
    }

    /// Moves what a crash left of a last line to `aside`; a last line that lacks only
    /// its end gets it.
    pub(super) fn set_torn_aside(&mut self, aside: &Path) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.0.seek(SeekFrom::Start(0))?;
        self.0.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
        let torn = &bytes[whole..];
        if torn.is_empty() {
            return Ok(());
        }
        if serde_json::from_slice::<Entry>(torn).is_ok() {
            return self.append(b"\n");
        }
        // Kept before it is taken away: killed in between, it is there twice.
        let mut kept = private::options().append(true).create(true).open(aside)?;
        kept.write_all(torn)?;
        kept.write_all(b"\n")?;
        kept.sync_all()?;
        self.0.set_len(whole as u64)?;
        self.0.sync_all()
    }

    /// Writes bytes at the end and flushes them. What could only be written in part
    /// is taken back.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let before = self.0.metadata()?.len();
        let written = self.0.write_all(bytes).and_then(|()| self.0.sync_all());
        if written.is_err() {
            // Where that fails too, the next writer sets it aside.
            let _ = self.0.set_len(before);
        }
        written
    }
}

/// The entries in the bytes of a file. A last line without an end is one that a
/// writer is at, or that a crash cut; it counts where it is whole.
pub(super) fn parse(bytes: &[u8]) -> Contents {
    let mut contents = Contents::default();
    for (place, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        let ended = line.ends_with(b"\n");
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(entry) => contents.entries.push(entry),
            Err(why) if ended => contents
                .unreadable
                .push(format!("line {} is no entry that this version reads: {why}", place + 1)),
            Err(_) => {}
        }
    }
    contents
}
