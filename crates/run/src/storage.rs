//! Measuring the storage, and what earlier measurements know of a run's disk.

use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;
use walwright_probe::{ProbeError, StoragePlan, StorageStep};
use walwright_record::StorageMeasurement;
use walwright_server::Stop;
use walwright_store::{Lab, StorageError, StorageMeasurements};

/// Why a measurement cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MeasureStorageError {
    /// It could not be made.
    #[error(transparent)]
    Measure(#[from] ProbeError),
    /// It could not be kept.
    #[error(transparent)]
    Keep(#[from] StorageError),
}

/// What to measure. See [`StoragePlan`].
#[derive(Debug, Clone, PartialEq)]
pub struct StorageChoice {
    /// Directory on the disk of the WAL; that of embedded clusters where none is named.
    pub wal: Option<PathBuf>,
    /// Directory on the disk of the data; that of the WAL where none is named.
    pub data: Option<PathBuf>,
    /// Time given to each pattern.
    pub each: Duration,
    /// Size of the data file in bytes.
    pub size: Option<u64>,
}

impl StorageChoice {
    /// The plan that this choice means on this machine.
    ///
    /// # Errors
    /// When no directory is named and none for embedded clusters can be made.
    pub fn plan(self) -> Result<StoragePlan, walwright_server::PlacesError> {
        let wal = match self.wal {
            Some(named) => named,
            None => walwright_server::Places::open(None)?.clusters(),
        };
        Ok(StoragePlan {
            data: self.data.unwrap_or_else(|| wal.clone()),
            wal,
            each: self.each,
            size: self.size,
            machine: walwright_probe::this_machine(),
        })
    }
}

/// Measures and keeps the result; of one that was stopped, nothing is kept. Blocks.
///
/// # Errors
/// When it cannot be measured or kept.
pub fn measure_storage(
    lab: &Lab,
    plan: &StoragePlan,
    stop: &Stop,
    progress: &dyn Fn(StorageStep),
) -> Result<StorageMeasurement, MeasureStorageError> {
    let stopped = || stop.is_requested();
    let measured = walwright_probe::measure_storage(plan, &stopped, progress)?;
    if measured.complete {
        StorageMeasurements::of(lab).keep(&measured)?;
    }
    Ok(measured)
}

/// The newest measurement of the file system mounted at `mount`.
pub(crate) fn known_at(lab: &Path, mount: &Path) -> Option<StorageMeasurement> {
    StorageMeasurements::of(&Lab::at(Some(lab.to_owned())))
        .known(&walwright_probe::file_system_of(mount)?)
}

#[cfg(test)]
mod tests {
    use walwright_record::journal::Machine;

    use super::*;

    #[test]
    fn a_measurement_is_kept_found_and_known_to_runs_on_its_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let lab = Lab::at(Some(dir.path().join("lab")));
        assert!(StorageMeasurements::of(&lab).all().unwrap().is_empty());
        assert!(StorageMeasurements::of(&lab).find("latest").is_err());
        let plan = StoragePlan {
            wal: dir.path().to_owned(),
            data: dir.path().to_owned(),
            each: Duration::from_millis(1),
            size: Some(16 << 20),
            machine: Machine::default(),
        };
        let stop = Stop::new();
        let first = measure_storage(&lab, &plan, &stop, &|_| {}).unwrap();
        let second = measure_storage(&lab, &plan, &stop, &|_| {}).unwrap();
        // What a crash or a newer version left is passed over.
        let kept = lab.directory().join("storage");
        std::fs::write(kept.join("20990101-000000-abc.json"), "{").unwrap();
        std::fs::write(kept.join("x.partial"), "{").unwrap();
        let ids = |all: Vec<StorageMeasurement>| all.into_iter().map(|m| m.id).collect::<Vec<_>>();
        assert_eq!(
            ids(StorageMeasurements::of(&lab).all().unwrap()),
            [first.id.clone(), second.id.clone()]
        );
        assert_eq!(
            StorageMeasurements::of(&lab).find(&first.id).unwrap().cells.len(),
            first.cells.len()
        );
        let known = known_at(lab.directory(), dir.path()).unwrap();
        // On a busy machine any of the two may have been held up.
        assert!(known.id == second.id || second.is_disturbed() && known.id == first.id);
        assert!(known.cells.iter().all(|cell| cell.latency.bars.is_empty()));
        assert!(known_at(lab.directory(), Path::new("/proc")).is_none());
        stop.request();
        assert!(!measure_storage(&lab, &plan, &stop, &|_| {}).unwrap().complete);
        assert_eq!(StorageMeasurements::of(&lab).all().unwrap().len(), 2);
    }
}
