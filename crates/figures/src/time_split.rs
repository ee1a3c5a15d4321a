//! Where the client's time goes: the latency breakdown of one transaction's latency.
//!
//! A tick of wait events counts the sessions that are in each class at one
//! moment. By Little's law the time a transaction spends in a class is the mean
//! number of sessions in it over the throughput. Where the server runs on this machine the
//! kernel counts how many run and how many wait for a processor, and the samples divide
//! what it leaves. What the latency that clients saw holds beyond the sum of all classes is
//! the residual: network, the client's own work outside transactions, and whatever the
//! sampling cannot see.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use walwright_record::{LoadFacts, Record, Sample, Source, Window};
use walwright_stats::{Estimate, Resampling, tick_means};

use crate::processor_account::{ProcessorAccount, SleepScale};
use crate::sight::HiddenSessions;
use crate::window::{driven_between, failures};
use crate::{
    Blind, ClientSessions, CpuUse, Difference, GroupCpu, ProcessRole, StatementUses, WaitClass,
    WorkUnit, difference, latency, work_between,
};

/// Fewest ticks that a split is made from: at one half they give ± 13 points.
const FEWEST_TICKS: usize = 15;
/// Share of the latency by which the parts may exceed it before the latency breakdown is
/// said not to close; sampling itself errs by a few points.
const OVERDRAWN: f64 = 0.1;
/// Events listed for a class.
pub(crate) const EVENTS: usize = 5;

/// The latency breakdown of one transaction's latency, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimeSplit {
    /// What the seconds are per.
    pub unit: WorkUnit,
    /// Mean latency the clients saw; `None` for a load that was not ours.
    #[serde(with = "crate::seconds::option")]
    pub latency: Option<Duration>,
    /// Open loop: the part of the latency before the transaction began (mean lag).
    #[serde(with = "crate::seconds::option")]
    pub queue: Option<Duration>,
    /// Time in each class, in the order of [`WaitClass::ALL`]; classes never seen are left out.
    pub parts: Vec<TimePart>,
    /// Sum of the parts: time inside a transaction on the server.
    pub on_server: Estimate,
    /// The part of the load generator, or of the clients on this machine, of the time in which
    /// the server had nothing to do; `None` where it is not counted.
    pub driver: Option<DriverTime>,
    /// The same of a pooler between clients and server on this machine.
    pub pooler: Option<DriverTime>,
    /// What walwright's gateway kept back, where its metrics are in the record.
    pub gateway: Option<GatewayTime>,
    /// What an application that was asked by HTTP took, as far as it is known.
    pub application: Option<ApplicationTime>,
    /// Whether an application was asked, whose sessions these are.
    pub asks_http: bool,
    /// Whether the residual holds what walwright's gateway withheld answers until the flush that
    /// covers them had returned: one stood in between, and how long is not known.
    pub is_withheld: bool,
    /// Mean number of sessions between two transactions, as sampled.
    pub idle_sessions: f64,
    /// Why CPU and the wait for a processor are sampled, not the kernel's count; `None`
    /// where they are its count.
    pub sampled_because: Option<String>,
    /// What samples of sessions in a wait are multiplied by to fit what the kernel leaves
    /// for sleep, and the latency where they exceed it.
    pub sleep_scale: SleepScale,
    /// Seconds of a transaction in which sessions were sampled active without a wait.
    pub sampled_cpu: f64,
    /// Latency − queue − sum of the parts and of the load generator's; `None` where the
    /// latency is unknown.
    pub residual: Option<Estimate>,
    /// Share of the latency that is residual.
    pub residual_share: Option<f64>,
    /// What was counted and sampled beyond the latency, in seconds: taken off the lines in
    /// proportion, so that they make it up. None of it where there is a residual.
    pub overdrawn: f64,
    /// Ticks the split is made from.
    pub ticks: usize,
    /// Flush time a transaction by the server's own counters, where it times them:
    /// a check on the sampled one. Up to 17 it includes the WAL writer's.
    #[serde(with = "crate::seconds::option")]
    pub counted_flush: Option<Duration>,
    /// CPU of client backends a transaction by the kernel's counters, where the
    /// server's processes can be seen.
    #[serde(with = "crate::seconds::option")]
    pub counted_cpu: Option<Duration>,
    /// Time a transaction that client backends waited for a processor, likewise.
    #[serde(with = "crate::seconds::option")]
    pub counted_run_delay: Option<Duration>,
    /// Reasons to trust the split less, each a sentence.
    pub warnings: Vec<String>,
}

/// One class of the split.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimePart {
    /// The class.
    pub class: WaitClass,
    /// Seconds a transaction spends in it.
    pub per_transaction: Estimate,
    /// Share of the [whole](TimeSplit::whole).
    pub share: Estimate,
    /// Mean number of sessions in it.
    pub sessions: f64,
    /// Its most frequent events.
    pub events: Vec<EventTime>,
}

/// What the load generator, or processes of clients that are not ours, took of a transaction's
/// latency on the same machine, in seconds. Their threads serve many clients, each of which may
/// wait while a thread works for another: what they wait for its threads is this at least.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DriverTime {
    /// On a processor.
    #[serde(with = "crate::seconds")]
    pub cpu: Duration,
    /// Ready to run and waiting for a processor.
    #[serde(with = "crate::seconds")]
    pub run_delay: Duration,
    /// Whether it is the load generator of this program.
    pub ours: bool,
}

impl DriverTime {
    /// Both.
    pub fn sum(self) -> f64 {
        (self.cpu + self.run_delay).as_secs_f64()
    }

    fn of(cpu: &CpuUse) -> Option<DriverTime> {
        let run_delay = cpu.driver_run_delay_per_transaction?;
        Some(DriverTime { cpu: cpu.driver_per_transaction?, run_delay, ours: true })
    }

    /// That of the poolers: of those that hold connections to the server, where some are seen to.
    fn of_poolers(cpu: &CpuUse) -> Option<DriverTime> {
        let poolers = || cpu.groups.iter().filter(|group| is_pooler(group));
        let seen = poolers().any(|group| group.connected);
        DriverTime::of_groups(poolers().filter(|group| group.connected || !seen))
    }

    /// That of the processes that hold connections and are no poolers, of which this part is in
    /// transactions.
    fn of_clients(cpu: &CpuUse, part: f64) -> Option<DriverTime> {
        let clients = cpu.groups.iter().filter(|group| group.connected && !is_pooler(group));
        let DriverTime { cpu, run_delay, ours } = DriverTime::of_groups(clients)?;
        Some(DriverTime { cpu: cpu.mul_f64(part), run_delay: run_delay.mul_f64(part), ours })
    }

    fn of_groups<'g>(groups: impl Iterator<Item = &'g GroupCpu>) -> Option<DriverTime> {
        let times = groups.filter_map(|g| g.per_transaction.zip(g.run_delay_per_transaction));
        let (cpu, run_delay) = times.reduce(|a, b| (a.0 + b.0, a.1 + b.1))?;
        Some(DriverTime { cpu, run_delay, ours: false })
    }

    /// What the lines of the breakdown are called: on a processor, waiting for one.
    pub fn labels(self) -> [&'static str; 2] {
        match self.ours {
            true => ["driver CPU", "driver waiting for CPU"],
            false => ["client CPU", "client waiting for CPU"],
        }
    }

    /// No more than so many seconds.
    fn within(self, seconds: f64) -> DriverTime {
        let part = if self.sum() > seconds { seconds / self.sum() } else { 1.0 };
        let (cpu, run_delay) = (self.cpu.mul_f64(part), self.run_delay.mul_f64(part));
        DriverTime { cpu, run_delay, ..self }
    }
}

