//! An experiment: its page.

mod study;
pub(crate) mod words;

use walwright_experiment::Estimate as Remaining;
use walwright_figures::WaitClass;
use walwright_figures::compare::{ComparedStatement, Section as Figures};
use walwright_figures::experiment::{
    ArmOutcome, Ending, Judged, JudgedArm, Outcome, PredictionMet, TimeBook,
};
use walwright_record::{RunId, Timestamp};
use walwright_stats::{Interval, Verdict};

use crate::compare::words::{percent, statement, value};
use crate::document::{
    Block, Cell, Chart, Column, Document, Figure, Folded, Reach, Section, Share, Table, Tone,
    Warning, Whole,
};
use crate::svg::Ink;
use crate::svg::forest::{Forest, Row};
use crate::{format, words as say};

/// Reasons told of an arm in a line.
const REASONS: usize = 6;
/// Runs named of an arm in a line.
const RUNS: usize = 3;

/// The page of an experiment, ended or not.
pub fn experiment(of: &Outcome) -> Document {
    let mut sections = of.study.as_ref().map_or_else(Vec::new, |study| study::sections(study, of));
    sections.push(judged(&of.judged, Role::Judged, "effects"));
    sections.extend(of.contrasts.iter().map(|c| judged(c, Role::Contrasts, "contrasts")));
    sections.extend((!of.arms.is_empty()).then(|| arms(of)));
    sections.extend((!of.claims.is_empty()).then(|| claims(of)));
    let others = of.others.iter();
    sections.extend(others.map(|other| judged(other, Role::Beside, "others")));
    sections.extend([method(of), runs(of)]);
    let alone = match &of.judged.arms[..] {
        [arm] => is_better(arm),
        _ => None,
    };
    Document {
        kind: "experiment",
        id: of.id.clone(),
        title: of.name.clone(),
        deck: of.question.iter().cloned().collect(),
        state: (of.ending == Ending::Unfinished).then(|| ("Unfinished", words::done(of) + ".")),
        verdict: Some(words::experiment_verdict(of)),
        is_better: alone,
        warnings: of.warnings.iter().map(|warning| Warning::saying(warning)).collect(),
        sections,
        ..Document::default()
    }
}

/// The page of an experiment that is not finished: also how its blocks fill, what remains, and
/// when that ends where it `goes_on` now.
pub fn experiment_under_way(of: &Outcome, left: &Remaining, goes_on: bool) -> Document {
    let mut document = experiment(of);
    let time = format!("about {}", format::length(left.left));
    let note = match goes_on {
        true => format!("until about {}", format::moment(Timestamp::now().plus(left.left))),
        false => format!("it stands still: walwright experiment resume {}", of.id),
    };
    let done = format!("{} of {}", left.done, left.runs);
    document.figures = vec![
        Figure { lead: true, ..Figure::new("Runs done", Some(done)) },
        Figure::new("Left", Some(time)).note(note),
        Figure::new("A run takes", Some(format::length(left.per_run))),
    ];
    let planned: Vec<String> = (1..=of.planned).map(|block| block.to_string()).collect();
    let mut columns = vec![Column::text("Block")];
    columns.extend(planned.into_iter().map(Column::text));
    let row = |name: &str, done: Vec<bool>| {
        let mut row = vec![Cell::from(name)];
        let cell = |block: usize| if done.get(block) == Some(&true) { "●" } else { "·" };
        row.extend((0..of.planned).map(|block| Cell::from(cell(block))));
        row
    };
    let baseline = |place: usize| -> Vec<bool> {
        of.baseline_runs.iter().map(|runs| runs[place].is_some()).collect()
    };
    let mut rows = vec![row("baseline", baseline(0)), row("baseline again", baseline(1))];
    let arms = of.arms.iter();
    rows.extend(arms.map(|arm| row(&arm.name, arm.runs.iter().map(Option::is_some).collect())));
    let table = Block::Table(Table { columns, rows });
    document.sections.insert(0, Section::new("blocks", "Blocks", Reach::Page, vec![table]));
    document
}

