//! A sweep over clients: how throughput scales, where it peaks, and what bends it.
//!
//! [`scaling`] reads the runs of a sweep, one or several at each client count, fits the
//! universal scalability law to their throughput, and looks in the latency breakdown of each run for
//! the resource whose share of the latency grows towards the bend.

mod bend;
mod point;
mod words;

use std::time::Duration;

use serde::Serialize;
use walwright_record::{Record, RunState};
use walwright_stats::{Estimate, EstimateWarning, Load, Resampling, ScalingFit, fit_scaling};

pub use bend::{Bend, Growth};
pub use point::{PointFinding, ResourceTime, ScalingLoad, ScalingPoint, ScalingResource};

use crate::{Summary, WorkUnit};

/// Points lie further off the curve than runs of one configuration scatter: the law
/// describes something else.
const POOR_FIT: f64 = 0.1;

/// What a sweep says. In JSON times are seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scaling {
    /// The sweep's name.
    pub name: String,
    /// Name of the workload.
    pub workload: String,
    /// The target's address.
    pub target: String,
    /// What throughput counts.
    pub unit: WorkUnit,
    /// Length of the shortest measured window.
    #[serde(with = "crate::seconds")]
    pub window: Duration,
    /// Every run, by clients and then by time.
    pub points: Vec<ScalingPoint>,
    /// One entry a client count: its runs together.
    pub loads: Vec<ScalingLoad>,
    /// The law fitted; `None` where the runs do not allow it, and
    /// [`Scaling::not_fitted`] says why.
    pub fit: Option<ScalingFit>,
    /// Why there is no fit.
    pub not_fitted: Option<String>,
    /// Clients at the peak; `None` where it was not found inside the measured range.
    pub peak: Option<Estimate>,
    /// What bends the curve; `None` where no share grows beyond its interval.
    pub bend: Option<Bend>,
    /// The whole in a few sentences.
    pub verdict: Vec<String>,
    /// Runs of the sweep that are left out, each with the reason.
    pub left_out: Vec<String>,
    /// Reasons to trust it less, each a sentence.
    pub warnings: Vec<String>,
}

/// One run of a sweep, with what was read from it before.
#[derive(Debug)]
pub struct SweptRun<'r> {
    /// The record.
    pub record: &'r Record,
    /// Its summary.
    pub summary: &'r Summary,
    /// The first problem that its diagnosis names.
    pub problem: Option<PointFinding>,
}

/// Reads the runs of a sweep; `None` where none of them measured a throughput.
pub fn scaling(name: &str, runs: &[SweptRun<'_>]) -> Option<Scaling> {
    let mut left_out = Vec::new();
    let mut points: Vec<(ScalingPoint, &Record)> = Vec::new();
    for run in runs {
        let record = run.record;
        match (record.header.state, ScalingPoint::of(run)) {
            (RunState::Complete, Some(point)) => points.push((point, record)),
            (RunState::Complete, None) => {
                left_out.push(format!("run {} has no throughput", record.header.id));
            }
            (state, _) => left_out.push(format!("run {} is {}", record.header.id, state.name())),
        }
    }
    points.sort_by(|(a, _), (b, _)| a.clients.cmp(&b.clients).then_with(|| a.run.cmp(&b.run)));
    let (points, used): (Vec<ScalingPoint>, Vec<&Record>) = points.into_iter().unzip();
    let first = used.first()?;
    let loads = ScalingLoad::all(&points);
    let measured: Vec<Load> = points
        .iter()
        .map(|p| Load { clients: f64::from(p.clients), throughput: p.throughput.center })
        .collect();
    let fitted = fit_scaling(&measured, &Resampling::default());
    let (fit, not_fitted) = match fitted {
        Ok(fit) => (Some(fit), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let most = f64::from(loads.last()?.clients);
    let least = f64::from(loads.first()?.clients);
    // One that may lie anywhere in the range is not found.
    let narrowed = |peak: &Estimate| {
        let high = peak.high().filter(|_| !is_open(peak));
        peak.low() > Some(least) || high.is_some_and(|high| high < most)
    };
    let peak = fit
        .as_ref()
        .and_then(|fit| fit.peak_clients.clone())
        .filter(|peak| peak.center <= most && peak.center > least && narrowed(peak));
    let bend = bend::bend(&loads, peak.as_ref());
    let window = points.iter().map(|p| p.window).min()?;
    let mut scaling = Scaling {
        name: name.to_owned(),
        workload: first.header.workload.clone(),
        target: first.header.target.clone(),
        unit: points.first()?.unit,
        window,
        fit,
        not_fitted,
        peak,
        bend,
        verdict: Vec::new(),
        warnings: warnings(&used, &loads),
        left_out,
        points,
        loads,
    };
    if let Some(fit) = scaling.fit.as_ref().filter(|fit| fit.relative_error > POOR_FIT) {
        let off = format!(
            "the runs lie {:.0} % off the fitted curve: they scatter, or the law does not describe this load",
            fit.relative_error * 100.0
        );
        scaling.warnings.insert(0, off);
    }
    scaling.verdict = words::verdict(&scaling);
    Some(scaling)
}

/// Whether the interval of a peak has no upper end: more resamples had no peak at all than
/// lie beyond an interval.
fn is_open(peak: &Estimate) -> bool {
    let beyond = peak.confidence.alpha() / 2.0;
    peak.warnings.iter().any(|warning| match warning {
        EstimateWarning::ResamplesLost { lost, of } => *lost as f64 > beyond * *of as f64,
        _ => false,
    })
}

/// Warnings of the runs, each told once with the number of runs that have it.
fn warnings(used: &[&Record], loads: &[ScalingLoad]) -> Vec<String> {
    let mut warnings = Vec::new();
    if loads.iter().all(|load| load.runs.len() == 1) {
        warnings.push(
            "one run a client count: how much runs differ is known only from their scatter \
             around the curve; --repeats measures it"
                .to_owned(),
        );
    }
    let mut told = Vec::new();
    for warning in used.iter().flat_map(|record| &record.warnings) {
        if told.contains(&warning.code) {
            continue;
        }
        told.push(warning.code);
        let with: Vec<&&Record> = used
            .iter()
            .filter(|record| record.warnings.iter().any(|other| other.code == warning.code))
            .collect();
        warnings.push(match with.len() {
            1 => format!("run {}: {}", with[0].header.id, warning.text),
            some if some == used.len() => format!("every run, such as: {}", warning.text),
            some => format!("{some} of {} runs, such as: {}", used.len(), warning.text),
        });
    }
    warnings
}

#[cfg(test)]
mod tests;
