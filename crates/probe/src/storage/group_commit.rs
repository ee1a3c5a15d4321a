//! Group commit as PostgreSQL does it, on files instead of a server: how many commits a
//! second a disk can make durable when one flush is under way at a time.
//!
//! `XLogFlush` takes `WALWriteLock` with `LWLockAcquireOrWait`: who gets it writes and
//! flushes all WAL inserted so far; who had to wait looks first whether its own is
//! durable already. So commits arrive while a flush is under way and share the next.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use walwright_record::FlushMethod;

use super::block::Block;
use super::flush::flush;
use super::scratch::Scratch;
use super::watch::{Measured, Operation, Watch, measure};
use super::{PAGE, SEGMENT};

/// What several sessions did, and how many flushes that took.
pub(super) struct Grouped {
    pub(super) commits: Measured,
    /// Commits that one flush made durable, on average.
    pub(super) per_flush: f64,
}

/// A WAL in one file, written again and again.
struct Wal {
    file: File,
    pages: Block,
    state: Mutex<State>,
    flushed: Condvar,
}

#[derive(Default)]
struct State {
    /// Bytes inserted since the beginning.
    inserted: u64,
    /// Bytes durable.
    durable: u64,
    /// Whether someone writes and flushes.
    flushing: bool,
    flushes: u64,
    commits: u64,
    /// A flush failed: nobody may wait for another.
    broken: bool,
}

impl Wal {
    /// Inserts a record and returns when it is durable.
    fn commit(&self, record: u64) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.inserted += record;
        let mine = state.inserted;
        loop {
            if state.broken {
                return Err(io::Error::other("another session's flush failed"));
            }
            if state.durable >= mine {
                state.commits += 1;
                return Ok(());
            }
            if state.flushing {
                state = self.flushed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.flushing = true;
            let (from, to) = (state.durable, state.inserted);
            drop(state);
            let written = self.write(from, to);
            state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.flushing = false;
            state.flushes += 1;
            match &written {
                Ok(()) => state.durable = to,
                Err(_) => state.broken = true,
            }
            self.flushed.notify_all();
            written?;
        }
    }

    /// Writes the pages that hold these bytes and flushes them. The page at the
    /// beginning is written again, as PostgreSQL does with one that was not full.
    fn write(&self, from: u64, to: u64) -> io::Result<()> {
        let page = PAGE as u64;
        let mut at = from / page * page;
        while at < to {
            let place = at % SEGMENT;
            let rest = (to - at).div_ceil(page) * page;
            let length = rest.min(SEGMENT - place).min(self.pages.bytes().len() as u64);
            self.file.write_all_at(&self.pages.bytes()[..length as usize], place)?;
            at += length;
        }
        flush(FlushMethod::Fdatasync, &self.file)
    }
}

/// Measures `committers` sessions; the time of an operation is that of a commit.
pub(super) fn group_commit(
    watch: &Watch,
    directory: &Path,
    committers: u32,
    record_bytes: u32,
) -> io::Result<Grouped> {
    let scratch = Scratch::written(directory, SEGMENT)?;
    let wal = Wal {
        file: scratch.reopen(0)?,
        pages: Block::random(1 << 20, 4),
        state: Mutex::new(State::default()),
        flushed: Condvar::new(),
    };
    let record = u64::from(record_bytes);
    let session = || {
        || -> Operation {
            let before = Instant::now();
            wal.commit(record)?;
            Ok((record, before.elapsed()))
        }
    };
    let commits = measure(watch, (0..committers).map(|_| session()).collect())?;
    let state = wal.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let per_flush = state.commits as f64 / (state.flushes.max(1)) as f64;
    Ok(Grouped { commits, per_flush })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn commits_share_flushes_and_one_alone_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let watch = Watch { each: Duration::from_millis(50), stop: &|| false };
        let alone = group_commit(&watch, dir.path(), 1, 512).unwrap();
        assert!((alone.per_flush - 1.0).abs() < 1e-9);
        let together = group_commit(&watch, dir.path(), 16, 512).unwrap();
        assert!(together.per_flush > 1.0, "{}", together.per_flush);
    }

    #[test]
    fn a_write_covers_every_page_of_its_bytes_also_around_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::create(dir.path()).unwrap();
        scratch.file().set_len(SEGMENT).unwrap();
        let wal = Wal {
            file: scratch.reopen(0).unwrap(),
            pages: Block::random(1 << 20, 4),
            state: Mutex::new(State::default()),
            flushed: Condvar::new(),
        };
        let written = |place: u64| {
            let mut byte = [0; 16];
            scratch.file().read_exact_at(&mut byte, place).unwrap();
            byte != [0; 16]
        };
        wal.write(SEGMENT - 10, SEGMENT + 10).unwrap();
        let page = PAGE as u64;
        assert!(written(SEGMENT - page) && written(0));
        assert!(!written(page) && !written(SEGMENT - 2 * page));
    }

    #[test]
    fn a_flush_that_fails_ends_all_sessions() {
        let dir = tempfile::tempdir().unwrap();
        let read_only = dir.path().join("wal");
        std::fs::write(&read_only, "").unwrap();
        let wal = Wal {
            file: File::open(&read_only).unwrap(),
            pages: Block::random(PAGE, 4),
            state: Mutex::new(State::default()),
            flushed: Condvar::new(),
        };
        std::thread::scope(|scope| {
            let sessions: Vec<_> = (0..4).map(|_| scope.spawn(|| wal.commit(100))).collect();
            for session in sessions {
                assert!(session.join().unwrap().is_err());
            }
        });
    }
}