/// A run's findings that were proven since: the name of each experiment, and what was predicted
/// beside what was measured.
pub fn with_proofs(mut document: Document, proofs: &[(String, PredictionMet)]) -> Document {
    if proofs.is_empty() {
        return document;
    }
    let heads = [
        Column::text("Finding"),
        Column::text("Experiment"),
        Column::number("Predicted"),
        Column::number("Measured"),
        Column::text("In words"),
    ];
    let row = |(id, met): &(String, PredictionMet)| {
        let measured = met.measured.as_ref();
        let measured =
            measured.map(|of| format!("{} ({})", percent(of.center), words::interval(of)));
        let link = Some(format!("/experiments/{id}"));
        vec![
            Cell::from(&met.prediction.finding),
            Cell { link, ..Cell::from(id) },
            Cell::from(words::range(met.prediction.change)),
            Cell::from(measured.unwrap_or_else(|| "not measured".to_owned())),
            Cell::from(words::prediction(met)),
        ]
    };
    let rows = proofs.iter().map(row).collect();
    let table = Block::Table(Table { columns: heads.into(), rows });
    let section = Section::new("proofs", "Predicted and measured", Reach::Page, vec![table]);
    let after = document.sections.iter().position(|of| of.id == "findings");
    document.sections.insert(after.map_or(0, |place| place + 1), section);
    document
}

/// What a table of effects is for.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Judged,
    Contrasts,
    Beside,
}

/// Whether something is claimed of an arm, and what.
fn is_better(arm: &JudgedArm) -> Option<bool> {
    let claimed = matches!(arm.verdict, Some(Verdict::Proven | Verdict::Screened));
    arm.better.filter(|_| claimed)
}

fn judged(of: &Judged, role: Role, id: &'static str) -> Section {
    let name = say::capital(&of.metric.name);
    let baseline = value(of.metric.unit, of.baseline);
    let mut blocks = Vec::new();
    let title = match role {
        Role::Judged => {
            let cost = of.metric.expression.as_ref();
            blocks.extend(
                cost.map(|expression| {
                    Block::Text(format!("{name} is {expression}; less is better."))
                }),
            );
            format!("{name}: baseline {baseline}")
        }
        Role::Contrasts => {
            blocks.push(Block::Muted(
                "A main effect is over all combinations of the other factors. An interaction is what two factors give together beyond the product of both."
                    .to_owned(),
            ));
            "Main effects and interactions".to_owned()
        }
        Role::Beside => {
            blocks.push(Block::Muted(
                "Shown beside the metric that is judged: nothing is claimed of it.".to_owned(),
            ));
            format!("{name}: baseline {baseline}")
        }
    };
    blocks.push(Block::Table(effects(of, role)));
    let forest = Block::Chart(Chart::Forest(forest(of, role)));
    match role {
        Role::Beside => blocks.push(Block::Aside(vec![forest])),
        _ => blocks.push(forest),
    }
    if role == Role::Judged {
        blocks.push(Block::Muted(words::floor(of)));
    }
    Section::new(id, title, Reach::Paper, blocks)
}

fn effects(of: &Judged, role: Role) -> Table {
    let level = format::percent(of.confidence.level()).replace(".0", "");
    let claimed = role != Role::Beside;
    let mut columns = vec![
        Column::text("Arm"),
        Column::number("Value"),
        Column::number("Change"),
        Column::number(format!("{level} interval")),
        Column::number("p, Holm"),
    ];
    columns.extend(claimed.then(|| Column::text("Verdict")));
    let row = |arm: &JudgedArm| {
        let change = arm.effect.as_ref().map(|effect| &effect.change);
        let is_better = is_better(arm).filter(|_| claimed);
        let mut row = vec![
            Cell::from(&arm.name),
            Cell::from(value(of.metric.unit, arm.value)),
            Cell {
                is_better,
                ..Cell::from(change.map_or("–".to_owned(), |change| percent(change.center)))
            },
            Cell::from(change.map(words::interval).unwrap_or_default()),
            Cell::from(arm.corrected_p.map(words::p_value).unwrap_or_default()),
        ];
        row.extend(claimed.then(|| Cell { is_better, ..Cell::from(words::verdict(arm)) }));
        row
    };
    Table { columns, rows: of.arms.iter().map(row).collect() }
}

