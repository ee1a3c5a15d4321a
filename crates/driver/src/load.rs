//! A load from start to end: connects, runs, merges what the threads counted,
//! and notices when the server is gone.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use walwright_record::{LatencyHistogram, LoadInterval, SparseHistogram, Timestamp, UnderWay};
use walwright_wire::{CancelKey, Connector, WireError, cancel};

use crate::clock::Clock;
use crate::coalesce::Coalescers;
use crate::compile::{ParameterFormats, compile, learn_formats};
use crate::connect::{ConnectPool, Wanted};
use crate::endpoint::{Dialer, Endpoint};
use crate::engine::{Job, Post};
use crate::merge::Merger;
use crate::outcome::{ErrorSamples, LoadError, LoadOutcome, ServerLost};
use crate::plan::{LoadPlan, Mode};
use crate::request::Asking;
use crate::shared::{Attempt, Ending, Inbox, LoadPhase, News, Order, Report, Shared};
use crate::system::allow_connections;
use crate::tail::Tail;
use crate::worker::Worker;

/// A load that connects or runs. Dropping it aborts it.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    inboxes: Inboxes,
    intervals: Receiver<LoadInterval>,
    coordinator: Option<JoinHandle<Result<LoadOutcome, LoadError>>>,
}

#[derive(Clone)]
struct Inboxes(Vec<Arc<Inbox>>);

impl std::fmt::Debug for Inboxes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} inboxes", self.0.len())
    }
}

impl Load {
    /// Begins to connect; transactions begin when all clients are connected.
    ///
    /// # Errors
    /// When the plan cannot be driven or the system refuses a thread. What goes
    /// wrong later, [`join`](Load::join) tells.
    pub fn start(plan: LoadPlan) -> Result<Load, LoadError> {
        plan.check()?;
        let clients = plan.clients;
        allow_connections(clients).map_err(|possible| LoadError::Files { clients, possible })?;
        let workers = plan.threads.min(plan.clients) as usize;
        let inboxes = (0..workers)
            .map(|_| Inbox::new().map(Arc::new))
            .collect::<Result<Vec<_>, _>>()
            .map_err(system("make an event descriptor"))?;
        let shared = Arc::new(Shared::default());
        let (send, intervals) = channel();
        let coordinator = Coordinator {
            plan,
            shared: Arc::clone(&shared),
            inboxes: inboxes.clone(),
            intervals: send,
        };
        let coordinator = std::thread::Builder::new()
            .name("load".into())
            .spawn(move || coordinator.run())
            .map_err(system("start a thread"))?;
        let coordinator = Some(coordinator);
        Ok(Load { shared, inboxes: Inboxes(inboxes), intervals, coordinator })
    }

    /// How far it has come.
    pub fn phase(&self) -> LoadPhase {
        self.shared.phase()
    }

    /// Clients that have a connection now.
    pub fn connected(&self) -> u32 {
        self.shared.connected.load(Ordering::Relaxed)
    }

    /// One [`LoadInterval`] after the other, each soon after its end; the
    /// channel closes when the load has ended. The last one is shorter.
    pub fn intervals(&self) -> &Receiver<LoadInterval> {
        &self.intervals
    }

    /// Lets no more transactions begin; those in flight end, in at most the
    /// plan's time to drain. Returns at once.
    pub fn stop(&self) {
        self.stop_at(Timestamp::now());
    }

    /// The same for a window that has ended at `end`: what was under way then is told
    /// apart in [`LoadOutcome::under_way`]. In an open loop what had come due until then
    /// is still begun while there is time to drain.
    ///
    /// What ended more than two intervals before the stop is not remembered.
    pub fn stop_at(&self, end: Timestamp) {
        self.shared.end_window(end);
        self.give(Order::Stop);
    }

    /// Ends the load at once, cutting connections. Returns at once.
    pub fn abort(&self) {
        self.give(Order::Abort);
    }

    fn give(&self, order: Order) {
        self.shared.give(order);
        for inbox in &self.inboxes.0 {
            inbox.waker.wake();
        }
    }

