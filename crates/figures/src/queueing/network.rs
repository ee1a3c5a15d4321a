//! Clients in a closed loop over processors, WAL flushes, locks and waits.
//!
//! Approximate mean value analysis (Schweitzer 1979; Lazowska et al., "Quantitative System
//! Performance", chapter 6): a client finds the others at a station as they are on average.
//! Processors are shared, as the kernel's fair scheduler does. A WAL flush serves all commits
//! that wait when it begins, and who comes during a flush waits for its rest and for the next.
//! A lock is held while its transaction runs, so a shorter transaction holds it shorter.

use serde::Serialize;

use super::crowd::Crowd;

/// Steps after which an iteration that has not settled is taken as it is.
const MOST_STEPS: usize = 5_000;
/// Relative change of the latency below which it has settled.
const SETTLED: f64 = 1e-10;
/// Seconds below which a part is none.
const NEGLIGIBLE: f64 = 1e-12;
/// Part of each step that is taken: less swings where a lock or the processors are full.
const DAMPING: f64 = 0.3;

/// Where a transaction spends its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Station {
    /// Its backend on a processor.
    Cpu,
    /// Its backend waiting for a processor.
    RunQueue,
    /// Waiting for its WAL flush, its own or another session's.
    Flush,
    /// Waiting for heavyweight locks.
    Lock,
    /// Waiting for lightweight locks.
    Lwlock,
    /// Reading and writing data.
    Io,
    /// Waiting for a standby.
    Replication,
    /// Any other wait of its backend.
    Other,
    /// Its load generator, on a processor or waiting for one.
    Driver,
    /// walwright's gateway, on a processor or waiting for one.
    Gateway,
    /// The backend waits for its client.
    Client,
    /// Outside the server: network and client.
    Outside,
}

impl Station {
    /// For display, as the latency breakdown names it.
    pub fn label(self) -> &'static str {
        match self {
            Station::Cpu => "CPU",
            Station::RunQueue => "waiting for a processor",
            Station::Flush => "WAL flush and its queue",
            Station::Lock => "lock",
            Station::Lwlock => "LWLock",
            Station::Io => "data I/O",
            Station::Replication => "replication",
            Station::Other => "other",
            Station::Driver => "load generator",
            Station::Gateway => "gateway",
            Station::Client => "client",
            Station::Outside => "outside the server",
        }
    }
}

/// What a transaction takes of each station, and who offers transactions. Times are seconds of
/// one transaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Network {
    /// Clients, each of which has one transaction at a time.
    pub clients: f64,
    /// From the end of a client's transaction to the beginning of its next.
    pub think: f64,
    /// Work that shares the processors.
    pub processing: Processing,
    /// Waiting for WAL flushes.
    pub commits: Commits,
    /// Heavyweight locks: held until the end of the commit.
    pub lock: Serial,
    /// Lightweight locks: held by a process that runs, or would.
    pub lwlock: Serial,
    /// Threads of the load generator.
    pub driver: Option<Driver>,
    /// Waits that do not depend on the other clients.
    pub delays: Vec<Delay>,
    /// Transactions a second that the load generator can offer, where it is known.
    pub ceiling: Option<f64>,
    /// How the gateway gathers clients, where they reach the server through it.
    pub gathered: Option<Gathered>,
}

/// Clients that walwright's gateway gathers on a few sessions. One that waits for its flush has
/// none of them, and holds no locks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gathered {
    /// Seconds of a transaction that a heavyweight lock is held.
    pub lock: f64,
}

/// Processors and what runs on them for a transaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Processing {
    /// Processors; infinite where their number is not known.
    pub processors: f64,
    /// Processors that others keep busy.
    pub neighbours: f64,
    /// The backend.
    pub backend: Worker,
    /// The load generator on the same machine.
    pub driver: Worker,
    /// The gateway on the same machine.
    pub gateway: Worker,
    /// CPU that nobody waits for: the server's other processes, a foreign client's.
    pub behind: f64,
    /// Part by which work takes more CPU where it leaves all processors to others or idle: they
    /// must wake, and their caches are cold.
    pub idle_cost: f64,
    /// Part of all processors' time that was used when `delay` was seen, 0 to 1.
    pub busy_then: f64,
}

