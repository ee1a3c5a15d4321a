//! What the clients of one thread share, and the small steps on it: timers,
//! transactions that begin and end, counting.
//!
//! The larger steps have files of their own: `execute` runs a script until it
//! has to wait, `receive` takes in what the server answers, `worker` is the
//! loop around both.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use walwright_workload::script::{Program, Rng};

use crate::capture::ColumnCache;
use crate::client::{Client, Failure, State};
use crate::clock::{Clock, Moment};
use crate::compile::WireScripts;
use crate::courtesy::Courtesy;
use crate::outbox::Outbox;
use crate::outcome::ErrorSamples;
use crate::plan::{Arrival, LoadPlan};
use crate::schedule::{Schedule, think};
use crate::shared::{Report, Shared};
use crate::system::{Poller, thread_cpu};
use crate::tally::{Counts, Histogram, Part, SCRIPT, add};

/// What is to be done, the same for all threads.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) plan: LoadPlan,
    pub(crate) wire: WireScripts,
    /// Statements of all scripts together.
    pub(crate) statements: usize,
}

impl Job {
    pub(crate) fn program(&self) -> &Program {
        &self.plan.program
    }
}

/// After a failure of the script itself a client waits, since it would fail
/// again at once and keep a CPU busy.
const SCRIPT_BACK_OFF: Duration = Duration::from_millis(10);
/// Pauses between attempts to connect anew double from the first to the second.
const FIRST_RECONNECT: Duration = Duration::from_millis(20);
const LAST_RECONNECT: Duration = Duration::from_millis(500);

/// What happened to a connection while the load ran.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) connections_lost: u64,
    pub(crate) connect_failures: u64,
    pub(crate) never_begun: u64,
    pub(crate) unfinished: u64,
}

/// What the clients of one thread share.
pub(crate) struct Engine {
    /// A copy of the thread's own, so that steps can hold on to it cheaply.
    pub(crate) job: Rc<Job>,
    pub(crate) clock: Clock,
    pub(crate) poller: Poller,
    pub(crate) outbox: Outbox,
    /// Bytes being read.
    pub(crate) input: Vec<u8>,
    pub(crate) columns: ColumnCache,
    /// When each waiting client goes on, with its index and the timer's number.
    timers: BinaryHeap<Reverse<(Moment, u32, u32)>>,
    /// Open loop: clients without a transaction, the one that waited longest
    /// first. May hold clients that have gone on since.
    pub(crate) idle: VecDeque<u32>,
    /// Open loop: due times not yet handed out, and the same again for counting.
    pub(crate) arrivals: Option<Arrivals>,
    chooser: Rng,
    pauses: Rng,
    pub(crate) stopping: bool,
    /// Clients that have a connection and have started.
    pub(crate) running: u32,
    pub(crate) counts: Counts,
    /// Number of the current interval, and when it ends.
    interval: u64,
    pub(crate) interval_end: Moment,
    /// Transactions that were due in the current interval before arrivals ended.
    due: u64,
    cpu_before: Duration,
    courtesy: Courtesy,
    pub(crate) errors: ErrorSamples,
    pub(crate) totals: Totals,
    pub(crate) shared: Arc<Shared>,
    /// Number of this thread among the workers.
    worker: usize,
    reports: Sender<Report>,
}

/// The due times of an open loop.
pub(crate) struct Arrivals {
    pub(crate) schedule: Schedule,
    counter: Schedule,
}

impl Arrivals {
    pub(crate) fn new(schedule: Schedule) -> Self {
        Arrivals { counter: schedule.clone(), schedule }
    }
}

/// What a client does after a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It has begun another one, which is to be driven.
    Go,
    /// It waits or is finished.
    Rest,
}

/// Where a worker stands among the others.
#[derive(Clone)]
pub(crate) struct Post {
    /// Number of the worker, from 0.
    pub(crate) worker: usize,
    pub(crate) job: Arc<Job>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) reports: Sender<Report>,
}

