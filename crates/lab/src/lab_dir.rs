//! The lab: the directory that holds records and reports.

use std::path::{Path, PathBuf};

use walwright_record::{RunId, Store, StoreError};

/// A lab directory. Several walwright processes may work in one.
#[derive(Debug, Clone)]
pub struct Lab {
    directory: PathBuf,
}

impl Lab {
    /// The lab at `directory`, or the user's own (`$XDG_DATA_HOME/walwright`,
    /// else `~/.local/share/walwright`, else `./walwright-lab`).
    pub fn at(directory: Option<PathBuf>) -> Lab {
        let named = directory.filter(|directory| !directory.as_os_str().is_empty());
        let directory = named.unwrap_or_else(|| {
            let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
            match (set("XDG_DATA_HOME"), set("HOME")) {
                (Some(data), _) => PathBuf::from(data).join("walwright"),
                (None, Some(home)) => PathBuf::from(home).join(".local/share/walwright"),
                (None, None) => PathBuf::from("walwright-lab"),
            }
        });
        Lab { directory }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The records, made if there are none yet.
    ///
    /// # Errors
    /// When the directory or the file cannot be used.
    pub fn store(&self) -> Result<Store, StoreError> {
        Store::open(&self.directory)
    }

    /// The records, if there are any yet. Makes nothing: for what only reads.
    ///
    /// # Errors
    /// When there is a file that cannot be used.
    pub fn existing_store(&self) -> Result<Option<Store>, StoreError> {
        Store::open_existing(&self.directory)
    }

    /// Where the report of a run is written unless told otherwise.
    pub fn report_path(&self, run: &RunId) -> PathBuf {
        self.directory.join("reports").join(format!("{run}.html"))
    }
}
