//! `walwright runs`.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::json;
use walwright_record::{Event, Headline, RunHeader, RunState, Timestamp};
use walwright_report::{List, RunReport, format};
use walwright_store::{Lab, NamedRuns, Store};

use crate::args::{
    DeleteArgs, LabelArgs, Moment, NoteArgs, RunFilter, RunsArgs, RunsCommand, ShowArgs,
};
use crate::commands::{export, named, summary, sweep};
use crate::output::{Output, exit, say};

/// Lists, shows, exports or deletes runs.
pub fn execute(lab: &Lab, args: RunsArgs, output: &Output) -> anyhow::Result<ExitCode> {
    match args.command {
        None => list(lab, &RunFilter::default(), output),
        Some(RunsCommand::List(filter)) => list(lab, &filter, output),
        Some(RunsCommand::Show(name)) => show(lab, &name, output),
        Some(RunsCommand::Export(args)) => export::write(lab, &args, output),
        Some(RunsCommand::Label(args)) => label(lab, &args, output),
        Some(RunsCommand::Note(args)) => note(lab, &args, output),
        Some(RunsCommand::Delete(args)) => delete(lab, &args, output),
    }
}

/// Lists the runs that a filter leaves.
pub fn list(lab: &Lab, filter: &RunFilter, output: &Output) -> anyhow::Result<ExitCode> {
    let (mut runs, headlines) = match lab.existing_store()? {
        Some(store) => (store.runs()?, store.headlines()?),
        None => Default::default(),
    };
    let is_empty = runs.is_empty();
    runs.retain(|run| filter.fits(run));
    let headline = |run: &RunHeader| headlines.get(&run.id.0);
    let listed: Vec<Listed> = runs
        .iter()
        .map(|run| Listed { run, headline: headline(run), sweep: run.sweep() })
        .collect();
    output.list(&listed, || {
        if runs.is_empty() && !is_empty {
            return Err("No run fits. `walwright runs list` lists all.\n".to_owned());
        }
        if runs.is_empty() {
            return Err(format!(
                "No runs in {}. `walwright run` makes the first.\n",
                lab.directory().display()
            ));
        }
        let heads = ["run", "state", "workload", "target", "per second", "p50", "p99", "label"];
        let mut list = List::new(heads).numbers(4..7);
        let latency = |seconds: f64| format::latency(Duration::from_secs_f64(seconds));
        for (run, head) in grouped(&runs) {
            if let Some((name, count)) = head {
                list.row([name.to_owned(), format::counted(count as u64, "run")]);
            }
            let headline = headline(run);
            let indent = if run.sweep().is_some() { "  " } else { "" };
            list.row([
                format!("{indent}{}", run.id),
                run.state.name().to_owned(),
                run.workload.clone(),
                run.target.clone(),
                headline.map(|h| format::number(h.throughput)).unwrap_or_default(),
                headline.map(|h| latency(h.p50)).unwrap_or_default(),
                headline.map(|h| latency(h.p99)).unwrap_or_default(),
                run.own_label().to_owned(),
            ]);
        }
        for run in &runs {
            if let Some(why) = run.damage() {
                list.note(format!("{}: {why}; `walwright runs delete` removes it", run.id));
            }
        }
        Ok(list)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The runs in order of time, those of a sweep together where its first one stands, which
/// brings the sweep's name and the number of its runs.
fn grouped(runs: &[RunHeader]) -> Vec<(&RunHeader, Option<(&str, usize)>)> {
    let mut listed = Vec::new();
    let mut told = BTreeSet::new();
    for run in runs {
        let Some(name) = run.sweep() else {
            listed.push((run, None));
            continue;
        };
        if told.insert(name) {
            let of: Vec<&RunHeader> =
                runs.iter().filter(|other| other.sweep() == Some(name)).collect();
            let count = of.len();
            let head = |place| (place == 0).then_some((name, count));
            listed.extend(of.into_iter().enumerate().map(|(place, run)| (run, head(place))));
        }
    }
    listed
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
pub fn show(lab: &Lab, args: &ShowArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let store = named::store(lab)?;
    if let Some((name, runs)) = sweep::find(lab, &store, &args.run.run)? {
        sweep::print_scaling(lab, &sweep::read(&store, &name, &runs)?, output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let run = RunReport::new(named::load(lab, &args.run)?);
    summary::print_summary(lab, &run, args.all, None, &[], output)?;
    Ok(ExitCode::SUCCESS)
}

/// Gives a run another label, or none.
fn label(lab: &Lab, args: &LabelArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let store = named::store(lab)?;
    let run = named::named(lab, &store, &args.run)?.one(&args.run)?;
    let label = Some(args.label.as_str()).filter(|label| !label.is_empty());
    store.relabel(&run.id, label)?;
    output.result(&json!({ "run": run.id, "label": label }), || match label {
        Some(label) => format!("{} is labelled {label}\n", run.id),
        None => format!("{} has no label\n", run.id),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a note on a run's timeline.
fn note(lab: &Lab, args: &NoteArgs, output: &Output) -> anyhow::Result<ExitCode> {
    if args.text.is_empty() {
        bail!("a note says something: write it between quotes");
    }
    let store = named::store(lab)?;
    let run = named::named(lab, &store, &args.run)?.one(&args.run)?;
    let (now, goes_on) = (Timestamp::now(), run.state == RunState::Running);
    let at = match args.at {
        None if goes_on => now,
        None => bail!(
            "run {} has ended: say where on its timeline the note stands, as --at 33s",
            run.id
        ),
        Some(Moment::At(at)) => at,
        Some(Moment::Into(length)) => {
            let record = store.load(&run.id)?;
            walwright_report::timeline_begins(&record).unwrap_or(run.started).plus(length)
        }
    };
    let last = if goes_on { Some(now) } else { run.ended };
    if at < run.started || last.is_some_and(|last| at > last) {
        let until = last.map_or_else(String::new, |last| format!(" to {}", format::moment(last)));
        bail!(
            "{} is no moment of run {}, which is recorded from {}{until}",
            format::moment(at),
            run.id,
            format::moment(run.started)
        );
    }
    let note = Event { at, kind: "note".to_owned(), text: args.text.clone() };
    store.add_event(&run.id, &note)?;
    output.result(&json!({ "run": run.id, "note": note }), || {
        format!("noted at {} in {}\n", format::moment(at), run.id)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Deletes runs and their reports.
pub fn delete(lab: &Lab, args: &DeleteArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let store = named::store(lab)?;
    let found = chosen(lab, &store, args)?;
    let names: Vec<&str> = found.iter().map(|run| run.id.0.as_str()).collect();
    if !args.yes && !names.is_empty() && (names.len() > 1 || args.filter.is_set()) {
        output.result(&json!({ "would_delete": names }), || {
            found.iter().map(|run| format!("{}\n", told(run))).collect()
        })?;
        let runs = format::counted(names.len() as u64, "run");
        say(&format!("nothing was deleted; --yes deletes the {runs} listed"));
        return Ok(ExitCode::from(exit::USAGE));
    }
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
    output.result(&json!({ "deleted": names }), || match names.is_empty() {
        true => "no run fits; nothing was deleted\n".to_owned(),
        false => format!("deleted {}\n", names.join(", ")),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The runs to delete. All names are looked up first: a wrong one deletes nothing. Of several
/// that go by one name, or by a filter, those that are being written stay.
fn chosen(lab: &Lab, store: &Store, args: &DeleteArgs) -> anyhow::Result<Vec<RunHeader>> {
    let ended = |runs: Vec<RunHeader>| {
        runs.into_iter().filter(|run| run.state != RunState::Running).collect::<Vec<_>>()
    };
    let mut found = Vec::new();
    for name in &args.runs {
        found.extend(match named::named(lab, store, name)? {
            NamedRuns::Run(run) => vec![run],
            several => ended(several.all()),
        });
    }
    if args.runs.is_empty() {
        found = ended(store.runs()?);
    }
    found.retain(|run| args.filter.fits(run));
    let mut seen = BTreeSet::new();
    found.retain(|run| seen.insert(run.id.0.clone()));
    Ok(found)
}

/// A run in one line: its name, and what tells it from others.
fn told(run: &RunHeader) -> String {
    let label = run.label.as_deref().unwrap_or_default();
    format!("{}  {}  {}  {label}", run.id, run.state.name(), run.workload).trim_end().to_owned()
}
