//! What remains when the first problems are gone.

use serde::Serialize;
use walwright_stats::Estimate;

use crate::gain::{Bottleneck, Relief};
use crate::{DiagnosisId, Finding, Kind, Reading};

/// Problems that are taken together at most: of more, what each was charged with overlaps.
const MOST: usize = 3;

/// What fixing a problem is predicted to give once those before it are fixed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// The problem.
    pub id: DiagnosisId,
    /// What it is about, where there may be several of one id.
    pub subject: Option<String>,
    /// Rise of throughput over that of the record with this and all before it fixed, 0.06 is
    /// 6 %; `None` in an open loop.
    pub throughput: Option<Estimate>,
    /// The same as a fall of the mean latency, 0 to 1.
    pub latency: Estimate,
    /// What limits then.
    pub next: Option<Bottleneck>,
}

/// The first problems, fixed one after another; empty where fewer than two have a gain or the
/// load has no model.
pub(crate) fn outlook(reading: &Reading, findings: &[Finding]) -> Vec<Step> {
    let Ok(calibration) = &reading.calibration else { return Vec::new() };
    let problems = findings.iter().filter(|f| f.kind == Kind::Problem);
    let with_gain: Vec<(&Finding, &Relief)> =
        problems.filter_map(|f| Some((f, &f.gain.as_ref()?.relief))).take(MOST).collect();
    if with_gain.len() < 2 {
        return Vec::new();
    }
    let mut fixed = Vec::new();
    let steps = with_gain.into_iter().map(|(finding, relief)| {
        fixed.push(relief);
        let gain = Relief::gain_together(&fixed, calibration);
        Step {
            id: finding.id,
            subject: finding.subject.clone(),
            throughput: gain.throughput,
            latency: gain.latency,
            next: gain.next,
        }
    });
    steps.collect()
}
