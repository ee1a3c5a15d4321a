//! `walwright run`.

use std::process::ExitCode;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use walwright_driver::{Mode, Protocol};
use walwright_figures::limit::{JudgedLimit, Limit};
use walwright_record::{ClientRules, OnError, RunState, Schedule, WarningCode};
use walwright_report::{RunReport, format};
use walwright_run::{Finished, LoadChoice, ProbePlan, RunPlan, TargetPlan, WorkloadPlan};
use walwright_store::Lab;

use crate::args::{self, RunArgs, WarmUp};
use crate::commands::runtime::{Parting, until_done};
use crate::commands::{command_line, report, runs, sweep};
use crate::output::{Output, exit};
use crate::show::{self, Style};

/// Does a run, prints its summary and writes its report.
pub fn execute(lab: &Lab, args: RunArgs, output: &Output) -> anyhow::Result<ExitCode> {
    if args.clients.len() > 1 || args.repeats > 1 {
        return sweep::execute(lab, args, output);
    }
    let style = style(&args);
    let statements = args.report_per_command && !output.json;
    let limits = args.fail_if.clone();
    let plan = plan(args);
    let finished = until_done(Parting::WORKING, async |stop| {
        let (observer, _terminal) = show::observer(style, &stop, output);
        walwright_run::run(lab, plan, stop, observer).await
    })?;
    match finished {
        Ok(finished) => conclude(lab, finished, &limits, statements, output),
        Err(error) => Ok(output.ended(error.is_interruption(), error)),
    }
}

/// How a run is shown.
pub fn style(args: &RunArgs) -> Style {
    match (args.quiet, args.progress, args.plain) {
        (true, ..) => Style::Quiet,
        (false, Some(every), _) => Style::Every(every),
        (false, None, true) => Style::Plain,
        (false, None, false) => Style::Auto,
    }
}

/// Writes the report, prints the summary, and says with the exit code how it went.
fn conclude(
    lab: &Lab,
    finished: Finished,
    limits: &[Limit],
    statements: bool,
    output: &Output,
) -> anyhow::Result<ExitCode> {
    let run = RunReport::with(finished.record, finished.summary);
    // The summary is worth more than the page: a full disk must not take it away.
    let written = report::write_html(lab, &run, &lab.report_path(&finished.id));
    let limits = judged(&run, limits);
    runs::print_summary(lab, &run, finished.kept.as_ref(), &limits, output)?;
    if statements {
        output.print_painted(&statement_latencies(&run))?;
    }
    written?;
    if let Some(error) = finished.error {
        let what = match finished.state {
            RunState::Failed => format!("run {} failed; its record is kept", finished.id),
            _ => format!("run {} ended early; its record is kept", finished.id),
        };
        let code = output.fail(&anyhow::Error::new(error).context(what));
        return Ok(match finished.state {
            RunState::Interrupted => ExitCode::from(exit::INTERRUPTED),
            _ => code,
        });
    }
    if finished.state == RunState::Interrupted {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    Ok(verdict(&run, &limits))
}

/// Limits held against a run.
pub fn judged(run: &RunReport, limits: &[Limit]) -> Vec<JudgedLimit> {
    limits.iter().map(|limit| limit.judge(&run.record, run.summary.load.as_ref())).collect()
}

/// The latency of each statement, script by script, as of pgbench's `-r`.
fn statement_latencies(run: &RunReport) -> String {
    let Some(load) = &run.summary.load else { return String::new() };
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["latency of statements", "count", "mean", "p50", "p99", "max"]);
    for script in &load.scripts {
        table.add_row([&script.name]);
        for statement in &script.statements {
            let mut row = vec![format!("  {}", statement.label)];
            match &statement.latency {
                Some(of) => {
                    row.push(format::count(of.count));
                    row.extend([of.mean, of.p50, of.p99, of.max].map(format::latency));
                }
                None => row.push("not timed".to_owned()),
            }
            table.add_row(row);
        }
    }
    for column in 1..6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("\n{}\n", table.trim_fmt())
}

/// The exit code of a run that came to its end.
pub fn verdict(run: &RunReport, limits: &[JudgedLimit]) -> ExitCode {
    let check_failed = run.record.warnings.iter().any(|w| w.code == WarningCode::CheckFailed);
    let load = run.summary.load.as_ref();
    let missed = load.and_then(|load| load.pass_mark.as_ref()).is_some_and(|m| !m.passed);
    let failed = load.is_some_and(|load| too_many_failed(load.transactions, load.failed));
    let passed = !limits.iter().any(JudgedLimit::is_failed);
    match check_failed || missed || failed || !passed {
        true => ExitCode::from(exit::CHECK_FAILED),
        false => ExitCode::SUCCESS,
    }
}

/// Whether a quarter or more of the transactions failed.
fn too_many_failed(succeeded: u64, failed: u64) -> bool {
    failed > 0 && failed.saturating_mul(3) >= succeeded
}

/// What the arguments ask for.
pub fn plan(args: RunArgs) -> RunPlan {
    let target = match args.dsn {
        Some(dsn) => {
            TargetPlan::Attached { dsn, init: args.init, replace: args.replace, window: None }
        }
        None => TargetPlan::Embedded {
            major: args.pg,
            pg_bin: args.pg_bin,
            settings: args.set,
            keep: args.keep,
            tcp: args.tcp,
            flush_latency: args.flush_latency,
            restored: None,
        },
    };
    let schedule = match args.rate {
        Some(rate) => Schedule::Open {
            rate,
            poisson: args.gaps == args::Gaps::Poisson,
            latency_limit: args.latency_limit,
        },
        None => Schedule::Closed { think: args.think },
    };
    RunPlan {
        target,
        workload: WorkloadPlan {
            name: args.workload.or_else(|| {
                (args.file.is_empty() && args.builtin.is_empty()).then(|| "tpcb".to_owned())
            }),
            files: args.file,
            builtin: args.builtin,
            no_vacuum: args.no_vacuum,
            scale: args.scale,
            options: args.option,
            define: args.define,
        },
        load: LoadChoice {
            clients: args.clients.first().copied(),
            threads: args.threads,
            protocol: args.protocol.map(|protocol| match protocol {
                args::Protocol::Simple => Protocol::Simple,
                args::Protocol::Extended => Protocol::Extended,
                args::Protocol::Prepared => Protocol::Prepared,
            }),
            mode: if args.lean { Mode::Lean } else { Mode::Faithful },
            schedule,
            ramp: args.ramp,
            max_tries: args.max_tries,
            seed: args.seed,
            duration: args.duration,
            warm_up: match args.warmup {
                // All is measured of what is counted beforehand.
                WarmUp::Auto if args.transactions.is_some() => Some(Duration::ZERO),
                WarmUp::Auto => None,
                WarmUp::Fixed(time) => Some(time),
            },
            rules: ClientRules {
                transactions: args.transactions,
                reconnect: args.connect,
                on_error: match args.on_error {
                    args::OnError::Continue => OnError::Continue,
                    args::OnError::StopClient => OnError::StopClient,
                    args::OnError::Stop => OnError::Stop,
                },
            },
            checkpoints: 0,
        },
        load_jobs: args.load_jobs,
        storage_dir: args.storage_dir,
        probe: (!args.no_probe).then_some(ProbePlan { waits_hz: args.waits }),
        label: args.label,
        command: command_line::command_line(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_failed_transactions_is_too_many() {
        assert!(too_many_failed(75, 25) && too_many_failed(0, 1));
        assert!(!too_many_failed(76, 25) && !too_many_failed(0, 0));
    }
}
