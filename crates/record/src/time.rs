//! Points and stretches of time in a record.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Microseconds since 1970-01-01 00:00 UTC.
///
/// Producers read the wall clock once and advance it with the monotonic clock,
/// so that timestamps inside a run never step back.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The wall clock now.
    pub fn now() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp(micros(since_epoch))
    }

    /// This moment plus `by`.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Timestamp(self.0.saturating_add(micros(by)))
    }

    /// This moment less `by`.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Timestamp(self.0.saturating_sub(micros(by)))
    }

    /// Time from `earlier` to this moment; zero if `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Seconds from `origin`, negative before it. For axes of plots.
    pub fn seconds_from(self, origin: Timestamp) -> f64 {
        self.0.saturating_sub(origin.0) as f64 / 1e6
    }
}

fn micros(of: Duration) -> i64 {
    i64::try_from(of.as_micros()).unwrap_or(i64::MAX)
}

/// A half-open stretch of time, `start` included, `end` not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// First moment inside.
    pub start: Timestamp,
    /// First moment after.
    pub end: Timestamp,
}

impl Window {
    /// Length of the window.
    pub fn length(&self) -> Duration {
        self.end.since(self.start)
    }

    /// Whether `at` lies inside.
    pub fn contains(&self, at: Timestamp) -> bool {
        self.start <= at && at < self.end
    }
}
