//! A thread that drives its share of the clients: waits for sockets, timers and
//! news, and lets the engine take the steps.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use walwright_workload::script::{ClientStart, RunSeeds};

use crate::client::{Client, State, Transaction};
use crate::clock::Moment;
use crate::connect::Wanted;
use crate::courtesy::Courtesy;
use crate::engine::{Engine, Next, Post};
use crate::plan::Arrival;
use crate::schedule::{Schedule, Share};
use crate::shared::{Ending, Inbox, News, Order, Report};
use crate::system::{Alarm, Poller, Ready, precise_timers, thread_cpu_split};

/// Numbers under which inbox and alarm are registered; clients have their index.
const INBOX: u64 = u64::MAX;
const ALARM: u64 = u64::MAX - 1;

/// A thread's clients and what drives them.
pub(crate) struct Worker {
    engine: Engine,
    clients: Vec<Client>,
    /// Number of each client over all workers, from 0.
    numbers: Vec<u32>,
    inbox: Arc<Inbox>,
    wanted: Sender<Wanted>,
    /// Ends the wait at the end of an interval, and when it is set to do so.
    alarm: Alarm,
    alarm_at: Moment,
    begun: bool,
    /// The interval in which it looked last for answers that are late.
    looked: u64,
    /// When it was told to stop.
    stopped: Option<Moment>,
    cpu_before: (Duration, Duration),
}

impl Worker {
    /// Runs a worker to its end, in the calling thread. Worker `n` of `workers`
    /// drives every client whose number leaves the remainder `n`.
    pub(crate) fn run(post: Post, workers: usize, inbox: Arc<Inbox>, wanted: Sender<Wanted>) {
        let (worker, reports) = (post.worker, post.reports.clone());
        let ending = match Worker::new(post, workers, inbox, wanted) {
            Ok(mut this) => {
                let failure = this.work().err();
                Ending { failure, ..this.end() }
            }
            Err(error) => Ending { failure: Some(error), ..Ending::default() },
        };
        // Whoever listens is gone only when the load is being torn down.
        let _ = reports.send(Report::Done { worker, ending: Box::new(ending) });
    }

    fn new(
        post: Post,
        workers: usize,
        inbox: Arc<Inbox>,
        wanted: Sender<Wanted>,
    ) -> io::Result<Self> {
        let job = Arc::clone(&post.job);
        let plan = &job.plan;
        // Every worker derives the same generators and takes its own.
        let mut seeds = RunSeeds::new(plan.seed, plan.clients as usize);
        let mut others = Vec::new();
        for _ in 0..=post.worker {
            others = vec![seeds.another(), seeds.another(), seeds.another()];
        }
        let mut rng = || others.pop().unwrap_or_else(|| seeds.another());
        let rngs = [rng(), rng()];
        let arrivals = match plan.arrival {
            Arrival::Open { rate, gaps } => {
                let share = Share {
                    thread: post.worker as u32,
                    threads: workers as u32,
                    clients: plan.clients,
                };
                Some(Schedule::new(rate, gaps, share, rng()).in_stages(&plan.stages, rate))
            }
            Arrival::Closed { .. } => None,
        };
        let numbers: Vec<u32> =
            (post.worker as u32..plan.clients).step_by(workers.max(1)).collect();
        let mut clients = Vec::with_capacity(numbers.len());
        for (index, number) in numbers.iter().enumerate() {
            let variables = plan.program.variables(&ClientStart {
                client_id: *number,
                scale: plan.scale,
                random_seed: seeds.random_seed(),
                default_seed: seeds.default_seed(),
            });
            let rng = match seeds.client(*number as usize) {
                Some(rng) => rng.clone(),
                None => seeds.another(),
            };
            clients.push(Client::new(index as u32, *number, variables, rng, job.statements));
        }
        let poller = Poller::new()?;
        poller.add(inbox.waker.as_raw_fd(), INBOX, false)?;
        let alarm = Alarm::new()?;
        poller.add(alarm.as_raw_fd(), ALARM, false)?;
        precise_timers();
        let courtesy = Courtesy::new(plan.arrival, clients.len());
        let engine = Engine::new(post, poller, rngs, arrivals, courtesy);
        Ok(Worker {
            alarm,
            alarm_at: Moment::default(),
            engine,
            clients,
            numbers,
            inbox,
            wanted,
            begun: false,
            looked: 0,
            stopped: None,
            cpu_before: thread_cpu_split(),
        })
    }

    /// The loop, until there is nothing left to do.
    fn work(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        loop {
            let now = self.engine.clock.now();
            match self.engine.shared.order() {
                Order::Run if self.begun && self.engine.finished == self.clients.len() => {
                    return Ok(());
                }
                Order::Run => {}
                Order::Stop if self.begun => {
                    if self.drained(now) {
                        return Ok(());
                    }
                }
                Order::Stop | Order::Abort => return Ok(()),
            }
            if self.begun {
                self.engine.cut_intervals(now);
                self.give_up_late(now);
                self.run_timers(now);
                self.hand_out_due();
                self.post();
                self.hand_over();
                self.open_connections();
            }
            let limit = self.time_to_wait(now)?;
            self.engine.poller.wait(limit, &mut ready)?;
            for Ready { token, closed } in ready.iter().copied() {
                if token == INBOX {
                    self.read_news()?;
                } else if let Some(client) = self.clients.get_mut(token as usize) {
                    self.engine.on_ready(client, closed);
                }
            }
            self.post();
            self.hand_over();
            self.open_connections();
        }
    }

