//! The search as a state machine: asked for a configuration, told what it showed.
//!
//! Stages: the baseline against itself, interleaved with start points; a screening of
//! groups; the model's own choices; the ablation of what it holds for best; a conclusion.
//! Each stage queues what it wants measured and looks at the results when its queue is
//! empty. All that is known lies in the state, which serde writes and reads; the state
//! after each `tell` decides all that follows.

mod ablate;
mod conclude;
mod favourite;
mod model;
mod stages;
mod taken;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use walwright_stats::{Moments, mean};

use crate::ablation::Noise;
use crate::{
    Budget, Configuration, DimensionError, Hyper, Outcome, Purpose, Screening, Space, Trial,
};
pub use conclude::{Conclusion, Line, Standing};
use taken::Taken;

/// Runs that count as one block: near enough in time to share their drift.
const BLOCK: usize = 6;
/// Least deviation of a measurement that is believed: a few A/A runs can agree by luck.
pub const LEAST_SIGMA: f64 = 0.002;

/// A gain that is worth a change where nobody says otherwise.
pub const WORTH: f64 = 0.05;

/// A configuration that something speaks for before anything is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Where it comes from: `defaults`, `rules`, `diagnosis`.
    pub name: String,
    /// What to measure.
    pub configuration: Configuration,
}

/// What a search is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Measurements in all.
    pub runs: u32,
    /// The same seed and the same scores give the same search.
    pub seed: u64,
    /// Relative gain that is worth a change: the best that was found is proposed as long as its
    /// blocks do not exclude one.
    #[serde(default = "worth")]
    pub worth: f64,
    /// Share that may be lost of what is to be kept beside the score
    /// ([`Outcome::Measured`]): a gain counts the less, the likelier it loses more. `None` where
    /// nothing is to be kept.
    #[serde(default)]
    pub allowed_loss: Option<f64>,
    /// Configurations to try first, best hopes first; at most four are tried.
    pub starts: Vec<Start>,
}

fn worth() -> f64 {
    WORTH
}

/// What to measure next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// Its number, to be told with the result.
    pub trial: u32,
    /// Why.
    pub purpose: Purpose,
    /// What.
    pub configuration: Configuration,
}

/// Why a search cannot go on.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SearchError {
    /// A value of the baseline or a start point is none.
    #[error(transparent)]
    Value(#[from] DimensionError),
    /// Nothing to search.
    #[error("no parameter is left to search: all that were named have no effect here")]
    NothingToSearch,
    /// A result of something that was not asked for.
    #[error("trial {told} was told, but {}", expected(*asked))]
    NotAsked {
        /// What was told.
        told: u32,
        /// What was asked for.
        asked: Option<u32>,
    },
    /// A score that is no number.
    #[error("the score of trial {0} is not a finite number")]
    Score(u32),
    /// The baseline does not run, so there is nothing to compare with.
    #[error(
        "the baseline itself did not run, so there is nothing to improve on: run it alone and see why"
    )]
    BaselineCrashed,
}

