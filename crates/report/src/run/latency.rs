//! The distribution of latencies: plots and tables.

use walwright_figures::{Latency as Figures, LoadSummary, Summary, latencies};
use walwright_record::{LatencyHistogram, Record};

use crate::document::{Block, Cell, Chart, Column, Reach, Section, Table};
use crate::svg::{Ink, Mark};
use crate::{format, words};

/// Percentiles that are named everywhere, with their colours. 100 is the maximum.
pub(super) const NAMED: [(f64, Ink); 5] =
    [(50.0, Ink::P50), (95.0, Ink::P95), (99.0, Ink::P99), (99.9, Ink::P999), (100.0, Ink::Max)];

/// Plots and tables of the measured window.
pub(super) fn latency(record: &Record, summary: &Summary) -> Section {
    let mut blocks = Vec::new();
    match (&summary.load, record.window()) {
        (Some(load), Some(window)) => {
            blocks.extend(plots(load, &latencies(record, window)));
            if load.scripts.len() > 1 {
                let rows = load.scripts.iter().map(|s| row(&s.name, s.latency.as_ref()));
                blocks.extend(table("By script".to_owned(), Column::text("Script"), rows));
            }
            for script in load.scripts.iter().filter(|s| s.statements.len() > 1) {
                let rows = script.statements.iter().map(|s| row(&s.label, s.latency.as_ref()));
                let title = format!("By statement of {}, as the client sees it", script.name);
                blocks.extend(table(title, Column::code("Statement"), rows));
            }
            blocks.extend(failures(load));
        }
        _ => blocks.push(Block::Missing(words::no_load(record))),
    }
    Section::new("latency", "Latency", Reach::Page, blocks)
}

fn plots(load: &LoadSummary, total: &LatencyHistogram) -> Vec<Block> {
    if total.count() == 0 {
        let none = match load.transactions {
            0 => "No transaction ended well in the measured window.",
            _ => "The clients' results hold no single latencies: how they spread is not known.",
        };
        return vec![Block::Missing(none.to_owned())];
    }
    let buckets = total.buckets().map(|(d, n)| (d.as_secs_f64(), n)).collect();
    let marks = marks(total);
    // Bars as fine as the count allows: few transactions in many bars is noise.
    let per_decade = if total.count() >= 5_000 { 40 } else { 15 };
    let lede = format!(
        "{} that ended well in the measured window or {} under way when it ended{}. Left: the share of them in each bar. Right: the latency at or under which a share of them stayed.",
        format::counted(total.count(), "transaction"),
        if total.count() == 1 { "was" } else { "were" },
        match load.under_way.map_or(0, |of| of.unended + of.not_begun) {
            0 => String::new(),
            n => format!("; {} of them had not ended, and count with their age", format::count(n)),
        }
    );
    let curve = Chart::Percentiles { points: curve(total), marks: marks.clone() };
    let histogram = Chart::Histogram { buckets, marks, per_decade };
    let plots = vec![vec![Block::Chart(histogram)], vec![Block::Chart(curve)]];
    vec![Block::Lede(lede), Block::Columns(plots)]
}

fn table(title: String, first: Column, rows: impl Iterator<Item = Vec<Cell>>) -> [Block; 2] {
    let head = ["Count", "Mean", "p50", "p95", "p99", "p99.9", "Max"].map(Column::number);
    let columns = [first].into_iter().chain(head).collect();
    [Block::Heading(title), Block::Table(Table { columns, rows: rows.collect() })]
}

/// Failed transactions by SQLSTATE.
fn failures(load: &LoadSummary) -> Vec<Block> {
    if load.failures.is_empty() {
        return Vec::new();
    }
    let all = (load.transactions + load.failed) as f64;
    let row = |(code, count): (&String, &u64)| {
        let share = format::percent(*count as f64 / all);
        vec![
            Cell::from(code),
            words::sqlstate(code).into(),
            format::count(*count).into(),
            share.into(),
        ]
    };
    let columns = vec![
        Column::code("SQLSTATE"),
        Column::text("Meaning"),
        Column::number("Transactions"),
        Column::number("Share"),
    ];
    vec![
        Block::Heading("Failures".to_owned()),
        Block::Lede(
            "Failed transactions are counted here and nowhere else: no latency and no throughput \
             contains them."
                .to_owned(),
        ),
        Block::Table(Table { columns, rows: load.failures.iter().map(row).collect() }),
    ]
}

fn row(name: &str, of: Option<&Figures>) -> Vec<Cell> {
    let dash = || Cell::from("–");
    let Some(of) = of else {
        return [name.into(), "0".into()].into_iter().chain((0..6).map(|_| dash())).collect();
    };
    let percentiles = words::percentiles(of).into_iter();
    [Cell::from(name), format::count(of.count).into(), words::mean(of).into()]
        .into_iter()
        .chain(percentiles.map(|(_, value)| value.map_or_else(dash, Cell::from)))
        .collect()
}

fn marks(total: &LatencyHistogram) -> Vec<Mark> {
    NAMED
        .iter()
        .filter_map(|(percent, ink)| {
            let (name, value) = if *percent < 100.0 {
                words::fixed(total.count(), *percent).then_some(())?;
                (format::percentile_name(*percent), total.percentile(*percent)?)
            } else {
                ("max".to_owned(), total.max()?)
            };
            Some(Mark { name, ink: *ink, value: value.as_secs_f64(), percent: *percent })
        })
        .collect()
}

/// Points of the percentile curve, evenly spaced over nines down to the last transaction.
fn curve(of: &LatencyHistogram) -> Vec<(f64, f64)> {
    const PER_NINE: f64 = 40.0;
    let deepest = (of.count() as f64).log10();
    let steps = (deepest * PER_NINE).floor().max(0.0) as u32;
    let percents = (0..=steps).map(|i| 100.0 * (1.0 - 10f64.powf(-f64::from(i) / PER_NINE)));
    percents.chain([100.0]).filter_map(|p| Some((p, of.percentile(p)?.as_secs_f64()))).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn even(n: u64) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::new();
        (1..=n).for_each(|i| histogram.record(Duration::from_micros(10 * i)));
        histogram
    }

    #[test]
    fn a_percentile_that_few_transactions_fix_is_left_out() {
        assert!(!words::fixed(100, 99.0) && words::fixed(101, 95.0) && words::fixed(3, 50.0));
        let names: Vec<String> = marks(&even(1000)).into_iter().map(|m| m.name).collect();
        assert_eq!(names, ["p50", "p95", "p99", "max"]);
    }

    #[test]
    fn the_curve_rises_to_the_maximum() {
        let curve = curve(&even(10_000));
        assert!(curve.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
        assert_eq!(curve.last().map(|p| p.0), Some(100.0));
        assert!(curve.len() > 150);
        assert!(super::curve(&LatencyHistogram::new()).is_empty());
    }
}