    /// Waits for the end, which [`stop`](Load::stop) or the loss of the server
    /// brings, and sums up.
    ///
    /// # Errors
    /// When the load could not begin, or not go on.
    pub fn join(mut self) -> Result<LoadOutcome, LoadError> {
        match self.coordinator.take() {
            Some(coordinator) => coordinator.join().unwrap_or(Err(LoadError::Panicked)),
            None => Err(LoadError::Panicked),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(coordinator) = self.coordinator.take() {
            self.give(Order::Abort);
            // What it has to say, nobody wants to hear any more.
            let _ = coordinator.join();
        }
    }
}

fn system(what: &'static str) -> impl Fn(std::io::Error) -> LoadError {
    move |source| LoadError::System { what, source }
}

/// Without any connection for this long, the server is lost.
const LOST_AFTER: Duration = Duration::from_secs(2);
/// The same while it answers that it is starting up or recovering (57P03).
const RECOVERY_LIMIT: Duration = Duration::from_secs(60);
/// How long statements that were left running are cancelled at the end of a load.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);
/// Threads that do so.
const CANCEL_THREADS: usize = 4;
/// How often the coordinator looks around when nothing is reported.
const LOOK: Duration = Duration::from_millis(100);

/// The thread that looks after a load.
struct Coordinator {
    plan: LoadPlan,
    shared: Arc<Shared>,
    inboxes: Vec<Arc<Inbox>>,
    intervals: Sender<LoadInterval>,
}

impl Coordinator {
    fn run(self) -> Result<LoadOutcome, LoadError> {
        let shared = Arc::clone(&self.shared);
        let outcome = self.prepare_and_run();
        shared.enter(LoadPhase::Ended);
        outcome
    }

    fn prepare_and_run(self) -> Result<LoadOutcome, LoadError> {
        let clients = self.plan.clients;
        let refused = |source| LoadError::Connect { client: 1, clients, source };
        let dialer = Dialer::new(&self.plan.endpoint).map_err(refused)?;
        let formats = match (&dialer, self.plan.mode) {
            (Dialer::Http(_), _) | (_, Mode::Faithful) => ParameterFormats::new(),
            (Dialer::Postgres(connector), Mode::Lean) => {
                let mut connection = connector.connect().map_err(refused)?;
                learn_formats(&self.plan.program, &mut connection).map_err(refused)?
            }
        };
        let plan = self.plan.clone();
        let wire = compile(&plan.program, plan.protocol, plan.mode, &formats);
        let statements = wire.iter().map(Vec::len).sum();
        let coalescers = Coalescers::start(&plan)?.map(Arc::new);
        let asking = match &plan.endpoint {
            Endpoint::Postgres(_) => None,
            Endpoint::Http(server) => Some(Asking::of(server)),
        };
        let coalescers_of = coalescers.clone();
        let job = Arc::new(Job { plan, wire, asking, statements, coalescers: coalescers_of });

        let (reports, heard) = channel();
        let to_report = reports.clone();
        let report = move |attempt| {
            // Whoever listens is gone only when the load is being torn down.
            let _ = to_report.send(Report::Attempt(attempt));
        };
        let pool = ConnectPool::start(&dialer, clients, &self.shared, &report)
            .map_err(system("start a thread"))?;
        drop(report);
        let wanted = pool.wanted();
        let mut threads = Vec::new();
        let mut result = Ok(());
        for (worker, inbox) in self.inboxes.iter().enumerate() {
            let post = Post {
                worker,
                job: Arc::clone(&job),
                shared: Arc::clone(&self.shared),
                reports: reports.clone(),
            };
            let (inbox, wanted, workers) = (Arc::clone(inbox), wanted.clone(), self.inboxes.len());
            let spawned = std::thread::Builder::new()
                .name(format!("driver-{worker}"))
                .spawn(move || Worker::run(post, workers, inbox, wanted));
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    result = Err(LoadError::System { what: "start a thread", source });
                    break;
                }
            }
        }
        drop(reports);
        let outcome = result
            .and_then(|()| self.connect_all(&wanted, &heard))
            .and_then(|()| self.follow(&job, &heard));
        self.order(Order::Abort);
        drop(wanted);
        let mut panicked = false;
        for thread in threads {
            panicked |= thread.join().is_err();
        }
        pool.close();
        if let Some(coalescers) = coalescers {
            coalescers.close();
        }
        let (outcome, running) = match outcome {
            Ok((outcome, running)) => (Ok(outcome), running),
            Err(error) => (Err(error), Vec::new()),
        };
        if let Dialer::Postgres(connector) = &dialer {
            cancel_all(connector, running);
        }
        if panicked { Err(LoadError::Panicked) } else { outcome }
    }

    fn order(&self, order: Order) {
        self.shared.give(order);
        for inbox in &self.inboxes {
            inbox.waker.wake();
        }
    }

    /// Has all clients connected; the first failure ends the load.
    fn connect_all(
        &self,
        wanted: &Sender<Wanted>,
        heard: &Receiver<Report>,
    ) -> Result<(), LoadError> {
        let (clients, workers) = (self.plan.clients, self.inboxes.len() as u32);
        for number in 0..clients {
            let inbox = Arc::clone(&self.inboxes[(number % workers) as usize]);
            let client = number / workers;
            // The pool lives, since `run` still has it.
            let _ = wanted.send(Wanted { inbox, client, number: number + 1 });
        }
        let mut connected = 0;
        while connected < clients {
            match heard.recv_timeout(LOOK) {
                Ok(Report::Attempt(Attempt { result: Ok(()), .. })) => connected += 1,
                Ok(Report::Attempt(Attempt { number, result: Err(source) })) => {
                    return Err(LoadError::Connect { client: number, clients, source });
                }
                Ok(Report::Done { ending, .. }) => {
                    return Err(match ending.failure {
                        Some(source) => LoadError::System { what: "drive clients", source },
                        None => LoadError::StoppedEarly,
                    });
                }
                Ok(Report::Part { .. } | Report::Error { .. }) | Err(RecvTimeoutError::Timeout) => {
                }
                Err(RecvTimeoutError::Disconnected) => return Err(LoadError::Panicked),
            }
            if self.shared.order() != Order::Run {
                return Err(LoadError::StoppedEarly);
            }
        }
        Ok(())
    }

    /// From the first transaction to the last.
    ///
    /// With the sum comes what cancels the statements that are still running.
    fn follow(
        &self,
        job: &Job,
        heard: &Receiver<Report>,
    ) -> Result<(LoadOutcome, Vec<CancelKey>), LoadError> {
        let clock = Clock::start();
        for inbox in &self.inboxes {
            inbox.send(News::Begin(clock));
        }
        self.shared.enter(LoadPhase::Running);
        let workers = self.inboxes.len();
        let scripts = job.program().scripts.len();
        let spares = Arc::clone(&self.shared.spares);
        let mut merger = Merger::new(clock, self.plan.interval, workers, scripts, spares);
        let mut watch = Watch::default();
        let mut endings = Vec::new();
        let mut stopped_by = None;
        while !merger.all_ended() {
            match heard.recv_timeout(LOOK) {
                Ok(Report::Part { worker, part }) => merger.add(worker, *part),
                Ok(Report::Done { worker, ending }) => {
                    merger.end(worker);
                    if ending.failure.is_some() {
                        self.order(Order::Abort);
                    }
                    endings.push(*ending);
                }
                Ok(Report::Attempt(Attempt { result, .. })) => watch.attempt(result),
                Ok(Report::Error { kind }) => {
                    stopped_by.get_or_insert(kind);
                    self.order(Order::Stop);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(LoadError::Panicked),
            }
            while let Some(interval) = merger.take() {
                // Nobody has to listen.
                let _ = self.intervals.send(interval);
            }
            if self.shared.order() == Order::Run
                && watch.is_lost(self.shared.connected.load(Ordering::Relaxed))
            {
                self.order(Order::Abort);
            }
        }
        let running = endings.iter_mut().flat_map(|end| std::mem::take(&mut end.running));
        let running = if watch.lost.is_some() { Vec::new() } else { running.collect() };
        let outcome = outcome(clock, merger, endings, watch.lost)?;
        Ok((LoadOutcome { stopped_by, ..outcome }, running))
    }
}

