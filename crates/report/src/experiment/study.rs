//! The sections of a study: its grid, what limited each cell, its tables, and what of it is noise.

use walwright_figures::compare::FigureUnit;
use walwright_figures::experiment::{
    ClaimMet, Judged, JudgedArm, MeanOfBlocks, OUTSIDE_TIME, Outcome, POOL_WAIT, SERVER_TIME,
    Study, StudyCell, StudyGroup, StudyTable, is_noise, study_kinds,
};
use walwright_stats::{NoiseFloor, Verdict};

use super::words;
use crate::compare::words::{percent, value};
use crate::document::{Block, Cell, Chart, Column, Reach, Section, Table};
use crate::format;
use crate::svg::heat::{Heat, HeatCell};

/// The figure that the grid shows.
const GRID: &str = "throughput";

pub(super) fn sections(of: &Study, outcome: &Outcome) -> Vec<Section> {
    let mut sections = vec![grid(of, outcome)];
    sections.extend(limits(of));
    sections.extend(of.groups.iter().enumerate().map(|(place, group)| tables(group, place)));
    sections
}

/// The cells as a heat map, and what of their differences is noise.
fn grid(of: &Study, outcome: &Outcome) -> Section {
    let mut blocks = vec![Block::Text(differences(of))];
    blocks.extend(claimed(of, &outcome.claims).map(Block::Text));
    blocks.push(Block::Chart(Chart::Heat(match of.compared {
        Some(_) => by_parameter(of),
        None => by_figure(of),
    })));
    Section::new("study", "The study", Reach::Paper, blocks)
}

/// A row for each control, its cells in the order of the plan.
fn by_parameter(of: &Study) -> Heat {
    let mut columns: Vec<String> = Vec::new();
    for cell in of.groups.iter().flat_map(|group| &group.cells).filter(|cell| !cell.is_repeat) {
        if !columns.contains(&cell.label) {
            columns.push(cell.label.clone());
        }
    }
    let rows = of.groups.iter().map(|group| {
        let cells = columns.iter().map(|label| {
            let place = group.cells.iter().position(|c| c.label == *label && !c.is_repeat)?;
            Some(heat_cell(group, place))
        });
        (group.name.clone(), cells.collect())
    });
    Heat {
        name: "Requests a second of each cell, and the change against its control".to_owned(),
        corner: String::new(),
        rows: rows.collect(),
        columns,
        caption: "requests a second, the change against the first of the row, and the limit; grey is no more than noise, or open".to_owned(),
    }
}

fn heat_cell(group: &StudyGroup, place: usize) -> HeatCell {
    let cell = &group.cells[place];
    let arm = group.judged(GRID).and_then(|judged| judged.arms.get(place.checked_sub(1)?));
    let change = arm.and_then(|arm| Some(arm.effect.as_ref()?.change.center));
    let mean = cell.figures.get(GRID).map(|mean| mean.mean);
    let shown = value(FigureUnit::PerSecond, mean);
    HeatCell {
        value: change.map_or(shown.clone(), |change| format!("{shown}, {}", percent(change))),
        note: cell.limit.map_or(String::new(), |limit| limit.name().to_owned()),
        change,
        is_better: arm.and_then(beyond_noise),
    }
}

/// A row for each arm, its change of every figure.
fn by_figure(of: &Study) -> Heat {
    let shown: Vec<&Judged> = of.groups.iter().flat_map(|group| &group.figures).collect();
    let shown: Vec<&Judged> =
        shown.into_iter().filter(|judged| judged.baseline.is_some()).collect();
    let cells = of.groups.iter().flat_map(|group| group.cells.iter().skip(1));
    let arms = cells.filter(|cell| !cell.is_repeat).enumerate();
    let rows = arms.map(|(place, cell)| {
        let of_figure = shown.iter().map(|judged| {
            let arm = &judged.arms[place];
            let change = arm.effect.as_ref()?.change.center;
            Some(HeatCell {
                value: percent(change),
                note: String::new(),
                change: Some(change),
                is_better: beyond_noise(arm),
            })
        });
        (cell.label.clone(), of_figure.collect())
    });
    Heat {
        name: "Change of every figure against the control".to_owned(),
        corner: "Arm".to_owned(),
        rows: rows.collect(),
        columns: shown.iter().map(|judged| judged.metric.name.clone()).collect(),
        caption: "change against the control; green is more (less of latency), red the opposite, grey no more than noise, or open".to_owned(),
    }
}

/// Whether a change is to the better, where it is claimed.
fn beyond_noise(arm: &JudgedArm) -> Option<bool> {
    arm.better.filter(|_| matches!(arm.verdict, Some(Verdict::Proven | Verdict::Screened)))
}

