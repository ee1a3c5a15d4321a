//! `walwright run`.

use std::process::ExitCode;
use std::time::Duration;

use clap::CommandFactory;
use clap::error::ErrorKind;
use walwright_figures::limit::Limit;
use walwright_record::{ClientRules, LoadLevel, LoadStage, RunState};
use walwright_report::{List, RunReport, format};
use walwright_run::{
    Finished, Length, LoadChoice, LoadOptions, PoolWaitPlan, ProbePlan, RunPlan, ServerAddress,
    TargetPlan, WarmUp, WorkloadPlan,
};
use walwright_store::Lab;

use crate::args::{Cli, RunArgs};
use crate::commands::runtime::{Parting, until_done};
use crate::commands::verdict::{judged, verdict};
use crate::commands::{command_line, summary, write};
use crate::output::{Output, exit};
use crate::show::{self, Style};

/// Does a run, prints its summary and writes its report.
pub fn execute(lab: &Lab, args: RunArgs, output: &Output) -> anyhow::Result<ExitCode> {
    refuse(&args);
    let style = style(&args);
    let statements = args.report_per_command && !output.json;
    let (limits, all) = (args.fail_if.clone(), args.all);
    let metrics = args.metrics.map(|address| (address, Duration::from_secs(1) / args.waits));
    let plan = plan(args);
    let finished = until_done(Parting::WORKING, async |stop| {
        let exposes = match metrics {
            Some((address, tick)) => Some(show::exposing(address, tick, &stop).await?),
            None => None,
        };
        let (observer, _terminal) = show::observer(style, &stop, output);
        let observer = match exposes {
            Some(exposes) => exposes(observer),
            None => observer,
        };
        anyhow::Ok(walwright_run::run(lab, plan, stop, observer).await)
    })??;
    match finished {
        Ok(finished) => conclude(lab, finished, &limits, statements, all, output),
        Err(error) => Ok(output.ended(error.is_interruption(), error)),
    }
}

/// Leaves with a usage error where stages do not go together, or with what else is asked.
pub fn refuse(args: &RunArgs) {
    let by_clients = args.stages.iter().filter(|s| matches!(s.level, LoadLevel::Clients(_)));
    let by_clients = by_clients.count();
    let open = args.load.rate.is_some() || (by_clients == 0 && !args.stages.is_empty());
    let why = if by_clients > 0 && by_clients < args.stages.len() {
        "stages are all of rates or all of clients"
    } else if by_clients > 0 && !args.clients.is_empty() {
        "the stages give the number of clients: leave --clients out"
    } else if !args.stages.is_empty() && by_clients == 0 && args.load.think.is_some() {
        "stages of rates are an open loop, in which no client thinks: leave --think out"
    } else if args.load.gaps.is_some() && !open {
        "--gaps belongs to an open loop: give --rate or --stages with rates"
    } else {
        return;
    };
    crate::output::refuse(&Cli::command().error(ErrorKind::ArgumentConflict, why));
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
    all: bool,
    output: &Output,
) -> anyhow::Result<ExitCode> {
    let run = RunReport::with(finished.record, finished.summary);
    // The summary is worth more than the page: a full disk must not take it away.
    let written = write::write_html(lab, &run, &lab.report_path(&finished.id));
    let limits = judged(&run, limits);
    summary::print_summary(lab, &run, all, finished.kept.as_ref(), &limits, output)?;
    if statements {
        output.print_painted(&statement_latencies(&run, output))?;
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

/// The latency of each statement, script by script, as of pgbench's `-r`.
fn statement_latencies(run: &RunReport, output: &Output) -> String {
    let Some(load) = &run.summary.load else { return String::new() };
    let heads = ["latency of statements", "count", "mean", "p50", "p99", "max"];
    let mut list = List::new(heads).numbers(1..6);
    for script in &load.scripts {
        list.row([&script.name]);
        if script.statements.is_empty() {
            list.row(["  none ran in a round trip of its own"]);
        }
        for statement in &script.statements {
            let mut row = vec![format!("  {}", statement.label)];
            match &statement.latency {
                Some(of) => {
                    row.push(format::count(of.count));
                    row.extend([of.mean, of.p50, of.p99, of.max].map(format::latency));
                }
                None => row.push("not timed".to_owned()),
            }
            list.row(row);
        }
    }
    format!("\n{}", list.document().terminal(&output.list_style()))
}

/// The mean rate of the stages of an open loop.
fn mean_rate(stages: &[LoadStage]) -> Option<f64> {
    let rate = |stage: &LoadStage| match stage.level {
        LoadLevel::Rate(rate) => Some(rate * stage.length.as_secs_f64()),
        LoadLevel::Clients(_) => None,
    };
    let due: f64 = stages.iter().map(rate).sum::<Option<f64>>()?;
    let seconds: f64 = stages.iter().map(|stage| stage.length.as_secs_f64()).sum();
    (seconds > 0.0).then(|| due / seconds)
}

/// The most clients of the stages of a closed loop.
fn most_clients(stages: &[LoadStage]) -> Option<u32> {
    let clients = |stage: &LoadStage| match stage.level {
        LoadLevel::Clients(clients) => Some(clients),
        LoadLevel::Rate(_) => None,
    };
    stages.iter().filter_map(clients).max()
}

/// What the arguments ask for.
pub fn plan(args: RunArgs) -> RunPlan {
    let target = match args.dsn {
        None if args.http.is_some() => TargetPlan::Unseen,
        Some(dsn) => {
            let server = ServerAddress::Dsn(dsn);
            TargetPlan::Attached { server, init: args.init, replace: args.replace, window: None }
        }
        None => TargetPlan::Embedded {
            major: args.pg,
            pg_bin: args.pg_bin,
            settings: args.set,
            keep: args.keep,
            tcp: args.tcp,
            flush_latency: args.flush_latency,
            processors: args.processors,
            memory: args.memory,
            restored: None,
        },
    };
    let length: Duration = args.stages.iter().map(|stage| stage.length).sum();
    let all_is_measured = args.transactions.is_some() || !args.stages.is_empty();
    let options = LoadOptions {
        clients: most_clients(&args.stages).or(args.clients.first().copied()),
        rate: args.load.rate.or_else(|| mean_rate(&args.stages)),
        duration: Some(Length(if args.stages.is_empty() { args.duration } else { length })),
        warmup: Some(match args.warmup {
            // The extent of such a load is given otherwise than as a length.
            WarmUp::Auto if all_is_measured => WarmUp::Fixed(Length(Duration::ZERO)),
            warm_up => warm_up,
        }),
        ..args.load.options()
    };
    let load = options.choice();
    let mut http = args.http;
    if let (Some(server), Some(timeout)) = (&mut http, args.timeout) {
        server.timeout = timeout;
    }
    let pool_wait = args.pool_wait.zip(http.as_ref()).and_then(|(of, server)| {
        let metrics = of.metrics.or_else(|| format!("{server}/metrics").parse().ok())?;
        Some(PoolWaitPlan { metrics, name: of.name })
    });
    RunPlan {
        target,
        workload: WorkloadPlan { requests: args.requests, ..args.workload.plan() }.or_tpcb(),
        load: LoadChoice {
            seed: args.seed,
            rules: ClientRules { transactions: args.transactions, ..load.rules },
            stages: args.stages,
            http,
            pool_wait,
            ..load
        },
        load_jobs: args.load_jobs,
        storage_dir: args.storage_dir,
        probe: (!args.no_probe).then_some(ProbePlan { waits_hz: args.waits }),
        label: args.label,
        command: command_line::command_line(),
    }
}