/// The arms, and the baseline against itself below them.
fn forest(of: &Judged, role: Role) -> Forest {
    let row = |arm: &JudgedArm| {
        let effect = arm.effect.as_ref()?;
        let change = percent(effect.change.center);
        Some(Row {
            name: arm.name.clone(),
            center: effect.change.center,
            interval: effect.change.interval.map(|interval| (interval.low, interval.high)),
            blocks: effect.log_ratios.iter().map(|ratio| ratio.exp_m1()).collect(),
            is_better: is_better(arm).filter(|_| role != Role::Beside),
            is_baseline: false,
            note: match role {
                Role::Beside => change,
                _ => format!("{change}, {}", words::verdict(arm)),
            },
        })
    };
    let mut rows: Vec<Row> = of.arms.iter().filter_map(row).collect();
    if let Some(floor) = of.floor.as_ref().filter(|_| !rows.is_empty()) {
        let itself = &floor.against_itself;
        rows.push(Row {
            name: "baseline again (A/A)".to_owned(),
            center: itself.change.center,
            interval: itself.change.interval.map(|interval| (interval.low, interval.high)),
            blocks: itself.log_ratios.iter().map(|ratio| ratio.exp_m1()).collect(),
            is_better: None,
            is_baseline: true,
            note: percent(itself.change.center),
        });
    }
    let floor = of.floor.as_ref().and_then(|floor| floor.relative);
    Forest { name: format!("Effect of every arm on {}", of.metric.name), rows, floor }
}

/// What others claim, beside what was measured.
fn claims(of: &Outcome) -> Section {
    let columns = vec![
        Column::text("Arm"),
        Column::text("Claim").wide(40),
        Column::text("Of"),
        Column::number("Claimed"),
        Column::number("Measured"),
        Column::number("95 % interval"),
        Column::text("Verdict"),
        Column::text("Class"),
    ];
    let mut classes: Vec<&str> = of.claims.iter().map(|claim| claim.durability.as_str()).collect();
    classes.sort_unstable();
    classes.dedup();
    let classes = classes.join("; ");
    let rows = of.claims.iter().map(|claim| {
        let metric = claim.metric.as_ref().map(|metric| metric.name.clone());
        let than = claim.than.as_ref().map(|than| format!("against {than}"));
        let subject: Vec<String> = metric.into_iter().chain(than).collect();
        let claimed = claim.claimed.map(claimed_words);
        let measured = claim.measured.as_ref();
        let open = if claim.metric.is_some() { "not measured" } else { "" };
        vec![
            Cell::from(&claim.arm),
            Cell::from(&claim.text),
            Cell::from(subject.join(", ")),
            Cell::from(claimed.unwrap_or_else(|| "no figure".to_owned())),
            Cell::from(measured.map_or_else(|| open.to_owned(), |of| percent(of.center))),
            Cell::from(measured.map(words::interval).unwrap_or_default()),
            Cell::from(claim.held.map_or("", |held| held.words())),
            Cell::from(claim.durability.split_once(':').map_or("", |(class, _)| class)),
        ]
    });
    let blocks = vec![
        Block::Table(Table { rows: rows.collect(), columns }),
        Block::Muted(format!("Durability, by class: {classes}.")),
    ];
    Section::new("claims", "Claimed and measured", Reach::Paper, blocks)
}

/// A claimed change. Who claims only that a figure rises or falls has an end that is none.
fn claimed_words(ends: Interval) -> String {
    match ends {
        Interval { low, high } if low == high => percent(low),
        Interval { low, high } if low > 0.0 && high >= 100.0 => {
            format!("a rise, from {}", percent(low))
        }
        Interval { low, high } if low <= -0.99 && high < 0.0 => {
            format!("a fall, from {}", percent(high))
        }
        ends => words::range(ends),
    }
}

