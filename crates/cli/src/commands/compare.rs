//! `walwright compare`.

use std::process::ExitCode;

use anyhow::bail;
use walwright_figures::compare::{Comparison, RunGroup, compare_within};
use walwright_figures::limit::JudgedLimit;
use walwright_record::{Record, RunHeader};
use walwright_report::{comparison, comparison_csv};
use walwright_store::{Lab, NamedRuns, Store, StoreError};

use crate::args::{CompareArgs, ComparisonFormat};
use crate::commands::{named, write};
use crate::output::{Output, exit, print};

/// Compares runs with a baseline.
pub fn execute(lab: &Lab, args: &CompareArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let Some(store) = lab.existing_store()? else {
        bail!(
            "there are no runs in {}: `walwright run` makes one, --lab names another lab",
            lab.directory().display()
        );
    };
    let named = std::iter::once(&args.base).chain(&args.others);
    let groups = named.map(|name| group(lab, &store, name)).collect::<anyhow::Result<Vec<_>>>()?;
    let compared = compare_within(groups, &args.fail_if)?;
    let code = match compared.limits.iter().any(JudgedLimit::is_failed) {
        true => ExitCode::from(exit::CHECK_FAILED),
        false => ExitCode::SUCCESS,
    };
    if let Some(path) = &args.html {
        write::write_file(path, &comparison(&compared, true).html())?;
    }
    let default = if output.json { ComparisonFormat::Json } else { ComparisonFormat::Text };
    match args.format.unwrap_or(default) {
        ComparisonFormat::Json => output.print_json(&compared)?,
        ComparisonFormat::Csv => print(&comparison_csv(&compared))?,
        ComparisonFormat::Markdown => print(&comparison(&compared, args.all).markdown())?,
        ComparisonFormat::Text => output.print_painted(&text(&compared, args, output))?,
    }
    Ok(code)
}

fn text(compared: &Comparison, args: &CompareArgs, output: &Output) -> String {
    let style = output.style();
    let mut text = comparison(compared, args.all).terminal(&style);
    if let Some(path) = &args.html {
        text.push_str(&format!("\nplots: {}\n", path.display()));
    }
    text
}

/// The runs that an argument means.
fn group(lab: &Lab, store: &Store, text: &str) -> anyhow::Result<RunGroup> {
    // Commas may be in a label.
    let named = match named::named(lab, store, text) {
        Err(_) if text.contains(',') => text
            .split(',')
            .map(|name| named::named(lab, store, name.trim()))
            .collect::<anyhow::Result<Vec<_>>>()?,
        named => vec![named?],
    };
    let called = match &named[..] {
        [NamedRuns::Label(name, _) | NamedRuns::Series(name, _)] => Some(name.clone()),
        [NamedRuns::Run(run)] => Some(run.id.0.clone()),
        _ => None,
    };
    let headers: Vec<RunHeader> = named.into_iter().flat_map(NamedRuns::measured).collect();
    if headers.is_empty() {
        bail!("no run of '{text}' is complete; `walwright runs list` lists them");
    }
    let runs = headers
        .iter()
        .map(|header| store.load(&header.id))
        .collect::<Result<Vec<Record>, StoreError>>()?;
    let shared = || {
        let labels = headers.iter().map(|header| header.label.as_deref());
        labels.reduce(|a, b| if a == b { a } else { None }).flatten().map(str::to_owned)
    };
    let name = called.or_else(shared).unwrap_or_else(|| text.to_owned());
    Ok(RunGroup { name, runs })
}
