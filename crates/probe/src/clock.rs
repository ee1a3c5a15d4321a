//! One clock for all readings of a run.

use std::time::{Duration, Instant};

use walwright_record::Timestamp;

/// The wall clock read once and advanced by the monotonic clock, so that
/// timestamps never step back inside a run.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Timestamp,
    at_origin: Instant,
}

impl Clock {
    /// Reads the wall clock now.
    pub fn start() -> Self {
        Clock { origin: Timestamp::now(), at_origin: Instant::now() }
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }

    /// The time at `moment`.
    pub fn at(&self, moment: Instant) -> Timestamp {
        match moment.checked_duration_since(self.at_origin) {
            Some(after) => self.origin.plus(after),
            None => Timestamp(
                self.origin.0.saturating_sub(micros(self.at_origin.duration_since(moment))),
            ),
        }
    }

    /// The time half way between two moments: the best guess for when a server
    /// read what it answered in between.
    pub(crate) fn between(&self, sent: Instant, received: Instant) -> Timestamp {
        self.at(sent + received.saturating_duration_since(sent) / 2)
    }
}

fn micros(of: Duration) -> i64 {
    i64::try_from(of.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_before_and_after_the_origin_keep_their_distance() {
        let at = Instant::now() + Duration::from_secs(10);
        let clock = Clock { origin: Timestamp(5_000_000), at_origin: at };
        assert_eq!(clock.at(at + Duration::from_millis(3)), Timestamp(5_003_000));
        assert_eq!(clock.at(at - Duration::from_millis(3)), Timestamp(4_997_000));
        assert_eq!(clock.between(at, at + Duration::from_millis(2)), Timestamp(5_001_000));
    }
}
