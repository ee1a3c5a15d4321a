//! A comparison as one HTML page.

use serde::Serialize;
use walwright_figures::compare::{Comparison, Section, Verdict};

use super::ReportError;
use super::frame::rendered;
use crate::svg::Ink;
use crate::svg::overlay::{self, Curve};
use crate::{compared, format, words};

const TEMPLATE: &str = include_str!("../../templates/compare.html");

/// Colours of the groups, the baseline first; more groups begin again.
const INKS: [Ink; 6] = [Ink::Main, Ink::Second, Ink::P99, Ink::Flush, Ink::Io, Ink::Client];

#[derive(Debug, Serialize)]
struct Page {
    title: String,
    deck: String,
    groups: Vec<Group>,
    findings: Vec<Judged>,
    warnings: Vec<String>,
    throughput: Option<String>,
    latency: Option<String>,
    sections: Vec<Rows>,
    statements: Vec<Statement>,
    differences: Vec<Differs>,
}

#[derive(Debug, Serialize)]
struct Group {
    name: String,
    runs: String,
    ink: &'static str,
}

#[derive(Debug, Serialize)]
struct Judged {
    text: String,
    /// `pass`, `fail` or nothing, for its colour.
    class: &'static str,
}

#[derive(Debug, Serialize)]
struct Rows {
    heading: String,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    base: String,
    others: Vec<Other>,
}

#[derive(Debug, Serialize)]
struct Other {
    value: String,
    change: String,
    interval: String,
    /// `good`, `bad` or nothing.
    class: &'static str,
}

#[derive(Debug, Serialize)]
struct Statement {
    query: String,
    sides: Vec<[String; 4]>,
}

#[derive(Debug, Serialize)]
struct Differs {
    kind: &'static str,
    name: String,
    values: Vec<String>,
}

/// The comparison as a whole HTML page without outside resources: the runs laid over
/// each other, every figure, statements, and what differs besides.
///
/// # Errors
/// Only when the template itself is wrong, which the tests would show.
pub fn comparison(of: &Comparison) -> Result<String, ReportError> {
    rendered(TEMPLATE, &page(of))
}

fn ink(group: usize) -> Ink {
    INKS[group % INKS.len()]
}

fn page(of: &Comparison) -> Page {
    let names: Vec<&str> = of.groups.iter().map(|group| group.name.as_str()).collect();
    Page {
        title: format!("{} against {}", names[1..].join(", "), names[0]),
        deck: format!(
            "The first {} of each measured window. Costs are per {}.",
            format::length(of.window),
            of.unit.name()
        ),
        groups: of
            .groups
            .iter()
            .enumerate()
            .map(|(place, group)| Group {
                name: group.name.clone(),
                runs: group.runs.iter().map(|run| run.0.as_str()).collect::<Vec<_>>().join(", "),
                ink: ink(place).class(),
            })
            .collect(),
        findings: of
            .findings
            .iter()
            .map(|finding| Judged {
                text: finding.text.clone(),
                class: match (finding.verdict, finding.better) {
                    (Verdict::Changed, Some(true)) => "good",
                    (Verdict::Changed, Some(false)) => "bad",
                    _ => "",
                },
            })
            .collect(),
        warnings: of.warnings.iter().map(|warning| words::sentence(warning)).collect(),
        throughput: overlay::throughput(&curves(of, |run| run.throughput.clone())),
        latency: overlay::latency(&curves(of, |run| run.latency.clone())),
        sections: Section::ALL.into_iter().filter_map(|section| rows(of, section)).collect(),
        statements: of
            .statements
            .iter()
            .take(30)
            .map(|statement| Statement {
                query: statement.query.clone(),
                sides: statement
                    .groups
                    .iter()
                    .map(|side| compared::statement(side.as_ref()))
                    .collect(),
            })
            .collect(),
        differences: of
            .differences
            .iter()
            .map(|difference| Differs {
                kind: difference.kind.label(),
                name: difference.name.clone(),
                values: difference
                    .values
                    .iter()
                    .map(|value| value.clone().unwrap_or_else(|| "not known".to_owned()))
                    .collect(),
            })
            .collect(),
    }
}

fn curves(
    of: &Comparison,
    points: impl Fn(&walwright_figures::compare::RunCurve) -> Vec<(f64, f64)>,
) -> Vec<Curve> {
    of.curves
        .iter()
        .map(|run| Curve {
            name: format!("{} ({})", run.run, of.groups[run.group].name),
            ink: ink(run.group),
            points: points(run),
        })
        .collect()
}

fn rows(of: &Comparison, section: Section) -> Option<Rows> {
    let figures = compared::figures(of, section, true);
    let rows: Vec<Row> = figures
        .into_iter()
        .map(|figure| Row {
            name: figure.name.clone(),
            base: compared::value(figure.unit, figure.values[0].center),
            others: figure.values[1..]
                .iter()
                .zip(&figure.effects)
                .map(|(value, effect)| Other {
                    value: compared::value(figure.unit, value.center),
                    change: effect
                        .as_ref()
                        .map_or_else(|| "–".to_owned(), |e| compared::percent(e.change.center)),
                    interval: effect.as_ref().map(compared::interval).unwrap_or_default(),
                    class: match effect.as_ref().and_then(|e| compared::is_better(figure, e)) {
                        Some(true) => "good",
                        Some(false) => "bad",
                        None => "",
                    },
                })
                .collect(),
        })
        .collect();
    let heading = compared::heading(section, of.unit);
    (!rows.is_empty()).then_some(Rows { heading, rows })
}
