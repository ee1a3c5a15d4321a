//! From what cost on something is a problem.

use walwright_stats::Estimate;

use crate::{Impact, Reading};

/// Share of the latency that a problem costs at least. An experiment of six blocks
/// on a quiet machine has a noise floor of one to three percent: what costs less
/// cannot be shown to be gone, so nobody should be asked to change it.
pub(super) const WORTH: f64 = 0.05;

/// Share of the latency that the lower end of the interval reaches at least: the
/// cost is real, not an accident of a few ticks.
pub(super) const CERTAIN: f64 = 0.02;

/// Fewest times that an event is counted before a rate is made of it.
pub(super) const FEW: f64 = 20.0;

/// The impact of so many seconds a transaction, if it is large and certain enough
/// for a problem.
pub(super) fn worth(reading: &Reading, seconds: Option<Estimate>) -> Option<Impact> {
    let impact = reading.impact(seconds?)?;
    (impact.share.center >= WORTH && impact.exceeds(CERTAIN)).then_some(impact)
}
