//! `walwright journal`: experiments and decisions, in order.

mod draft;
mod export;

use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::json;
use walwright_experiment::journal::{Scope, trends};
use walwright_report::journal as rendered;
use walwright_store::Lab;
use walwright_store::journal::{Contents, Entry, EntryId, Journal};

use crate::args::{AddArgs, JournalArgs, JournalCommand};
use crate::commands::named;
use crate::output::{Output, print, say};

/// Does what is asked with the journal.
pub fn execute(lab: &Lab, args: JournalArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let journal = Journal::of(lab);
    match args.command.unwrap_or(JournalCommand::List) {
        JournalCommand::List => list(lab, &read(&journal)?, output)?,
        JournalCommand::Show { name } => show(&read(&journal)?, &name, output)?,
        JournalCommand::Add(args) => add(lab, &journal, *args, output)?,
        JournalCommand::Export(args) => export::write(&read(&journal)?, &args, output)?,
        JournalCommand::Trend { workload, all_runs } => {
            let scope = if all_runs { Scope::AllRuns } else { Scope::Entries };
            trend(lab, &read(&journal)?, scope, workload.as_deref(), output)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The journal; lines of it that cannot be read are told on standard error.
fn read(journal: &Journal) -> anyhow::Result<Contents> {
    let contents = journal.read()?;
    for line in &contents.unreadable {
        say(&format!("journal: {line}"));
    }
    Ok(contents)
}

fn list(lab: &Lab, contents: &Contents, output: &Output) -> anyhow::Result<()> {
    output.painted_result(&contents.entries, || match contents.entries.as_slice() {
        [] => format!(
            "The journal of {} is empty: experiments write into it, and `walwright journal add`.\n",
            lab.directory().display()
        ),
        entries => rendered::list(entries).terminal(&output.style()),
    })
}

fn show(contents: &Contents, name: &str, output: &Output) -> anyhow::Result<()> {
    let entry = contents.find(name)?;
    let corrections: Vec<&Entry> =
        entry.id.iter().flat_map(|id| contents.corrections(id)).collect();
    let names: Vec<&str> = corrections.iter().map(|c| c.name()).collect();
    output.painted_result(&json!({ "entry": entry, "corrected_by": names }), || {
        rendered::entry(entry, &corrections).terminal(&output.style())
    })
}

fn add(lab: &Lab, journal: &Journal, args: AddArgs, output: &Output) -> anyhow::Result<()> {
    let corrects = args.corrects.clone().map(EntryId);
    let (mut draft, written) = if args.question.is_some() {
        (draft::of_arguments(args)?, None)
    } else {
        let (draft, path) = draft::edited(lab)?;
        (draft, Some(path))
    };
    if let Some(corrects) = corrects {
        draft.entry.corrects = Some(corrects);
    }
    let entry = completed(lab, draft)
        .and_then(|entry| Ok(journal.append(entry, walwright_probe::this_machine())?))
        .map_err(|error| match &written {
            Some(path) => error.context(format!("your draft is kept in {}", path.display())),
            None => error,
        })?;
    if let Some(path) = written {
        std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    output.result(&entry, || format!("journal entry {}\n", entry.name()))
}

/// The entry with its runs looked up; their workload is the entry's where it names none.
fn completed(lab: &Lab, draft: draft::Draft) -> anyhow::Result<Entry> {
    let mut entry = draft.entry;
    if draft.runs.is_empty() {
        return Ok(entry);
    }
    let Some(store) = lab.existing_store()? else {
        bail!("there are no runs in {}", lab.directory().display());
    };
    for name in &draft.runs {
        for run in named::named(lab, &store, name)?.all() {
            entry.workload.get_or_insert(run.workload);
            entry.runs.push(run.id);
        }
    }
    Ok(entry)
}

fn trend(
    lab: &Lab,
    contents: &Contents,
    scope: Scope,
    workload: Option<&str>,
    output: &Output,
) -> anyhow::Result<()> {
    let found = match lab.existing_store()? {
        Some(store) => trends(contents, &store, scope, workload)?,
        None => Vec::new(),
    };
    if output.json {
        return output.print_json(&found);
    }
    if found.is_empty() {
        let hint = match scope {
            Scope::Entries => "no entry rests on a complete run; --all-runs takes all of the lab\n",
            Scope::AllRuns => "there is no complete run in this lab\n",
        };
        return print(hint);
    }
    let style = output.style();
    let parts: Vec<String> = found.iter().map(|trend| rendered::trend(trend, &style)).collect();
    output.print_painted(&parts.join("\n"))
}
