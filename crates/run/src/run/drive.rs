//! Driving the load: connect, warm up, measure, and know when it is enough.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use walwright_driver::{
    Arrival, Endpoint, Gaps, Load, LoadError, LoadOutcome, LoadPlan, Mode, Protocol, ThinkTime,
};
use walwright_record::{
    Event, LoadFacts, LoadInterval, LoadLevel, LoadStage, PhaseName, PoolerFacts, Schedule,
    SparseHistogram, Timestamp, UnderWay, Warning, WarningCode, Window,
};
use walwright_server::{ConnectParams, Stop};
use walwright_wire::ConnectOptions;
use walwright_workload::script::{Program, Script};
use walwright_workload::workload::Done;

use super::RunError;
use super::context::{Context, blocking};
use super::settle::Settling;
use crate::Progress;
use crate::notes::Notes;

/// Name of the load's sessions in `pg_stat_activity`.
pub(super) const APPLICATION_NAME: &str = "walwright load";
/// Clients one driver thread serves by default.
const CLIENTS_A_THREAD: u32 = 64;
/// How often a stop is looked for while nothing arrives.
const POLL: Duration = Duration::from_millis(100);
/// SQLSTATE by which the server tells that a process of it crashed.
const CRASH: &str = "57P02";
/// How long transactions under way are waited for when the window has ended.
const DRAIN: Duration = Duration::from_secs(10);
/// How long transactions in flight may take once the user has asked to stop.
const PATIENCE: Duration = Duration::from_secs(1);
/// Seconds in a row without a single success, but with failures that time does not
/// heal, after which a load is given up.
const HOPELESS: usize = 3;
/// Measured time that is told of where it turns out to be warm-up.
const FORGOTTEN: Duration = Duration::from_secs(5);
/// Failures that may pass: retries used up, locks and timeouts, a server or an application that
/// starts, stops or has no connection to spare, by SQLSTATE or status, or the class of either.
const PASSING: [&str; 11] = [
    "40",
    "55",
    "57",
    "53300",
    "08",
    "connection",
    "25P03",
    "timeout",
    "HTTP 408",
    "HTTP 429",
    "HTTP 5",
];

/// What the load came to.
pub(super) struct Driven {
    /// Whether the user stopped it.
    pub stopped_early: bool,
    /// What was measured, if the load got to it.
    pub window: Option<Window>,
    /// Why what was measured is nothing, if so.
    pub nothing: Option<RunError>,
    /// When clients were told that a process of the server crashed, if they were.
    pub told_of_crash: Option<Timestamp>,
    /// What the whole load came to.
    pub done: Done,
}

/// Drives the load to the end of its window, and tells `window` when that begins.
pub(super) async fn drive(
    context: &Context,
    plan: LoadPlan,
    pooler: Option<PoolerFacts>,
    window: Arc<Notify>,
) -> Result<Driven, RunError> {
    let facts = load_facts(context, &plan, pooler);
    context.notes.recorder.write(move |writer| writer.load(&facts));
    if plan.mode == Mode::Lean {
        context.notes.warn(Warning::new(
            WarningCode::LeanMode,
            "lean mode: binary parameters and fewer round trips change the server's work too, so these figures do not compare with pgbench's",
        ));
    }
    context.notes.phase(PhaseName::Connect);
    let clients = plan.clients;
    let choice = &context.plan.load;
    let open_loop = matches!(choice.schedule, Schedule::Open { .. });
    // Clients that do so many transactions end the load themselves.
    let wanted = if choice.rules.transactions.is_some() { Duration::MAX } else { choice.duration };
    let settling = Settling::new(wanted, choice.warm_up, choice.ramp, open_loop);
    let all = choice.rules.transactions.map(|each| each.saturating_mul(plan.clients.into()));
    let stage = Stage {
        notes: context.notes.clone(),
        stop: context.stop.clone(),
        wanted: choice.duration,
        all,
        stages: choice.stages.clone(),
        settling,
        starts: Vec::new(),
        measured: None,
        begins: window,
        began: Arc::clone(&context.began),
        failing: 0,
        completed: Vec::new(),
        told_of_crash: None,
    };
    let ended = blocking(move || stage.run(plan)).await??;
    let Ended { outcome, hopeless, window, nothing, told_of_crash } = ended;
    report_failures(context, &outcome);
    if let Some(lost) = &outcome.server_lost {
        return Err(RunError::ServerLost {
            after: lost.at.since(outcome.started),
            reason: lost.message.clone(),
        });
    }
    let text_of =
        |kind: &str| outcome.errors.of(kind).first().map_or(kind, String::as_str).to_owned();
    if let Some(kind) = hopeless {
        let text = text_of(&kind);
        return Err(RunError::NothingSucceeds { kind, text });
    }
    if let Some(kind) = &outcome.stopped_by {
        return Err(RunError::StoppedByError { text: text_of(kind) });
    }
    if outcome.clients_stopped > 0 && outcome.clients_stopped == clients {
        return Err(RunError::NoClientLeft);
    }
    let stopped_early = context.stop.is_requested();
    let done = done(&context.job.program, &outcome);
    Ok(Driven { stopped_early, window, nothing, told_of_crash, done })
}

