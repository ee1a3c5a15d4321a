//! The ledger of changes: what walwright changes outside its own clusters, written down
//! and flushed before it is done, so that it can be undone also after a crash.
//!
//! One file of the lab, `changes.jsonl`, to which lines are only ever added:
//!
//! - [`Ledger::begin`] notes a set of changes with what was there before. Nothing may be
//!   changed before it has returned.
//! - [`Ledger::step`] notes how far a statement of it is, which cannot be read back.
//! - [`Ledger::end`] notes how it ended: done, or undone.
//! - A set without an end was cut short: anything from none to all of it may have been
//!   changed. Undoing it compares what is there with both.
//!
//! A last line that a crash tore is no line: what it would have noted had not happened
//! yet, or was the end of a set, which then counts as cut short.
//!
//! How a change is made and undone is told by `profile`; nothing here touches a server or
//! the kernel. Passwords and connection strings are never part of a set.

mod change;
mod owner;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use walwright_record::Timestamp;

use crate::Lab;
use crate::line_file::{LineFile, whole_lines};

pub use change::{Change, ChangeSet, Intent, Outcome, ServerIdentity, State, Step};
use owner::Owner;

const FILE: &str = "changes.jsonl";

/// Why the ledger cannot be used.
#[derive(Debug, Error)]
#[error("cannot {doing} the ledger of changes {}: {source}", path.display())]
pub struct LedgerError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// The ledger of a lab. Several processes may use it at once.
#[derive(Debug, Clone)]
pub struct Ledger {
    path: PathBuf,
}

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event {
    Begin { id: u64, at: Timestamp, owner: Owner, intent: Intent },
    Step { id: u64, change: usize, step: Step },
    End { id: u64, at: Timestamp, outcome: Outcome },
}

impl Ledger {
    /// The ledger of a lab. Makes nothing yet.
    pub fn of(lab: &Lab) -> Ledger {
        Ledger { path: lab.directory().join(FILE) }
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes what is about to be changed, and returns when that is on disk.
    ///
    /// # Errors
    /// When it cannot be written; then nothing may be changed.
    pub fn begin(&self, intent: Intent) -> Result<ChangeSet, LedgerError> {
        let mut file = self.open()?;
        let sets = fold(&file.bytes().map_err(|source| self.error("read", source))?);
        let id = sets.iter().map(|set| set.id).max().unwrap_or(0).saturating_add(1);
        let (at, owner) = (Timestamp::now(), Owner::me());
        let event = Event::Begin { id, at, owner: owner.clone(), intent: intent.clone() };
        self.append(&mut file, &event)?;
        Ok(ChangeSet { id, at, owner, intent, state: State::Begun, steps: BTreeMap::new() })
    }

    /// Notes how far the statement at this place among a set's changes is, and returns
    /// when that is on disk.
    ///
    /// # Errors
    /// When it cannot be written; then the statement may not be run.
    pub fn step(&self, id: u64, change: usize, step: Step) -> Result<(), LedgerError> {
        let mut file = self.open()?;
        self.append(&mut file, &Event::Step { id, change, step })
    }

    /// Notes how a set ended.
    ///
    /// # Errors
    /// When it cannot be written; the set then counts as cut short.
    pub fn end(&self, id: u64, outcome: Outcome) -> Result<(), LedgerError> {
        let mut file = self.open()?;
        self.append(&mut file, &Event::End { id, at: Timestamp::now(), outcome })
    }

    /// All sets, oldest first.
    ///
    /// # Errors
    /// When there is a file that cannot be read.
    pub fn sets(&self) -> Result<Vec<ChangeSet>, LedgerError> {
        match std::fs::read(&self.path) {
            Ok(bytes) => Ok(fold(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(self.error("read", source)),
        }
    }

    /// The set with this number.
    ///
    /// # Errors
    /// When there is a file that cannot be read.
    pub fn set(&self, id: u64) -> Result<Option<ChangeSet>, LedgerError> {
        Ok(self.sets()?.into_iter().find(|set| set.id == id))
    }

    /// The set to undo when none is named: one that was cut short, else the last that
    /// was done and that no other process is still at.
    ///
    /// # Errors
    /// When there is a file that cannot be read.
    pub fn next_to_undo(&self) -> Result<Option<ChangeSet>, LedgerError> {
        let sets = self.sets()?;
        let last = |wanted: &dyn Fn(&ChangeSet) -> bool| sets.iter().rev().find(|set| wanted(set));
        let is_done = |set: &ChangeSet| set.state == State::Done && !set.is_in_progress();
        let found = last(&|set| set.is_cut_short()).or_else(|| last(&is_done));
        Ok(found.cloned())
    }

    fn error(&self, doing: &'static str, source: io::Error) -> LedgerError {
        LedgerError { doing, path: self.path.clone(), source }
    }

    /// Opens and locks the file, made if there is none, without what a crash tore.
    fn open(&self) -> Result<LineFile, LedgerError> {
        LineFile::open(&self.path)
            .and_then(|mut file| file.cut_torn(|_| Ok(())).map(|()| file))
            .map_err(|source| self.error("open", source))
    }

    fn append(&self, file: &mut LineFile, event: &Event) -> Result<(), LedgerError> {
        file.append(event).map_err(|source| self.error("write", source))
    }
}

/// The sets that the lines tell.
fn fold(bytes: &[u8]) -> Vec<ChangeSet> {
    let mut sets: Vec<ChangeSet> = Vec::new();
    for event in whole_lines(bytes).filter_map(|(_, line)| serde_json::from_slice(line).ok()) {
        match event {
            Event::Begin { id, at, owner, intent } => {
                let (state, steps) = (State::Begun, BTreeMap::new());
                sets.push(ChangeSet { id, at, owner, intent, state, steps });
            }
            Event::Step { id, change, step } => {
                if let Some(set) = sets.iter_mut().find(|set| set.id == id) {
                    set.steps.insert(change, step);
                }
            }
            Event::End { id, outcome, .. } => {
                if let Some(set) = sets.iter_mut().find(|set| set.id == id) {
                    set.state = match outcome {
                        Outcome::Done => State::Done,
                        Outcome::Undone { why, left } => State::Undone { why, left },
                    };
                }
            }
        }
    }
    sets
}
