//! Flushes of the WAL while the data disk is busy.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use walwright_record::{Access, DataLoad, FileState, FlushMethod};

use super::data_file::DataFile;
use super::flush::Flusher;
use super::watch::{Measured, Operation, Watch, measure};
use super::{PAGE, SEGMENT};

/// Readers of random pages.
const READERS: u64 = 4;
/// Time the load has to get going before flushes count.
const LEAD: Duration = Duration::from_millis(100);

/// Flushes, and what went on beside them.
pub(super) struct UnderLoad {
    pub(super) flushes: Measured,
    /// Pages a second that the data disk read and wrote meanwhile.
    pub(super) pages_per_second: f64,
}

/// Measures one writer that flushes pages of WAL while `load` goes on.
pub(super) fn flushes_under(
    watch: &Watch,
    wal: &Path,
    data: &DataFile,
    load: DataLoad,
) -> io::Result<UnderLoad> {
    let mut flusher = Flusher::new(wal, FlushMethod::Fdatasync, FileState::Written, PAGE, SEGMENT)?;
    let mut others = workers(data, load)?;
    let (over, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    let (over, bytes) = (&over, &bytes);
    std::thread::scope(|scope| {
        let threads: Vec<_> = others
            .iter_mut()
            .map(|worker| {
                scope.spawn(move || -> io::Result<()> {
                    while !over.load(Ordering::Relaxed) {
                        let (done, _) = worker()?;
                        bytes.fetch_add(done, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        std::thread::sleep(LEAD);
        let (before, started) = (bytes.load(Ordering::Relaxed), Instant::now());
        let flushes = measure(watch, vec![|| flusher.once()]);
        let done = bytes.load(Ordering::Relaxed) - before;
        let elapsed = started.elapsed().as_secs_f64().max(1e-9);
        over.store(true, Ordering::Relaxed);
        for thread in threads {
            let lost = || io::Error::other("a thread of the measurement ended unexpectedly");
            thread.join().map_err(|_| lost())??;
        }
        Ok(UnderLoad { flushes: flushes?, pages_per_second: done as f64 / PAGE as f64 / elapsed })
    })
}

type Worker = Box<dyn FnMut() -> Operation + Send>;

fn workers(data: &DataFile, load: DataLoad) -> io::Result<Vec<Worker>> {
    let pages = |access, seed| -> io::Result<Worker> {
        let mut worker = data.random(access, seed)?;
        Ok(Box::new(move || worker.once()))
    };
    let checkpoint = || -> io::Result<Worker> {
        let mut worker = data.checkpoint()?;
        Ok(Box::new(move || worker.once()))
    };
    let readers = || (0..READERS).map(|i| pages(Access::Read, 31 + i));
    match load {
        DataLoad::PageWrites => Ok(vec![pages(Access::Write, 41)?]),
        DataLoad::PageReads => readers().collect(),
        DataLoad::Checkpoint => Ok(vec![checkpoint()?]),
        DataLoad::Everything => readers().chain([pages(Access::Write, 41), checkpoint()]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_and_the_load_beside_them_are_both_counted() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataFile::create(dir.path(), 8 << 20, Duration::from_secs(60), &|| false);
        let data = data.unwrap().unwrap();
        let watch = Watch { each: Duration::from_millis(20), stop: &|| false };
        for load in [DataLoad::PageWrites, DataLoad::Everything] {
            let done = flushes_under(&watch, dir.path(), &data, load).unwrap();
            assert!(done.flushes.latency.count() > 0, "{load:?}");
            assert!(done.pages_per_second > 0.0, "{load:?}");
        }
    }
}
