//! What a tune tells while it goes on, for whoever shows it.

use std::sync::Arc;
use std::time::Duration;

use walwright_experiment::DataOnDisk;
use walwright_figures::compare::FigureUnit;
use walwright_run::{Observe, Progress};

use super::TuneState;

/// One thing worth showing.
#[derive(Debug)]
pub enum TuneEvent<'a> {
    /// It has a name, and this is what it will take.
    Begins {
        /// Its name in the lab.
        id: &'a str,
        /// Measurements of the search.
        runs: u32,
        /// Measurements of the confirmation that are to come, at least and at most.
        confirming: (u32, u32),
        /// Measurements made already.
        done: u32,
        /// About how long the rest takes.
        left: Duration,
        /// What its values are in.
        unit: FigureUnit,
    },
    /// All that is known so far: at the beginning, after each measurement and each phase.
    SoFar(&'a TuneState),
    /// A stage begins, in words.
    Stage(&'a str),
    /// The data are there, and take this on disk.
    Loaded(&'a DataOnDisk),
    /// Something worth a line.
    Said(&'a str),
    /// A measurement begins.
    Measuring {
        /// Its number, from 1, and of how many; `None` outside of the search.
        run: Option<(u32, u32)>,
        /// Why.
        why: &'a str,
        /// What differs from the baseline.
        changes: &'a [String],
    },
    /// Progress inside a measurement, or of loading.
    Run(&'a Progress<'a>),
    /// A measurement is done.
    Measured {
        /// Its value; `None` where it crashed.
        value: Option<f64>,
        /// Against the mean of the baseline, relative; `None` for a measurement of the opening's baseline.
        change: Option<f64>,
        /// Why it has no value.
        crashed: Option<&'a str>,
        /// About how long the rest takes.
        left: Duration,
    },
}

/// Shows a tune. Called from several threads.
pub type TuneObserver = dyn for<'a> Observe<TuneEvent<'a>>;

/// Passes progress of runs on.
pub(super) struct Passed(pub Arc<TuneObserver>);

impl Observe<Progress<'_>> for Passed {
    fn event(&self, progress: Progress<'_>) {
        self.0.event(TuneEvent::Run(&progress));
    }
}
