//! An experiment as one HTML page.

use serde::Serialize;
use walwright_figures::WaitClass;
use walwright_figures::experiment::{ArmOutcome, Judged, JudgedArm, Outcome, TimeBook};
use walwright_stats::Verdict;

use super::ReportError;
use super::frame::rendered;
use crate::compare::words::{percent, statement, value};
use crate::svg::forest::{self, Row};
use crate::{experimented as say, format, words};

const TEMPLATE: &str = include_str!("../../templates/experiment.html");

#[derive(Debug, Serialize)]
struct Page {
    title: String,
    question: Option<String>,
    id: String,
    baseline: Vec<String>,
    progress: String,
    findings: Vec<Finding>,
    prediction: Option<String>,
    warnings: Vec<String>,
    metrics: Vec<Metric>,
    arms: Vec<Arm>,
    blocks: Vec<Block>,
    columns: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Finding {
    text: String,
    class: &'static str,
}

#[derive(Debug, Serialize)]
struct Metric {
    title: String,
    lede: String,
    level: String,
    forest: Option<String>,
    rows: Vec<Effect>,
}

#[derive(Debug, Serialize)]
struct Effect {
    name: String,
    value: String,
    change: String,
    interval: String,
    p: String,
    verdict: &'static str,
    class: &'static str,
}

#[derive(Debug, Serialize)]
struct Arm {
    name: String,
    changes: Vec<String>,
    failed: Option<String>,
    outlook: Option<String>,
    bars: Vec<Bar>,
    reasons: Vec<Cause>,
    statements: Vec<Statement>,
}

/// The time of a transaction as a bar.
#[derive(Debug, Serialize)]
struct Bar {
    name: &'static str,
    whole: String,
    /// Width of the whole, in percent of the longer bar.
    width: f64,
    parts: Vec<Part>,
}

#[derive(Debug, Serialize)]
struct Part {
    name: String,
    time: String,
    ink: &'static str,
    weight: f64,
    /// The name, where there is room for it.
    inside: String,
}

#[derive(Debug, Serialize)]
struct Cause {
    name: String,
    baseline: String,
    arm: String,
    change: String,
    interval: String,
    class: &'static str,
}

#[derive(Debug, Serialize)]
struct Statement {
    query: String,
    sides: Vec<[String; 4]>,
}

#[derive(Debug, Serialize)]
struct Block {
    number: usize,
    runs: Vec<String>,
}

/// The experiment as a whole HTML page without outside resources.
///
/// # Errors
/// Only when the template itself is wrong, which the tests would show.
pub fn experiment(of: &Outcome) -> Result<String, ReportError> {
    rendered(TEMPLATE, &page(of))
}

fn page(of: &Outcome) -> Page {
    let judged = [(&of.judged, Role::Judged)];
    let contrasts = of.contrasts.iter().map(|c| (c, Role::Contrasts));
    let others = of.others.iter().map(|o| (o, Role::Beside));
    let metrics = judged.into_iter().chain(contrasts).chain(others);
    Page {
        title: of.name.clone(),
        question: of.question.clone(),
        id: of.id.clone(),
        baseline: of.baseline.clone(),
        progress: say::progress(of),
        findings: of
            .judged
            .arms
            .iter()
            .map(|arm| Finding { text: say::sentence(arm, &of.judged), class: class(arm) })
            .collect(),
        prediction: of.prediction.as_ref().map(say::prediction),
        warnings: of.warnings.iter().map(|warning| words::sentence(warning)).collect(),
        metrics: metrics.map(|(metric, role)| section(metric, role)).collect(),
        arms: of
            .arms
            .iter()
            .enumerate()
            .map(|(place, arm)| {
                let outlook = of.outlooks.get(place).and_then(Option::as_ref);
                story(arm, outlook.and_then(|o| say::prospect(o, of.negligible)))
            })
            .collect(),
        blocks: blocks(of),
        columns: ["baseline", "baseline again"]
            .into_iter()
            .map(str::to_owned)
            .chain(of.arms.iter().map(|arm| arm.name.clone()))
            .collect(),
    }
}

/// What a table of effects is for.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Judged,
    Contrasts,
    Beside,
}

fn section(of: &Judged, role: Role) -> Metric {
    let name = words::capital(&of.metric.name);
    let baseline = value(of.metric.unit, of.baseline);
    let (title, lede) = match role {
        Role::Judged => {
            let expression = of.metric.expression.as_ref();
            let cost = expression.map(|e| format!(" Cost is {e}; less is better."));
            (
                format!("{name}: baseline {baseline}"),
                format!("{}{}", say::floor(of), cost.unwrap_or_default()),
            )
        }
        Role::Contrasts => (
            "Main effects and interactions".to_owned(),
            "A main effect is over all combinations of the other factors. An interaction is what two factors give together beyond the product of both.".to_owned(),
        ),
        Role::Beside => (
            format!("{name}: baseline {baseline}"),
            "Told beside the metric that is judged: nothing is claimed of it.".to_owned(),
        ),
    };
    Metric {
        title,
        lede,
        level: format::percent(of.confidence.level()).replace(".0", ""),
        forest: forest::forest(
            &rows(of, role),
            of.floor.as_ref().and_then(|floor| floor.relative),
            &format!("Effect of every arm on {}", of.metric.name),
        ),
        rows: of.arms.iter().map(|arm| effect(arm, of, role)).collect(),
    }
}

