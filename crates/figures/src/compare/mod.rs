//! Runs against runs: what changed, by how much, and what it may be due to.
//!
//! [`compare`] cuts the windows of all runs to one length, takes every figure per
//! unit of work inside it, and says for each what changed against the baseline. One run
//! against one gives an effect with the precision inside the runs, and the sentence
//! that it proves nothing, because how much runs of one configuration differ is not
//! in it. Groups give intervals and tests between runs.

mod compared_figure;
mod differences;
mod divergence;
mod effect;
mod figures;
mod group;
mod host_differences;
mod limits;
mod percentile;
mod statements;
mod verdict;
mod windows;

use std::time::Duration;

use serde::Serialize;
use thiserror::Error;
use walwright_record::{LatencyHistogram, Record, RunId, Schedule};

use crate::limit::{JudgedLimit, Limit};
use crate::{Summary, WorkUnit, load, transactions};

pub use crate::figure_unit::{Better, FigureUnit};
pub use compared_figure::{ComparedFigure, Section};
pub use divergence::{Divergence, DivergenceKind};
pub use effect::{Basis, Effect};
pub use figures::{FigureKind, figure_kinds, run_figures};
pub use group::{GroupValue, RunGroup};
pub use percentile::{latency_percentile, latency_percentile_kind};
pub use statements::{ComparedStatement, StatementSide, compared as compared_statements};
pub use verdict::{Finding, Verdict};
pub use windows::commit_rates;

/// Runs that cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CompareError {
    /// A group without runs.
    #[error("the group '{0}' has no runs")]
    EmptyGroup(String),
    /// Nothing to compare with.
    #[error("a comparison needs a baseline and at least one other")]
    OneGroup,
    /// A run without figures.
    #[error("run {0} has no measured window, so it has no figures to compare")]
    NoWindow(RunId),
    /// One run twice.
    #[error("run {0} is named twice: a run cannot be compared with itself")]
    Twice(RunId),
}

/// What comparing came to. In JSON times are seconds and sizes bytes; changes are relative,
/// 0.05 is 5 % more than the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The groups, the baseline first.
    pub groups: Vec<GroupFacts>,
    /// Length that the windows of all runs were cut to.
    #[serde(with = "crate::seconds")]
    pub window: Duration,
    /// What figures per unit of work are per.
    pub unit: WorkUnit,
    /// What is judged of each group but the baseline, in their order.
    pub findings: Vec<Finding>,
    /// Every figure.
    pub figures: Vec<ComparedFigure>,
    /// Statements matched by their text, the largest change of time first.
    pub statements: Vec<ComparedStatement>,
    /// What differs between the groups besides the figures, and could explain them.
    pub differences: Vec<Divergence>,
    /// Reasons to trust the comparison less, each a sentence.
    pub warnings: Vec<String>,
    /// Limits that each group but the baseline was held against.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<JudgedLimit>,
    /// The runs as curves.
    #[serde(skip)]
    pub curves: Vec<RunCurve>,
}

/// The runs of a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupFacts {
    /// What a person calls it.
    pub name: String,
    /// Its runs, in the order of time.
    pub runs: Vec<RunId>,
}

/// A run as curves, to be laid over others.
#[derive(Debug, Clone, PartialEq)]
pub struct RunCurve {
    /// Its group, the baseline is 0.
    pub group: usize,
    /// Its name.
    pub run: RunId,
    /// Work a second as long as the load lasted, at seconds since it began.
    pub throughput: Vec<(f64, f64)>,
    /// The measured window on that clock, in seconds.
    pub window: (f64, f64),
    /// Latency in seconds at percentiles from 0 to 100; empty where single ones are not
    /// known.
    pub latency: Vec<(f64, f64)>,
}

/// Compares groups of runs with the first of them. The order of runs inside a group
/// does not matter.
///
/// # Errors
/// When a group is empty, a run has no window, or is there twice.
pub fn compare(groups: Vec<RunGroup>) -> Result<Comparison, CompareError> {
    compare_within(groups, &[])
}

