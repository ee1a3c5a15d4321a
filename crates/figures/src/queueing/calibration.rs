//! A network that reproduces a record.

use std::time::Duration;

use walwright_record::{LoadFacts, Record, Row, Sample, Schedule, Source, Window};
use walwright_stats::{mean, variance};

use super::crowd::Crowd;
use super::network::{
    Bunched, Commits, Delay, Driver, Network, Processing, Serial, Solution, Station, Worker,
};
use crate::cpu::CLIENT_BACKENDS;
use crate::{
    ApplicationTime, CpuUse, GatewayTime, ProcessRole, Summary, TimeSplit, WaitClass, WorkUnit,
    intervals_inside,
};

/// Times the wait of fair sharing that a wait for a processor is said to follow; what is
/// beyond is taken not to depend on the other clients.
const MOST_CROWDING: f64 = 1.5;
/// Part by which work takes more CPU where the processors are idle otherwise, as `predictions`
/// found it: 0.7 to 1.7 on virtual processors.
const IDLE_COST: f64 = 1.0;
/// Part of a transaction besides its commit that holds a lock, where nobody saw its holders.
const HELD_OF_REST: f64 = 0.4;
/// Looks at sessions whose scatter says how many clients there are.
const FEWEST_LOOKS: usize = 30;
/// Looks at holders of locks that say what they do while they hold one.
const FEWEST_HOLDERS: f64 = 20.0;
/// Part of a processor that nobody was seen to use from which it counts as a neighbour's.
const UNSEEN: f64 = 0.05;
/// Processors beyond which the chance that all are busy is told as for so many.
const MOST_PROCESSORS: f64 = 64.0;
/// Steps to find what a client waits for its thread.
const STEPS: usize = 50;

/// What a record says of the clients and of what a transaction takes of each station.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// The network; it reproduces the record's throughput and latency breakdown.
    pub network: Network,
    /// The rate that was given, transactions a second; `None` in a closed loop.
    pub given: Option<f64>,
    /// What figures are per.
    pub unit: WorkUnit,
    /// Throughput that was measured, units a second.
    pub rate: f64,
    /// Whether how clients behave is taken from the sessions on the server alone.
    pub is_observed: bool,
}

/// Why a record says too little.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Uncalibrated {
    /// Without throughput.
    #[error("no transaction ended well in the measured window")]
    NoThroughput,
    /// Without the latency breakdown.
    #[error("it is not known where the time of a transaction went: {0}")]
    NoBreakdown(String),
    /// Without clients.
    #[error("no session of a client was seen")]
    NoClients,
    /// With answers that are withheld.
    #[error(
        "walwright's gateway withheld the answers until they were durable, and how long is not in \
         the record"
    )]
    Withheld,
}

