//! What someone claims of an arm, beside what was measured.

use serde::{Deserialize, Serialize};
use walwright_stats::{Estimate, Interval, Verdict};

use super::{Judged, MetricKind};

/// What someone claims of an arm, beside what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClaimMet {
    /// The arm.
    pub arm: String,
    /// The claim in words.
    pub text: String,
    /// The arm that it is compared with, where that is not the baseline.
    pub than: Option<String>,
    /// The figure it is about; `None` for a claim without one.
    pub metric: Option<MetricKind>,
    /// The relative change that is claimed: both ends, which may be the same.
    pub claimed: Option<Interval>,
    /// The measured relative change.
    pub measured: Option<Estimate>,
    /// The arm alone against what the claim compares it with.
    #[serde(skip)]
    pub judged: Option<Judged>,
    /// Whether it holds; `None` for a claim without a change.
    pub held: Option<ClaimHeld>,
    /// What the arm may lose: class and words.
    pub durability: String,
}

/// Whether a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimHeld {
    /// There is an effect beyond noise, and its interval meets the claim; or none is claimed, and
    /// the whole interval is that small.
    Yes,
    /// There is an effect beyond noise in the claimed direction, of another size.
    Direction,
    /// What was measured rules it out.
    No,
    /// What was measured rules out neither it nor its contrary.
    Open,
}

impl ClaimHeld {
    /// Holds a claimed change against the only arm of `judged`. One figure is met by what
    /// differs from it by no more than `negligible`.
    pub fn of(claimed: Interval, judged: &Judged, negligible: f64) -> ClaimHeld {
        let arm = judged.arms.first();
        let effect = arm.and_then(|arm| arm.effect.as_ref());
        let Some(seen) = effect.and_then(|effect| effect.change.interval) else {
            return ClaimHeld::Open;
        };
        let verdict = arm.and_then(|arm| arm.verdict);
        let beyond_noise = matches!(verdict, Some(Verdict::Proven | Verdict::Screened));
        let claimed = match claimed.low == claimed.high {
            true => Interval::between(claimed.low - negligible, claimed.high + negligible),
            false => claimed,
        };
        let meets = seen.low <= claimed.high && seen.high >= claimed.low;
        if claimed.contains(0.0) {
            return match claimed.contains(seen.low) && claimed.contains(seen.high) {
                true => ClaimHeld::Yes,
                false if beyond_noise && !meets => ClaimHeld::No,
                false => ClaimHeld::Open,
            };
        }
        match (meets, beyond_noise) {
            (true, true) => ClaimHeld::Yes,
            (true, false) => ClaimHeld::Open,
            (false, true) if (seen.low > 0.0) == (claimed.low > 0.0) => ClaimHeld::Direction,
            (false, _) => ClaimHeld::No,
        }
    }

    /// In words, behind what is claimed.
    pub fn words(self) -> &'static str {
        match self {
            ClaimHeld::Yes => "holds",
            ClaimHeld::Direction => "holds in its direction, not in its size",
            ClaimHeld::No => "does not hold",
            ClaimHeld::Open => "stays open",
        }
    }
}

#[cfg(test)]
mod tests {
    use walwright_stats::Confidence;

    use super::super::{Arm, judge};
    use super::*;
    use crate::compare::{Better, FigureUnit};

    /// How a claim of a change stands, if the arm's values are `by` times the baseline's, give or
    /// take `noise` of them.
    fn held(low: f64, high: f64, by: f64, noise: f64) -> ClaimHeld {
        let swing = [0.9, -1.1, 0.4, -0.3, 1.2, -0.8];
        let values = |by: f64, turned: usize| -> Vec<Option<f64>> {
            (0..6).map(|at| Some(100.0 * by * (1.0 + noise * swing[(at + turned) % 6]))).collect()
        };
        let metric = MetricKind {
            key: "throughput".to_owned(),
            name: "throughput".to_owned(),
            unit: FigureUnit::PerSecond,
            better: Better::Higher,
            expression: None,
        };
        let arm = Arm { name: "arm".to_owned(), values: values(by, 1) };
        let (base, again) = (values(1.0, 0), values(1.0, 2));
        let judged = judge(metric, &base, &again, &[arm], Confidence::P95, 1);
        ClaimHeld::of(Interval::between(low, high), &judged, 0.02)
    }

    #[test]
    fn a_claim_holds_beyond_noise_alone() {
        assert_eq!(held(0.2, 0.3, 1.25, 0.002), ClaimHeld::Yes);
        assert_eq!(held(0.24, 0.24, 1.25, 0.002), ClaimHeld::Yes);
        assert_eq!(held(0.5, 0.6, 1.25, 0.002), ClaimHeld::Direction);
        assert_eq!(held(-0.6, -0.5, 1.25, 0.002), ClaimHeld::No);
        assert_eq!(held(0.5, 0.6, 1.0, 0.002), ClaimHeld::No);
        assert_eq!(held(0.02, 0.3, 1.03, 0.1), ClaimHeld::Open);
    }

    #[test]
    fn no_effect_is_shown_by_a_narrow_interval_and_not_by_a_wide_one() {
        assert_eq!(held(0.0, 0.0, 1.0, 0.002), ClaimHeld::Yes);
        assert_eq!(held(0.0, 0.0, 1.0, 0.1), ClaimHeld::Open);
        assert_eq!(held(0.0, 0.0, 1.25, 0.002), ClaimHeld::No);
    }
}