/// What may be said of each arm, and what else changed with it.
fn arms(of: &Outcome) -> Section {
    let mut blocks = Vec::new();
    blocks.extend(of.prediction.as_ref().map(|met| Block::Text(words::prediction(met))));
    for (place, (arm, judged)) in of.arms.iter().zip(&of.judged.arms).enumerate() {
        blocks.push(Block::Heading(arm.name.clone()));
        blocks.push(Block::Text(words::sentence(judged, &of.judged)));
        let outlook = of.outlooks.get(place).and_then(Option::as_ref);
        let prospect = outlook.and_then(|outlook| words::prospect(outlook, of.negligible));
        blocks.extend(prospect.map(|prospect| Block::Muted(format!("{prospect}."))));
        blocks.extend(arm_blocks(arm, judged));
    }
    blocks.push(Block::Muted(
        "What else changed: figures whose 95 % interval leaves out zero, paired block by block; times and costs are of a transaction. Among so many figures one in twenty shows by chance."
            .to_owned(),
    ));
    Section::new("arms", "Each arm", Reach::Paper, blocks)
}

fn arm_blocks(of: &ArmOutcome, judged: &JudgedArm) -> Vec<Block> {
    let mut blocks = Vec::new();
    if of.changes != [of.name.clone()] {
        blocks.push(Block::Text(format!("Changed: {}.", of.changes.join("; "))));
    }
    blocks.extend(
        of.failed
            .iter()
            .map(|why| Block::Warning(Warning { text: format!("Given up: {why}"), hint: None })),
    );
    for (section, what) in [
        (Figures::Time, "Time of a transaction"),
        (Figures::Work, "Cost of a transaction"),
        (Figures::Machine, "Machine"),
    ] {
        let reasons = words::reasons_of(&of.reasons, section);
        if !reasons.is_empty() {
            let told: Vec<String> =
                reasons.iter().take(REASONS).map(|reason| words::reason(reason)).collect();
            blocks.push(Block::Muted(format!("{what}: {}.", told.join(", "))));
        }
    }
    // Where nothing is said of throughput, the statements' times say nothing either.
    blocks.extend(of.statements.first().filter(|_| judged.effect.is_some()).and_then(slowest));
    let runs: Vec<&str> = of.runs.iter().flatten().map(|run| run.0.as_str()).collect();
    let more = match runs.len().saturating_sub(RUNS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    if !runs.is_empty() {
        let first = runs[..runs.len().min(RUNS)].join(", ");
        blocks.push(Block::Muted(format!("Runs: {first}{more}.")));
    }
    let mut aside = vec![Block::Chart(Chart::Beside(wholes(&of.time)))];
    aside.push(match of.reasons.is_empty() {
        true => Block::Missing("Nothing that is measured changed beyond its scatter.".to_owned()),
        false => Block::Table(reasons(of)),
    });
    if !of.statements.is_empty() {
        aside.push(Block::Folded(Folded {
            title: "Statements whose time changed most".to_owned(),
            label: None,
            note: None,
            tone: Tone::Plain,
            blocks: vec![Block::Table(statements(&of.statements))],
            open: false,
        }));
    }
    blocks.push(Block::Aside(aside));
    blocks
}

/// The statement that changed most.
fn slowest(of: &ComparedStatement) -> Option<Block> {
    let change = of.time_change.first().copied().flatten().filter(|change| *change != 0.0)?;
    let query: String = of.query.chars().take(70).collect();
    let sign = if change > 0.0 { "+" } else { "−" };
    let size = format::seconds(change.abs());
    Some(Block::Muted(format!("Statement that changed most, {sign}{size} a transaction: {query}")))
}

fn reasons(of: &ArmOutcome) -> Table {
    let columns = vec![
        Column::text("Figure").wide(34),
        Column::number("Baseline"),
        Column::number("Arm"),
        Column::number("Change"),
        Column::number("95 % interval"),
    ];
    let rows = of.reasons.iter().map(|reason| {
        let change = reason.change.as_ref();
        let said = change.map_or("appears or goes".to_owned(), |change| percent(change.center));
        vec![
            Cell::from(&reason.figure.name),
            Cell::from(value(reason.figure.unit, Some(reason.baseline))),
            Cell::from(value(reason.figure.unit, Some(reason.arm))),
            Cell { is_better: words::moved_better(reason), ..Cell::from(said) },
            Cell::from(change.map(words::interval).unwrap_or_default()),
        ]
    });
    Table { rows: rows.collect(), columns }
}

fn statements(of: &[ComparedStatement]) -> Table {
    let columns = vec![
        Column::code("Statement").wide(44),
        Column::muted("Of"),
        Column::number("Time"),
        Column::number("Calls"),
        Column::number("Mean time"),
        Column::number("WAL per call"),
    ];
    let rows = of.iter().flat_map(|one| {
        one.groups.iter().enumerate().map(|(place, side)| {
            let (query, of) = match place {
                0 => (Cell::from(&one.query), "baseline"),
                _ => (Cell::default(), "arm"),
            };
            let figures = statement(side.as_ref()).map(Cell::from);
            [query, Cell::from(of)].into_iter().chain(figures).collect()
        })
    });
    Table { rows: rows.collect(), columns }
}

/// The time of a transaction of the baseline, and of the arm.
fn wholes(of: &[TimeBook]) -> Vec<Whole> {
    let whole = |name: &str, side: fn(&TimeBook) -> f64| {
        let total: f64 = of.iter().map(|book| side(book).max(0.0)).sum();
        let parts = of.iter().filter(|book| side(book) > 0.0).map(|book| {
            let class = WaitClass::ALL.into_iter().find(|class| class.label() == book.name);
            Share {
                name: book.name.clone(),
                share: side(book) / total,
                seconds: side(book),
                ink: class.map_or(Ink::Outside, say::ink),
            }
        });
        Whole { name: name.to_owned(), parts: parts.collect() }
    };
    vec![whole("baseline", |book| book.baseline), whole("arm", |book| book.arm)]
}

fn method(of: &Outcome) -> Section {
    let design = "Every run starts from the same data; each block holds the baseline twice and every arm once, in random order.";
    let blocks = vec![
        Block::Text(format!("Baseline: {}.", of.baseline.join("; "))),
        Block::Text(format!("{} {design}", words::progress(of))),
    ];
    Section::new("method", "Method", Reach::Paper, blocks)
}

/// Every run, by its block.
fn runs(of: &Outcome) -> Section {
    let heads = ["baseline", "baseline again"].into_iter().map(str::to_owned);
    let heads = heads.chain(of.arms.iter().map(|arm| arm.name.clone())).map(Column::code);
    let columns = [Column::number("Block")].into_iter().chain(heads).collect();
    let name = |run: Option<&RunId>| Cell::from(run.map_or("–", |run| run.0.as_str()));
    let rows = of.baseline_runs.iter().enumerate().map(|(block, [base, again])| {
        let arms = of.arms.iter().map(|arm| name(arm.runs.get(block).and_then(Option::as_ref)));
        [Cell::from((block + 1).to_string()), name(base.as_ref()), name(again.as_ref())]
            .into_iter()
            .chain(arms)
            .collect()
    });
    let blocks = vec![
        Block::Lede(
            "Every run is a record of the lab: walwright runs show RUN tells what it says."
                .to_owned(),
        ),
        Block::Table(Table { rows: rows.collect(), columns }),
    ];
    Section::new("runs", "Runs", Reach::Page, blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_change_has_one_figure_two_ends_or_a_direction() {
        let words = |low: f64, high: f64| claimed_words(Interval { low, high });
        assert_eq!(words(-0.34, -0.34), percent(-0.34));
        assert!(words(0.2, 0.3).contains(" to "), "{}", words(0.2, 0.3));
        assert_eq!(words(0.02, 100.0), format!("a rise, from {}", percent(0.02)));
        assert_eq!(words(-0.99, -0.02), format!("a fall, from {}", percent(-0.02)));
    }
}
