//! The figures at the top, and those beside them.

use walwright_figures::Summary;
use walwright_record::Record;

use super::latency::NAMED;
use super::page::{Figure, Verdict};
use crate::{format, words};

/// Throughput and latency. Empty for a record without a load of ours.
pub(super) fn headline(summary: &Summary) -> Vec<Figure> {
    let Some(load) = &summary.load else { return observed(summary) };
    let unit = load.unit.name();
    let throughput = load.throughput.as_ref();
    let mut figures = vec![Figure {
        name: "Throughput".to_owned(),
        lead: true,
        unknown: throughput.is_none(),
        value: throughput.map_or_else(unknown, |t| format::estimate(t, "/s")),
        note: throughput.map(|t| {
            let warnings: Vec<String> = t.warnings.iter().map(ToString::to_string).collect();
            match (t.interval.is_some(), warnings.is_empty()) {
                (true, true) => format!("{unit}s, 95 % interval within this run"),
                (_, false) => format!("{unit}s; {}", warnings.join("; ")),
                (false, true) => format!("{unit}s"),
            }
        }),
        ..Figure::default()
    }];
    let percentiles = load.latency.as_ref().map(words::percentiles);
    for ((name, value), (_, ink)) in percentiles.into_iter().flatten().zip(NAMED) {
        figures.push(Figure {
            name: name.to_owned(),
            unknown: value.is_none(),
            value: value.unwrap_or_else(|| "too few".to_owned()),
            ink: Some(ink.class()),
            ..Figure::default()
        });
    }
    if let (None, Some(mean)) = (&load.latency, load.mean_latency) {
        figures.push(Figure {
            name: "Mean latency".to_owned(),
            value: format::latency(mean),
            note: Some("the clients' log holds sums: no percentile is known".to_owned()),
            ..Figure::default()
        });
    }
    figures
}

/// Someone else's load as the server counts it.
fn observed(summary: &Summary) -> Vec<Figure> {
    let load = summary.server_load.as_ref();
    let rate = load.and_then(|load| load.commits_per_second.as_ref());
    let figure = load.zip(rate).map(|(load, rate)| Figure {
        name: "Throughput".to_owned(),
        lead: true,
        value: format::estimate(rate, "/s"),
        note: Some(words::commits_note(load)),
        ..Figure::default()
    });
    figure.into_iter().collect()
}

fn unknown() -> String {
    format::NOT_OBSERVABLE.to_owned()
}

/// What stands beside throughput and latency: cost of a transaction, failures,
/// checkpoints, measures taken apart from the load.
pub(super) fn beside(record: &Record, summary: &Summary) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut push = |name: &str, value: Option<String>, note: Option<String>| {
        figures.push(Figure {
            name: name.to_owned(),
            unknown: value.is_none(),
            value: value.unwrap_or_else(unknown),
            note,
            ..Figure::default()
        });
    };
    let wal = summary.wal.as_ref();
    let unit = wal.map_or("transaction", |w| w.unit.name());
    push(
        &format!("WAL per {unit}"),
        wal.and_then(|w| w.bytes_per_transaction).map(format::bytes),
        wal.and_then(|w| w.fpi_per_transaction)
            .map(|n| format!("{} full-page images", format::number(n))),
    );
    push(
        &format!("Flushes per {unit}"),
        wal.and_then(|w| w.flushes_per_transaction).map(format::number),
        wal.and_then(|w| w.transactions_per_flush)
            .map(|n| format!("{} {unit}s per flush", format::number(n))),
    );
    push(
        "Checkpoints completed",
        summary.checkpoints.as_ref().map(|c| format::count(c.completed)),
        summary
            .checkpoints
            .as_ref()
            .and_then(|c| c.buffers_written)
            .map(|b| format!("{} buffers written", format::count(b))),
    );
    if let Some(load) = &summary.load {
        let states: Vec<&str> = load.failures.keys().map(String::as_str).collect();
        push(
            "Failed",
            Some(words::failed_of(load)),
            (!states.is_empty()).then(|| states.join(", ")),
        );
        if let Some(open) = &load.open_loop {
            push(
                "Offered rate",
                Some(format::rate(open.offered)),
                Some(format!("reached {}", format::rate(open.reached))),
            );
        }
    }
    for line in summary.client.iter().flat_map(words::client_totals) {
        push("Clients", Some("their own totals".to_owned()), Some(line));
    }
    for (name, seconds) in &record.side_measures {
        let note = words::SIDE_MEASURE.to_owned();
        push(&words::side_measure(name), Some(format::seconds(*seconds)), Some(note));
    }
    figures
}

/// The workload's pass mark.
pub(super) fn verdict(summary: &Summary) -> Option<Verdict> {
    let mark = summary.load.as_ref()?.pass_mark.as_ref()?;
    Some(Verdict { pass: mark.passed, text: words::pass_mark(mark) })
}
