//! A run: its page, and what every rendering of it says.

pub(crate) mod commit;
mod cpu_panel;
mod facts;
mod findings;
mod headline;
mod latency;
mod stages;
mod statements;
mod time;
mod timeline;
mod wal;

use std::cell::OnceCell;

use walwright_diagnose::{Diagnosis, findings_with};
use walwright_figures::Summary;
use walwright_figures::scaling::{PointFinding, SweptRun};
use walwright_record::Record;

use crate::document::{Block, Cell, Column, Document, Field, Reach, Section, Table, Warning};
use crate::{format, words};
pub use findings::{diagnosis, explanation};
pub use timeline::begins as timeline_begins;

/// A record with what follows from it, computed once.
#[derive(Debug)]
pub struct RunReport {
    /// The record.
    pub record: Record,
    /// Its figures.
    pub summary: Summary,
    /// Its findings.
    pub diagnosis: Diagnosis,
    document: OnceCell<Document>,
}

impl RunReport {
    /// Computes figures and findings.
    pub fn new(record: Record) -> RunReport {
        let summary = walwright_figures::summary(&record);
        RunReport::with(record, summary)
    }

    /// The same, where the figures are known already.
    pub fn with(record: Record, summary: Summary) -> RunReport {
        let diagnosis = findings_with(&record, &summary);
        RunReport { record, summary, diagnosis, document: OnceCell::new() }
    }

    /// The run as one of a sweep.
    pub fn swept(&self) -> SweptRun<'_> {
        let problem = self.diagnosis.problems().next().map(|finding| PointFinding {
            id: finding.id.to_string(),
            cause: finding.cause.clone(),
            share: finding.impact.as_ref().map(|impact| impact.share.center),
        });
        SweptRun { record: &self.record, summary: &self.summary, problem }
    }

    /// Its page.
    pub fn document(&self) -> &Document {
        self.document.get_or_init(|| document(&self.record, &self.summary, &self.diagnosis))
    }

    /// Its page, without the record.
    pub fn into_document(self) -> Document {
        self.document();
        self.document.into_inner().unwrap_or_default()
    }
}

/// What is said of a run. Works for any record, also one cut short: what is missing is named
/// in its place.
fn document(record: &Record, summary: &Summary, found: &Diagnosis) -> Document {
    let header = &record.header;
    let mark = summary.load.as_ref().and_then(|load| load.pass_mark.as_ref());
    let verdict = summary.window.map(|_| found.verdict.clone());
    let sections = [
        findings::findings(found, Reach::Everywhere, Some(record)),
        Some(time::time(summary)),
        stages::stages(summary),
        Some(timeline::timeline(record, summary)),
        Some(latency::latency(record, summary)),
        Some(statements::statements(summary)),
        Some(wal(record, summary)),
        Some(settings(record)),
        Some(host(record, summary)),
        Some(reproduce(record)),
    ];
    Document {
        kind: "run report",
        label: header.label.clone(),
        date: Some(format::moment(header.started)),
        id: header.id.0.clone(),
        title: words::title(record),
        deck: vec![words::deck(record)],
        state: words::state(record),
        verdict,
        is_better: None,
        figures: headline::headline(summary),
        no_figures: summary.load.is_none().then(|| words::no_load(record)),
        beside: headline::beside(record, summary),
        pass: mark.map(|mark| (mark.passed, words::pass_mark(mark))),
        warnings: summary.warnings.iter().map(Warning::of).collect(),
        sections: sections.into_iter().flatten().collect(),
        origin: format!(
            "Run {} of {}, recorded by walwright {}: {}. An interval after a figure covers 95 % \
             and holds the variation inside this run only; runs differ from each other by more.",
            header.id,
            format::moment(header.started),
            header.walwright_version,
            header.command
        ),
    }
}

/// The page of a run that goes on: what is seen of it so far, without what takes long to find out.
pub fn under_way(record: &Record) -> Document {
    let summary = &walwright_figures::summary(record);
    let header = &record.header;
    let at = record.phases.iter().rfind(|phase| phase.end.is_none());
    let at =
        at.map_or("It has just begun".to_owned(), |at| format!("It is at: {}", at.name.name()));
    let has_begun = !record.intervals.is_empty() || words::is_observed(record);
    let timeline = has_begun.then(|| timeline::timeline(record, summary));
    let missing = summary.load.is_none() && !words::is_observed(record);
    Document {
        kind: "run under way",
        label: header.label.clone(),
        date: Some(format::moment(header.started)),
        id: header.id.0.clone(),
        title: words::title(record),
        deck: vec![words::deck(record)],
        state: Some(("Running", format!("{at}."))),
        figures: headline::headline(summary),
        no_figures: missing.then(|| "Nothing is measured yet.".to_owned()),
        beside: headline::beside(record, summary),
        warnings: summary.warnings.iter().map(Warning::of).collect(),
        sections: timeline.into_iter().chain([reproduce(record)]).collect(),
        origin: format!("Run {} of {}.", header.id, format::moment(header.started)),
        ..Document::default()
    }
}

