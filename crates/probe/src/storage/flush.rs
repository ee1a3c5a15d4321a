//! Writes and flushes, one at a time a file, as a WAL without group commit does.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use walwright_record::{FileState, FlushMethod};

use super::SEGMENT;
use super::block::Block;
use super::scratch::Scratch;
use super::watch::{Measured, Operation, Watch, measure, timed};

/// Size of each file where several are flushed side by side.
const SMALL_FILE: u64 = 2 << 20;

/// Flags of open(2) for a method.
pub(super) fn open_flags(method: FlushMethod) -> i32 {
    match method {
        FlushMethod::Fdatasync | FlushMethod::Fsync => 0,
        FlushMethod::OpenDatasync => libc::O_DSYNC,
        FlushMethod::OpenSync => libc::O_SYNC,
    }
}

/// What follows a write.
pub(super) fn flush(method: FlushMethod, file: &File) -> io::Result<()> {
    match method {
        FlushMethod::Fdatasync => file.sync_data(),
        FlushMethod::Fsync => file.sync_all(),
        FlushMethod::OpenDatasync | FlushMethod::OpenSync => Ok(()),
    }
}

/// A writer that flushes each write, through a file of one segment again and again.
pub(super) struct Flusher {
    scratch: Scratch,
    file: File,
    method: FlushMethod,
    state: FileState,
    length: u64,
    offset: u64,
    block: Block,
    number: u64,
}

impl Flusher {
    /// A writer of `bytes` at a time.
    pub(super) fn new(
        directory: &Path,
        method: FlushMethod,
        state: FileState,
        bytes: usize,
        length: u64,
    ) -> io::Result<Flusher> {
        let scratch = match state {
            FileState::Written => Scratch::written(directory, length)?,
            FileState::Sized | FileState::Growing => Scratch::create(directory)?,
        };
        if state == FileState::Sized {
            scratch.file().set_len(length)?;
        }
        scratch.file().sync_all()?;
        let file = scratch.reopen(open_flags(method))?;
        let block = Block::random(bytes, 2);
        Ok(Flusher { scratch, file, method, state, length, offset: 0, block, number: 0 })
    }

    /// Writes and flushes once.
    pub(super) fn once(&mut self) -> Operation {
        let bytes = self.block.bytes().len();
        if self.offset + bytes as u64 > self.length {
            self.offset = 0;
            self.renew()?;
        }
        self.number += 1;
        self.block.stamp(self.number);
        let (file, block, offset, method) = (&self.file, &self.block, self.offset, self.method);
        let done = timed(bytes, || {
            file.write_all_at(block.bytes(), offset)?;
            flush(method, file)
        });
        self.offset += bytes as u64;
        done
    }

    /// Makes a file that has been written new again, outside of all times.
    fn renew(&self) -> io::Result<()> {
        let file = self.scratch.file();
        match self.state {
            FileState::Written => return Ok(()),
            FileState::Sized => {
                file.set_len(0)?;
                file.set_len(self.length)?;
            }
            FileState::Growing => file.set_len(0)?,
        }
        file.sync_all()
    }
}

/// Measures `files` writers side by side, each with a file of its own.
pub(super) fn flushes(
    watch: &Watch,
    directory: &Path,
    method: FlushMethod,
    state: FileState,
    bytes: u32,
    files: u32,
) -> io::Result<Measured> {
    let length = if files == 1 { SEGMENT } else { SMALL_FILE };
    let writers: Vec<Flusher> = (0..files)
        .map(|_| Flusher::new(directory, method, state, bytes as usize, length))
        .collect::<io::Result<_>>()?;
    measure(watch, writers.into_iter().map(|mut writer| move || writer.once()).collect())
}

/// Measures direct writes of WAL pages that nothing flushes.
pub(super) fn unflushed(watch: &Watch, directory: &Path, bytes: u32) -> io::Result<Measured> {
    let scratch = Scratch::written(directory, SEGMENT)?;
    let file = scratch.reopen(libc::O_DIRECT)?;
    let mut block = Block::random(bytes as usize, 3);
    let mut number = 0_u64;
    let write = move || {
        number += 1;
        block.stamp(number);
        let offset = number * u64::from(bytes) % SEGMENT;
        timed(bytes as usize, || file.write_all_at(block.bytes(), offset))
    };
    measure(watch, vec![write])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_method_writes_every_kind_of_file_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let watch = Watch { each: Duration::from_millis(1), stop: &|| false };
        for method in FlushMethod::ALL {
            for state in [FileState::Written, FileState::Sized, FileState::Growing] {
                let done = flushes(&watch, dir.path(), method, state, 8192, 2).unwrap();
                assert!(done.latency.count() >= 2 && done.bytes >= 2 * 8192, "{method:?}");
            }
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_growing_file_begins_again_at_a_segment() {
        let dir = tempfile::tempdir().unwrap();
        for (state, after) in [(FileState::Growing, 8192), (FileState::Sized, 24_576)] {
            let mut writer =
                Flusher::new(dir.path(), FlushMethod::Fdatasync, state, 8192, 24_576).unwrap();
            for _ in 0..4 {
                writer.once().unwrap();
            }
            assert_eq!(writer.scratch.file().metadata().unwrap().len(), after);
        }
    }
}
