//! Runs beside each other: their page, and their figures as CSV.

mod csv;
pub(crate) mod words;

use walwright_figures::compare::{Comparison, Finding, RunCurve, Section as Figures, Verdict};

use crate::document::{
    Block, Cell, Chart, Column, Document, Faces, Reach, Section, Table, Warning,
};
use crate::svg::Ink;
use crate::svg::forest::{Forest, Row};
use crate::svg::overlay::{Curve, Overlay};
use crate::{format, limit};
pub use csv::{comparison_csv, csv_field};

/// Colours of the groups, the baseline first; more groups begin again.
const INKS: [Ink; 6] = [Ink::Main, Ink::Second, Ink::P99, Ink::Flush, Ink::Io, Ink::Client];
/// Statements listed unless all are wanted.
const STATEMENTS: usize = 6;
/// Differences listed unless all are wanted.
const DIFFERENCES: usize = 20;
/// Letters of a statement in a table.
const QUERY: usize = 60;

/// The page of a comparison: what may be said, the runs laid over each other, figures,
/// what differs besides, statements. `all` tells every figure, also those that hardly differ.
pub fn comparison(of: &Comparison, all: bool) -> Document {
    let names: Vec<&str> = of.groups.iter().map(|group| group.name.as_str()).collect();
    let mut sections = Vec::new();
    if of.findings.len() > 1 {
        let told = of.findings[1..].iter().map(|finding| Block::Text(finding.text.clone()));
        sections.push(Section::new("verdicts", "Of the others", Reach::Paper, told.collect()));
    }
    if !of.limits.is_empty() {
        let told = Block::List(of.limits.iter().map(limit).collect());
        sections.push(Section::new("limits", "Limits", Reach::Paper, vec![told]));
    }
    sections.push(groups(of));
    sections.push(curves(of));
    sections.extend((1..of.groups.len()).map(|other| figures(of, other, all)));
    sections.push(differences(of, all));
    sections.extend(statements(of, all));
    Document {
        kind: "comparison",
        title: format!("{} against {}", names[1..].join(", "), names[0]),
        deck: vec![format!(
            "The first {} of each measured window. Costs are per {}.",
            format::length(of.window),
            of.unit.name()
        )],
        verdict: of.findings.first().map(|finding| finding.text.clone()),
        is_better: of.findings.first().and_then(is_better),
        warnings: of.warnings.iter().map(|text| Warning::saying(text)).collect(),
        sections,
        ..Document::default()
    }
}

/// Whether a finding is to the better; `None` where nothing is certain.
fn is_better(of: &Finding) -> Option<bool> {
    of.better.filter(|_| of.verdict == Verdict::Changed)
}

fn ink(group: usize) -> Ink {
    INKS[group % INKS.len()]
}

fn groups(of: &Comparison) -> Section {
    let columns = vec![Column::text("Group"), Column::code("Runs")];
    let row = |(place, group): (usize, &walwright_figures::compare::GroupFacts)| {
        let name = match place {
            0 => format!("{} (baseline)", group.name),
            _ => group.name.clone(),
        };
        let runs: Vec<&str> = group.runs.iter().map(|run| run.0.as_str()).collect();
        vec![Cell { key: Some(ink(place)), ..Cell::from(name) }, Cell::from(runs.join(", "))]
    };
    let rows = of.groups.iter().enumerate().map(row).collect();
    let table = Block::Table(Table { columns, rows });
    Section::new("groups", "What is compared", Reach::Paper, vec![table])
}

