//! By how much a figure changed, and what that rests on.

use serde::Serialize;
use walwright_record::Timestamp;
use walwright_stats::{
    Confidence, Estimate, EstimateWarning, Interval, Method, paired_effect, unpaired_effect,
};

use super::group::{GroupValue, RunGroup};

/// What an effect rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "basis")]
pub enum Basis {
    /// One run against one: the interval is of the precision inside the two runs.
    WithinRuns,
    /// Runs that took turns: the interval is of the ratios of neighbouring runs.
    Pairs {
        /// How many.
        blocks: usize,
    },
    /// Groups that did not take turns: the interval is of the spread inside each.
    Groups {
        /// Runs of the baseline.
        base: usize,
        /// Runs of the other.
        other: usize,
    },
}

/// The change of a figure against the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    /// Relative change: 0.05 is 5 % more.
    pub change: Estimate,
    /// What it rests on.
    #[serde(flatten)]
    pub basis: Basis,
    /// Two-sided p-value of the test that there is no change; `None` for one run
    /// against one.
    pub p_value: Option<f64>,
    /// The same corrected for comparing several groups with the baseline (Holm).
    pub corrected_p: Option<f64>,
    /// The smallest p-value that so many runs can give.
    pub smallest_p: Option<f64>,
}

/// What the effects of each group but the first rest on.
pub(super) fn bases(groups: &[RunGroup]) -> Vec<Basis> {
    let starts = |group: &RunGroup| -> Vec<Timestamp> {
        group.runs.iter().map(|run| run.header.started).collect()
    };
    let base = starts(&groups[0]);
    groups[1..]
        .iter()
        .map(|group| {
            let other = starts(group);
            match (base.len(), other.len()) {
                (1, 1) => Basis::WithinRuns,
                (blocks, same) if blocks == same && take_turns(&base, &other) => {
                    Basis::Pairs { blocks }
                }
                (base, other) => Basis::Groups { base, other },
            }
        })
        .collect()
}

/// Whether the runs of two groups, each in the order of time, took turns: the n-th of
/// both were over before the next of either began.
fn take_turns(base: &[Timestamp], other: &[Timestamp]) -> bool {
    let blocks: Vec<(Timestamp, Timestamp)> =
        base.iter().zip(other).map(|(a, b)| (*a.min(b), *a.max(b))).collect();
    blocks.windows(2).all(|pair| pair[0].1 < pair[1].0)
}

/// The change of a figure between two groups; `None` where a ratio makes no sense or a
/// run does not know it.
pub(super) fn effect(
    base: &GroupValue,
    other: &GroupValue,
    within: [Option<Interval>; 2],
    basis: Basis,
) -> Option<Effect> {
    let all = |value: &GroupValue| value.runs.iter().copied().collect::<Option<Vec<f64>>>();
    let (base, other) = (all(base)?, all(other)?);
    let without_test =
        |change| Effect { change, basis, p_value: None, corrected_p: None, smallest_p: None };
    // What vanished has no logarithm, and no interval either.
    if base.iter().all(|value| *value > 0.0) && other.iter().all(|value| *value == 0.0) {
        let (confidence, method) = (Confidence::P95, Method::PairedLogRatio);
        let gone = Estimate::without_interval(-1.0, confidence, method, EstimateWarning::NoSpread);
        return Some(without_test(gone));
    }
    match basis {
        Basis::WithinRuns => {
            let change = one_against_one(base[0], other[0], within)?;
            Some(without_test(change))
        }
        Basis::Pairs { .. } => {
            let paired = paired_effect(&base, &other, Confidence::P95, 0).ok()?;
            Some(Effect {
                p_value: Some(paired.test.p_value),
                smallest_p: Some(paired.test.smallest_p),
                ..without_test(paired.change)
            })
        }
        Basis::Groups { .. } => {
            let unpaired = unpaired_effect(&base, &other, Confidence::P95, 0).ok()?;
            Some(Effect {
                p_value: Some(unpaired.test.p_value),
                smallest_p: Some(unpaired.test.smallest_p),
                ..without_test(unpaired.change)
            })
        }
    }
}

/// The ratio of two runs. Its interval adds the relative ones of both, as those of
/// independent errors.
fn one_against_one(base: f64, other: f64, within: [Option<Interval>; 2]) -> Option<Estimate> {
    if !(base > 0.0 && other > 0.0) {
        return None;
    }
    let [of_base, of_other] = within;
    let relative = |value: f64, interval: Option<Interval>| Some(interval?.half_width() / value);
    let half =
        relative(base, of_base).zip(relative(other, of_other)).map(|(a, b)| (a * a + b * b).sqrt());
    let ratio = (other / base).ln();
    let estimate = match half {
        Some(half) => Estimate::symmetric(ratio, half, Confidence::P95, Method::BatchMeans),
        None => {
            let warning = EstimateWarning::TooFewSamples { have: 1, need: 2 };
            Estimate::without_interval(ratio, Confidence::P95, Method::BatchMeans, warning)
        }
    };
    Some(estimate.map(f64::exp_m1).with_warning(EstimateWarning::SingleRun))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(seconds: &[i64]) -> Vec<Timestamp> {
        seconds.iter().map(|s| Timestamp(s * 1_000_000)).collect()
    }

    #[test]
    fn runs_took_turns_where_each_block_was_over_before_the_next() {
        let turns = |a: &[i64], b: &[i64]| take_turns(&times(a), &times(b));
        assert!(turns(&[0, 4, 8], &[2, 6, 10]));
        assert!(turns(&[0, 6, 8], &[2, 4, 10]), "any order inside a block");
        assert!(!turns(&[0, 2, 4], &[6, 8, 10]));
        assert!(!turns(&[0, 4, 5], &[2, 6, 10]));
    }

    #[test]
    fn one_against_one_has_the_precision_of_both() {
        let around = |value: f64, half| Some(Interval::between(value - half, value + half));
        let change =
            one_against_one(1_000.0, 1_100.0, [around(1_000.0, 30.0), around(1_100.0, 44.0)]);
        let change = change.unwrap();
        assert!((change.center - 0.1).abs() < 1e-9);
        // √(3² + 4²) % of 1.1.
        let interval = change.interval.unwrap();
        assert!((interval.high - (1.1 * 0.05_f64.exp() - 1.0)).abs() < 1e-9);
        assert_eq!(change.warnings, [EstimateWarning::SingleRun]);
        assert_eq!(one_against_one(0.0, 1.0, [None, None]), None);
    }
}
