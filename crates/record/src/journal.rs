//! An entry of the journal: one experiment or decision, with all that a reader needs
//! to judge it years later.
//!
//! Here are the types alone. The lab keeps the entries, `report` renders them.

use std::fmt;

use serde::{Deserialize, Serialize};
use walwright_catalog::DurabilityClass;

use crate::{RunId, Timestamp};

/// Names an entry as [`RunId`] names a run: its moment in UTC and a few letters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(pub String);

impl EntryId {
    /// A name for an entry made at `at`; `entropy` makes it differ from others.
    pub fn new(at: Timestamp, entropy: u32) -> Self {
        EntryId(RunId::new(at, entropy).0)
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What made an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A person, by `walwright journal add`.
    #[default]
    Person,
    /// `walwright experiment`.
    Experiment,
    /// `walwright prove`: a finding's action, predicted and measured.
    Proof,
    /// `walwright tune`.
    Tuning,
    /// `walwright tune promote`.
    Promotion,
    /// `walwright sweep`.
    Sweep,
    /// One that this version does not know.
    #[serde(other)]
    Other,
}

impl Origin {
    /// In words, for display.
    pub fn words(self) -> &'static str {
        match self {
            Origin::Person => "note",
            Origin::Experiment => "experiment",
            Origin::Proof => "proof",
            Origin::Tuning => "tuning",
            Origin::Promotion => "promotion",
            Origin::Sweep => "sweep",
            Origin::Other => "entry",
        }
    }
}

/// The machine an entry speaks of; what is not known is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Host name.
    pub name: Option<String>,
    /// Processor model.
    pub cpu_model: Option<String>,
    /// Processors online.
    pub processors: Option<u32>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Kernel release.
    pub kernel: Option<String>,
}

/// One thing that differs from the baseline.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Change {
    /// Setting, kernel value, index, client option: `max_wal_size`, `vm.nr_hugepages`.
    pub name: String,
    /// Before; `None` where there was nothing or it is not known.
    pub from: Option<String>,
    /// After; `None` where it was taken away.
    pub to: Option<String>,
}

/// The measured effect of a change on one figure.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Effect {
    /// What was changed: the name of the arm.
    pub arm: String,
    /// The figure: `throughput`, `p99 latency`, `WAL bytes a transaction`.
    pub metric: String,
    /// Relative change against the baseline: 0.05 is 5 % more.
    pub change: f64,
    /// Ends of its interval, relative as `change`; `None` where there is none, which
    /// is then said wherever the effect is shown.
    pub interval: Option<[f64; 2]>,
    /// Confidence of the interval, 0 to 1.
    pub confidence: f64,
    /// Complete blocks it rests on.
    pub blocks: Option<u32>,
    /// p-value, corrected for the number of arms.
    pub corrected_p: Option<f64>,
    /// Relative change below which the experiment claims nothing.
    pub noise_floor: Option<f64>,
    /// What may be said: `proven`, `within noise`, `open`, `screening only`.
    pub verdict: String,
}

/// A picture that belongs to an entry.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// An `<svg>` element. Its colours may be the classes of the reports.
    pub svg: String,
}

/// One entry. It is never changed; a correction is an entry of its own.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// Its name; given when it is appended.
    pub id: Option<EntryId>,
    /// When it was appended.
    pub at: Timestamp,
    /// What made it.
    pub origin: Origin,
    /// The machine; filled with this one when it is appended without.
    pub machine: Option<Machine>,
    /// What was asked, as one sentence.
    pub question: String,
    /// Name of the workload, where one was run.
    pub workload: Option<String>,
    /// What the change was measured against, in words: `PostgreSQL 18.6 defaults`.
    pub baseline: Option<String>,
    /// What was changed against the baseline.
    pub changes: Vec<Change>,
    /// Runs it rests on.
    pub runs: Vec<RunId>,
    /// Experiments, tunings or profiles it rests on, by their names in the lab.
    pub experiments: Vec<String>,
    /// Measured effects.
    pub effects: Vec<Effect>,
    /// What came out, in words.
    pub result: Option<String>,
    /// Pictures of it.
    pub plots: Vec<Plot>,
    /// What is done about it.
    pub decision: Option<String>,
    /// What the outcome can lose.
    pub durability: Option<DurabilityClass>,
    /// What to ask next.
    pub next_question: Option<String>,
    /// Anything else.
    pub notes: Option<String>,
    /// The earlier entry that this one corrects.
    pub corrects: Option<EntryId>,
}

impl Entry {
    /// An entry that only asks; all else is filled in by its fields.
    pub fn asking(question: impl Into<String>) -> Entry {
        Entry { question: question.into(), ..Entry::default() }
    }

    /// Its name, for display.
    pub fn name(&self) -> &str {
        self.id.as_ref().map_or("not kept", |id| id.0.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_a_newer_walwright_is_read() {
        let line = r#"{"id":"20300101-000000-abc","origin":"oracle","question":"why","moods":3}"#;
        let entry: Entry = serde_json::from_str(line).unwrap();
        assert_eq!(entry.origin, Origin::Other);
        assert_eq!((entry.question.as_str(), entry.name()), ("why", "20300101-000000-abc"));
        assert!(entry.effects.is_empty());
    }
}
