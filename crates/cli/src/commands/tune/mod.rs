//! `walwright tune`.

mod list;
mod live;
mod page;
mod result;
mod watch;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use walwright_experiment::{Length, LoadOptions, Postgres, Remarks, Visit};
use walwright_report::tune_entry;
use walwright_run::Silent;
use walwright_server::Stop;
use walwright_store::Lab;
use walwright_tune::{Budget, TuneError, TuneObserver, TunePlan, TuneState};

use crate::args::{NewTuneArgs, PromoteArgs, TuneArgs, TuneCommand, VisitArgs};
use crate::commands::command_line;
use crate::commands::runtime::{Parting, runtime, until_done};
use crate::output::Output;
use crate::show::{self, Guard, Style};

/// Tunes, goes on, or tells of the tunes there are.
pub fn execute(lab: &Lab, args: TuneArgs, output: &Output) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(TuneCommand::Run(args)) => begin(lab, *args, output),
        Some(TuneCommand::Resume { tune, visit, view }) => {
            resume(lab, &tune, *visit, view.style(), output)
        }
        Some(TuneCommand::List) => list(lab, output),
        Some(TuneCommand::Show { tune }) => show(lab, &tune, output),
        Some(TuneCommand::Delete { tune }) => delete(lab, &tune, output),
        Some(TuneCommand::Promote(args)) => promote(lab, &args, output),
        None if args.list => list(lab, output),
        None => match (&args.show, &args.delete, &args.resume) {
            (Some(tune), _, _) => show(lab, tune, output),
            (_, Some(tune), _) => delete(lab, tune, output),
            (_, _, Some(tune)) => resume(lab, tune, args.new.visit, args.new.view.style(), output),
            (None, None, None) => begin(lab, args.new, output),
        },
    }
}

fn begin(lab: &Lab, args: NewTuneArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let style = args.view.style();
    let (plan, visit) = plan(args);
    conducted(lab, style, output, &visit.remarks, async |stop, watcher| {
        walwright_tune::begin(lab, plan, &visit, &stop, &watcher, tune_entry).await
    })
}

fn resume(
    lab: &Lab,
    tune: &str,
    visit: VisitArgs,
    style: Style,
    output: &Output,
) -> anyhow::Result<ExitCode> {
    let visit = Visit::from(visit);
    conducted(lab, style, output, &visit.remarks, async |stop, watcher| {
        walwright_tune::resume(lab, tune, &visit, &stop, &watcher, tune_entry).await
    })
}

fn list(lab: &Lab, output: &Output) -> anyhow::Result<ExitCode> {
    list::print(lab, output)?;
    Ok(ExitCode::SUCCESS)
}

fn show(lab: &Lab, tune: &str, output: &Output) -> anyhow::Result<ExitCode> {
    result::print(lab, &walwright_tune::show(lab, tune)?, output)?;
    Ok(ExitCode::SUCCESS)
}

fn delete(lab: &Lab, tune: &str, output: &Output) -> anyhow::Result<ExitCode> {
    let id = runtime()?.block_on(walwright_tune::delete(lab, tune))?;
    output.result(&json!({ "deleted": id }), || format!("deleted {id}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the configuration of a tune.
pub fn promote(lab: &Lab, args: &PromoteArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let state = walwright_tune::promote(lab, &args.tune, &args.output, args.force)?;
    let path = args.output.display().to_string();
    let schema = walwright_tune::promoted_schema(&state, &args.output);
    let schema = schema.map(|schema| schema.display().to_string());
    output.result(&json!({ "tune": state.id, "written": path, "schema": schema }), || {
        let schema = schema.as_ref().map_or(String::new(), |schema| {
            format!("wrote {schema}: statements on the schema, for a person to send\n")
        });
        format!("wrote {path}, as tune {} proved it\n{schema}", state.id)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Works until the tune has ended or is stopped, and shows what it came to.
fn conducted(
    lab: &Lab,
    style: Style,
    output: &Output,
    remarks: &Remarks,
    work: impl AsyncFnOnce(Stop, Arc<TuneObserver>) -> Result<TuneState, TuneError>,
) -> anyhow::Result<ExitCode> {
    let done = until_done(Parting::WORKING, async |stop| {
        let (watcher, _terminal) = watcher(lab, style, &stop, output);
        let lab = lab.clone();
        work(stop, Arc::new(page::Renewed { lab, watcher })).await
    })?;
    let code = match done {
        Ok(state) => {
            result::print(lab, &state, output)?;
            ExitCode::SUCCESS
        }
        Err(error) => output.ended(error.is_interruption(), error),
    };
    Ok(output.remarked(remarks, code))
}

/// What shows a tune in a style, and the guard that gives the terminal back.
fn watcher(
    lab: &Lab,
    style: Style,
    stop: &Stop,
    output: &Output,
) -> (Arc<TuneObserver>, Option<Guard>) {
    if style == Style::Quiet {
        return (Arc::new(Silent), None);
    }
    show::live_or(
        style,
        || live::start(lab, stop.clone(), output.colour_err),
        || Arc::new(watch::Lines::new()),
    )
}

/// The default warm-up: a quarter of the window.
fn warm_up(window: Duration) -> Duration {
    (window / 4).clamp(Duration::from_secs(1), Duration::from_secs(10))
}

/// What is asked for, and the attached server to do it on.
fn plan(args: NewTuneArgs) -> (TunePlan, Visit) {
    let drawn = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // JSON readers keep 53 bits of a number.
        now.map_or(1, |since| since.as_micros() as u64 & 0xFFFF_FFFF)
    };
    let workload = args.workload.plan().or_tpcb();
    let plan = TunePlan {
        objective: args.objective,
        workload: workload.name,
        files: workload.files,
        builtin: workload.builtin,
        no_vacuum: workload.no_vacuum,
        scale: workload.scale,
        options: workload.options,
        define: workload.define,
        load: LoadOptions { clients: args.clients, ..args.driven.options() },
        settings: args
            .set
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect(),
        postgres: Some(match args.pg_bin {
            Some(directory) => Postgres::BinDir(directory),
            None => Postgres::Major(args.pg),
        }),
        flush_latency: args.flush_latency.map(Length),
        tcp: args.tcp,
        window: Length(args.duration),
        warm_up: Length(args.warmup.unwrap_or_else(|| warm_up(args.duration))),
        budget: args.time.map_or(Budget::Runs(args.runs), |time| Budget::Time(Length(time))),
        consent: args.consent,
        only: args.only,
        client: args.client,
        confirm_window: Length(args.confirm_duration.unwrap_or(args.duration * 2)),
        most_pairs: args.confirm_pairs,
        worth: args.worth / 100.0,
        allowed_loss: args.allow_loss.map(|percent| percent / 100.0),
        seed: args.seed.unwrap_or_else(drawn),
        command: command_line::command_line(),
        server: None,
    };
    (plan, args.visit.into())
}
