//! What a run came to, and where its page is.

use serde_json::json;
use walwright_figures::limit::JudgedLimit;
use walwright_report::RunReport;
use walwright_run::Kept;
use walwright_store::Lab;

use crate::output::Output;

/// Prints the summary of a run, `all` its warnings or a few, where its report is, what else was
/// kept, and what came of limits.
pub fn print_summary(
    lab: &Lab,
    run: &RunReport,
    all: bool,
    kept: Option<&Kept>,
    limits: &[JudgedLimit],
    output: &Output,
) -> anyhow::Result<()> {
    let RunReport { record, summary, .. } = run;
    let report = lab.report_path(&record.header.id);
    let report = report.exists().then_some(report);
    if output.json {
        let mut told = json!({
            "run": record.header,
            "summary": summary,
            "warnings": record.warnings,
            "report": report,
            "kept_cluster": kept,
        });
        if !limits.is_empty() {
            told["limits"] = json!(limits);
        }
        return output.print_json(&told);
    }
    let mut text = run.document().summary(&output.style(), all);
    if let Some(sweep) = record.header.sweep() {
        text.push_str(&format!(
            "sweep: one of {sweep}; `walwright runs show {sweep}` shows the curve\n"
        ));
    }
    if let Some(report) = report {
        text.push_str(&format!("report: {}\n", report.display()));
    }
    if let Some(kept) = kept {
        text.push_str(&format!(
            "cluster: kept in {}\n  start    {}\n  connect  {}\n  stop     {}\n",
            kept.directory.display(),
            kept.start,
            kept.connect,
            kept.stop
        ));
    }
    for limit in limits {
        text.push_str(&format!("{}\n", walwright_report::limit(limit)));
    }
    output.print_painted(&text)
}
