//! The order of the stages, the opening and the screening.

use walwright_stats::mean;

use super::{Searcher, Stage};
use crate::acquisition::crashed_score;
use crate::{Configuration, Purpose, Screening, Trial};

impl Searcher {
    /// Queues the baseline and the start points between each other, so that drift does
    /// not look like a difference.
    pub(super) fn open(&mut self) {
        let starts = self.options.starts.clone();
        let baselines = self.budget.baseline as usize;
        let mut starts = starts.into_iter();
        for _ in 0..baselines {
            self.plan(Purpose::Baseline, self.baseline.clone());
            if let Some(start) = starts.next() {
                self.plan(Purpose::Start { name: start.name }, start.configuration);
            }
        }
        for start in starts {
            self.plan(Purpose::Start { name: start.name }, start.configuration);
        }
    }

    /// Looks at what the stage that has just run dry showed, and queues more or goes on.
    pub(super) fn advance(&mut self) {
        match self.stage {
            Stage::Opening => {
                self.choose_reference();
                self.stage = Stage::Search;
                if let Some(runs) = self.budget.screening
                    && let Some(screening) = Screening::plan(&self.space, &self.reference, runs)
                {
                    for row in &screening.order {
                        let configuration = screening.configuration(&self.space, *row);
                        self.plan(Purpose::Screen { row: *row }, configuration);
                    }
                    self.screening = Some(screening);
                    self.stage = Stage::Screening;
                }
            }
            Stage::Screening => {
                self.conclude_screening();
                self.stage = Stage::Search;
            }
            Stage::Search => {
                if !self.search_on() {
                    self.begin_ablation();
                    self.stage = Stage::Ablation;
                }
            }
            Stage::Ablation => self.conclude(),
            Stage::Done => {}
        }
    }

    /// Searching starts from the best start point where that is clearly better than the
    /// baseline: two standard deviations of the difference.
    fn choose_reference(&mut self) {
        let (Some(noise), Some(baseline)) = (self.noise(), self.baseline_score()) else { return };
        let error = (noise.variance * (1.0 + 1.0 / (noise.freedom + 1.0))).sqrt();
        let better: Vec<(f64, &Configuration)> = self
            .trials
            .iter()
            .filter(|trial| matches!(trial.purpose, Purpose::Start { .. }))
            .filter_map(|trial| Some((trial.score()?, &trial.configuration)))
            .filter(|(score, _)| *score > baseline + 2.0 * error)
            .collect();
        let highest = better.iter().map(|(score, _)| *score).reduce(f64::max);
        // Start points come in the order of hope, the simplest first: one that is about as
        // good as the best of them will do.
        let as_good = |score: f64| {
            highest.is_some_and(|highest| score > highest - 2.0 * noise.variance.sqrt())
        };
        if let Some((_, configuration)) = better.iter().find(|(score, _)| as_good(*score)) {
            self.reference = (*configuration).clone();
        }
    }

    fn conclude_screening(&mut self) {
        let noise = self.noise();
        let worst = self.worst_score();
        let Some(screening) = &mut self.screening else { return };
        let mut scores = vec![None; screening.design.rows.len()];
        for trial in &self.trials {
            if let Purpose::Screen { row } = trial.purpose {
                scores[row] = Some(trial.score().unwrap_or_else(|| crashed_score(worst)));
            }
        }
        if let Some(noise) = noise {
            screening.conclude(&scores, noise);
        }
        if let Some(best) = screening.predicted_best(&self.space) {
            self.plan(Purpose::Search, best);
        }
    }

    /// The lowest score measured; 0 before any.
    pub(super) fn worst_score(&self) -> f64 {
        self.trials.iter().filter_map(Trial::score).min_by(f64::total_cmp).unwrap_or(0.0)
    }

    /// The mean of a configuration's score, or of what is to be kept, over its replicates, where
    /// it has run.
    pub(super) fn mean_of(
        &self,
        configuration: &Configuration,
        of: impl Fn(&Trial) -> Option<f64>,
    ) -> Option<f64> {
        let replicates = self.trials.iter().filter(|trial| trial.configuration == *configuration);
        let values: Vec<f64> = replicates.filter_map(of).collect();
        mean(&values)
    }
}
