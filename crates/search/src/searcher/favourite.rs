//! The configuration that goes into the ablation.

use super::Searcher;
use crate::acquisition::normal_cdf;
use crate::{Configuration, Prediction, Trial};

/// Configurations of the highest expected score among which the rival of the simple one is.
const CONSIDERED: usize = 3;
/// Standard deviations of the model's uncertainty by which a value must be of use to be kept.
pub(super) const CLEAR: f64 = 0.5;

impl Searcher {
    /// The configuration with the highest expected score, without what the model sees no clear
    /// use in, or the next best where that is likelier to be better.
    pub(super) fn favourite(&mut self) -> Configuration {
        let Some(model) = self.model() else { return self.best_by_mean() };
        self.hyper = Some(model.process.hyper().rounded());
        let ranked = self.ranked(&model);
        let Some(best) = self.expected_best(&model, &ranked) else { return self.best_by_mean() };
        // The simple one defends: what it lacks must show its use.
        let simple = self.simplified(&model, &best, |lost| lost.deviations() < CLEAR);
        let ranked = ranked.into_iter().map(|(configuration, _)| configuration);
        let mut rivals = std::iter::once(best).chain(ranked).take(CONSIDERED);
        match rivals.find(|rival| *rival != simple) {
            Some(rival) if self.probability_better(&rival, &simple) > 0.5 => rival,
            _ => simple,
        }
    }

    /// Probability that a configuration is worth more than another, after all that was
    /// measured, as far as the score is uncertain: a half where nothing is known.
    pub(super) fn probability_better(&self, this: &Configuration, other: &Configuration) -> f64 {
        self.model().map_or(0.5, |model| {
            let worth = |of: &Configuration| model.worth(&self.space.features(of));
            let mean = worth(this) - worth(other);
            normal_cdf(Prediction { mean, ..self.ahead(&model, this, other) }.deviations())
        })
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
