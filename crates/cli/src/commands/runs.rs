//! `walwright runs`, `show` and `delete`.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use serde_json::json;
use walwright_diagnose::findings;
use walwright_figures::summary;
use walwright_record::{Headline, Record, RunHeader};
use walwright_report::format;
use walwright_run::{Kept, sweep_of};
use walwright_store::Lab;
use walwright_store::{Store, StoreError};

use crate::args::{DeleteArgs, RunName};
use crate::commands::{stages, sweep};
use crate::output::Output;

/// Lists the runs.
pub fn list(lab: &Lab, output: &Output) -> anyhow::Result<ExitCode> {
    let (runs, headlines) = match lab.existing_store()? {
        Some(store) => (store.runs()?, store.headlines()?),
        None => Default::default(),
    };
    let headline = |run: &RunHeader| headlines.get(&run.id.0);
    let listed: Vec<Listed> = runs
        .iter()
        .map(|run| Listed { run, headline: headline(run), sweep: sweep_of(run) })
        .collect();
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
        for (run, head) in grouped(&runs) {
            if let Some((name, count)) = head {
                table.add_row([name.to_owned(), format::counted(count as u64, "run")]);
            }
            let headline = headline(run);
            let indent = if sweep_of(run).is_some() { "  " } else { "" };
            table.add_row([
                format!("{indent}{}", run.id),
                run.state.name().to_owned(),
                run.workload.clone(),
                run.target.clone(),
                headline.map(|h| format::number(h.throughput)).unwrap_or_default(),
                headline.map(|h| latency(h.p50)).unwrap_or_default(),
                headline.map(|h| latency(h.p99)).unwrap_or_default(),
                own_label(run).to_owned(),
            ]);
        }
        for column in 4..7 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = format!("{}\n", table.trim_fmt());
        for run in &runs {
            if let Some(why) = run.damage() {
                text.push_str(&format!("{}: {why}; `walwright delete` removes it\n", run.id));
            }
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The runs in order of time, those of a sweep together where its first one stands, which
/// brings the sweep's name and the number of its runs.
fn grouped(runs: &[RunHeader]) -> Vec<(&RunHeader, Option<(&str, usize)>)> {
    let mut listed = Vec::new();
    let mut told = BTreeSet::new();
    for run in runs {
        let Some(name) = sweep_of(run) else {
            listed.push((run, None));
            continue;
        };
        if told.insert(name) {
            let of: Vec<&RunHeader> =
                runs.iter().filter(|other| sweep_of(other) == Some(name)).collect();
            let count = of.len();
            let head = |place| (place == 0).then_some((name, count));
            listed.extend(of.into_iter().enumerate().map(|(place, run)| (run, head(place))));
        }
    }
    listed
}

/// The person's own words in a label.
fn own_label(run: &RunHeader) -> &str {
    let label = run.label.as_deref().unwrap_or_default();
    match sweep_of(run) {
        Some(sweep) => label.strip_suffix(sweep).unwrap_or(label).trim_end(),
        None => label,
    }
}

/// A run as `runs --json` lists it.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    run: &'a RunHeader,
    /// Transactions a second and latencies in seconds; null where nothing was measured.
    headline: Option<&'a Headline>,
    /// The sweep it belongs to.
    sweep: Option<&'a str>,
}

/// Prints the summary of one run, or a sweep.
pub fn show(lab: &Lab, name: &RunName, output: &Output) -> anyhow::Result<ExitCode> {
    let store = store(lab)?;
    if let Some((name, runs)) = sweep::find(&store, &name.run)? {
        sweep::print_scaling(lab, &sweep::read(&store, &name, &runs)?, output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let record = load(lab, name)?;
    print_summary(lab, &record, None, output)?;
    Ok(ExitCode::SUCCESS)
}

/// The records, for a command that needs one to be there.
pub fn store(lab: &Lab) -> anyhow::Result<Store> {
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
    if let Some(time) = summary.load.as_ref().and_then(|load| load.connection_time.as_ref()) {
        text.push_str(&format!(
            "connections: {} opened, mean {}, p50 {}, p99 {} each\n",
            format::count(time.count),
            format::latency(time.mean),
            format::latency(time.p50),
            format::latency(time.p99)
        ));
    }
    if let Some(load) = summary.load.as_ref().filter(|load| !load.stages.is_empty()) {
        text.push_str(&stages::table(&load.stages));
    }
    if let Some(sweep) = sweep_of(&record.header) {
        text.push_str(&format!(
            "sweep: one of {sweep}; `walwright show {sweep}` shows the curve\n"
        ));
    }
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
    output.print_painted(&text)
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
