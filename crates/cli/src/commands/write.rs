//! Files that commands write: pages in the lab, and what people ask for elsewhere.

use std::path::Path;

use anyhow::Context;
use serde_json::json;
use walwright_report::RunReport;
use walwright_store::{Lab, write_whole};

use crate::output::Output;

/// Writes a file and says where.
pub fn write_told(path: &Path, text: &str, output: &Output) -> anyhow::Result<()> {
    write_file(path, text)?;
    output.result(&json!({ "file": path }), || format!("{}\n", path.display()))
}

/// Renders the page of a run to `path`.
pub fn write_html(lab: &Lab, run: &RunReport, path: &Path) -> anyhow::Result<()> {
    write_page(lab, path, &run.document().html())
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