/// Which cells differ from their control by more than noise.
fn differences(of: &Study) -> String {
    let judged = || of.groups.iter().filter_map(|group| Some((group, group.judged(GRID)?)));
    let arms: Vec<&JudgedArm> = judged().flat_map(|(_, judged)| &judged.arms).collect();
    let differ = arms.iter().filter(|arm| beyond_noise(arm).is_some()).map(|arm| {
        let change = arm.effect.as_ref().map(|effect| percent(effect.change.center));
        format!("{} ({})", arm.name, change.unwrap_or_default())
    });
    let differ: Vec<String> = differ.collect();
    let noise = arms.iter().filter(|arm| is_noise(arm)).count();
    let open = arms.len() - differ.len() - noise;
    let named = if differ.is_empty() { String::new() } else { format!(" ({})", differ.join(", ")) };
    let floors: Vec<String> = judged()
        .filter_map(|(group, judged)| {
            let floor = format::percent(judged.floor.as_ref()?.relative?);
            let at =
                if group.name.is_empty() { String::new() } else { format!(" at {}", group.name) };
            Some(format!("{floor}{at}"))
        })
        .collect();
    let floor = match floors.is_empty() {
        true => "No control was run twice, so noise is not known.".to_owned(),
        false => format!("A control against itself differs by up to {}.", floors.join(", ")),
    };
    format!(
        "Requests a second of {} cells against their control: {} differ beyond noise{named}, {noise} by no more than noise, {open} are open. {floor}",
        arms.len(),
        differ.len()
    )
}

