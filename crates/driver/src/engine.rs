//! What the clients of one thread share, and the small steps on it: timers,
//! transactions that begin and end, counting.
//!
//! The larger steps have files of their own: `execute` runs a script until it
//! has to wait, `receive` takes in what the server answers, `worker` is the
//! loop around both.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use walwright_record::{LatencyHistogram, LoadLevel, OnError};
use walwright_workload::script::{Program, Rng};

use crate::capture::ColumnCache;
use crate::client::{Client, Failure, State, Transaction};
use crate::clock::{Clock, Moment};
use crate::coalesce::{Coalescers, HandedOver};
use crate::compile::WireScripts;
use crate::connection_totals::ConnectionTotals;
use crate::courtesy::Courtesy;
use crate::outcome::ErrorSamples;
use crate::plan::{Arrival, LoadPlan};
use crate::request::Asking;
use crate::rows::Rows;
use crate::schedule::{Schedule, think};
use crate::send_queue::SendQueue;
use crate::shared::{Report, Shared};
use crate::system::{Poller, thread_cpu, thread_waits};
use crate::tail::{Straddler, Tail};
use crate::tally::{Counts, Histogram, Part, SCRIPT, add};

/// What is to be done, the same for all threads.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) plan: LoadPlan,
    pub(crate) wire: WireScripts,
    /// What requests have in common, where an application is asked by HTTP.
    pub(crate) asking: Option<Asking>,
    /// Statements of all scripts together.
    pub(crate) statements: usize,
    /// What rows are given to, where a script wants that.
    pub(crate) coalescers: Option<Arc<Coalescers>>,
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

/// What the clients of one thread share.
pub(crate) struct Engine {
    /// A copy of the thread's own, so that steps can hold on to it cheaply.
    pub(crate) job: Rc<Job>,
    pub(crate) clock: Clock,
    pub(crate) poller: Poller,
    pub(crate) send_queue: SendQueue,
    /// Bytes being read.
    pub(crate) input: Vec<u8>,
    pub(crate) columns: ColumnCache,
    /// Rows that clients have given to a coalescer in this round.
    pub(crate) handed_over: Vec<HandedOver>,
    /// Body of the request that is being put together.
    pub(crate) body: Vec<u8>,
    /// Rows of the batch that is being put together.
    pub(crate) rows: Rows,
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
    /// Clients whose load is over.
    pub(crate) finished: usize,
    /// Clients that want a connection for the transaction that is to begin.
    pub(crate) opening: Vec<u32>,
    /// How long opening those took.
    pub(crate) connection_time: LatencyHistogram,
    pub(crate) counts: Counts,
    /// Number of the current interval, and when it ends.
    pub(crate) interval: u64,
    pub(crate) interval_end: Moment,
    /// What began before this was under way at the end of an interval, or, once the load
    /// is stopped, of the window.
    boundary: Moment,
    /// Transactions that ended in this interval and in the one before, and were under way
    /// at an interval's end.
    straddlers: [Vec<Straddler>; 2],
    /// What was under way at the end of the window, once that is over.
    pub(crate) tail: Option<Tail>,
    /// Transactions that were due in the current interval before arrivals ended.
    due: u64,
    cpu_before: Duration,
    run_delay_before: Option<Duration>,
    courtesy: Courtesy,
    pub(crate) errors: ErrorSamples,
    pub(crate) totals: ConnectionTotals,
    pub(crate) shared: Arc<Shared>,
    /// Number of this thread among the workers.
    worker: usize,
    reports: Sender<Report>,
}

/// The due times of an open loop.
pub(crate) struct Arrivals {
    pub(crate) schedule: Schedule,
    counter: Schedule,
    /// When the load was stopped: what was due later is none of it.
    stopped: Option<Moment>,
}

