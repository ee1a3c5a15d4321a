//! What an experiment tells while it goes on, for whoever shows it.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use walwright_figures::experiment::{Look, MetricKind, Outcome, Outlook};
use walwright_run::{Observe, Progress};

use super::DataOnDisk;

/// What an experiment will take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// Its name in the lab; empty before it is begun.
    pub id: String,
    /// What the plan calls it.
    pub name: String,
    /// Blocks.
    pub blocks: usize,
    /// Arms, the baseline and its repeat not counted.
    pub arms: usize,
    /// Runs in all.
    pub runs: usize,
    /// Runs done already.
    pub done: usize,
    /// One run, restoring and all.
    #[serde(with = "walwright_record::seconds")]
    pub per_run: Duration,
    /// All runs that are left.
    #[serde(with = "walwright_record::seconds")]
    pub left: Duration,
    /// Fewest blocks in which every arm can be proven.
    pub blocks_to_prove: usize,
    /// Sets of data that are loaded before the first run; 0 on an attached server.
    pub data_sets: usize,
    /// Blocks after which it may end early.
    pub looks: Vec<usize>,
    /// Where it was to end early and has too few blocks for that: with how many it could.
    pub blocks_to_look: Option<usize>,
    /// What profiles hold that is in no run, a sentence each.
    pub left_out: Vec<String>,
}

/// One thing worth showing.
#[derive(Debug)]
pub enum ExperimentEvent<'a> {
    /// What it will take, before the first run.
    Estimate(&'a Estimate),
    /// What it has come to so far, before the first run and after each.
    SoFar(&'a Outcome),
    /// Data are loaded for an arm.
    Loading {
        /// For which.
        arm: &'a str,
    },
    /// All data are there, and take this on disk.
    Loaded(&'a DataOnDisk),
    /// A run begins.
    Begins {
        /// Its number, from 1.
        run: usize,
        /// Of how many.
        of: usize,
        /// Its block, from 1.
        block: usize,
        /// Of how many.
        blocks: usize,
        /// Its arm.
        arm: &'a str,
    },
    /// Progress of a run, or of loading.
    Run(&'a Progress<'a>),
    /// A run is done.
    Done {
        /// Its arm.
        arm: &'a str,
        /// What was measured.
        metric: &'a MetricKind,
        /// Its value, where it is known.
        value: Option<f64>,
        /// Time that is left, by the runs so far.
        left: Duration,
    },
    /// A run failed and is tried once more.
    Again {
        /// Its arm.
        arm: &'a str,
        /// Why.
        why: &'a str,
    },
    /// An arm cannot be run and is given up.
    GivenUp {
        /// Which.
        arm: &'a str,
        /// Why.
        why: &'a str,
    },
    /// Every arm is given up.
    NoArmLeft,
    /// A block is complete.
    Block {
        /// Blocks done.
        done: usize,
        /// Blocks planned.
        of: usize,
        /// Changes up to this do not matter, by the plan.
        negligible: f64,
        /// How every arm stands and will stand, where that can be told.
        arms: &'a [(String, Option<Outlook>)],
    },
    /// It was looked at, as planned.
    Look(Look),
}

/// Shows an experiment. Called from several threads.
pub type ExperimentObserver = dyn for<'a> Observe<ExperimentEvent<'a>>;

/// Passes the progress of runs on.
pub(super) struct Passed(pub Arc<ExperimentObserver>);

impl Observe<Progress<'_>> for Passed {
    fn event(&self, progress: Progress<'_>) {
        self.0.event(ExperimentEvent::Run(&progress));
    }
}
