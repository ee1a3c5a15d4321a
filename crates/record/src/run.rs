//! What a run is, apart from its measurements.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Names a run: its start in UTC and a few random letters, so that names sort by
/// time and two runs begun in one second differ. Example: `20261120-235012-k3f`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub String);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl RunId {
    /// A name for a run that starts at `started`; `entropy` makes it differ from others.
    pub fn new(started: Timestamp, entropy: u32) -> Self {
        const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
        let moment = jiff::Timestamp::from_microsecond(started.0)
            .map(|t| t.strftime("%Y%m%d-%H%M%S").to_string())
            .unwrap_or_else(|_| started.0.to_string());
        let tail: String = (0..3)
            .map(|i| char::from(LETTERS[(entropy >> (5 * i)) as usize % LETTERS.len()]))
            .collect();
        RunId(format!("{moment}-{tail}"))
    }
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Its process lives and writes.
    Running,
    /// Ended as planned.
    Complete,
    /// Stopped by the user, or its process died; readable up to its last second.
    Interrupted,
    /// Could not go on; the header's `error` says why.
    Failed,
}

impl RunState {
    /// The stored name.
    pub fn name(self) -> &'static str {
        match self {
            RunState::Running => "running",
            RunState::Complete => "complete",
            RunState::Interrupted => "interrupted",
            RunState::Failed => "failed",
        }
    }

    /// The state stored under `name`.
    pub fn from_name(name: &str) -> Option<RunState> {
        [RunState::Running, RunState::Complete, RunState::Interrupted, RunState::Failed]
            .into_iter()
            .find(|s| s.name() == name)
    }
}

/// The first page of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    /// Its name.
    pub id: RunId,
    /// When it began.
    pub started: Timestamp,
    /// When it ended; unknown while running and for a process that died.
    pub ended: Option<Timestamp>,
    /// How it stands.
    pub state: RunState,
    /// Version of walwright that wrote it.
    pub walwright_version: String,
    /// The command line, without secrets.
    pub command: String,
    /// The user's own words for it (`--label`).
    pub label: Option<String>,
    /// Name of the workload.
    pub workload: String,
    /// The target's address, without secrets.
    pub target: String,
    /// Why it failed or was interrupted.
    pub error: Option<String>,
}

impl RunHeader {
    /// The error of a run whose first page cannot be read back.
    pub const DAMAGED: &str = "its first page is damaged and cannot be read back";

    /// That it is one of those, as a sentence.
    pub fn damage(&self) -> Option<&str> {
        self.error.as_deref().filter(|error| *error == RunHeader::DAMAGED)
    }

    /// Before the name of a sweep, which is the last word of its runs' labels.
    pub const SWEEP: &str = "sweep-";

    /// The name of the sweep that it belongs to.
    pub fn sweep(&self) -> Option<&str> {
        let last = self.label.as_deref()?.split(' ').next_back()?;
        last.starts_with(RunHeader::SWEEP).then_some(last)
    }

    /// The name of the sweep, experiment or tune that made it, which its label tells.
    pub fn series(&self) -> Option<&str> {
        let label = self.label.as_deref()?;
        let experiment = || Some(label.split_once(" block ")?.0);
        let tune = || Some(label.strip_prefix("tune ")?.split_once(": ")?.0);
        let is_name = |name: &&str| RunHeader::is_id(name);
        self.sweep().or_else(|| experiment().or_else(tune).filter(is_name))
    }

    /// The arm of an experiment that it is a run of, which its label tells.
    pub fn arm(&self) -> Option<&str> {
        let (name, place) = self.label.as_deref()?.split_once(" block ")?;
        let (block, arm) = place.split_once(' ')?;
        (RunHeader::is_id(name) && block.parse::<usize>().is_ok()).then_some(arm)
    }

    /// The person's own words in its label.
    pub fn own_label(&self) -> &str {
        let label = self.label.as_deref().unwrap_or_default();
        match self.sweep() {
            Some(sweep) => label.strip_suffix(sweep).unwrap_or(label).trim_end(),
            None => label,
        }
    }

    /// Whether it may be a name as [`RunId::new`] makes them, of runs and other things.
    fn is_id(name: &str) -> bool {
        let parts: Vec<&str> = name.split('-').collect();
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        matches!(parts[..], [day, time, end] if day.len() == 8 && time.len() == 6 && digits(day) && digits(time) && end.len() == 3)
    }
}

/// A stage of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseName {
    /// Making or reaching the server, checking it.
    Prepare,
    /// Creating the schema and loading data.
    Load,
    /// Storage and CPU probes.
    Probe,
    /// Opening client connections, ramping up.
    Connect,
    /// Load runs, but is left out of the figures.
    WarmUp,
    /// The measured window.
    Measure,
    /// Ending transactions, last samples, checks.
    Collect,
}

impl PhaseName {
    /// For display.
    pub fn name(self) -> &'static str {
        match self {
            PhaseName::Prepare => "prepare",
            PhaseName::Load => "load",
            PhaseName::Probe => "probe",
            PhaseName::Connect => "connect",
            PhaseName::WarmUp => "warm-up",
            PhaseName::Measure => "measure",
            PhaseName::Collect => "collect",
        }
    }
}

/// A stage with its time. Phases of one run do not overlap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Which stage.
    pub name: PhaseName,
    /// When it began.
    pub start: Timestamp,
    /// When it ended; unknown while it goes on, or where the process died in it.
    pub end: Option<Timestamp>,
}

/// Something that happened at a moment: a checkpoint completed, the server died.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// A short stable word: `checkpoint`, `server_lost`, `interrupt`, `autovacuum`, `log`.
    pub kind: String,
    /// One sentence.
    pub text: String,
}

impl Event {
    /// The kind of a checkpoint that walwright itself requested.
    pub const CHECKPOINT_REQUEST: &str = "checkpoint_request";
    /// The kind of a restart of the server, or of its recovery from a crash.
    pub const SERVER_RESTART: &str = "server_restart";
}
