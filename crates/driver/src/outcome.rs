//! What came of a load as a whole.

use std::collections::BTreeMap;
use std::time::Duration;

use thiserror::Error;
use walwright_record::{SparseHistogram, Timestamp, UnderWay};
use walwright_wire::WireError;

use crate::PlanError;

/// Texts kept for each kind of error.
const SAMPLES: usize = 3;
/// Kinds of error texts are kept for; the counts are kept for all.
const KINDS: usize = 50;

/// The totals of a load, and how it ended.
#[derive(Debug, Clone)]
pub struct LoadOutcome {
    /// When the first client began.
    pub started: Timestamp,
    /// When [`Load::stop`](crate::Load::stop) took effect, or the load ended by itself.
    pub stopped: Timestamp,
    /// When the last connection was closed.
    pub ended: Timestamp,
    /// Per script, in the order of the program.
    pub scripts: Vec<ScriptTotals>,
    /// Open loop: transactions due until the load was stopped.
    pub due: u64,
    /// Open loop: transactions skipped because they were later than the latency limit.
    pub skipped: u64,
    /// Transactions that ended later than the latency limit.
    pub late: u64,
    /// Open loop: transactions due until the load was stopped that no client ever began.
    pub never_begun: u64,
    /// Transactions cut off because they had not ended when the time to drain
    /// was over, or the load was aborted.
    pub unfinished: u64,
    /// What was under way when the window ended.
    pub under_way: UnderWay,
    /// CPU time of the driver's threads in user mode.
    pub cpu_user: Duration,
    /// CPU time of the driver's threads in kernel mode.
    pub cpu_system: Duration,
    /// Connections lost while the load ran.
    pub connections_lost: u64,
    /// Attempts to connect anew that failed.
    pub connect_failures: u64,
    /// A few texts of each kind of error, by SQLSTATE, `connection` or `script`.
    pub errors: ErrorSamples,
    /// Clients that an error ended, where the plan says so.
    pub clients_stopped: u32,
    /// The kind of error that ended the load, where the plan says so.
    pub stopped_by: Option<String>,
    /// How long it took to open a connection, where each transaction has its own.
    pub connection_time: SparseHistogram,
    /// Set when the load ended because the server could no longer be reached.
    pub server_lost: Option<ServerLost>,
}

impl LoadOutcome {
    /// Transactions of all scripts that ended well.
    pub fn transactions(&self) -> u64 {
        self.scripts.iter().map(|script| script.transactions).sum()
    }

    /// Transactions of all scripts that failed for good.
    pub fn failures(&self) -> u64 {
        self.scripts.iter().flat_map(|script| script.failures.values()).sum()
    }
}

/// The totals of one script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptTotals {
    /// Transactions that ended well.
    pub transactions: u64,
    /// Transactions that failed for good, by SQLSTATE, `connection` or `script`.
    pub failures: BTreeMap<String, u64>,
    /// Transactions that needed more than one try.
    pub retried: u64,
    /// Tries beyond the first, by the SQLSTATE that caused them.
    pub retries: BTreeMap<String, u64>,
}

/// How a load lost its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLost {
    /// When no connection was left.
    pub at: Timestamp,
    /// Why connecting failed since.
    pub message: String,
}

/// Texts of errors, a few of each kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorSamples(BTreeMap<String, Vec<String>>);

impl ErrorSamples {
    /// Keeps a text unless there are enough of its kind or it is there already.
    pub(crate) fn keep(&mut self, kind: &str, text: impl FnOnce() -> String) {
        let known = self.0.len();
        match self.0.get_mut(kind) {
            Some(texts) if texts.len() >= SAMPLES => {}
            Some(texts) => {
                let text = text();
                if !texts.contains(&text) {
                    texts.push(text);
                }
            }
            None if known < KINDS => {
                self.0.insert(kind.to_owned(), vec![text()]);
            }
            None => {}
        }
    }

    pub(crate) fn merge(&mut self, other: ErrorSamples) {
        for (kind, texts) in other.0 {
            for text in texts {
                self.keep(&kind, || text);
            }
        }
    }

    /// The texts of a kind of error.
    pub fn of(&self, kind: &str) -> &[String] {
        self.0.get(kind).map_or(&[], Vec::as_slice)
    }

    /// Every kind with its texts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.0.iter().map(|(kind, texts)| (kind.as_str(), texts.as_slice()))
    }
}

/// Why there is no outcome.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The plan cannot be driven.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Not all clients could connect, so the load did not begin.
    #[error("client {client} of {clients} could not connect: {source}")]
    Connect {
        /// Number of the client, from 1.
        client: u32,
        /// Clients the plan has.
        clients: u32,
        /// Why.
        source: WireError,
    },
    /// A write coalescer could not begin.
    #[error("the write coalescer could not begin: {0}")]
    Coalescer(String),
    /// The load was stopped before all clients were connected.
    #[error("the load was stopped before all clients were connected")]
    StoppedEarly,
    /// The limit on open files is too low for so many clients.
    #[error(
        "{clients} clients need as many open files, and the hard limit allows {possible}; raise it (ulimit -Hn) or use fewer clients"
    )]
    Files {
        /// Clients the plan has.
        clients: u32,
        /// Clients that are possible.
        possible: u64,
    },
    /// The operating system refused something a load needs.
    #[error("the driver cannot {what}: {source}")]
    System {
        /// What it tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A thread of the driver ended in a panic, which is a defect.
    #[error("a thread of the driver ended unexpectedly; please report this as a defect")]
    Panicked,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_few_different_texts_of_a_kind_are_kept() {
        let mut samples = ErrorSamples::default();
        for text in ["a", "a", "b", "c", "d"] {
            samples.keep("23505", || text.into());
        }
        assert_eq!(samples.of("23505"), ["a", "b", "c"]);
        for kind in 0..2 * KINDS {
            samples.keep(&kind.to_string(), || "x".into());
        }
        assert_eq!(samples.iter().count(), KINDS);
    }
}
