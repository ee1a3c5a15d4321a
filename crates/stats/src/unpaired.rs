//! The effect of one group of runs against another, where they were not run in blocks.

use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::resampling::generator;
use crate::{Confidence, EffectError, Estimate, EstimateWarning, Method, Moments, t_quantile};

/// Up to this many ways to divide the runs all are tried.
const EXACT_UP_TO: u64 = 200_000;
/// Ways drawn beyond that.
const DRAWN: u32 = 99_999;

/// An effect measured between two groups of independent runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnpairedEffect {
    /// Relative change of the arm against the baseline: 0.05 is 5 % more.
    pub change: Estimate,
    /// Test that there is no effect.
    pub test: Permutation,
}

/// The outcome of a permutation test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Permutation {
    /// Two-sided p-value.
    pub p_value: f64,
    /// The smallest p-value that groups of these sizes can give.
    pub smallest_p: f64,
    /// Whether all ways to divide the runs were tried (else a sample of them was drawn).
    pub exact: bool,
}

/// The difference of the mean logarithms as a relative change, with the interval of
/// Welch's t (Biometrika 34, 1947) and a permutation test: the share of the ways to
/// divide all runs into groups of these sizes that give a difference at least as large.
///
/// Both take the runs for independent. Groups that were measured one after the other hold
/// in their difference whatever else changed in between: blocks are better
/// ([`crate::paired_effect`]). With so few runs that the test cannot reach `confidence`
/// the change is marked [`EstimateWarning::ScreeningOnly`].
///
/// # Errors
/// When a group is empty or a figure is not above zero.
pub fn unpaired_effect(
    baseline: &[f64],
    arm: &[f64],
    confidence: Confidence,
    seed: u64,
) -> Result<UnpairedEffect, EffectError> {
    if baseline.is_empty() || arm.is_empty() {
        return Err(EffectError::NoBlocks);
    }
    let base = logarithms(baseline)?;
    let other = logarithms(arm)?;
    let (a, b): (Moments, Moments) =
        (base.iter().copied().collect(), other.iter().copied().collect());
    let (Some(mean_a), Some(mean_b)) = (a.mean(), b.mean()) else {
        return Err(EffectError::NoBlocks);
    };
    let difference = mean_b - mean_a;
    let method = Method::WelchLogRatio;
    let runs = base.len().min(other.len());
    let interval = a
        .standard_deviation()
        .zip(b.standard_deviation())
        .and_then(|(a, b)| half_width(a, base.len(), b, other.len(), confidence));
    let change = match interval {
        Some(half) => Estimate::symmetric(difference, half, confidence, method),
        None => {
            let warning = EstimateWarning::TooFewSamples { have: runs, need: 2 };
            Estimate::without_interval(difference, confidence, method, warning)
        }
    };
    let test = permutation(&base, &other, seed);
    let mut change = change.map(f64::exp_m1);
    if test.smallest_p > confidence.alpha() {
        let warning = EstimateWarning::ScreeningOnly { blocks: runs, smallest_p: test.smallest_p };
        change = change.with_warning(warning);
    }
    Ok(UnpairedEffect { change, test })
}

fn logarithms(figures: &[f64]) -> Result<Vec<f64>, EffectError> {
    figures
        .iter()
        .enumerate()
        .map(|(block, value)| {
            if *value > 0.0 && value.is_finite() {
                Ok(value.ln())
            } else {
                Err(EffectError::NotPositive { block, value: *value })
            }
        })
        .collect()
}

/// Half of Welch's interval, with the degrees of freedom of Satterthwaite.
fn half_width(a: f64, runs_a: usize, b: f64, runs_b: usize, confidence: Confidence) -> Option<f64> {
    let (of_a, of_b) = (a * a / runs_a as f64, b * b / runs_b as f64);
    let variance = of_a + of_b;
    if variance == 0.0 {
        return Some(0.0);
    }
    let weight = of_a * of_a / (runs_a as f64 - 1.0) + of_b * of_b / (runs_b as f64 - 1.0);
    Some(t_quantile(confidence, variance * variance / weight)? * variance.sqrt())
}

fn permutation(base: &[f64], other: &[f64], seed: u64) -> Permutation {
    let mut all = [base, other].concat();
    let (chosen, total) = (base.len(), all.len());
    let sum: f64 = all.iter().sum();
    let size: f64 = all.iter().map(|value| value.abs()).sum();
    let statistic = |of_base: f64| {
        let rest = (sum - of_base) / (total - chosen) as f64;
        (rest - of_base / chosen as f64).abs()
    };
    // Differences that are equal but for rounding count as equal.
    let observed = statistic(base.iter().sum()) - 1e-9 * size;
    let ways = ways(total as u64, chosen as u64);
    // With equal sizes each way has a mirror image of the same size.
    let extreme = if chosen * 2 == total { 2.0 } else { 1.0 };
    let smallest_p = ways.map_or(0.0, |ways| (extreme / ways as f64).min(1.0));
    match ways.filter(|ways| *ways <= EXACT_UP_TO) {
        Some(ways) => {
            let mut as_large = 0_u64;
            each_way(&all, chosen, 0, 0.0, &mut |of_base| {
                as_large += u64::from(statistic(of_base) >= observed);
            });
            Permutation { p_value: as_large as f64 / ways as f64, smallest_p, exact: true }
        }
        None => {
            let mut rng = generator(seed);
            let as_large = (0..DRAWN)
                .filter(|_| {
                    all.shuffle(&mut rng);
                    statistic(all[..chosen].iter().sum()) >= observed
                })
                .count();
            let p_value = (as_large + 1) as f64 / f64::from(DRAWN + 1);
            let smallest_p = smallest_p.max(1.0 / f64::from(DRAWN + 1));
            Permutation { p_value, smallest_p, exact: false }
        }
    }
}