impl Engine {
    pub(crate) fn new(
        post: Post,
        poller: Poller,
        rngs: [Rng; 2],
        arrivals: Option<Schedule>,
        courtesy: Courtesy,
    ) -> Self {
        let Post { worker, job, shared, reports } = post;
        let [chooser, pauses] = rngs;
        let counts = Counts::new(job.program(), job.plan.statement_histograms);
        let interval_end = Moment::default() + job.plan.interval;
        Engine {
            job: Rc::new(Job::clone(&job)),
            clock: Clock::start(),
            poller,
            outbox: Outbox::default(),
            input: vec![0; INPUT],
            columns: ColumnCache::default(),
            timers: BinaryHeap::new(),
            idle: VecDeque::new(),
            arrivals: arrivals.map(Arrivals::new),
            chooser,
            pauses,
            stopping: false,
            running: 0,
            counts,
            interval: 0,
            interval_end,
            due: 0,
            cpu_before: Duration::ZERO,
            courtesy,
            errors: ErrorSamples::default(),
            totals: Totals::default(),
            shared,
            worker,
            reports,
        }
    }

    /// The load begins: `clock` has its moment zero now.
    pub(crate) fn start(&mut self, clock: Clock) {
        self.clock = clock;
        self.cpu_before = thread_cpu();
    }

    /// Begins a transaction whose latency counts from `from`.
    #[inline]
    pub(crate) fn begin(&mut self, client: &mut Client, from: Moment) {
        let transaction = &mut client.transaction;
        transaction.script = self.job.plan.program.choose(&mut self.chooser);
        transaction.pc = 0;
        transaction.from = from;
        transaction.tries = 1;
        transaction.waited = false;
        transaction.rng.clone_from(&client.rng);
    }

    /// Counts a transaction that ended well.
    #[inline]
    pub(crate) fn succeed(&mut self, client: &mut Client, now: Moment) -> Next {
        self.cut_intervals(now);
        let latency = now.nanos_since(client.transaction.from);
        let script = &mut self.counts.scripts[client.transaction.script];
        script.transactions += 1;
        script.retried += u64::from(client.transaction.tries > 1);
        let place = client.transaction.script as u16;
        self.counts.record(Histogram::Script(place), latency);
        if let Some(limit) = self.job.plan.latency_limit {
            self.counts.late += u64::from(u128::from(latency) > limit.as_nanos());
        }
        self.follow(client, now)
    }

    /// Gives a failed transaction another try, or counts it as failed.
    pub(crate) fn fail(&mut self, client: &mut Client, failure: &Failure, now: Moment) -> Next {
        self.cut_intervals(now);
        client.reset_transaction();
        self.errors.keep(&failure.kind, || failure.message.clone());
        let may_retry = failure.is_retryable() && self.may_retry(client, now);
        let script = &mut self.counts.scripts[client.transaction.script];
        if may_retry {
            add(&mut script.retries, &failure.kind, 1);
            // As pgbench: the same random numbers again, the variables as they are.
            client.rng.clone_from(&client.transaction.rng);
            client.transaction.tries += 1;
            client.transaction.pc = 0;
            return Next::Go;
        }
        add(&mut script.failures, &failure.kind, 1);
        script.retried += u64::from(client.transaction.tries > 1);
        if failure.kind == SCRIPT && !self.stopping {
            self.pause(client, now + SCRIPT_BACK_OFF);
            return Next::Rest;
        }
        self.follow(client, now)
    }

    fn may_retry(&self, client: &Client, now: Moment) -> bool {
        let plan = &self.job.plan;
        let in_time =
            plan.latency_limit.is_none_or(|limit| now.since(client.transaction.from) <= limit);
        let tries_left = plan.max_tries == 0 || client.transaction.tries < plan.max_tries;
        tries_left && in_time && !self.stopping
    }

    /// What a client does after a transaction, or when it becomes available.
    pub(crate) fn follow(&mut self, client: &mut Client, now: Moment) -> Next {
        if self.stopping {
            self.finish(client);
            return Next::Rest;
        }
        match self.job.plan.arrival {
            Arrival::Closed { think: None } if client.transaction.waited => {
                self.begin(client, now);
                Next::Go
            }
            // A script that never talks to the server must not keep the
            // thread from its other clients.
            Arrival::Closed { think: None } => {
                self.pause(client, now);
                Next::Rest
            }
            Arrival::Closed { think: Some(time) } => {
                let pause = think(time, &mut self.pauses);
                self.pause(client, now + pause);
                Next::Rest
            }
            Arrival::Open { .. } => match self.take_due(now) {
                Some(due) => {
                    self.begin_due(client, due, now);
                    Next::Go
                }
                None => {
                    client.state = State::Idle;
                    self.idle.push_back(client.index);
                    Next::Rest
                }
            },
        }
    }

