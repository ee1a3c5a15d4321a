//! A maintenance window of an attached server: what was agreed to, and what is to be told
//! of it in the end.

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use walwright_server::Secret;
use walwright_store::ledger::ServerIdentity;

/// What is not as it was on a server when the work there has ended, however it ended. Its
/// copies share it.
#[derive(Debug, Clone, Default)]
pub struct Remarks(Arc<Mutex<Remarked>>);

#[derive(Debug, Default)]
struct Remarked {
    left: Vec<String>,
    file: Vec<String>,
}

impl Remarks {
    /// What others changed meanwhile and was left to them, a sentence each.
    pub fn of_others(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).left.clone()
    }

    /// What differs in `postgresql.auto.conf` though its settings are as before.
    pub fn of_the_file(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).file.clone()
    }

    pub(super) fn left(&self, note: &str) {
        noted(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).left, note);
    }

    pub(super) fn file(&self, differs: &str) {
        noted(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).file, differs);
    }
}

/// Many runs may have found the same.
fn noted(notes: &mut Vec<String>, note: &str) {
    if !notes.iter().any(|one| one == note) {
        notes.push(note.to_owned());
    }
}

/// An attached server that runs are made on, as a state on disk keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OnServer {
    /// Which.
    pub identity: ServerIdentity,
    /// Whether the workload's tables are filled before every run.
    pub filled: bool,
}

/// What was agreed to for a server.
#[derive(Clone)]
pub struct Maintenance {
    /// Connection string.
    pub dsn: Secret,
    /// Shell command that restarts the server.
    pub restart_command: Option<Secret>,
    /// Whether the workload's tables are filled before every run.
    pub init: bool,
    /// Tables that may be dropped for that though walwright did not make them.
    pub replace: Vec<String>,
    /// What is to be told of it in the end.
    pub remarks: Remarks,
}
