//! Why a plan cannot be run, or an experiment not go on.

use std::path::PathBuf;

use thiserror::Error;
use walwright_record::RunId;
use walwright_run::RunError;
use walwright_server::{PlacesError, SnapshotError};
use walwright_store::ledger::LedgerError;
use walwright_store::{FindError, StoreError};

/// A plan that cannot be run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Not TOML, or not of the shape of a plan. The parser names line and column.
    #[error("the plan cannot be read: {0}")]
    Toml(String),
    /// A value makes no sense.
    #[error("{}{}{key}: {what}", in_line(*line), if arm.is_empty() { String::new() } else { format!("arm '{arm}': ") })]
    Value {
        /// Line in the plan, from 1, where it is known.
        line: Option<usize>,
        /// The arm; empty outside of one.
        arm: String,
        /// The key.
        key: String,
        /// What is wrong and what to do.
        what: String,
    },
    /// An attached server, without consent.
    #[error(
        "settings of this server would be changed for each run and brought back after it; agree with --maintenance, in a window in which nobody else uses the server"
    )]
    NoMaintenance,
    /// Consent to changing a server, and none is named.
    #[error(
        "no server is named: give one with --dsn; without one all runs are made on clusters of our own, which need no consent"
    )]
    NoServer,
    /// An arm that may lose committed data.
    #[error("{}arm '{arm}': {name} needs your consent: {what} If that is meant, write consent = [\"{name}\"] in the plan or --consent {name}", in_line(*line))]
    NoConsent {
        /// Line in the plan, from 1, where it is known.
        line: Option<usize>,
        /// The arm.
        arm: String,
        /// The setting.
        name: String,
        /// What can be lost.
        what: String,
    },
    /// An arm that can corrupt.
    #[error("{}arm '{arm}': {name} is never lowered in an experiment: {what} Take it out of the plan", in_line(*line))]
    Corrupts {
        /// Line in the plan, from 1, where it is known.
        line: Option<usize>,
        /// The arm.
        arm: String,
        /// The setting.
        name: String,
        /// What can happen.
        what: String,
    },
}

impl PlanError {
    /// A value that makes no sense.
    pub(super) fn value(arm: &str, key: &str, what: impl Into<String>) -> PlanError {
        let (arm, key) = (arm.to_owned(), key.to_owned());
        PlanError::Value { line: None, arm, key, what: what.into() }
    }

    /// The same error with its line in the plan's text: that of the key or setting, in an
    /// arm the first from the arm's name on.
    #[must_use]
    pub(super) fn with_line(mut self, text: &str) -> PlanError {
        match &mut self {
            PlanError::Value { line, arm, key, .. } if line.is_none() => {
                *line = find(text, arm, |line| assigns(line, key));
            }
            PlanError::NoConsent { line, arm, name, .. }
            | PlanError::Corrupts { line, arm, name, .. }
                if line.is_none() =>
            {
                *line = find(text, arm, |line| line.contains(name.as_str()));
            }
            _ => {}
        }
        self
    }
}

/// The first line that `is` it, from the name of `arm` on, where there is one.
fn find(text: &str, arm: &str, is: impl Fn(&str) -> bool) -> Option<usize> {
    let named = |line: &str| assigns(line, "name") && line.contains(&format!("\"{arm}\""));
    let from = text.lines().position(named).unwrap_or(0);
    text.lines().skip(from).position(is).map(|line| from + line + 1)
}

fn assigns(line: &str, key: &str) -> bool {
    line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
}

fn in_line(line: Option<usize>) -> String {
    line.map(|line| format!("line {line}: ")).unwrap_or_default()
}

