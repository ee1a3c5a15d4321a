//! `walwright commit`.

use std::process::ExitCode;

use anyhow::bail;
use walwright_diagnose::commit_anatomy;
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
    let page = walwright_report::commit(&record, &anatomy);
    output.painted_result(&anatomy, || page.terminal(&output.style()))?;
    Ok(ExitCode::SUCCESS)
}