    /// Begins a transaction of the open loop that was due at `due`.
    pub(crate) fn begin_due(&mut self, client: &mut Client, due: Moment, now: Moment) {
        self.cut_intervals(now);
        self.counts.record(Histogram::Lag, now.nanos_since(due));
        self.begin(client, due);
    }

    /// The next transaction that is due by now, if there is one; skips those
    /// that are later than the latency limit already.
    pub(crate) fn take_due(&mut self, now: Moment) -> Option<Moment> {
        let limit = self.job.plan.latency_limit;
        let arrivals = self.arrivals.as_mut()?;
        loop {
            let due = arrivals.schedule.next();
            if due > now {
                return None;
            }
            arrivals.schedule.advance();
            if limit.is_none_or(|limit| now.since(due) <= limit) {
                return Some(due);
            }
            self.counts.skipped += 1;
        }
    }

    /// Lets a client begin its next transaction at `at`.
    pub(crate) fn pause(&mut self, client: &mut Client, at: Moment) {
        client.state = State::Paused;
        self.set_timer(client, at);
    }

    /// Wakes the client at `at`, and no longer when it was to be woken before.
    pub(crate) fn set_timer(&mut self, client: &mut Client, at: Moment) {
        client.timer = client.timer.wrapping_add(1);
        self.timers.push(Reverse((at, client.index, client.timer)));
    }

    /// The next client whose timer is over, with the timer's number.
    pub(crate) fn take_timer(&mut self, now: Moment) -> Option<(u32, u32)> {
        let Reverse((at, index, timer)) = *self.timers.peek()?;
        (at <= now).then(|| {
            self.timers.pop();
            (index, timer)
        })
    }

    /// Timers that are set, those without effect included.
    pub(crate) fn timers_set(&self) -> usize {
        self.timers.len()
    }

    /// When the next timer is over.
    pub(crate) fn next_timer(&self) -> Option<Moment> {
        self.timers.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Plans the next attempt of a client without a connection.
    pub(crate) fn plan_reconnect(&mut self, client: &mut Client, now: Moment) {
        let doubled = FIRST_RECONNECT.saturating_mul(1 << client.attempts.min(10));
        client.state = State::Offline;
        client.attempts += 1;
        self.set_timer(client, now + doubled.min(LAST_RECONNECT));
    }

    /// Closes the intervals that ended by now.
    #[inline]
    pub(crate) fn cut_intervals(&mut self, now: Moment) {
        while now >= self.interval_end {
            self.cut(self.interval_end);
        }
    }

    /// Closes the current interval at `end`.
    pub(crate) fn cut(&mut self, end: Moment) {
        let job = Rc::clone(&self.job);
        let plan = &job.plan;
        let next = self
            .shared
            .spares
            .take()
            .unwrap_or_else(|| Counts::new(&plan.program, plan.statement_histograms));
        self.counts.count_log();
        let counts = std::mem::replace(&mut self.counts, next);
        let cpu = thread_cpu();
        self.courtesy.look();
        if let Some(arrivals) = &mut self.arrivals {
            self.due += arrivals.counter.count_until(end);
        }
        let part = Box::new(Part {
            index: self.interval,
            end,
            counts,
            clients: self.running,
            due: std::mem::take(&mut self.due),
            cpu: cpu.saturating_sub(self.cpu_before),
        });
        self.cpu_before = cpu;
        self.interval += 1;
        self.interval_end = self.interval_end + plan.interval;
        // Whoever merges is gone only when the load is being torn down.
        let _ = self.reports.send(Report::Part { worker: self.worker, part });
    }

    /// No further transaction is due after `now`; those that were due and
    /// nobody began are counted.
    pub(crate) fn end_arrivals(&mut self, now: Moment) {
        self.cut_intervals(now);
        if let Some(mut arrivals) = self.arrivals.take() {
            self.totals.never_begun += arrivals.schedule.count_until(now);
            self.due += arrivals.counter.count_until(now);
        }
    }

    /// The load is over for a client.
    pub(crate) fn finish(&mut self, client: &mut Client) {
        if client.link.is_some() {
            self.shared.connected.fetch_sub(1, Ordering::Relaxed);
            self.running -= u32::from(client.started);
        }
        client.goodbye();
        client.state = State::Finished;
    }
}

/// Bytes read at once; a response of ordinary size fits.
const INPUT: usize = 64 * 1024;
