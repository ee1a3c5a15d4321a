//! Flush latency where the WAL lies.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use walwright_record::StorageProbe;

use crate::ProbeError;

/// Size of a WAL page (`XLOG_BLCKSZ` as built by default), and of one write.
const BLOCK: usize = 8192;
/// Size of a WAL segment as built by default; the file is written whole first,
/// as PostgreSQL does, so that flushes do not wait for the allocation of space.
const FILE_BYTES: usize = 16 << 20;
/// Flushes that are not counted: the first ones still write the file's own metadata.
const WARM_UP: u64 = 8;

/// How `wal_sync_method` makes a write durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Fdatasync,
    Fsync,
    OpenDatasync,
    OpenSync,
}

impl Method {
    fn parse(name: &str) -> Option<Method> {
        match name {
            "fdatasync" => Some(Method::Fdatasync),
            "fsync" => Some(Method::Fsync),
            "open_datasync" => Some(Method::OpenDatasync),
            "open_sync" => Some(Method::OpenSync),
            _ => None,
        }
    }

    fn open_flags(self) -> i32 {
        match self {
            Method::Fdatasync | Method::Fsync => 0,
            Method::OpenDatasync => libc::O_DSYNC,
            Method::OpenSync => libc::O_SYNC,
        }
    }

    fn flush(self, file: &File) -> io::Result<()> {
        match self {
            Method::Fdatasync => file.sync_data(),
            Method::Fsync => file.sync_all(),
            Method::OpenDatasync | Method::OpenSync => Ok(()),
        }
    }
}

/// Removes the file however the measurement ends.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes 8 kB and flushes, again and again for about `budget`, in a file of its
/// own in `directory`, and removes the file.
///
/// `method` is the server's `wal_sync_method`. The writes follow one another
/// through the file as WAL pages do; each time is that of write and flush, as
/// `pg_test_fsync` reports it. Blocks the calling thread.
///
/// `least` is what the server's flushes are made to take at least
/// ([`ClusterSpec::flush_latency`](walwright_server::ClusterSpec)); these take it too.
///
/// # Errors
/// When the method is unknown, or the file cannot be made or written.
pub fn storage_probe(
    directory: &Path,
    method: &str,
    least: Duration,
    budget: Duration,
) -> Result<StorageProbe, ProbeError> {
    let kind = Method::parse(method).ok_or_else(|| ProbeError::SyncMethod(method.to_owned()))?;
    let times = measure(directory, kind, least, budget)
        .map_err(|source| ProbeError::Storage { path: directory.to_owned(), source })?;
    let lengthened = format!("{method} lengthened to {:.3} ms", least.as_secs_f64() * 1e3);
    let method = if least.is_zero() { method } else { &lengthened };
    Ok(summary(directory, method, times))
}

fn measure(
    directory: &Path,
    method: Method,
    least: Duration,
    budget: Duration,
) -> io::Result<Vec<Duration>> {
    let path = directory.join(format!(".walwright-flush-{}", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    let _removed = Removed(path.clone());
    let block = vec![0x57_u8; BLOCK];
    for offset in (0..FILE_BYTES).step_by(BLOCK) {
        file.write_all_at(&block, offset as u64)?;
    }
    file.sync_all()?;
    let file = OpenOptions::new().write(true).custom_flags(method.open_flags()).open(&path)?;
    let mut times = Vec::new();
    let started = Instant::now();
    let mut number = 0_u64;
    while started.elapsed() < budget || times.is_empty() {
        let offset = (number * BLOCK as u64) % FILE_BYTES as u64;
        let before = Instant::now();
        file.write_all_at(&block, offset)?;
        method.flush(&file)?;
        std::thread::sleep(least.saturating_sub(before.elapsed()));
        let took = before.elapsed();
        if number >= WARM_UP {
            times.push(took);
        }
        number += 1;
    }
    Ok(times)
}

/// `times` holds at least one.
fn summary(directory: &Path, method: &str, mut times: Vec<Duration>) -> StorageProbe {
    times.sort_unstable();
    // Nearest rank: the smallest value that at least this part of all are not above.
    let quantile = |part: f64| times[((part * times.len() as f64).ceil() as usize).max(1) - 1];
    let total: Duration = times.iter().sum();
    StorageProbe {
        path: directory.display().to_string(),
        method: method.to_owned(),
        block_bytes: BLOCK as u32,
        flushes: times.len() as u64,
        p50: quantile(0.5),
        p99: quantile(0.99),
        max: times[times.len() - 1],
        mean: total.div_f64(times.len() as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_measures_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for method in ["fdatasync", "fsync", "open_datasync", "open_sync"] {
            let probe =
                storage_probe(dir.path(), method, Duration::ZERO, Duration::from_millis(20))
                    .unwrap();
            assert!(probe.flushes >= 1);
            assert!(probe.p50 <= probe.p99 && probe.p99 <= probe.max, "{probe:?}");
            assert_eq!(probe.method, method);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let times = (1..=100).map(Duration::from_millis).collect();
        let probe = summary(Path::new("/x"), "fsync", times);
        assert_eq!(probe.p50, Duration::from_millis(50));
        assert_eq!(probe.p99, Duration::from_millis(99));
        assert_eq!(probe.max, Duration::from_millis(100));
        assert_eq!(probe.mean, Duration::from_micros(50_500));
    }

    #[test]
    fn a_place_that_cannot_be_written_is_said() {
        let error =
            storage_probe(Path::new("/proc"), "fsync", Duration::ZERO, Duration::from_millis(1))
                .unwrap_err();
        assert!(error.to_string().contains("/proc"), "{error}");
        let error =
            storage_probe(Path::new("/"), "fsync_writethrough", Duration::ZERO, Duration::ZERO)
                .unwrap_err();
        assert!(matches!(error, ProbeError::SyncMethod(_)));
    }
}