/// What a load wrote, from its first transaction to its last.
fn done(program: &Program, outcome: &LoadOutcome) -> Done {
    let mut done = Done::default();
    let rows = |script: &Script| script.batch.map_or(1, |batch| u64::from(batch.rows));
    for (script, totals) in program.scripts.iter().zip(&outcome.scripts) {
        done.written += rows(script) * totals.transactions;
        // The commit of one whose connection broke may have arrived.
        let lost = totals.failures.get("connection").copied().unwrap_or(0);
        done.unknown += rows(script) * lost;
    }
    done.unknown += outcome.unfinished * program.scripts.iter().map(rows).max().unwrap_or(1);
    done
}

/// How the load connects: as everything else, under a name of its own.
pub(super) fn load_options(params: &ConnectParams) -> ConnectOptions {
    params.clone().with_application_name(APPLICATION_NAME).wire_options()
}

/// Who answers the load: the application, where there is one, or the server.
pub(super) fn endpoint(context: &Context, params: &ConnectParams) -> Endpoint {
    match &context.plan.load.http {
        Some(application) => application.clone().into(),
        None => load_options(params).into(),
    }
}

/// What the driver is asked to do.
pub(super) fn load_plan(context: &Context, endpoint: Endpoint) -> LoadPlan {
    let choice = &context.plan.load;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let clients = context.clients();
    let threads = choice.threads.unwrap_or_else(|| {
        clients.div_ceil(CLIENTS_A_THREAD).min(u32::try_from(processors).unwrap_or(u32::MAX))
    });
    let mut plan = LoadPlan::new(Arc::new(context.job.program.clone()), endpoint);
    plan.scale = context.job.scale.into();
    plan.clients = clients;
    plan.threads = threads.min(clients).max(1);
    plan.protocol = choice.protocol.unwrap_or(match choice.mode {
        Mode::Lean => Protocol::Prepared,
        Mode::Faithful => context.workload.defaults.protocol,
    });
    plan.mode = choice.mode;
    plan.arrival = arrival(choice.schedule);
    plan.latency_limit = choice.schedule.latency_limit();
    plan.ramp = choice.ramp;
    plan.max_tries = choice.max_tries;
    plan.rules = choice.rules;
    plan.stages.clone_from(&choice.stages);
    plan.drain = DRAIN;
    plan.seed = choice.seed.unwrap_or_else(|| Timestamp::now().0.unsigned_abs());
    plan
}

fn arrival(schedule: Schedule) -> Arrival {
    match schedule {
        Schedule::Closed { think, .. } => {
            Arrival::Closed { think: think.map(ThinkTime::Exponential) }
        }
        Schedule::Open { rate, poisson, .. } => {
            Arrival::Open { rate, gaps: if poisson { Gaps::Poisson } else { Gaps::Even } }
        }
    }
}

fn load_facts(context: &Context, plan: &LoadPlan, pooler: Option<PoolerFacts>) -> LoadFacts {
    LoadFacts {
        clients: plan.clients,
        threads: plan.threads,
        protocol: match plan.endpoint {
            Endpoint::Postgres(_) => plan.protocol.name().to_owned(),
            Endpoint::Http(_) => LoadFacts::HTTP.to_owned(),
        },
        mode: match plan.mode {
            Mode::Faithful => "faithful",
            Mode::Lean => "lean",
        }
        .to_owned(),
        schedule: context.plan.load.schedule,
        ramp: plan.ramp,
        max_tries: plan.max_tries,
        seed: plan.seed,
        rules: plan.rules,
        stages: plan.stages.clone(),
        pooler,
    }
}

