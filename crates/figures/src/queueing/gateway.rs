//! A network whose clients reach the server through walwright's gateway.
//!
//! A commit that waits for its flush holds neither locks nor a session there, and one flush is
//! under way at a time for all. A few sessions execute what many clients send: they hardly
//! contend for locks, and where each statement is a transaction of its own several follow each
//! other without a switch of processes. The gateway itself takes CPU for every statement.

use super::Network;
use super::network::{Gathered, Solution, Station, Worker};

/// What the gateway takes and spares, as `walwright run --gateway` showed it on virtual
/// processors beside the same run without it (`docs/reference/prediction.md`).
struct Cost {
    /// CPU seconds of the gateway for a statement and its answer.
    gateway: f64,
    /// Part of its CPU that a backend still takes, besides what contention makes of it.
    backend: f64,
    /// The same of the load generator.
    driver: f64,
}

/// Statements that are transactions of their own: where many clients send them, a system call
/// carries several. With the least gain, as expected, and with the most.
const SINGLE: [Cost; 3] = [
    Cost { gateway: 12e-6, backend: 0.5, driver: 1.0 },
    Cost { gateway: 7e-6, backend: 0.35, driver: 0.6 },
    Cost { gateway: 5e-6, backend: 0.25, driver: 0.5 },
];
/// Statements of longer transactions: each is sent and answered alone.
const SEVERAL: [Cost; 3] = [
    Cost { gateway: 26e-6, backend: 1.25, driver: 1.0 },
    Cost { gateway: 19e-6, backend: 1.0, driver: 1.0 },
    Cost { gateway: 14e-6, backend: 0.85, driver: 1.0 },
];
/// Part of its CPU that a transaction of several statements spares of what contention for locks
/// makes of it: its sessions are fewer, but may still be as many as the pool has.
const SPARED: f64 = 0.5;
/// Part of a transaction in which it holds its locks.
const HELD: f64 = 0.5;
/// Statements of a transaction up to which it counts as one.
const ONE: f64 = 1.5;

/// What a load sends through the gateway.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThroughGateway {
    /// Statements of a transaction.
    pub statements: f64,
    /// Part of the time that contended locks are held in which their holders wait for their
    /// flush, 0 to 1, where that was seen: with the gateway they go sooner by no more.
    pub holders_committing: Option<f64>,
}

impl ThroughGateway {
    /// The network with the gateway in between: with the least that it may gain, as it is
    /// expected, and with the most. `now` is the network's solution.
    pub fn put(self, network: &Network, now: &Solution) -> [Network; 3] {
        let costs = if self.is_single() { SINGLE } else { SEVERAL };
        costs.map(|cost| self.with(network, now, &cost))
    }

    /// Part of the latency that waits for flushes, its own or that of who holds a lock, 0 to 1.
    pub fn waits_for_flushes(self, now: &Solution) -> f64 {
        let [flush, lock] = [Station::Flush, Station::Lock].map(|station| seconds(now, station));
        (flush + lock * self.of_commits(now)) / now.latency
    }

    fn is_single(self) -> bool {
        self.statements < ONE
    }

    fn with(self, network: &Network, now: &Solution, cost: &Cost) -> Network {
        let mut network = network.clone();
        let contended = (seconds(now, Station::Lock) + seconds(now, Station::Lwlock)) / now.latency;
        let spared = if self.is_single() { contended } else { SPARED * contended };
        let left = cost.backend * (1.0 - spared);
        let processing = &mut network.processing;
        processing.backend.cpu *= left;
        processing.backend.delay *= left.min(1.0);
        processing.driver.cpu *= cost.driver;
        processing.gateway =
            Worker { cpu: cost.gateway * self.statements, crowding: 1.0, delay: 0.0 };
        let executing = HELD * processing.backend.cpu;
        network.gathered =
            Some(Gathered { lock: self.lock(now, executing, network.processing.gateway.cpu) });
        network.lwlock.left = 0.0;
        // Reads wait for what they may have seen, so every transaction waits once.
        network.commits.waits = if network.commits.waits > 0.0 { 1.0 } else { 0.0 };
        network
    }

