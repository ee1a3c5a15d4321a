//! Whether, and from where, a run is in steady state.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::mser::cut_in_first_half;
use crate::{Confidence, Estimate, Truncation, cliffs, drift, line_fits_better, median, mser5};

/// What counts as steady.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SteadyRule {
    /// Level of the tests for cliffs and drift.
    pub alpha: f64,
    /// Relative change of level that is tolerated although it is significant: a
    /// long run finds changes that nobody would act on.
    pub tolerance: f64,
    /// Fewest intervals that must be left after the warm-up.
    pub shortest: usize,
}

impl Default for SteadyRule {
    fn default() -> Self {
        SteadyRule { alpha: 0.01, tolerance: 0.05, shortest: 10 }
    }
}

/// The verdict on a series of equally long intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SteadyState {
    /// Steady from this interval to the end.
    Steady {
        /// Index of the first steady interval; what lies before is warm-up.
        from: usize,
    },
    /// Not steady.
    NotSteady {
        /// Why.
        why: Unsteady,
    },
}

/// Why a series is not steady.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Unsteady {
    /// Too few intervals to judge.
    TooShort {
        /// Intervals there are.
        have: usize,
        /// Intervals needed.
        need: usize,
    },
    /// The level still rises in the second half and MSER-5 finds no settled part.
    StillWarming,
    /// The level changed for good, too late to count as warm-up.
    Shifted {
        /// Index of the first interval of the new level.
        at: usize,
        /// Median before.
        before: f64,
        /// Median after.
        after: f64,
    },
    /// The level moves steadily.
    Drifting {
        /// Relative change over the series after warm-up.
        change: Estimate,
    },
}

impl fmt::Display for Unsteady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsteady::TooShort { have, need } => {
                write!(f, "{have} intervals are too few to tell; {need} are needed")
            }
            Unsteady::StillWarming => {
                f.write_str("still rising in the second half: the run is all warm-up")
            }
            Unsteady::Shifted { at, before, after } => {
                write!(f, "the level changed from {before:.0} to {after:.0} at interval {at}")
            }
            Unsteady::Drifting { change } => {
                write!(f, "drifting by {:+.1} % over the run", 100.0 * change.center)
            }
        }
    }
}

/// Cuts the warm-up and checks that the rest has neither a lasting change of
/// level nor a drift.
///
/// MSER-5 proposes the cut; as it also cuts by chance, what it removed is taken
/// back as far as its level is that of the rest within the tolerance. A cliff in
/// the first half counts as warm-up too. A dip that passes (a checkpoint, say)
/// leaves a run steady: levels are compared by the medians of everything before
/// and after a cliff.
pub fn steady_state(series: &[f64], rule: &SteadyRule) -> SteadyState {
    let not = |why| SteadyState::NotSteady { why };
    let need = rule.shortest.max(10) * 2;
    let cut = mser5(series);
    if series.len() < need || cut == Truncation::TooShort {
        return not(Unsteady::TooShort { have: series.len(), need });
    }
    let mut from = take_back(series, cut_in_first_half(series), rule.tolerance);
    let shift = loop {
        match lasting_shift(&series[from..], rule) {
            // In the first half a change of level is warm-up: begin after it.
            Some((at, ..)) if (from + at) * 2 <= series.len() => from += at,
            found => break found.map(|(at, before, after)| (from + at, before, after)),
        }
    };
    let rest = &series[from..];
    let trend = Confidence::new(1.0 - rule.alpha)
        .and_then(|confidence| drift(rest, confidence))
        .filter(|change| change.excludes(0.0) && change.center.abs() > rule.tolerance);
    let drifting = |change: Estimate| {
        if cut == Truncation::Unsettled && change.center > 0.0 {
            not(Unsteady::StillWarming)
        } else {
            not(Unsteady::Drifting { change })
        }
    };
    match (shift, trend) {
        (None, None) => SteadyState::Steady { from },
        (None, Some(change)) => drifting(change),
        (Some((at, ..)), Some(change)) if line_fits_better(rest, at - from) => drifting(change),
        (Some((at, before, after)), _) => not(Unsteady::Shifted { at, before, after }),
    }
}

/// The earliest start such that all batches of five between it and `cut` have
/// the level of the rest, within the relative tolerance.
fn take_back(series: &[f64], cut: usize, tolerance: f64) -> usize {
    let Some(level) = crate::mean(&series[cut..]) else { return cut };
    let mut from = cut;
    while from >= 5
        && crate::mean(&series[from - 5..from])
            .is_some_and(|batch| (batch - level).abs() <= tolerance * level.abs())
    {
        from -= 5;
    }
    from
}

