//! What a set of changes holds.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use walwright_record::Timestamp;

use super::owner::Owner;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "where", rename_all = "snake_case")]
pub enum Change {
    /// A setting in `postgresql.auto.conf`.
    Setting {
        /// Name.
        name: String,
        /// What stood there; `None` where it did not.
        before: Option<String>,
        /// What is to stand there; `None` where it is to go.
        after: Option<String>,
        /// Whether it takes a restart.
        restart: bool,
    },
    /// A file of the kernel.
    Kernel {
        /// The parameter.
        name: String,
        /// The file, below the root it was reached by.
        path: PathBuf,
        /// What it held.
        before: String,
        /// What it is to hold.
        after: String,
        /// A file and value that bring back what was where another change takes it away: a
        /// ratio that the kernel sets to 0 when its value in bytes is set, and the other way
        /// round; or the file itself, which a switch of the scheduler sets anew.
        restore: Option<(PathBuf, String)>,
    },
    /// A statement that changes the schema.
    Statement {
        /// The statement.
        sql: String,
        /// What undoes it.
        undo: String,
        /// The database it is for.
        database: String,
    },
}

impl Change {
    /// The parameter, or the statement.
    pub fn name(&self) -> &str {
        match self {
            Change::Setting { name, .. } | Change::Kernel { name, .. } => name,
            Change::Statement { sql, .. } => sql,
        }
    }
}

/// How far a statement of a set is. Unlike a setting or a file, it cannot be read back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Step {
    /// It is about to be run.
    Making {
        /// The transaction that holds it, whose fate the server knows; `None` of what runs
        /// in no transaction.
        transaction: Option<String>,
    },
    /// It was run.
    Made,
    /// It is about to be undone.
    Undoing {
        /// As in `Making`.
        transaction: Option<String>,
    },
    /// It was undone, or did not come to pass.
    Undone,
}

/// Which server a set changes, so that it is undone there and nowhere else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerIdentity {
    /// Its address for people, without secrets.
    pub address: String,
    /// The identifier of its cluster (`pg_control_system`), where this role may see it.
    pub system_identifier: Option<String>,
    /// Its data directory, where it is on this machine and may be seen.
    pub data_directory: Option<PathBuf>,
}

/// A set of changes before it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// What it is for, in a few words.
    pub purpose: String,
    /// The server, where it changes settings.
    pub server: Option<ServerIdentity>,
    /// Root of the kernel's files.
    pub root: PathBuf,
    /// The changes, in the order in which they are made.
    pub changes: Vec<Change>,
    /// Names of all settings in `postgresql.auto.conf` before, in their order. Values are
    /// not kept: they may be secret.
    #[serde(default)]
    pub order: Vec<String>,
    /// Whether someone has edited that file: its comments and layout go with the first
    /// change to it.
    #[serde(default)]
    pub by_hand: bool,
}

/// How a set ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Outcome {
    /// All of it was made and read back.
    Done,
    /// What was before is there again, but for what is left.
    Undone {
        /// Why.
        why: String,
        /// Names of what someone else has changed since, which was left as it is.
        #[serde(default)]
        left: Vec<String>,
    },
}

/// How a set stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum State {
    /// It was begun, and no end is known.
    Begun,
    /// All of it was made and read back.
    Done,
    /// What was before is there again, but for what is left.
    Undone {
        /// Why.
        why: String,
        /// Names of what someone else has changed since, which was left as it is.
        left: Vec<String>,
    },
}

/// A set of changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangeSet {
    /// Its number.
    pub id: u64,
    /// When it was begun.
    pub at: Timestamp,
    /// Who makes it.
    pub(super) owner: Owner,
    /// What it is.
    pub intent: Intent,
    /// How it stands.
    pub state: State,
    /// How far its statements are, by their place among the changes; those that are not
    /// there were not begun.
    pub steps: BTreeMap<usize, Step>,
}

impl ChangeSet {
    /// Whether it was begun by a process that is gone, and has no end.
    pub fn is_cut_short(&self) -> bool {
        self.state == State::Begun && !self.owner.is_another_that_lives()
    }

    /// Whether another process is at it: it makes the changes, or has made them for as long
    /// as a run takes and will undo them. One that only makes changes has ended by then.
    pub fn is_in_progress(&self) -> bool {
        !matches!(self.state, State::Undone { .. }) && self.owner.is_another_that_lives()
    }

    /// The process that began it.
    pub fn pid(&self) -> u32 {
        self.owner.pid
    }
}