fn is_pooler(group: &GroupCpu) -> bool {
    ProcessRole::of(&group.group) == ProcessRole::Pooler
}

/// How long walwright's gateway kept transactions back, beside what they took on the server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GatewayTime {
    /// Statements waited for a session of its pool.
    #[serde(with = "crate::seconds")]
    pub queue: Duration,
    /// Answers waited until the flush that covers them had returned.
    #[serde(with = "crate::seconds")]
    pub withheld: Duration,
}

impl GatewayTime {
    /// Its lines in the breakdown.
    pub fn lines(self) -> [(&'static str, Duration); 2] {
        [("withheld until durable", self.withheld), ("queue in the gateway", self.queue)]
    }

    /// Both, in seconds.
    pub fn sum(self) -> f64 {
        (self.queue + self.withheld).as_secs_f64()
    }

    /// Of a transaction, by its own counters over the transactions between the same readings.
    pub(crate) fn of(record: &Record, window: Window) -> Option<GatewayTime> {
        let counted = difference(record, Source::Gateway, window).ok()?;
        let transactions = transactions_between(record, &counted)?;
        let of = |column: &str| crate::seconds::duration(counted.sum(column).ok()? / transactions);
        Some(GatewayTime { queue: of("queue_wait_seconds")?, withheld: of("withheld_seconds")? })
    }

    /// No more than so many seconds.
    fn within(self, seconds: f64) -> GatewayTime {
        let part = if self.sum() > seconds { seconds / self.sum() } else { 1.0 };
        GatewayTime { queue: self.queue.mul_f64(part), withheld: self.withheld.mul_f64(part) }
    }
}

/// What an application took of the latency of the requests that it was asked by HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ApplicationTime {
    /// Waiting for a session of its pool; `None` where it does not tell.
    #[serde(with = "crate::seconds::option")]
    pub pool_wait: Option<Duration>,
    /// On a processor; `None` where its processes are not seen.
    #[serde(with = "crate::seconds::option")]
    pub cpu: Option<Duration>,
    /// Ready to run and waiting for a processor.
    #[serde(with = "crate::seconds::option")]
    pub run_delay: Option<Duration>,
}

impl ApplicationTime {
    /// Its lines in the breakdown.
    pub fn lines(self) -> impl Iterator<Item = (&'static str, Duration)> {
        let lines = [
            ("wait for the pool", self.pool_wait),
            ("application CPU", self.cpu),
            ("application CPU wait", self.run_delay),
        ];
        lines.into_iter().filter_map(|(name, time)| Some((name, time?)))
    }

    /// All of it, in seconds.
    pub fn sum(self) -> f64 {
        self.lines().map(|(_, time)| time.as_secs_f64()).sum()
    }
}

/// One wait event of a class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventTime {
    /// `type:event`, or `CPU`.
    pub event: String,
    /// Seconds a transaction spends in it.
    pub per_transaction: f64,
}

impl TimePart {
    /// Leaves so much of it, 0 to 1.
    fn scale(&mut self, kept: f64) {
        self.per_transaction = self.per_transaction.clone().map(|s| s * kept);
        self.share = self.share.clone().map(|s| s * kept);
        self.sessions *= kept;
        self.events.iter_mut().for_each(|event| event.per_transaction *= kept);
    }
}

