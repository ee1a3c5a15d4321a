//! What may be said of a comparison, in sentences.

use serde::Serialize;
use walwright_stats::coefficient_of_variation;

use super::compared_figure::ComparedFigure;
use super::divergence::{Divergence, DivergenceKind};
use super::effect::{Basis, Effect};
use super::group::RunGroup;
use crate::Summary;
use crate::figure_unit::Better;

/// What may be said of the figure that is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The test rejects "no change" and the interval leaves out zero.
    Changed,
    /// The interval leaves out zero, but so few runs cannot prove a change.
    Screened,
    /// The data leave it open.
    Open,
    /// One run against one: nothing is proven.
    Unproven,
    /// The figure is not known on both sides.
    Unknown,
}

/// What is said of one group against the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Name of the group.
    pub group: String,
    /// Key of the figure that is judged: throughput or, where that is given from outside
    /// (open loop), the 99th percentile of latency.
    pub figure: String,
    /// Its change.
    pub effect: Option<Effect>,
    /// What may be said.
    pub verdict: Verdict,
    /// Whether the change is to the better, where there is one.
    pub better: Option<bool>,
    /// All of it in words.
    pub text: String,
}

/// What is said of every group but the first.
pub(super) fn findings(
    groups: &[RunGroup],
    figures: &[ComparedFigure],
    bases: &[Basis],
    differences: &[Divergence],
    open_loop: bool,
) -> Vec<Finding> {
    let keys: &[&str] = if open_loop {
        &["latency_p99", "latency_mean", "throughput", "commits"]
    } else {
        &["throughput", "commits"]
    };
    (1..groups.len())
        .map(|group| {
            let judged = keys.iter().find_map(|key| {
                let figure = figures.iter().find(|figure| figure.key == *key)?;
                figure.effects[group - 1].is_some().then_some(figure)
            });
            let names = [&*groups[0].name, &*groups[group].name];
            let mut found = finding(names[0], names[1], judged, group, bases[group - 1]);
            if let Some(other_work) = other_work(names, group, differences) {
                found.text = format!("{other_work} {}", found.text);
            }
            found
        })
        .collect()
}

/// That a group did other work than the baseline, which goes before any figure.
fn other_work([base, name]: [&str; 2], group: usize, differences: &[Divergence]) -> Option<String> {
    /// Longer values, as the text of a script, are only named.
    const LONGEST: usize = 40;
    let differs: Vec<String> = differences
        .iter()
        .filter(|of| of.kind == DivergenceKind::Workload && of.values[0] != of.values[group])
        .map(|of| match (&of.values[0], &of.values[group]) {
            (Some(before), Some(after)) if before.len().max(after.len()) <= LONGEST => {
                format!("{} {before} → {after}", of.name)
            }
            _ => of.name.clone(),
        })
        .collect();
    (!differs.is_empty()).then(|| {
        format!(
            "{name} did other work than {base} ({}), so their figures are not of the same thing.",
            differs.join(", ")
        )
    })
}

fn finding(
    base: &str,
    name: &str,
    judged: Option<&ComparedFigure>,
    group: usize,
    basis: Basis,
) -> Finding {
    let effect = judged.and_then(|figure| figure.effects[group - 1].clone());
    let (Some(figure), Some(effect)) = (judged, effect) else {
        return Finding {
            group: name.to_owned(),
            figure: String::new(),
            effect: None,
            verdict: Verdict::Unknown,
            better: None,
            text: format!("Neither throughput nor commits are known of both {base} and {name}."),
        };
    };
    let verdict = judge(&effect);
    let center = effect.change.center;
    let better = figure.better.map(|better| match better {
        Better::Higher => center > 0.0,
        Better::Lower => center < 0.0,
    });
    let text = format!("{} {}", said(base, name, figure, &effect), meant(verdict, &effect, basis));
    Finding {
        group: name.to_owned(),
        figure: figure.key.clone(),
        effect: Some(effect),
        verdict,
        better,
        text,
    }
}

fn judge(effect: &Effect) -> Verdict {
    let alpha = effect.change.confidence.alpha();
    match (effect.corrected_p, effect.smallest_p) {
        _ if effect.basis == Basis::WithinRuns => Verdict::Unproven,
        _ if !effect.change.excludes(0.0) => Verdict::Open,
        (Some(p), _) if p <= alpha => Verdict::Changed,
        (_, Some(smallest)) if smallest > alpha => Verdict::Screened,
        _ => Verdict::Open,
    }
}

