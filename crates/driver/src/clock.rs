//! The time of a load: monotonic, in nanoseconds since the load began, anchored
//! once to the wall clock.

use std::ops::Add;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use walwright_record::Timestamp;

/// A point in time, in nanoseconds since the load's origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    /// Time from `earlier` to this moment, in nanoseconds; zero if it is later.
    #[inline]
    pub(crate) fn nanos_since(self, earlier: Moment) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The same as a duration.
    pub(crate) fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    #[inline]
    fn add(self, by: Duration) -> Moment {
        Moment(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// The monotonic clock, in nanoseconds.
#[inline]
fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Tells moments, and their place on the wall clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// Of the monotonic clock, in nanoseconds.
    origin: u64,
    epoch: Timestamp,
}

impl Clock {
    /// A clock whose moment zero is now.
    pub(crate) fn start() -> Self {
        Clock { origin: monotonic(), epoch: Timestamp::now() }
    }

    #[inline]
    pub(crate) fn now(&self) -> Moment {
        Moment(monotonic().saturating_sub(self.origin))
    }

    /// The wall-clock time of a moment.
    pub(crate) fn timestamp(&self, at: Moment) -> Timestamp {
        self.epoch.plus(Duration::from_nanos(at.0))
    }

    /// The moment of a wall-clock time; the origin for an earlier one.
    pub(crate) fn moment(&self, at: Timestamp) -> Moment {
        Moment::default() + at.since(self.epoch)
    }
}
