//! A run: prepare, load, probe, connect, warm up, measure, collect.

mod checkpoints;
mod checks;
mod drive;
mod error;
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
mod tables;
mod target;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use walwright_driver::LoadPlan;
use walwright_figures::Summary;
use walwright_record::{
    InstrumentFacts, PhaseName, Record, RunHeader, RunId, RunState, Schedule, TargetKind,
    Timestamp, Warning, WarningCode, WorkloadFacts,
};
use walwright_server::Client;
use walwright_workload::{Plan, Workload};

pub use error::RunError;
pub use kept::Kept;
pub use plan::{LoadChoice, ProbePlan, Restored, RunPlan, TargetPlan, Window, WorkloadPlan};
pub use snapshot::{fill, filled, snapshot};
use statements::Statements;
pub use target::{install, with_connections};

use crate::lifetime::{Interruption, Lifetime};
use crate::notes::{Ending, Notes};
use crate::recorder::Recorder;
use crate::{Observer, Progress, ceiling};
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
    observer: Arc<dyn Observer>,
) -> Result<Finished, RunError> {
    plan.check()?;
    let workload = plan.workload()?;
    let mut plan = plan;
    if plan.scale_is_open() {
        plan.workload.scale = scale::of_tables(&plan, &workload, &stop).await?;
    }
    let job = plan.job(&workload)?;
    let header = header(&plan, &workload);
    let store = lab.store()?;
    let (recorder, thread) = Recorder::start(store.begin(&header)?);
    let lab = lab.directory().to_owned();
    let began = Arc::new(AtomicBool::new(false));
    let notes = Notes { recorder, observer };
    let context = Context { lab, plan, workload, job, notes, stop, began: Arc::clone(&began) };

    let (ended, kept) = context.go().await;
    let state = match &ended {
        Ok(Ended::AsPlanned) => RunState::Complete,
        Ok(Ended::Stopped) => RunState::Interrupted,
        Err(error) if error.is_interruption() => RunState::Interrupted,
        Err(_) => RunState::Failed,
    };
    let error = ended.err();
    let ending = Ending { at: Timestamp::now(), state, error: reason(state, error.as_ref()) };
    let whole = context.notes.whole(&store, &header.id, &ending).await;
    context.notes.finish(ending);
    // The last sender goes with the context, so that the writer's thread ends.
    drop(context);
    let written = blocking(move || thread.finish()).await?;
    match error {
        Some(error) if !began.load(Ordering::Acquire) => {
            if let Err(kept) = store.delete(&header.id) {
                tracing::warn!(error = %kept, "the record of a run that did not begin stays");
            }
            Err(error)
        }
        error => {
            // A write that failed says more than what could not be read back after it.
            written?;
            let (record, summary) = whole?;
            Ok(Finished { id: header.id, state, error, kept, record, summary })
        }
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
        target: plan.target.name(),
        error: None,
    }
}

/// How a run that did not fail ended.
enum Ended {
    AsPlanned,
    Stopped,
}

/// What every stage of one run needs.
struct Context {
    lab: PathBuf,
    plan: RunPlan,
    workload: Workload,
    job: Plan,
    notes: Notes,
    stop: Stop,
    /// Whether the load has shown anything worth a record.
    began: Arc<AtomicBool>,
}

impl Context {
    /// All stages; whatever happens, the server is stopped at the end.
    async fn go(&self) -> (Result<Ended, RunError>, Option<Kept>) {
        let target = match self.unless_stopped(self.prepare()).await {
            Ok(target) => target,
            Err(error) => return (Err(error), None),
        };
        let ended = match (self.stages(&target).await, target.death()) {
            (Err(RunError::ServerLost { after, .. }), Some(reason)) => {
                Err(RunError::ServerLost { after, reason })
            }
            // Whatever failed then, failed because of that.
            (Err(_), Some(reason)) => Err(RunError::ServerDied { reason }),
            (ended, _) => ended,
        };
        let worth_keeping = self.began.load(Ordering::Acquire);
        match blocking(move || target.close(worth_keeping)).await {
            Ok(Ok(kept)) => (ended, kept),
            Ok(Err(error)) | Err(error) => (ended.and(Err(error)), None),
        }
    }