fn curves(of: &Comparison) -> Section {
    let overlay = |points: fn(&RunCurve) -> &Vec<(f64, f64)>, is_relative: bool| {
        let curve = |run: &RunCurve| Curve {
            name: format!("{} ({})", run.run, of.groups[run.group].name),
            ink: ink(run.group),
            points: points(run).clone(),
        };
        Overlay {
            curves: of.curves.iter().map(curve).collect(),
            baseline: of.curves.iter().filter(|run| run.group == 0).count(),
            window: of.curves.first().map_or((0.0, 0.0), |run| run.window),
            is_relative,
        }
    };
    let chart = |overlay: Overlay, chart: fn(Overlay) -> Chart, missing: &str| {
        let is_known = overlay.curves.iter().flat_map(|curve| &curve.points).any(|p| p.1 > 0.0);
        vec![match is_known {
            true => Block::Chart(chart(overlay)),
            false => Block::Missing(missing.to_owned()),
        }]
    };
    let face = |is_relative: bool| {
        let throughput = overlay(|run| &run.throughput, is_relative);
        let latency = overlay(|run| &run.latency, is_relative);
        let missing = "No latency of single operations is known.";
        vec![Block::Columns(vec![
            chart(throughput, Chart::ThroughputCurves, "No throughput is known."),
            chart(latency, Chart::LatencyCurves, missing),
        ])]
    };
    let faces = vec![("absolute", face(false)), ("relative", face(true))];
    let mut blocks =
        vec![Block::Lede(CURVES.to_owned()), Block::Faces(Faces { name: "scale", faces })];
    blocks.extend(forest(of).map(|forest| Block::Aside(vec![Block::Chart(Chart::Forest(forest))])));
    Section::new("runs", "The runs laid over each other", Reach::Page, blocks)
}

/// How to read the curves.
const CURVES: &str = "Time counts from the beginning of each load. The grey band holds 95 % of what the \
     baseline did from moment to moment: a curve inside it may be noise. Relative curves show \
     the change against the baseline's mean throughput, and against its latency at the same \
     percentile.";

/// What clients notice, and how sure its changes are.
fn forest(of: &Comparison) -> Option<Forest> {
    let known = of.figures.iter().filter(|figure| figure.section == Figures::Load);
    let rows = known.flat_map(|figure| {
        let changes = figure.effects.iter().enumerate();
        changes.filter_map(|(place, effect)| {
            let effect = effect.as_ref()?;
            let of_group = match of.groups.len() {
                2 => String::new(),
                _ => format!(", {}", shortened(&of.groups[place + 1].name)),
            };
            Some(Row {
                name: format!("{}{of_group}", figure.name),
                center: effect.change.center,
                interval: effect.change.interval.map(|of| (of.low, of.high)),
                blocks: Vec::new(),
                is_better: words::is_better(figure, effect),
                is_baseline: false,
                note: words::percent(effect.change.center),
            })
        })
    });
    let rows: Vec<Row> = rows.collect();
    let name = "Changes against the baseline with their 95 % intervals".to_owned();
    (!rows.is_empty()).then_some(Forest { name, rows, floor: None })
}

/// Every figure of a group beside the baseline's.
fn figures(of: &Comparison, other: usize, all: bool) -> Section {
    let (base, compared) = (&of.groups[0].name, &of.groups[other].name);
    let mut blocks = Vec::new();
    for section in Figures::ALL {
        let figures = words::figures(of, section, all);
        if figures.is_empty() {
            continue;
        }
        let columns = vec![
            Column::text(words::heading(section, of.unit)).wide(34),
            Column::number(shortened(base)),
            Column::number(shortened(compared)),
            Column::number("Change"),
            Column::number("95 % interval"),
        ];
        let rows = figures.into_iter().map(|figure| {
            let value = |group: usize| words::value(figure.unit, figure.values[group].center);
            let effect = figure.effects[other - 1].as_ref();
            let change = effect.map(|effect| words::percent(effect.change.center));
            vec![
                Cell::from(&figure.name),
                Cell::from(value(0)),
                Cell::from(value(other)),
                Cell {
                    is_better: effect.and_then(|effect| words::is_better(figure, effect)),
                    ..Cell::from(change.unwrap_or_else(|| "–".to_owned()))
                },
                Cell::from(effect.map(words::interval).unwrap_or_default()),
            ]
        });
        let rows = rows.collect();
        blocks.push(Block::Table(Table { columns, rows }));
    }
    blocks.push(Block::Muted(
        "A change is relative to the baseline. Of one run against one, the interval holds the precision inside the two runs only. Colours mark changes whose interval leaves out zero."
            .to_owned(),
    ));
    let title = match of.groups.len() {
        2 => "Figures".to_owned(),
        _ => format!("{compared} against {base}"),
    };
    Section::new("figures", title, Reach::Paper, blocks)
}

