//! Races of the configurations the model holds for best.

use serde::{Deserialize, Serialize};

use super::Searcher;
use crate::acquisition::normal_cdf;
use crate::racing::{self, Next};
use crate::{Configuration, Prediction, Purpose, Trial};

/// Challengers at most.
const CHALLENGERS: usize = 3;
/// Standard deviations of the model's uncertainty by which a value must be of use to be kept.
pub(super) const CLEAR: f64 = 0.5;

/// The state of the races.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Race {
    /// The best so far.
    pub incumbent: Configuration,
    /// Those still to run against it.
    pub challengers: Vec<Configuration>,
    /// Which of them runs now.
    pub current: usize,
}

impl Searcher {
    /// Names the incumbent and its challengers by the model.
    pub(super) fn begin_race(&mut self) {
        let Some(model) = self.model() else {
            self.race = Race { incumbent: self.best_by_mean(), ..Race::default() };
            return;
        };
        self.hyper = Some(model.process.hyper().rounded());
        let ranked = self.ranked(&model);
        let Some(best) = self.expected_best(&model, &ranked) else {
            self.race = Race { incumbent: self.best_by_mean(), ..Race::default() };
            return;
        };
        // The simple one defends: what it lacks must show its use.
        let incumbent = self.simplified(&model, &best, |lost| lost.warnings() < CLEAR);
        let ranked = ranked.into_iter().map(|(configuration, _)| configuration);
        let mut challengers: Vec<Configuration> = Vec::new();
        for challenger in std::iter::once(best).chain(ranked).take(CHALLENGERS) {
            if challenger != incumbent && !challengers.contains(&challenger) {
                challengers.push(challenger);
            }
        }
        self.race = Race { incumbent, challengers, current: 0 };
    }

    /// Queues the next round; `false` when all races are run or their runs used up.
    pub(super) fn race_on(&mut self) -> bool {
        loop {
            let current = self.race.current;
            let Some(challenger) = self.race.challengers.get(current).cloned() else {
                return false;
            };
            let better = self.probability_better(&challenger);
            let next = match (self.race_crashed(current, true), self.race_crashed(current, false)) {
                (true, _) => Next::Lost,
                (false, true) => Next::Won,
                (false, false) => racing::next(self.race_pairs(current), better),
            };
            match next {
                Next::Run(order) => {
                    let reserved = self.budget.ablation;
                    if self.runs_left() < reserved + order.len() as u32 {
                        // Out of runs: the likelier one goes on.
                        if better > 0.5 {
                            self.race.incumbent = challenger;
                        }
                        return false;
                    }
                    for is_challenger in order {
                        let configuration = match is_challenger {
                            true => challenger.clone(),
                            false => self.race.incumbent.clone(),
                        };
                        let purpose =
                            Purpose::Race { challenger: current, is_challenger: *is_challenger };
                        self.plan(purpose, configuration);
                    }
                    return true;
                }
                Next::Won => self.race.incumbent = challenger,
                Next::Lost => {}
            }
            self.race.current += 1;
        }
    }

    fn race_trials(&self, challenger: usize, which: bool) -> impl Iterator<Item = &Trial> {
        let wanted = Purpose::Race { challenger, is_challenger: which };
        self.trials.iter().filter(move |trial| trial.purpose == wanted)
    }

    fn race_pairs(&self, challenger: usize) -> usize {
        let count = |which| self.race_trials(challenger, which).count();
        count(true).min(count(false))
    }

    /// Probability that a challenger is worth more than the incumbent, after all that was
    /// measured, as far as the score is in uncertainty: a half where nothing is known.
    pub(super) fn probability_better(&self, challenger: &Configuration) -> f64 {
        let incumbent = &self.race.incumbent;
        self.model().map_or(0.5, |model| {
            let worth = |of: &Configuration| model.worth(&self.space.features(of));
            let mean = worth(challenger) - worth(incumbent);
            normal_cdf(Prediction { mean, ..self.ahead(&model, challenger, incumbent) }.warnings())
        })
    }

    fn race_crashed(&self, challenger: usize, which: bool) -> bool {
        self.race_trials(challenger, which).any(|trial| trial.score().is_none())
    }

    /// The configuration with the highest mean score of those whose mean of what is to be kept
    /// lies within what may be lost; the baseline before any.
    pub(super) fn best_by_mean(&self) -> Configuration {
        let least = self.least_kept();
        let score = |configuration: &Configuration| self.mean_of(configuration, Trial::score);
        let keeps = |configuration: &Configuration| {
            let kept = self.mean_of(configuration, Trial::kept);
            kept.zip(least).is_none_or(|(kept, least)| kept >= least)
        };
        self.trials
            .iter()
            .map(|trial| &trial.configuration)
            .filter(|configuration| keeps(configuration))
            .filter_map(|configuration| Some((score(configuration)?, configuration)))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map_or_else(|| self.baseline.clone(), |(_, configuration)| configuration.clone())
    }

    /// The least of what is to be kept, by the baseline's mean; `None` where nothing is.
    fn least_kept(&self) -> Option<f64> {
        Some(self.baseline_mean(Trial::kept)? + (-self.options.allowed_loss?).ln_1p())
    }
}
