//! The journal: the append-only history of experiments and decisions of a lab.
//!
//! One file of JSON lines, `journal.jsonl`, an [`Entry`] a line. A line is written
//! whole and flushed before [`Journal::append`] returns, under a lock, so that several
//! processes may write. Nothing in it is ever changed: who was wrong appends an entry
//! that names the one it [corrects](Entry::corrects). What a crash left of a last line
//! is moved to `journal.torn` by the next writer, and readers pass over it.
//!
//! The entry itself is a type of the record crate; renderings are in `report`.

use std::io::Write;
use std::path::PathBuf;

use thiserror::Error;
use walwright_record::Timestamp;

use crate::{FindError, Kind, LineFile, StoreError, private, whole_lines};

/// The parts of an entry.
pub use walwright_record::journal::{Change, Effect, Entry, EntryId, Machine, Origin, Plot};

use crate::Lab;

/// Name of the file inside the lab.
const FILE: &str = "journal.jsonl";
/// Where torn lines are put.
const TORN: &str = "journal.torn";

static ENTRIES: Kind =
    Kind { one: "journal entry", many: "journal entries", listed_by: "walwright journal" };

/// Why the journal refuses.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file cannot be used.
    #[error(
        "the journal {path}: {source}; check that walwright may write there, or name another lab with --lab"
    )]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// An entry cannot be written as JSON.
    #[error("the entry cannot be kept: {0}")]
    Entry(#[source] serde_json::Error),
    /// An effect holds a figure that is no number.
    #[error("the effect of {arm} on {metric} is no number, so it cannot be kept")]
    NoNumber {
        /// The arm.
        arm: String,
        /// The metric.
        metric: String,
    },
    /// An entry without a question tells a reader nothing.
    #[error("an entry needs a question: what was to be found out")]
    NoQuestion,
    /// No entry of that name, or several.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The records of the runs cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What the journal holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Contents {
    /// The entries, oldest first.
    pub entries: Vec<Entry>,
    /// Lines that are no entry this version reads, each as a sentence.
    pub unreadable: Vec<String>,
}

impl Contents {
    /// The entry a person means by `name`, as [`Kind::find`] has it.
    ///
    /// # Errors
    /// When none or several fit.
    pub fn find(&self, name: &str) -> Result<&Entry, FindError> {
        ENTRIES.find(&self.entries, |entry| vec![entry.name()], name)
    }

    /// The entries that correct the one called `id`, oldest first.
    pub fn corrections<'a>(&'a self, id: &'a EntryId) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.corrects.as_ref() == Some(id))
    }
}

/// The journal of a lab.
#[derive(Debug, Clone)]
pub struct Journal {
    directory: PathBuf,
}

impl Journal {
    /// The journal of `lab`. Touches nothing.
    pub fn of(lab: &Lab) -> Journal {
        Journal { directory: lab.directory().to_owned() }
    }

    /// Appends an entry and gives it back as it was kept, with its name and moment.
    /// When this returns, it is on disk. An entry that names no machine gets `machine`.
    ///
    /// # Errors
    /// When it has no question, corrects an entry that is not there, or cannot be written.
    pub fn append(&self, mut entry: Entry, machine: Machine) -> Result<Entry, JournalError> {
        if entry.question.trim().is_empty() {
            return Err(JournalError::NoQuestion);
        }
        // JSON has no infinity: such an entry could not be read back.
        let finite = |effect: &Effect| {
            let ends = effect.interval.iter().flatten();
            let figures = [effect.change, effect.confidence];
            let others = ends.chain(&effect.corrected_p).chain(&effect.noise_floor);
            figures.iter().chain(others).all(|figure| figure.is_finite())
        };
        if let Some(wrong) = entry.effects.iter().find(|effect| !finite(effect)) {
            let (arm, metric) = (wrong.arm.clone(), wrong.metric.clone());
            return Err(JournalError::NoNumber { arm, metric });
        }
        entry.machine.get_or_insert(machine);
        let mut file = self.writable().map_err(|source| self.cannot(source))?;
        // Under the lock, so that the order of the file is that of the moments and no
        // two entries have one name.
        let kept = self.read()?;
        if let Some(corrected) = &entry.corrects {
            entry.corrects = kept.find(&corrected.0)?.id.clone();
        }
        entry.at = Timestamp::now();
        let seed = (entry.at.0 as u32).rotate_left(9) ^ std::process::id();
        let mut names = (0..).map(|i: u32| EntryId::new(entry.at, seed.wrapping_add(i)));
        entry.id = names.find(|id| kept.entries.iter().all(|other| other.id.as_ref() != Some(id)));
        file.append(&entry).map_err(|source| self.cannot(source))?;
        Ok(entry)
    }