fn expected(asked: Option<u32>) -> String {
    asked.map_or("nothing was asked for".to_owned(), |trial| format!("{trial} was asked for"))
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Planned {
    purpose: Purpose,
    configuration: Configuration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stage {
    Opening,
    Screening,
    /// Earlier versions had races between searching and the ablation.
    #[serde(alias = "race")]
    Search,
    Ablation,
    Done,
}

/// A search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Searcher {
    space: Space,
    options: Options,
    budget: Budget,
    baseline: Configuration,
    /// What a screening moves away from.
    reference: Configuration,
    trials: Vec<Trial>,
    queue: VecDeque<Planned>,
    stage: Stage,
    screening: Option<Screening>,
    /// Where the next fit of the model starts.
    hyper: Option<Hyper>,
    /// The arms of the ablation: baseline, winner, winner minus one.
    arms: Vec<Configuration>,
    /// For each arm from the third, the dimensions it takes back.
    lines: Vec<Vec<Taken>>,
    conclusion: Option<Conclusion>,
}

impl Searcher {
    /// A search of `space` from `baseline`; values of the baseline that are not in the
    /// space are left out, missing ones are defaults.
    ///
    /// # Errors
    /// When the space is empty or a value is none of its dimension.
    pub fn new(
        space: Space,
        baseline: &Configuration,
        mut options: Options,
    ) -> Result<Searcher, SearchError> {
        if space.dimensions.is_empty() {
            return Err(SearchError::NothingToSearch);
        }
        let whole = |values: &Configuration| {
            space.configuration(values.iter().map(|(name, value)| (&**name, &**value)))
        };
        let baseline = whole(baseline)?;
        let mut starts: Vec<Start> = Vec::new();
        for start in &options.starts {
            let configuration = whole(&start.configuration)?;
            let new = configuration != baseline
                && starts.iter().all(|earlier| earlier.configuration != configuration);
            if new {
                starts.push(Start { name: start.name.clone(), configuration });
            }
        }
        let at_odds = space.changes(&baseline, &space.home()).count();
        let budget = Budget::of(options.runs, space.dimensions.len(), starts.len(), at_odds);
        starts.truncate(budget.starts as usize);
        options.starts = starts;
        let mut searcher = Searcher {
            reference: baseline.clone(),
            budget,
            space,
            options,
            baseline,
            trials: Vec::new(),
            queue: VecDeque::new(),
            stage: Stage::Opening,
            screening: None,
            hyper: None,
            arms: Vec::new(),
            lines: Vec::new(),
            conclusion: None,
        };
        searcher.open();
        Ok(searcher)
    }

    /// What to measure next; the same until it is told. `None` at the end.
    pub fn ask(&self) -> Option<Ask> {
        let planned = self.queue.front()?;
        Some(Ask {
            trial: self.next_id(),
            purpose: planned.purpose.clone(),
            configuration: planned.configuration.clone(),
        })
    }

    /// Takes the result of what was asked for.
    ///
    /// # Errors
    /// When it is not that, when the score is no number, or when the baseline crashed.
    pub fn tell(&mut self, trial: u32, outcome: Outcome) -> Result<(), SearchError> {
        let asked = self.ask().map(|ask| ask.trial);
        if asked != Some(trial) {
            return Err(SearchError::NotAsked { told: trial, asked });
        }
        if !outcome.is_finite() {
            return Err(SearchError::Score(trial));
        }
        // What is written down reads back as the same number, so that a search that goes on
        // asks what it would have asked.
        let outcome = outcome.rounded();
        let of_baseline =
            self.queue.front().is_some_and(|planned| planned.configuration == self.baseline);
        if outcome == Outcome::Crashed && of_baseline {
            return Err(SearchError::BaselineCrashed);
        }
        let block = self.block_of_next();
        if let Some(Planned { purpose, configuration }) = self.queue.pop_front() {
            self.trials.push(Trial { id: trial, purpose, configuration, block, outcome });
        }
        while self.queue.is_empty() && self.stage != Stage::Done {
            self.advance();
        }
        Ok(())
    }

    /// Takes what is to be kept beside the score from the outcomes of all measurements, in their
    /// order, where the search began without it.
    pub fn keep_beside(
        &mut self,
        allowed_loss: Option<f64>,
        outcomes: impl Iterator<Item = Outcome>,
    ) {
        self.options.allowed_loss = allowed_loss;
        for (trial, told) in self.trials.iter_mut().zip(outcomes) {
            if let (Outcome::Measured { kept, .. }, Outcome::Measured { kept: told, .. }) =
                (&mut trial.outcome, told.rounded())
            {
                *kept = told;
            }
        }
    }

    /// What may be said at the end; `None` before it.
    pub fn conclusion(&self) -> Option<&Conclusion> {
        self.conclusion.as_ref()
    }

    /// What was measured so far.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// The space it searches.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The configuration it improves on, whole.
    pub fn baseline(&self) -> &Configuration {
        &self.baseline
    }

    /// How its runs are divided.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The stage it is in, in words, and how many stages there are.
    pub fn stage(&self) -> (&'static str, usize, usize) {
        match self.stage {
            Stage::Opening => ("baseline and start points", 1, 4),
            Stage::Screening => ("screening", 2, 4),
            Stage::Search => ("search", 3, 4),
            Stage::Ablation => ("ablation", 4, 4),
            Stage::Done => ("done", 4, 4),
        }
    }

    /// The standard deviation of one measurement, from the baseline against itself;
    /// `None` before two were made.
    pub fn sigma(&self) -> Option<f64> {
        self.noise().map(|noise| noise.variance.sqrt())
    }

    /// The baseline's mean score; `None` before the first.
    pub fn baseline_score(&self) -> Option<f64> {
        self.baseline_mean(Trial::score)
    }

    fn baseline_mean(&self, of: impl Fn(&Trial) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.of_baseline().filter_map(of).collect();
        mean(&values)
    }

    /// The baseline against itself.
    fn of_baseline(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| trial.purpose == Purpose::Baseline)
    }

    /// The noise of one measurement, from the baseline against itself; `None` before two
    /// were made.
    pub fn noise(&self) -> Option<Noise> {
        self.noise_of(Trial::score)
    }

    fn noise_of(&self, of: impl Fn(&Trial) -> Option<f64>) -> Option<Noise> {
        let moments: Moments = self.of_baseline().filter_map(of).collect();
        let variance = moments.variance()?.max(LEAST_SIGMA * LEAST_SIGMA);
        Some(Noise { variance, freedom: moments.count() as f64 - 1.0 })
    }

    fn next_id(&self) -> u32 {
        self.trials.len() as u32
    }

    /// The block of the next measurement. The ablation's blocks are its own.
    fn block_of_next(&self) -> u32 {
        let counted = (self.trials.len() / BLOCK) as u32;
        match self.queue.front().map(|planned| &planned.purpose) {
            Some(Purpose::Ablate { block, .. }) => 1_000 + block,
            _ => counted,
        }
    }

    fn runs_left(&self) -> u32 {
        self.budget.runs.saturating_sub(self.next_id())
    }

    fn plan(&mut self, purpose: Purpose, configuration: Configuration) {
        self.queue.push_back(Planned { purpose, configuration });
    }
}

#[cfg(test)]
mod tests;
