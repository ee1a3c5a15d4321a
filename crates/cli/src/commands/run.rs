//! `walwright run`.

use std::process::ExitCode;

use walwright_driver::{Mode, Protocol};
use walwright_record::{RunState, Schedule, WarningCode};
use walwright_report::RunReport;
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
    let plan = plan(args);
    let finished = until_done(Parting::WORKING, async |stop| {
        let (observer, _terminal) = show::observer(style, &stop, output);
        walwright_run::run(lab, plan, stop, observer).await
    })?;
    match finished {
        Ok(finished) => conclude(lab, finished, output),
        Err(error) => Ok(output.ended(error.is_interruption(), error)),
    }
}

/// How a run is shown.
pub fn style(args: &RunArgs) -> Style {
    match (args.quiet, args.plain) {
        (true, _) => Style::Quiet,
        (false, true) => Style::Plain,
        (false, false) => Style::Auto,
    }
}

/// Writes the report, prints the summary, and says with the exit code how it went.
fn conclude(lab: &Lab, finished: Finished, output: &Output) -> anyhow::Result<ExitCode> {
    let run = RunReport::with(finished.record, finished.summary);
    // The summary is worth more than the page: a full disk must not take it away.
    let written = report::write_html(lab, &run, &lab.report_path(&finished.id));
    runs::print_summary(lab, &run, finished.kept.as_ref(), output)?;
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
    Ok(verdict(&run))
}

/// The exit code of a run that came to its end.
fn verdict(run: &RunReport) -> ExitCode {
    let check_failed = run.record.warnings.iter().any(|w| w.code == WarningCode::CheckFailed);
    let load = run.summary.load.as_ref();
    let missed = load.and_then(|load| load.pass_mark.as_ref()).is_some_and(|m| !m.passed);
    let failed = load.is_some_and(|load| too_many_failed(load.transactions, load.failed));
    match check_failed || missed || failed {
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
            name: args.workload.or_else(|| args.file.is_empty().then(|| "tpcb".to_owned())),
            files: args.file,
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
                WarmUp::Auto => None,
                WarmUp::Fixed(time) => Some(time),
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
