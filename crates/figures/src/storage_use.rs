//! How near a run came to what the disk under its WAL was measured to be able to do.
//!
//! PostgreSQL has one WAL flush under way at a time (`WALWriteLock`), so the ceiling is
//! the rate of one writer that flushes without a pause, with as many bytes to a flush as
//! this run had. Without a measurement of the same file system nothing is said of how
//! full the disk is: neither its busy time nor a share of waits tells.

use serde::Serialize;
use walwright_record::{
    FileState, FlushMethod, Record, StorageMeasurement, StoragePattern, TargetKind, Timestamp,
    Warning, WarningCode,
};

use crate::WalSummary;

/// Size of a WAL page, the least that a flush writes.
const PAGE: f64 = 8192.0;

/// Flushes of a run against the ceiling of the disk.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StorageUse {
    /// WAL flushes a second over the measured window, of the whole server.
    pub flushes_per_second: f64,
    /// WAL bytes of a flush, on average.
    pub bytes_per_flush: Option<f64>,
    /// What the disk was measured to do; `None` where that is not known.
    pub ceiling: Option<FlushCeiling>,
    /// Why there is no ceiling and how to get one, as a sentence.
    pub absent: Option<String>,
}

/// The flushes a second that a disk did, one at a time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlushCeiling {
    /// Flushes a second of one writer without a pause, in the fastest repeat.
    pub per_second: f64,
    /// The run's flushes a second as a share of it. Above 1 the disk did more than when
    /// it was measured.
    pub share: f64,
    /// The share against the slowest repeat of the measurement.
    pub share_of_slowest: f64,
    /// Bytes of a flush that it is for: whole pages, as many as the run's flushes held.
    pub bytes: f64,
    /// How it was flushed.
    pub method: FlushMethod,
    /// Commits a second that share such flushes, with about as many sessions as the run
    /// had clients; `None` where that is not known.
    pub commits_per_second: Option<f64>,
    /// Sessions of that figure.
    pub committers: Option<u32>,
    /// The measurement.
    pub measurement: String,
    /// When it was made.
    pub measured: Timestamp,
    /// Where.
    pub directory: String,
    /// Whether other work held the measurement up: the disk can do more, so nothing can
    /// be said of how full it was.
    pub disturbed: bool,
    /// What makes it less certain.
    pub warnings: Vec<Warning>,
}

/// Flushes against the ceiling; `None` where flushes were not counted or there were none.
pub fn storage_use(
    record: &Record,
    wal: Option<&WalSummary>,
    clients: Option<u32>,
) -> Option<StorageUse> {
    let wal = wal?;
    let flushes_per_second = wal.flushes_per_second.filter(|rate| *rate > 0.0)?;
    let bytes_per_flush = wal.bytes_per_second.map(|bytes| bytes / flushes_per_second);
    let (ceiling, absent) = match ceiling(record, flushes_per_second, bytes_per_flush, clients) {
        Ok(ceiling) => (Some(ceiling), None),
        Err(why) => (None, Some(why)),
    };
    Some(StorageUse { flushes_per_second, bytes_per_flush, ceiling, absent })
}

fn ceiling(
    record: &Record,
    rate: f64,
    bytes_per_flush: Option<f64>,
    clients: Option<u32>,
) -> Result<FlushCeiling, String> {
    if record.warnings.iter().any(|w| w.code == WarningCode::LengthenedFlushes) {
        return Err("the server's flushes were made longer than the disk's, so the disk's own \
                    ceiling says nothing of this run"
            .to_owned());
    }
    let measured = record.storage_measured.as_ref().ok_or_else(|| how_to_measure(record))?;
    let method = record.setting("wal_sync_method").map_or("fdatasync", |s| s.value.as_str());
    let method = FlushMethod::from_name(method)
        .ok_or_else(|| format!("no disk is measured with wal_sync_method = {method}"))?;
    let bytes = (bytes_per_flush.unwrap_or(0.0) / PAGE).ceil().max(1.0) * PAGE;
    let one_page = FlushMethod::Fdatasync;
    let base = flush_time(measured, one_page, PAGE);
    let of_method = flush_time(measured, method, PAGE);
    let of_size = flush_time(measured, one_page, bytes);
    let (Some(base), Some(of_method), Some(of_size)) = (base, of_method, of_size) else {
        return Err(format!(
            "the storage measurement {} did not get to flushes by {}; `walwright storage` makes \
             another",
            measured.id,
            method.name()
        ));
    };
    // Methods are measured with one page; what more pages add is taken to be the same.
    let per_second = 1.0 / (of_size + of_method - base).max(of_size.min(of_method));
    let share = rate / per_second;
    let grouped = clients.and_then(|clients| grouped(measured, clients));
    Ok(FlushCeiling {
        per_second,
        share,
        share_of_slowest: share / slowest_repeat(measured),
        bytes,
        method,
        commits_per_second: grouped.map(|(_, rate)| rate),
        committers: grouped.map(|(sessions, _)| sessions),
        measurement: measured.id.clone(),
        measured: measured.measured,
        directory: measured.wal.directory.clone(),
        disturbed: measured.is_disturbed(),
        warnings: measured.warnings.clone(),
    })
}