    /// Seconds of a transaction that a lock is held without its flush. `executing` is what a
    /// statement alone holds one, `passing` what the gateway takes for a transaction.
    fn lock(self, now: &Solution, executing: f64, passing: f64) -> f64 {
        let held = now.locked / now.rate;
        let commit = seconds(now, Station::Flush);
        // Of a lock that not every transaction wants, so much is the flush's part.
        let whole = held.max(commit + executing);
        let rest = whole * (1.0 - self.most_of_commits(commit / whole));
        // Who waits asleep for a lock has to be woken; a statement behind another on the same
        // session finds it free.
        let rest = match self.is_single() {
            true => rest.min(executing),
            false => rest + HELD * passing,
        };
        held / whole * rest
    }

    /// Part of the time in which locks are held that is their holders' commits.
    fn of_commits(self, now: &Solution) -> f64 {
        let held = now.locked / now.rate;
        let share = if held > 0.0 { (seconds(now, Station::Flush) / held).min(1.0) } else { 0.0 };
        self.most_of_commits(share)
    }

    /// A part of that time, where their holders were not seen to commit less.
    fn most_of_commits(self, share: f64) -> f64 {
        self.holders_committing.map_or(share, |seen| share.min(seen))
    }
}

fn seconds(of: &Solution, station: Station) -> f64 {
    of.parts.iter().filter(|(at, _)| *at == station).map(|(_, seconds)| seconds).sum()
}

#[cfg(test)]
mod tests {
    use super::super::{Commits, Processing, Serial};
    use super::*;

    /// 64 clients on four processors, 50 µs of CPU each, flushes of 2 ms.
    fn network(lock: Serial) -> Network {
        Network {
            clients: 64.0,
            think: 0.0,
            processing: Processing {
                processors: 4.0,
                neighbours: 0.0,
                backend: Worker { cpu: 5e-5, crowding: 1.0, delay: 0.0 },
                driver: Worker::default(),
                gateway: Worker::default(),
                behind: 0.0,
                idle_cost: 0.0,
                busy_then: 0.0,
            },
            commits: Commits { flush: 2e-3, waits: 1.0, ..Commits::default() },
            lock,
            lwlock: Serial::default(),
            driver: None,
            delays: Vec::new(),
            ceiling: None,
            gathered: None,
        }
    }

    fn through(statements: f64, holders_committing: Option<f64>) -> ThroughGateway {
        ThroughGateway { statements, holders_committing }
    }

    fn rates(network: &Network) -> (f64, [f64; 3]) {
        let now = network.solve();
        let through = through(1.0, None).put(network, &now);
        (now.rate, through.map(|network| network.solve().rate))
    }

    #[test]
    fn no_lock_is_held_for_a_flush() {
        let hot = network(Serial { share: 1.0, of_rest: 0.5, left: 1.0 });
        let (direct, [least, expected, most]) = rates(&hot);
        // One commit after the other, each with its flush.
        assert!(direct < 510.0, "{direct}");
        assert!(least > 20.0 * direct && least < expected && expected < most, "{least} {most}");
        // And still every answer waits for a flush.
        assert!(expected < 64.0 / hot.commits.flush);
        assert!(through(1.0, None).waits_for_flushes(&hot.solve()) > 0.9);
    }

    #[test]
    fn commits_that_share_their_flushes_already_gain_nothing() {
        let (direct, [_, expected, _]) = rates(&network(Serial::default()));
        assert!((expected / direct - 1.0).abs() < 0.05, "{expected} of {direct}");
        let alone = Network { clients: 1.0, ..network(Serial::default()) };
        let (direct, [_, expected, _]) = rates(&alone);
        assert!((expected / direct - 1.0).abs() < 0.05, "{expected} of {direct}");
    }

    #[test]
    fn a_lock_goes_sooner_by_what_its_holders_wait_for_flushes() {
        let hot = network(Serial { share: 1.0, of_rest: 0.5, left: 1.0 });
        let now = hot.solve();
        let [most, half, none] = [Some(1.0), Some(0.5), Some(0.0)].map(|seen| {
            let through = through(4.0, seen);
            let [_, expected, _] = through.put(&hot, &now);
            (expected.solve().rate / now.rate, through.waits_for_flushes(&now))
        });
        assert!(most.0 > 2.0 * half.0 && half.0 > 1.5 * none.0, "{most:?} {half:?} {none:?}");
        assert!(none.0 < 1.1 && none.1 < 0.1 && most.1 > 0.9, "{most:?} {none:?}");
    }
}