/// The end of a name that is too long for a column: it tells a run from its neighbours.
fn shortened(name: &str) -> String {
    const ROOM: usize = 14;
    let letters = name.chars().count();
    match letters.checked_sub(ROOM) {
        None | Some(0) => name.to_owned(),
        Some(more) => format!("…{}", name.chars().skip(more + 1).collect::<String>()),
    }
}

fn differences(of: &Comparison, all: bool) -> Section {
    let most = if all { usize::MAX } else { DIFFERENCES };
    let nothing = "Nothing that is recorded: settings, schema, data, host and load are alike.";
    let mut blocks = Vec::new();
    if of.differences.is_empty() {
        blocks.push(Block::Muted(nothing.to_owned()));
    } else {
        let mut columns = vec![Column::muted("Kind"), Column::code("What")];
        columns.extend(of.groups.iter().map(|group| Column::code(shortened(&group.name))));
        let rows = of.differences.iter().take(most).map(|difference| {
            let values = difference.values.iter();
            let values = values.map(|value| Cell::from(value.as_deref().unwrap_or("not known")));
            [Cell::from(difference.kind.label()), Cell::from(&difference.name)]
                .into_iter()
                .chain(values)
                .collect()
        });
        let rows = rows.collect();
        blocks.push(Block::Table(Table { columns, rows }));
    }
    blocks.extend(more(of.differences.len(), most, "difference"));
    let title = "What differs besides, and could explain it";
    Section::new("differences", title, Reach::Paper, blocks)
}

/// That there is more, and how to read it.
fn more(count: usize, most: usize, what: &str) -> Option<Block> {
    let left = count.checked_sub(most).filter(|left| *left > 0)?;
    Some(Block::Muted(format!("{} more: --all shows them.", format::counted(left as u64, what))))
}

fn statements(of: &Comparison, all: bool) -> Option<Section> {
    if of.statements.is_empty() {
        return None;
    }
    let most = if all { usize::MAX } else { STATEMENTS };
    let columns = vec![
        Column::code("Statement").wide(40),
        Column::muted("Of"),
        Column::number("Time"),
        Column::number("Calls"),
        Column::number("Mean time"),
        Column::number("WAL per call"),
    ];
    let mut rows = Vec::new();
    for statement in of.statements.iter().take(most) {
        for (place, side) in statement.groups.iter().enumerate() {
            let query = match place {
                0 => query(&statement.query),
                _ => Cell::default(),
            };
            let group = Cell::from(shortened(&of.groups[place].name));
            let figures = words::statement(side.as_ref()).map(Cell::from);
            rows.push([query, group].into_iter().chain(figures).collect());
        }
    }
    let lede = format!(
        "From pg_stat_statements, matched by text; the largest change of time first. Time and calls are per {}.",
        of.unit.name()
    );
    let mut blocks = vec![Block::Muted(lede), Block::Table(Table { columns, rows })];
    blocks.extend(more(of.statements.len(), most, "statement"));
    Some(Section::new("statements", "Statements", Reach::Paper, blocks))
}

/// A statement, shortened to what a table has room for.
fn query(text: &str) -> Cell {
    let letters = text.chars().count();
    let short = text.chars().take(QUERY - 1).chain(['…']).collect();
    Cell { short: (letters > QUERY).then_some(short), ..Cell::from(text) }
}
