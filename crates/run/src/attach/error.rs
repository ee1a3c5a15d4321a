//! Why someone else's load could not be recorded.

use std::path::PathBuf;

use thiserror::Error;
use walwright_probe::ProbeError;
use walwright_results::{JoinError, ResultsError};
use walwright_server::{ConnectError, TargetError};
use walwright_store::StoreError;

/// A record that could not be begun, or not be ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The connection string is not right.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The server could not be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Sampling could not begin.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The server was asked what it is for too long.
    #[error(
        "the server took more than {} s to say what it is and has, so nothing is recorded; it is busy or the network is slow: try again, or from nearer by", limit.as_secs()
    )]
    Slow {
        /// How long was waited.
        limit: std::time::Duration,
    },
    /// The record could not be written or read.
    #[error("the record could not be written: {0}")]
    Store(#[from] StoreError),
    /// The command is not there.
    #[error("there is no program '{program}'{}{}", if program.contains('/') { "" } else { " in the directories of PATH" }, to_install(program))]
    NoProgram {
        /// What was asked for.
        program: String,
    },
    /// The command could not be started.
    #[error("'{program}' could not be started: {source}")]
    Start {
        /// What was asked for.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of results is not there.
    #[error(
        "there is no file {}{}", path.display(),
        if path.to_string_lossy().contains('*') { " that was written since the record began" } else { "" }
    )]
    NoLog {
        /// The file or pattern.
        path: PathBuf,
    },
    /// A file of results could not be opened.
    #[error("{}: {source}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of results could not be read.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// Files of results do not go together, or not with the record.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The record has the clients' side already.
    #[error(
        "run {run} has {what} already: only files that tell more replace them, given all together"
    )]
    HasResults {
        /// The run.
        run: String,
        /// What it has.
        what: String,
    },
    /// The record has nothing that results could be laid beside.
    #[error("run {run} has no measured window that results of clients could belong to")]
    NoWindow {
        /// The run.
        run: String,
    },
    /// The user stopped it before anything was sampled.
    #[error("stopped before sampling began, so nothing is recorded")]
    Stopped,
    /// A part of the tool itself broke.
    #[error(
        "internal fault in {0}; please report it with the command line and the last lines above"
    )]
    Internal(&'static str),
}

/// Load tools whose results are known, and how each is installed.
const LOAD_TOOLS: [(&str, &str); 5] = [
    ("autocannon", "install it with `npm install -g autocannon`"),
    ("k6", "install the package of its project or of your distribution"),
    ("locust", "install it with `pip install locust`"),
    ("oha", "install it with `cargo install oha`"),
    ("wrk", "install the package of your distribution, or make it from its sources"),
];

/// What to do about a program that is not in PATH; empty where it is no known load tool.
fn to_install(program: &str) -> String {
    let known = LOAD_TOOLS.iter().find(|(name, _)| *name == program);
    known.map_or_else(String::new, |(_, by)| format!("; {by}"))
}

impl RecordError {
    /// Whether the user ended it.
    pub fn is_interruption(&self) -> bool {
        matches!(self, RecordError::Stopped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_load_tool_that_is_missing_is_told_how_to_install() {
        let told =
            |program: &str| RecordError::NoProgram { program: program.to_owned() }.to_string();
        assert!(
            told("oha").ends_with("PATH; install it with `cargo install oha`"),
            "{}",
            told("oha")
        );
        assert!(told("locust").ends_with("`pip install locust`"), "{}", told("locust"));
        assert!(told("of-nobody").ends_with("PATH"), "{}", told("of-nobody"));
        assert_eq!(told("/opt/oha"), "there is no program '/opt/oha'");
    }
}