impl Arrivals {
    pub(crate) fn new(schedule: Schedule) -> Self {
        Arrivals { counter: schedule.clone(), schedule, stopped: None }
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
            send_queue: SendQueue::default(),
            input: vec![0; INPUT],
            columns: ColumnCache::default(),
            handed_over: Vec::new(),
            body: Vec::new(),
            rows: Rows::default(),
            timers: BinaryHeap::new(),
            idle: VecDeque::new(),
            arrivals: arrivals.map(Arrivals::new),
            chooser,
            pauses,
            stopping: false,
            running: 0,
            finished: 0,
            opening: Vec::new(),
            connection_time: LatencyHistogram::new(),
            counts,
            interval: 0,
            interval_end,
            boundary: Moment::default(),
            straddlers: Default::default(),
            tail: None,
            due: 0,
            cpu_before: Duration::ZERO,
            run_delay_before: None,
            courtesy,
            errors: ErrorSamples::default(),
            totals: ConnectionTotals::default(),
            shared,
            worker,
            reports,
        }
    }

    /// The load begins: `clock` has its moment zero now.
    pub(crate) fn start(&mut self, clock: Clock) {
        self.clock = clock;
        self.cpu_before = self.cpu();
        self.run_delay_before = thread_waits().map(|(waited, _)| waited);
    }

    /// CPU time of this thread so far. One of the workers counts what coalescers take, too.
    fn cpu(&self) -> Duration {
        let coalescers = self.job.coalescers.as_ref().filter(|_| self.worker == 0);
        thread_cpu() + coalescers.map_or(Duration::ZERO, |coalescers| coalescers.cpu())
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
        client.begun += 1;
    }

    /// Whether a client has begun as many transactions as it is to do.
    pub(crate) fn has_done_all(&self, client: &Client) -> bool {
        self.job.plan.rules.transactions.is_some_and(|all| client.begun >= all)
    }

    /// When a client is next to run transactions, if it is none of those of this moment's stage.
    pub(crate) fn left_out_until(&self, client: &Client, now: Moment) -> Option<Moment> {
        let mut end = Moment::default();
        for stage in &self.job.plan.stages {
            let LoadLevel::Clients(clients) = stage.level else { return None };
            let start = end;
            end = end + stage.length;
            if client.number < clients && end > now {
                return (start > now).then_some(start);
            }
        }
        let last = self.job.plan.stages.last()?;
        match last.level {
            LoadLevel::Clients(clients) if client.number >= clients || end > now => {
                Some((now + LAST_RECONNECT).max(end))
            }
            // The last stage goes on.
            _ => None,
        }
    }

    /// Whether this failure ends its client; it may end the whole load.
    pub(crate) fn is_last(&mut self, failure: &Failure) -> bool {
        let on_error = self.job.plan.rules.on_error;
        if on_error == OnError::Continue || failure.is_retryable() || self.stopping {
            return false;
        }
        self.totals.clients_stopped += 1;
        if on_error == OnError::Stop {
            // Whoever listens is gone only when the load is being torn down.
            let _ = self.reports.send(Report::Error { kind: failure.kind.clone() });
        }
        true
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
        self.straddled(client, None, now);
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
        self.straddled(client, Some(&failure.kind), now);
        if self.is_last(failure) {
            self.finish(client);
            return Next::Rest;
        }
        if failure.kind == SCRIPT {
            match self.stopping || self.has_done_all(client) {
                true => self.finish(client),
                false => self.pause(client, now + SCRIPT_BACK_OFF),
            }
            return Next::Rest;
        }
        self.follow(client, now)
    }

    /// Remembers a transaction that ended if it was under way at the end of an interval or
    /// of the window.
    #[inline]
    pub(crate) fn straddled(&mut self, client: &Client, failure: Option<&str>, now: Moment) {
        if client.transaction.from < self.boundary {
            let Transaction { script, from, .. } = client.transaction;
            let of = Straddler { script, from, ended: now, failure: failure.map(str::to_owned) };
            match &mut self.tail {
                Some(tail) => tail.ended(&of),
                None => self.straddlers[0].push(of),
            }
        }
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
        if self.has_done_all(client) {
            self.finish(client);
            return Next::Rest;
        }
        if client.begun > 0 && self.job.plan.rules.reconnect {
            self.hang_up(client);
        }
        if self.stopping {
            return match self.take_due(now) {
                Some(due) => {
                    self.begin_due(client, due, now);
                    Next::Go
                }
                None => {
                    self.finish(client);
                    Next::Rest
                }
            };
        }
        if let Some(next) = self.left_out_until(client, now) {
            self.running -= u32::from(std::mem::take(&mut client.started));
            self.pause(client, next);
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
        if let Some(tail) = &mut self.tail {
            tail.begun_late(due, now);
        }
        self.begin(client, due);
    }

    /// The next transaction that is due by now, if there is one; skips those
    /// that are later than the latency limit already. Once the load is stopped, only
    /// what was due in the window is begun.
    pub(crate) fn take_due(&mut self, now: Moment) -> Option<Moment> {
        let limit = self.job.plan.latency_limit;
        let arrivals = self.arrivals.as_mut()?;
        loop {
            let due = arrivals.schedule.next();
            if due > now || self.tail.as_ref().is_some_and(|tail| due >= tail.end) {
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
        let cpu = self.cpu();
        let waits = thread_waits();
        self.courtesy.look(waits);
        let run_delay = waits.map(|(waited, _)| waited);
        if let Some(arrivals) = &mut self.arrivals
            && arrivals.stopped.is_none()
        {
            self.due += arrivals.counter.count_until(end);
        }
        if self.tail.is_none() {
            self.boundary = end;
            self.straddlers.swap(0, 1);
            self.straddlers[0].clear();
        }
        let part = Box::new(Part {
            index: self.interval,
            end,
            counts,
            clients: self.running,
            due: std::mem::take(&mut self.due),
            cpu: cpu.saturating_sub(self.cpu_before),
            run_delay: run_delay
                .zip(self.run_delay_before)
                .map(|(now, before)| now.saturating_sub(before)),
        });
        (self.cpu_before, self.run_delay_before) = (cpu, run_delay);
        self.interval += 1;
        self.interval_end = self.interval_end + plan.interval;
        // Whoever merges is gone only when the load is being torn down.
        let _ = self.reports.send(Report::Part { worker: self.worker, part });
    }

    /// The load is stopped: no transaction begins any more but those that were due before
    /// `end`, when the window ended.
    pub(crate) fn stop(&mut self, end: Moment, now: Moment) {
        self.cut_intervals(now);
        self.stopping = true;
        if let Some(arrivals) = &mut self.arrivals {
            self.due += arrivals.counter.count_until(now);
            arrivals.stopped = Some(now);
        }
        let mut tail = Tail::new(end, self.job.program().scripts.len());
        self.straddlers.iter().flatten().for_each(|of| tail.ended(of));
        self.straddlers = Default::default();
        self.boundary = end;
        self.tail = Some(tail);
    }

    /// What was under way when the window ended, with what was due and is given up now.
    pub(crate) fn take_tail(&mut self, now: Moment) -> Option<Tail> {
        let mut tail = self.tail.take()?;
        if let Some(Arrivals { mut schedule, stopped: Some(stopped), .. }) = self.arrivals.take() {
            while schedule.next() < stopped {
                tail.never_begun(schedule.next(), now);
                schedule.advance();
                self.totals.never_begun += 1;
            }
        }
        Some(tail)
    }

    /// The connection of the transaction that is to begin is open; it was asked for at `asked`.
    pub(crate) fn opened(&mut self, client: &mut Client, asked: Moment, now: Moment) {
        self.connection_time.record_nanos(now.nanos_since(asked));
        // One that the server ended is no part of what the client chose.
        let chosen = self.job.plan.rules.reconnect && client.transaction.pc == 0;
        if chosen && matches!(self.job.plan.arrival, Arrival::Closed { .. }) {
            client.transaction.from = now;
        }
        self.drive(client, now);
    }

    /// The connection of the transaction that is to begin could not be opened, so it fails.
    pub(crate) fn not_opened(&mut self, client: &mut Client, failure: &Failure, now: Moment) {
        self.cut_intervals(now);
        let script = &mut self.counts.scripts[client.transaction.script];
        add(&mut script.failures, &failure.kind, 1);
        self.straddled(client, Some(&failure.kind), now);
        if self.stopping || self.has_done_all(client) || self.is_last(failure) {
            return self.finish(client);
        }
        self.running -= 1;
        self.plan_reconnect(client, now);
    }

    /// Ends a client's connection.
    fn hang_up(&mut self, client: &mut Client) {
        if client.link.is_some() {
            self.shared.connected.fetch_sub(1, Ordering::Relaxed);
            client.goodbye();
            client.unlink();
        }
    }

    /// The load is over for a client.
    pub(crate) fn finish(&mut self, client: &mut Client) {
        if client.state == State::Finished {
            return;
        }
        // One whose connections are its transactions', or end when an application says so, runs
        // without one between them.
        let opens = self.job.plan.rules.reconnect || self.job.asking.is_some();
        if client.link.is_some() || (opens && client.state != State::Offline) {
            self.running -= u32::from(client.started);
        }
        self.hang_up(client);
        client.state = State::Finished;
        self.finished += 1;
    }
}

/// Bytes read at once; a response of ordinary size fits.
const INPUT: usize = 64 * 1024;

impl Engine {
    /// Sends a client's messages; what the socket does not take now goes when
    /// it becomes writable.
    pub(crate) fn post(&mut self, client: &mut Client, bytes: &[u8]) -> io::Result<()> {
        // A connection lost in this round needs its messages no more.
        let Some(link) = &mut client.link else { return Ok(()) };
        let mut sent = 0;
        while link.unsent.is_empty() && sent < bytes.len() {
            match link.stream.write(&bytes[sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let rest = &bytes[sent..];
        if !rest.is_empty() || link.stream.has_unsent() {
            link.unsent.extend_from_slice(rest);
            self.poller.change(link.stream.as_raw_fd(), u64::from(client.index), true)?;
        }
        Ok(())
    }

    /// Goes on sending what the socket did not take before.
    pub(crate) fn post_rest(&mut self, client: &mut Client) -> io::Result<()> {
        let Some(link) = &mut client.link else { return Ok(()) };
        let mut sent = 0;
        while sent < link.unsent.len() {
            match link.stream.write(&link.unsent[sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        link.unsent.drain(..sent);
        match link.stream.flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            done => done?,
        }
        if link.unsent.is_empty() {
            link.unsent = Vec::new();
            self.poller.change(link.stream.as_raw_fd(), u64::from(client.index), false)?;
        }
        Ok(())
    }
}