fn how_to_measure(record: &Record) -> String {
    let target = record.target.as_ref();
    if target.is_some_and(|target| !target.local) {
        return "what its disk can do is not known here: the server is on another machine"
            .to_owned();
    }
    let directory = match target.map(|target| target.kind) {
        Some(TargetKind::Attached) => {
            let disk = record.host.as_ref().and_then(|host| host.wal_disk.as_ref());
            let mount = disk.map_or("the WAL's disk", |disk| disk.mount.as_str());
            format!(" --wal-dir DIR, a directory on {mount},")
        }
        _ => String::new(),
    };
    format!(
        "what this disk can do was not measured before the run: `walwright storage`{directory} \
         does, and later runs are told against it"
    )
}

/// Seconds of a flush of `bytes` into a written file, from the rates of the sizes that
/// were measured. Between two sizes time grows evenly with bytes: a fixed part for the
/// command and its answer, and one for each byte. Beyond the largest, time grows as bytes.
fn flush_time(measured: &StorageMeasurement, method: FlushMethod, bytes: f64) -> Option<f64> {
    let mut sizes: Vec<(f64, f64)> = Vec::new();
    for cell in &measured.cells {
        let StoragePattern::Flush { method: of, file: FileState::Written, bytes, files: 1 } =
            cell.pattern
        else {
            continue;
        };
        let size = f64::from(bytes);
        if of == method && sizes.iter().all(|(known, _)| *known != size) {
            sizes.push((size, 1.0 / measured.fastest(cell.pattern)?.per_second));
        }
    }
    sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
    // A disk that flushed more bytes so fast can flush fewer as fast: what was slower
    // was disturbed.
    let mut least = f64::INFINITY;
    for (_, time) in sizes.iter_mut().rev() {
        least = least.min(*time);
        *time = least;
    }
    let (first, last) = (*sizes.first()?, *sizes.last()?);
    if bytes <= first.0 {
        return Some(first.1);
    }
    let above = sizes.iter().position(|(size, _)| *size >= bytes);
    Some(match above {
        Some(above) => {
            let (low, high) = (sizes[above - 1], sizes[above]);
            low.1 + (high.1 - low.1) * (bytes - low.0) / (high.0 - low.0)
        }
        None => last.1 * bytes / last.0,
    })
}

/// The slowest repeat of a page's flush as a share of the fastest.
fn slowest_repeat(measured: &StorageMeasurement) -> f64 {
    let base = StoragePattern::Flush {
        method: FlushMethod::Fdatasync,
        file: FileState::Written,
        bytes: PAGE as u32,
        files: 1,
    };
    let slowest = measured.of(base).map(|cell| cell.per_second).reduce(f64::min);
    measured.fastest(base).zip(slowest).map_or(1.0, |(best, slowest)| slowest / best.per_second)
}