impl TimeSplit {
    /// What a class is called: of sessions that an application has, those that wait in a
    /// transaction do not wait for a client of ours.
    pub fn label(&self, class: WaitClass) -> &'static str {
        match class {
            WaitClass::Client if self.asks_http => "idle in transaction",
            class => class.label(),
        }
    }

    /// The part of a class; `None` when it was never seen.
    pub fn part(&self, class: WaitClass) -> Option<&TimePart> {
        self.parts.iter().find(|p| p.class == class)
    }

    /// What shares are of, in seconds: the latency that clients saw; where it is not known, the
    /// time on the server, what a gateway kept back and the wait for an application's pool.
    pub fn whole(&self) -> f64 {
        let kept_back = self.gateway.map_or(0.0, GatewayTime::sum);
        let application = self.application.map_or(0.0, ApplicationTime::sum);
        let counted = self.on_server.center + kept_back + application;
        self.latency.map_or(counted, |latency| latency.as_secs_f64())
    }

    /// Where the [whole](Self::whole) goes by if the latency is not known.
    pub fn place(&self) -> &'static str {
        match (self.gateway, self.application) {
            (None, None) => "on the server",
            (Some(_), None) => "on the server and in its gateway",
            (None, Some(_)) => "on the server and waiting for the pool",
            (Some(_), Some(_)) => "on the server, in its gateway and waiting for the pool",
        }
    }

    /// What is outside of transactions and the load generator's and a pooler's part of them, in
    /// seconds, but for what a gateway kept back.
    pub fn outside(&self) -> Option<Estimate> {
        let others = [self.driver, self.pooler].into_iter().flatten().map(DriverTime::sum);
        let application = self.application.map_or(0.0, ApplicationTime::sum);
        let others: f64 = others.sum::<f64>() + application;
        self.residual.clone().map(|residual| residual.map(|s| s + others))
    }

    /// Names what a gateway kept back: of what is outside of transactions on the server, or beside
    /// their time there where the latency is not known.
    pub(crate) fn tell_gateway(&mut self, record: &Record, window: Window, cpu: &CpuUse) {
        let Some(counted) = GatewayTime::of(record, window) else {
            if cpu.gateway().is_some_and(|gateway| gateway.connected) {
                self.is_withheld = true;
                self.warnings.push(UNREAD.to_owned());
            }
            return;
        };
        let whole = self.whole();
        let told = match self.residual.as_ref().map(|residual| residual.center.max(0.0)) {
            Some(outside) => counted.within(self.make_room(counted.sum(), outside)),
            None => counted,
        };
        self.take_outside(told.sum());
        self.gateway = Some(told);
        self.is_withheld = false;
        self.share_anew(whole);
        self.warnings.extend(barriers_counted(record, window, self.unit));
    }

    /// Makes shares of this whole shares of the one of now.
    fn share_anew(&mut self, whole: f64) {
        let kept = if whole > 0.0 { whole / self.whole() } else { 1.0 };
        self.parts.iter_mut().for_each(|part| part.share = part.share.clone().map(|s| s * kept));
    }

    /// How much of the seconds that are counted before transactions has room in the latency, where
    /// so much of it is outside of them. Samples of sessions give way where that is too little:
    /// counters are exact.
    fn make_room(&mut self, counted: f64, outside: f64) -> f64 {
        let on_server: f64 = self.parts.iter().map(|part| part.per_transaction.center).sum();
        let told = counted.min(outside + on_server);
        if told > outside {
            self.fit(1.0 - (told - outside) / on_server);
        }
        self.overdrawn += (counted - outside).max(0.0);
        told
    }

    /// Leaves so much of the time in transactions on the server, 0 to 1.
    fn fit(&mut self, kept: f64) {
        self.parts.iter_mut().for_each(|part| part.scale(kept));
        self.sleep_scale = self.sleep_scale.times(kept);
        self.on_server = self.on_server.clone().map(|server| server * kept);
    }

    /// Names a pooler's part of what is outside of transactions on the server.
    pub(crate) fn tell_pooler(&mut self, cpu: &CpuUse) {
        let outside = self.residual.as_ref().map_or(0.0, |residual| residual.center);
        let known = DriverTime::of_poolers(cpu).filter(|_| outside > 0.0);
        let Some(counted) = known else { return };
        let pooler = counted.within(outside);
        self.overdrawn += counted.sum() - pooler.sum();
        let kept = (1.0 - pooler.sum() / outside).max(0.0);
        self.residual = self.residual.take().map(|residual| residual.map(|s| s * kept));
        self.residual_share = self.residual_share.map(|share| share * kept);
        self.pooler = Some(pooler);
    }

    /// Names what an application took of the time in which the server had nothing to do: the wait
    /// for its pool is before its transactions, its own work is in them too. Of an application
    /// that is not asked here only the wait for its pool is told.
    pub(crate) fn tell_application(&mut self, record: &Record, window: Window, cpu: &CpuUse) {
        if !record.load.as_ref().is_some_and(LoadFacts::asks_http) {
            return self.tell_pool(pool_wait(record, window));
        }
        let is_application =
            |group: &&GroupCpu| ProcessRole::of(&group.group) == ProcessRole::Application;
        let groups = || cpu.groups.iter().filter(is_application);
        let sum = |times: &mut dyn Iterator<Item = Option<Duration>>| {
            times.flatten().reduce(|a, b| a + b)
        };
        let mut told = ApplicationTime {
            pool_wait: pool_wait(record, window),
            cpu: sum(&mut groups().map(|group| group.per_transaction)),
            run_delay: sum(&mut groups().map(|group| group.run_delay_per_transaction)),
        };
        let Some(outside) = self.residual.as_ref().map(|residual| residual.center.max(0.0)) else {
            return;
        };
        let own = told.cpu.unwrap_or_default() + told.run_delay.unwrap_or_default();
        let own = own.as_secs_f64();
        let waited = told.pool_wait.map_or(0.0, |wait| wait.as_secs_f64());
        let waited = self.make_room(waited, outside);
        told.pool_wait = told.pool_wait.map(|_| Duration::from_secs_f64(waited));
        self.take_outside(waited);
        let outside = (outside - waited).max(0.0);
        let inside = self.part(WaitClass::Client).map_or(0.0, |part| part.per_transaction.center);
        let idle = inside + outside;
        let fits = if own > idle { idle / own } else { 1.0 };
        told.cpu = told.cpu.map(|time| time.mul_f64(fits));
        told.run_delay = told.run_delay.map(|time| time.mul_f64(fits));
        self.overdrawn += own * (1.0 - fits);
        if idle > 0.0 {
            let kept = 1.0 - own * fits / idle;
            for part in self.parts.iter_mut().filter(|part| part.class == WaitClass::Client) {
                part.scale(kept);
            }
            self.take_outside(outside * (1.0 - kept));
        }
        self.application = Some(told).filter(|told| told.lines().next().is_some());
    }

    /// Names the wait for an application's pool: of what is outside of transactions on the server,
    /// or beside their time there where the latency is not known.
    fn tell_pool(&mut self, waited: Option<Duration>) {
        let Some(waited) = waited else { return };
        let whole = self.whole();
        let told = match self.residual.as_ref().map(|residual| residual.center.max(0.0)) {
            Some(outside) => Duration::from_secs_f64(self.make_room(waited.as_secs_f64(), outside)),
            None => waited,
        };
        self.take_outside(told.as_secs_f64());
        self.application =
            Some(ApplicationTime { pool_wait: Some(told), cpu: None, run_delay: None });
        self.share_anew(whole);
    }

    /// Takes so many seconds from what is outside of transactions on the server.
    fn take_outside(&mut self, seconds: f64) {
        let whole = self.residual.as_ref().map_or(0.0, |residual| residual.center);
        let kept = if whole > 0.0 { (1.0 - seconds / whole).max(0.0) } else { 1.0 };
        self.residual = self.residual.take().map(|residual| residual.map(|s| s * kept));
        self.residual_share = self.residual_share.map(|share| share * kept);
    }

    /// Names the load generator's part of the time in which the server has nothing to do, in
    /// or between transactions; the rest of that is the network's.
    pub(crate) fn tell_driver(&mut self, cpu: &CpuUse) {
        // Who waits in a transaction for an application does not wait for the load generator.
        let client = self.part(WaitClass::Client).filter(|_| !self.asks_http);
        let (client, waiting) =
            client.map_or((0.0, 0.0), |p| (p.per_transaction.center, p.sessions));
        // Without the clients' latency only what they do in transactions is in it.
        let between = self.idle_sessions * self.sleep_scale.client;
        let inside = match self.residual {
            Some(_) => 1.0,
            None => waiting / (waiting + between).max(f64::MIN_POSITIVE),
        };
        let idle = client + self.residual.as_ref().map_or(0.0, |r| r.center.max(0.0));
        let clients = || DriverTime::of_clients(cpu, inside);
        let known = DriverTime::of(cpu).or_else(clients).filter(|_| self.sampled_because.is_none());
        let Some(counted) = known else { return };
        let driver = counted.within(idle);
        self.overdrawn += counted.sum() - driver.sum();
        if idle <= 0.0 {
            return;
        }
        let kept = (1.0 - driver.sum() / idle).max(0.0);
        let is_waiting = |part: &&mut TimePart| part.class == WaitClass::Client && !self.asks_http;
        for part in self.parts.iter_mut().filter(is_waiting) {
            part.scale(kept);
        }
        let scale = |s: f64| if s > 0.0 { s * kept } else { s };
        self.residual = self.residual.take().map(|residual| residual.map(scale));
        self.residual_share = self.residual_share.map(scale);
        self.driver = Some(driver);
    }

    /// What to say where there is nothing to split: sessions can be seen and none was in
    /// a transaction, and the latency of the clients is not known. `None` otherwise.
    pub fn unseen(&self) -> Option<String> {
        (self.latency.is_none() && self.parts.is_empty()).then(|| {
            format!(
                "none of {} looks found a session in a transaction, so next to none of the time \
                 of a {} goes by on the server",
                self.ticks,
                self.unit.name()
            )
        })
    }
}

/// Seconds that requests have waited for the application's pool, of all together, and between which
/// readings.
pub(crate) fn pool_waited(record: &Record, window: Window) -> Option<(f64, Difference)> {
    let counted = difference(record, Source::Application, window).ok()?;
    Some((counted.sum("pool_wait_seconds").ok()?, counted))
}

/// What a transaction of clients that ask an application waits for its pool: seconds waited a
/// second are how many wait, and those over transactions a second what one waits (Little's law).
fn pool_wait(record: &Record, window: Window) -> Option<Duration> {
    let (waited, counted) = pool_waited(record, window)?;
    crate::seconds::duration(waited / transactions_between(record, &counted)?)
}

/// Transactions between two readings, those that failed too.
fn transactions_between(record: &Record, counted: &Difference) -> Option<f64> {
    let work = work_between(record, counted.from, counted.to).ok()?;
    let failed = driven_between(record, counted.from, counted.to, failures).unwrap_or(0.0);
    Some(work.count + failed).filter(|count| *count > 0.0)
}

/// That a gateway holds connections to the server whose metrics are not in the record.
const UNREAD: &str = "how long the gateway before the server kept answers back is not known: \
    `walwright gateway --metrics ADDRESS:PORT` tells it";

/// Share of the commits from which on those of barriers are told of.
const BARRIERS: f64 = 0.05;

