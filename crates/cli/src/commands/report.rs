//! `walwright report`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;
use walwright_report::RunReport;
use walwright_store::{Lab, write_whole};

use crate::args::ReportArgs;
use crate::commands::{runs, sweep};
use crate::output::Output;

/// Writes the report of a run again.
pub fn write(lab: &Lab, args: &ReportArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let store = runs::store(lab)?;
    if let Some((name, runs)) = sweep::find(lab, &store, &args.run.run)? {
        let path = args.output.clone().unwrap_or_else(|| sweep::page_path(lab, &name));
        sweep::write_page(lab, &path, &sweep::read(&store, &name, &runs)?)?;
        output.result(&json!({ "file": path }), || format!("{}\n", path.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let run = RunReport::new(runs::load(lab, &args.run)?);
    if args.markdown {
        let text = walwright_report::markdown::summary(&run.record, &run.summary, &run.diagnosis);
        match &args.output {
            Some(path) => write_told(path, &text, output)?,
            None => output.result(&json!({ "markdown": text }), || text.clone())?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let path = args.output.clone().unwrap_or_else(|| lab.report_path(&run.record.header.id));
    write_html(lab, &run, &path)?;
    output.result(&json!({ "file": path }), || format!("{}\n", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a file and says where.
pub fn write_told(path: &Path, text: &str, output: &Output) -> anyhow::Result<()> {
    write_file(path, text)?;
    output.result(&json!({ "file": path }), || format!("{}\n", path.display()))
}

/// Renders the page of a run to `path`.
pub fn write_html(lab: &Lab, run: &RunReport, path: &Path) -> anyhow::Result<()> {
    let page = walwright_report::html::page(&run.record, &run.summary, &run.diagnosis)?;
    write_page(lab, path, &page)
}

/// Writes a page, in the lab for its owner alone.
pub fn write_page(lab: &Lab, path: &Path, page: &str) -> anyhow::Result<()> {
    lab.write(path, page.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a file, and the directories it is in.
pub fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    if let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory).with_context(cannot)?;
    }
    write_whole(path, text.as_bytes()).with_context(cannot)
}