/// A process in a transaction's way.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Worker {
    /// CPU seconds where the processors are full.
    pub cpu: f64,
    /// Times the wait of fair sharing that it was seen to wait for a processor.
    pub crowding: f64,
    /// Wait for a processor that sharing does not explain, while as many processors are busy
    /// as were: a process that has been woken waits for the slice of another.
    pub delay: f64,
}

/// WAL flushes and the commits that wait for them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Commits {
    /// Seconds of one flush while no process waits for a processor.
    pub flush: f64,
    /// Seconds by which a flush is longer for each time that sharing the processors makes work
    /// longer: who flushes must run again to see its end.
    pub slowed: f64,
    /// Seconds by which it was longer since all processors were busy, beyond that.
    pub delayed: f64,
    /// Flushes that a transaction waits for, as two phases of waiting explain it.
    pub waits: f64,
}

impl Commits {
    /// Seconds until a commit is durable, by the others that wait for flushes and the time from
    /// one commit of a client to its next. If another flush is under way its rest comes before:
    /// half of it where commits come at any moment, nearly all where all come soon after the
    /// last flush has let them go.
    pub(super) fn wait(flush: f64, others: Crowd, between: f64) -> f64 {
        flush + others.any() * (flush - 0.5 * between.clamp(0.0, flush))
    }
}

/// Something that one transaction has at a time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Serial {
    /// Times the time that it may be held: below 1 where not every transaction wants the same.
    pub share: f64,
    /// Part of a transaction besides its commit in which it is held, 0 to 1.
    pub of_rest: f64,
    /// Part of the wait that is left, 0 to 1: less than 1 where a cause of it is taken away.
    pub left: f64,
}

impl Serial {
    /// Something that a transaction has from its beginning to its end.
    pub(super) fn whole() -> Serial {
        Serial { share: 1.0, of_rest: 1.0, left: 1.0 }
    }

    /// Seconds it is held in a transaction of this length, of which the commit is a part.
    pub(super) fn held(self, length: f64, commit: f64) -> f64 {
        self.share * self.holdable(length, commit)
    }

    fn holdable(self, length: f64, commit: f64) -> f64 {
        commit + self.of_rest * (length - commit).max(0.0)
    }

    /// The wait of one for whom the others, a part of all clients, have waited so long.
    fn wait(self, held: f64, rate: f64, others: f64, waited: f64) -> f64 {
        self.left * held * others * rate * (held + waited)
    }

    /// So held that each of `clients` waits this long for it.
    #[must_use]
    pub(super) fn waited_for(
        self,
        wait: f64,
        (length, commit): (f64, f64),
        clients: f64,
        rate: f64,
    ) -> Serial {
        // held × n × rate × (held + wait) = wait, of which n is the part of the others.
        let a = rate * (clients - 1.0).max(0.0) / clients;
        let holdable = self.holdable(length, commit);
        if wait <= 0.0 || a <= 0.0 || holdable <= 0.0 {
            return Serial { share: 0.0, ..self };
        }
        let held = (((a * wait).powi(2) + 4.0 * a * wait).sqrt() - a * wait) / (2.0 * a);
        Serial { share: held / holdable, ..self }
    }
}

/// The load generator's threads, each of which serves many clients.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Driver {
    /// Threads.
    pub threads: f64,
    /// Part of the wait for a thread that shows, 0 to 1.
    pub shown: f64,
}

/// A wait of the same length whoever else is there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Delay {
    /// Where.
    pub station: Station,
    /// Seconds.
    pub seconds: f64,
}