impl Calibration {
    /// Calibrates it by the measured window.
    ///
    /// # Errors
    /// Where the record lacks one of the figures it takes.
    pub fn of(
        record: &Record,
        window: Window,
        summary: &Summary,
    ) -> Result<Calibration, Uncalibrated> {
        if record.load.as_ref().is_some_and(LoadFacts::is_behind_gateway) {
            return Err(Uncalibrated::Withheld);
        }
        let time = summary.time.as_ref().ok_or_else(|| {
            let why = summary.not_observable.iter().find(|n| n.figure == crate::TIME);
            Uncalibrated::NoBreakdown(why.map_or(String::new(), |n| n.why.to_string()))
        })?;
        let driven = summary.load.as_ref().and_then(|load| load.throughput.as_ref());
        let counted = summary.server_load.as_ref().and_then(|s| s.commits_per_second.as_ref());
        let throughput = if time.unit == WorkUnit::Transaction { driven } else { counted };
        let throughput =
            throughput.filter(|rate| rate.center > 0.0).ok_or(Uncalibrated::NoThroughput)?;
        let rate = throughput.center;
        // Where processors cannot be seen, the wait for them is taken to stay as it is.
        let processors = processors(record).unwrap_or(f64::INFINITY);
        let (clients, is_observed) = clients(record, window, summary)?;
        let parts = Parts::of(time);
        // Those whose latency was recorded were not fewer than were under way on average.
        let clients = clients.max(parts.sum() * rate);

        let background = Background::of(summary.cpu.as_ref(), &parts, rate, processors);
        let busy =
            background.neighbours + rate * (parts.backend + parts.driver + background.behind);
        let all_busy = (busy / processors).min(1.0).powf(processors.min(MOST_PROCESSORS));
        let own = ((busy - background.neighbours) / processors).clamp(0.0, 1.0);
        let effort = 1.0 + IDLE_COST * (1.0 - own);
        let occupied = parts.backend + parts.backend_delay + parts.driver + parts.driver_delay;
        let length = parts.sum() - parts.lock;
        let stretch = Bunched { rate, there: occupied, commit: parts.commit, length }
            .others(clients)
            .stretch(processors, background.neighbours + rate * background.behind);
        let worker = |cpu: f64, waited: f64| {
            let shared = cpu * stretch;
            let crowding = if shared > 0.0 { (waited / shared).min(MOST_CROWDING) } else { 0.0 };
            Worker { cpu: cpu / effort, crowding, delay: (waited - crowding * shared).max(0.0) }
        };
        let think = (clients / rate - parts.sum()).max(0.0);
        let committing = Crowd::new(clients, rate * parts.commit / clients);
        let held = Serial { of_rest: held_of_rest(record, window, &parts), ..Serial::whole() };
        let lwlock = ((1.0 + stretch), 0.0);
        let mut network = Network {
            clients,
            think,
            processing: Processing {
                processors,
                neighbours: background.neighbours,
                backend: worker(parts.backend, parts.backend_delay),
                driver: worker(parts.driver, parts.driver_delay),
                gateway: Worker::default(),
                behind: background.behind / effort,
                idle_cost: IDLE_COST,
                busy_then: (busy / processors).min(1.0),
            },
            commits: commits(record, summary, &parts, (committing, think), (stretch, all_busy)),
            lock: held.waited_for(parts.lock, (length, parts.commit), clients, rate),
            lwlock: Serial::whole().waited_for(parts.lwlock, lwlock, clients, rate),
            driver: None,
            delays: parts.delays.clone(),
            ceiling: record.instrument.as_ref().and_then(|of| of.ceiling).filter(|c| *c > rate),
            gathered: None,
        };
        if let Some(load) = record.load.as_ref().filter(|_| parts.driver > 0.0) {
            network.driver = Some(Driver { threads: f64::from(load.threads.max(1)), shown: 1.0 });
            let work = parts.driver + parts.driver_delay;
            network.share_threads(Bunched { rate, there: work, commit: parts.commit, length });
        }
        let given = match summary.schedule {
            Some(Schedule::Open { .. }) => Some(rate),
            _ => None,
        };
        Ok(Calibration { network, given, unit: time.unit, rate, is_observed })
    }

    /// The record as the network has it.
    pub fn solution(&self) -> Solution {
        self.solve(&self.network)
    }

    /// Solves a network for the load of the record.
    pub fn solve(&self, network: &Network) -> Solution {
        match self.given {
            Some(rate) => network.solve_at(rate),
            None => network.solve(),
        }
    }
}

/// Processors that the server may use, where they are known: those online or the control
/// group's share.
pub fn processors(record: &Record) -> Option<f64> {
    let local = record.target.as_ref().is_some_and(|target| target.local);
    let host = record.host.as_ref().filter(|_| local)?;
    let online = f64::from(host.processors?);
    Some(host.cgroup_cpus.map_or(online, |quota| quota.min(online)))
}

impl Network {
    /// Takes from the client's and the outside's delays what clients wait for a thread of the
    /// load generator while it works for another.
    fn share_threads(&mut self, of: Bunched) {
        let idle = |of: &Delay| matches!(of.station, Station::Client | Station::Outside);
        let all: f64 = self.delays.iter().filter(|d| idle(d)).map(|d| d.seconds).sum();
        let work = of.there;
        let wait_of = |wait: f64| self.thread_wait(Bunched { there: work + wait, ..of }, work);
        let mut wait = 0.0_f64;
        for _ in 0..STEPS {
            wait = wait_of(wait).min(all);
        }
        let unlimited = wait_of(wait);
        if let Some(driver) = self.driver.as_mut().filter(|_| unlimited > 0.0) {
            driver.shown = (wait / unlimited).min(1.0);
        }
        let kept = if all > 0.0 { 1.0 - wait / all } else { 1.0 };
        self.delays.iter_mut().filter(|d| idle(d)).for_each(|delay| delay.seconds *= kept);
    }
}

/// The latency breakdown by station, in seconds of a transaction.
struct Parts {
    backend: f64,
    backend_delay: f64,
    driver: f64,
    driver_delay: f64,
    commit: f64,
    lock: f64,
    lwlock: f64,
    delays: Vec<Delay>,
}