fn heading(text: impl Into<String>) -> Block {
    Block::Heading(text.into())
}

fn wal(record: &Record, summary: &Summary) -> Section {
    let columns = vec![
        vec![heading("Write-ahead log"), Block::Fields(wal::wal(summary))],
        vec![heading("Checkpoints and storage"), Block::Fields(wal::checkpoints(record, summary))],
    ];
    Section::new("wal", "WAL and checkpoints", Reach::Page, vec![Block::Columns(columns)])
}

fn settings(record: &Record) -> Section {
    let table = facts::settings(record);
    let block = match (record.settings.is_empty(), table.rows.is_empty()) {
        (true, _) => Block::Missing(
            "Not observable: the run ended before the settings were read.".to_owned(),
        ),
        (false, true) => Block::Missing("Every setting has its compiled-in default.".to_owned()),
        (false, false) => Block::Table(table),
    };
    Section::new("settings", "Settings that differ from the default", Reach::Paper, vec![block])
}

/// Fields, or why there are none.
fn fields_or(fields: Vec<Field>, missing: &str) -> Block {
    match fields.is_empty() {
        true => Block::Missing(missing.to_owned()),
        false => Block::Fields(fields),
    }
}

fn host(record: &Record, summary: &Summary) -> Section {
    let mut server = vec![
        heading("Server"),
        fields_or(
            facts::server(record),
            "Not observable: the run ended before the server was reached.",
        ),
    ];
    let cpu = facts::cpu(summary);
    if !cpu.is_empty() {
        server.extend([heading("CPU in the measured window"), Block::Fields(cpu)]);
    }
    let host = record.host.as_ref().map(|h| facts::host(h, record)).unwrap_or_default();
    let host = fields_or(
        host,
        "Not observable: the server does not run on this machine, or the run ended before it was looked at.",
    );
    let mut blocks = vec![Block::Columns(vec![server, vec![heading("Host"), host]])];
    let tables = facts::tables(record);
    if !tables.rows.is_empty() {
        blocks.extend([heading("Tables when the load began"), Block::Table(tables)]);
    }
    let kernel = record.host.as_ref().map(facts::kernel).unwrap_or_default();
    if !kernel.is_empty() {
        blocks.extend([heading("Kernel settings"), Block::Columns(kernel)]);
    }
    let unseen = facts::not_observable(record, summary);
    if !unseen.is_empty() {
        blocks.extend([heading("Not observable in this run"), Block::List(unseen)]);
    }
    Section::new("host", "Server and host", Reach::Page, blocks)
}

fn reproduce(record: &Record) -> Section {
    let load = fields_or(
        facts::load(record),
        "The load was not walwright's, or the run ended before it was set up.",
    );
    let instrument = Block::Fields(facts::instrument(record.instrument.as_ref()));
    let columns = vec![vec![heading("Load"), load], vec![heading("Instrument"), instrument]];
    let mut blocks = vec![Block::Columns(columns)];
    if !record.header.command.is_empty() {
        blocks.extend([heading("Command"), Block::Code(record.header.command.clone())]);
    }
    for script in record.workload.iter().flat_map(|workload| &workload.scripts) {
        blocks.extend([
            heading(format!("Script {}, weight {}", script.name, script.weight)),
            Block::Code(script.text.trim_end().to_owned()),
        ]);
    }
    if !record.events.is_empty() {
        let rows = record.events.iter().map(|event| {
            let at = format::clock(event.at.seconds_from(record.header.started));
            vec![Cell::from(at), Cell::from(&event.kind), Cell::from(&event.text)]
        });
        let columns =
            vec![Column::number("At").wide(8), Column::code("Kind").wide(16), Column::text("What")];
        blocks.extend([heading("Events"), Block::Table(Table { columns, rows: rows.collect() })]);
    }
    Section::new("reproduce", "Workload and load", Reach::Page, blocks)
}
