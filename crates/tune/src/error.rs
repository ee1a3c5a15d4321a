//! Why a tune cannot begin or go on.

use std::path::{Path, PathBuf};

use thiserror::Error;
use walwright_catalog::EntryError;
use walwright_experiment::{ExperimentError, MetricError};
use walwright_run::RunError;
use walwright_search::SearchError;
use walwright_server::{ClusterError, ConnectError, QueryError};
use walwright_store::journal::JournalError;
use walwright_store::{FindError, StoreError};

/// A tune that cannot begin or go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TuneError {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Asked(String),
    /// The objective is none.
    #[error("the objective: {0}")]
    Objective(#[from] MetricError),
    /// A measurement could not be made.
    #[error(transparent)]
    Measurement(#[from] ExperimentError),
    /// A run could not be made.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The baseline gave no figure of the objective.
    #[error(
        "the baseline's run {run} has no {metric}: measure longer, or choose another objective"
    )]
    NoFigure {
        /// The run.
        run: String,
        /// The objective.
        metric: String,
    },
    /// The search refused.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// A server of ours could not be made, started or reached.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// It could not be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// It refused a statement outside of a load.
    #[error("{what}: {source}")]
    Sql {
        /// What was tried.
        what: &'static str,
        /// What the server said.
        source: QueryError,
    },
    /// Records cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of the tune cannot be used.
    #[error("could not {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A state file that is none.
    #[error("the state of tune {} cannot be read ({what}): another version wrote it, or it is damaged; begin a new tune, `walwright tune delete` removes this one", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// No tune of that name, or several.
    #[error(transparent)]
    Find(#[from] FindError),
    /// Another process has it.
    #[error("tune {0} is in use by another process")]
    Held(String),
    /// Nothing to promote.
    #[error("tune {id} has nothing to promote: {why}")]
    NothingToPromote {
        /// Which.
        id: String,
        /// Why not.
        why: String,
    },
    /// A file that would be lost.
    #[error("{} exists already: name another file with --output, or add --force", .0.display())]
    Exists(PathBuf),
    /// A value that a profile does not take.
    #[error(transparent)]
    Profile(#[from] EntryError),
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// It was stopped; it can go on.
    #[error("stopped; `walwright tune resume` continues it")]
    Stopped,
}

impl TuneError {
    pub(super) fn file(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(std::io::Error) -> TuneError + use<> {
        let path = path.to_owned();
        move |source| TuneError::File { action, path, source }
    }

    /// Whether what was asked for is not right, whatever the state of servers and of the lab.
    pub fn is_usage(&self) -> bool {
        match self {
            TuneError::Asked(_) | TuneError::Objective(_) | TuneError::Profile(_) => true,
            TuneError::Measurement(error) => error.is_usage(),
            TuneError::Run(error) => error.is_usage(),
            _ => false,
        }
    }

    /// Whether it was stopped from outside rather than by something wrong.
    pub fn is_interruption(&self) -> bool {
        match self {
            TuneError::Stopped | TuneError::Measurement(ExperimentError::Stopped) => true,
            TuneError::Run(error) | TuneError::Measurement(ExperimentError::Run(error)) => {
                error.is_interruption()
            }
            _ => false,
        }
    }
}