/// The arms, and the baseline against itself below them.
fn rows(of: &Judged, role: Role) -> Vec<Row> {
    let mut rows: Vec<Row> = of.arms.iter().filter_map(|arm| row(arm, role)).collect();
    if let Some(floor) = of.floor.as_ref().filter(|_| !rows.is_empty()) {
        let itself = &floor.against_itself;
        rows.push(Row {
            name: "baseline again (A/A)".to_owned(),
            center: itself.change.center,
            interval: itself.change.interval.map(|interval| (interval.low, interval.high)),
            blocks: itself.log_ratios.iter().map(|ratio| ratio.exp_m1()).collect(),
            class: "",
            note: percent(itself.change.center),
        });
    }
    rows
}

fn row(arm: &JudgedArm, role: Role) -> Option<Row> {
    let effect = arm.effect.as_ref()?;
    Some(Row {
        name: arm.name.clone(),
        center: effect.change.center,
        interval: effect.change.interval.map(|interval| (interval.low, interval.high)),
        blocks: effect.log_ratios.iter().map(|ratio| ratio.exp_m1()).collect(),
        class: if role == Role::Beside { "" } else { class(arm) },
        note: match role {
            Role::Beside => percent(effect.change.center),
            _ => format!("{}, {}", percent(effect.change.center), say::verdict(arm)),
        },
    })
}

fn effect(arm: &JudgedArm, of: &Judged, role: Role) -> Effect {
    let change = arm.effect.as_ref().map(|effect| &effect.change);
    Effect {
        name: arm.name.clone(),
        value: value(of.metric.unit, arm.value),
        change: change.map_or_else(|| "–".to_owned(), |change| percent(change.center)),
        interval: change.map(say::interval).unwrap_or_default(),
        p: arm.corrected_p.map(say::p_value).unwrap_or_default(),
        verdict: if role == Role::Beside { "" } else { say::verdict(arm) },
        class: if role == Role::Beside { "" } else { class(arm) },
    }
}

/// A colour where something is claimed.
fn class(arm: &JudgedArm) -> &'static str {
    let claimed = matches!(arm.verdict, Some(Verdict::Proven | Verdict::Screened));
    match arm.better.filter(|_| claimed) {
        Some(true) => "good",
        Some(false) => "bad",
        None => "",
    }
}

fn story(of: &ArmOutcome, outlook: Option<String>) -> Arm {
    Arm {
        name: of.name.clone(),
        changes: of.changes.clone(),
        failed: of.failed.clone(),
        outlook,
        bars: bars(&of.time),
        reasons: of
            .reasons
            .iter()
            .map(|reason| Cause {
                name: reason.figure.name.clone(),
                baseline: value(reason.figure.unit, Some(reason.baseline)),
                arm: value(reason.figure.unit, Some(reason.arm)),
                change: reason
                    .change
                    .as_ref()
                    .map_or_else(|| "appears or goes".to_owned(), |change| percent(change.center)),
                interval: reason.change.as_ref().map(say::interval).unwrap_or_default(),
                class: match say::moved_better(reason) {
                    Some(true) => "good",
                    Some(false) => "bad",
                    None => "",
                },
            })
            .collect(),
        statements: of
            .statements
            .iter()
            .map(|one| Statement {
                query: one.query.clone(),
                sides: one.groups.iter().map(|side| statement(side.as_ref())).collect(),
            })
            .collect(),
    }
}

/// The baseline's time or the arm's.
type Side = fn(&TimeBook) -> f64;

/// Baseline and arm, one above the other on one scale.
fn bars(of: &[TimeBook]) -> Vec<Bar> {
    let total = |side: Side| of.iter().map(|b| side(b).max(0.0)).sum::<f64>();
    let sides: [(&str, Side); 2] = [("baseline", |book| book.baseline), ("arm", |book| book.arm)];
    let longest = sides.iter().map(|(_, side)| total(*side)).fold(0.0, f64::max);
    if longest <= 0.0 {
        return Vec::new();
    }
    sides
        .into_iter()
        .map(|(name, side)| Bar {
            name,
            whole: format::seconds(total(side)),
            width: 100.0 * total(side) / longest,
            parts: of
                .iter()
                .filter(|book| side(book) > 0.0)
                .map(|book| {
                    let class = WaitClass::ALL.into_iter().find(|c| c.label() == book.name);
                    // Letters are a little less than one percent of the page wide.
                    let room = 100.0 * side(book) / longest;
                    let fits = room > 1.1 * book.name.chars().count() as f64;
                    Part {
                        name: book.name.clone(),
                        time: format::seconds(side(book)),
                        ink: class.map_or("i-outside", |class| words::ink(class).class()),
                        weight: 100.0 * side(book) / total(side),
                        inside: if fits { book.name.clone() } else { String::new() },
                    }
                })
                .collect(),
        })
        .collect()
}

fn blocks(of: &Outcome) -> Vec<Block> {
    let name = |run: Option<&walwright_record::RunId>| {
        run.map_or_else(|| "–".to_owned(), |run| run.0.clone())
    };
    of.baseline_runs
        .iter()
        .enumerate()
        .map(|(block, [base, again])| Block {
            number: block + 1,
            runs: [name(base.as_ref()), name(again.as_ref())]
                .into_iter()
                .chain(of.arms.iter().map(|arm| name(arm.runs.get(block).and_then(Option::as_ref))))
                .collect(),
        })
        .collect()
}
