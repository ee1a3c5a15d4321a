//! An experiment on disk: a directory of the lab from which a killed one goes on.
//!
//! ```text
//! LAB/experiments/ID/
//!   plan.toml      the plan as it was given
//!   profiles.json  the profiles it names as they were read, where it names any
//!   header.json    what it was begun with, and how it ended; replaced whole
//!   cells.jsonl    one line a run that is done; only ever appended to
//!   outcome.json   the result, written at the end
//!   lock           held by the process that runs it
//! ```
//!
//! A process that is killed while it appends leaves a last line without its end, which
//! the next one cuts off: that run is done again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use walwright_figures::experiment::Ending;
use walwright_record::{RunId, Timestamp, Warning};
use walwright_server::HeldFile;
use walwright_store::{Kind, Lab, LineFile, flush_directory, private, whole_lines, write_private};

use super::plan::MOST_BLOCKS;
use super::profile::Profiles;
use super::{ExperimentError, OnServer};

/// The layout; another one is refused.
const FORMAT: u32 = 1;
const DIRECTORY: &str = "experiments";
const PLAN: &str = "plan.toml";
const PROFILES: &str = "profiles.json";
const HEADER: &str = "header.json";
const CELLS: &str = "cells.jsonl";
const OUTCOME: &str = "outcome.json";
const LOCK: &str = "lock";

static EXPERIMENTS: Kind =
    Kind { one: "experiment", many: "experiments", listed_by: "walwright experiment list" };

/// What an experiment was begun with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Layout of the directory.
    pub format: u32,
    /// Its name in the lab.
    pub id: String,
    /// What the plan calls it.
    pub name: String,
    /// When it began.
    pub begun: Timestamp,
    /// How it ended; `Unfinished` until then.
    pub ending: Ending,
    /// Version of walwright that began it.
    pub walwright_version: String,
    /// The command line.
    pub command: String,
    /// Where the plan's relative paths are seen from.
    pub origin: PathBuf,
    /// Blocks planned.
    pub blocks: usize,
    /// Names of the arms.
    pub arms: Vec<String>,
    /// Settings consented to beside those in the plan.
    pub consent: Vec<String>,
    /// Whether it may end at a look before the last block.
    pub stop_when_clear: bool,
    /// What its workloads are made of, as a hash.
    pub workload: String,
    /// The attached server that it runs on.
    #[serde(default)]
    pub server: Option<OnServer>,
}

/// One run that is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Its block, from 0.
    pub block: usize,
    /// Its place: 0 the baseline, 1 the baseline again, 2 the first arm.
    pub place: usize,
    /// Its record; `None` where the run could not begin.
    pub run: Option<RunId>,
    /// Its figures by key.
    pub figures: BTreeMap<String, f64>,
    /// The warnings of its record.
    #[serde(alias = "doubts")]
    pub warnings: Vec<Warning>,
    /// Why it failed, if it did.
    pub failed: Option<String>,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// An experiment in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listed {
    /// What it was begun with.
    #[serde(flatten)]
    pub header: Header,
    /// Runs done.
    pub done: usize,
    /// Runs planned.
    pub planned: usize,
}

/// An experiment's directory, held by this process.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: HeldFile,
}

impl Header {
    /// A new one. `entropy` makes its name differ from others of the same second.
    pub(super) fn new(name: String, arms: Vec<String>, blocks: usize, entropy: u32) -> Header {
        let begun = Timestamp::now();
        Header {
            format: FORMAT,
            id: RunId::new(begun, entropy).0,
            name,
            begun,
            ending: Ending::Unfinished,
            walwright_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: String::new(),
            origin: PathBuf::new(),
            blocks,
            arms,
            consent: Vec::new(),
            stop_when_clear: false,
            workload: String::new(),
            server: None,
        }
    }

    /// Runs planned: the baseline twice and every arm, in each block.
    pub fn planned(&self) -> usize {
        self.blocks * (self.arms.len() + super::order::FIRST_ARM)
    }
}

impl Folder {
    /// Makes the directory of a new experiment; it appears whole.
    pub(super) fn create(
        lab: &Lab,
        header: &Header,
        plan: &str,
        profiles: &Profiles,
    ) -> Result<Folder, ExperimentError> {
        let all = lab.directory().join(DIRECTORY);
        let growing = all.join(format!(".{}", header.id));
        private::create_dir_all(&growing).map_err(ExperimentError::file("create", &growing))?;
        write(&growing.join(PLAN), plan.as_bytes())?;
        if !profiles.is_empty() {
            write_json(&growing.join(PROFILES), profiles)?;
        }
        write_header(&growing, header)?;
        let path = all.join(&header.id);
        fs::rename(&growing, &path).map_err(ExperimentError::file("create", &path))?;
        flush_directory(&all).map_err(ExperimentError::file("flush", &all))?;
        Folder::lock(path, &header.id)
    }

