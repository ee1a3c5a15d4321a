//! `walwright watch report`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use walwright_record::{Timestamp, Window};
use walwright_report::{Document, List, format};
use walwright_store::Lab;
use walwright_watch::{Day, Unit, one_line, rings_of};

use crate::args::WatchReportArgs;
use crate::commands::write::write_page;
use crate::output::{Output, print, say};

/// Rows of a table.
const ROWS: usize = 20;
/// Letters of a statement.
const TEXT: usize = 90;

/// Reads the ring and writes the report.
pub fn write(lab: &Lab, args: &WatchReportArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let rings = rings_of(lab.directory())?;
    let name = |ring: &walwright_watch::Ring| {
        ring.directory().file_name().unwrap_or_default().to_string_lossy().into_owned()
    };
    let wanted = args.server.as_deref().unwrap_or_default();
    let Some(ring) = rings.iter().find(|ring| name(ring).contains(wanted)) else {
        if rings.is_empty() {
            bail!("no server was watched with the lab {}", lab.directory().display());
        }
        let names: Vec<String> = rings.iter().map(name).collect();
        bail!("no server that was watched has '{wanted}' in its name: {}", names.join(", "));
    };
    let now = Timestamp::now();
    let day = Day::read(ring, Window { start: now.minus(args.last), end: now })?;
    let page = || document(&name(ring), &day);
    match &args.output {
        Some(path) => {
            write_page(lab, path, &page().html())?;
            say(&format!("written to {}", path.display()));
        }
        None if output.json => output.print_json(&day)?,
        None if args.markdown => print(&page().markdown())?,
        None => output.print_painted(&page().terminal(&output.style()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn document(server: &str, day: &Day) -> Document {
    let down = match day.down.is_zero() {
        true => String::new(),
        false => format!(", of which the server did not answer for {}", format::length(day.down)),
    };
    let diagnoses = match day.diagnoses {
        1 => "1 diagnosis".to_owned(),
        n => format!("{n} diagnoses"),
    };
    let deck = vec![
        format!("{} to {}", format::moment(day.window.start), format::moment(day.window.end)),
        format!("watched for {}{down}; {diagnoses}", format::length(day.watched)),
    ];
    let verdict = match (day.changes.len(), day.findings.len()) {
        _ if day.watched.is_zero() => "Nothing was watched in this time.".to_owned(),
        (0, 0) => "Nothing changed, and nothing was found.".to_owned(),
        (changes, findings) => format!(
            "{} unlike what is normal, {}.",
            format::counted(changes as u64, "change"),
            format::counted(findings as u64, "finding")
        ),
    };
    let lists = [normal(day), changed(day), found(day), happened(day), statements(day)];
    List::together(format!("Watched: {server}"), deck, verdict, lists)
}

/// A figure with its unit.
fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::PerSecond => format::rate(value),
        Unit::BytesPerSecond => format::byte_rate(value),
        Unit::Seconds => format::length(Duration::from_secs_f64(value.max(0.0))),
        Unit::Sessions => format!("{} sessions", format::number(value)),
        Unit::Share => format::percent(value),
        Unit::Times => format!("{} times", format::number(value)),
    }
}

fn normal(day: &Day) -> List {
    let heads = ["Figure", "A tenth below", "Middle", "A tenth above", "Largest"];
    let mut list = List::new(heads).titled("What was normal").numbers(1..5);
    for of in &day.figures {
        let values = [of.low, of.middle, of.high, of.largest].map(|value| figure(value, of.unit));
        list.row([of.name.to_owned()].into_iter().chain(values));
    }
    list
}

fn changed(day: &Day) -> List {
    let mut list = List::new(["From", "To", "Figure", "Was", "Mostly"])
        .titled("What changed, when")
        .numbers(3..5);
    for of in day.changes.iter().take(ROWS) {
        list.row([
            format::moment(of.window.start),
            format::moment(of.window.end),
            of.name.to_owned(),
            figure(of.was, of.unit),
            figure(of.normal, of.unit),
        ]);
    }
    if day.changes.is_empty() {
        list.note("No stretch of ten minutes was twice or half of what is normal, or there are too few to tell.");
    }
    list
}

fn found(day: &Day) -> List {
    let mut list =
        List::new(["Finding", "About", "Diagnoses", "Most of the latency", "From", "To"])
            .titled("What was found")
            .numbers(2..4);
    for of in day.findings.iter().take(ROWS) {
        list.row([
            format!("{} {}", of.finding.id, of.finding.title),
            of.finding.subject.clone().unwrap_or_default(),
            format!("{} of {}", of.diagnoses, day.diagnoses),
            of.cost.map_or_else(|| format::NOT_OBSERVABLE.to_owned(), format::percent),
            format::moment(of.window.start),
            format::moment(of.window.end),
        ]);
    }
    if day.findings.is_empty() {
        list.note("Nothing.");
    }
    list
}

fn happened(day: &Day) -> List {
    let mut list = List::new(["When", "What", "In words"]).titled("What happened");
    let skipped = day.events.len().saturating_sub(ROWS);
    for of in &day.events[skipped..] {
        list.row([format::moment(of.at), of.kind.words().to_owned(), of.text.clone()]);
    }
    if skipped > 0 {
        list.note(format!("{skipped} earlier events are left out; --json has them."));
    }
    list
}

fn statements(day: &Day) -> List {
    let heads = ["Statement", "WAL", "Share", "Calls", "Time"];
    let mut list = List::new(heads).titled("Who wrote the WAL").numbers(1..5);
    let all: f64 = day.statements.iter().map(|(_, _, counts)| counts.wal_bytes).sum();
    for (id, text, counts) in day.statements.iter().take(ROWS) {
        let text = text.as_deref().map_or_else(|| format!("statement {id}"), one_line);
        list.row([
            crate::show::screen::cut(&text, TEXT),
            format::bytes(counts.wal_bytes),
            format::percent(if all > 0.0 { counts.wal_bytes / all } else { 0.0 }),
            format::count(counts.calls.max(0.0) as u64),
            format::length(Duration::from_secs_f64(counts.seconds.max(0.0))),
        ]);
    }
    if day.statements.is_empty() {
        list.note("Not observable: pg_stat_statements was not there, or nothing ran.");
    }
    list
}
