//! The distribution of latencies: plots and tables.

use walwright_figures::{Latency as Figures, Summary, latencies};
use walwright_record::{LatencyHistogram, Record};

use super::page::{Latency, Table};
use crate::svg::{self, Ink, Mark};
use crate::{format, words};

/// Percentiles that are named everywhere, with their colours. 100 is the maximum.
pub(super) const NAMED: [(f64, Ink); 5] =
    [(50.0, Ink::P50), (95.0, Ink::P95), (99.0, Ink::P99), (99.9, Ink::P999), (100.0, Ink::Max)];

/// Plots and tables of the measured window.
pub(super) fn latency(record: &Record, summary: &Summary) -> Latency {
    let mut latency = Latency { missing: words::no_load(record), ..Latency::default() };
    let (Some(load), Some(window)) = (&summary.load, record.window()) else { return latency };
    let total = latencies(record, window);
    let buckets: Vec<(f64, u64)> = total.buckets().map(|(d, n)| (d.as_secs_f64(), n)).collect();
    let marks = marks(&total);
    // Bars as fine as the count allows: few transactions in many bars is noise.
    let per_decade = if total.count() >= 5_000 { 40 } else { 15 };
    latency.histogram = svg::histogram(&buckets, &marks, per_decade);
    latency.curve = svg::percentile_curve(&curve(&total), &marks);
    latency.lede = format!(
        "{} that ended well in the measured window or {} under way when it ended{}. Left: the share of them in each bar. Right: the latency at or under which a share of them stayed.",
        format::counted(total.count(), "transaction"),
        if total.count() == 1 { "was" } else { "were" },
        match load.under_way.map_or(0, |of| of.unended + of.not_begun) {
            0 => String::new(),
            n => format!("; {} of them had not ended, and count with their age", format::count(n)),
        }
    );
    latency.missing = "No transaction ended well in the measured window.".to_owned();
    if load.scripts.len() > 1 {
        let rows = load.scripts.iter().map(|s| row(&s.name, s.latency.as_ref()));
        latency.tables.push(table("By script", "Script", rows.collect(), false));
    }
    for script in load.scripts.iter().filter(|s| s.statements.len() > 1) {
        let rows = script.statements.iter().map(|s| row(&s.label, s.latency.as_ref()));
        let title = format!("By statement of {}, as the client sees it", script.name);
        latency.tables.push(table(&title, "Statement", rows.collect(), true));
    }
    latency
}

fn table(title: &str, first: &str, rows: Vec<Vec<String>>, code: bool) -> Table {
    let head = [first, "Count", "Mean", "p50", "p95", "p99", "p99.9", "Max"];
    Table { title: title.to_owned(), head: head.map(str::to_owned).to_vec(), rows, code }
}

fn row(name: &str, of: Option<&Figures>) -> Vec<String> {
    let dash = || "–".to_owned();
    let Some(of) = of else {
        let mut row = vec![dash(); 8];
        row[0] = name.to_owned();
        row[1] = "0".to_owned();
        return row;
    };
    let mut row = vec![name.to_owned(), format::count(of.count), words::mean(of)];
    let percentiles = words::percentiles(of).into_iter();
    row.extend(percentiles.map(|(_, value)| value.unwrap_or_else(dash)));
    row
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