/// The change in words.
fn said(base: &str, name: &str, figure: &ComparedFigure, effect: &Effect) -> String {
    let center = effect.change.center;
    let figure_name = match figure.key.as_str() {
        "latency_p99" => "p99 latency",
        _ => figure.name.as_str(),
    };
    let way = if center >= 0.0 { "higher" } else { "lower" };
    let interval = match (effect.change.interval, effect.basis) {
        (Some(interval), Basis::WithinRuns) => format!(
            " ({} to {} by the precision inside the runs)",
            percent(interval.low),
            percent(interval.high)
        ),
        (Some(interval), _) => {
            let p = effect.corrected_p.map(|p| format!(", p = {p:.3}")).unwrap_or_default();
            let (low, high) = (percent(interval.low), percent(interval.high));
            format!(" (95 % interval {low} to {high}{p})")
        }
        (None, _) => String::new(),
    };
    format!(
        "{} of {name} is {:.1} % {way} than of {base}{interval}.",
        capital(figure_name),
        center.abs() * 100.0
    )
}

/// What that means in words.
fn meant(verdict: Verdict, effect: &Effect, basis: Basis) -> String {
    let runs = match basis {
        Basis::WithinRuns => "one run a side".to_owned(),
        Basis::Pairs { blocks } => format!("{blocks} pairs of runs that took turns"),
        Basis::Groups { base, other } => format!("{base} and {other} runs that did not take turns"),
    };
    match verdict {
        Verdict::Unproven => {
            "One run against one proves nothing: runs of the same configuration differ too."
                .to_owned()
        }
        Verdict::Changed => format!("There is a change: {runs}."),
        Verdict::Screened => format!(
            "Screening only: {runs} cannot give a p-value below {:.3}, so this may be worth measuring again with more.",
            effect.smallest_p.unwrap_or(1.0)
        ),
        Verdict::Open | Verdict::Unknown => {
            format!("The data leave open whether there is a change: {runs}.")
        }
    }
}

fn percent(share: f64) -> String {
    let sign = if share < 0.0 { "−" } else { "+" };
    format!("{sign}{:.1} %", share.abs() * 100.0)
}

fn capital(text: &str) -> String {
    // p99 stays p99.
    if text.starts_with("p9") {
        return text.to_owned();
    }
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Reasons to trust the whole comparison less.
pub(super) fn warnings(
    groups: &[RunGroup],
    summaries: &[Vec<Summary>],
    differences: &[Divergence],
    bases: &[Basis],
) -> Vec<String> {
    let mut warnings = Vec::new();
    let of_kind = |kind: DivergenceKind| differences.iter().filter(move |d| d.kind == kind).count();
    let settings = of_kind(DivergenceKind::Setting);
    let changed = settings
        + of_kind(DivergenceKind::Load)
        + of_kind(DivergenceKind::Server)
        + of_kind(DivergenceKind::Schema)
        + of_kind(DivergenceKind::Host);
    if changed > 1 {
        warnings.push(format!(
            "{changed} things differ at once ({settings} of them settings), so the cause is not one of them alone"
        ));
    }
    if of_kind(DivergenceKind::Noise) > 0 {
        warnings.push(
            "the machine was not the same in all runs (see the differences of kind noise)"
                .to_owned(),
        );
    }
    let completed = |summary: &Summary| summary.checkpoints.as_ref().map(|seen| seen.completed > 0);
    let mut seen: Vec<bool> = summaries.iter().flatten().filter_map(completed).collect();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() > 1 {
        warnings.push(
            "only some windows contain a checkpoint: WAL and full-page images differ by that alone"
                .to_owned(),
        );
    }
    let apart = bases
        .iter()
        .any(|basis| matches!(basis, Basis::Groups { base, other } if *base > 1 || *other > 1));
    if apart {
        warnings.push("the groups did not take turns (A1 B1 A2 B2 …): drift between them looks like an effect".to_owned());
    }
    if let Some(scatter) = scatter(&summaries[0]) {
        warnings.push(format!(
            "the {} runs of {} scatter by {:.1} % (standard deviation of throughput); without an A/A group a change of that size is not told from noise",
            groups[0].runs.len(),
            groups[0].name,
            scatter * 100.0
        ));
    }
    warnings
}

/// Scatter of the throughput of a group's runs, as a part of its mean.
fn scatter(runs: &[Summary]) -> Option<f64> {
    let rates: Vec<f64> = runs
        .iter()
        .filter_map(|run| match &run.load {
            Some(load) => Some(load.throughput.as_ref()?.center),
            None => Some(run.server_load.as_ref()?.commits_per_second.as_ref()?.center),
        })
        .collect();
    coefficient_of_variation(&rates)
}