/// That commits of the server are in part those by which the gateway flushes.
fn barriers_counted(record: &Record, window: Window, unit: WorkUnit) -> Option<String> {
    let counted = difference(record, Source::Gateway, window).ok()?;
    let barriers = counted.sum("barriers").ok()?;
    let commits = work_between(record, counted.from, counted.to).ok()?.count;
    (unit == WorkUnit::Commit && barriers > BARRIERS * commits).then(|| {
        format!(
            "{:.0} % of the commits are those by which the gateway flushes: figures a commit are \
             less than those of a transaction of its clients by that",
            100.0 * barriers / commits
        )
    })
}

/// Splits the latency of a transaction over the window.
///
/// # Errors
/// Without enough ticks of wait events, without work counted over them, or where the
/// sessions that did it could not be seen.
pub fn time_split(record: &Record, window: Window) -> Result<TimeSplit, Blind> {
    time_split_with(record, window, None)
}

/// The same, where the statements of the window have been read already.
pub(crate) fn time_split_with(
    record: &Record,
    window: Window,
    statements: Option<&StatementUses>,
) -> Result<TimeSplit, Blind> {
    let ticks: Vec<&Sample> =
        record.samples(Source::Waits).iter().filter(|s| window.contains(s.at)).collect();
    let (Some(first), Some(last)) = (ticks.first(), ticks.last()) else {
        return Err(Blind::NotSampled { source: Source::Waits });
    };
    if ticks.len() < FEWEST_TICKS {
        let (have, need) = (ticks.len(), FEWEST_TICKS);
        return Err(Blind::TooFewSamples { source: Source::Waits, have, need });
    }
    let length = last.at.since(first.at).as_secs_f64();
    let work = work_between(record, first.at, last.at)?;
    // Sessions of transactions that fail are seen as well, so they count here.
    let failed = driven_between(record, first.at, last.at, failures).unwrap_or(0.0);
    let rate = (work.count + failed) / length;

    let clients = ClientSessions::of(record, window);
    let hidden = HiddenSessions::of(record, window).filter(|_| !clients.ours);
    if let Some(hidden) = hidden.as_ref().filter(|hidden| hidden.are_many()) {
        return Err(hidden.blind());
    }
    let tally = Tally::of(&ticks, clients);
    let means = tick_means(&tally.ticks, &Resampling::default()).ok_or(Blind::NoWork)?;
    let account = match hidden {
        Some(_) => Err("some sessions cannot be seen"),
        None => {
            let without_wait = &means[WaitClass::Cpu as usize];
            ProcessorAccount::of(record, window, &ticks, clients.ours, without_wait, statements)
        }
    };
    let sleep_scale = account.map_or(SleepScale::ONE, |account| account.scale);
    let sessions_in = |class: WaitClass| -> Estimate {
        let sampled = &means[class as usize];
        let exact = |sessions| Estimate { center: sessions, interval: None, ..sampled.clone() };
        match (class, account) {
            (_, Err(_)) => sampled.clone(),
            (WaitClass::Cpu, Ok(account)) => exact(account.running),
            (WaitClass::RunQueue, Ok(account)) => exact(account.waiting),
            (WaitClass::Other, Ok(account)) => {
                sampled.clone().map(|n| n * sleep_scale.of(class) + account.unexplained)
            }
            (_, Ok(_)) => sampled.clone().map(|n| n * sleep_scale.of(class)),
        }
    };
    let on_server = match account {
        Ok(account) => {
            let counted = account.running + account.waiting + account.unexplained;
            let asleep = means[ASLEEP].center;
            let client = means[WaitClass::Client as usize].center;
            let kept = client * sleep_scale.client + (asleep - client) * sleep_scale.other;
            let scale = if asleep > 0.0 { kept / asleep } else { 1.0 };
            means[ASLEEP].clone().map(|n| n * scale + counted)
        }
        Err(_) => means[IN_TRANSACTION].clone(),
    };
    let on_server = on_server.map(|sessions| sessions / rate);

    let latency = latency::mean_latency(record, window);
    // In a closed loop the lag histograms are empty.
    let queue = latency::lags(record, window).mean();
    let inside = latency.map(|l| l.saturating_sub(queue.unwrap_or_default()).as_secs_f64());
    let whole = latency.map_or(on_server.center, |l| l.as_secs_f64());

    let parts: Vec<TimePart> = WaitClass::ALL
        .into_iter()
        .map(|class| (class, sessions_in(class)))
        .filter(|(_, sessions)| sessions.center > 0.0)
        .map(|(class, sessions)| {
            let per_transaction = sessions.clone().map(|n| n / rate);
            TimePart {
                class,
                share: per_transaction.clone().map(|s| if whole > 0.0 { s / whole } else { 0.0 }),
                sessions: sessions.center,
                events: tally.events_of(class, ticks.len() as f64 * rate / sleep_scale.of(class)),
                per_transaction,
            }
        })
        .collect();
    let mut residual = inside.map(|inside| on_server.clone().map(|server| inside - server));
    let (mut overdrawn, mut fits) = (0.0, 1.0);
    let mut warnings = Vec::new();
    if let Some(hidden) = hidden {
        warnings.push(format!("what some sessions wait for is missing: {}", hidden.blind()));
    }
    if let (Some(latency), Some(residual)) = (latency, &residual)
        && residual.high().unwrap_or(residual.center) < -OVERDRAWN * latency.as_secs_f64()
    {
        warnings.push(
            "sessions were seen in transactions for longer than clients waited: other clients \
             use this server, or the sampling is biased"
                .to_owned(),
        );
    }
    // Parts of a whole are no more than it.
    if let Some((inside, over)) = inside.zip(residual.as_mut()).filter(|(_, r)| r.center < 0.0) {
        fits = inside / on_server.center;
        overdrawn = -over.center;
        *over = over.clone().map(|_| 0.0);
    }
    if failed > 0.01 * work.count {
        warnings.push(
            "more than 1 % of the transactions failed; their time on the server is in the split, \
             their latency is not"
                .to_owned(),
        );
    }
    let mut split = TimeSplit {
        unit: work.unit,
        queue,
        parts,
        driver: None,
        pooler: None,
        gateway: None,
        application: None,
        asks_http: record.load.as_ref().is_some_and(LoadFacts::asks_http),
        is_withheld: record.load.as_ref().is_some_and(LoadFacts::is_behind_gateway),
        idle_sessions: tally.idle / ticks.len() as f64,
        sampled_because: account.err().map(str::to_owned),
        sleep_scale,
        sampled_cpu: means[WaitClass::Cpu as usize].center / rate,
        residual_share: residual.as_ref().filter(|_| whole > 0.0).map(|r| r.center / whole),
        residual,
        overdrawn,
        on_server,
        ticks: ticks.len(),
        counted_flush: None,
        counted_cpu: None,
        counted_run_delay: None,
        warnings,
        latency,
    };
    split.fit(fits);
    Ok(split)
}

/// Places in a tick after its classes: sessions in a transaction, and those of them in a wait.
const IN_TRANSACTION: usize = WaitClass::ALL.len();
const ASLEEP: usize = IN_TRANSACTION + 1;

/// Sessions by class and by event, in one pass over the rows.
struct Tally<'r> {
    /// For each tick, sessions in each class of [`WaitClass::ALL`], then at
    /// [`IN_TRANSACTION`] and [`ASLEEP`].
    ticks: Vec<Vec<f64>>,
    /// Sessions over all ticks by class, type and event.
    events: BTreeMap<(WaitClass, Option<&'r str>, Option<&'r str>), f64>,
    /// Client sessions outside a transaction, over all ticks.
    idle: f64,
}