/// The last cliff whose two sides differ by more than the tolerance in the median.
fn lasting_shift(rest: &[f64], rule: &SteadyRule) -> Option<(usize, f64, f64)> {
    let shortest = (rule.shortest / 2).max(3);
    cliffs(rest, rule.alpha, shortest).iter().rev().find_map(|cliff| {
        let (before, after) = (median(&rest[..cliff.at])?, median(&rest[cliff.at..])?);
        let moved = (after - before).abs() > rule.tolerance * before.abs();
        moved.then_some((cliff.at, before, after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    fn judge(series: &[f64]) -> SteadyState {
        steady_state(series, &SteadyRule::default())
    }

    #[test]
    fn a_level_series_is_steady() {
        let steady = (0..300_u64)
            .filter(|seed| {
                let series = Synthetic::new(*seed).ar1(60, 0.4, 5_000.0, 250.0);
                matches!(judge(&series), SteadyState::Steady { from } if from <= 30)
            })
            .count();
        assert!(steady >= 285, "{steady} of 300");
    }

    #[test]
    fn an_exponential_warm_up_is_left_out() {
        let good = (0..100)
            .filter(|seed| {
                let noise = Synthetic::new(*seed).ar1(120, 0.3, 0.0, 100.0);
                let level = |i: usize| 5_000.0 * (1.0 - 0.8 * (-(i as f64) / 6.0).exp());
                let series: Vec<f64> =
                    noise.iter().enumerate().map(|(i, e)| level(i) + e).collect();
                // At 15 s the level is within 7 % of its end.
                matches!(judge(&series), SteadyState::Steady { from: 15..=40 })
            })
            .count();
        assert!(good >= 95, "{good} of 100");
    }

    #[test]
    fn a_step_early_on_is_warm_up() {
        let mut synthetic = Synthetic::new(1);
        let mut series = synthetic.noise(12, 2_000.0, 100.0);
        series.extend(synthetic.noise(88, 5_000.0, 100.0));
        assert!(matches!(judge(&series), SteadyState::Steady { from: 12..=15 }));
    }

    #[test]
    fn a_late_step_is_a_shift() {
        let mut synthetic = Synthetic::new(2);
        let mut series = synthetic.noise(70, 5_000.0, 100.0);
        series.extend(synthetic.noise(30, 3_000.0, 100.0));
        let SteadyState::NotSteady { why: Unsteady::Shifted { at, before, after } } =
            judge(&series)
        else {
            panic!("{:?}", judge(&series));
        };
        assert_eq!(at, 70);
        assert!(before > 4_900.0 && after < 3_100.0);
    }

    #[test]
    fn a_dip_that_passes_is_steady() {
        let mut synthetic = Synthetic::new(3);
        let mut series = synthetic.noise(60, 5_000.0, 100.0);
        series.extend(synthetic.noise(10, 2_500.0, 100.0));
        series.extend(synthetic.noise(50, 5_000.0, 100.0));
        assert!(matches!(judge(&series), SteadyState::Steady { .. }), "{:?}", judge(&series));
    }

    #[test]
    fn a_slope_is_a_drift_or_still_warming() {
        for seed in 0..30 {
            let noise = Synthetic::new(seed).noise(120, 0.0, 50.0);
            let series: Vec<f64> =
                noise.iter().enumerate().map(|(i, e)| 4_000.0 + 12.0 * i as f64 + e).collect();
            assert!(
                matches!(
                    judge(&series),
                    SteadyState::NotSteady {
                        why: Unsteady::Drifting { .. } | Unsteady::StillWarming
                    }
                ),
                "seed {seed}: {:?}",
                judge(&series),
            );
        }
    }

    #[test]
    fn the_run_that_is_all_warm_up() {
        // Source diary: 17 k to 35 k over 60 s.
        let noise = Synthetic::new(4).noise(60, 0.0, 300.0);
        let series: Vec<f64> =
            noise.iter().enumerate().map(|(i, e)| 17_000.0 + 305.0 * i as f64 + e).collect();
        assert_eq!(judge(&series), SteadyState::NotSteady { why: Unsteady::StillWarming });
    }

    #[test]
    fn a_small_significant_shift_is_tolerated() {
        let mut synthetic = Synthetic::new(6);
        let mut series = synthetic.noise(150, 5_000.0, 50.0);
        series.extend(synthetic.noise(150, 5_100.0, 50.0));
        assert!(!cliffs(&series, 0.01, 5).is_empty());
        assert!(matches!(judge(&series), SteadyState::Steady { .. }));
    }

    #[test]
    fn few_intervals_are_too_few() {
        assert_eq!(
            judge(&[1.0; 12]),
            SteadyState::NotSteady { why: Unsteady::TooShort { have: 12, need: 20 } }
        );
    }
}
