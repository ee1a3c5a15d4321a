//! `walwright runs`, `show` and `delete`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use serde_json::json;
use walwright_diagnose::{findings, summary};
use walwright_lab::{Kept, Lab};
use walwright_record::{Headline, Record, RunHeader, Store, StoreError};
use walwright_report::format;

use crate::args::{DeleteArgs, RunName};
use crate::output::{Output, print};

/// Lists the runs.
pub fn list(lab: &Lab, output: &Output) -> anyhow::Result<ExitCode> {
    let (runs, headlines) = match lab.existing_store()? {
        Some(store) => (store.runs()?, store.headlines()?),
        None => Default::default(),
    };
    let headline = |run: &RunHeader| headlines.get(&run.id.0);
    let listed: Vec<Listed> =
        runs.iter().map(|run| Listed { run, headline: headline(run) }).collect();
    output.result(&listed, || {
        if runs.is_empty() {
            return format!(
                "No runs in {}. `walwright run` makes the first.\n",
                lab.directory().display()
            );
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "run",
            "state",
            "workload",
            "target",
            "per second",
            "p50",
            "p99",
            "label",
        ]);
        let latency = |seconds: f64| format::latency(Duration::from_secs_f64(seconds));
        for run in &runs {
            let headline = headline(run);
            table.add_row([
                run.id.0.clone(),
                run.state.name().to_owned(),
                run.workload.clone(),
                run.target.clone(),
                headline.map(|h| format::number(h.throughput)).unwrap_or_default(),
                headline.map(|h| latency(h.p50)).unwrap_or_default(),
                headline.map(|h| latency(h.p99)).unwrap_or_default(),
                run.label.clone().unwrap_or_default(),
            ]);
        }
        for column in 4..7 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        format!("{}\n", table.trim_fmt())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A run as `runs --json` lists it.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    run: &'a RunHeader,
    /// Transactions a second and latencies in seconds; null where nothing was measured.
    headline: Option<&'a Headline>,
}

/// Prints the summary of one run.
pub fn show(lab: &Lab, name: &RunName, output: &Output) -> anyhow::Result<ExitCode> {
    let record = load(lab, name)?;
    print_summary(lab, &record, None, output)?;
    Ok(ExitCode::SUCCESS)
}

/// The records, for a command that needs one to be there.
fn store(lab: &Lab) -> anyhow::Result<Store> {
    match lab.existing_store()? {
        Some(store) if !store.runs()?.is_empty() => Ok(store),
        _ => bail!(
            "there are no runs in {}: `walwright run` makes one, --lab names another lab",
            lab.directory().display()
        ),
    }
}

/// The record a person means.
pub fn load(lab: &Lab, name: &RunName) -> anyhow::Result<Record> {
    let store = store(lab)?;
    let header = store.find(&name.run)?;
    Ok(store.load(&header.id)?)
}

/// Prints the summary of a record, where its report is, and what else was kept.
pub fn print_summary(
    lab: &Lab,
    record: &Record,
    kept: Option<&Kept>,
    output: &Output,
) -> anyhow::Result<()> {
    let summary = summary(record);
    let report = lab.report_path(&record.header.id);
    let report = report.exists().then_some(report);
    if output.json {
        return output.print_json(&json!({
            "run": record.header,
            "summary": summary,
            "warnings": record.warnings,
            "report": report,
            "kept_cluster": kept,
        }));
    }
    let mut text = walwright_report::terminal::summary(
        record,
        &summary,
        &findings(record),
        crate::show::terminal_width(),
        output.colour,
    );
    if let Some(report) = report {
        text.push_str(&format!("report: {}\n", report.display()));
    }
    if let Some(kept) = kept {
        text.push_str(&format!(
            "cluster: kept in {}\n  start    {}\n  connect  {}\n  stop     {}\n",
            kept.directory.display(),
            kept.start,
            kept.connect,
            kept.stop
        ));
    }
    print(&text)
}

/// Deletes runs and their reports.
pub fn delete(lab: &Lab, args: &DeleteArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let store = store(lab)?;
    // All names are looked up first: a wrong one deletes nothing.
    let found: Vec<RunHeader> =
        args.runs.iter().map(|name| store.find(name)).collect::<Result<_, StoreError>>()?;
    for run in &found {
        store.delete(&run.id)?;
        let report = lab.report_path(&run.id);
        match std::fs::remove_file(&report) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot delete {}", report.display()));
            }
            _ => {}
        }
    }
    let names: Vec<&str> = found.iter().map(|run| run.id.0.as_str()).collect();
    output.result(&json!({ "deleted": names }), || format!("deleted {}\n", names.join(", ")))?;
    Ok(ExitCode::SUCCESS)
}
