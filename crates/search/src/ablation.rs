//! Everything minus one: what each line of a winner is worth, with its interval.

use serde::{Deserialize, Serialize};
use walwright_stats::{Confidence, Doubt, Estimate, Method, mean, median, t_quantile, variance};

/// An arm whose spread is this many times the usual one is judged by its own.
const UNUSUAL: f64 = 4.0;

/// The effect of one arm against another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Relative change, with its interval.
    Measured(Estimate),
    /// The arm crashed at least once, so that it has no score to compare.
    Crashed,
    /// It was not measured: too few runs were left, or the search was stopped.
    NotMeasured,
}

impl Effect {
    /// The estimate, where there is one.
    pub fn estimate(&self) -> Option<&Estimate> {
        match self {
            Effect::Measured(estimate) => Some(estimate),
            _ => None,
        }
    }

    /// Whether a model of all measurements says it, and not blocks of its own.
    pub fn is_modelled(&self) -> bool {
        self.estimate().is_some_and(|estimate| estimate.method == Method::GaussianProcess)
    }

    /// The change by the same step the other way.
    #[must_use]
    pub fn inverted(&self) -> Effect {
        match self {
            Effect::Measured(estimate) => {
                Effect::Measured(estimate.clone().map(|change| 1.0 / (1.0 + change) - 1.0))
            }
            other => other.clone(),
        }
    }

    /// Whether it is above zero as far as its interval says.
    pub fn is_gain(&self) -> bool {
        self.estimate().and_then(Estimate::low).is_some_and(|low| low > 0.0)
    }

    /// Whether it is below zero as far as its interval says.
    pub fn is_loss(&self) -> bool {
        self.estimate().and_then(Estimate::high).is_some_and(|high| high < 0.0)
    }
}

/// Scores of arms in blocks: `scores[arm][block]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ablation {
    /// One list an arm, one score a block; `None` for a crash.
    pub scores: Vec<Vec<Option<f64>>>,
}

/// The variance of one measurement within a block, and its degrees of freedom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Of a score.
    pub variance: f64,
    /// Fractions are fine.
    pub freedom: f64,
}

impl Ablation {
    /// Blocks in which every arm was measured.
    pub fn blocks(&self) -> usize {
        self.scores.iter().map(Vec::len).min().unwrap_or(0)
    }

    /// The noise of a measurement: the residuals of all arms that are as steady as most,
    /// once arm and block are accounted for, pooled with what was known `before`. Pooling
    /// gives an arm of four blocks the degrees of freedom of all.
    pub fn noise(&self, before: Option<Noise>) -> Option<Noise> {
        let blocks = self.blocks();
        let whole: Vec<Vec<f64>> = self
            .scores
            .iter()
            .filter_map(|arm| arm[..blocks].iter().copied().collect::<Option<Vec<f64>>>())
            .collect();
        let (mut squares, mut freedom) =
            before.map_or((0.0, 0.0), |known| (known.variance * known.freedom, known.freedom));
        if blocks >= 2 && whole.len() >= 2 {
            let arm_means: Vec<f64> = whole.iter().filter_map(|arm| mean(arm)).collect();
            // An arm that collapsed says nothing of the block it was in.
            let block_means: Vec<f64> = (0..blocks)
                .filter_map(|b| {
                    let apart: Vec<f64> =
                        whole.iter().zip(&arm_means).map(|(arm, mean)| arm[b] - mean).collect();
                    median(&apart)
                })
                .collect();
            let per_arm: Vec<f64> = whole
                .iter()
                .zip(&arm_means)
                .map(|(arm, mean)| {
                    let residuals =
                        arm.iter().zip(&block_means).map(|(score, block)| score - mean - block);
                    residuals.map(|r| r * r).sum::<f64>()
                })
                .collect();
            let usual = median(&per_arm).unwrap_or(0.0);
            let steady: Vec<f64> = per_arm.into_iter().filter(|s| *s <= UNUSUAL * usual).collect();
            squares += steady.iter().sum::<f64>();
            freedom += (steady.len() as f64 - 1.0).max(0.0) * (blocks as f64 - 1.0);
        }
        (freedom > 0.0).then(|| Noise { variance: squares / freedom, freedom })
    }

