//! A storage measurement: its page.

mod tables;

use std::time::Duration;

use walwright_record::{
    Access, FileState, FlushMethod, StorageCell, StorageMeasurement, StoragePattern,
};

use crate::document::{Block, Cell, Chart, Column, Document, Reach, Section, Table, Warning};
use crate::svg::curves::{Curves, Vertical};
use crate::svg::overlay::Curve;
use crate::svg::{Ink, Mark, Unit};
use crate::{format, words};

/// The page of a measurement of disks.
pub fn storage(of: &StorageMeasurement) -> Document {
    let mut deck = vec![format!("WAL in {}", tables::place(&of.wal))];
    if of.data != of.wal {
        deck.push(format!("Data in {}", tables::place(&of.data)));
    }
    deck.push(tables::circumstances(of));
    let plots = [by_size(of), grouped(of), by_depth(of), spread(of)].into_iter().flatten();
    let plots: Vec<Vec<Block>> = plots
        .map(|(heading, chart)| vec![Block::Heading(heading.to_owned()), Block::Chart(chart)])
        .collect();
    let plots = (!plots.is_empty())
        .then(|| Section::new("plots", "Plots", Reach::Page, vec![Block::Columns(plots)]));
    let tables = tables::sections(of).into_iter().map(section);
    let mut gist = tables::gist(of).into_iter();
    Document {
        kind: "storage",
        id: of.id.clone(),
        title: "What the disks can do".to_owned(),
        deck,
        verdict: gist.next(),
        warnings: of.warnings.iter().map(Warning::of).collect(),
        sections: summed_up(gist.collect()).into_iter().chain(plots).chain(tables).collect(),
        ..Document::default()
    }
}

/// What else may be said in a sentence.
fn summed_up(gist: Vec<String>) -> Option<Section> {
    let blocks: Vec<Block> = gist.into_iter().map(Block::Text).collect();
    (!blocks.is_empty()).then(|| Section::new("gist", "In short", Reach::Paper, blocks))
}

fn section(of: tables::Section) -> Section {
    let columns = vec![
        Column::text("Pattern").wide(34),
        Column::number("Rate"),
        Column::number("p50"),
        Column::number("p99"),
        Column::number("p99.9"),
        Column::number(words::capital(of.extra)),
    ];
    let most = of.rows.iter().map(|row| row.weight).fold(0.0, f64::max);
    let rows = of.rows.into_iter().map(|row| {
        let bar = (most > 0.0).then(|| (100.0 * row.weight / most, Ink::Main));
        vec![
            Cell::from(row.name),
            Cell { bar, ..Cell::from(row.rate) },
            Cell::from(row.p50),
            Cell::from(row.p99),
            Cell::from(row.p999),
            Cell::from(row.extra),
        ]
    });
    let table = Block::Table(Table { rows: rows.collect(), columns });
    let lede = Block::Aside(vec![Block::Lede(of.lede.to_owned())]);
    Section::new("patterns", of.heading, Reach::Paper, vec![lede, table])
}

/// A plot of curves, where there is something to draw.
fn curves_chart(
    heading: &'static str,
    title: &str,
    curves: Vec<Curve>,
    ticks: Vec<(f64, String)>,
    vertical: Vertical,
    caption: &str,
) -> Option<(&'static str, Chart)> {
    let (title, caption) = (title.to_owned(), caption.to_owned());
    let plot = Curves { title, curves, ticks, vertical, caption };
    plot.svg().is_some().then_some((heading, Chart::Curves(plot)))
}

/// The measurements that are kept, newest last.
pub fn storage_list(all: &[StorageMeasurement]) -> Document {
    let columns = vec![
        Column::code("Measurement"),
        Column::number("Flushes one at a time"),
        Column::number("p99"),
        Column::text("WAL in"),
    ];
    let rows = all.iter().map(|of| {
        let base = of.fastest(tables::BASE);
        let rate = base.map_or_else(|| "–".to_owned(), |cell| format::rate(cell.per_second));
        let p99 = base.and_then(|cell| cell.latency.p99).map(format::latency);
        vec![
            Cell::from(&of.id),
            Cell::from(rate),
            Cell::from(p99.unwrap_or_else(|| "–".to_owned())),
            Cell::from(tables::place(&of.wal)),
        ]
    });
    let block = match all.is_empty() {
        true => Block::Text("No disk was measured yet: `walwright storage` does.".to_owned()),
        false => Block::Table(Table { rows: rows.collect(), columns }),
    };
    Document {
        kind: "storage",
        title: "Measurements of disks".to_owned(),
        sections: vec![Section::new("list", "Kept", Reach::Paper, vec![block])],
        ..Document::default()
    }
}

/// Percentiles of `cells` as curves.
fn percentiles(cells: &[(f64, &StorageCell)]) -> Vec<Curve> {
    let curve = |name: &str, ink, of: fn(&StorageCell) -> Option<Duration>| Curve {
        name: name.to_owned(),
        ink,
        points: cells.iter().filter_map(|(at, c)| Some((*at, of(c)?.as_secs_f64()))).collect(),
    };
    vec![
        curve("p50", Ink::P50, |c| Some(c.latency.p50)),
        curve("p99", Ink::P99, |c| c.latency.p99),
        curve("p99.9", Ink::P999, |c| c.latency.p999),
    ]
}

