//! Flush latency where the WAL lies.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use walwright_record::{FlushMethod, StorageProbe};

use super::flush::{flush, open_flags};
use super::scratch::{self, Scratch};
use super::{PAGE, SEGMENT};
use crate::ProbeError;

/// Flushes that are not counted: the first ones still write the file's own metadata.
const WARM_UP: u64 = 8;

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
    let kind =
        FlushMethod::from_name(method).ok_or_else(|| ProbeError::SyncMethod(method.to_owned()))?;
    let times = measure(directory, kind, least, budget)
        .map_err(|source| ProbeError::Storage { path: directory.to_owned(), source })?;
    let lengthened = format!("{method} lengthened to {:.3} ms", least.as_secs_f64() * 1e3);
    let method = if least.is_zero() { method } else { &lengthened };
    Ok(summary(directory, method, times))
}

fn measure(
    directory: &Path,
    method: FlushMethod,
    least: Duration,
    budget: Duration,
) -> io::Result<Vec<Duration>> {
    scratch::sweep(directory);
    let scratch = Scratch::written(directory, SEGMENT)?;
    let file = scratch.reopen(open_flags(method))?;
    let block = [0x57_u8; PAGE];
    let mut times = Vec::new();
    let started = Instant::now();
    let mut number = 0_u64;
    while started.elapsed() < budget || times.is_empty() {
        let offset = (number * PAGE as u64) % SEGMENT;
        let before = Instant::now();
        file.write_all_at(&block, offset)?;
        flush(method, &file)?;
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
        block_bytes: PAGE as u32,
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
