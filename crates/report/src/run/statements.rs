//! Top statements, by time and by WAL.

use walwright_figures::{CpuSource, Statement, StatementCpu, Summary};

use crate::document::{Block, Cell, Column, Reach, Section, Table};
use crate::svg::Ink;
use crate::{format, words};

/// Characters of a statement that a table shows; the whole text unfolds.
const SHORT: usize = 170;
/// Characters kept at all: a generated statement can have megabytes.
const LONGEST: usize = 8_000;

/// Both lists, or why there are none.
pub(super) fn statements(summary: &Summary) -> Section {
    let list = |title: &str, share_of: &str, ink, rows: &[Statement], share: Share| {
        let largest = rows.iter().filter_map(share).fold(0.0, f64::max);
        let columns = vec![
            Column::code("Statement").wide(46),
            Column::text(share_of),
            Column::number("CPU share"),
            Column::number("Calls"),
            Column::number("Calls per txn"),
            Column::number("Mean time"),
            Column::number("Time per txn"),
            Column::number("WAL per call"),
            Column::number("Rows per call"),
        ];
        let rows: Vec<Vec<Cell>> = rows.iter().map(|s| row(s, share(s), largest, ink)).collect();
        (!rows.is_empty())
            .then(|| [Block::Heading(title.to_owned()), Block::Table(Table { columns, rows })])
    };
    let lists = summary.statements.iter().flat_map(|of| {
        [
            list("By execution time", "Share of time", Ink::Main, &of.by_time, |s| {
                Some(s.time_share)
            }),
            list("By WAL", "Share of WAL", Ink::LwLock, &of.by_wal, |s| s.wal_share),
            list("Inside functions and triggers", "Share of time", Ink::Main, &of.nested, |s| {
                Some(s.time_share)
            }),
        ]
    });
    let mut blocks: Vec<Block> = lists.flatten().flatten().collect();
    let first = match blocks.is_empty() {
        true => Block::Missing(missing(summary)),
        false => Block::Lede(
            "From pg_stat_statements, over the measured window; times are the server's execution \
             times."
                .to_owned(),
        ),
    };
    blocks.insert(0, first);
    let cpu = summary.statements.as_ref().and_then(|of| of.cpu.as_ref()).map(cpu);
    blocks.splice(1..1, cpu.map(Block::Muted));
    Section::new("statements", "Statements", Reach::Page, blocks)
}

/// Where the shares of the CPU come from, and what they were checked against.
fn cpu(of: &StatementCpu) -> String {
    let from = match (of.source, of.agrees) {
        (CpuSource::Executions, _) => {
            "execution times without I/O and sampled waits; too few sessions were seen at work"
                .to_owned()
        }
        (CpuSource::Samples, agrees) => {
            let check = match agrees {
                Some(true) => "; execution times without waits agree",
                Some(false) => "; execution times without waits say otherwise",
                None => "",
            };
            format!("{} sightings of sessions at work{check}", format::about(of.seen))
        }
    };
    let counted = of.counted.map_or(String::new(), |counted| {
        format!(
            " A transaction takes {} of CPU in client backends by the kernel; executions \
             take {}, with their wait for a processor.",
            format::latency(counted),
            format::latency(of.executed)
        )
    });
    format!("CPU share: part of the CPU of client backends, by {from}.{counted}")
}

/// What a list is ordered by.
type Share = fn(&Statement) -> Option<f64>;

/// Why there are no statements.
fn missing(summary: &Summary) -> String {
    match summary.not_observable.iter().find(|n| n.figure == "statements") {
        Some(gap) => format!("Not observable: {}.", gap.why),
        None if summary.statements.is_some() => {
            "No statement ended in the measured window.".to_owned()
        }
        None => "Not observable: the run has no measured window.".to_owned(),
    }
}

fn row(of: &Statement, share: Option<f64>, largest: f64, ink: Ink) -> Vec<Cell> {
    let known = |value: Option<String>| Cell::from(value.unwrap_or_else(|| "–".to_owned()));
    let text = match &of.query {
        Some(query) => words::cut(query.trim(), LONGEST).unwrap_or_else(|| query.trim().to_owned()),
        None => format!("query {} (this role may not see its text)", of.query_id),
    };
    let width = share.filter(|_| largest > 0.0).map_or(0.0, |share| 100.0 * share / largest);
    vec![
        Cell { short: words::cut(&text, SHORT), ..Cell::from(text) },
        Cell { bar: Some((width, ink)), ..known(share.map(format::percent)) },
        known(of.cpu_share.map(format::percent)),
        format::about(of.calls).into(),
        format::number(of.calls_per_transaction).into(),
        known(of.mean_time.map(format::latency)),
        format::latency(of.time_per_transaction).into(),
        known(of.wal_bytes_per_call.map(format::bytes)),
        known(of.rows_per_call.map(format::number)),
    ]
}