/// A network solved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Solution {
    /// Transactions a second.
    pub rate: f64,
    /// Mean latency in seconds.
    pub latency: f64,
    /// Seconds of a transaction at each station.
    pub parts: Vec<(Station, f64)>,
    /// Part of all processors' time that is used, 0 to 1, where their number is known.
    pub processors_busy: Option<f64>,
    /// Part of the time in which a flush runs, 0 to 1.
    pub flushing: f64,
    /// Part of the time in which a heavyweight lock is held, 0 to 1.
    pub locked: f64,
    /// Transactions a second that the processors allow, where that is known.
    pub processors_limit: Option<f64>,
}

/// The waits of a transaction while the iteration looks for them.
#[derive(Debug, Clone, Copy)]
struct Waits {
    /// By how much work takes longer since others share the processors, as a part of itself.
    stretch: f64,
    /// Times the CPU that work takes where the processors are full.
    effort: f64,
    /// Times the wait for a processor that sharing does not explain.
    slices: f64,
    commit: f64,
    lock: f64,
    lwlock: f64,
    thread: f64,
}

impl Network {
    /// Solves it.
    pub fn solve(&self) -> Solution {
        let alone = Waits {
            stretch: 0.0,
            effort: 1.0,
            slices: 1.0,
            commit: self.commits.waits * self.commits.flush,
            lock: 0.0,
            lwlock: 0.0,
            thread: 0.0,
        };
        let mut waits = alone;
        for _ in 0..MOST_STEPS {
            let next = waits.towards(&self.waits(&waits, self.rate(&waits)));
            // The rate may stand still at a limit while waits still grow.
            let (before, after) = (self.latency(&waits), self.latency(&next));
            waits = next;
            if (after - before).abs() <= SETTLED * after {
                break;
            }
        }
        self.solved(&waits)
    }