/// An experiment that cannot begin or go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// The plan is not right.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A run could not be done.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A run failed after it began; its record tells more.
    #[error("run {run} {reason}")]
    RunFailed {
        /// Its record.
        run: RunId,
        /// Why.
        reason: String,
    },
    /// The baseline cannot be run, so there is nothing to compare with.
    #[error("the baseline could not be run: {reason}; nothing can be compared with it")]
    Baseline {
        /// Why.
        reason: String,
    },
    /// Records cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No place for clusters.
    #[error(transparent)]
    Places(#[from] PlacesError),
    /// Data cannot be put at rest.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The ledger of changes.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A value of the kernel could not be written; what was there is there.
    #[error("a value of the kernel: {0}")]
    Kernel(String),
    /// A value of the kernel could not be brought back.
    #[error(
        "a value of the kernel could not be restored: {0}; `walwright config rollback` tries again"
    )]
    KernelLeft(String),
    /// The attached server is being changed by another process, or cannot be held.
    #[error("{0}")]
    Held(String),
    /// What someone else or a run that was killed has changed stands, and no run is to be
    /// built on it. The sentence says what to do.
    #[error("{0}")]
    ChangesStand(String),
    /// The attached server does not take what a configuration changes; what was there is there.
    #[error("{0}")]
    Server(String),
    /// An arm that an attached server does not take, found before the first run.
    #[error("{arm} cannot be run on {server}: {why}")]
    ArmRefused {
        /// The arm, or the baseline.
        arm: String,
        /// The server.
        server: String,
        /// Why not.
        why: String,
    },
    /// What was changed on an attached server could not be brought back.
    #[error(
        "changes on the server could not be undone: {why}; fix that, then run `walwright config rollback {id} --dsn …` or resume"
    )]
    ServerLeft {
        /// The set in the ledger of changes.
        id: u64,
        /// Why not.
        why: String,
    },
    /// What a killed run changed on an attached server stands.
    #[error(
        "a killed run of {name} left changes on an attached server: undo them with `walwright config rollback {id} --dsn …`, then delete it"
    )]
    StillChanged {
        /// The experiment or tune.
        name: String,
        /// The set in the ledger of changes.
        id: u64,
    },
    /// The attached server is away, and not because of a configuration.
    #[error("the server does not accept connections: {why}; start it, then resume")]
    ServerGone {
        /// What was tried last.
        why: String,
    },
    /// The server that it began on is not named.
    #[error(
        "it began on {0}, and nothing of how that is reached is kept: name it with --dsn (or dsn in the plan's [server]) and agree with --maintenance"
    )]
    WhichServer(String),
    /// A server is named for what began on clusters of our own.
    #[error(
        "it began on clusters of its own, and goes on there: leave --dsn and --maintenance out"
    )]
    OnOwnClusters,
    /// Half of the runs on tables that were filled, half on those that were there.
    #[error("it began {} --init, and its runs can be compared only if it goes on so", if *filled { "with" } else { "without" })]
    FilledOrNot {
        /// How it began.
        filled: bool,
    },
    /// Another server than the one that it began on.
    #[error("it began on {began}, and {given} is another server")]
    AnotherServer {
        /// The one.
        began: String,
        /// The other.
        given: String,
    },
    /// Another server than the one that a finding was made on.
    #[error(
        "the run was made on {began}, and --dsn names {given}: name the same server and database, by the same address, or make a run on this one and prove its finding"
    )]
    NotWhereFound {
        /// The one.
        began: String,
        /// The other.
        given: String,
    },
    /// A file of the experiment cannot be used.
    #[error("could not {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file of the experiment cannot be read.
    #[error("{} cannot be read: {what}; `walwright experiment delete` removes it", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// No experiment of that name, or several.
    #[error(transparent)]
    Find(#[from] FindError),
    /// Another process works on it.
    #[error("experiment {0} is in use by another process: wait for it, or stop it")]
    InUse(String),
    /// An unfinished experiment of the same plan.
    #[error(
        "experiment {id} of this plan is unfinished ({done} of {of} runs): `walwright experiment resume {id}` continues it, --new begins another"
    )]
    Unfinished {
        /// Its name.
        id: String,
        /// Runs done.
        done: usize,
        /// Runs planned.
        of: usize,
    },
    /// The workload is not what it was.
    #[error(
        "the workload of experiment {0} has changed since it began: restore the files, or begin another with --new"
    )]
    WorkloadChanged(String),
    /// The plan does not give the arms any more that it gave.
    #[error(
        "the arms of experiment {0} are not those that it began with: a profile that its plan names has changed since, or was taken apart in another way by the version that began it; bring the file or that version back, or begin another with --new"
    )]
    ArmsChanged(String),
    /// Stopped by its user.
    #[error("stopped")]
    Stopped,
}

