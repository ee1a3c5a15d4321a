//! Storage measurements, kept by file system: made once, known to every later run on it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;
use walwright_probe::{ProbeError, StoragePlan, StorageStep};
use walwright_record::{FileSystemId, StorageMeasurement};
use walwright_store::{FindError, Kind};

use walwright_server::Stop;
use walwright_store::Lab;

/// Name of the directory inside the lab.
const DIRECTORY: &str = "storage";

static MEASUREMENTS: Kind = Kind {
    one: "storage measurement",
    many: "storage measurements",
    listed_by: "walwright storage list",
};

/// Why a measurement cannot be made or found.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StorageError {
    /// It could not be made.
    #[error(transparent)]
    Measure(#[from] ProbeError),
    /// It could not be kept or listed.
    #[error(
        "storage measurements in {path}: {source}; check that walwright may write there, or name another lab with --lab"
    )]
    Keep {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No measurement of that name, or several.
    #[error(transparent)]
    Find(#[from] FindError),
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
) -> Result<StorageMeasurement, StorageError> {
    let stopped = || stop.is_requested();
    let measured = walwright_probe::measure_storage(plan, &stopped, progress)?;
    if measured.complete {
        keep(lab, &measured)?;
    }
    Ok(measured)
}

/// Keeps a measurement.
fn keep(lab: &Lab, measured: &StorageMeasurement) -> Result<(), StorageError> {
    let directory = lab.directory().join(DIRECTORY);
    let path = directory.join(format!("{}.json", measured.id));
    let cannot = |source| StorageError::Keep { path: path.clone(), source };
    let text = serde_json::to_vec(measured).map_err(|e| cannot(e.into()))?;
    lab.write(&path, &text).map_err(cannot)
}

/// All kept measurements, oldest first. A file that cannot be read is passed over.
///
/// # Errors
/// When the directory is there and cannot be read.
pub fn storage_measurements(lab: &Lab) -> Result<Vec<StorageMeasurement>, StorageError> {
    let directory = lab.directory().join(DIRECTORY);
    let entries = match directory.read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(StorageError::Keep { path: directory, source }),
    };
    let mut found: Vec<StorageMeasurement> =
        entries.flatten().filter_map(|entry| read(&entry.path())).collect();
    found.sort_by(|a, b| (a.measured, &a.id).cmp(&(b.measured, &b.id)));
    Ok(found)
}

fn read(path: &Path) -> Option<StorageMeasurement> {
    if path.extension().is_none_or(|kind| kind != "json") {
        return None;
    }
    let text = std::fs::read(path).ok()?;
    serde_json::from_slice(&text)
        .inspect_err(|error| tracing::warn!(path = %path.display(), %error, "passed over"))
        .ok()
}

/// The measurement a person means by `name`, as a run is named.
///
/// # Errors
/// When none or several fit.
pub fn find_storage(lab: &Lab, name: &str) -> Result<StorageMeasurement, StorageError> {
    Ok(MEASUREMENTS.find(storage_measurements(lab)?, |one| vec![&one.id], name)?)
}

/// The newest measurement whose WAL patterns ran on this file system, as a record takes
/// it along; one that other work held up only where there is no other. What cannot be read is as if it were not there.
pub(crate) fn known(lab: &Path, file_system: &FileSystemId) -> Option<StorageMeasurement> {
    let lab = Lab::at(Some(lab.to_owned()));
    let all = storage_measurements(&lab).ok()?;
    let here = || all.iter().rev().filter(|m| m.wal.file_system == *file_system);
    let best = here().find(|m| !m.is_disturbed()).or_else(|| here().next())?;
    Some(best.clone().without_bars())
}

/// The newest measurement of the file system mounted at `mount`.
pub(crate) fn known_at(lab: &Path, mount: &Path) -> Option<StorageMeasurement> {
    known(lab, &walwright_probe::file_system_of(mount)?)
}

#[cfg(test)]
mod tests {
    use walwright_record::journal::Machine;

    use super::*;

    #[test]
    fn a_measurement_is_kept_found_and_known_to_runs_on_its_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let lab = Lab::at(Some(dir.path().join("lab")));
        assert!(storage_measurements(&lab).unwrap().is_empty());
        assert!(find_storage(&lab, "latest").is_err());
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
        let kept = lab.directory().join(DIRECTORY);
        std::fs::write(kept.join("20990101-000000-abc.json"), "{").unwrap();
        std::fs::write(kept.join("x.partial"), "{").unwrap();
        let ids = |all: Vec<StorageMeasurement>| all.into_iter().map(|m| m.id).collect::<Vec<_>>();
        assert_eq!(ids(storage_measurements(&lab).unwrap()), [first.id.clone(), second.id.clone()]);
        assert_eq!(find_storage(&lab, &first.id).unwrap().cells.len(), first.cells.len());
        let known = known_at(lab.directory(), dir.path()).unwrap();
        // On a busy machine any of the two may have been held up.
        assert!(known.id == second.id || second.is_disturbed() && known.id == first.id);
        assert!(known.cells.iter().all(|cell| cell.latency.bars.is_empty()));
        assert!(known_at(lab.directory(), Path::new("/proc")).is_none());
        stop.request();
        assert!(!measure_storage(&lab, &plan, &stop, &|_| {}).unwrap().complete);
        assert_eq!(storage_measurements(&lab).unwrap().len(), 2);
    }
}
