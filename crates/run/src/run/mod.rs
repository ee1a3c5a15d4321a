//! A run: prepare, load, probe, connect, warm up, measure, collect.

mod between;
mod checkpoints;
mod checks;
mod context;
mod drive;
mod error;
mod http;
mod kept;
mod load_data;
mod not_restored;
mod observe;
mod plan;
mod scale;
mod settle;
mod side;
mod snapshot;
mod statements;
mod study;
mod tables;
mod target;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use walwright_driver::LoadPlan;
use walwright_figures::Summary;
use walwright_record::{
    InstrumentFacts, PhaseName, Record, RunHeader, RunId, RunState, TargetKind, Timestamp, Warning,
    WarningCode,
};
use walwright_server::Client;
use walwright_workload::Workload;

pub use error::RunError;
pub(crate) use error::failed;
pub use kept::Kept;
pub use plan::{LoadChoice, ProbePlan, Restored, RunPlan, TargetPlan, Window, WorkloadPlan};
pub use snapshot::{fill, filled, snapshot};
use statements::Statements;
pub use study::{ApplicationPlan, StudyLoad, StudyPlan, study};
pub use target::{install, with_connections};

use crate::lifecycle::{self, Filled};
use crate::lifetime::{Interruption, Lifetime};
use crate::{Observer, Pooler, Progress, ceiling};
use between::Between;
use context::Context;
pub(crate) use context::blocking;
use drive::Driven;
use target::Target;
use walwright_server::Stop;
use walwright_store::Lab;

/// What is left of a run besides its record.
#[derive(Debug)]
pub struct Finished {
    /// Its record.
    pub id: RunId,
    /// How it ended.
    pub state: RunState,
    /// Why it did not end as planned.
    pub error: Option<RunError>,
    /// The embedded cluster, where it was kept.
    pub kept: Option<Kept>,
    /// The record itself.
    pub record: Record,
    /// Its figures.
    pub summary: Summary,
}

/// Checks that the server of a run takes its settings, where that can be told before the
/// server is there: of a cluster that is to be made.
///
/// # Errors
/// With the settings that it refuses; where its programs are not there and cannot be fetched.
pub async fn check_settings(plan: &RunPlan, observer: &Arc<Observer>) -> Result<(), RunError> {
    let (target, observer) = (plan.target.clone(), Arc::clone(observer));
    blocking(move || Target::check_settings(&target, &*observer)).await?
}

/// Does a run and keeps its record.
///
/// # Errors
/// Whatever kept the load from beginning; then there is no record, since it would
/// hold nothing. What goes wrong later ends the run; its record holds what was seen,
/// and [`Finished::error`] says why.
pub async fn run(
    lab: &Lab,
    plan: RunPlan,
    stop: Stop,
    observer: Arc<Observer>,
) -> Result<Finished, RunError> {
    plan.check()?;
    let workload = plan.workload()?;
    let mut plan = plan;
    if plan.scale_is_open() {
        plan.workload.scale = scale::of_tables(&plan, &workload, &stop).await?;
    }
    let job = plan.job(&workload)?;
    if job.program.wants_gateway() && plan.load.pooler == Pooler::None {
        plan.load.pooler = Pooler::Gateway;
        plan.check()?;
    }
    let header = header(&plan, &workload);
    let directory = lab.directory().to_owned();
    let fill = async |notes| {
        let began = Arc::new(AtomicBool::new(false));
        let context = Context { lab: directory, plan, workload, job, notes, stop, began };
        let (ended, kept) = go(&context).await;
        let state = match &ended {
            Ok(Ended::AsPlanned) => RunState::Complete,
            Ok(Ended::Stopped) => RunState::Interrupted,
            Err(error) if error.is_interruption() => RunState::Interrupted,
            Err(_) => RunState::Failed,
        };
        let error = ended.err();
        let why = reason(state, error.as_ref());
        let is_worth_keeping = error.is_none() || context.began.load(Ordering::Acquire);
        Filled { result: (state, error, kept), state, why, is_worth_keeping }
    };
    let ((state, error, kept), whole) = lifecycle::filled(lab, &header, observer, fill).await?;
    match (error, whole) {
        (error, Some((record, summary))) => {
            Ok(Finished { id: header.id, state, error, kept, record, summary })
        }
        (Some(error), None) => Err(error),
        (None, None) => Err(RunError::Internal("the record")),
    }
}

fn header(plan: &RunPlan, workload: &Workload) -> RunHeader {
    let started = Timestamp::now();
    RunHeader {
        id: RunId::new(started, (started.0 as u32).rotate_left(7) ^ std::process::id()),
        started,
        ended: None,
        state: RunState::Running,
        walwright_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: plan.command.clone(),
        label: plan.label.clone(),
        workload: workload.name.clone(),
        target: match &plan.load.http {
            Some(server) => server.to_string(),
            None => plan.target.name(),
        },
        error: None,
    }
}

