//! Durations as seconds: in JSON as records have them, and from what was computed.

use std::time::Duration;

pub use walwright_record::seconds::{option, serialize};

/// A duration from seconds that were computed; `None` when negative, not finite or too large.
pub fn duration(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}
