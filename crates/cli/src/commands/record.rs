//! `walwright record`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::json;
use walwright_record::RunState;
use walwright_report::RunReport;
use walwright_run::{
    CommandPlan, LoadParts, LogChoice, PoolWaitPlan, Printing, ProbePlan, ProcessName, RecordPlan,
    Recorded, ServerAddress, Until,
};
use walwright_store::Lab;

use crate::args::{GuardArgs, RecordArgs};
use crate::commands::runtime::{Parting, until_done};
use crate::commands::{command_line, named, summary, write};
use crate::output::{Output, exit, usage};
use crate::show::{self, Style};

/// Records someone else's load, prints its summary and writes its report; or adds
/// client-side results to a record.
pub fn execute(lab: &Lab, args: RecordArgs, output: &Output) -> anyhow::Result<ExitCode> {
    if let Some(run) = &args.add_to {
        return add(lab, run, &args, output);
    }
    let style = match (args.quiet, args.plain) {
        (true, _) => Style::Quiet,
        // A command writes to the same terminal.
        (false, plain) if plain || !args.command.is_empty() => Style::Plain,
        (false, _) => Style::Auto,
    };
    let all = args.all;
    let plan = plan(args, output)?;
    let parting = match plan.until {
        Until::Elapsed(_) | Until::InputEnds => Parting::LOOKING,
        Until::CommandEnds(_) => Parting::COMMANDING,
    };
    let recorded = until_done(parting, async |stop| {
        let (observer, _terminal) = show::observer(style, &stop, output);
        walwright_run::record(lab, plan, stop, observer).await
    })?;
    match recorded {
        Ok(recorded) => conclude(lab, recorded, all, output),
        Err(error) => Ok(output.ended(error.is_interruption(), error)),
    }
}

/// Writes the report, prints the summary, and passes the command's exit code on.
fn conclude(lab: &Lab, recorded: Recorded, all: bool, output: &Output) -> anyhow::Result<ExitCode> {
    let run = RunReport::with(recorded.record, recorded.summary);
    write::write_html(lab, &run, &lab.report_path(&recorded.id))?;
    summary::print_summary(lab, &run, all, None, &[], output)?;
    if recorded.state == RunState::Interrupted {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    if let Some(error) = recorded.error {
        let what = format!("run {} is kept, but without all results of its clients", recorded.id);
        return Ok(output.fail(&anyhow::Error::new(error).context(what)));
    }
    match recorded.code.map(u8::try_from) {
        None => Ok(ExitCode::SUCCESS),
        Some(code) => Ok(ExitCode::from(code.unwrap_or(exit::FAILED))),
    }
}

/// Adds client-side results to a record and renders its report again.
fn add(lab: &Lab, run: &str, args: &RecordArgs, output: &Output) -> anyhow::Result<ExitCode> {
    if args.client_log.is_empty() {
        bail!("--add-to needs the files to add: --client-log FILE");
    }
    let header = match lab.existing_store()? {
        Some(store) => named::named(lab, &store, run)?.one(run)?,
        None => bail!("there are no runs in {}", lab.directory().display()),
    };
    let warnings = walwright_run::add_results(lab, &header.id, &logs(args)?)?;
    let run = RunReport::new(lab.store()?.load(&header.id)?);
    write::write_html(lab, &run, &lab.report_path(&header.id))?;
    output.result(
        &json!({ "run": header.id, "client": run.record.client, "warnings": warnings }),
        || {
            let count = run.record.intervals.len();
            let warnings: String = warnings.iter().map(|warning| format!("! {warning}\n")).collect();
            format!(
                "{warnings}added to run {}: {count} intervals; `walwright runs show {}` tells the rest\n",
                header.id, header.id
            )
        },
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The process between walwright and a command: see [`walwright_run::guard_command`].
pub fn guard(args: &GuardArgs) -> anyhow::Result<ExitCode> {
    let code = walwright_run::guard_command(args.parent, &args.report, &args.command)
        .with_context(|| format!("'{}' could not be started", first(&args.command)))?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(exit::FAILED)))
}

fn first(words: &[std::ffi::OsString]) -> String {
    words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
}

fn logs(args: &RecordArgs) -> anyhow::Result<Vec<LogChoice>> {
    let format = args.client_log_format.as_deref().map(str::parse).transpose();
    let format = format.map_err(anyhow::Error::msg)?;
    Ok(args.client_log.iter().map(|path| LogChoice { path: path.clone(), format }).collect())
}

fn plan(args: RecordArgs, output: &Output) -> anyhow::Result<RecordPlan> {
    let logs = logs(&args)?;
    let piped = logs.iter().any(|log| log.path == Path::new("-"));
    let until = match args.time {
        _ if piped && !args.command.is_empty() => {
            return Err(usage(
                "'--client-log -' reads what is piped here; what a command prints is read anyway",
            ));
        }
        Some(time) => Until::Elapsed(time),
        None if piped => Until::InputEnds,
        None if args.command.is_empty() => {
            return Err(usage(
                "say how long: --for TIME, a command after --, or --client-log - for a pipe",
            ));
        }
        None => {
            let guard =
                CommandPlan::own_guard().context("cannot find walwright's own program file")?;
            let printing = if output.json { Printing::ToErrors } else { Printing::Through };
            let words = args.command;
            Until::CommandEnds(CommandPlan { printing, ..CommandPlan::of(words, guard) })
        }
    };
    let names = |names: &[String]| names.iter().map(|n| ProcessName::from(n.as_str())).collect();
    let parts = LoadParts {
        applications: names(&args.app),
        generators: names(&args.generator),
        poolers: names(&args.pooler),
        recognise: true,
        children_generate: true,
    };
    let pool_wait = args.pool_wait.and_then(|of| Some((of.metrics?, of.name)));
    let pool_wait = pool_wait.map(|(metrics, name)| PoolWaitPlan { metrics, name });
    Ok(RecordPlan {
        pool_wait,
        expects_results: false,
        gateway_metrics: args.gateway_metrics.map(|address| address.or_path("metrics")),
        server: args.dsn.map(ServerAddress::Dsn),
        until,
        warm_up: args.warmup,
        logs,
        parts,
        probe: ProbePlan { waits_hz: args.waits },
        label: args.label,
        command_line: command_line::command_line(),
    })
}
