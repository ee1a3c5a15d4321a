//! The file that stands for the data: pages read and written at random, blocks in order.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use walwright_record::Access;

use super::PAGE;
use super::block::Block;
use super::scratch::Scratch;
use super::watch::{Measured, Operation, Watch, measure, timed};
use crate::cpu::mix;

/// Block of sequential access: what the kernel makes of sequential reads at most on
/// most devices, and of the writes of a checkpoint.
pub(super) const SEQUENTIAL: usize = 1 << 20;
/// Pages of one checkpoint burst.
const BURST: u64 = 4096;
/// Pages after which a checkpoint has them written out (`checkpoint_flush_after`,
/// 256 kB by default).
const FLUSH_AFTER: usize = 32;

/// The file. It has no name: its space is free when this process ends, however it ends.
pub(super) struct DataFile {
    /// Through the page cache, as PostgreSQL writes.
    buffered: File,
    /// Past it; `None` where the file system has no direct I/O.
    direct: Option<File>,
    bytes: u64,
    _scratch: Scratch,
}

impl DataFile {
    /// Writes the file, `bytes` long or as much as can be written in `budget`. `None`
    /// when it was stopped before.
    pub(super) fn create(
        directory: &Path,
        bytes: u64,
        budget: Duration,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> io::Result<Option<DataFile>> {
        let scratch = Scratch::create(directory)?;
        let buffered = scratch.reopen(0)?;
        let direct = scratch.reopen(libc::O_DIRECT).ok();
        scratch.unlink()?;
        let mut block = Block::random(SEQUENTIAL, 5);
        // Some file systems open for direct I/O and then refuse it.
        let direct = direct.filter(|file| file.write_all_at(block.bytes(), 0).is_ok());
        let writer = direct.as_ref().unwrap_or(&buffered);
        let started = Instant::now();
        let mut written = 0;
        while written < bytes && (written == 0 || started.elapsed() < budget) {
            if stop() {
                return Ok(None);
            }
            block.stamp(written);
            writer.write_all_at(block.bytes(), written)?;
            written += SEQUENTIAL as u64;
        }
        buffered.sync_all()?;
        Ok(Some(DataFile { buffered, direct, bytes: written, _scratch: scratch }))
    }

    /// Its size.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether reads and writes can go past the page cache.
    pub(super) fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// A worker that reads or writes pages at random places.
    pub(super) fn random(&self, access: Access, seed: u64) -> io::Result<PageWorker> {
        let file = self.direct.as_ref().unwrap_or(&self.buffered).try_clone()?;
        let block = Block::random(PAGE, seed);
        Ok(PageWorker { file, access, block, pages: self.bytes / PAGE as u64, state: mix(seed) })
    }

    /// A worker that writes as a checkpoint does.
    pub(super) fn checkpoint(&self) -> io::Result<CheckpointWorker> {
        Ok(CheckpointWorker {
            file: self.buffered.try_clone()?,
            block: Block::random(PAGE, 6),
            pages: self.bytes / PAGE as u64,
            written: Vec::new(),
            round: 0,
        })
    }
}

/// Measures `depth` workers at random places.
pub(super) fn random(
    watch: &Watch,
    data: &DataFile,
    access: Access,
    depth: u32,
) -> io::Result<Measured> {
    let workers: Vec<PageWorker> =
        (0..depth).map(|i| data.random(access, u64::from(i) + 11)).collect::<io::Result<_>>()?;
    measure(watch, workers.into_iter().map(|mut worker| move || worker.once()).collect())
}

/// Measures `depth` workers that take one block after the other.
pub(super) fn sequential(
    watch: &Watch,
    data: &DataFile,
    access: Access,
    depth: u32,
) -> io::Result<Measured> {
    let next = Arc::new(AtomicU64::new(0));
    let blocks = data.bytes / SEQUENTIAL as u64;
    let worker = |number: u32| -> io::Result<_> {
        let file = data.direct.as_ref().unwrap_or(&data.buffered).try_clone()?;
        let (mut block, next) = (Block::random(SEQUENTIAL, u64::from(number)), Arc::clone(&next));
        Ok(move || {
            let offset = next.fetch_add(1, Ordering::Relaxed) % blocks * SEQUENTIAL as u64;
            timed(SEQUENTIAL, || match access {
                Access::Read => file.read_exact_at(block.bytes_mut(), offset),
                Access::Write => file.write_all_at(block.bytes(), offset),
            })
        })
    };
    measure(watch, (0..depth).map(worker).collect::<io::Result<_>>()?)
}

/// Reads or writes pages at random places.
pub(super) struct PageWorker {
    file: File,
    access: Access,
    block: Block,
    pages: u64,
    state: u64,
}

impl PageWorker {
    /// One page.
    pub(super) fn once(&mut self) -> Operation {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let offset = mix(self.state) % self.pages * PAGE as u64;
        if self.access == Access::Write {
            self.block.stamp(self.state);
        }
        timed(PAGE, || match self.access {
            Access::Read => self.file.read_exact_at(self.block.bytes_mut(), offset),
            Access::Write => self.file.write_all_at(self.block.bytes(), offset),
        })
    }
}

/// Writes pages as a checkpoint does: sorted, through the page cache, pushed out in
/// between, flushed at the end of each burst.
pub(super) struct CheckpointWorker {
    file: File,
    block: Block,
    pages: u64,
    /// Pages left of this burst, the last first.
    written: Vec<u64>,
    round: u64,
}

impl CheckpointWorker {
    /// A few pages, or the flush at the end of a burst.
    pub(super) fn once(&mut self) -> Operation {
        if self.written.is_empty() {
            let burst = BURST.min(self.pages / 4).max(1);
            self.round += burst;
            self.written =
                (0..burst).map(|i| mix(self.round.wrapping_add(i)) % self.pages).collect();
            self.written.sort_unstable_by(|a, b| b.cmp(a));
        }
        let keep = self.written.len().saturating_sub(FLUSH_AFTER);
        let part: Vec<u64> = self.written.drain(keep..).rev().collect();
        let last = self.written.is_empty();
        timed(part.len() * PAGE, || {
            for page in &part {
                self.block.stamp(self.round ^ page);
                self.file.write_all_at(self.block.bytes(), page * PAGE as u64)?;
            }
            if let (Some(first), Some(end)) = (part.first(), part.last()) {
                push_out(&self.file, first * PAGE as u64, (end + 1) * PAGE as u64);
            }
            if last { self.file.sync_all() } else { Ok(()) }
        })
    }
}

/// Asks the kernel to begin writing a stretch of the file, as PostgreSQL does
/// (`pg_flush_data`). It is a hint, so what it answers does not matter.
fn push_out(file: &File, from: u64, to: u64) {
    let (from, length) = (from as libc::off64_t, (to - from) as libc::off64_t);
    // SAFETY: no memory is passed, and the descriptor is open while `file` is borrowed.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), from, length, libc::SYNC_FILE_RANGE_WRITE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_blocks_stay_inside_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let size = 3 * SEQUENTIAL as u64;
        let data = DataFile::create(dir.path(), size, Duration::from_secs(60), &|| false)
            .unwrap()
            .unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "it has no name");
        let watch = Watch { each: Duration::from_millis(5), stop: &|| false };
        for access in [Access::Read, Access::Write] {
            let done = random(&watch, &data, access, 2).unwrap();
            assert_eq!(done.bytes, done.latency.count() * PAGE as u64);
            let done = sequential(&watch, &data, access, 2).unwrap();
            assert_eq!(done.bytes, done.latency.count() * SEQUENTIAL as u64);
        }
        let mut checkpoint = data.checkpoint().unwrap();
        let (bytes, _) = checkpoint.once().unwrap();
        assert_eq!(bytes, (FLUSH_AFTER * PAGE) as u64);
        while !checkpoint.written.is_empty() {
            assert!(checkpoint.written.is_sorted_by(|a, b| a >= b));
            checkpoint.once().unwrap();
        }
        assert_eq!(data.buffered.metadata().unwrap().len(), size);
    }

    #[test]
    fn a_slow_disk_gets_a_smaller_file_and_a_stop_none() {
        let dir = tempfile::tempdir().unwrap();
        let size = 64 * SEQUENTIAL as u64;
        let short = DataFile::create(dir.path(), size, Duration::ZERO, &|| false).unwrap().unwrap();
        assert_eq!(short.bytes(), SEQUENTIAL as u64);
        let none = DataFile::create(dir.path(), size, Duration::from_secs(9), &|| true).unwrap();
        assert!(none.is_none());
    }
}
