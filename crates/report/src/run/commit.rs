//! The page of `walwright commit`: where commit time goes.

use walwright_diagnose::{CommitAnatomy, GatewayOutlook};
use walwright_record::Record;

use super::findings::gain;
use crate::document::{Block, Cell, Column, Document, Field, Reach, Section, Table};
use crate::{format, words};

/// Where the commit time of one run goes.
pub fn commit(record: &Record, of: &CommitAnatomy) -> Document {
    Document {
        kind: "commits of a run",
        id: record.header.id.0.clone(),
        title: format!("Where commit time goes: {}", words::title(record)),
        sections: vec![figures(record, of), stations(of), wal(of), delay(of), gateway(of)],
        ..Document::default()
    }
}

fn known(text: Option<String>) -> String {
    text.unwrap_or_else(|| format::NOT_OBSERVABLE.to_owned())
}

fn figures(record: &Record, of: &CommitAnatomy) -> Section {
    let unit = of.unit.name();
    let times = of.mean_flush.zip(of.storage_flush).map(|(mean, storage)| {
        let factor = mean.as_secs_f64() / storage.as_secs_f64();
        format!("; {} times the storage's own {}", format::number(factor), format::latency(storage))
    });
    let mut fields = vec![
        Field::new(
            "Commits",
            format!(
                "{} {unit}s, {} each",
                known(of.rate.map(format::rate)),
                known(of.latency.map(format::latency))
            ),
        ),
        Field::new(
            "Flushes",
            format!(
                "{}, {} {unit}s to a flush; one is under way {} of the time",
                known(of.flushes_per_second.map(format::rate)),
                known(of.transactions_per_flush.map(format::number)),
                known(of.flushing.map(format::percent))
            ),
        ),
    ];
    fields.extend(of.storage.as_ref().map(|used| {
        Field::new("The disk", words::storage_use(used, record.window().map(|w| w.length())))
    }));
    let mean = known(of.mean_flush.map(format::latency));
    fields.push(Field::new("A flush takes", format!("{mean}{}", times.unwrap_or_default())));
    Section::new("commits", "Commits and flushes", Reach::Paper, vec![Block::Fields(fields)])
}

fn stations(of: &CommitAnatomy) -> Section {
    let station = |station: &walwright_diagnose::Station| {
        Block::Text(format!(
            "{}: {} ({} of the latency), {} sessions at a time, for {}.",
            station.name,
            format::seconds(station.per_transaction.center),
            format::percent(station.share),
            format::number(station.sessions),
            station.waits_for
        ))
    };
    let blocks = match of.stations.is_empty() {
        true => vec![Block::Missing(
            "No session was seen waiting on the way of a commit, or wait events were not sampled."
                .to_owned(),
        )],
        false => of.stations.iter().map(station).collect(),
    };
    Section::new("stations", "Who waits for whom", Reach::Paper, blocks)
}

fn wal(of: &CommitAnatomy) -> Section {
    let mut blocks = vec![Block::Text(format!(
        "{} of WAL a {}, {} records; at most {} of it full-page images.",
        known(of.wal_bytes.map(format::bytes)),
        of.unit.name(),
        known(of.wal_records.map(format::number)),
        known(of.image_share.map(format::percent))
    ))];
    if !of.writers.is_empty() {
        let columns = vec![
            Column::number("Of the WAL"),
            Column::number("A call"),
            Column::number("Calls"),
            Column::number("Page images a call"),
            Column::code("Statement"),
        ];
        let rows = of.writers.iter().map(|writer| {
            let images = writer.images_per_call.filter(|images| *images >= 0.005);
            vec![
                Cell::from(format::percent(writer.share)),
                Cell::from(format::bytes(writer.bytes_per_call)),
                Cell::from(format::number(writer.calls)),
                Cell::from(images.map(format::number).unwrap_or_default()),
                Cell::from(&writer.statement),
            ]
        });
        blocks.push(Block::Table(Table { rows: rows.collect(), columns }));
    }
    Section::new("wal", "What is written", Reach::Paper, blocks)
}

fn delay(of: &CommitAnatomy) -> Section {
    let mut blocks = Vec::new();
    match &of.delay {
        None => blocks.push(Block::Missing(
            "That cannot be said without flushes counted and timed by the server.".to_owned(),
        )),
        Some(delay) => {
            let siblings = delay.siblings.map(|n| format!(", commit_siblings {n:.0}"));
            let siblings = siblings.unwrap_or_default();
            blocks.push(Block::Text(format!(
                "In force: {} of delay{siblings}.",
                format::latency(delay.now)
            )));
            if delay.now.is_zero() {
                blocks.push(Block::Text(format!(
                    "With half a flush, {}, {} more commits would arrive while one waits: at most {} of the flushes could be spared.",
                    format::latency(delay.half_flush),
                    format::number(delay.joining),
                    format::percent(delay.spared)
                )));
            }
            blocks.push(Block::Text(
                "It cannot make a single commit faster: each waits that much longer. It pays only where flushes, not processors or locks, are what limits; prove it by an experiment."
                    .to_owned(),
            ));
        }
    }
    Section::new("delay", "What commit_delay could do", Reach::Paper, blocks)
}

fn gateway(of: &CommitAnatomy) -> Section {
    let text = match &of.gateway {
        GatewayOutlook::Gain(of) => format!("Predicted: {}; --gateway tries it.", gain(of)),
        GatewayOutlook::WhyNot(why) => why.clone(),
    };
    let blocks = vec![Block::Text(text)];
    Section::new("gateway", "What walwright's gateway could do", Reach::Paper, blocks)
}