    /// Takes an experiment's directory for this process.
    pub(super) fn open(lab: &Lab, id: &str) -> Result<Folder, ExperimentError> {
        let folder = Folder::lock(lab.directory().join(DIRECTORY).join(id), id)?;
        folder.cut_torn_line()?;
        Ok(folder)
    }

    fn lock(path: PathBuf, id: &str) -> Result<Folder, ExperimentError> {
        let file = path.join(LOCK);
        let held = HeldFile::try_hold(&file).map_err(ExperimentError::file("lock", &file))?;
        let lock = held.ok_or_else(|| ExperimentError::InUse(id.to_owned()))?;
        Ok(Folder { path, _lock: lock })
    }

    /// Appends a run that is done; it is on disk when this returns.
    pub(super) fn append(&self, cell: &Cell) -> Result<(), ExperimentError> {
        let path = self.path.join(CELLS);
        LineFile::open(&path)
            .and_then(|mut file| file.append(cell))
            .map_err(ExperimentError::file("append to", &path))
    }

    fn cut_torn_line(&self) -> Result<(), ExperimentError> {
        let path = self.path.join(CELLS);
        LineFile::open(&path)
            .and_then(|mut file| file.cut_torn(|_| Ok(())))
            .map_err(ExperimentError::file("repair", &path))
    }

    /// Writes how it ended.
    pub(super) fn end(&self, header: &Header) -> Result<(), ExperimentError> {
        write_header(&self.path, header)
    }

    /// Writes the result.
    pub(super) fn write_outcome<T: Serialize>(&self, outcome: &T) -> Result<(), ExperimentError> {
        write_json(&self.path.join(OUTCOME), outcome)
    }
}

/// What is kept of the result of an experiment that has ended; `None` where it has not, or it
/// cannot be read.
pub(super) fn read_outcome<T: serde::de::DeserializeOwned>(lab: &Lab, id: &str) -> Option<T> {
    let text = fs::read(path(lab, id).join(OUTCOME)).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Where an experiment keeps its files.
pub(super) fn path(lab: &Lab, id: &str) -> PathBuf {
    lab.directory().join(DIRECTORY).join(id)
}

/// What an experiment was begun with.
pub(super) fn header(lab: &Lab, id: &str) -> Result<Header, ExperimentError> {
    let path = path(lab, id).join(HEADER);
    let text = fs::read(&path).map_err(ExperimentError::file("read", &path))?;
    let damaged = |what: String| ExperimentError::Damaged { path: path.clone(), what };
    let header: Header =
        serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    if header.format != FORMAT {
        return Err(damaged(format!("its format is {}", header.format)));
    }
    if header.blocks > MOST_BLOCKS {
        return Err(damaged(format!(
            "it has {} blocks, and {MOST_BLOCKS} is the most",
            header.blocks
        )));
    }
    Ok(header)
}

/// The plan of an experiment as it was given.
pub(super) fn plan(lab: &Lab, id: &str) -> Result<String, ExperimentError> {
    let path = path(lab, id).join(PLAN);
    fs::read_to_string(&path).map_err(ExperimentError::file("read", &path))
}

/// The profiles that the plan of an experiment names, as they were read when it began; `None`
/// where it names none, or began with a version that did not keep them.
pub(super) fn profiles(lab: &Lab, id: &str) -> Result<Option<Profiles>, ExperimentError> {
    let path = path(lab, id).join(PROFILES);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(ExperimentError::file("read", &path))?,
    };
    let damaged =
        |error: serde_json::Error| ExperimentError::Damaged { path, what: error.to_string() };
    serde_json::from_slice(&text).map(Some).map_err(damaged)
}

/// The runs that are done, in the order they were made. A last line without its end is
/// left out.
pub(super) fn cells(lab: &Lab, id: &str) -> Result<Vec<Cell>, ExperimentError> {
    let path = path(lab, id).join(CELLS);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(ExperimentError::file("read", &path))?,
    };
    let read = |(number, line): (usize, &[u8])| {
        let damaged = |what: String| ExperimentError::Damaged {
            path: path.clone(),
            what: format!("line {number}: {what}"),
        };
        let cell: Cell =
            serde_json::from_slice(line).map_err(|error| damaged(error.to_string()))?;
        // Blocks are counted up to the last.
        match cell.block < MOST_BLOCKS {
            true => Ok(cell),
            false => Err(damaged(format!("there is no block {}", cell.block))),
        }
    };
    whole_lines(&text).map(read).collect()
}

