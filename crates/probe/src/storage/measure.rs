//! A whole measurement: checks, patterns one after the other, warnings.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use walwright_record::journal::Machine;
use walwright_record::{RunId, StorageMeasurement, StoragePlace, Timestamp, Warning, WarningCode};

use super::data_file::DataFile;
use super::watch::Watch;
use super::{SEGMENT, cells, place, scratch, warnings};
use crate::ProbeError;
use crate::facts::virtualisation;

/// Room that files of the WAL patterns need at a time: the segment that is written and
/// those that are flushed side by side.
const WAL_ROOM: u64 = 4 * SEGMENT;
/// Smallest data file that random places can be chosen in.
const SMALLEST: u64 = 16 << 20;
/// The data file is written for no longer than this many times the time of a pattern…
const PREPARING: u32 = 15;
/// …or this, whichever is longer; a slow disk gets a smaller one.
const PREPARING_AT_LEAST: Duration = Duration::from_secs(15);

/// What is measured, where and how long.
#[derive(Debug, Clone, PartialEq)]
pub struct StoragePlan {
    /// Directory on the disk of the WAL.
    pub wal: PathBuf,
    /// Directory on the disk of the data.
    pub data: PathBuf,
    /// Time given to each pattern.
    pub each: Duration,
    /// Size of the data file in bytes; `None` takes 1 GB, or less where less than four
    /// times that is free.
    pub size: Option<u64>,
    /// The machine, as it shall stand in the result.
    pub machine: Machine,
}

/// Where a measurement stands.
#[derive(Debug, Clone, PartialEq)]
pub struct StorageStep {
    /// Steps done.
    pub done: usize,
    /// Steps in all.
    pub of: usize,
    /// What is done now.
    pub what: String,
}

impl StoragePlan {
    /// Time it takes, without that of writing the data file.
    pub fn estimate(&self) -> Duration {
        let patterns = cells::of_wal().len() + cells::of_data(true).len();
        self.each * u32::try_from(patterns).unwrap_or(u32::MAX)
    }
}

/// Measures. Blocks the calling thread; `stop` is asked between any two operations, and
/// what was measured until then is given back as incomplete.
///
/// # Errors
/// When a directory cannot be used, there is not enough room, or a read or write fails.
pub fn measure_storage(
    plan: &StoragePlan,
    stop: &(dyn Fn() -> bool + Sync),
    progress: &dyn Fn(StorageStep),
) -> Result<StorageMeasurement, ProbeError> {
    let (wal, data) = (whole(&plan.wal)?, whole(&plan.data)?);
    for directory in [&wal, &data] {
        scratch::sweep(directory);
    }
    let (wal_place, data_place) = (described(&wal)?, described(&data)?);
    let size = room(plan, &wal, &data, &wal_place, &data_place)?;
    let started = (Timestamp::now(), Instant::now());
    let watch = Watch { each: plan.each, stop };
    let mut steps = cells::of_wal();
    let mut of = steps.len() + 1 + cells::of_data(true).len();
    let mut cells = Vec::new();
    let mut run = |patterns: &[_], file: Option<&DataFile>, before: usize, of: usize| {
        for (place, pattern) in patterns.iter().enumerate() {
            if stop() {
                return Ok(());
            }
            let what = cells::words(*pattern);
            progress(StorageStep { done: before + place, of, what });
            let cell = cells::measure(&watch, &wal, file, *pattern);
            cells.extend(cell.map_err(|source| failed(&wal, source))?);
        }
        Ok::<(), ProbeError>(())
    };
    run(&steps, None, 0, of)?;
    progress(StorageStep { done: steps.len(), of, what: "writing the data file".to_owned() });
    let budget = (plan.each * PREPARING).max(PREPARING_AT_LEAST);
    let file = DataFile::create(&data, size, budget, stop).map_err(|e| failed(&data, e))?;
    let mut data_bytes = 0;
    let mut warnings = Vec::new();
    if let Some(file) = &file {
        data_bytes = file.bytes();
        let before = steps.len() + 1;
        steps = cells::of_data(file.is_direct());
        of = before + steps.len();
        run(&steps, Some(file), before, of)?;
        warnings.extend(of_file(file, size, &data_place));
    }
    let mut measurement = StorageMeasurement {
        id: RunId::new(started.0, (started.0.0 as u32).rotate_left(5) ^ std::process::id()).0,
        measured: started.0,
        took: started.1.elapsed(),
        each: plan.each,
        walwright_version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: plan.machine.clone(),
        wal: wal_place,
        data: data_place,
        data_bytes,
        cells,
        warnings,
        complete: !stop(),
    };
    measurement.warnings.extend(warnings::of(&measurement, virtualisation::detect().is_none()));
    Ok(measurement)
}

fn whole(directory: &Path) -> Result<PathBuf, ProbeError> {
    directory.canonicalize().map_err(|source| failed(directory, source))
}