    /// Solves it for clients that begin so many transactions a second as long as one of them
    /// is free: an open loop.
    pub fn solve_at(&self, rate: f64) -> Solution {
        let at = |think: f64| Network { think, ..self.clone() }.solve();
        let full = at(0.0);
        if full.rate <= rate {
            return full;
        }
        let (mut low, mut high) = (0.0, self.clients / rate);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if at(middle).rate > rate { low = middle } else { high = middle }
        }
        at(high)
    }

    /// Seconds of a transaction that do not depend on the others.
    fn delays(&self) -> f64 {
        self.delays.iter().map(|delay| delay.seconds).sum()
    }

    fn latency(&self, waits: &Waits) -> f64 {
        self.length(waits) + waits.lock
    }

    /// Without the wait for heavyweight locks.
    fn length(&self, waits: &Waits) -> f64 {
        let occupied: f64 = self.occupied(waits).iter().sum();
        occupied + waits.commit + waits.lwlock + waits.thread + self.delays()
    }

    fn rate(&self, waits: &Waits) -> f64 {
        let rate = self.clients / (self.latency(waits) + self.think);
        rate.min(self.processing.limit()).min(self.ceiling.unwrap_or(f64::INFINITY))
    }

    /// The waits that follow where the others wait like this.
    fn waits(&self, waits: &Waits, rate: f64) -> Waits {
        let crowd = |seconds: f64| Crowd::new(self.clients, rate * seconds / self.clients);
        let others = (self.clients - 1.0).max(0.0) / self.clients;
        let processing = &self.processing;
        let [backend, driver, gateway] = self.occupied(waits);
        let background = processing.neighbours + rate * processing.behind * waits.effort;
        let Commits { flush, slowed, delayed, .. } = self.commits;
        let flush = flush + slowed * waits.stretch + delayed * waits.slices;
        let length = self.length(waits);
        let lwlock_held = self.lwlock.held(1.0 + waits.stretch, 0.0);
        let at = |there: f64| Bunched { rate, there, commit: waits.commit, length };
        Waits {
            stretch: at(backend + driver + gateway)
                .others(self.clients)
                .stretch(processing.processors, background),
            effort: processing.effort(rate, waits.effort),
            slices: processing.slices(rate, waits.effort),
            commit: self.commits.waits
                * Commits::wait(flush, crowd(waits.commit), length - waits.commit + self.think),
            lock: self.lock.wait(self.lock_held(waits), rate, others, waits.lock),
            lwlock: self.lwlock.wait(lwlock_held, rate, others, waits.lwlock),
            thread: self.thread_wait(at(driver + waits.thread), driver),
        }
    }

    /// Seconds of a transaction that its backend, its load generator and the gateway run or wait
    /// to.
    fn occupied(&self, waits: &Waits) -> [f64; 3] {
        let Processing { backend, driver, gateway, .. } = &self.processing;
        [backend, driver, gateway].map(|worker| worker.time(waits))
    }

    /// Seconds that a heavyweight lock is held.
    fn lock_held(&self, waits: &Waits) -> f64 {
        match self.gathered {
            None => self.lock.held(self.length(waits), waits.commit),
            Some(gathered) => gathered.lock,
        }
    }

    /// What a client waits while its thread works for another.
    pub(super) fn thread_wait(&self, of: Bunched, work: f64) -> f64 {
        let Some(threads) = self.driver else { return 0.0 };
        threads.shown * work * of.others(self.clients).stretch(threads.threads, 0.0)
    }

    fn solved(&self, waits: &Waits) -> Solution {
        let rate = self.rate(waits);
        let processing = &self.processing;
        let [backend, driver, gateway] = self.occupied(waits);
        let cpu = processing.backend.cpu * waits.effort;
        let committing = Crowd::new(self.clients + 1.0, rate * waits.commit / self.clients);
        let mut parts = vec![
            (Station::Cpu, cpu),
            (Station::RunQueue, backend - cpu),
            (Station::Flush, waits.commit),
            (Station::Lock, waits.lock),
            (Station::Lwlock, waits.lwlock),
            (Station::Driver, driver + waits.thread),
            (Station::Gateway, gateway),
        ];
        parts.extend(self.delays.iter().map(|delay| (delay.station, delay.seconds)));
        // A limit that is reached makes clients wait before it.
        let latency = (self.clients / rate - self.think).max(self.latency(waits));
        let queued = latency - self.latency(waits);
        let limit = processing.limit();
        let at = if rate >= limit { Station::RunQueue } else { Station::Driver };
        parts.iter_mut().filter(|(station, _)| *station == at).for_each(|part| part.1 += queued);
        parts.retain(|(_, seconds)| *seconds > NEGLIGIBLE);
        let is_known = processing.processors.is_finite();
        Solution {
            rate,
            latency,
            parts,
            processors_busy: is_known.then(|| processing.busy(rate, waits.effort)),
            flushing: if waits.commit > 0.0 { committing.any() } else { 0.0 },
            locked: (rate * self.lock_held(waits)).min(1.0),
            processors_limit: Some(limit).filter(|limit| limit.is_finite()),
        }
    }
}

/// What tells how many of the other clients are at a station when one of them is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bunched {
    /// Transactions a second.
    pub(super) rate: f64,
    /// Seconds of a transaction at the station.
    pub(super) there: f64,
    /// Seconds of a transaction that wait for its flush.
    pub(super) commit: f64,
    /// Seconds of a transaction without the wait for heavyweight locks.
    pub(super) length: f64,
}

impl Bunched {
    /// The others. Clients whose commits one flush made durable begin their next transactions
    /// together, and meet elsewhere more often than others.
    pub(super) fn others(self, clients: f64) -> Crowd {
        let others = (clients - 1.0).max(0.0);
        let apart = self.rate * self.there / clients;
        let active = (self.length - self.commit).max(self.there);
        if others <= 0.0 || active <= 0.0 {
            return Crowd::new(clients, apart);
        }
        // Who waits for a flush waits for one and a half of them.
        let together = (self.rate * self.commit / 1.5 - 1.0).clamp(0.0, others);
        let chance = together * self.there / active + (others - together) * apart;
        Crowd::new(clients, chance / others)
    }
}

