//! Files that only grow, a line of JSON at a time: the journal, the ledger, the runs of an
//! experiment.
//!
//! A line counts once its end is on disk. What a crash tore of the last one is passed over
//! by readers ([`whole_lines`]) and taken away by the next writer ([`LineFile::cut_torn`]).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::Serialize;

use crate::private;
use crate::whole_file::flush_directory;

/// A file of lines, locked against other writers until it is dropped.
#[derive(Debug)]
pub struct LineFile(File);

impl LineFile {
    /// Opens the file and waits for the lock; makes file and directory where they are not
    /// there.
    ///
    /// # Errors
    /// When it cannot be opened or locked.
    pub fn open(path: &Path) -> io::Result<LineFile> {
        let directory = path.parent().unwrap_or(Path::new("."));
        private::create_dir_all(directory)?;
        let new = !path.exists();
        let file = private::options().read(true).append(true).create(true).open(path)?;
        if new {
            // The name of a new file is on disk once its directory is.
            flush_directory(directory)?;
        }
        file.lock()?;
        Ok(LineFile(file))
    }

    /// All that is in it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.0.seek(SeekFrom::Start(0))?;
        self.0.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Takes away what a crash left of a last line, after `keep` has had it.
    ///
    /// # Errors
    /// When `keep` fails, or the file cannot be read or cut.
    pub fn cut_torn(&mut self, keep: impl FnOnce(&[u8]) -> io::Result<()>) -> io::Result<()> {
        if self.is_whole()? {
            return Ok(());
        }
        let bytes = self.bytes()?;
        let whole = end_of_whole_lines(&bytes);
        keep(&bytes[whole..])?;
        self.0.set_len(whole as u64)?;
        self.0.sync_all()
    }

    /// Whether its last line has its end.
    fn is_whole(&mut self) -> io::Result<bool> {
        if self.0.metadata()?.len() == 0 {
            return Ok(true);
        }
        let mut last = [0];
        self.0.seek(SeekFrom::End(-1))?;
        self.0.read_exact(&mut last)?;
        Ok(last == *b"\n")
    }

    /// Adds a line and flushes it. What could only be written in part is taken back.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let before = self.0.metadata()?.len();
        let written = self.0.write_all(&text).and_then(|()| self.0.sync_all());
        if written.is_err() {
            // Where that fails too, the next writer cuts it.
            let _ = self.0.set_len(before);
        }
        written
    }
}

/// The lines of a file that have their end, each with its number from 1; blank ones are
/// left out.
pub fn whole_lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = bytes[..end_of_whole_lines(bytes)].split(|byte| *byte == b'\n');
    (1..).zip(lines).filter(|(_, line)| !line.trim_ascii().is_empty())
}

fn end_of_whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_cut_anywhere_is_passed_over_and_then_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new").join("lines");
        LineFile::open(&path).unwrap().append(&"first").unwrap();
        let first = std::fs::read(&path).unwrap();
        LineFile::open(&path).unwrap().append(&"zweité").unwrap();
        let both = std::fs::read(&path).unwrap();
        for cut in first.len() + 1..both.len() {
            std::fs::write(&path, &both[..cut]).unwrap();
            let read = std::fs::read(&path).unwrap();
            assert_eq!(whole_lines(&read).collect::<Vec<_>>(), [(1, &b"\"first\""[..])]);
            let mut kept = Vec::new();
            let mut file = LineFile::open(&path).unwrap();
            file.cut_torn(|torn| kept.write_all(torn)).unwrap();
            assert_eq!(kept, both[first.len()..cut]);
            file.append(&3).unwrap();
            let third = [first.as_slice(), b"3\n"].concat();
            assert_eq!(file.bytes().unwrap(), third);
        }
        std::fs::write(&path, b"1\n\n \n2\n").unwrap();
        let lines: Vec<usize> =
            whole_lines(&std::fs::read(&path).unwrap()).map(|(number, _)| number).collect();
        assert_eq!(lines, [1, 4]);
    }

    #[test]
    fn what_cannot_be_kept_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        std::fs::write(&path, b"1\n2").unwrap();
        let mut file = LineFile::open(&path).unwrap();
        file.cut_torn(|_| Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        assert_eq!(file.bytes().unwrap(), b"1\n2");
    }
}