fn described(directory: &Path) -> Result<StoragePlace, ProbeError> {
    place::place(directory).ok_or_else(|| {
        let hidden = "its file system cannot be looked at (is /proc mounted?)";
        failed(directory, std::io::Error::other(hidden))
    })
}

fn failed(directory: &Path, source: std::io::Error) -> ProbeError {
    ProbeError::Measure { path: directory.to_owned(), source }
}

/// The size of the data file, if there is room for it and for the WAL's.
fn room(
    plan: &StoragePlan,
    wal: &Path,
    data: &Path,
    wal_place: &StoragePlace,
    data_place: &StoragePlace,
) -> Result<u64, ProbeError> {
    let free = |place: &StoragePlace| {
        place.disk.as_ref().and_then(|disk| disk.free_bytes).unwrap_or(u64::MAX)
    };
    let lacking = |path: &Path, needed: u64, free: u64| ProbeError::NoRoom {
        path: path.to_owned(),
        needed_mb: needed.div_ceil(1 << 20),
        free_mb: free >> 20,
    };
    if free(wal_place) < 2 * WAL_ROOM {
        return Err(lacking(wal, 2 * WAL_ROOM, free(wal_place)));
    }
    let size = match plan.size {
        Some(size) => size.max(SMALLEST),
        None => (1 << 30).min(free(data_place) / 4).max(SMALLEST),
    };
    // A tenth stays free: a full disk is another disk, and not this command's to make.
    let needed = size.saturating_add(size / 10).saturating_add(2 * WAL_ROOM);
    if free(data_place) < needed {
        return Err(lacking(data, needed, free(data_place)));
    }
    Ok(size)
}

fn of_file(file: &DataFile, wanted: u64, place: &StoragePlace) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if !file.is_direct() {
        let kind = &place.file_system.file_system;
        warnings.push(Warning::new(
            WarningCode::NotObservable,
            format!(
                "random and sequential rates: {kind} has no direct I/O, so the page cache would \
                 answer for the disk"
            ),
        ));
    }
    if file.bytes() < wanted {
        warnings.push(
            Warning::new(
                WarningCode::Storage,
                format!(
                    "the data file is {} MB where {} MB were wanted: the disk did not write more \
                     in the time there was",
                    file.bytes() >> 20,
                    wanted >> 20
                ),
            )
            .hint("--for gives more time"),
        );
    }
    warnings
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use walwright_record::StoragePattern;

    use super::*;

    fn plan(directory: &Path) -> StoragePlan {
        StoragePlan {
            wal: directory.to_owned(),
            data: directory.to_owned(),
            each: Duration::from_millis(2),
            size: Some(SMALLEST),
            machine: Machine::default(),
        }
    }

    #[test]
    fn all_patterns_are_measured_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let steps = AtomicUsize::new(0);
        let count = |step: StorageStep| {
            assert!(step.done < step.of && !step.what.is_empty());
            steps.fetch_add(1, Ordering::Relaxed);
        };
        let done = measure_storage(&plan(dir.path()), &|| false, &count).unwrap();
        assert!(done.complete && done.data_bytes >= SMALLEST);
        assert_eq!(done.of(cells::BASE).count(), 3);
        assert!(steps.into_inner() > done.cells.len(), "each cell and the data file is a step");
        for cell in &done.cells {
            assert!(cell.per_second > 0.0 && cell.bytes_per_second > 0.0, "{cell:?}");
            let latency = &cell.latency;
            assert!(latency.min <= latency.p50 && latency.p50 <= latency.max, "{cell:?}");
        }
        let grouped = done.cells.iter().filter(|cell| {
            matches!(cell.pattern, StoragePattern::GroupCommit { committers: 16, .. })
        });
        for cell in grouped {
            assert!(cell.flushes_per_second.unwrap() < cell.per_second);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_stop_ends_it_with_what_there_is() {
        let dir = tempfile::tempdir().unwrap();
        let seen = AtomicUsize::new(0);
        let stop = || seen.load(Ordering::Relaxed) >= 3;
        let count = |_| {
            seen.fetch_add(1, Ordering::Relaxed);
        };
        let done = measure_storage(&plan(dir.path()), &stop, &count).unwrap();
        assert!(!done.complete && done.cells.len() < 3);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_place_without_room_or_rights_is_refused_with_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let huge = StoragePlan { size: Some(1 << 60), ..plan(dir.path()) };
        let error = measure_storage(&huge, &|| false, &|_| {}).unwrap_err();
        assert!(matches!(error, ProbeError::NoRoom { .. }), "{error}");
        let nowhere = StoragePlan { wal: "/no/such/place".into(), ..plan(dir.path()) };
        let error = measure_storage(&nowhere, &|| false, &|_| {}).unwrap_err();
        assert!(error.to_string().contains("/no/such/place"), "{error}");
    }
}