/// The group-commit rate whose sessions are nearest to `clients`, from below where it can be.
fn grouped(measured: &StorageMeasurement, clients: u32) -> Option<(u32, f64)> {
    let known = measured.cells.iter().filter_map(|cell| match cell.pattern {
        StoragePattern::GroupCommit { committers, .. } => Some((committers, cell.per_second)),
        _ => None,
    });
    known.filter(|(sessions, _)| *sessions <= clients.max(1)).max_by_key(|(sessions, _)| *sessions)
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use walwright_record::journal::Machine;
    use walwright_record::{
        FileSystemId, Latencies, LatencyHistogram, Source, StorageCell, StoragePlace,
    };

    use super::*;
    use crate::summary;
    use walwright_testing::{Build, row};

    /// A disk that takes 0.4 ms a flush and 1 ms more a megabyte, O_DSYNC 0.1 ms less.
    pub fn measurement() -> StorageMeasurement {
        let place = StoragePlace {
            directory: "/var/wal".to_owned(),
            file_system: FileSystemId {
                host: "h".to_owned(),
                file_system: "ext4".to_owned(),
                device: "8:1".to_owned(),
                id: "1".to_owned(),
            },
            disk: None,
        };
        let mut histogram = LatencyHistogram::new();
        histogram.record(Duration::from_micros(400));
        let cell = |pattern, per_second: f64| StorageCell {
            pattern,
            per_second,
            bytes_per_second: 0.0,
            latency: Latencies::of(&histogram).unwrap(),
            flushes_per_second: None,
            beside_per_second: None,
            waiting_for_processor: None,
        };
        let flush = |method, bytes, per_second| {
            let file = FileState::Written;
            cell(StoragePattern::Flush { method, file, bytes, files: 1 }, per_second)
        };
        let time = |bytes: u32| 1.0 / (4e-4 + 1e-3 * f64::from(bytes - 8192) / 1_048_576.0);
        let mut cells = vec![
            flush(FlushMethod::Fdatasync, 8192, 2_000.0),
            flush(FlushMethod::OpenDatasync, 8192, 1.0 / 3e-4),
        ];
        cells.extend([65_536, 1_048_576].map(|b| flush(FlushMethod::Fdatasync, b, time(b))));
        cells.push(flush(FlushMethod::Fdatasync, 8192, 2_500.0));
        cells.extend([1, 8, 32].map(|committers| {
            let pattern = StoragePattern::GroupCommit { committers, record_bytes: 512 };
            cell(pattern, 1_000.0 * f64::from(committers))
        }));
        StorageMeasurement {
            id: "20261121-000000-abc".to_owned(),
            measured: Timestamp(0),
            took: Duration::ZERO,
            each: Duration::from_secs(1),
            walwright_version: String::new(),
            machine: Machine::default(),
            wal: place.clone(),
            data: place,
            data_bytes: 0,
            cells,
            warnings: Vec::new(),
            complete: true,
        }
    }

    /// 4,000 transactions a second that share `flushes` flushes of `bytes` each.
    fn run(flushes: f64, bytes: f64) -> Build {
        let mut build = Build::new();
        build.load(0, 30, 4_000).measure(0.0, 30.0);
        for s in 0..30 {
            let t = f64::from(s);
            let wal = row([("wal_bytes", flushes * bytes * t), ("wal_sync", flushes * t)]);
            build.sample(t, Source::Wal, [wal]);
        }
        build
    }

    #[test]
    fn a_run_is_told_against_the_disk_as_it_was_measured() {
        let mut build = run(2_000.0, 5_000.0);
        build.record.storage_measured = Some(measurement());
        let seen = summary(&build.record).storage.unwrap();
        assert!((seen.flushes_per_second - 2_000.0).abs() < 1e-6);
        let ceiling = seen.ceiling.unwrap();
        // The fastest of both repeats, and the share against the other.
        assert!((ceiling.per_second - 2_500.0).abs() < 1e-6, "{ceiling:?}");
        assert!((ceiling.share - 0.8).abs() < 1e-9);
        assert!((ceiling.share_of_slowest - 1.0).abs() < 1e-9, "{ceiling:?}");
    }

    #[test]
    fn larger_flushes_have_a_lower_ceiling() {
        for (bytes, seconds) in [(8_193.0, 4e-4 + 1e-3 / 128.0), (2_097_000.0, 2.0 * 1.3921875e-3)]
        {
            let mut build = run(100.0, bytes);
            build.record.storage_measured = Some(measurement());
            let ceiling = summary(&build.record).storage.unwrap().ceiling.unwrap();
            assert!((ceiling.per_second * seconds - 1.0).abs() < 1e-6, "{bytes} {ceiling:?}");
        }
    }

    #[test]
    fn a_size_that_was_disturbed_does_not_lower_the_ceiling() {
        let mut measured = measurement();
        let slow = measured
            .cells
            .iter_mut()
            .find(|cell| matches!(cell.pattern, StoragePattern::Flush { bytes: 65_536, .. }));
        slow.unwrap().per_second = 1.0;
        let time = |bytes| flush_time(&measured, FlushMethod::Fdatasync, bytes).unwrap();
        assert!((time(PAGE) - 4e-4).abs() < 1e-12);
        assert!((time(65_536.0) - 1.3921875e-3).abs() < 1e-9);
    }

    #[test]
    fn sessions_are_those_of_the_run_or_fewer() {
        let measured = measurement();
        assert_eq!(grouped(&measured, 16), Some((8, 8_000.0)));
        assert_eq!(grouped(&measured, 500), Some((32, 32_000.0)));
        assert_eq!(grouped(&measured, 0), Some((1, 1_000.0)));
    }

    #[test]
    fn another_method_has_its_own_time() {
        let page = flush_time(&measurement(), FlushMethod::OpenDatasync, PAGE).unwrap();
        assert!((page - 3e-4).abs() < 1e-12);
        assert_eq!(flush_time(&measurement(), FlushMethod::OpenSync, PAGE), None);
        let mut build = run(2_000.0, 5_000.0);
        build.setting("wal_sync_method", "fsync");
        build.record.storage_measured = Some(measurement());
        let seen = summary(&build.record).storage.unwrap();
        assert!(seen.absent.unwrap().contains("fsync"));
    }

    #[test]
    fn without_a_measurement_nothing_is_claimed_and_the_way_to_one_is_told() {
        let build = run(2_000.0, 5_000.0);
        let seen = summary(&build.record).storage.unwrap();
        assert_eq!(seen.ceiling, None);
        assert!(seen.absent.unwrap().contains("`walwright storage`"));
        let mut build = run(2_000.0, 5_000.0);
        build.record.storage_measured = Some(measurement());
        let lengthened = Warning::new(WarningCode::LengthenedFlushes, "2 ms");
        build.record.warnings.push(lengthened);
        assert_eq!(summary(&build.record).storage.unwrap().ceiling, None);
        let mut silent = Build::new();
        silent.load(0, 30, 10).measure(0.0, 30.0);
        assert_eq!(summary(&silent.record).storage, None);
    }
}