impl<'r> Tally<'r> {
    fn of(ticks: &[&'r Sample], clients: ClientSessions) -> Self {
        let mut tally =
            Tally { ticks: Vec::with_capacity(ticks.len()), events: BTreeMap::new(), idle: 0.0 };
        for tick in ticks {
            let mut counts = vec![0.0; ASLEEP + 1];
            for row in &tick.rows {
                if !clients.contain(row) {
                    continue;
                }
                let Some(sessions) = row.number("sessions") else { continue };
                let Some(class) = WaitClass::of(row) else {
                    let is_client = row.text("backend_type") == Some("client backend");
                    tally.idle += if is_client { sessions } else { 0.0 };
                    continue;
                };
                counts[class as usize] += sessions;
                counts[IN_TRANSACTION] += sessions;
                if class != WaitClass::Cpu {
                    counts[ASLEEP] += sessions;
                }
                let event = (class, row.text("wait_event_type"), row.text("wait_event"));
                *tally.events.entry(event).or_insert(0.0) += sessions;
            }
            tally.ticks.push(counts);
        }
        tally
    }

    /// The most frequent events of a class; `per` turns summed sessions into
    /// seconds a transaction.
    fn events_of(&self, class: WaitClass, per: f64) -> Vec<EventTime> {
        let mut events: Vec<EventTime> = self
            .events
            .iter()
            .filter(|((of, ..), _)| *of == class)
            .map(|((_, kind, event), sum)| EventTime {
                event: match (kind, event) {
                    (Some(kind), Some(event)) => format!("{kind}:{event}"),
                    (Some(kind), None) => (*kind).to_owned(),
                    _ if class == WaitClass::Cpu => "CPU".to_owned(),
                    _ => "idle in transaction".to_owned(),
                },
                per_transaction: sum / per,
            })
            .collect();
        events.sort_by(|a, b| b.per_transaction.total_cmp(&a.per_transaction));
        events.truncate(EVENTS);
        events
    }
}

#[cfg(test)]
mod tests {
    use walwright_record::{ScriptFacts, TargetFacts, WorkloadFacts};

    use super::*;
    use crate::cpu::{CLIENT_BACKENDS, EXITED_PROCESSES};
    use walwright_testing::{Build, closed_loop, embedded, named, row, second, wait};

    /// Ten clients, 1,000 transactions a second of 8 ms: 8 sessions in
    /// transactions, of which 2 on CPU, 4 flushing, 1 queued for the flush, 1 idle
    /// in transaction; 2 idle.
    fn latency_breakdown() -> Build {
        let mut build = Build::new();
        for s in 0..30 {
            build.interval(f64::from(s), &vec![Duration::from_millis(10); 1_000]);
        }
        for tick in 0..300_u32 {
            let cpu = f64::from(tick % 3) + 1.0;
            build.sample(
                f64::from(tick) / 10.0,
                Source::Waits,
                [
                    wait("active", "", "", cpu),
                    wait("active", "IO", "walsync", 6.0 - cpu),
                    wait("active", "LWLock", "walwrite", 1.0),
                    wait("idle in transaction", "Client", "clientread", 1.0),
                    wait("idle", "Client", "clientread", 2.0),
                ],
            );
        }
        build
    }

    fn split(build: &Build) -> Result<TimeSplit, Blind> {
        time_split(&build.record, Window { start: second(0.0), end: second(30.0) })
    }

    #[test]
    fn the_books_close_with_a_stated_residual() {
        let split = split(&latency_breakdown()).unwrap();
        assert_eq!(split.ticks, 300);
        let seconds = |class| split.part(class).unwrap().per_transaction.center;
        assert!((seconds(WaitClass::Cpu) - 0.002).abs() < 1e-5);
        assert!((seconds(WaitClass::Flush) - 0.004).abs() < 1e-5);
        assert!((seconds(WaitClass::FlushQueue) - 0.001).abs() < 1e-6);
        assert!((seconds(WaitClass::Client) - 0.001).abs() < 1e-6);
        assert!((split.on_server.center - 0.008).abs() < 1e-6);
        // 10 ms of latency: 8 on the server, 2 outside of transactions.
        let residual = split.residual.as_ref().unwrap();
        assert!((residual.center - 0.002).abs() < 2e-5, "{residual:?}");
        assert!((split.residual_share.unwrap() - 0.2).abs() < 2e-3);
        assert!(split.part(WaitClass::Io).is_none());
        assert!(split.warnings.is_empty());
    }

    /// The same with the kernel's count of the backends: so many run and wait for a processor.
    fn counted(running: f64, waiting: f64) -> Build {
        let mut build = latency_breakdown();
        for s in 0..=30 {
            let t = f64::from(s);
            let backends = named(
                [("process_group", CLIENT_BACKENDS)],
                [
                    ("user_seconds", 0.75 * running * t),
                    ("system_seconds", 0.25 * running * t),
                    ("run_delay_seconds", waiting * t),
                ],
            );
            build.sample(t, Source::Processes, [backends]);
        }
        build
    }

    fn milliseconds(split: &TimeSplit, class: WaitClass) -> f64 {
        split.part(class).map_or(0.0, |part| part.per_transaction.center * 1e3)
    }

    #[test]
    fn samples_divide_what_the_kernel_leaves() {
        // Of ten backends 1.5 run and 2.5 wait for a processor, so 6 sleep, not the 8 that
        // show a wait or are idle.
        let split = split(&counted(1.5, 2.5)).unwrap();
        assert_eq!(split.sampled_because, None);
        assert!((split.sleep_scale.client - 0.75).abs() < 1e-9);
        for (class, expected) in [
            (WaitClass::Cpu, 1.5),
            (WaitClass::RunQueue, 2.5),
            (WaitClass::Flush, 3.0),
            (WaitClass::FlushQueue, 0.75),
            (WaitClass::Client, 0.75),
        ] {
            let found = milliseconds(&split, class);
            assert!((found - expected).abs() < 1e-2, "{class:?}: {found}");
        }
        assert!((split.on_server.center - 0.0085).abs() < 1e-5);
        assert!((split.residual.as_ref().unwrap().center - 0.0015).abs() < 3e-5);
        assert!((split.sampled_cpu - 0.002).abs() < 1e-5);
        let flush = split.part(WaitClass::Flush).unwrap();
        assert!((flush.events[0].per_transaction - flush.per_transaction.center).abs() < 1e-9);
    }

    /// Three statements a transaction in which backends sleep four times, and the kernel's count.
    fn slept(text: &str) -> Build {
        let mut build = counted(1.5, 2.5);
        build.record.load = Some(closed_loop(10));
        build.record.workload = Some(WorkloadFacts {
            name: "parts".to_owned(),
            scale: 1,
            options: BTreeMap::new(),
            scripts: vec![ScriptFacts {
                name: "script".to_owned(),
                weight: 1,
                text: text.to_owned(),
                statements: ["BEGIN", "UPDATE", "END"].map(str::to_owned).to_vec(),
                batch: None,
            }],
            pass_mark: None,
        });
        for (s, sample) in
            build.record.samples.get_mut(&Source::Processes).unwrap().iter_mut().enumerate()
        {
            sample.rows[0].set("voluntary_switches", 4_000.0 * s as f64);
        }
        build
    }

