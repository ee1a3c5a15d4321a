//! What a worker counts.

use std::time::Duration;

use crate::unit::Unit;
use crate::{Histogram, Pin};

/// What was done for the clients of a pool. Times are microseconds. It belongs to its worker,
/// which counts in plain integers and copies them when it is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Times that a client was given a server session.
    pub assignments: u64,
    /// Transactions that ended.
    pub xacts: u64,
    /// Statements, or groups of them up to a Sync.
    pub queries: u64,
    /// Bytes that clients sent.
    pub received: u64,
    /// Bytes that clients were sent.
    pub sent: u64,
    /// Time in transactions.
    pub xact_time: u64,
    /// Clients' Parse messages.
    pub client_parses: u64,
    /// Parse messages to the server.
    pub server_parses: u64,
    /// Clients' Bind messages.
    pub binds: u64,
    /// Clients that were let in.
    pub logins: u64,
    /// From when a statement could have been sent until it was.
    pub queue_wait: Histogram,
    /// From when a statement was sent until it was answered.
    pub execution: Histogram,
    /// From when an answer arrived until the barrier that it waited for had returned.
    pub withheld: Histogram,
    /// Times that a client began to keep its session, by reason.
    pub pins: [u64; Pin::ALL.len()],
}

impl Stats {
    /// A statement is sent, perhaps after it waited for a session; `pin` is why its client keeps
    /// that from now on.
    pub fn sends(&mut self, unit: &Unit, waited: Option<Duration>, pin: Option<Pin>) {
        self.assignments += 1;
        self.queue_wait.record(waited.map_or(0, micros));
        let (parses, binds) = unit.parses_and_binds();
        self.client_parses += parses;
        self.binds += binds;
        if let Some(pin) = pin {
            self.pins[pin as usize] += 1;
        }
    }

    /// A statement was answered; `xact` is how long its transaction took, if that has ended.
    pub fn answered(&mut self, execution: Duration, xact: Option<Duration>) {
        self.queries += 1;
        self.execution.record(micros(execution));
        if let Some(time) = xact {
            self.xacts += 1;
            self.xact_time += micros(time);
        }
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Stats) {
        let pairs = [
            (&mut self.assignments, other.assignments),
            (&mut self.xacts, other.xacts),
            (&mut self.queries, other.queries),
            (&mut self.received, other.received),
            (&mut self.sent, other.sent),
            (&mut self.xact_time, other.xact_time),
            (&mut self.client_parses, other.client_parses),
            (&mut self.server_parses, other.server_parses),
            (&mut self.binds, other.binds),
            (&mut self.logins, other.logins),
        ];
        for (count, more) in pairs.into_iter().chain(self.pins.iter_mut().zip(other.pins)) {
            *count += more;
        }
        self.queue_wait.add(&other.queue_wait);
        self.execution.add(&other.execution);
        self.withheld.add(&other.withheld);
    }
}

/// What the barriers of a server did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BarrierStats {
    /// Answers that a barrier gave free.
    pub clients: Histogram,
    /// From when a barrier was sent until it returned.
    pub time: Histogram,
    /// Barrier sessions that were lost.
    pub lost: u64,
}

impl BarrierStats {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &BarrierStats) {
        self.clients.add(&other.clients);
        self.time.add(&other.time);
        self.lost += other.lost;
    }
}

/// Whole microseconds.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