/// What the blocking part came to.
struct Ended {
    outcome: LoadOutcome,
    /// The kind of failure it was given up for.
    hopeless: Option<String>,
    window: Option<Window>,
    nothing: Option<RunError>,
    told_of_crash: Option<Timestamp>,
}

/// The blocking part: waits for the driver's intervals.
struct Stage {
    notes: Notes,
    stop: Stop,
    wanted: Duration,
    /// Transactions of all clients together, where they are given in place of a length.
    all: Option<u64>,
    /// Levels of load one after the other, if there are several.
    stages: Vec<LoadStage>,
    settling: Settling,
    /// Start of every interval so far, and the end of the last.
    starts: Vec<Timestamp>,
    /// Length of the window as it looked last; `None` before it begins.
    measured: Option<Duration>,
    /// Told when measuring begins.
    begins: Arc<Notify>,
    began: Arc<AtomicBool>,
    /// Seconds in a row in which transactions did nothing but fail.
    failing: usize,
    /// What ended in every interval so far: well, and not.
    completed: Vec<(u64, u64)>,
    /// First interval in which clients were told of a crash.
    told_of_crash: Option<Timestamp>,
}

impl Stage {
    /// Drives to the end.
    fn run(mut self, plan: LoadPlan) -> Result<Ended, RunError> {
        let clients = plan.clients;
        let load = Load::start(plan)?;
        let mut end = None;
        let mut hopeless = None;
        loop {
            if self.stop.is_requested() {
                break;
            }
            match load.intervals().recv_timeout(POLL) {
                Ok(interval) => {
                    end = Some(interval.start.plus(interval.length));
                    hopeless = self.hopeless(&interval);
                    if self.interval(interval) || hopeless.is_some() {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) if self.starts.is_empty() => {
                    let done = load.connected();
                    self.notes.observer.event(Progress::Connected { done, total: clients });
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The load ended by itself: the server is gone, or clients could not connect.
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        load.stop_at(end.unwrap_or_else(Timestamp::now));
        // What ends now lies outside the window, but belongs to the record.
        for interval in self.rest(&load) {
            if walwright_figures::transactions(&interval) > 0 {
                self.began.store(true, Ordering::Release);
            }
            self.keep(interval);
        }
        let outcome = match load.join() {
            Err(LoadError::StoppedEarly) => return Err(RunError::Stopped),
            joined => joined?,
        };
        if outcome.transactions() == 0 {
            hopeless = hopeless.or_else(|| lasting(outcome.scripts.iter().map(|s| &s.failures)));
        }
        // Seconds without a server are no part of what is measured.
        let lost = outcome.server_lost.as_ref().map(|lost| lost.at);
        let whole = lost.is_none() && hopeless.is_none() && !self.stop.is_requested();
        let window =
            end.and_then(|end| self.set_window(lost.map_or(end, |lost| lost.min(end)), whole));
        if outcome.connection_time.count() > 0 {
            let time = outcome.connection_time.clone();
            self.notes.recorder.write(move |writer| writer.connection_time(&time));
        }
        if lost.is_none() && window.is_some() {
            let under_way = outcome.under_way.clone();
            self.notes.recorder.write(move |writer| writer.under_way(&under_way));
        }
        let nothing = window.filter(|_| whole).and_then(|w| self.nothing(w, &outcome.under_way));
        let crash = !outcome.errors.of(CRASH).is_empty();
        let told_of_crash = crash.then(|| self.told_of_crash.unwrap_or(outcome.stopped));
        Ok(Ended { outcome, hopeless, window, nothing, told_of_crash })
    }

    /// Why a window is no measurement: nothing ended well in it.
    fn nothing(&self, window: Window, under_way: &UnderWay) -> Option<RunError> {
        let inside = self.starts.iter().zip(&self.completed);
        let inside = inside.filter(|(start, _)| **start >= window.start);
        let (completed, failed) =
            inside.fold((0, 0), |(well, not), (_, of)| (well + of.0, not + of.1));
        (completed == 0).then(|| RunError::NothingCompleted {
            window: window.length(),
            under_way: under_way.ended_count()
                + under_way.failed_count()
                + under_way.unended_count()
                + under_way.not_begun.count(),
            oldest: under_way.longest(),
            failed,
        })
    }

    /// What still arrives after the stop. Transactions in flight may end, but not for
    /// long once the user has asked to leave.
    fn rest<'a>(&'a self, load: &'a Load) -> impl Iterator<Item = LoadInterval> + 'a {
        let mut asked = None;
        std::iter::from_fn(move || {
            loop {
                match load.intervals().recv_timeout(POLL) {
                    Ok(interval) => return Some(interval),
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) if self.stop.is_requested() => {
                        let since: &mut Instant = asked.get_or_insert_with(Instant::now);
                        if since.elapsed() >= PATIENCE {
                            load.abort();
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
        })
    }

    /// The kind of failure that has left nothing else for some seconds.
    fn hopeless(&mut self, interval: &LoadInterval) -> Option<String> {
        if walwright_figures::transactions(interval) > 0 {
            self.failing = 0;
            return None;
        }
        let kind = lasting(interval.scripts.iter().map(|s| &s.failures))?;
        self.failing += 1;
        (self.failing >= HOPELESS).then_some(kind)
    }

    /// Takes an interval in; true when the window is full.
    fn interval(&mut self, interval: LoadInterval) -> bool {
        if self.starts.is_empty() {
            self.notes.phase_at(PhaseName::WarmUp, interval.start);
        }
        self.enter_stage(interval.start);
        self.starts.push(interval.start);
        let ended = walwright_figures::transactions(&interval);
        self.completed.push((ended, walwright_figures::failures(&interval)));
        if interval.scripts.iter().any(|script| script.failures.contains_key(CRASH)) {
            self.told_of_crash.get_or_insert(interval.start);
        }
        // Failures alone are told by the error; a load that sleeps or waits is one.
        let failures = interval.scripts.iter().any(|script| !script.failures.is_empty());
        if walwright_figures::transactions(&interval) > 0 || !failures {
            self.began.store(true, Ordering::Release);
        }
        let standing = self.settling.push(&interval);
        match (standing.from, self.measured) {
            (Some(from), None) => {
                // Where the window begins may still move; a record of a run that dies
                // keeps this one.
                self.notes.phase_at(PhaseName::Measure, self.starts[from]);
                self.begins.notify_one();
            }
            (_, Some(before)) if standing.measured + FORGOTTEN <= before => {
                self.notes.observer.event(Progress::Step(
                    "the load settled later than it seemed, so the window begins later",
                ));
            }
            _ => {}
        }
        self.measured = standing.from.map(|_| standing.measured);
        self.notes.observer.event(Progress::Interval {
            interval: &interval,
            measured: standing.measured,
            wanted: self.wanted_in_all(standing.measured),
            until: standing.until,
        });
        self.keep(interval);
        if self.notes.recorder.failed() {
            return true;
        }
        standing.done
    }

    /// Says so where a new stage of the load has begun by the start of an interval.
    fn enter_stage(&self, start: Timestamp) {
        let begun = self.starts.first().copied().unwrap_or(start);
        let last = self.starts.last().copied();
        let mut at = begun;
        for (place, stage) in self.stages.iter().enumerate() {
            if at <= start && last.is_none_or(|last| last < at) {
                let level = match stage.level {
                    LoadLevel::Rate(rate) => format!("{rate} transactions a second"),
                    LoadLevel::Clients(1) => "1 client".to_owned(),
                    LoadLevel::Clients(clients) => format!("{clients} clients"),
                };
                let (number, of, seconds) =
                    (place + 1, self.stages.len(), stage.length.as_secs_f64());
                let text = format!("stage {number} of {of}: {level} for {seconds} s");
                self.notes.happened(Event { at, kind: "stage".to_owned(), text });
            }
            at = at.plus(stage.length);
        }
    }

    /// Length of the window: as asked for, or as it will be at the rate so far.
    fn wanted_in_all(&self, measured: Duration) -> Duration {
        let Some(all) = self.all else { return self.wanted };
        let done: u64 = self.completed.iter().map(|(well, not)| well + not).sum();
        let share = done.clamp(1, all.max(1)) as f64 / all.max(1) as f64;
        Duration::try_from_secs_f64(measured.as_secs_f64() / share).unwrap_or(Duration::MAX)
    }

    fn keep(&self, interval: LoadInterval) {
        self.notes.recorder.write(move |writer| writer.interval(&interval));
    }

    /// Writes the final bounds of warm-up and window; of a `whole` run, whether its
    /// throughput settled.
    fn set_window(&self, end: Timestamp, whole: bool) -> Option<Window> {
        let first = self.starts.first().copied()?;
        let (from, steady) = self.settling.window()?;
        let start = self.starts[from];
        self.notes.recorder.write(move |writer| writer.set_phase(PhaseName::WarmUp, first, start));
        self.notes.recorder.write(move |writer| writer.set_phase(PhaseName::Measure, start, end));
        // One in which nothing ended has a fault of its own.
        let some = self.completed[from..].iter().any(|(well, _)| *well > 0);
        // Stages are not meant to be the same.
        if !steady && whole && some && self.stages.is_empty() {
            let warning = Warning::new(
                WarningCode::NoSteadyState,
                format!("the load did not settle: its {} shifted or drifted", self.settling.watched()),
            )
            .hint(match self.all {
                None => "look at the timeline for what changed with it, or measure longer with --duration",
                Some(_) => "look at the timeline for what changed with it, or ask for more --transactions",
            });
            self.notes.warn(warning);
        }
        Some(Window { start, end })
    }
}

/// The most frequent kind of failure that will not pass by itself.
fn lasting<'a>(scripts: impl Iterator<Item = &'a BTreeMap<String, u64>>) -> Option<String> {
    scripts
        .flatten()
        .filter(|(kind, _)| !PASSING.iter().any(|passing| kind.starts_with(passing)))
        .max_by_key(|(_, count)| **count)
        .map(|(kind, _)| kind.clone())
}

fn report_failures(context: &Context, outcome: &LoadOutcome) {
    for (kind, texts) in outcome.errors.iter() {
        for text in texts {
            context.notes.event("error", format!("{kind}: {text}"));
        }
    }
    if outcome.connections_lost > 0 {
        context.notes.warn(Warning::new(
            WarningCode::Connections,
            format!(
                "{} client connections were lost under the load, and {} attempts to connect anew failed",
                outcome.connections_lost, outcome.connect_failures
            ),
        ));
    }
    if outcome.clients_stopped > 0 {
        context.notes.warn(
            Warning::new(
                WarningCode::Failures,
                format!(
                    "{} of the clients ended at an error, so the load was not the one asked for",
                    outcome.clients_stopped
                ),
            )
            .hint("the events of the timeline have the errors"),
        );
    }
    if let Some(warning) = unended(&outcome.under_way).filter(|_| !context.stop.is_requested()) {
        context.notes.warn(warning);
    }
}

/// What was under way when the window ended, and did not end well: how much, and how old.
fn unended(under_way: &UnderWay) -> Option<Warning> {
    let longest = |of: &mut dyn Iterator<Item = &SparseHistogram>| {
        let longest = of.filter_map(SparseHistogram::max).max().unwrap_or_default();
        format!("{:.1} s", longest.as_secs_f64())
    };
    let (unended, not_begun) = (under_way.unended_count(), under_way.not_begun.count());
    let mut said = Vec::new();
    if unended > 0 {
        said.push(format!(
            "{unended} transactions were still running {:.0} s after the window and were cut off, the oldest after {}",
            DRAIN.as_secs_f64(),
            longest(&mut under_way.scripts.iter().map(|script| &script.unended))
        ));
    }
    if not_begun > 0 {
        said.push(format!(
            "{not_begun} transactions were due in the window and had not begun {:.0} s after it, the oldest had waited for {}",
            DRAIN.as_secs_f64(),
            longest(&mut [&under_way.not_begun].into_iter())
        ));
    }
    let bounds = !said.is_empty();
    let failures = under_way.failed_count();
    if failures > 0 {
        said.push(format!(
            "{failures} transactions failed after the window ended and are in no latency"
        ));
    }
    let warning = Warning::new(WarningCode::Unended, said.join("; "));
    match (bounds, failures > 0) {
        (true, _) => {
            Some(warning.hint(
                "they count with their age so far: latencies marked \u{2265} are lower bounds",
            ))
        }
        (false, true) => Some(warning),
        (false, false) => None,
    }
}