    /// Gives up what an application has not answered in time, looking once an interval.
    fn give_up_late(&mut self, now: Moment) {
        let Some(asking) = &self.engine.job.asking else { return };
        if std::mem::replace(&mut self.looked, self.engine.interval) == self.engine.interval {
            return;
        }
        let timeout = asking.timeout;
        for client in &mut self.clients {
            let waits = matches!(client.state, State::Waiting(_));
            if waits && now.since(client.burst.sent) > timeout {
                self.engine.give_up_late(client, now);
            }
        }
    }

    /// Gives rows to the coalescer that clients have put together in this round.
    fn hand_over(&mut self) {
        let Some(coalescers) = &self.engine.job.coalescers else { return };
        for row in self.engine.handed_over.drain(..) {
            coalescers.write(row, &self.inbox);
        }
    }

    /// Asks for the connections that transactions need to begin.
    fn open_connections(&mut self) {
        for client in self.engine.opening.drain(..) {
            let number = self.numbers[client as usize] + 1;
            let inbox = Arc::clone(&self.inbox);
            // The pool outlives the workers.
            let _ = self.wanted.send(Wanted { inbox, client, number });
        }
    }

    /// How long nothing has to be done unless a socket, news or the alarm call
    /// for it.
    fn time_to_wait(&mut self, now: Moment) -> io::Result<Option<Duration>> {
        if !self.begun {
            return Ok(None);
        }
        let engine = &self.engine;
        let interval_end = engine.interval_end;
        let due = match &engine.arrivals {
            Some(arrivals) if !engine.idle.is_empty() => Some(arrivals.schedule.next()),
            _ => None,
        };
        let drained = self.stopped.map(|stopped| stopped + engine.job.plan.drain);
        match [engine.next_timer(), due, drained].into_iter().flatten().min() {
            // Timers and due times are kept to the microsecond, so the time
            // that passed since `now` counts.
            Some(until) if until < interval_end => Ok(Some(until.since(engine.clock.now()))),
            _ => {
                if self.alarm_at != interval_end {
                    self.alarm.set(interval_end.since(now))?;
                    self.alarm_at = interval_end;
                }
                Ok(None)
            }
        }
    }

    /// Sends what the clients have put together in this round.
    ///
    /// All that has arrived is taken in before anything is sent: sending wakes a
    /// server process, which may take this processor at once, and answers that
    /// had already arrived would be stamped late.
    fn post(&mut self) {
        let mut send_queue = std::mem::take(&mut self.engine.send_queue);
        send_queue.empty(|client, bytes| {
            let Some(client) = self.clients.get_mut(client as usize) else { return };
            if let Err(error) = self.engine.post(client, bytes) {
                let now = self.engine.clock.now();
                self.engine.lose(client, &error, now);
            }
        });
        self.engine.send_queue = send_queue;
    }

    /// Runs what is due by `now`, each timer that is set at this moment at most
    /// once: scripts that never wait for the server set new ones for now, and must
    /// not keep the thread from all else.
    fn run_timers(&mut self, now: Moment) {
        for _ in 0..self.engine.timers_set() {
            let Some((index, timer)) = self.engine.take_timer(now) else { return };
            let Some(client) = self.clients.get_mut(index as usize) else { continue };
            if client.timer != timer {
                continue;
            }
            match client.state {
                State::Paused => self.become_available(index, now),
                State::Sleeping => {
                    let client = &mut self.clients[index as usize];
                    self.engine.drive(client, now);
                }
                State::Offline => {
                    let number = self.numbers[index as usize] + 1;
                    let inbox = Arc::clone(&self.inbox);
                    // The pool outlives the workers.
                    let _ = self.wanted.send(Wanted { inbox, client: index, number });
                }
                State::Connected
                | State::Opening(_)
                | State::Idle
                | State::Waiting(_)
                | State::Finished => {}
            }
        }
    }

    /// A client may begin a transaction: after a pause, or newly connected.
    fn become_available(&mut self, index: u32, now: Moment) {
        let client = &mut self.clients[index as usize];
        if let Some(next) = self.engine.left_out_until(client, now)
            && !self.engine.stopping
        {
            return self.engine.pause(client, next);
        }
        if !client.started {
            client.started = true;
            self.engine.running += 1;
        }
        let next = match self.engine.job.plan.arrival {
            Arrival::Closed { .. }
                if !self.engine.stopping && !self.engine.has_done_all(client) =>
            {
                self.engine.begin(client, now);
                Next::Go
            }
            _ => self.engine.follow(client, now),
        };
        if next == Next::Go {
            self.engine.drive(client, now);
        }
    }