/// How a run that did not fail ended.
enum Ended {
    AsPlanned,
    Stopped,
}

/// All stages; whatever happens, the server is stopped at the end.
async fn go(context: &Context) -> (Result<Ended, RunError>, Option<Kept>) {
    if matches!(context.plan.target, TargetPlan::Unseen) {
        return (http::alone(context).await, None);
    }
    let target = match context.unless_stopped(prepare(context)).await {
        Ok(target) => target,
        Err(error) => return (Err(error), None),
    };
    let ended = match (stages(context, &target).await, target.death()) {
        (Err(RunError::ServerLost { after, .. }), Some(reason)) => {
            Err(RunError::ServerLost { after, reason })
        }
        // Whatever failed then, failed because of that.
        (Err(_), Some(reason)) => Err(RunError::ServerDied { reason }),
        (ended, _) => ended,
    };
    let worth_keeping = context.began.load(Ordering::Acquire);
    match blocking(move || target.close(worth_keeping)).await {
        Ok(Ok(kept)) => (ended, kept),
        Ok(Err(error)) | Err(error) => (ended.and(Err(error)), None),
    }
}

async fn prepare(context: &Context) -> Result<Target, RunError> {
    context.notes.phase(PhaseName::Prepare);
    let (plan, clients) = (context.plan.target.clone(), context.clients());
    let observer = Arc::clone(&context.notes.observer);
    let mut target = blocking(move || Target::prepare(&plan, clients, observer.as_ref())).await??;
    for warning in target.warnings.clone() {
        context.notes.warn(warning);
    }
    if target.kind == TargetKind::Attached {
        let origin = &context.workload.origin;
        target.statements = Statements::on_attached(&target.params, origin, &context.job).await?;
        if target.statements.silent {
            context.notes.warn(
                Warning::new(
                    WarningCode::NotObservable,
                    "triggers of the workload's tables do not run: other roles may put their own there, which would run with the rights of a superuser",
                )
                .hint("connect as a role that is no superuser, or revoke TRIGGER on the tables"),
            );
        }
    }
    Ok(target)
}

async fn stages(context: &Context, target: &Target) -> Result<Ended, RunError> {
    let ready = context.unless_stopped(make_ready(context, target)).await?;
    let gateway = ready.between.as_ref().and_then(Between::gateway);
    let observation = observe::Observation::begin(context, target, &ready.seen, gateway).await?;
    let side = side::Side::begin(context, target);
    let measuring = Arc::new(Notify::new());
    let pooler = ready.between.as_ref().map(|between| between.facts.clone());
    let driven = tokio::select! {
        driven = drive::drive(context, ready.load, pooler, Arc::clone(&measuring)) => driven,
        never = checkpoints::hold(context, target, &measuring) => match never {},
    };
    if driven.is_ok() || context.began.load(Ordering::Acquire) {
        context.notes.phase(PhaseName::Collect);
    }
    let lost = ready.between.as_ref().and_then(Between::lost);
    if let Some(between) = ready.between {
        // Its sessions with the server are the load's.
        between.end().await;
    }
    if driven.is_ok() {
        observe::load_has_left(&ready.own).await;
    }
    observation.end(context).await;
    side.end(context, driven.as_ref().ok().and_then(|driven| driven.window)).await;
    let asked = ready.lifetime.end(&ready.own, &target.params);
    let interrupted = interrupted(context, asked, driven.as_ref()).await;
    // A server that stands still would not answer.
    if driven.as_ref().is_ok_and(|driven| driven.nothing.is_none()) {
        let described = async {
            let ours = target.kind == TargetKind::Embedded;
            observe::describe_end(context, &ready.seen, &ready.own, &ready.client, ours).await;
            Ok(())
        };
        // Whoever asked to stop does not wait for it.
        let _: Result<(), RunError> = context.unless_stopped(described).await;
    }

    if let Some(lost) = lost {
        // Whatever failed then, failed because of that.
        return Err(lost);
    }
    let driven = match driven {
        Err(RunError::NothingSucceeds { kind, text }) if context.plan.load.http.is_none() => {
            return Err(checks::explained(context, target, kind, text).await);
        }
        driven => driven?,
    };
    if let (None, Some(nothing)) = (interrupted, driven.nothing) {
        return Err(nothing);
    }
    if !driven.stopped_early {
        let checked = checks::after(context, target, ready.client, ready.before, driven.done);
        match context.unless_stopped(checked).await {
            Err(RunError::Stopped) => return Ok(Ended::Stopped),
            checked => checked?,
        }
    }
    match interrupted {
        Some(Interruption { what, .. }) => Err(RunError::ServerRestarted { what }),
        None if driven.stopped_early => Ok(Ended::Stopped),
        None => Ok(Ended::AsPlanned),
    }
}