    /// Client connections: as asked, or as the workload is meant to be run.
    fn clients(&self) -> u32 {
        self.plan.load.clients.unwrap_or(self.workload.defaults.clients)
    }

    async fn prepare(&self) -> Result<Target, RunError> {
        self.notes.phase(PhaseName::Prepare);
        let (plan, clients) = (self.plan.target.clone(), self.clients());
        let observer = Arc::clone(&self.notes.observer);
        let mut target =
            blocking(move || Target::prepare(&plan, clients, observer.as_ref())).await??;
        for warning in target.warnings.clone() {
            self.notes.warn(warning);
        }
        if target.kind == TargetKind::Attached {
            let origin = &self.workload.origin;
            target.statements = Statements::on_attached(&target.params, origin, &self.job).await?;
            if target.statements.silent {
                self.notes.warn(
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

    async fn stages(&self, target: &Target) -> Result<Ended, RunError> {
        let ready = self.unless_stopped(self.make_ready(target)).await?;
        let observation = observe::Observation::begin(self, target, &ready.seen).await?;
        let side = side::Side::begin(self, target);
        let measuring = Arc::new(Notify::new());
        let driven = tokio::select! {
            driven = drive::drive(self, ready.load, Arc::clone(&measuring)) => driven,
            never = checkpoints::hold(self, target, &measuring) => match never {},
        };
        side.end(self, driven.as_ref().ok().and_then(|driven| driven.window)).await;
        if driven.is_ok() || self.began.load(Ordering::Acquire) {
            self.notes.phase(PhaseName::Collect);
        }
        observation.end(self).await;
        let asked = ready.lifetime.end(&ready.own, &target.params);
        let interrupted = self.interrupted(asked, driven.as_ref()).await;
        // A server that stands still would not answer.
        if driven.as_ref().is_ok_and(|driven| driven.nothing.is_none()) {
            let described = async {
                let ours = target.kind == TargetKind::Embedded;
                observe::describe_end(self, &ready.seen, &ready.own, &ready.client, ours).await;
                Ok(())
            };
            // Whoever asked to stop does not wait for it.
            let _: Result<(), RunError> = self.unless_stopped(described).await;
        }

        let driven = match driven {
            Err(RunError::NothingSucceeds { kind, text }) => {
                return Err(checks::explained(self, target, kind, text).await);
            }
            driven => driven?,
        };
        if let (None, Some(nothing)) = (interrupted, driven.nothing) {
            return Err(nothing);
        }
        if !driven.stopped_early {
            let checked = checks::after(self, target, ready.client, ready.before);
            match self.unless_stopped(checked).await {
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
        &self,
        asked: impl Future<Output = Option<Interruption>>,
        driven: Result<&Driven, &RunError>,
    ) -> Option<Interruption> {
        let driven = driven.ok().filter(|driven| !driven.stopped_early)?;
        let interrupted = match self.unless_stopped(async { Ok(asked.await) }).await {
            Ok(Some(interrupted)) => interrupted,
            _ => Interruption::told(driven.told_of_crash?),
        };
        interrupted.note(&self.notes);
        self.notes.warn(
            Warning::new(
                WarningCode::ServerLost,
                format!("{}: these figures are not of one server that runs", interrupted.what),
            )
            .hint("the events of the timeline tell when; find out why, and measure again"),
        );
        Some(interrupted)
    }

    /// Everything before clients run: data, facts, probes.
    async fn make_ready(&self, target: &Target) -> Result<Ready, RunError> {
        let own = walwright_server::connect(&target.params).await?;
        let client = target.statements().connect().await?;
        checks::enough_connections(self.clients(), &own, target).await?;
        checks::flushes_can_be_lengthened(&own, target).await?;
        if self.plan.initialises() {
            self.notes.phase(PhaseName::Load);
            match self.plan.restored() {
                Some(restored) => load_data::change(&restored.changes, &client).await?,
                None if self.plan.is_filled() => {}
                None => self.load(target).await?,
            }
            if target.kind == TargetKind::Embedded {
                load_data::checkpoint(&target.params).await?;
            }
            load_data::before_run(&self.job, &client).await?;
        }
        let found = tables::found(&self.job, &own, &client).await?;
        if target.kind == TargetKind::Attached {
            checks::tables_are_there(self, &found, target).await?;
        }
        if let Some(window) = self.plan.window() {
            let checkpoint = load_data::checkpoint(&target.params).await;
            if let Some(warning) = not_restored::not_restored(window, checkpoint.err()) {
                self.notes.warn(warning);
            }
        }
        checks::statements(self, target).await?;
        self.notes.phase(PhaseName::Probe);
        let seen = observe::describe(self, target, &own, &found).await?;
        let before = checks::before(self, &own, &client, &found).await?;
        self.record_workload();
        let load = drive::load_plan(self, target);
        self.calibrate(&load).await?;
        let lifetime = Lifetime::begin(&own).await;
        Ok(Ready { own, client, lifetime, seen, before, load })
    }

    /// Creates the workload's tables and fills them.
    async fn load(&self, target: &Target) -> Result<(), RunError> {
        let (statements, jobs) = (target.statements(), self.plan.load_jobs);
        let (job, observer) = (&self.job, self.notes.observer.as_ref());
        match &self.plan.target {
            TargetPlan::Embedded { .. } => load_data::load(job, statements, jobs, observer).await,
            TargetPlan::Attached { replace, .. } => {
                load_data::load_attached(job, statements, replace, jobs, observer).await
            }
        }
    }

    async fn unless_stopped<T>(
        &self,
        work: impl Future<Output = Result<T, RunError>>,
    ) -> Result<T, RunError> {
        tokio::select! {
            done = work => done,
            () = self.stop.requested() => Err(RunError::Stopped),
        }
    }

    /// Looks up or measures how fast the driver itself is.
    async fn calibrate(&self, load: &LoadPlan) -> Result<(), RunError> {
        self.notes.observer.event(Progress::Step("limits of the load driver"));
        let (lab, load) = (self.lab.clone(), load.clone());
        // How fast it opens connections is the server's affair.
        let ceiling = match load.rules.reconnect {
            true => None,
            false => blocking(move || ceiling::ceiling(&lab, &load)).await??,
        };
        let facts = InstrumentFacts { cpu_per_transaction: None, ceiling, busiest_thread: None };
        self.notes.recorder.write(move |writer| writer.instrument(&facts));
        Ok(())
    }

    fn record_workload(&self) {
        let facts = WorkloadFacts {
            name: self.workload.name.clone(),
            scale: self.job.scale.into(),
            options: self.job.options.clone(),
            scripts: self.script_facts(),
            pass_mark: self.pass_mark(),
        };
        self.notes.recorder.write(move |writer| writer.workload(&facts));
    }

    /// The workload's mark, where the load is of the kind the mark is for.
    fn pass_mark(&self) -> Option<Duration> {
        let mark = self.workload.pass_mark.as_ref()?;
        let clients = mark.clients.is_none_or(|clients| clients == self.clients());
        let closed = self.plan.load.schedule == Schedule::Closed { think: None };
        (clients && closed && self.plan.load.stages.is_empty()).then_some(mark.mean_latency)
    }

    fn script_facts(&self) -> Vec<walwright_record::ScriptFacts> {
        self.workload
            .scripts
            .iter()
            .zip(&self.job.program.scripts)
            .map(|(source, script)| walwright_record::ScriptFacts {
                name: source.name.clone(),
                weight: source.weight,
                text: source.text.clone(),
                statements: script.statements.iter().map(|s| s.label.clone()).collect(),
            })
            .collect()
    }
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
}

/// Runs blocking work off the asynchronous threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RunError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| RunError::Internal("a blocking stage"))
}
