//! The report: one HTML file that needs nothing else, on screen and on paper.
//!
//! [`page`] fills the page (`Page`) section by section from the record and from
//! what `diagnose` makes of it, and hands it to the template. Text from outside
//! is escaped by the template engine; charts escape their own.

mod compare;
mod cpu_panel;
mod experiment;
mod facts;
mod findings;
mod frame;
mod headline;
mod latency;
mod page;
mod scaling;
mod statements;
mod storage;
mod time;
mod timeline;
mod wal;

use thiserror::Error;
use walwright_diagnose::Diagnosis;
use walwright_figures::{Summary, Timeline, timeline};
use walwright_record::Record;

use crate::{format, words};
pub use compare::comparison;
pub use experiment::experiment;
pub(crate) use frame::{STYLE, rendered};
use page::{EventRow, Failure, Page, Script, State, WarningRow};
pub use scaling::scaling;
pub use storage::storage;

const TEMPLATE: &str = include_str!("../../templates/report.html");

/// The page could not be made from its template.
#[derive(Debug, Error)]
#[error("the report could not be rendered: {0:#}")]
pub struct ReportError(#[from] minijinja::Error);

/// The report of a run as a whole HTML page without outside resources.
///
/// `summary` and `diagnosis` are those of the same record. Works for any record, also one cut
/// short: what is missing is named in its place.
///
/// # Errors
/// Only when the template itself is wrong, which the tests would show.
pub fn page(
    record: &Record,
    summary: &Summary,
    diagnosis: &Diagnosis,
) -> Result<String, ReportError> {
    let mut page = filled(record, summary, &timeline(record));
    page.findings = findings::section(diagnosis);
    rendered(TEMPLATE, &page)
}

fn filled(record: &Record, summary: &Summary, plots: &Timeline) -> Page {
    let header = &record.header;
    let (timeline, timeline_missing) = timeline::timeline(record, summary, plots);
    let warnings = warnings(summary);
    Page {
        title: words::title(record),
        deck: words::deck(record),
        id: header.id.0.clone(),
        label: header.label.clone(),
        version: header.walwright_version.clone(),
        started: format::moment(header.started),
        state: words::state(record).map(|(name, text)| State { name: name.to_owned(), text }),
        headline: headline::headline(summary),
        headline_missing: words::no_load(record),
        beside: headline::beside(record, summary),
        verdict: headline::verdict(summary),
        warnings_title: match warnings.len() {
            1 => "A warning that goes with every figure".to_owned(),
            n => format!("{n} warnings that go with every figure"),
        },
        warnings,
        findings: None,
        time: summary.time.as_ref().filter(|t| t.unseen().is_none()).map(time::time),
        time_missing: time::missing(summary),
        timeline,
        timeline_missing,
        latency: latency::latency(record, summary),
        failures: failures(summary),
        statements: summary.statements.as_ref().map(statements::lists).unwrap_or_default(),
        statements_missing: statements::missing(summary),
        wal: wal::wal(summary),
        checkpoints: wal::checkpoints(record, summary),
        settings: facts::settings(record),
        settings_missing: if record.settings.is_empty() {
            "Not observable: the run ended before the settings were read.".to_owned()
        } else {
            "Every setting has its compiled-in default.".to_owned()
        },
        server: facts::server(record),
        host: record.host.as_ref().map(|h| facts::host(h, record)).unwrap_or_default(),
        cpu: facts::cpu(summary),
        kernel: record.host.as_ref().map(facts::kernel).unwrap_or_default(),
        tables: facts::tables(record),
        not_observable: facts::not_observable(record, summary),
        load: facts::load(record),
        instrument: facts::instrument(record.instrument.as_ref()),
        command: header.command.clone(),
        scripts: scripts(record),
        events: events(record),
    }
}

fn warnings(summary: &Summary) -> Vec<WarningRow> {
    summary
        .warnings
        .iter()
        .map(|w| WarningRow {
            text: words::sentence(&w.text),
            hint: w.hint.as_deref().map(words::sentence),
        })
        .collect()
}

fn failures(summary: &Summary) -> Vec<Failure> {
    let Some(load) = &summary.load else { return Vec::new() };
    let all = (load.transactions + load.failed) as f64;
    load.failures
        .iter()
        .map(|(code, count)| Failure {
            code: code.clone(),
            meaning: words::sqlstate(code).to_owned(),
            count: format::count(*count),
            share: format::percent(*count as f64 / all),
        })
        .collect()
}

fn scripts(record: &Record) -> Vec<Script> {
    let scripts = record.workload.iter().flat_map(|w| &w.scripts);
    scripts
        .map(|s| Script {
            name: s.name.clone(),
            weight: s.weight,
            text: s.text.trim_end().to_owned(),
        })
        .collect()
}

fn events(record: &Record) -> Vec<EventRow> {
    record
        .events
        .iter()
        .map(|event| EventRow {
            at: format::clock(event.at.seconds_from(record.header.started)),
            kind: event.kind.clone(),
            text: event.text.clone(),
        })
        .collect()
}
