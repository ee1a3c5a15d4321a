//! `walwright compare`.

use std::process::ExitCode;

use anyhow::bail;
use walwright_figures::compare::{RunGroup, compare};
use walwright_record::{Record, RunHeader, RunState};
use walwright_store::Lab;
use walwright_store::{Store, StoreError};

use crate::args::CompareArgs;
use crate::commands::report;
use crate::output::Output;

/// Before a label that names all runs which carry it.
const LABEL: &str = "label:";

/// Compares runs with a baseline.
pub fn execute(lab: &Lab, args: &CompareArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let Some(store) = lab.existing_store()? else {
        bail!(
            "there are no runs in {}: `walwright run` makes one, --lab names another lab",
            lab.directory().display()
        );
    };
    let named = std::iter::once(&args.base).chain(&args.others);
    let groups = named.map(|name| group(&store, name)).collect::<anyhow::Result<Vec<_>>>()?;
    let comparison = compare(groups)?;
    if let Some(path) = &args.html {
        report::write_file(path, &walwright_report::html::comparison(&comparison)?)?;
    }
    if output.json {
        output.print_json(&comparison)?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = crate::show::terminal_width();
    let mut text =
        walwright_report::terminal::comparison(&comparison, width, output.colour, args.all);
    if let Some(path) = &args.html {
        text.push_str(&format!("\nplots: {}\n", path.display()));
    }
    output.print_painted(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The runs that an argument means.
fn group(store: &Store, name: &str) -> anyhow::Result<RunGroup> {
    let headers: Vec<RunHeader> = match name.strip_prefix(LABEL) {
        Some(label) => labelled(store.runs()?, label)?,
        None => name
            .split(',')
            .map(|run| store.find(run.trim()))
            .collect::<Result<Vec<_>, StoreError>>()?,
    };
    let runs = headers
        .iter()
        .map(|header| store.load(&header.id))
        .collect::<Result<Vec<Record>, StoreError>>()?;
    let called = match (name.strip_prefix(LABEL), &headers[..]) {
        (Some(label), _) => label.to_owned(),
        (None, [only]) => only.id.0.clone(),
        (None, all) => all
            .iter()
            .map(|header| header.label.as_deref())
            .reduce(|a, b| if a == b { a } else { None })
            .flatten()
            .map_or_else(|| name.to_owned(), str::to_owned),
    };
    Ok(RunGroup { name: called, runs })
}

/// The complete runs with a label.
fn labelled(runs: Vec<RunHeader>, label: &str) -> anyhow::Result<Vec<RunHeader>> {
    let found: Vec<RunHeader> = runs
        .into_iter()
        .filter(|run| run.state == RunState::Complete && run.label.as_deref() == Some(label))
        .collect();
    if found.is_empty() {
        bail!("no complete run has the label '{label}'; `walwright runs list` lists them");
    }
    Ok(found)
}