impl ExperimentError {
    pub(super) fn file(
        action: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(std::io::Error) -> ExperimentError + use<> {
        let path = path.to_owned();
        move |source| ExperimentError::File { action, path, source }
    }

    /// Whether what was asked for is not right, whatever the state of servers and of the lab.
    pub fn is_usage(&self) -> bool {
        match self {
            ExperimentError::Plan(_) => true,
            ExperimentError::Run(error) => error.is_usage(),
            _ => false,
        }
    }

    /// Whether something is wrong with the lab, its machine or the server, and not with what
    /// was to be measured: the work ends, and can go on when that is mended.
    pub fn is_of_the_lab(&self) -> bool {
        match self {
            ExperimentError::Run(error) => error.is_of_the_lab(),
            ExperimentError::Store(_)
            | ExperimentError::Places(_)
            | ExperimentError::Snapshot(_)
            | ExperimentError::Ledger(_)
            | ExperimentError::KernelLeft(_)
            | ExperimentError::ChangesStand(_)
            | ExperimentError::Held(_)
            | ExperimentError::ServerLeft { .. }
            | ExperimentError::ServerGone { .. }
            | ExperimentError::File { .. }
            | ExperimentError::Damaged { .. } => true,
            _ => false,
        }
    }

    /// Whether it was cut short from outside.
    pub fn is_interruption(&self) -> bool {
        match self {
            ExperimentError::Stopped => true,
            ExperimentError::Run(error) => matches!(error, RunError::Stopped),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use walwright_server::{ClusterError, ServerExit};

    use super::*;

    #[test]
    fn a_full_disk_says_nothing_of_an_arm_and_a_server_that_does_not_start_does() {
        let full = || PathBuf::from("/full");
        let said = |log: &str| ClusterError::StartFailed {
            dir: full(),
            exit: ServerExit { code: Some(1), signal: None },
            hint: None,
            log: log.to_owned(),
        };
        let started = || said("FATAL:  could not map anonymous shared memory");
        let no_space = "PANIC:  could not write to file: No space left on device".to_owned();
        let kind = |kind: &str| kind.to_owned();
        let system = || RunError::System { what: "x", source: ErrorKind::StorageFull.into() };
        for error in [
            RunError::Snapshot(SnapshotError::DiskFull(full())),
            RunError::Snapshot(ClusterError::DiskFull { path: full() }.into()),
            RunError::Cluster(ClusterError::DiskFull { path: full() }),
            RunError::Cluster(said(&no_space)),
            RunError::ServerDied { reason: no_space.clone() },
            RunError::NothingSucceeds { kind: kind("53100"), text: String::new() },
            system(),
            RunError::Internal("x"),
        ] {
            assert!(ExperimentError::Run(error).is_of_the_lab());
        }
        for error in [
            RunError::Cluster(started()),
            RunError::Snapshot(started().into()),
            RunError::ServerDied { reason: "killed by signal 9".to_owned() },
            RunError::NothingSucceeds { kind: kind("42P01"), text: String::new() },
            RunError::Stopped,
        ] {
            assert!(!ExperimentError::Run(error).is_of_the_lab());
        }
        assert!(ExperimentError::ServerGone { why: String::new() }.is_of_the_lab());
        assert!(!ExperimentError::Server(String::new()).is_of_the_lab());
        assert!(!ExperimentError::Kernel(String::new()).is_of_the_lab());
    }
}
