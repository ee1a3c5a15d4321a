//! Giving way to the server on a machine that both share.
//!
//! A thread that is woken may interrupt whoever runs on its processor. For a
//! load generator that is a server process in the middle of a statement, whose
//! next answer then comes later; both pay for the switch. A thread under
//! SCHED_BATCH waits until that process blocks, finds more answers waiting and
//! deals with them together: measured with 16 clients, it needs up to a third
//! less CPU at the same throughput.
//!
//! Where other programs keep the processors busy, waiting for them would cost
//! throughput that they should not have. So the thread watches how long it
//! waits for a processor, and stops giving way when that grows.
//!
//! In an open loop, with think time, or with few clients the thread acts as any
//! other: there the moment counts, not the cost.

use std::time::Duration;

use crate::plan::Arrival;
use crate::system::{give_way, thread_waits};

/// Fewer clients a thread leave nothing to deal with together.
const FEW_CLIENTS: usize = 4;
/// The longest mean wait for a processor that giving way is worth. With a busy
/// server alone on the machine it is well below a tenth of a millisecond.
const LONGEST_WAIT: Duration = Duration::from_micros(250);
/// Intervals of long waits after which a thread gives way no more.
const PATIENCE: u32 = 2;

/// Whether a thread gives way, and what that has cost it.
#[derive(Debug)]
pub(crate) struct Courtesy {
    giving_way: bool,
    /// Time waited and times run, when last looked at.
    before: (Duration, u64),
    long_waits: u32,
}

impl Courtesy {
    /// For the calling thread, which is to drive so many clients.
    pub(crate) fn new(arrival: Arrival, clients: usize) -> Self {
        let wanted = matches!(arrival, Arrival::Closed { think: None }) && clients >= FEW_CLIENTS;
        let before = if wanted { thread_waits() } else { None };
        give_way(before.is_some());
        Courtesy { giving_way: before.is_some(), before: before.unwrap_or_default(), long_waits: 0 }
    }

    /// Looks at what giving way has cost since the last look; `waits` is what
    /// [`thread_waits`] says now.
    pub(crate) fn look(&mut self, waits: Option<(Duration, u64)>) {
        if self.giving_way
            && let Some(after) = waits
            && self.has_had_enough(after)
        {
            give_way(false);
            self.giving_way = false;
        }
    }

    /// Takes in the waits so far; whether they have been long too often.
    fn has_had_enough(&mut self, after: (Duration, u64)) -> bool {
        let waited = after.0.saturating_sub(self.before.0);
        let times = after.1.saturating_sub(self.before.1);
        self.before = after;
        let long = waited > LONGEST_WAIT.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX));
        self.long_waits = if long { self.long_waits + 1 } else { 0 };
        self.long_waits >= PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gives_way_until_its_waits_are_long_twice_in_a_row() {
        let micros = Duration::from_micros;
        let mut courtesy = Courtesy { giving_way: true, before: (micros(0), 0), long_waits: 0 };
        let mut total = (micros(0), 0);
        let mut wait = |mean: u64| {
            total = (total.0 + micros(mean) * 1000, total.1 + 1000);
            courtesy.has_had_enough(total)
        };
        assert_eq!([50, 400, 50, 400, 400].map(&mut wait), [false, false, false, false, true]);
    }

    #[test]
    fn only_closed_loops_of_several_clients_give_way() {
        let closed = Arrival::Closed { think: None };
        let open = Arrival::Open { rate: 1.0, gaps: Default::default() };
        // On a thread of its own, since it changes the thread's policy.
        let gives_way = |arrival, clients| {
            std::thread::spawn(move || Courtesy::new(arrival, clients).giving_way).join().unwrap()
        };
        assert_eq!(gives_way(closed, 16), thread_waits().is_some());
        assert!(!gives_way(closed, 1));
        assert!(!gives_way(open, 16));
    }
}
