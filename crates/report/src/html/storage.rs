//! A storage measurement as one HTML page.

use serde::Serialize;
use walwright_record::{
    Access, FileState, FlushMethod, StorageCell, StorageMeasurement, StoragePattern,
};

use super::ReportError;
use super::frame::rendered;
use crate::storage as say;
use crate::svg::curves::{Vertical, plot};
use crate::svg::overlay::Curve;
use crate::svg::{Ink, Mark, Unit, histogram};
use crate::{format, words};

const TEMPLATE: &str = include_str!("../../templates/storage.html");

#[derive(Debug, Serialize)]
struct Page {
    id: String,
    places: Vec<String>,
    deck: String,
    gist: Vec<String>,
    warnings: Vec<String>,
    /// Markup made by `svg`.
    plots: Vec<Figure>,
    sections: Vec<Table>,
}

#[derive(Debug, Serialize)]
struct Figure {
    heading: &'static str,
    svg: String,
}

#[derive(Debug, Serialize)]
struct Table {
    heading: &'static str,
    lede: &'static str,
    extra: &'static str,
    rows: Vec<[String; 6]>,
}

/// The measurement as a whole HTML page without outside resources.
///
/// # Errors
/// Only when the template itself is wrong, which the tests would show.
pub fn storage(of: &StorageMeasurement) -> Result<String, ReportError> {
    rendered(TEMPLATE, &page(of))
}

fn page(of: &StorageMeasurement) -> Page {
    let mut places = vec![format!("WAL in {}", say::place(&of.wal))];
    if of.data != of.wal {
        places.push(format!("Data in {}", say::place(&of.data)));
    }
    let warning = |warning: &walwright_record::Warning| {
        let hint = warning.hint.as_ref().map(|hint| format!(" {}", words::sentence(hint)));
        format!("{}{}", words::sentence(&warning.text), hint.unwrap_or_default())
    };
    let table = |section: say::Section| Table {
        heading: section.heading,
        lede: section.lede,
        extra: section.extra,
        rows: section
            .rows
            .into_iter()
            .map(|row| [row.name, row.rate, row.p50, row.p99, row.p999, row.extra])
            .collect(),
    };
    Page {
        id: of.id.clone(),
        places,
        deck: say::circumstances(of),
        gist: say::gist(of),
        warnings: of.warnings.iter().map(warning).collect(),
        plots: [by_size(of), grouped(of), by_depth(of), spread(of)].into_iter().flatten().collect(),
        sections: say::sections(of).into_iter().map(table).collect(),
    }
}

/// Percentiles of `cells` as curves.
fn percentiles(cells: &[(f64, &StorageCell)]) -> Vec<Curve> {
    let curve = |name: &str, ink, of: fn(&StorageCell) -> Option<std::time::Duration>| Curve {
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
fn spread(of: &StorageMeasurement) -> Option<Figure> {
    let latency = &of.fastest(say::BASE)?.latency;
    let mark = |name: &str, ink, percent, time: Option<std::time::Duration>| {
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
    let bars: Vec<(f64, u64)> = latency.bars.iter().map(|(at, n)| (at * 1.001, *n)).collect();
    let svg = histogram(&bars, &marks, 20)?;
    Some(Figure { heading: "Flushes of 8 kB, one at a time", svg })
}

fn by_size(of: &StorageMeasurement) -> Option<Figure> {
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
    let svg = plot("Flush latency by size", &curves, &ticks, log, "bytes written and flushed")?;
    Some(Figure { heading: "A flush, by size", svg })
}

fn grouped(of: &StorageMeasurement) -> Option<Figure> {
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
    let svg = plot("Commits a second by sessions", &curves, &ticks, even, "sessions that commit")?;
    Some(Figure { heading: "Commits a second, by sessions", svg })
}

fn by_depth(of: &StorageMeasurement) -> Option<Figure> {
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
    let svg = plot("Latency of random pages by depth", &curves, &ticks, log, caption)?;
    Some(Figure { heading: "A random page, by requests under way", svg })
}