impl Processing {
    /// CPU seconds of a transaction where the processors are full, whoever uses them.
    pub fn demand(&self) -> f64 {
        self.backend.cpu + self.driver.cpu + self.gateway.cpu + self.behind
    }

    /// Transactions a second that the processors allow. Neighbours give way to at least half.
    pub fn limit(&self) -> f64 {
        let left = self.processors - self.neighbours.min(0.5 * self.processors);
        let demand = self.demand();
        if demand > 0.0 { left / demand } else { f64::INFINITY }
    }

    /// Part of all processors' time that is used, 0 to 1.
    fn busy(&self, rate: f64, effort: f64) -> f64 {
        ((self.neighbours + rate * self.demand() * effort) / self.processors).min(1.0)
    }

    /// Times the wait for a processor that sharing does not explain: a process that has been
    /// woken waits where it finds all of them busy. It is not predicted to grow: where few were
    /// busy, most of it is the time that an idle processor takes to wake.
    fn slices(&self, rate: f64, effort: f64) -> f64 {
        if !self.processors.is_finite() || self.busy_then <= 0.0 {
            return 1.0;
        }
        (self.busy(rate, effort) / self.busy_then).min(1.0).powf(self.processors)
    }

    /// Times the CPU that work takes where it fills the processors itself. A neighbour that
    /// keeps them busy keeps their caches no warmer.
    fn effort(&self, rate: f64, before: f64) -> f64 {
        let own = (rate * self.demand() * before / self.processors).min(1.0);
        1.0 + self.idle_cost * (1.0 - own)
    }
}

impl Worker {
    /// From its first moment to its last, where sharing makes work so much longer.
    fn time(self, waits: &Waits) -> f64 {
        let shared = self.cpu * waits.effort * (1.0 + self.crowding * waits.stretch);
        shared + self.delay * waits.slices
    }
}

