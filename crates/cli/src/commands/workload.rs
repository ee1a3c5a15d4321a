//! `walwright workload`: what can be run.

use std::fmt::Write;
use std::process::ExitCode;

use serde_json::json;
use walwright_workload::workload::builtin_names;
use walwright_workload::{Settings, Workload};

use crate::args::WorkloadCommand;
use crate::output::Output;

/// Lists, shows or copies workloads.
pub fn execute(command: WorkloadCommand, output: &Output) -> anyhow::Result<ExitCode> {
    match command {
        WorkloadCommand::List => list(output)?,
        WorkloadCommand::Show { workload } => show(&Workload::find(&workload)?, output)?,
        WorkloadCommand::Export { workload, directory } => {
            Workload::builtin(&workload)?.export(&directory)?;
            output.result(&json!({ "directory": directory }), || {
                let directory = directory.display();
                format!(
                    "copied to {directory}; edit it and run it with `walwright run --workload {directory}`\n"
                )
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(output: &Output) -> anyhow::Result<()> {
    let workloads = builtin_names().map(Workload::builtin).collect::<Result<Vec<_>, _>>()?;
    let value: Vec<_> = workloads
        .iter()
        .map(|workload| json!({ "name": workload.name, "title": workload.title }))
        .collect();
    output.result(&value, || {
        workloads.iter().map(|w| format!("{:<15} {}\n", w.name, w.title)).collect()
    })
}

fn show(workload: &Workload, output: &Output) -> anyhow::Result<()> {
    let plan = workload.plan(&Settings::of(workload))?;
    let files: Vec<_> =
        workload.files().map(|(name, text)| json!({ "name": name, "text": text })).collect();
    let value = json!({
        "name": workload.name,
        "title": workload.title,
        "description": workload.description,
        "scale": workload.defaults.scale,
        "clients": workload.defaults.clients,
        "rows": plan.total_rows(),
        "options": plan.options,
        "checks": plan.checks.iter().map(|check| &check.name).collect::<Vec<_>>(),
        "files": files,
    });
    output.result(&value, || {
        let mut text = format!("{}: {}\n", workload.name, workload.title);
        if !workload.description.is_empty() {
            let _ = writeln!(text, "\n{}", workload.description.trim());
        }
        let _ = writeln!(
            text,
            "\nBy default scale {} ({} rows) and {}.",
            workload.defaults.scale,
            walwright_report::format::count(plan.total_rows()),
            walwright_report::format::counted(workload.defaults.clients.into(), "client")
        );
        for option in &workload.options {
            let _ = writeln!(
                text,
                "--option {}={}  {}",
                option.name, option.default, option.description
            );
        }
        for (name, body) in workload.files() {
            let _ = write!(text, "\n--- {name}\n{}", body.trim_end());
            text.push('\n');
        }
        text
    })
}