/// What happened to the server under a load that went on to its end, as `asked` of it
/// or as its clients were told.
async fn interrupted(
    context: &Context,
    asked: impl Future<Output = Option<Interruption>>,
    driven: Result<&Driven, &RunError>,
) -> Option<Interruption> {
    let driven = driven.ok().filter(|driven| !driven.stopped_early)?;
    let interrupted = match context.unless_stopped(async { Ok(asked.await) }).await {
        Ok(Some(interrupted)) => interrupted,
        _ => Interruption::told(driven.told_of_crash?),
    };
    interrupted.note(&context.notes);
    context.notes.warn(
        Warning::new(
            WarningCode::ServerLost,
            format!("{}: these figures are not of one server that runs", interrupted.what),
        )
        .hint("the events of the timeline tell when; find out why, and measure again"),
    );
    Some(interrupted)
}

/// Everything before clients run: data, facts, probes.
async fn make_ready(context: &Context, target: &Target) -> Result<Ready, RunError> {
    let own = walwright_server::connect(&target.params).await?;
    let client = target.statements().connect().await?;
    let by_http = context.plan.load.http.is_some();
    if !by_http {
        checks::enough_connections(context.clients(), &own, target).await?;
    }
    checks::flushes_can_be_lengthened(&own, target).await?;
    if context.plan.initialises() {
        context.notes.phase(PhaseName::Load);
        match context.plan.restored() {
            Some(restored) => load_data::change(&restored.changes, &client).await?,
            None if context.plan.is_filled() => {}
            None => load(context, target).await?,
        }
        if target.kind == TargetKind::Embedded {
            load_data::checkpoint(&target.params).await?;
        }
        load_data::before_run(&context.job, &client).await?;
    }
    let found = tables::found(&context.job, &own, &client).await?;
    if target.kind == TargetKind::Attached {
        checks::tables_are_there(context, &found, target).await?;
    }
    if let Some(window) = context.plan.window() {
        let checkpoint = load_data::checkpoint(&target.params).await;
        if let Some(warning) = not_restored::not_restored(window, checkpoint.err()) {
            context.notes.warn(warning);
        }
    }
    if !by_http {
        checks::statements(context, target).await?;
    }
    context.notes.phase(PhaseName::Probe);
    let mut seen = observe::describe(context, target, &own, &found).await?;
    let before = checks::before(context, &own, &client, &found).await?;
    context.record_workload();
    let between = Between::start(context, target).await?;
    let params = between.as_ref().map_or(target.statements().params(), Between::params);
    let load = drive::load_plan(context, drive::endpoint(context, params));
    seen.passes_through(between.as_ref().map(Between::pid));
    calibrate(context, &load).await?;
    let lifetime = Lifetime::begin(&own).await;
    Ok(Ready { own, client, lifetime, seen, before, load, between })
}

/// Creates the workload's tables and fills them.
async fn load(context: &Context, target: &Target) -> Result<(), RunError> {
    let (statements, jobs) = (target.statements(), context.plan.load_jobs);
    let (job, observer) = (&context.job, context.notes.observer.as_ref());
    match &context.plan.target {
        TargetPlan::Embedded { .. } => load_data::load(job, statements, jobs, observer).await,
        TargetPlan::Attached { replace, .. } => {
            load_data::load_attached(job, statements, replace, jobs, observer).await
        }
        TargetPlan::Unseen => Err(RunError::Internal("data of a server that is not seen")),
    }
}

/// Looks up or measures how fast the driver itself is.
async fn calibrate(context: &Context, load: &LoadPlan) -> Result<(), RunError> {
    context.notes.observer.event(Progress::Step("limits of the load driver"));
    let (lab, load) = (context.lab.clone(), load.clone());
    // How fast it opens connections is the server's affair.
    let ceiling = match load.rules.reconnect {
        true => None,
        false => blocking(move || ceiling::ceiling(&lab, &load)).await??,
    };
    let facts = InstrumentFacts { cpu_per_transaction: None, ceiling, busiest_thread: None };
    context.notes.recorder.write(move |writer| writer.instrument(&facts));
    Ok(())
}

/// Why a run ended as it did, in a line.
fn reason(state: RunState, error: Option<&RunError>) -> Option<String> {
    match error {
        // What follows the first line shows a place in a script or a log.
        Some(error) => error.to_string().lines().next().map(str::to_owned),
        None if state == RunState::Interrupted => {
            Some("it was stopped before its window was full".to_owned())
        }
        None => None,
    }
}

/// A target that clients may be let loose on.
struct Ready {
    /// What walwright itself asks.
    own: Client,
    /// For statements of the workload.
    client: Client,
    lifetime: Lifetime,
    seen: observe::Seen,
    before: Vec<Option<String>>,
    load: LoadPlan,
    /// What stands between clients and server.
    between: Option<Between>,
}