    /// The relative change from `base` to `arm`, with a t-interval over blocks whose
    /// width comes from the pooled noise; from the pair's own spread where that is
    /// unusually large.
    pub fn effect(&self, arm: usize, base: usize, before: Option<Noise>) -> Effect {
        let (Some(arm_scores), Some(base_scores)) = (self.scores.get(arm), self.scores.get(base))
        else {
            return Effect::NotMeasured;
        };
        let blocks = self.blocks();
        if blocks == 0 {
            return Effect::NotMeasured;
        }
        let pairs: Option<Vec<f64>> = arm_scores[..blocks]
            .iter()
            .zip(&base_scores[..blocks])
            .map(|(a, b)| Some((*a)? - (*b)?))
            .collect();
        let Some(differences) = pairs else { return Effect::Crashed };
        let center = mean(&differences).unwrap_or(0.0);
        let confidence = Confidence::P95;
        let own = variance(&differences)
            .map(|variance| Noise { variance: variance / 2.0, freedom: blocks as f64 - 1.0 });
        let used = match (self.noise(before), own) {
            (Some(pooled), Some(own)) if own.variance > UNUSUAL * pooled.variance => Some(own),
            (pooled, own) => pooled.or(own),
        };
        let half = used.and_then(|noise| {
            let error = (2.0 * noise.variance / blocks as f64).sqrt();
            Some(error * t_quantile(confidence, noise.freedom)?)
        });
        let method = Method::PairedLogRatio;
        let estimate = match half {
            Some(half) => Estimate::symmetric(center, half, confidence, method),
            None => {
                let doubt = Doubt::TooFewSamples { have: blocks, need: 2 };
                Estimate::without_interval(center, confidence, method, doubt)
            }
        };
        Effect::Measured(estimate.map(f64::exp_m1))
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::random::generator;

    fn normal(rng: &mut impl RngExt) -> f64 {
        (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
    }

    /// Arms with these true scores, four blocks with offsets far larger than the noise.
    fn measured(truth: &[f64], sigma: f64, seed: u64) -> Ablation {
        let mut rng = generator(seed, 0);
        let offsets: Vec<f64> = (0..4).map(|_| 0.2 * normal(&mut rng)).collect();
        let scores = truth
            .iter()
            .map(|t| offsets.iter().map(|o| Some(t + o + sigma * normal(&mut rng))).collect())
            .collect();
        Ablation { scores }
    }

    #[test]
    fn intervals_cover_the_truth_and_blocks_cancel() {
        let truth = [0.0, 0.10, 0.04, 0.10];
        let (mut covered, mut false_gains, mut found) = (0, 0, 0);
        for seed in 0..500 {
            let ablation = measured(&truth, 0.02, seed);
            let gain = ablation.effect(1, 0, None);
            let estimate = gain.estimate().unwrap();
            covered += usize::from(estimate.interval.unwrap().contains(f64::exp_m1(0.10)));
            found += usize::from(gain.is_gain());
            false_gains += usize::from(ablation.effect(1, 3, None).is_gain());
        }
        assert!((460..=490).contains(&covered), "{covered} of 500");
        assert!(found >= 490, "{found}");
        assert!(false_gains <= 20, "{false_gains} of 500");
    }

    #[test]
    fn an_arm_that_collapsed_does_not_blur_the_others() {
        let mut ablation = measured(&[0.0, 0.10, 0.09], 0.01, 1);
        ablation.scores.push(vec![Some(-2.4), Some(-2.0), Some(-2.9), Some(-2.2)]);
        assert!(ablation.effect(1, 0, None).is_gain());
        let collapse = ablation.effect(3, 1, None);
        let interval = collapse.estimate().unwrap().interval.unwrap();
        assert!(interval.high < -0.5 && interval.low > -1.0, "{interval:?}");
    }

    #[test]
    fn a_crash_has_no_effect_to_state() {
        let mut ablation = measured(&[0.0, 0.1], 0.01, 1);
        ablation.scores.push(vec![Some(0.0), None, Some(0.0), Some(0.0)]);
        assert_eq!(ablation.effect(2, 1, None), Effect::Crashed);
        assert!(ablation.effect(1, 0, None).is_gain());
        assert_eq!(ablation.effect(7, 0, None), Effect::NotMeasured);
        let gain = ablation.effect(1, 0, None);
        let back = gain.inverted();
        assert!(gain.is_gain() && back.is_loss() && back.estimate().unwrap().center > -0.2);
    }

    #[test]
    fn one_block_has_an_interval_only_where_the_noise_is_known() {
        let ablation = Ablation { scores: vec![vec![Some(0.0)], vec![Some(0.1)]] };
        assert_eq!(ablation.effect(1, 0, None).estimate().unwrap().interval, None);
        let known = Some(Noise { variance: 1e-4, freedom: 4.0 });
        assert!(ablation.effect(1, 0, known).is_gain());
    }
}