impl Waits {
    fn towards(&self, next: &Waits) -> Waits {
        let step = |from: f64, to: f64| from + DAMPING * (to - from);
        Waits {
            stretch: step(self.stretch, next.stretch),
            effort: step(self.effort, next.effort),
            slices: step(self.slices, next.slices),
            commit: step(self.commit, next.commit),
            lock: step(self.lock, next.lock),
            lwlock: step(self.lwlock, next.lwlock),
            thread: step(self.thread, next.thread),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients that compute for 1 ms, flush for 1 ms and are outside for 1 ms.
    fn network(clients: f64, processors: f64) -> Network {
        Network {
            clients,
            think: 0.0,
            processing: Processing {
                processors,
                neighbours: 0.0,
                backend: Worker { cpu: 1e-3, crowding: 1.0, delay: 0.0 },
                driver: Worker::default(),
                gateway: Worker::default(),
                behind: 0.0,
                idle_cost: 0.0,
                busy_then: 0.0,
            },
            commits: Commits { flush: 1e-3, waits: 1.0, ..Commits::default() },
            lock: Serial::default(),
            lwlock: Serial::default(),
            driver: None,
            delays: vec![Delay { station: Station::Outside, seconds: 1e-3 }],
            ceiling: None,
            gathered: None,
        }
    }

    #[test]
    fn one_client_waits_for_nobody() {
        let solution = network(1.0, 2.0).solve();
        assert!((solution.latency - 3e-3).abs() < 1e-9, "{solution:?}");
        assert!((solution.rate - 1_000.0 / 3.0).abs() < 1e-3);
    }

    #[test]
    fn many_clients_reach_what_the_processors_allow_and_no_more() {
        for clients in [64.0, 500.0] {
            let solution = network(clients, 2.0).solve();
            assert!(solution.rate <= 2_000.0 + 1e-6 && solution.rate > 1_900.0, "{solution:?}");
            assert!(solution.processors_busy > Some(0.95));
            let sum: f64 = solution.parts.iter().map(|(_, seconds)| seconds).sum();
            assert!((sum / solution.latency - 1.0).abs() < 1e-3, "{solution:?}");
        }
    }

    /// Machine repair with one processor, exact by recursion over the number of clients.
    #[test]
    fn one_processor_is_near_exact_mean_value_analysis() {
        let mut network = network(1.0, 1.0);
        network.commits = Commits::default();
        let (mut queue, mut exact) = (0.0, 0.0);
        for clients in 1..=20 {
            let residence = 1e-3 * (1.0 + queue);
            exact = f64::from(clients) / (residence + 1e-3);
            queue = exact * residence;
            network.clients = f64::from(clients);
            let rate = network.solve().rate;
            assert!((rate / exact - 1.0).abs() < 0.12, "{clients}: {rate} of {exact}");
        }
        assert!((network.solve().rate / exact - 1.0).abs() < 0.02);
    }

    #[test]
    fn a_flush_serves_all_who_wait() {
        let mut network = network(100.0, 1_000.0);
        network.processing.backend.cpu = 1e-5;
        let latency = |of: &Network| of.solve().latency - 1.01e-3;
        // A flush and half of the one before: 1.5 ms for everybody.
        assert!((latency(&network) - 1.5e-3).abs() < 2e-5, "{}", latency(&network));
        // Who comes back at once has just missed the next.
        network.delays[0].seconds = 0.0;
        assert!((latency(&network) + 1e-3 - 1.99e-3).abs() < 2e-5, "{}", latency(&network));
    }

    #[test]
    fn a_lock_that_all_want_lets_one_through_at_a_time() {
        let mut network = network(50.0, 1_000.0);
        network.lock = Serial { share: 1.0, of_rest: 0.4, left: 1.0 };
        let solution = network.solve();
        // Held through the flush and 0.4 of 2 ms: 1.8 to 2.3 ms.
        assert!(solution.locked > 0.95 && solution.rate < 560.0, "{solution:?}");
        // Half the flush: the lock is held shorter by as much.
        network.commits.flush = 0.5e-3;
        let faster = network.solve();
        assert!(faster.rate > 1.25 * solution.rate, "{} {}", faster.rate, solution.rate);
    }

    #[test]
    fn a_lock_is_so_held_that_it_makes_wait_what_was_seen() {
        let any = Serial { share: 0.0, of_rest: 0.5, left: 1.0 };
        let serial = any.waited_for(2e-3, (5e-3, 1e-3), 16.0, 1_000.0);
        let wait = serial.wait(serial.held(5e-3, 1e-3), 1_000.0, 15.0 / 16.0, 2e-3);
        assert!((wait - 2e-3).abs() < 1e-12, "{wait}");
    }

    #[test]
    fn work_takes_less_where_the_processors_are_full() {
        let mut network = network(1.0, 2.0);
        network.processing.idle_cost = 1.0;
        let alone = network.solve();
        network.clients = 64.0;
        let crowded = network.solve();
        let cpu = |of: &Solution| of.parts.iter().find(|(at, _)| *at == Station::Cpu).unwrap().1;
        assert!((cpu(&crowded) - 1e-3).abs() < 1e-5, "{crowded:?}");
        assert!(cpu(&alone) > 1.6e-3, "{alone:?}");
    }

    #[test]
    fn an_open_loop_has_its_rate_or_is_full() {
        let network = network(64.0, 2.0);
        let open = network.solve_at(500.0);
        assert!((open.rate - 500.0).abs() < 1e-3, "{open:?}");
        assert!(open.latency < network.solve().latency);
        let full = network.solve_at(5_000.0);
        assert!(full.rate <= 2_000.0 + 1e-6);
    }
}