impl Parts {
    fn of(time: &TimeSplit) -> Parts {
        let class = |class: WaitClass| time.part(class).map_or(0.0, |p| p.per_transaction.center);
        let seconds = |of: Option<Duration>| of.map_or(0.0, |d| d.as_secs_f64());
        let cpu = class(WaitClass::Cpu);
        // Where the processor's part is sampled it holds the wait for one.
        let (backend, backend_delay) = match (&time.sampled_because, time.counted_cpu) {
            (None, _) => (cpu, class(WaitClass::RunQueue)),
            (Some(_), Some(counted)) => {
                let backend = counted.as_secs_f64().min(cpu);
                (backend, cpu - backend)
            }
            (Some(_), None) => (cpu, 0.0),
        };
        let kept_back = time.gateway.map_or(0.0, GatewayTime::sum);
        let application = time.application.map_or(0.0, ApplicationTime::sum);
        let residual = time.residual.as_ref().map_or(0.0, |r| r.center.max(0.0));
        let outside = residual + kept_back + application;
        let delays = [
            (Station::Io, class(WaitClass::Io)),
            (Station::Replication, class(WaitClass::Replication)),
            (Station::Other, class(WaitClass::Other)),
            (Station::Client, class(WaitClass::Client)),
            (Station::Outside, outside),
        ];
        let delay = |(station, seconds)| Delay { station, seconds };
        Parts {
            backend,
            backend_delay,
            driver: seconds(time.driver.map(|d| d.cpu)),
            driver_delay: seconds(time.driver.map(|d| d.run_delay)),
            commit: class(WaitClass::Flush) + class(WaitClass::FlushQueue),
            lock: class(WaitClass::Lock),
            lwlock: class(WaitClass::Lwlock),
            delays: delays.map(delay).into(),
        }
    }

    fn sum(&self) -> f64 {
        let delays: f64 = self.delays.iter().map(|delay| delay.seconds).sum();
        let processors = self.backend + self.backend_delay + self.driver + self.driver_delay;
        processors + self.commit + self.lock + self.lwlock + delays
    }
}

/// CPU that is not in a transaction's way.
struct Background {
    /// Processors that are busy whatever the load does.
    neighbours: f64,
    /// CPU seconds of a transaction.
    behind: f64,
}

impl Background {
    fn of(cpu: Option<&CpuUse>, parts: &Parts, rate: f64, processors: f64) -> Background {
        let Some(cpu) = cpu else { return Background { neighbours: 0.0, behind: 0.0 } };
        let of = |roles: &[ProcessRole]| -> f64 {
            let groups = cpu.groups.iter().filter(|g| roles.contains(&ProcessRole::of(&g.group)));
            groups.map(|g| g.processors).sum()
        };
        let backends = cpu.group(CLIENT_BACKENDS).map_or(0.0, |group| group.processors);
        let driver = rate * cpu.driver_per_transaction.map_or(0.0, |d| d.as_secs_f64());
        let ours = of(&[ProcessRole::Walwright]);
        let behind = of(&[
            ProcessRole::Server,
            ProcessRole::Application,
            ProcessRole::Generator,
            ProcessRole::Pooler,
            ProcessRole::Kernel,
        ]) - backends;
        // What clients that are not ours do in a transaction is in its way.
        let clients = if cpu.driver_per_transaction.is_none() { rate * parts.driver } else { 0.0 };
        let behind = behind - clients;
        let in_the_way = rate * (parts.backend + parts.driver) - clients;
        let rest = (backends + driver.min(ours.max(driver)) - in_the_way).max(0.0);
        let probe = (ours - driver).max(0.0) + of(&[ProcessRole::Probe]);
        let seen: f64 = cpu.groups.iter().map(|g| g.processors).sum();
        let unseen = cpu.busy.map_or(0.0, |busy| busy * processors - seen);
        let is_some = processors.is_finite() && unseen >= UNSEEN * processors;
        let unseen = if is_some { unseen } else { 0.0 };
        Background {
            neighbours: of(&[ProcessRole::Other]) + probe + unseen,
            behind: (behind + rest).max(0.0) / rate,
        }
    }
}

/// Part of the time that contended locks are held in which their holders wait for their commits'
/// flush: told by the waits of those who were seen to hold one that others waited for. `None`
/// where too few were.
pub fn holders_committing(record: &Record, window: Window) -> Option<f64> {
    let inside = record.samples(Source::Sessions).iter().filter(|s| window.contains(s.at));
    let (mut holders, mut committing) = (0.0, 0.0);
    for row in inside.flat_map(|sample| &sample.rows) {
        let Some(pids) = row.text("blocking_pids") else { continue };
        let Some(of_these) = row.number("blocking_committing") else { continue };
        // Who holds one lock and waits for another is behind somebody else.
        let waiting = row.number("blocking_waiting_for_lock").unwrap_or(0.0);
        holders += pids.split(',').count() as f64 - waiting;
        committing += of_these;
    }
    (holders >= FEWEST_HOLDERS).then(|| (committing / holders).clamp(0.0, 1.0))
}