    #[test]
    fn a_wait_for_a_processor_is_taken_from_waits_by_their_number() {
        // Samples of waits hold 2 ms of it, which come after four sleeps: three for the client,
        // whose waits are 3 ms, and one in 5 ms of flush and queue.
        let split = split(&slept("")).unwrap();
        for (class, expected) in [
            (WaitClass::Flush, 4.0 * 0.9),
            (WaitClass::FlushQueue, 0.9),
            (WaitClass::Client, 0.5),
            (WaitClass::RunQueue, 2.5),
        ] {
            let found = milliseconds(&split, class);
            assert!((found - expected).abs() < 1e-2, "{class:?}: {found}");
        }
        let parts: f64 = split.parts.iter().map(|part| part.per_transaction.center).sum();
        assert!((split.on_server.center - parts).abs() < 1e-6);
    }

    #[test]
    fn where_messages_go_together_a_wait_for_a_processor_is_taken_by_length() {
        let split = split(&slept("\\startpipeline")).unwrap();
        assert!((milliseconds(&split, WaitClass::Flush) - 3.0).abs() < 1e-2);
    }

    #[test]
    fn other_sessions_that_are_idle_are_not_woken() {
        let idle = |ours: bool| {
            let mut build = slept("");
            for sample in build.record.samples.get_mut(&Source::Waits).unwrap() {
                sample.rows.iter_mut().for_each(|row| {
                    row.set("ours", true);
                });
                if ours {
                    sample.rows.push(wait("idle", "Client", "clientread", 30.0));
                }
            }
            split(&build).unwrap()
        };
        assert_eq!(idle(true).sleep_scale, idle(false).sleep_scale);
    }

    #[test]
    fn sleep_that_no_wait_event_tells_is_a_line_of_its_own() {
        // Two were sampled active without a wait, and the kernel saw a tenth of that run.
        let split = split(&counted(0.1, 0.1)).unwrap();
        assert_eq!(split.sleep_scale, SleepScale::ONE);
        assert!((milliseconds(&split, WaitClass::Other) - 1.8).abs() < 1e-2);
        assert!((milliseconds(&split, WaitClass::Flush) - 4.0).abs() < 1e-2);
        // Within the noise of the samples it is theirs.
        let split = self::split(&counted(0.99, 1.0)).unwrap();
        assert!(split.part(WaitClass::Other).is_none());
    }

    #[test]
    fn where_the_kernel_cannot_tell_the_samples_stand_and_say_so() {
        let because = |build: &Build| split(build).unwrap().sampled_because.unwrap();
        assert!(because(&latency_breakdown()).contains("cannot be seen from here"));
        let mut build = counted(1.5, 2.5);
        for (s, sample) in
            build.record.samples.get_mut(&Source::Processes).unwrap().iter_mut().enumerate()
        {
            sample.rows.push(named(
                [("process_group", EXITED_PROCESSES)],
                [("user_seconds", s as f64), ("system_seconds", 0.0)],
            ));
        }
        assert!(because(&build).contains("end before they are seen"));
        let mut build = counted(1.5, 2.5);
        build.record.load = Some(closed_loop(10));
        for sample in build.record.samples.get_mut(&Source::Waits).unwrap() {
            sample.rows.iter_mut().for_each(|row| {
                row.set("ours", true);
            });
            sample.rows.push(wait("active", "Lock", "relation", 5.0));
        }
        assert!(because(&build).contains("other clients"));
        // More than there are backends.
        assert!(because(&counted(6.0, 6.0)).contains("come and go"));
    }

    #[test]
    fn the_driver_has_its_part_of_what_is_not_the_servers() {
        let mut build = counted(1.5, 2.5);
        for interval in &mut build.record.intervals {
            interval.driver_cpu = Duration::from_millis(300);
            interval.driver_run_delay = Some(Duration::from_millis(450));
        }
        let window = Window { start: second(0.0), end: second(30.0) };
        let cpu = crate::cpu::cpu_use(&build.record, window, &mut Default::default());
        let mut split = split(&build).unwrap();
        split.tell_driver(&cpu);
        let driver = split.driver.unwrap();
        let micros = |d: Duration| (d.as_secs_f64() * 1e6).round();
        assert_eq!((micros(driver.cpu), micros(driver.run_delay)), (300.0, 450.0));
        // 0.75 ms with the client and 1.5 outside hold it in proportion.
        assert!((milliseconds(&split, WaitClass::Client) - 0.5).abs() < 1e-2);
        let lines: f64 = split.parts.iter().map(|p| p.share.center).sum();
        let latency = split.latency.unwrap().as_secs_f64();
        let outside = split.outside().unwrap().center;
        assert!((outside - split.residual.as_ref().unwrap().center - driver.sum()).abs() < 1e-12);
        let whole = lines + split.residual_share.unwrap() + driver.sum() / latency;
        assert!((whole - 1.0).abs() < 1e-9, "{whole}");
    }

    /// A gateway that keeps each of a thousand transactions a second back for 1.25 ms.
    fn behind_gateway(mut build: Build) -> Build {
        for s in 0..=30 {
            let t = f64::from(s);
            let counts = [("withheld_seconds", t), ("queue_wait_seconds", 0.25 * t)];
            build.sample(t, Source::Gateway, [row(counts)]);
        }
        build
    }

    #[test]
    fn what_a_gateway_keeps_back_is_part_of_the_latency() {
        let build = behind_gateway(counted(1.5, 2.5));
        let window = Window { start: second(0.0), end: second(30.0) };
        let cpu = crate::cpu::cpu_use(&build.record, window, &mut Default::default());
        let mut split = split(&build).unwrap();
        let before = split.residual.as_ref().unwrap().center;
        split.tell_gateway(&build.record, window, &cpu);
        let told = split.gateway.unwrap();
        let micros = |d: Duration| (d.as_secs_f64() * 1e6).round();
        assert_eq!((micros(told.withheld), micros(told.queue)), (1_000.0, 250.0));
        let rest = split.residual.as_ref().unwrap().center;
        assert!((before - rest - told.sum()).abs() < 1e-9, "{before} {rest}");
        let shares: f64 = split.parts.iter().map(|p| p.share.center).sum();
        let whole = shares + split.residual_share.unwrap() + told.sum() / split.whole();
        assert!((whole - 1.0).abs() < 1e-9, "{whole}");
    }

    #[test]
    fn samples_of_sessions_give_way_to_what_a_gateway_counted() {
        // Sessions seen in transactions for as long as clients waited leave nothing outside.
        let mut build = behind_gateway(latency_breakdown());
        for tick in build.record.samples.get_mut(&Source::Waits).unwrap() {
            tick.rows.push(wait("active", "IO", "DataFileRead", 2.0));
        }
        let window = Window { start: second(0.0), end: second(30.0) };
        let cpu = crate::cpu::cpu_use(&build.record, window, &mut Default::default());
        let mut split = split(&build).unwrap();
        assert!(split.residual.as_ref().unwrap().center < 1e-4, "{:?}", split.residual);
        let before = split.on_server.center;
        split.tell_gateway(&build.record, window, &cpu);
        let told = split.gateway.unwrap();
        assert!((told.sum() - 1.25e-3).abs() < 1e-6, "{told:?}");
        let parts: f64 = split.parts.iter().map(|part| part.per_transaction.center).sum();
        assert!((parts + told.sum() - split.whole()).abs() < 1e-4, "{parts} {told:?}");
        assert!((before - split.on_server.center - told.sum()).abs() < 1e-4);
        assert!((split.overdrawn - told.sum()).abs() < 1e-4, "{}", split.overdrawn);
    }

