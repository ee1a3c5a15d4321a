//! From what cost on something is a problem.

use walwright_stats::Estimate;

use crate::{Gain, Impact, Reading};

/// Share of the latency that a problem costs at least. An experiment of six blocks
/// on a quiet machine has a noise floor of one to three percent: what costs less
/// cannot be shown to be gone, so nobody should be asked to change it.
pub(super) const WORTH: f64 = 0.05;

/// Share of the latency that the lower end of the interval reaches at least: the
/// cost is real, not an accident of a few ticks.
pub(super) const CERTAIN: f64 = 0.02;

/// Share of the latency from which a cost that depends on the load's habits, not on
/// a plain defect, is a problem: below it a fix is lost in the noise of a run.
const MATERIAL: f64 = 0.02;

/// Predicted rise of throughput from which it is one whatever its share: on a full machine a
/// little CPU is much throughput.
const GAINS: f64 = 0.03;

/// Fewest times that an event is counted before a rate is made of it.
pub(super) const FEW: f64 = 20.0;

/// The impact of so many seconds a transaction, if it is large and certain enough
/// for a problem.
pub(super) fn worth(reading: &Reading, seconds: Option<Estimate>) -> Option<Impact> {
    let impact = reading.impact(seconds?)?;
    (impact.share.center >= WORTH && impact.exceeds(CERTAIN)).then_some(impact)
}

/// Whether a fix shows in an experiment, by what it costs or by what it is predicted to gain.
pub(super) fn matters(impact: &Impact, gain: Option<&Gain>) -> bool {
    let gains = gain.and_then(|gain| gain.throughput.as_ref()).is_some_and(|t| t.center >= GAINS);
    impact.share.center >= MATERIAL || gains
}