    /// All entries. A lab without a journal has none.
    ///
    /// # Errors
    /// When there is a file that cannot be read at all; lines that cannot are named
    /// in [`Contents::unreadable`].
    pub fn read(&self) -> Result<Contents, JournalError> {
        match std::fs::read(self.directory.join(FILE)) {
            Ok(bytes) => Ok(parse(&bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Contents::default()),
            Err(source) => Err(self.cannot(source)),
        }
    }

    /// The file, locked. What a crash tore of its last line is kept aside first: killed in
    /// between, it is there twice.
    fn writable(&self) -> std::io::Result<LineFile> {
        let mut file = LineFile::open(&self.directory.join(FILE))?;
        file.cut_torn(|torn| {
            let aside = self.directory.join(TORN);
            let mut kept = private::options().append(true).create(true).open(aside)?;
            kept.write_all(torn)?;
            kept.write_all(b"\n")?;
            kept.sync_all()
        })?;
        Ok(file)
    }

    fn cannot(&self, source: std::io::Error) -> JournalError {
        JournalError::File { path: self.directory.join(FILE), source }
    }
}

/// The entries in the bytes of the file.
fn parse(bytes: &[u8]) -> Contents {
    let mut contents = Contents::default();
    for (number, line) in whole_lines(bytes) {
        match serde_json::from_slice(line) {
            Ok(entry) => contents.entries.push(entry),
            Err(why) => contents
                .unreadable
                .push(format!("line {number} is no entry that this version reads: {why}")),
        }
    }
    contents
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn journal() -> (tempfile::TempDir, Journal) {
        let lab = tempfile::tempdir().unwrap();
        let journal = Journal::of(&Lab::at(Some(lab.path().to_owned())));
        (lab, journal)
    }

    fn machine() -> Machine {
        Machine { processors: Some(2), ..Machine::default() }
    }

    fn questions(journal: &Journal) -> Vec<String> {
        journal.read().unwrap().entries.into_iter().map(|entry| entry.question).collect()
    }

    #[test]
    fn what_is_appended_is_read_in_order_and_found_by_name() {
        let (_lab, journal) = journal();
        assert_eq!(journal.read().unwrap(), Contents::default());
        let first = journal.append(Entry::asking("Does huge_pages help?"), machine()).unwrap();
        let second = journal.append(Entry::asking("Line\nbreak?"), machine()).unwrap();
        assert_ne!(first.id, second.id);
        assert!(first.machine.clone().unwrap().processors.unwrap() > 0);
        let kept = journal.read().unwrap();
        assert_eq!(kept.entries, [first.clone(), second.clone()]);
        assert_eq!(kept.find("latest").unwrap(), &second);
        assert_eq!(kept.find(first.name()).unwrap(), &first);
        assert!(matches!(kept.find("nope"), Err(FindError::NoSuch { .. })));
        assert!(matches!(kept.find("20"), Err(FindError::Several { .. })));
    }

    #[test]
    fn a_torn_last_line_is_passed_over_and_set_aside_by_the_next_writer() {
        let (lab, journal) = journal();
        journal.append(Entry::asking("one"), machine()).unwrap();
        let path = lab.path().join(FILE);
        let whole = std::fs::read(&path).unwrap();
        // Killed after any number of bytes of the second line.
        for cut in 1..whole.len() {
            let mut torn = whole.clone();
            torn.extend_from_slice(&whole[..cut]);
            std::fs::write(&path, &torn).unwrap();
            assert_eq!(questions(&journal), ["one"], "{cut}");
        }
        journal.append(Entry::asking("two"), machine()).unwrap();
        assert_eq!(questions(&journal), ["one", "two"]);
        let kept = journal.read().unwrap();
        assert_eq!(kept.unreadable, Vec::<String>::new());
        let aside = std::fs::read(lab.path().join(TORN)).unwrap();
        assert_eq!(aside.strip_suffix(b"\n").unwrap(), &whole[..whole.len() - 1]);
    }

    #[test]
    fn a_damaged_line_in_the_middle_is_named_and_the_rest_is_read() {
        let (lab, journal) = journal();
        journal.append(Entry::asking("one"), machine()).unwrap();
        let path = lab.path().join(FILE);
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"\xff\xfe not json\n").unwrap();
        journal.append(Entry::asking("two"), machine()).unwrap();
        assert_eq!(questions(&journal), ["one", "two"]);
        let unreadable = journal.read().unwrap().unreadable;
        assert_eq!(unreadable.len(), 1);
        assert!(unreadable[0].starts_with("line 2 "), "{unreadable:?}");
    }

    #[test]
    fn corrections_point_to_what_is_there() {
        let (_lab, journal) = journal();
        let wrong = journal.append(Entry::asking("wrong"), machine()).unwrap();
        let correcting =
            |of: &str| Entry { corrects: Some(EntryId(of.to_owned())), ..Entry::asking("right") };
        assert!(journal.append(correcting("19990101-000000-aaa"), machine()).is_err());
        let right = journal.append(correcting("latest"), machine()).unwrap();
        assert_eq!(right.corrects, wrong.id);
        let kept = journal.read().unwrap();
        let corrections: Vec<&Entry> = kept.corrections(wrong.id.as_ref().unwrap()).collect();
        assert_eq!(corrections, [&right]);
        assert!(matches!(
            journal.append(Entry::asking(" "), machine()),
            Err(JournalError::NoQuestion)
        ));
    }

    #[test]
    fn what_could_not_be_read_back_is_refused() {
        let (_lab, journal) = journal();
        let endless = Effect { interval: Some([0.1, f64::INFINITY]), ..Effect::default() };
        let entry = Entry { effects: vec![endless], ..Entry::asking("one block?") };
        assert!(matches!(journal.append(entry, machine()), Err(JournalError::NoNumber { .. })));
        let finite = Effect { interval: Some([-0.1, 0.3]), change: 0.1, ..Effect::default() };
        let entry = Entry { effects: vec![finite], ..Entry::asking("two blocks?") };
        let kept = journal.append(entry, machine()).unwrap();
        assert_eq!(journal.read().unwrap().entries, [kept]);
    }

    #[test]
    fn writers_at_once_lose_nothing() {
        let (_lab, journal) = journal();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let journal = &journal;
                scope.spawn(move || {
                    for i in 0..10 {
                        journal.append(Entry::asking(format!("{writer} {i}")), machine()).unwrap();
                    }
                });
            }
        });
        let kept = journal.read().unwrap();
        assert_eq!((kept.entries.len(), kept.unreadable.len()), (40, 0));
        let names: std::collections::BTreeSet<&str> =
            kept.entries.iter().map(|entry| entry.name()).collect();
        assert_eq!(names.len(), 40);
    }
}
