//! When a barrier is sent: at once, or a little later.
//!
//! Clients whom a barrier has released write again at once, just too late for a barrier that is
//! sent the moment the one before returns: two crowds take turns then, and each waits for two
//! flushes. Where flushes are long, the next barrier waits a part of one for those who may come
//! back, and is sent as soon as they have. What it covers is decided when it is sent, so nothing
//! here can release an answer too early.

use std::time::{Duration, Instant};

/// A flush that is shorter is not worth waiting for anybody.
const LONG_FLUSH: Duration = Duration::from_micros(500);
/// Barriers that are sent at once after one that waited for nobody.
const SKIPS: u32 = 16;

/// The pace of the barriers of one session.
#[derive(Debug, Default)]
pub struct Pace {
    /// How long a barrier takes, smoothed.
    flush: Duration,
    /// Whom the last barrier released.
    released: usize,
    /// Who waited for the next one when it returned.
    waited: usize,
    /// Until when the next one may wait.
    until: Option<Instant>,
    /// How many are still sent at once.
    skips: u32,
}

impl Pace {
    /// A barrier returned.
    pub fn returned(&mut self, now: Instant, took: Duration, released: usize, waiting: usize) {
        self.flush = if self.flush.is_zero() { took } else { (self.flush * 7 + took) / 8 };
        (self.released, self.waited) = (released, waiting);
        self.until = None;
        if self.skips > 0 {
            self.skips -= 1;
        } else if self.flush >= LONG_FLUSH && released > 0 {
            self.until = Some(now + self.flush * 3 / 4);
        }
    }

    /// Whether the next barrier may be sent, where so many wait for it.
    pub fn may_send(&mut self, now: Instant, waiting: usize) -> bool {
        let Some(until) = self.until else { return true };
        let came = waiting.saturating_sub(self.waited);
        if now < until && came < self.released {
            return false;
        }
        self.until = None;
        if came * 4 < self.released {
            self.skips = SKIPS;
        }
        true
    }

    /// When it may be sent in any case.
    pub fn due(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLUSH: Duration = Duration::from_millis(2);

    #[test]
    fn a_barrier_waits_for_those_whom_the_last_one_released_and_no_longer() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        assert!(pace.may_send(now, 1), "nothing is known of anybody");
        pace.returned(now, FLUSH, 30, 20);
        assert!(!pace.may_send(now, 20));
        assert!(!pace.may_send(now, 49));
        assert!(pace.may_send(now, 50), "all are back");
        pace.returned(now, FLUSH, 30, 20);
        let due = pace.due().unwrap();
        assert!(!pace.may_send(now, 40));
        assert!(pace.may_send(due, 40), "or their time is over");
        pace.returned(now, FLUSH, 1, 0);
        assert!(pace.may_send(now, 1), "one alone never waits");
    }

    #[test]
    fn where_nobody_comes_back_few_barriers_wait() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let mut waits = 0;
        for _ in 0..170 {
            pace.returned(now, FLUSH, 10, 5);
            if let Some(due) = pace.due() {
                waits += 1;
                assert!(pace.may_send(due, 6));
            }
        }
        assert_eq!(waits, 10);
    }

    #[test]
    fn short_flushes_are_waited_for_by_nobody() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        pace.returned(now, Duration::from_micros(200), 30, 20);
        assert!(pace.may_send(now, 20));
    }
}
