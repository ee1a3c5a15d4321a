//! Warnings that travel with a result.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a warning is about. Stored as text, so that scripts can match on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningCode {
    /// The load generator ran near its own ceiling.
    GeneratorNearCeiling,
    /// Throughput never settled, or drifted through the window.
    NoSteadyState,
    /// The window is too short for the figure.
    ShortWindow,
    /// No checkpoint completed inside the window, so its cost is not in the figures.
    NoCheckpoint,
    /// Data or WAL lie on a memory file system: flushes are free there.
    MemoryFileSystem,
    /// The disk answers flushes faster than it can store, or differs from one minute to the next.
    Storage,
    /// Flushes of the server were made longer than the disk's.
    LengthenedFlushes,
    /// The server might use fewer processors than the machine has.
    LimitedProcessors,
    /// The server might use less memory than the machine has.
    LimitedMemory,
    /// Statistics were reset inside the window.
    StatisticsReset,
    /// Timing of I/O or WAL is off, so flush times are unknown.
    TimingOff,
    /// An open loop did not reach its offered rate.
    RateNotReached,
    /// Transactions failed.
    Failures,
    /// Another process took CPU or I/O.
    NoisyNeighbour,
    /// The hypervisor took CPU away.
    Steal,
    /// The machine swapped.
    Swapping,
    /// The flush or CPU probe differs from this machine's usual.
    ProbeOff,
    /// The figures come from lean mode, which changes the server's work too.
    LeanMode,
    /// PostgreSQL came from a fallback package with fewer features.
    FallbackInstall,
    /// Something could not be seen from here.
    NotObservable,
    /// The server went away, restarted, or recovered from a crash.
    ServerLost,
    /// Transactions had not ended when they were cut off, so their latency is a lower bound.
    Unended,
    /// Clients could not connect, or lost their connection.
    Connections,
    /// The run was stopped before its planned end.
    Interrupted,
    /// An invariant of the workload does not hold after the run.
    CheckFailed,
    /// Settings in force trade durability away.
    DurabilityLowered,
    /// The probe cost more than it should.
    ProbeCost,
    /// What a client's own log cannot tell, or how it was read.
    ClientLog,
    /// The run went on with data as they were, or did not begin with a checkpoint: it does
    /// not begin where those it is compared with began.
    NotRestored,
    /// A warning that a newer walwright wrote and this one does not know.
    #[serde(other)]
    Other,
}

/// A warning about a result: what, and what to do about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// What it is about.
    pub code: WarningCode,
    /// One sentence with the figures behind it.
    pub text: String,
    /// What a person can do about it.
    pub hint: Option<String>,
}

impl Warning {
    /// A warning without advice.
    pub fn new(code: WarningCode, text: impl Into<String>) -> Self {
        Warning { code, text: text.into(), hint: None }
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_code_is_read_as_other() {
        let stored = r#"{"code":"moon_phase","text":"full","hint":null}"#;
        let warning: Warning = serde_json::from_str(stored).unwrap();
        assert_eq!(warning.code, WarningCode::Other);
        assert_eq!(warning.to_string(), "full");
    }
}