/// All experiments of a lab, oldest first. Directories that hold none are left out, and so are
/// those that cannot be read ([`unreadable`]), with a warning.
///
/// # Errors
/// When the directory of all cannot be read.
pub fn list(lab: &Lab) -> Result<Vec<Listed>, ExperimentError> {
    let left_out = |error: &ExperimentError| tracing::warn!(%error, "left out");
    Ok(all(lab)?.filter_map(|listed| listed.inspect_err(left_out).ok()).collect())
}

/// Why experiments of a lab cannot be read, oldest first.
///
/// # Errors
/// When the directory of all cannot be read.
pub fn unreadable(lab: &Lab) -> Result<Vec<ExperimentError>, ExperimentError> {
    Ok(all(lab)?.filter_map(Result::err).collect())
}

fn all(
    lab: &Lab,
) -> Result<impl Iterator<Item = Result<Listed, ExperimentError>>, ExperimentError> {
    Ok(names(lab)?.into_iter().map(|id| {
        let header = header(lab, &id)?;
        let done = cells(lab, &id)?.len();
        Ok(Listed { planned: header.planned(), header, done })
    }))
}

/// Names of the directories that hold an experiment, oldest first.
fn names(lab: &Lab) -> Result<Vec<String>, ExperimentError> {
    let all = lab.directory().join(DIRECTORY);
    let entries = match fs::read_dir(&all) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(ExperimentError::file("read", &all))?,
    };
    let mut names: Vec<String> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.') && all.join(name).join(HEADER).exists())
        .collect();
    names.sort();
    Ok(names)
}

/// The experiment a person means by its name, or by what its plan calls it. Others that
/// cannot be read do not matter.
pub(super) fn find(lab: &Lab, name: &str) -> Result<Header, ExperimentError> {
    named(lab, name)?.1
}

/// Its name in the lab, whether or not it can be read.
pub(super) fn find_id(lab: &Lab, name: &str) -> Result<String, ExperimentError> {
    Ok(named(lab, name)?.0)
}

/// The name in the lab of the experiment that a person means, and what it was begun with.
fn named(
    lab: &Lab,
    name: &str,
) -> Result<(String, Result<Header, ExperimentError>), ExperimentError> {
    fn names_of(one: &(String, Result<Header, ExperimentError>)) -> Vec<&str> {
        let called = one.1.iter().map(|header| header.name.as_str());
        std::iter::once(one.0.as_str()).chain(called).collect()
    }
    let all = names(lab)?.into_iter().map(|id| {
        let header = header(lab, &id);
        (id, header)
    });
    Ok(EXPERIMENTS.find(all, names_of, name)?)
}

fn write_header(directory: &Path, header: &Header) -> Result<(), ExperimentError> {
    write_json(&directory.join(HEADER), header)
}

fn write_json<T: Serialize>(path: &Path, of: &T) -> Result<(), ExperimentError> {
    let text = serde_json::to_vec_pretty(of).map_err(|error| ExperimentError::Damaged {
        path: path.to_owned(),
        what: error.to_string(),
    })?;
    write(path, &text)
}

fn write(path: &Path, text: &[u8]) -> Result<(), ExperimentError> {
    write_private(path, text).map_err(ExperimentError::file("write", path))
}

#[cfg(test)]
mod tests {
    use walwright_store::FindError;

    use super::super::{Consent, PlanFile, arms};
    use super::*;

    fn cell(block: usize, place: usize) -> Cell {
        Cell {
            block,
            place,
            run: None,
            figures: BTreeMap::from([("throughput".to_owned(), 0.1 + 0.2)]),
            warnings: Vec::new(),
            failed: None,
            seconds: 1.0,
        }
    }

    fn header(name: &str, entropy: u32) -> Header {
        Header::new(name.to_owned(), vec!["a".to_owned()], 3, entropy)
    }

