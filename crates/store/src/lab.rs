//! The lab: the directory that holds records and reports.

use std::path::{Path, PathBuf};

use walwright_record::RunId;

use crate::whole_file::{write_private, write_whole};
use crate::{Store, StoreError, private};

/// What a lab holds. Of files the name is a beginning: SQLite keeps others beside its own.
const CONTENT: [&str; 10] = [
    "ceilings.json",
    "changes.jsonl",
    "experiments",
    "journal.",
    "reports",
    "servers",
    "storage",
    "tunes",
    "walwright.db",
    "watch",
];

/// A lab directory. What is made in it nobody but its owner may read. Several walwright processes may work in one.
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
        self.tighten();
        Store::open(&self.directory)
    }

    /// The records, if there are any yet. Makes nothing: for what only reads.
    ///
    /// # Errors
    /// When there is a file that cannot be used.
    pub fn existing_store(&self) -> Result<Option<Store>, StoreError> {
        self.tighten();
        Store::open_existing(&self.directory)
    }

    /// Takes from others what an earlier version let them read. The directory itself is only
    /// closed where it holds nothing but the lab: it may be someone's working directory.
    fn tighten(&self) {
        let Ok(entries) = self.directory.read_dir() else { return };
        let mut alone = true;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let ours = CONTENT.iter().any(|begin| name.to_string_lossy().starts_with(begin));
            alone &= ours;
            if ours {
                told(&entry.path(), private::tighten(&entry.path()));
            }
        }
        if alone && self.directory.join("walwright.db").exists() {
            told(&self.directory, private::tighten_alone(&self.directory));
        }
    }

    /// Writes a file that may lie in the lab: there it is private, elsewhere as open as any
    /// other. See [`write_whole`](crate::write_whole).
    ///
    /// # Errors
    /// When it or the directories it is in cannot be written.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        if path.starts_with(&self.directory) {
            private::create_dir_all(directory.unwrap_or(&self.directory))?;
            return write_private(path, bytes);
        }
        directory.map_or(Ok(()), std::fs::create_dir_all)?;
        write_whole(path, bytes)
    }

    /// Where the report of a run is written unless told otherwise.
    pub fn report_path(&self, run: &RunId) -> PathBuf {
        self.directory.join("reports").join(format!("{run}.html"))
    }
}

/// That others can still read something is no reason not to work with it.
fn told(path: &Path, tightened: std::io::Result<()>) {
    if let Err(error) = tightened {
        tracing::debug!(path = %path.display(), %error, "others may still read it");
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn open(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_a_lab_makes_is_its_owners_alone() {
        let place = tempfile::tempdir().unwrap();
        open(place.path(), 0o755);
        let lab = Lab::at(Some(place.path().join("deep/lab")));
        let store = lab.store().unwrap();
        lab.write(&lab.directory().join("reports/x.html"), b"x").unwrap();
        assert_eq!(mode(lab.directory()), 0o700);
        assert_eq!(mode(&lab.directory().join("reports")), 0o700);
        assert_eq!(mode(&lab.directory().join("reports/x.html")), 0o600);
        let names = ["walwright.db", "walwright.db-wal", "walwright.db-shm"];
        assert!(names.iter().all(|name| mode(&store.path().with_file_name(name)) == 0o600));
        // What a person names is theirs to open or close.
        let plain = place.path().join("plain");
        fs::write(&plain, "").unwrap();
        lab.write(&place.path().join("named"), b"x").unwrap();
        assert_eq!(mode(&place.path().join("named")), mode(&plain));
    }

    #[test]
    fn an_open_lab_is_closed_when_it_is_used_and_a_shared_directory_is_not() {
        let (own, shared) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for place in [&own, &shared] {
            let lab = Lab::at(Some(place.path().to_owned()));
            drop(lab.store().unwrap());
            fs::create_dir_all(place.path().join("experiments/x")).unwrap();
            for name in ["journal.jsonl", "experiments/x/header.json"] {
                fs::write(place.path().join(name), "").unwrap();
            }
            for name in [
                "",
                "walwright.db",
                "journal.jsonl",
                "experiments",
                "experiments/x",
                "experiments/x/header.json",
            ] {
                let path = place.path().join(name);
                open(&path, if path.is_dir() { 0o755 } else { 0o644 });
            }
        }
        fs::write(shared.path().join("my.sql"), "").unwrap();
        open(&shared.path().join("my.sql"), 0o644);
        std::os::unix::fs::symlink(shared.path().join("my.sql"), own.path().join("storage"))
            .unwrap();
        for place in [&own, &shared] {
            drop(Lab::at(Some(place.path().to_owned())).existing_store().unwrap());
            for name in ["walwright.db", "journal.jsonl", "experiments/x/header.json"] {
                assert_eq!(mode(&place.path().join(name)), 0o600, "{name}");
            }
            assert_eq!(mode(&place.path().join("experiments/x")), 0o700);
        }
        assert_eq!(mode(own.path()), 0o700);
        assert_eq!(mode(shared.path()), 0o755);
        assert_eq!(mode(&shared.path().join("my.sql")), 0o644);
    }
}