/// The same, and what came of limits.
///
/// # Errors
/// As of [`compare`].
pub fn compare_within(
    mut groups: Vec<RunGroup>,
    limits: &[Limit],
) -> Result<Comparison, CompareError> {
    check(&groups)?;
    groups.iter_mut().for_each(|group| group.runs.sort_by_key(|run| run.header.started));
    let mut warnings = windows::warnings(&groups);
    let window = windows::equalise(&mut groups)?;
    let loads: Vec<Vec<Option<crate::LoadSummary>>> = groups
        .iter()
        .map(|group| group.runs.iter().map(|run| load::load_summary(run, run.window()?)).collect())
        .collect();
    let curves = curves(&groups);
    let limits = limits::judged(limits, &groups, &loads);
    let unit = windows::one_unit(&mut groups, &mut warnings);
    let summaries: Vec<Vec<Summary>> = groups
        .iter()
        .zip(loads)
        .map(|(group, loads)| {
            let both = group.runs.iter().zip(loads);
            both.map(|(run, load)| Summary { load, ..crate::summary(run) }).collect()
        })
        .collect();
    let basis = effect::bases(&groups);
    let figures = figures::compared(&groups, &summaries, &basis);
    let statements = statements::compared(&groups);
    let differences = differences::differences(&groups, &summaries);
    warnings.extend(verdict::warnings(&groups, &summaries, &differences, &basis));
    let open = groups[0].runs.iter().any(|run| {
        matches!(run.load.as_ref().map(|load| load.schedule), Some(Schedule::Open { .. }))
    });
    let findings = verdict::findings(&groups, &figures, &basis, &differences, open);
    let facts = groups.iter().map(|group| GroupFacts {
        name: group.name.clone(),
        runs: group.runs.iter().map(|run| run.header.id.clone()).collect(),
    });
    Ok(Comparison {
        groups: facts.collect(),
        window,
        unit,
        findings,
        figures,
        statements,
        differences,
        warnings,
        limits,
        curves,
    })
}

fn check(groups: &[RunGroup]) -> Result<(), CompareError> {
    if groups.len() < 2 {
        return Err(CompareError::OneGroup);
    }
    let mut seen: Vec<&RunId> = Vec::new();
    for group in groups {
        if group.runs.is_empty() {
            return Err(CompareError::EmptyGroup(group.name.clone()));
        }
        for run in &group.runs {
            if seen.contains(&&run.header.id) {
                return Err(CompareError::Twice(run.header.id.clone()));
            }
            seen.push(&run.header.id);
        }
    }
    Ok(())
}

fn curves(groups: &[RunGroup]) -> Vec<RunCurve> {
    let mut curves = Vec::new();
    for (group, runs) in groups.iter().enumerate() {
        for run in &runs.runs {
            curves.extend(curve(group, run));
        }
    }
    curves
}

fn curve(group: usize, record: &Record) -> Option<RunCurve> {
    let window = record.window()?;
    let mut merged = LatencyHistogram::new();
    for interval in crate::intervals_inside(record, window) {
        interval.scripts.iter().for_each(|script| script.latency.add_to(&mut merged));
    }
    let first = record.intervals.iter().map(|interval| interval.start).min();
    let begun = first.map_or(window.start, |first| first.min(window.start));
    let mut throughput = Vec::new();
    for interval in &record.intervals {
        let seconds = interval.length.as_secs_f64();
        // A stub at the end would be mostly noise.
        if seconds >= 0.5 {
            let middle = interval.start.plus(interval.length / 2).seconds_from(begun);
            throughput.push((middle, transactions(interval) as f64 / seconds));
        }
    }
    if throughput.is_empty() {
        let late = window.start.seconds_from(begun);
        let rates = windows::commit_rates(record, window).into_iter();
        throughput = rates.map(|(at, rate)| (at + late, rate)).collect();
    }
    let window = (window.start.seconds_from(begun), window.end.seconds_from(begun));
    let all = merged.count() as f64;
    let mut below = 0;
    let latency = merged
        .buckets()
        .map(|(edge, count)| {
            below += count;
            (below as f64 / all * 100.0, edge.as_secs_f64())
        })
        .collect();
    Some(RunCurve { group, run: record.header.id.clone(), throughput, window, latency })
}

#[cfg(test)]
mod tests;
