//! `walwright report`.

use std::process::ExitCode;

use serde_json::json;
use walwright_report::RunReport;
use walwright_store::Lab;

use crate::args::ReportArgs;
use crate::commands::{named, sweep, write};
use crate::output::Output;

/// Writes the report of a run again.
pub fn write(lab: &Lab, args: &ReportArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let store = named::store(lab)?;
    if let Some((name, runs)) = sweep::find(lab, &store, &args.run.run)? {
        let path = args.output.clone().unwrap_or_else(|| sweep::page_path(lab, &name));
        sweep::write_page(lab, &path, &sweep::read(&store, &name, &runs)?)?;
        output.result(&json!({ "file": path }), || format!("{}\n", path.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let run = RunReport::new(named::load(lab, &args.run)?);
    if args.markdown {
        let text = run.document().markdown();
        match &args.output {
            Some(path) => write::write_told(path, &text, output)?,
            None => output.result(&json!({ "markdown": text }), || text.clone())?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let path = args.output.clone().unwrap_or_else(|| lab.report_path(&run.record.header.id));
    write::write_html(lab, &run, &path)?;
    output.result(&json!({ "file": path }), || format!("{}\n", path.display()))?;
    Ok(ExitCode::SUCCESS)
}
