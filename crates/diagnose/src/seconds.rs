//! Durations in JSON: seconds as a number.

use std::time::Duration;

use serde::Serializer;

/// Serializes a duration as seconds.
pub(crate) fn serialize<S: Serializer>(of: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(of.as_secs_f64())
}

/// Durations that may be unknown: seconds, or null.
pub(crate) mod option {
    use std::time::Duration;

    use serde::Serializer;

    pub(crate) fn serialize<S: Serializer>(
        of: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match of {
            Some(of) => super::serialize(of, serializer),
            None => serializer.serialize_none(),
        }
    }
}

/// A duration from seconds that were computed; `None` when negative, not finite or too large.
pub(crate) fn duration(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}