    #[test]
    fn what_was_appended_is_there_and_a_torn_line_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let lab = Lab::at(Some(dir.path().to_owned()));
        let header = header("first", 1);
        let folder = Folder::create(&lab, &header, "the plan", &Profiles::default()).unwrap();
        folder.append(&cell(0, 1)).unwrap();
        folder.append(&cell(0, 0)).unwrap();
        assert!(matches!(Folder::open(&lab, &header.id), Err(ExperimentError::InUse(_))));
        drop(folder);
        let file = path(&lab, &header.id).join(CELLS);
        let mut torn = fs::read(&file).unwrap();
        // Within a letter of two bytes.
        torn.extend(&"{\"failed\":\"é".as_bytes()[..12]);
        fs::write(&file, &torn).unwrap();
        assert_eq!(cells(&lab, &header.id).unwrap(), [cell(0, 1), cell(0, 0)]);
        let folder = Folder::open(&lab, &header.id).unwrap();
        folder.append(&cell(1, 0)).unwrap();
        assert_eq!(cells(&lab, &header.id).unwrap(), [cell(0, 1), cell(0, 0), cell(1, 0)]);
        assert_eq!(plan(&lab, &header.id).unwrap(), "the plan");
        let listed = list(&lab).unwrap();
        assert_eq!((listed[0].done, listed[0].planned), (3, 9));
    }

    #[test]
    fn a_profile_stays_what_it_was_when_the_experiment_began() {
        let dir = tempfile::tempdir().unwrap();
        let lab = Lab::at(Some(dir.path().join("lab")));
        let file = dir.path().join("config.env");
        fs::write(&file, "PG_MAX_WAL_SIZE=8GB\nPG_JIT=off\nVM_SWAPPINESS=1\n").unwrap();
        let text = "design = \"addition\"\n[server]\nprofile = \"config.env\"\n\
                    [[arm]]\nname = \"mine\"\nprofile = \"config.env\"\n";
        let plan = PlanFile::parse(text).unwrap();
        let read = || Profiles::read(plan.profiles(), dir.path(), &Consent::default()).unwrap();
        let began = read();
        let header = header("first", 1);
        drop(Folder::create(&lab, &header, text, &began).unwrap());

        let made = |profiles: &Profiles| {
            let arms = arms(&plan, dir.path(), profiles).unwrap();
            let base = plan.bench(dir.path(), profiles, "").unwrap().base;
            (arms, base, plan.left_out(profiles).unwrap())
        };
        fs::write(&file, "PG_MAX_WAL_SIZE=1GB\n").unwrap();
        assert_ne!(made(&read()), made(&began));
        fs::remove_file(&file).unwrap();
        let kept = profiles(&lab, &header.id).unwrap().unwrap();
        assert_eq!(made(&kept), made(&began));
        assert_eq!(made(&kept).0.arms.len(), 3);

        // One that began with an earlier version has none.
        fs::remove_file(path(&lab, &header.id).join(PROFILES)).unwrap();
        assert_eq!(profiles(&lab, &header.id).unwrap(), None);
    }

    #[test]
    fn an_experiment_is_found_by_part_of_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let lab = Lab::at(Some(dir.path().to_owned()));
        let none = find(&lab, "latest").unwrap_err();
        assert!(matches!(none, ExperimentError::Find(FindError::NoSuch { .. })));
        let one = header("one", 1);
        let two = header("two", 2);
        for header in [&one, &two] {
            drop(Folder::create(&lab, header, "", &Profiles::default()).unwrap());
        }
        // What a killed creation leaves is no experiment.
        fs::create_dir(lab.directory().join(DIRECTORY).join(".half")).unwrap();
        assert_eq!(find(&lab, &one.id).unwrap(), one);
        assert_eq!(find(&lab, "two").unwrap(), two);
        assert_eq!(find(&lab, &one.id[one.id.len() - 3..]).unwrap(), one);
        let several = find(&lab, "20").unwrap_err();
        assert!(matches!(several, ExperimentError::Find(FindError::Several { .. })));
    }

    #[test]
    fn one_that_cannot_be_read_does_not_keep_the_others_from_it() {
        let dir = tempfile::tempdir().unwrap();
        let lab = Lab::at(Some(dir.path().to_owned()));
        let (one, two, three) = (header("one", 1), header("two", 2), header("three", 3));
        for header in [&one, &two, &three] {
            drop(Folder::create(&lab, header, "the plan", &Profiles::default()).unwrap());
        }
        fs::write(path(&lab, &one.id).join(HEADER), "{ \"format\": 9 }").unwrap();
        fs::write(path(&lab, &two.id).join(CELLS), "no cell\n").unwrap();
        let listed = list(&lab).unwrap();
        assert_eq!(listed.iter().map(|one| &one.header).collect::<Vec<_>>(), [&three]);
        assert_eq!(unreadable(&lab).unwrap().len(), 2);
        assert_eq!(find(&lab, "three").unwrap(), three);
        // Named directly, they say what is wrong.
        let damaged = |error| matches!(error, ExperimentError::Damaged { .. });
        assert!(damaged(find(&lab, &one.id).unwrap_err()));
        assert_eq!(find_id(&lab, &one.id).unwrap(), one.id);
        let found = find(&lab, "two").unwrap();
        assert!(damaged(cells(&lab, &found.id).unwrap_err()));
        // Neither may ask for more memory than there is.
        let far = "{\"block\":2147483648,\"place\":0,\"run\":null,\"figures\":{},\
            \"warnings\":[],\"failed\":null,\"seconds\":1.0}\n";
        fs::write(path(&lab, &two.id).join(CELLS), far).unwrap();
        let said = cells(&lab, &two.id).unwrap_err().to_string();
        assert!(said.contains("line 1: there is no block 2147483648"), "{said}");
        write_header(&path(&lab, &two.id), &Header { blocks: usize::MAX, ..two.clone() }).unwrap();
        assert!(damaged(super::header(&lab, &two.id).unwrap_err()));
    }
}