/// The abscissas of cells with what is written below them.
fn ticks(at: impl Iterator<Item = f64>, write: impl Fn(f64) -> String) -> Vec<(f64, String)> {
    let mut ticks: Vec<f64> = at.collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    ticks.into_iter().map(|at| (at, write(at))).collect()
}

/// A whole number of sessions or requests.
fn whole(number: f64) -> String {
    format::count(number as u64)
}

/// How the times of the flush that counts most are spread.
fn spread(of: &StorageMeasurement) -> Option<(&'static str, Chart)> {
    let latency = &of.fastest(tables::BASE)?.latency;
    let mark = |name: &str, ink, percent, time: Option<Duration>| {
        Some(Mark { name: name.to_owned(), ink, percent, value: time?.as_secs_f64() })
    };
    let marks: Vec<Mark> = [
        mark("p50", Ink::P50, 50.0, Some(latency.p50)),
        mark("p99", Ink::P99, 99.0, latency.p99),
        mark("p99.9", Ink::P999, 99.9, latency.p999),
        mark("max", Ink::Max, 100.0, Some(latency.max)),
    ]
    .into_iter()
    .flatten()
    .collect();
    // A bar is kept by its lower edge; a hair above it lies in that bar and no other.
    let buckets: Vec<(f64, u64)> = latency.bars.iter().map(|(at, n)| (at * 1.001, *n)).collect();
    if buckets.is_empty() {
        return None;
    }
    Some(("Flushes of 8 kB, one at a time", Chart::Histogram { buckets, marks, per_decade: 20 }))
}

fn by_size(of: &StorageMeasurement) -> Option<(&'static str, Chart)> {
    let sizes = [8, 16, 32, 64, 128, 256, 512, 1024].map(|kb: u32| kb * 1024);
    let cell = |bytes: u32| {
        let (method, file) = (FlushMethod::Fdatasync, FileState::Written);
        of.fastest(StoragePattern::Flush { method, file, bytes, files: 1 })
    };
    let cells: Vec<(f64, &StorageCell)> =
        sizes.into_iter().filter_map(|bytes| Some((f64::from(bytes), cell(bytes)?))).collect();
    let ticks = ticks(cells.iter().map(|(at, _)| *at), format::bytes);
    let curves = percentiles(&cells);
    let log = Vertical::Log(Unit::Seconds);
    curves_chart(
        "A flush, by size",
        "Flush latency by size",
        curves.into_iter().collect(),
        ticks,
        log,
        "bytes written and flushed",
    )
}

fn grouped(of: &StorageMeasurement) -> Option<(&'static str, Chart)> {
    let cells: Vec<(f64, &StorageCell)> = of
        .cells
        .iter()
        .filter_map(|cell| match cell.pattern {
            StoragePattern::GroupCommit { committers, .. } => Some((f64::from(committers), cell)),
            _ => None,
        })
        .collect();
    let curve = |name: &str, ink, points| Curve { name: name.to_owned(), ink, points };
    let flushes = |(at, cell): &(f64, &StorageCell)| Some((*at, cell.flushes_per_second?));
    let curves = [
        curve("commits", Ink::Main, cells.iter().map(|(at, c)| (*at, c.per_second)).collect()),
        curve("flushes", Ink::Second, cells.iter().filter_map(flushes).collect()),
    ];
    let ticks = ticks(cells.iter().map(|(at, _)| *at), whole);
    let even = Vertical::Even(Unit::PerSecond);
    curves_chart(
        "Commits a second, by sessions",
        "Commits a second by sessions",
        curves.into_iter().collect(),
        ticks,
        even,
        "sessions that commit",
    )
}

fn by_depth(of: &StorageMeasurement) -> Option<(&'static str, Chart)> {
    let cells = |wanted: Access| -> Vec<(f64, &StorageCell)> {
        let of_access = |cell: &'_ StorageCell| match cell.pattern {
            StoragePattern::Random { access, depth } if access == wanted => Some(f64::from(depth)),
            _ => None,
        };
        of.cells.iter().filter_map(|cell| Some((of_access(cell)?, cell))).collect()
    };
    let (reads, writes) = (cells(Access::Read), cells(Access::Write));
    let curve = |name: &str, ink, points| Curve { name: name.to_owned(), ink, points };
    let p50 = |(at, cell): &(f64, &StorageCell)| (*at, cell.latency.p50.as_secs_f64());
    let p99 = |(at, cell): &(f64, &StorageCell)| Some((*at, cell.latency.p99?.as_secs_f64()));
    let curves = [
        curve("reads p50", Ink::Io, reads.iter().map(p50).collect()),
        curve("reads p99", Ink::LwLock, reads.iter().filter_map(p99).collect()),
        curve("writes p50", Ink::Main, writes.iter().map(p50).collect()),
        curve("writes p99", Ink::P999, writes.iter().filter_map(p99).collect()),
    ];
    let ticks = ticks(reads.iter().chain(&writes).map(|(at, _)| *at), whole);
    let log = Vertical::Log(Unit::Seconds);
    let caption = "requests under way";
    curves_chart(
        "A random page, by requests under way",
        "Latency of random pages by depth",
        curves.into_iter().collect(),
        ticks,
        log,
        caption,
    )
}
