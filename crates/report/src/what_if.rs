//! What a change would do to a run: its page.

use walwright_figures::queueing::{Prediction, Solution, Station, WhatIf};
use walwright_record::RunHeader;

use crate::document::{Block, Column, Document, Reach, Section, Table, Warning};
use crate::format;

/// The page of predictions made from one run; the first is told in full where it is the only
/// one.
pub fn what_if(run: &RunHeader, predictions: &[Prediction]) -> Document {
    let mut warnings: Vec<&String> = predictions.iter().flat_map(|of| &of.warnings).collect();
    warnings.sort();
    warnings.dedup();
    let mut sections = vec![table(predictions)];
    let mut verdict = None;
    if let [only] = predictions {
        verdict = Some(sentence(only));
        sections = vec![breakdown(only)];
    }
    Document {
        kind: "prediction",
        id: run.id.0.clone(),
        title: format!("What if: {} on {}", run.workload, run.target),
        verdict,
        sections,
        warnings: warnings.into_iter().map(|warning| Warning::saying(warning)).collect(),
        origin:
            "Predicted by a queueing model of the run: what a transaction takes of processors, \
                 flushes, locks and waits stays as it was measured. An interval holds the truth 8 \
                 times of 10. A run decides."
                .to_owned(),
        ..Document::default()
    }
}

/// `4,210/s (3,690 to 4,800/s), +12.1 % on 3,755/s as measured; mean latency 15.2 ms.`
fn sentence(of: &Prediction) -> String {
    let latency = format::seconds(of.latency.center);
    let rate = format::rate(of.throughput.center);
    if of.is_overloaded {
        let asked = of.what_if.rate.unwrap_or_default();
        return format!(
            "{} is more than this server can do: about {rate}{}. Transactions would wait longer and \
             longer to begin.",
            format::rate(asked),
            interval(of)
        );
    }
    let change = of.throughput.center / of.measured - 1.0;
    let change = format!("{} on {} as measured", crate::change(change), format::rate(of.measured));
    format!("{}: {rate}{}, {change}; mean latency {latency}.", asked(&of.what_if), interval(of))
}

fn interval(of: &Prediction) -> String {
    of.throughput.interval.map_or_else(String::new, |ends| {
        format!(" ({} to {})", format::number(ends.low), format::rate(ends.high))
    })
}

/// What is asked: `64 clients, a flush of 2 ms`.
fn asked(of: &WhatIf) -> String {
    let mut parts = Vec::new();
    parts.extend(of.clients.map(|n| format::counted(n.into(), "client")));
    parts.extend(of.processors.map(|n| match n {
        1.0 => "1 processor".to_owned(),
        n => format!("{} processors", format::number(n)),
    }));
    parts.extend(of.flush_latency.map(|flush| format!("a flush of {}", format::latency(flush))));
    parts.extend(of.rate.map(|rate| format!("{} offered", format::rate(rate))));
    parts.extend(of.think_time.map(|think| format!("{} of think time", format::latency(think))));
    if parts.is_empty() { "as it was".to_owned() } else { parts.join(", ") }
}

fn table(predictions: &[Prediction]) -> Section {
    let columns = vec![
        Column::text("If"),
        Column::number("Throughput"),
        Column::number("80 % interval"),
        Column::number("Change"),
        Column::number("Mean latency"),
        Column::number("Processors busy"),
        Column::text("Largest part of the latency"),
    ];
    let row = |of: &Prediction| {
        let range = of.throughput.interval.map_or_else(String::new, |ends| {
            format!("{} to {}", format::number(ends.low), format::number(ends.high))
        });
        [
            asked(&of.what_if),
            format::rate(of.throughput.center),
            if of.is_overloaded { "cannot be reached".to_owned() } else { range },
            crate::change(of.throughput.center / of.measured - 1.0),
            format::seconds(of.latency.center),
            busy(&of.then),
            largest(&of.then),
        ]
        .map(Into::into)
        .into()
    };
    let rows = predictions.iter().map(row).collect();
    let blocks = vec![Block::Table(Table { columns, rows })];
    Section::new("predictions", "Predictions", Reach::Everywhere, blocks)
}

fn busy(of: &Solution) -> String {
    of.processors_busy.map_or_else(|| format::NOT_OBSERVABLE.to_owned(), format::percent)
}

fn largest(of: &Solution) -> String {
    let largest = of.parts.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    largest.map_or_else(String::new, |(station, seconds)| {
        format!("{} {}", station.label(), format::percent(seconds / of.latency))
    })
}

/// The latency, part by part, before and after.
fn breakdown(of: &Prediction) -> Section {
    let unit = of.unit.name();
    let seconds = |solution: &Solution, station: Station| -> f64 {
        solution.parts.iter().filter(|(at, _)| *at == station).map(|(_, s)| s).sum()
    };
    let mut stations: Vec<Station> =
        of.now.parts.iter().chain(&of.then.parts).map(|(station, _)| *station).collect();
    stations.sort();
    stations.dedup();
    let negligible = 5e-4 * of.now.latency;
    stations.retain(|s| seconds(&of.now, *s).max(seconds(&of.then, *s)) >= negligible);
    let row = |name: &str, now: f64, then: f64| {
        [name.to_owned(), format::seconds(now), format::seconds(then)].map(Into::into).into()
    };
    let mut rows: Vec<_> = stations
        .into_iter()
        .map(|station| row(station.label(), seconds(&of.now, station), seconds(&of.then, station)))
        .collect();
    rows.push(row("whole latency", of.now.latency, of.then.latency));
    let [now, then] = [busy(&of.now), busy(&of.then)];
    rows.push([String::from("processors busy"), now, then].map(Into::into).into());
    let columns = vec![
        Column::text(format!("Part of a {unit}")),
        Column::number("In this run"),
        Column::number("Then"),
    ];
    let blocks = vec![Block::Table(Table { columns, rows })];
    Section::new("breakdown", "Where the latency goes", Reach::Everywhere, blocks)
}