    #[test]
    fn the_flush_that_answers_wait_for_in_a_gateway_is_told_once() {
        let flushes = |build: &mut Build| {
            for tick in build.record.samples.get_mut(&Source::Waits).unwrap() {
                let mut barrier = wait("active", "IO", "WalSync", 1.0);
                barrier.set("barrier", true);
                tick.rows.push(barrier);
            }
        };
        let in_flush = |build: &Build| milliseconds(&split(build).unwrap(), WaitClass::Flush);
        let mut told = behind_gateway(latency_breakdown());
        let mut untold = latency_breakdown();
        let before = in_flush(&told);
        flushes(&mut told);
        flushes(&mut untold);
        assert_eq!(in_flush(&told), before);
        assert!(in_flush(&untold) > before, "what no metrics tell is in the samples alone");
    }

    #[test]
    fn what_a_gateway_keeps_back_is_beside_the_servers_time_where_no_latency_is_known() {
        let mut build = behind_gateway(latency_breakdown());
        build.record.intervals.clear();
        for s in 0..=30 {
            build.sample(
                f64::from(s),
                Source::Database,
                [row([("xact_commit", 1e3 * f64::from(s))])],
            );
        }
        let window = Window { start: second(0.0), end: second(30.0) };
        let cpu = crate::cpu::cpu_use(&build.record, window, &mut Default::default());
        let mut split = split(&build).unwrap();
        split.tell_gateway(&build.record, window, &cpu);
        assert_eq!(split.residual, None);
        let told = split.gateway.unwrap();
        assert!((told.sum() - 1.25e-3).abs() < 1e-6, "{told:?}");
        assert!((split.whole() - split.on_server.center - told.sum()).abs() < 1e-12);
        let shares: f64 = split.parts.iter().map(|p| p.share.center).sum();
        assert!((shares + told.sum() / split.whole() - 1.0).abs() < 1e-9, "{shares}");
    }

    #[test]
    fn an_application_has_its_wait_and_its_work_told() {
        let mut build = counted(1.5, 2.5);
        build.record.load =
            Some(LoadFacts { protocol: LoadFacts::HTTP.to_owned(), ..closed_loop(10) });
        for interval in &mut build.record.intervals {
            interval.driver_cpu = Duration::from_millis(100);
            interval.driver_run_delay = Some(Duration::ZERO);
        }
        for s in 0..=30 {
            let t = f64::from(s);
            build.sample(t, Source::Application, [row([("pool_wait_seconds", 0.3 * t)])]);
            let times = [("user_seconds", 0.4 * t), ("system_seconds", 0.2 * t)];
            let mut group = named([("process_group", "application: documents")], times);
            group.set("run_delay_seconds", 0.3 * t);
            build.sample(t, Source::Neighbours, [group]);
        }
        let window = Window { start: second(0.0), end: second(30.0) };
        let cpu = crate::cpu::cpu_use(&build.record, window, &mut Default::default());
        let mut split = split(&build).unwrap();
        split.tell_driver(&cpu);
        split.tell_application(&build.record, window, &cpu);
        assert_eq!(split.overdrawn, 0.0);
        let application = split.application.unwrap();
        let told: Vec<(&str, f64)> = application
            .lines()
            .map(|(name, time)| (name, (time.as_secs_f64() * 1e5).round() / 1e2))
            .collect();
        let expected =
            [("wait for the pool", 0.3), ("application CPU", 0.6), ("application CPU wait", 0.3)];
        assert_eq!(told, expected);
        // Of 0.75 ms in transactions and 1.2 ms outside them that remain it took 0.9 ms.
        assert!((milliseconds(&split, WaitClass::Client) - 0.75 * (1.0 - 0.9 / 1.95)).abs() < 1e-2);
        let driver = split.driver.unwrap();
        assert!((driver.sum() - 1e-4).abs() < 1e-6, "{driver:?}");
        let latency = split.latency.unwrap().as_secs_f64();
        let lines: f64 = split.parts.iter().map(|part| part.per_transaction.center).sum();
        let residual = split.residual.as_ref().unwrap().center;
        let whole = lines + application.sum() + driver.sum() + residual;
        assert!((whole / latency - 1.0).abs() < 1e-6, "{whole} of {latency}");
        assert!((split.residual_share.unwrap() - residual / latency).abs() < 1e-9);
    }

    #[test]
    fn a_pooler_of_another_server_and_clients_are_not_the_pooler() {
        let mut build = counted(1.5, 2.5);
        for s in 0..=30 {
            let t = f64::from(s);
            let group = |name, cpu: f64, connected: f64| {
                let times = [
                    ("user_seconds", cpu * t),
                    ("system_seconds", 0.0),
                    ("run_delay_seconds", 0.0),
                    ("connected", connected),
                ];
                named([("process_group", name)], times)
            };
            let groups = [
                group("pooler: pgbouncer", 0.2, 1.0),
                group("pooler: odyssey", 0.4, 0.0),
                group("application: shop", 0.1, 1.0),
            ];
            build.sample(t, Source::Neighbours, groups);
        }
        let window = Window { start: second(0.0), end: second(30.0) };
        let mut cpu = crate::cpu::cpu_use(&build.record, window, &mut Default::default());
        let micros = |time: Option<DriverTime>| (time.unwrap().sum() * 1e6).round();
        assert_eq!(micros(DriverTime::of_poolers(&cpu)), 200.0);
        assert_eq!(micros(DriverTime::of_clients(&cpu, 0.5)), 50.0);
        // Who is connected is not seen: all of them may be between.
        cpu.groups.iter_mut().for_each(|group| group.connected = false);
        assert_eq!(micros(DriverTime::of_poolers(&cpu)), 600.0);
        assert!(DriverTime::of_clients(&cpu, 0.5).is_none());
    }

    #[test]
    fn the_wait_for_a_pool_is_beside_the_servers_time_where_no_latency_is_known() {
        let mut build = latency_breakdown();
        build.record.intervals.clear();
        for s in 0..=30 {
            let t = f64::from(s);
            build.sample(t, Source::Database, [row([("xact_commit", 1e3 * t)])]);
            build.sample(t, Source::Application, [row([("pool_wait_seconds", 24.0 * t)])]);
        }
        let window = Window { start: second(0.0), end: second(30.0) };
        let cpu = crate::cpu::cpu_use(&build.record, window, &mut Default::default());
        let mut split = split(&build).unwrap();
        split.tell_application(&build.record, window, &cpu);
        let told = split.application.unwrap();
        assert!((told.sum() - 24e-3).abs() < 1e-6, "{told:?}");
        assert!((split.whole() - split.on_server.center - told.sum()).abs() < 1e-12);
        assert_eq!(split.place(), "on the server and waiting for the pool");
        let shares: f64 = split.parts.iter().map(|p| p.share.center).sum();
        assert!((shares + told.sum() / split.whole() - 1.0).abs() < 1e-9, "{shares}");
    }

