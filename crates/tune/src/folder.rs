//! A tune on disk: a directory of the lab from which a killed one goes on.
//!
//! ```text
//! LAB/tunes/ID/
//!   state.json    all that is known; replaced whole after each measurement
//!   report.html   its page, as often
//!   config.env    the promoted configuration, at the end
//!   config.schema.sql   the promoted statements on the schema, where there are some
//!   batch/        scripts of several transactions in one commit, where they are measured
//!   lock          held by the process that runs it
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use walwright_server::HeldFile;
use walwright_store::{Kind, Lab, private, write_private};

use super::state::FORMAT;
use super::{TuneError, TuneState};

const DIRECTORY: &str = "tunes";
const STATE: &str = "state.json";
const LOCK: &str = "lock";

static TUNES: Kind = Kind { one: "tune", many: "tunes", listed_by: "walwright tune list" };

/// A tune's directory, held by this process.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: HeldFile,
}

impl Folder {
    /// The directory of a new tune.
    pub fn create(lab: &Lab, id: &str) -> Result<Folder, TuneError> {
        let path = directory(lab).join(id);
        private::create_dir_all(&path).map_err(TuneError::file("create", &path))?;
        Folder::hold(path, id)
    }

    /// The directory of a tune that is there.
    pub fn open(lab: &Lab, id: &str) -> Result<Folder, TuneError> {
        let path = directory(lab).join(id);
        if !path.join(STATE).is_file() {
            return Err(TUNES.no_such(id).into());
        }
        Folder::hold(path, id)
    }

    fn hold(path: PathBuf, id: &str) -> Result<Folder, TuneError> {
        let lock_path = path.join(LOCK);
        let held = HeldFile::try_hold(&lock_path).map_err(TuneError::file("lock", &lock_path))?;
        let lock = held.ok_or_else(|| TuneError::Held(id.to_owned()))?;
        Ok(Folder { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it with all that is in it.
    pub fn remove(self) -> Result<(), TuneError> {
        fs::remove_dir_all(&self.path).map_err(TuneError::file("remove", &self.path))
    }

    /// Keeps the state: whole on disk when this returns, or the one before.
    pub fn save(&self, state: &TuneState) -> Result<(), TuneError> {
        let path = self.path.join(STATE);
        let text = serde_json::to_vec_pretty(state)
            .map_err(|error| TuneError::file("write", &path)(error.into()))?;
        self.write(STATE, &text)
    }

    /// Writes a file of the tune whole.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), TuneError> {
        let path = self.path.join(name);
        write_private(&path, bytes).map_err(TuneError::file("write", &path))
    }
}

fn directory(lab: &Lab) -> PathBuf {
    lab.directory().join(DIRECTORY)
}

/// Where the page of a tune is written.
pub fn page_path(lab: &Lab, id: &str) -> PathBuf {
    directory(lab).join(id).join("report.html")
}

/// The state of a tune, as it was kept last.
pub(super) fn read(lab: &Lab, id: &str) -> Result<TuneState, TuneError> {
    let path = directory(lab).join(id).join(STATE);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(TUNES.no_such(id).into());
        }
        Err(error) => return Err(TuneError::file("read", &path)(error)),
    };
    let wrong = |what: String| TuneError::State { path: path.clone(), what };
    // The layout first: the fields of a later one may read as something else.
    #[derive(serde::Deserialize)]
    struct Layout {
        format: u32,
    }
    let layout: Layout = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if layout.format > FORMAT {
        return Err(wrong(format!("its layout is {}, this version knows {FORMAT}", layout.format)));
    }
    let state = serde_json::from_slice::<TuneState>(&text);
    Ok(state.map_err(|error| wrong(error.to_string()))?.told_what_is_kept())
}

/// Names of the tunes of a lab, oldest first.
///
/// # Errors
/// When the directory cannot be read.
pub fn list(lab: &Lab) -> Result<Vec<String>, TuneError> {
    let directory = directory(lab);
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(TuneError::file("read", &directory)(error)),
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.path().join(STATE).is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

/// The tune a person means by its name.
pub(super) fn find(lab: &Lab, name: &str) -> Result<String, TuneError> {
    Ok(TUNES.find(list(lab)?, |id| vec![id], name)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;
    use crate::promote::tests::ended;

    #[test]
    fn an_earlier_state_goes_on_and_a_later_one_is_refused_with_a_sentence() {
        let directory = tempfile::tempdir().unwrap();
        let lab = Lab::at(Some(directory.path().to_owned()));
        let state = TuneState::new(plan());
        let folder = Folder::create(&lab, &state.id).unwrap();
        folder.save(&state).unwrap();
        assert_eq!(read(&lab, &state.id).unwrap(), state);

        let mut earlier = serde_json::to_value(&state).unwrap();
        let fields = earlier.as_object_mut().unwrap();
        for added in ["diagnosed_run", "schema", "client_options_left_out", "promoted_schema"] {
            assert!(fields.remove(added).is_some(), "{added}");
        }
        let of_plan = fields["plan"].as_object_mut().unwrap();
        for added in ["most_pairs", "worth", "allowed_loss"] {
            assert!(of_plan.remove(added).is_some(), "{added}");
        }
        of_plan.insert("smallest_effect".to_owned(), 0.01.into());
        fields.insert("format".to_owned(), 1.into());
        let keep = |value: &serde_json::Value| {
            folder.write(STATE, value.to_string().as_bytes()).unwrap();
        };
        keep(&earlier);
        assert_eq!(read(&lab, &state.id).unwrap(), TuneState { format: 1, ..state.clone() });

        keep(&serde_json::json!({ "format": FORMAT + 1, "plan": "of another kind" }));
        let refused = read(&lab, &state.id).unwrap_err().to_string();
        let layout = format!("its layout is {}", FORMAT + 1);
        assert!(refused.contains(&layout) && refused.contains("begin a new tune"), "{refused}");
    }

    #[test]
    fn a_search_of_an_earlier_layout_is_told_what_is_to_be_kept() {
        let directory = tempfile::tempdir().unwrap();
        let lab = Lab::at(Some(directory.path().to_owned()));
        let mut state = ended();
        state.plan.objective = "wal-bytes".to_owned();
        let folder = Folder::create(&lab, &state.id).unwrap();
        let kept = |format: u32| {
            folder.save(&TuneState { format, ..state.clone() }).unwrap();
            let read = read(&lab, &state.id).unwrap();
            let searcher = read.searcher.unwrap();
            let of = |trial: &walwright_search::Trial| Some(trial.kept()?.exp().round());
            (read.format, searcher.trials().iter().map(of).collect::<Vec<_>>())
        };
        let made: Vec<Option<f64>> =
            state.made.iter().map(|made| Some(made.throughput?.round())).collect();
        assert_eq!(kept(4), (FORMAT, made.clone()));
        // How often the confirmation is looked at goes by the layout.
        assert_eq!(kept(2), (2, made.clone()));
        assert_eq!(kept(FORMAT).1, vec![None; made.len()], "told already, if there was any");
    }
}