    /// Open loop: gives transactions that are due to clients that are idle.
    fn hand_out_due(&mut self) {
        while let Some(index) = self.engine.idle.front().copied() {
            let client = &mut self.clients[index as usize];
            if client.state != State::Idle {
                self.engine.idle.pop_front();
                continue;
            }
            // Each begins at its own time: driving one takes a while.
            let now = self.engine.clock.now();
            let Some(due) = self.engine.take_due(now) else { return };
            self.engine.idle.pop_front();
            self.engine.begin_due(client, due, now);
            self.engine.drive(client, now);
        }
    }

    fn read_news(&mut self) -> io::Result<()> {
        for news in self.inbox.take() {
            match news {
                News::Connected { client, link } => {
                    self.engine.poller.add(link.stream.as_raw_fd(), u64::from(client), false)?;
                    let index = client;
                    let client = &mut self.clients[index as usize];
                    client.link = Some(link);
                    client.attempts = 0;
                    if let State::Opening(asked) = client.state {
                        let now = self.engine.clock.now();
                        self.engine.opened(client, asked, now);
                        continue;
                    }
                    client.state = State::Connected;
                    if self.begun {
                        if client.started {
                            self.engine.running += 1;
                        }
                        let now = self.engine.clock.now();
                        self.become_available(index, now);
                    }
                }
                News::Refused { client, failure } => {
                    self.engine.totals.connect_failures += 1;
                    self.engine.errors.keep(&failure.kind, || failure.message.clone());
                    let client = client as usize;
                    if let State::Opening(_) = self.clients[client].state {
                        let now = self.engine.clock.now();
                        self.engine.not_opened(&mut self.clients[client], &failure, now);
                        continue;
                    }
                    if self.begun && !self.engine.stopping {
                        let now = self.engine.clock.now();
                        self.engine.plan_reconnect(&mut self.clients[client], now);
                    }
                }
                News::Written { client, number, failure } => {
                    if let Some(client) = self.clients.get_mut(client as usize) {
                        self.engine.written(client, number, failure);
                    }
                }
                News::Begin(clock) => {
                    self.begun = true;
                    self.alarm_at = Moment::default();
                    self.cpu_before = thread_cpu_split();
                    self.engine.start(clock);
                    let plan = &self.engine.job.plan;
                    let (ramp, clients) = (plan.ramp, plan.clients.max(1));
                    for (client, number) in self.clients.iter_mut().zip(&self.numbers) {
                        let at = Moment::default() + ramp * *number / clients;
                        // One may have lost its connection while others got theirs.
                        match client.link {
                            Some(_) => self.engine.pause(client, at),
                            None => self.engine.plan_reconnect(client, at),
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Lets no more transactions begin; whether all are at their end.
    fn drained(&mut self, now: Moment) -> bool {
        let stopped = match self.stopped {
            Some(stopped) => stopped,
            None => {
                self.stop(now);
                self.let_go(now);
                now
            }
        };
        now >= stopped + self.engine.job.plan.drain
            || self.clients.iter().all(|client| client.state == State::Finished)
    }

    /// Begins to stop: the window is over.
    fn stop(&mut self, now: Moment) {
        self.stopped = Some(now);
        let end = self.engine.shared.window_end().map(|end| self.engine.clock.moment(end));
        self.engine.stop(end.unwrap_or(now), now);
    }

    /// Clients that have nothing to do leave.
    fn let_go(&mut self, now: Moment) {
        for client in &mut self.clients {
            match client.state {
                // Something may have come due in the moment of the stop.
                State::Idle => {
                    if self.engine.follow(client, now) == Next::Go {
                        self.engine.drive(client, now);
                    }
                }
                _ if client.is_busy() => {}
                _ => self.engine.finish(client),
            }
        }
    }

    /// Closes what is open and sums up.
    fn end(mut self) -> Ending {
        let now = self.engine.clock.now();
        let mut running = Vec::new();
        let mut tail = None;
        if self.begun {
            if self.stopped.is_none() {
                self.stop(now);
            }
            tail = self.engine.take_tail(now);
            for client in &mut self.clients {
                if client.is_busy() {
                    self.engine.totals.unfinished += 1;
                    if let Some(tail) = &mut tail {
                        let Transaction { script, from, .. } = client.transaction;
                        tail.cut_off(script, from, now);
                    }
                }
                if let (State::Waiting(_), Some(link)) = (client.state, &mut client.link) {
                    running.extend(link.key.take());
                }
            }
            self.engine.cut(now);
        }
        let (user, system) = thread_cpu_split();
        Ending {
            stopped: self.stopped.unwrap_or(now),
            totals: self.engine.totals,
            errors: self.engine.errors,
            connection_time: self.engine.connection_time,
            cpu: (user.saturating_sub(self.cpu_before.0), system.saturating_sub(self.cpu_before.1)),
            running,
            tail,
            failure: None,
        }
    }
}
