//! `walwright diagnose`.

use std::process::ExitCode;

use serde_json::json;
use walwright_diagnose::{DiagnosisId, findings};
use walwright_report::terminal::Style;
use walwright_store::Lab;

use crate::args::{DiagnoseArgs, RunName};
use crate::commands::named;
use crate::output::Output;

/// Prints the findings of a run, or what one diagnosis is.
pub fn execute(lab: &Lab, args: &DiagnoseArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let style = output.style();
    if let Some(id) = args.explain {
        explain(id, &style, output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let record = named::load(lab, &RunName { run: args.run.clone() })?;
    let diagnosis = findings(&record);
    output
        .painted_result(&diagnosis, || walwright_report::diagnosis(&diagnosis).terminal(&style))?;
    Ok(ExitCode::SUCCESS)
}

fn explain(id: DiagnosisId, style: &Style, output: &Output) -> anyhow::Result<()> {
    let value = json!({ "id": id, "title": id.title(), "explanation": id.explanation() });
    output.painted_result(&value, || walwright_report::explanation(id).terminal(style))
}