/// Cancels what connections that were cut have left running: a server looks whether
/// its client is still there only when it has something to say to it.
fn cancel_all(connector: &Connector, keys: Vec<CancelKey>) {
    let deadline = Instant::now() + CANCEL_LIMIT;
    let queue = Mutex::new(keys);
    std::thread::scope(|scope| {
        for _ in 0..CANCEL_THREADS {
            scope.spawn(|| {
                while Instant::now() < deadline {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    let Some(key) = next else { return };
                    // The server may be gone; there is nobody else to ask.
                    let _ = cancel(connector, &key);
                }
            });
        }
    });
}

fn outcome(
    clock: Clock,
    merger: Merger,
    endings: Vec<Ending>,
    server_lost: Option<ServerLost>,
) -> Result<LoadOutcome, LoadError> {
    let sums = merger.totals;
    let mut tail: Option<Tail> = None;
    let mut outcome = LoadOutcome {
        started: clock.timestamp(Default::default()),
        stopped: clock.timestamp(endings.iter().map(|e| e.stopped).max().unwrap_or_default()),
        ended: clock.timestamp(clock.now()),
        scripts: sums.scripts,
        due: sums.due,
        skipped: sums.skipped,
        late: sums.late,
        never_begun: 0,
        unfinished: 0,
        under_way: UnderWay::default(),
        cpu_user: Duration::ZERO,
        cpu_system: Duration::ZERO,
        connections_lost: 0,
        connect_failures: 0,
        errors: ErrorSamples::default(),
        clients_stopped: 0,
        stopped_by: None,
        connection_time: SparseHistogram::default(),
        server_lost,
    };
    let mut connection_time = LatencyHistogram::new();
    for ending in endings {
        if let Some(source) = ending.failure {
            return Err(LoadError::System { what: "drive clients", source });
        }
        outcome.never_begun += ending.totals.never_begun;
        outcome.unfinished += ending.totals.unfinished;
        outcome.cpu_user += ending.cpu.0;
        outcome.cpu_system += ending.cpu.1;
        outcome.connections_lost += ending.totals.connections_lost;
        outcome.connect_failures += ending.totals.connect_failures;
        outcome.errors.merge(ending.errors);
        outcome.clients_stopped += ending.totals.clients_stopped;
        connection_time.merge(&ending.connection_time);
        match (&mut tail, ending.tail) {
            (Some(sum), Some(part)) => sum.merge(&part),
            (sum, part) => *sum = sum.take().or(part),
        }
    }
    outcome.connection_time = SparseHistogram::from(&connection_time);
    outcome.under_way = tail.as_ref().map(UnderWay::from).unwrap_or_default();
    Ok(outcome)
}

