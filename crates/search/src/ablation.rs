//! Everything minus one: what each line of a winner is worth, with its interval.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ChiSquared, ContinuousCDF, FisherSnedecor};
use walwright_stats::{Confidence, Estimate, EstimateWarning, Method, mean, t_quantile, variance};

/// Chance at which one of several arms of the same noise is taken for a wider one.
const UNUSUAL: f64 = 0.01;
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

    /// Whether its interval is so wide that it says nothing: a change of this share up or
    /// down is as possible as none.
    pub fn is_open(&self, share: f64) -> bool {
        let interval = self.estimate().and_then(|estimate| estimate.interval);
        interval.is_none_or(|i| i.low < -share && i.high > share)
    }

    /// Whether a gain above this share is excluded as far as its interval says.
    pub fn excludes(&self, gain: f64) -> bool {
        self.estimate().and_then(Estimate::high).is_some_and(|high| high <= gain)
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

/// A sum of squares, and its degrees of freedom.
struct Residuals {
    squares: f64,
    freedom: f64,
}

impl Residuals {
    fn noise(&self) -> Option<Noise> {
        let freedom = self.freedom;
        (freedom > 0.0).then(|| Noise { variance: self.squares / freedom, freedom })
    }
}

impl Noise {
    /// Standard deviations between which the true one lies at 95 %, of normal noise.
    pub fn deviations(self) -> Option<(f64, f64)> {
        let squares = ChiSquared::new(self.freedom).ok()?;
        let at = |q: f64| (self.variance * self.freedom / squares.inverse_cdf(q)).sqrt();
        Some((at(0.975), at(0.025)))
    }

    /// The chance of a variance like this, or a higher one, where the noise is another (an
    /// F-test).
    fn chance_of(self, other: Noise) -> Option<f64> {
        let ratio = self.variance / other.variance;
        let ratios = FisherSnedecor::new(self.freedom, other.freedom).ok()?;
        // Two that have no spread at all do not differ in it.
        (!ratio.is_nan()).then(|| ratios.sf(ratio))
    }
}

impl Ablation {
    /// Blocks in which every arm was measured.
    pub fn blocks(&self) -> usize {
        self.scores.iter().map(Vec::len).min().unwrap_or(0)
    }

    /// Arms that ran in every block with the same noise as the others, as far as an F-test
    /// of each against the rest tells: one that collapsed at times says nothing of the noise
    /// of the others.
    fn steady(&self) -> Vec<usize> {
        let blocks = self.blocks();
        let ran = |arm: &usize| self.scores[*arm][..blocks].iter().all(Option::is_some);
        let mut steady: Vec<usize> = (0..self.scores.len()).filter(ran).collect();
        while blocks >= 2 && steady.len() > 2 {
            let all = self.residuals(&steady);
            let chance = |arm: usize| {
                let others: Vec<usize> = steady.iter().copied().filter(|a| *a != arm).collect();
                let rest = self.residuals(&others);
                let own = Residuals {
                    squares: all.squares - rest.squares,
                    freedom: all.freedom - rest.freedom,
                };
                own.noise()?.chance_of(rest.noise()?)
            };
            let widest = steady
                .iter()
                .filter_map(|arm| Some((chance(*arm)?, *arm)))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            match widest {
                Some((chance, arm)) if chance < UNUSUAL / steady.len() as f64 => {
                    steady.retain(|other| *other != arm);
                }
                _ => break,
            }
        }
        steady
    }

    /// What is left of the scores of some arms, each in every block, without arm and block.
    fn residuals(&self, arms: &[usize]) -> Residuals {
        let blocks = self.blocks();
        let scores: Vec<Vec<f64>> = arms
            .iter()
            .map(|arm| self.scores[*arm][..blocks].iter().flatten().copied().collect())
            .collect();
        let apart: Vec<Vec<f64>> = scores
            .iter()
            .map(|arm| {
                let center = mean(arm).unwrap_or(0.0);
                arm.iter().map(|score| score - center).collect()
            })
            .collect();
        let of_block = |block: usize| -> f64 {
            let each: Vec<f64> = apart.iter().map(|arm| arm[block]).collect();
            let center = mean(&each).unwrap_or(0.0);
            each.iter().map(|one| (one - center).powi(2)).sum()
        };
        Residuals {
            squares: (0..blocks).map(of_block).sum(),
            freedom: arms.len().saturating_sub(1) as f64 * blocks.saturating_sub(1) as f64,
        }
    }

    /// The relative change from `base` to `arm`, with a t-interval over blocks whose width
    /// comes from the noise of all steady arms, so that four blocks have the degrees of freedom
    /// of all; from the pair's own spread where one of the two is not as steady as the others.
    /// What was measured before the blocks has no part in it: noise wanders within the hour.
    pub fn effect(&self, arm: usize, base: usize) -> Effect {
        self.effect_at(arm, base, Confidence::P95)
    }

    /// The same with an interval that covers the truth so often.
    pub fn effect_at(&self, arm: usize, base: usize, confidence: Confidence) -> Effect {
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
        let steady = self.steady();
        let used = match [arm, base].iter().all(|arm| steady.contains(arm)) {
            true => self.residuals(&steady).noise(),
            false => variance(&differences)
                .map(|variance| Noise { variance: variance / 2.0, freedom: blocks as f64 - 1.0 }),
        };
        let half = used.and_then(|noise| {
            let error = (2.0 * noise.variance / blocks as f64).sqrt();
            Some(error * t_quantile(confidence, noise.freedom)?)
        });
        let method = Method::PairedLogRatio;
        let estimate = match half {
            Some(half) => Estimate::symmetric(center, half, confidence, method),
            None => {
                let warning = EstimateWarning::TooFewSamples { have: blocks, need: 2 };
                Estimate::without_interval(center, confidence, method, warning)
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

    /// Arms with these true scores, blocks with offsets far larger than the noise.
    fn measured(truth: &[f64], blocks: usize, sigma: f64, seed: u64) -> Ablation {
        let mut rng = generator(seed, 0);
        let offsets: Vec<f64> = (0..blocks).map(|_| 0.2 * normal(&mut rng)).collect();
        let scores = truth
            .iter()
            .map(|t| offsets.iter().map(|o| Some(t + o + sigma * normal(&mut rng))).collect())
            .collect();
        Ablation { scores }
    }

    #[test]
    fn an_interval_wide_on_both_sides_says_nothing() {
        let of = |low: f64, high: f64| {
            let half = 0.5 * (high - low);
            Effect::Measured(Estimate::symmetric(
                low + half,
                half,
                walwright_stats::Confidence::P95,
                Method::Student,
            ))
        };
        assert!(of(-0.99, 14.43).is_open(0.1) && Effect::NotMeasured.is_open(0.1));
        assert!(!of(-0.014, 0.008).is_open(0.1));
        // A loss is excluded, so it says something.
        assert!(!of(-0.02, 0.5).is_open(0.1));
    }

    #[test]
    fn intervals_cover_the_truth_and_blocks_cancel() {
        let truth = [0.0, 0.10, 0.04, 0.10];
        for blocks in [2, 4] {
            let (mut covered, mut false_gains, mut found) = (0, 0, 0);
            for seed in 0..500 {
                let ablation = measured(&truth, blocks, 0.02, seed);
                let gain = ablation.effect(1, 0);
                let estimate = gain.estimate().unwrap();
                covered += usize::from(estimate.interval.unwrap().contains(f64::exp_m1(0.10)));
                found += usize::from(gain.is_gain());
                false_gains += usize::from(ablation.effect(1, 3).is_gain());
            }
            assert!((460..=490).contains(&covered), "{blocks} blocks: {covered} of 500");
            assert!(blocks == 2 || found >= 490, "{found}");
            assert!(false_gains <= 20, "{blocks} blocks: {false_gains} of 500");
        }
    }

    #[test]
    fn an_arm_that_collapsed_does_not_blur_the_others() {
        let mut ablation = measured(&[0.0, 0.10, 0.09], 4, 0.01, 1);
        ablation.scores.push(vec![Some(-2.4), Some(-2.0), Some(-2.9), Some(-2.2)]);
        assert!(ablation.effect(1, 0).is_gain());
        let collapse = ablation.effect(3, 1);
        let interval = collapse.estimate().unwrap().interval.unwrap();
        assert!(interval.high < -0.5 && interval.low > -1.0, "{interval:?}");
    }

    #[test]
    fn scores_without_any_spread_are_compared_all_the_same() {
        let ablation = Ablation { scores: vec![vec![Some(0.0), Some(0.01)]; 3] };
        assert_eq!(ablation.effect(1, 0).estimate().unwrap().center, 0.0);
    }

    #[test]
    fn a_deviation_of_three_is_known_to_within_a_factor_of_twelve() {
        // Quantiles of chi-squared with two degrees of freedom: 0.0506 and 7.378.
        let (low, high) = Noise { variance: 1.0, freedom: 2.0 }.deviations().unwrap();
        assert!((low - 0.521).abs() < 1e-3 && (high - 6.285).abs() < 1e-3, "{low} {high}");
        assert!(Noise { variance: 1.0, freedom: 0.0 }.deviations().is_none());
    }

    #[test]
    fn a_crash_has_no_effect_to_state() {
        let mut ablation = measured(&[0.0, 0.1], 4, 0.01, 1);
        ablation.scores.push(vec![Some(0.0), None, Some(0.0), Some(0.0)]);
        assert_eq!(ablation.effect(2, 1), Effect::Crashed);
        assert!(ablation.effect(1, 0).is_gain());
        assert_eq!(ablation.effect(7, 0), Effect::NotMeasured);
        let gain = ablation.effect(1, 0);
        let back = gain.inverted();
        assert!(gain.is_gain() && back.is_loss() && back.estimate().unwrap().center > -0.2);
    }

    #[test]
    fn one_block_tells_no_interval() {
        let ablation = Ablation { scores: vec![vec![Some(0.0)], vec![Some(0.1)]] };
        assert_eq!(ablation.effect(1, 0).estimate().unwrap().interval, None);
    }
}