/// What of others' differences is noise.
fn claimed(of: &Study, claims: &[ClaimMet]) -> Option<String> {
    let (mut noise, mut held, mut other, mut unknown) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for claim in claims {
        let Some((metric, ends)) = claim.metric.as_ref().zip(claim.claimed) else { continue };
        let size = ends.low.abs().max(ends.high.abs());
        let told = match ends.low == ends.high {
            true => percent(ends.low),
            false => words::range(ends),
        };
        let told = format!("{} {told}", claim.arm);
        let seen = claim.measured.as_ref().and_then(|measured| measured.interval);
        match floor(of, claim, &metric.key).zip(seen) {
            None => unknown += 1,
            Some((floor, _)) if size <= floor => noise.push(told),
            Some((_, seen)) if seen.low <= ends.high && seen.high >= ends.low => held.push(told),
            Some(_) => other.push(told),
        }
    }
    let all = noise.len() + held.len() + other.len() + unknown;
    let listed = |names: &[String], what: &str| match names {
        [] => None,
        names => Some(format!("{} {what} ({})", names.len(), names.join("; "))),
    };
    let parts: Vec<String> = [
        listed(&noise, "are noise, no larger than what a cell differs from itself here"),
        listed(&held, "are larger and agree with what was measured"),
        listed(&other, "are larger and do not agree with what was measured"),
        (unknown > 0).then(|| format!("{unknown} cannot be judged yet")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let differences = format::counted(all as u64, "difference");
    (all > 0).then(|| format!("Of {differences} that others report, {}.", parts.join(", ")))
}

/// What the control of a claim differs from itself.
fn floor(of: &Study, claim: &ClaimMet, metric: &str) -> Option<f64> {
    let is_in = |group: &&StudyGroup| group.cells.iter().any(|cell| cell.name == claim.arm);
    of.groups.iter().find(is_in)?.judged(metric)?.floor.as_ref()?.relative
}

/// Who was the limit in each cell, and where a request's time went.
fn limits(of: &Study) -> Option<Section> {
    let any = |key: &str| {
        of.groups.iter().flat_map(|group| &group.cells).any(|cell| cell.figures.contains_key(key))
    };
    let times =
        [(POOL_WAIT, "Pool queue"), (SERVER_TIME, "Database"), (OUTSIDE_TIME, "Outside both")];
    let processors = [
        ("cpu_generator", "Generator"),
        ("cpu_application", "Application"),
        ("cpu_server", "Server"),
    ];
    if !any(SERVER_TIME) {
        return None;
    }
    let shown = |wanted: &[(&'static str, &'static str)]| -> Vec<(&'static str, &'static str)> {
        wanted.iter().copied().filter(|(key, _)| any(key)).collect()
    };
    let (times, processors) = (shown(&times), shown(&processors));
    let mut columns = vec![Column::text("Cell"), Column::text("Limit"), Column::number("Latency")];
    columns.extend(times.iter().map(|(_, name)| Column::number(*name)));
    columns
        .extend(processors.iter().map(|(_, name)| Column::number(format!("{name}, processors"))));
    columns.push(Column::number("Busy"));
    let cells = of.groups.iter().flat_map(|group| &group.cells).filter(|cell| !cell.is_repeat);
    let rows = cells.map(|cell| {
        let of =
            |key: &str, unit| Cell::from(value(unit, cell.figures.get(key).map(|mean| mean.mean)));
        let mut row = vec![
            Cell::from(&cell.name),
            Cell::from(cell.limit.map_or("not known", |limit| limit.name())),
            of("latency_mean", FigureUnit::Seconds),
        ];
        row.extend(times.iter().map(|(key, _)| of(key, FigureUnit::Seconds)));
        row.extend(processors.iter().map(|(key, _)| of(key, FigureUnit::Processors)));
        row.push(of("busy", FigureUnit::Share));
        row
    });
    let blocks = vec![
        Block::Table(Table { rows: rows.collect(), columns }),
        Block::Muted(
            "The limit is the generator where a thread of it has no time left; where processors are full, who uses most of them; otherwise the largest part of the latency. Outside both is application, generator and what is between them."
                .to_owned(),
        ),
    ];
    Some(Section::new("limits", "Who was the limit", Reach::Paper, blocks))
}

/// The tables of cells with one control: figures, and their change with its interval.
fn tables(of: &StudyGroup, place: usize) -> Section {
    let title = match of.name.is_empty() {
        true => "Tables".to_owned(),
        false => format!("Tables: {}", of.name),
    };
    let mut blocks = Vec::new();
    for (table, heading) in
        [(StudyTable::Client, "Clients"), (StudyTable::Database, "pg_stat_database, a second")]
    {
        let kinds = study_kinds();
        let keys = kinds.iter().filter(|(of, _)| *of == table).map(|(_, kind)| kind.key.as_str());
        let known = |key: &&str| of.cells.iter().any(|cell| cell.figures.contains_key(*key));
        let judged: Vec<&Judged> = keys.filter(known).filter_map(|key| of.judged(key)).collect();
        if judged.is_empty() {
            continue;
        }
        blocks.push(Block::Heading(heading.to_owned()));
        blocks.push(Block::Table(means(&of.cells, &judged)));
        blocks.push(Block::Table(changes(of, &judged)));
    }
    blocks.push(Block::Muted(
        "Means over the blocks with 95 % intervals, and geometric means of the ratios to the control of the same block. A/A is the control against itself: what is inside its interval is noise."
            .to_owned(),
    ));
    Section::new(format!("tables-{}", place + 1), title, Reach::Paper, blocks)
}

fn heads(judged: &[&Judged]) -> impl Iterator<Item = Column> {
    let names = judged.iter().map(|judged| crate::words::capital(&judged.metric.name));
    names.map(Column::number)
}

fn means(cells: &[StudyCell], judged: &[&Judged]) -> Table {
    let columns = [Column::text("Mean")].into_iter().chain(heads(judged)).collect();
    let row = |cell: &StudyCell| {
        let name = match cell.is_repeat {
            true => format!("{} again", cell.label),
            false => cell.label.clone(),
        };
        let figures = judged.iter().map(|judged| {
            Cell::from(mean(judged.metric.unit, cell.figures.get(&judged.metric.key)))
        });
        [Cell::from(name)].into_iter().chain(figures).collect()
    };
    Table { rows: cells.iter().map(row).collect(), columns }
}

/// A mean with half of its interval.
fn mean(unit: FigureUnit, of: Option<&MeanOfBlocks>) -> String {
    let Some(of) = of else { return "–".to_owned() };
    let center = value(unit, Some(of.mean));
    match of.half_width {
        Some(half) => format!("{center} ± {}", value(unit, Some(half)).trim_end_matches("/s")),
        None => center,
    }
}

fn changes(of: &StudyGroup, judged: &[&Judged]) -> Table {
    let columns = [Column::text("Change")].into_iter().chain(heads(judged)).collect();
    let others = of.cells.iter().skip(1).filter(|cell| !cell.is_repeat);
    let mut rows: Vec<Vec<Cell>> = others
        .enumerate()
        .map(|(place, cell)| {
            let figures = judged.iter().map(|judged| {
                let arm = &judged.arms[place];
                let change = arm.effect.as_ref().map(|effect| &effect.change);
                let text = change.map_or("–".to_owned(), |change| percent(change.center));
                let note = change.map(words::interval).filter(|note| !note.is_empty());
                with_interval(text, note, beyond_noise(arm))
            });
            [Cell::from(&cell.label)].into_iter().chain(figures).collect()
        })
        .collect();
    let itself = |floor: &NoiseFloor| {
        let change = &floor.against_itself.change;
        (percent(change.center), Some(words::interval(change)).filter(|note| !note.is_empty()))
    };
    if of.cells.iter().any(|cell| cell.is_repeat) {
        let figures = judged.iter().map(|judged| {
            let told = judged.floor.as_ref().map(itself);
            let (text, note) = told.unwrap_or_else(|| ("–".to_owned(), None));
            with_interval(text, note, None)
        });
        rows.push([Cell::from("A/A")].into_iter().chain(figures).collect());
    }
    Table { rows, columns }
}

fn with_interval(text: String, interval: Option<String>, is_better: Option<bool>) -> Cell {
    let text = interval.map_or(text.clone(), |interval| format!("{text} ({interval})"));
    Cell { is_better, ..Cell::from(text) }
}