/// Watches whether the server is still there.
#[derive(Default)]
struct Watch {
    /// Since when there is no connection at all.
    down: Option<(Instant, Timestamp)>,
    /// Why the last attempt failed, and whether the server said that it is
    /// starting up.
    last_failure: Option<(String, bool)>,
    lost: Option<ServerLost>,
}

impl Watch {
    fn attempt(&mut self, result: Result<(), WireError>) {
        if result.is_ok() {
            // Where each transaction has its own, none may be open at the moment of a look.
            self.down = None;
        }
        self.last_failure = result.err().map(|error| {
            let starting = error.server_error().is_some_and(|fields| fields.code == "57P03");
            (error.to_string(), starting)
        });
    }

    fn is_lost(&mut self, connected: u32) -> bool {
        if connected > 0 {
            self.down = None;
            return false;
        }
        let (since, at) = *self.down.get_or_insert_with(|| (Instant::now(), Timestamp::now()));
        let limit = match &self.last_failure {
            Some((_, true)) => RECOVERY_LIMIT,
            _ => LOST_AFTER,
        };
        if since.elapsed() < limit {
            return false;
        }
        let message = match &self.last_failure {
            Some((message, _)) => message.clone(),
            None => "no connection to it could be opened".into(),
        };
        self.lost = Some(ServerLost { at, message });
        true
    }
}

#[cfg(test)]
mod tests {
    use walwright_workload::script::{Program, ScriptSource};

    use super::*;
    use crate::responder::Responder;

    /// Resident memory of this process in KiB.
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("proc");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
    }

    #[test]
    fn thousands_of_clients_cost_little_memory_and_no_more_with_time() {
        const CLIENTS: u32 = 2000;
        // The responder's ends of the connections are files of this process too.
        if allow_connections(2 * CLIENTS).is_err() {
            return;
        }
        let text = "\\set a random(1, 10)\nBEGIN;\nSELECT :a;\nEND;".into();
        let source = ScriptSource { name: "test".into(), text, weight: 1 };
        let program = Program::compile(&[source], &[]).expect("a script");
        let responder = Responder::start().expect("a socket");
        let before = resident();
        let mut plan = LoadPlan::new(Arc::new(program), responder.endpoint());
        plan.clients = CLIENTS;
        plan.threads = 2;
        plan.interval = Duration::from_millis(50);
        let load = Load::start(plan).expect("started");
        let mut after = [0; 2];
        for (interval, received) in load.intervals().iter().take(20).enumerate() {
            assert_eq!(received.clients, CLIENTS);
            after[interval / 10] = resident();
        }
        assert_eq!(load.connected(), CLIENTS);
        load.stop();
        let outcome = load.join().expect("it ran");
        assert!(outcome.transactions() > u64::from(CLIENTS), "{outcome:?}");
        assert_eq!((outcome.failures(), outcome.unfinished), (0, 0));
        assert!(after[1].saturating_sub(before) < 60 * 1024, "{before} then {after:?} KiB");
        assert!(after[1].saturating_sub(after[0]) < 4 * 1024, "{before} then {after:?} KiB");
    }
}