/// Calls `with` with the sum of every choice of `left` values from `from` on.
fn each_way(values: &[f64], left: usize, from: usize, sum: f64, with: &mut impl FnMut(f64)) {
    if left == 0 {
        return with(sum);
    }
    for place in from..=values.len() - left {
        each_way(values, left - 1, place + 1, sum + values[place], with);
    }
}

/// n over k; `None` beyond what is ever counted through.
fn ways(n: u64, k: u64) -> Option<u64> {
    let k = k.min(n - k);
    (0..k).try_fold(1_u64, |ways, i| Some(ways.checked_mul(n - i)? / (i + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    #[test]
    fn the_interval_covers_the_true_effect() {
        let covered = (0..1_000_u64)
            .filter(|seed| {
                let mut synthetic = Synthetic::new(*seed);
                let runs = |synthetic: &mut Synthetic, n, mean: f64, scatter| -> Vec<f64> {
                    synthetic.noise(n, mean, scatter).iter().map(|x| x.exp()).collect()
                };
                let base = runs(&mut synthetic, 5, 8.0, 0.02);
                let arm = runs(&mut synthetic, 7, 8.0 + 1.1_f64.ln(), 0.05);
                let effect = unpaired_effect(&base, &arm, Confidence::P95, 0).unwrap();
                effect.change.interval.unwrap().contains(0.1)
            })
            .count();
        assert!((930..=970).contains(&covered), "{covered} of 1000");
    }

    #[test]
    fn the_smallest_p_values_are_known() {
        for (a, b, p) in [(3, 3, 0.1), (4, 4, 2.0 / 70.0), (2, 3, 0.1), (1, 1, 1.0)] {
            let base: Vec<f64> = (0..a).map(|i| 100.0 + f64::from(i)).collect();
            let arm: Vec<f64> = (0..b).map(|i| 200.0 + f64::from(i)).collect();
            let effect = unpaired_effect(&base, &arm, Confidence::P95, 0).unwrap();
            assert!((effect.test.p_value - p).abs() < 1e-12, "{a} {b} {:?}", effect.test);
            assert!((effect.test.smallest_p - p).abs() < 1e-12);
        }
    }

    #[test]
    fn three_runs_a_side_screen_and_four_can_prove() {
        let effect = |n: u32| {
            let base: Vec<f64> = (0..n).map(|i| 100.0 + f64::from(i)).collect();
            let arm: Vec<f64> = base.iter().map(|x| x * 1.3).collect();
            unpaired_effect(&base, &arm, Confidence::P95, 0).unwrap()
        };
        assert!(matches!(effect(3).change.warnings[..], [EstimateWarning::ScreeningOnly { .. }]));
        assert!(effect(4).change.warnings.is_empty());
        assert!((effect(4).change.center - 0.3).abs() < 1e-9);
    }

    #[test]
    fn one_run_a_side_has_no_interval() {
        let effect = unpaired_effect(&[100.0], &[130.0], Confidence::P95, 0).unwrap();
        assert_eq!(effect.change.interval, None);
        assert!(unpaired_effect(&[], &[1.0], Confidence::P95, 0).is_err());
        assert!(unpaired_effect(&[0.0], &[1.0], Confidence::P95, 0).is_err());
    }

    #[test]
    fn false_positives_stay_at_the_level() {
        let rejected = (0..1_000_u64)
            .filter(|seed| {
                let mut synthetic = Synthetic::new(*seed);
                let a = synthetic.noise(5, 100.0, 3.0);
                let b = synthetic.noise(5, 100.0, 3.0);
                unpaired_effect(&a, &b, Confidence::P95, 0).unwrap().test.p_value <= 0.05
            })
            .count();
        // The level attained is 12/252 = 4.8 %.
        assert!((30..=70).contains(&rejected), "{rejected} of 1000");
    }

    #[test]
    fn drawn_ways_agree_with_all_ways() {
        let mut synthetic = Synthetic::new(3);
        let a: Vec<f64> = synthetic.noise(12, 100.0, 5.0);
        let b: Vec<f64> = synthetic.noise(12, 102.0, 5.0);
        let drawn = unpaired_effect(&a, &b, Confidence::P95, 1).unwrap().test;
        assert!(!drawn.exact && drawn.p_value > 0.0);
        let few = unpaired_effect(&a[..6], &b[..6], Confidence::P95, 1).unwrap().test;
        assert!(few.exact);
    }
}