/// Part of a transaction besides its commit in which its locks are held.
fn held_of_rest(record: &Record, window: Window, parts: &Parts) -> f64 {
    let rest = parts.sum() - parts.lock - parts.commit;
    let Some(share) = holders_committing(record, window).filter(|_| rest > 0.0) else {
        return HELD_OF_REST;
    };
    // Held for the commit and this part of the rest: so many of the looks find the commit.
    let share = share.max(0.01);
    (parts.commit * (1.0 - share) / share / rest).clamp(0.0, 1.0)
}

/// What commits wait, so that they wait what was seen.
fn commits(
    record: &Record,
    summary: &Summary,
    parts: &Parts,
    (committing, think): (Crowd, f64),
    (stretch, all_busy): (f64, f64),
) -> Commits {
    let waited = parts.commit;
    if waited <= 0.0 {
        return Commits::default();
    }
    let between = parts.sum() - parts.lock - parts.commit + think;
    let measured = summary.wal.as_ref().and_then(|wal| wal.mean_flush).filter(|f| !f.is_zero());
    let flush = measured.map_or(waited, |flush| flush.as_secs_f64());
    let idle = record.storage.as_ref().map_or(flush, |probe| probe.p50.as_secs_f64());
    // Beyond that it is the device that is slower under load, or who flushes and the kernel's
    // threads behind it found all processors busy: as likely as that is.
    let slowed = if stretch > 0.0 { ((flush - idle).max(0.0) / stretch).min(idle) } else { 0.0 };
    let waits = waited / Commits::wait(flush, committing, between);
    let delayed = (flush - idle - slowed * stretch).max(0.0) * all_busy;
    Commits { flush: flush - slowed * stretch - delayed, slowed, delayed, waits }
}

/// Clients that ran, on average over the window, and whether they are those sessions that were
/// seen on the server.
fn clients(
    record: &Record,
    window: Window,
    summary: &Summary,
) -> Result<(f64, bool), Uncalibrated> {
    let running: Vec<f64> = intervals_inside(record, window)
        .map(|interval| f64::from(interval.clients))
        .filter(|n| *n > 0.0)
        .collect();
    if let Some(clients) = mean(&running).or_else(|| summary.clients.map(f64::from)) {
        return Ok((clients, false));
    }
    let ticks = record.samples(Source::Waits).iter().filter(|tick| window.contains(tick.at));
    let count = |tick: &Sample, idle: bool| -> f64 {
        let is_client = |row: &&Row| row.text("backend_type") == Some("client backend");
        let counts = |row: &&Row| idle || row.text("state") != Some("idle");
        let rows = tick.rows.iter().filter(is_client).filter(counts);
        rows.filter_map(|row| row.number("sessions")).sum()
    };
    let (sessions, busy): (Vec<f64>, Vec<f64>) =
        ticks.map(|tick| (count(tick, true), count(tick, false))).unzip();
    let sessions = mean(&sessions).filter(|n| *n > 0.0).ok_or(Uncalibrated::NoClients)?;
    let seen = behind_sessions(&busy).map_or(sessions, |clients| clients.min(sessions));
    Ok((seen, true))
}

/// Clients of a closed loop, by how many of their sessions were busy at each look: where each is
/// busy with the same chance and on its own, the number is binomial, whose variance falls short
/// of its mean by that chance. A pool has more sessions than its application asks for at once,
/// and those that nobody asks for think no time. `None` where as many or as few are busy as
/// clients that come by themselves make it.
fn behind_sessions(busy: &[f64]) -> Option<f64> {
    let mean = mean(busy).filter(|mean| *mean > 0.0)?;
    let dispersion = variance(busy)? / mean;
    (busy.len() >= FEWEST_LOOKS && dispersion < 1.0).then(|| mean / (1.0 - dispersion))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_clients_are_behind_busy_sessions_shows_in_their_scatter() {
        // Six that are each busy nine times in ten.
        let of = |counts: &[(usize, f64)]| -> Vec<f64> {
            counts.iter().flat_map(|(times, n)| vec![*n; *times]).collect()
        };
        let six = of(&[(531, 6.0), (354, 5.0), (98, 4.0), (15, 3.0), (2, 2.0)]);
        assert!((behind_sessions(&six).unwrap() - 6.0).abs() < 0.1);
        assert_eq!(behind_sessions(&of(&[(100, 4.0)])), Some(4.0));
        // Users who come when they like: nothing says how many there are.
        let many = of(&[(368, 0.0), (368, 1.0), (184, 2.0), (61, 3.0), (15, 4.0), (4, 5.0)]);
        assert_eq!(behind_sessions(&many).filter(|clients| *clients < 50.0), None);
        assert_eq!(behind_sessions(&of(&[(10, 4.0)])), None);
        assert_eq!(behind_sessions(&of(&[(100, 0.0)])), None);
    }
}
