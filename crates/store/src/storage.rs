//! Storage measurements, kept by file system: made once, known to every later run on it.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use walwright_record::{FileSystemId, StorageMeasurement};

use crate::{FindError, Kind, Lab};

/// Name of the directory inside the lab.
const DIRECTORY: &str = "storage";

static MEASUREMENTS: Kind = Kind {
    one: "storage measurement",
    many: "storage measurements",
    listed_by: "walwright storage list",
};

/// Why storage measurements cannot be kept or found.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StorageError {
    /// One could not be kept, or all could not be listed.
    #[error(
        "storage measurements in {path}: {source}; check that walwright may write there, or name another lab with --lab"
    )]
    File {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No measurement of that name, or several.
    #[error(transparent)]
    Find(#[from] FindError),
}

/// The storage measurements of a lab.
#[derive(Debug, Clone)]
pub struct StorageMeasurements {
    directory: PathBuf,
    lab: Lab,
}

impl StorageMeasurements {
    /// Those of `lab`. Touches nothing.
    pub fn of(lab: &Lab) -> StorageMeasurements {
        StorageMeasurements { directory: lab.directory().join(DIRECTORY), lab: lab.clone() }
    }

    /// Keeps one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, measured: &StorageMeasurement) -> Result<(), StorageError> {
        let path = self.directory.join(format!("{}.json", measured.id));
        serde_json::to_vec(measured)
            .map_err(io::Error::from)
            .and_then(|text| self.lab.write(&path, &text))
            .map_err(|source| StorageError::File { path, source })
    }

    /// All, oldest first. A file that cannot be read is passed over.
    ///
    /// # Errors
    /// When the directory is there and cannot be read.
    pub fn all(&self) -> Result<Vec<StorageMeasurement>, StorageError> {
        let entries = match self.directory.read_dir() {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => {
                return Err(StorageError::File { path: self.directory.clone(), source });
            }
        };
        let mut found: Vec<StorageMeasurement> =
            entries.flatten().filter_map(|entry| read(&entry.path())).collect();
        found.sort_by(|a, b| (a.measured, &a.id).cmp(&(b.measured, &b.id)));
        Ok(found)
    }

    /// The one a person means by `name`, as a run is named.
    ///
    /// # Errors
    /// When none or several fit.
    pub fn find(&self, name: &str) -> Result<StorageMeasurement, StorageError> {
        Ok(MEASUREMENTS.find(self.all()?, |one| vec![&one.id], name)?)
    }

    /// The newest whose WAL patterns ran on this file system, as a record takes it along;
    /// one that other work held up only where there is no other. What cannot be read is as
    /// if it were not there.
    pub fn known(&self, file_system: &FileSystemId) -> Option<StorageMeasurement> {
        let all = self.all().ok()?;
        let here = || all.iter().rev().filter(|m| m.wal.file_system == *file_system);
        let best = here().find(|m| !m.is_disturbed()).or_else(|| here().next())?;
        Some(best.clone().without_bars())
    }
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