    #[test]
    fn samples_of_sessions_give_way_to_what_an_application_counted() {
        let mut build = latency_breakdown();
        build.record.load =
            Some(LoadFacts { protocol: LoadFacts::HTTP.to_owned(), ..closed_loop(10) });
        for tick in build.record.samples.get_mut(&Source::Waits).unwrap() {
            tick.rows.push(wait("active", "IO", "DataFileRead", 2.0));
        }
        for s in 0..=30 {
            let waited = [("pool_wait_seconds", 0.3 * f64::from(s))];
            build.sample(f64::from(s), Source::Application, [row(waited)]);
        }
        let window = Window { start: second(0.0), end: second(30.0) };
        let cpu = crate::cpu::cpu_use(&build.record, window, &mut Default::default());
        let mut split = split(&build).unwrap();
        assert!(split.residual.as_ref().unwrap().center < 1e-4, "{:?}", split.residual);
        let before = split.on_server.center;
        split.tell_application(&build.record, window, &cpu);
        let told = split.application.unwrap().sum();
        assert!((told - 3e-4).abs() < 1e-6, "{told}");
        let parts: f64 = split.parts.iter().map(|part| part.per_transaction.center).sum();
        assert!((parts + told - split.whole()).abs() < 1e-4, "{parts} {told}");
        assert!((before - split.on_server.center - told).abs() < 1e-4);
        assert!((split.overdrawn - told).abs() < 1e-4, "{}", split.overdrawn);
    }

    #[test]
    fn sessions_that_an_application_never_needs_are_not_woken() {
        let mut build = counted(1.5, 2.5);
        build.record.load =
            Some(LoadFacts { protocol: LoadFacts::HTTP.to_owned(), ..closed_loop(10) });
        // Two of ten are idle in every tick: of the other eight, six are seen asleep and four are.
        let scale = split(&build).unwrap().sleep_scale;
        assert!((scale.client - 4.0 / 6.0).abs() < 1e-9, "{scale:?}");
    }

    #[test]
    fn what_is_counted_beyond_the_latency_is_told() {
        let mut build = latency_breakdown();
        for sample in build.record.samples.get_mut(&Source::Waits).unwrap() {
            sample.rows.push(wait("active", "IO", "walsync", 3.0));
        }
        // Eleven sessions in transactions of ten clients: 1 ms of 10 ms is too much.
        let split = split(&build).unwrap();
        assert!((split.overdrawn - 0.001).abs() < 2e-5, "{}", split.overdrawn);
    }

    #[test]
    fn parts_and_residual_make_up_the_latency() {
        let split = split(&latency_breakdown()).unwrap();
        let shares: f64 = split.parts.iter().map(|p| p.share.center).sum();
        assert!((shares + split.residual_share.unwrap() - 1.0).abs() < 1e-9);
        let interval = split.part(WaitClass::Cpu).unwrap().share.interval.unwrap();
        assert!(interval.low < 0.2 && interval.high > 0.199 && interval.high < 0.25);
    }

    #[test]
    fn flush_is_not_called_the_throttle_when_it_is_six_percent() {
        // E1: 0.435 ms of flush in 7.38 ms at 1,200 a second are 0.52 sessions.
        let mut build = Build::new();
        for s in 0..60 {
            build.interval(f64::from(s), &vec![Duration::from_micros(7_380); 1_200]);
        }
        for tick in 0..600_u32 {
            let flushing = if tick % 25 < 13 { 1.0 } else { 0.0 };
            build.sample(
                f64::from(tick) / 10.0,
                Source::Waits,
                [wait("active", "IO", "walsync", flushing), wait("active", "", "", 1.0)],
            );
        }
        let window = Window { start: second(0.0), end: second(60.0) };
        let split = time_split(&build.record, window).unwrap();
        let flush = split.part(WaitClass::Flush).unwrap();
        assert!((flush.share.center - 0.0587).abs() < 0.002, "{}", flush.share.center);
        assert!(flush.share.interval.unwrap().high < 0.08);
        assert!(split.residual_share.unwrap() > 0.75);
    }

    #[test]
    fn other_peoples_sessions_overdraw_the_latency_breakdown() {
        let mut build = latency_breakdown();
        for sample in build.record.samples.get_mut(&Source::Waits).unwrap() {
            sample.rows.push(wait("active", "Lock", "relation", 5.0));
        }
        let split = split(&build).unwrap();
        assert_eq!(split.residual.as_ref().unwrap().center, 0.0);
        assert_eq!(split.warnings.len(), 1);
        // What was seen of them is told in proportion.
        let shares: f64 = split.parts.iter().map(|p| p.share.center).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    }

    #[test]
    fn transactions_that_fail_hold_sessions_too() {
        let mut build = latency_breakdown();
        for interval in &mut build.record.intervals {
            interval.scripts[0].failures.insert("40001".to_owned(), 1_000);
        }
        // As many fail as succeed: each holds half of the sessions' time.
        let split = split(&build).unwrap();
        assert!((split.on_server.center - 0.004).abs() < 1e-6);
        assert_eq!(split.warnings.len(), 1);
    }

    #[test]
    fn queueing_before_the_start_is_its_own_entry() {
        let mut build = latency_breakdown();
        let lag = walwright_testing::histogram(&[Duration::from_millis(1)]);
        build.record.intervals.iter_mut().for_each(|i| i.lag = lag.clone());
        let split = split(&build).unwrap();
        assert!((split.queue.unwrap().as_secs_f64() - 0.001).abs() < 1e-5);
        assert!((split.residual.unwrap().center - 0.001).abs() < 2e-5);
    }

    #[test]
    fn events_are_named_within_their_class() {
        let split = split(&latency_breakdown()).unwrap();
        let flush = split.part(WaitClass::Flush).unwrap();
        assert_eq!(flush.events[0].event, "IO:walsync");
        assert!((flush.events[0].per_transaction - flush.per_transaction.center).abs() < 1e-9);
    }

    /// A load of others, whose commits the server counts and whose sessions are not shown.
    fn unseen(hidden: f64, seen: f64) -> Build {
        let mut build = Build::new();
        build.record.target = Some(TargetFacts {
            role: "AttachedServer".to_owned(),
            superuser: false,
            monitor: false,
            ..embedded()
        });
        for tick in 0..300_u32 {
            let rows = if seen > 0.0 { vec![wait("active", "", "", seen)] } else { Vec::new() };
            build.sample(f64::from(tick) / 10.0, Source::Waits, rows);
        }
        for s in 0..=30 {
            let t = f64::from(s);
            let counts = row([("hidden", hidden), ("client_backends", seen)]);
            build.sample(t, Source::Sessions, [counts]);
            build.sample(t, Source::Database, [row([("xact_commit", 100.0 * t)])]);
        }
        build
    }

    #[test]
    fn sessions_that_cannot_be_seen_make_no_split() {
        let blind = split(&unseen(8.0, 0.0)).unwrap_err();
        assert!(matches!(blind, Blind::HiddenSessions { sessions: 8, .. }), "{blind:?}");
        assert!(blind.to_string().contains("GRANT pg_monitor TO \"AttachedServer\""), "{blind}");
        // Nor do those of the one session that can, for all the others.
        assert!(split(&unseen(8.0, 1.0)).is_err());
        let mostly = split(&unseen(1.0, 20.0)).unwrap();
        assert!(mostly.warnings[0].contains("GRANT pg_monitor"), "{:?}", mostly.warnings);
        assert!(split(&unseen(0.0, 1.0)).unwrap().warnings.is_empty());
        let idle = split(&unseen(0.0, 0.0)).unwrap();
        assert!(idle.unseen().unwrap().contains("none of 300 looks"), "{:?}", idle.unseen());
    }

    #[test]
    fn few_ticks_or_no_work_make_no_split() {
        let mut build = Build::new();
        assert!(matches!(split(&build), Err(Blind::NotSampled { .. })));
        for tick in 0..100_u32 {
            build.sample(f64::from(tick) / 10.0, Source::Waits, [wait("active", "", "", 1.0)]);
        }
        assert!(split(&build).is_err());
    }
}
