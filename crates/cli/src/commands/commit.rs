//! `walwright commit`.

use std::process::ExitCode;

use anyhow::bail;
use walwright_diagnose::commit_anatomy;
use walwright_report::terminal;
use walwright_store::Lab;

use crate::args::RunName;
use crate::commands::named;
use crate::output::Output;

/// Prints the anatomy of a run's commits.
pub fn execute(lab: &Lab, name: &RunName, output: &Output) -> anyhow::Result<ExitCode> {
    let record = named::load(lab, name)?;
    let Some(anatomy) = commit_anatomy(&record) else {
        bail!("run {} has no measured window, so it has no figures of commits", record.header.id);
    };
    let style = output.style();
    output.painted_result(&anatomy, || terminal::commit(&record, &anatomy, &style))?;
    Ok(ExitCode::SUCCESS)
}
