//! By how much predictions err.

use walwright_stats::{Confidence, Estimate, Interval, Method};

/// What a prediction errs by beside the change it predicts, in e-folds, and for each e-fold of
/// that change: half of an interval that holds 80 % of what was measured
/// (`docs/reference/prediction.md`).
const ERROR: f64 = 0.1;
const ERROR_OF_CHANGE: f64 = 0.3;
/// What it errs by more where the whole load or machine is another, in e-folds.
pub(super) const ELSEWHERE: f64 = 0.1;
/// How often it holds it.
const HOLDS: f64 = 0.8;

/// What is added for a change of this ratio.
pub(super) fn of_change(ratio: f64) -> f64 {
    ERROR_OF_CHANGE * ratio.ln().abs()
}

/// A predicted ratio of then to now, with its interval: `ends` are the ratios at both ends of
/// what is changed, and `error` is what it errs by more, in e-folds.
pub fn around(ratio: f64, ends: [f64; 2], error: f64) -> Estimate {
    let half = |ratio: f64| (ERROR + of_change(ratio) + error).exp();
    let [low, high] = [ends[0].min(ends[1]).min(ratio), ends[0].max(ends[1]).max(ratio)];
    let confidence = Confidence::new(HOLDS).unwrap_or_default();
    Estimate {
        interval: Some(Interval { low: low / half(low), high: high * half(high) }),
        ..Estimate::symmetric(ratio, 0.0, confidence, Method::CostModel)
    }
}
