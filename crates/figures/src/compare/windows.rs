//! Equal windows: figures of runs of different length are never compared as they are.

use std::time::Duration;

use walwright_record::{PhaseName, Record, RunState, Source, Window};

use super::CompareError;
use super::group::RunGroup;
use crate::WorkUnit;
use crate::window::client_unit;

/// Windows whose lengths differ by more than this part are said to.
const UNEQUAL: f64 = 0.02;
/// Windows shorter than this say little of tails, checkpoints and drift.
const SHORT: Duration = Duration::from_secs(19);

/// All runs of all groups.
pub(super) fn all(groups: &[RunGroup]) -> impl Iterator<Item = &Record> {
    groups.iter().flat_map(|group| &group.runs)
}

/// Warnings that follow from the states and lengths of the runs.
pub(super) fn warnings(groups: &[RunGroup]) -> Vec<String> {
    let mut warnings = Vec::new();
    let broken: Vec<String> = all(groups)
        .filter(|run| run.header.state != RunState::Complete)
        .map(|run| format!("{} ({})", run.header.id, run.header.state.name()))
        .collect();
    if !broken.is_empty() {
        warnings.push(format!("not every run ended as planned: {}", broken.join(", ")));
    }
    let lengths: Vec<Duration> =
        all(groups).filter_map(|run| Some(run.window()?.length())).collect();
    let (Some(shortest), Some(longest)) = (lengths.iter().min(), lengths.iter().max()) else {
        return warnings;
    };
    let (shortest, longest) = (shortest.as_secs_f64(), longest.as_secs_f64());
    if longest > shortest * (1.0 + UNEQUAL) {
        warnings.push(format!(
            "the windows are {shortest:.0} to {longest:.0} s long: of each the first {shortest:.0} s are compared"
        ));
    }
    if shortest < SHORT.as_secs_f64() {
        warnings.push(format!(
            "windows of {shortest:.0} s are short for tail latencies, drift and checkpoints"
        ));
    }
    warnings
}

/// Cuts the windows of all runs to the shortest one, from their begin on: what comes
/// after a settled beginning is the same stretch of each. Returns its length.
pub(super) fn equalise(groups: &mut [RunGroup]) -> Result<Duration, CompareError> {
    let mut shortest = Duration::MAX;
    for run in all(groups) {
        let window = run.window().ok_or_else(|| CompareError::NoWindow(run.header.id.clone()))?;
        shortest = shortest.min(window.length());
    }
    for run in groups.iter_mut().flat_map(|group| &mut group.runs) {
        for phase in run.phases.iter_mut().filter(|phase| phase.name == PhaseName::Measure) {
            phase.end = Some(phase.start.plus(shortest));
        }
    }
    Ok(shortest)
}

/// The unit that all runs count their work in. Where they differ, all are brought to
/// the commits of the server: what their clients counted is then no longer divided by.
pub(super) fn one_unit(groups: &mut [RunGroup], warnings: &mut Vec<String>) -> WorkUnit {
    let unit_of = |run: &Record| {
        if run.intervals.is_empty() { WorkUnit::Commit } else { client_unit(run) }
    };
    let mut units: Vec<WorkUnit> = all(groups).map(unit_of).collect();
    units.dedup();
    if let [unit] = units[..] {
        return unit;
    }
    warnings
        .push("the runs count different things: only figures per commit are compared".to_owned());
    for run in groups.iter_mut().flat_map(|group| &mut group.runs) {
        run.intervals.clear();
    }
    WorkUnit::Commit
}

/// Commits a second between the samples inside a window, at seconds since its begin.
pub fn commit_rates(record: &Record, window: Window) -> Vec<(f64, f64)> {
    let inside: Vec<_> = record
        .samples(Source::Database)
        .iter()
        .filter(|sample| window.contains(sample.at))
        .filter_map(|sample| Some((sample.at, sample.rows.first()?.number("xact_commit")?)))
        .collect();
    inside
        .windows(2)
        .filter_map(|pair| {
            let [(from, before), (to, after)] = [pair[0], pair[1]];
            let seconds = to.since(from).as_secs_f64();
            let middle = (from.seconds_from(window.start) + to.seconds_from(window.start)) / 2.0;
            (seconds > 0.0 && after >= before).then(|| (middle, (after - before) / seconds))
        })
        .collect()
}
