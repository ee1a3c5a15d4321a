//! Durations in JSON as seconds, both ways: for `#[serde(with = "walwright_record::seconds")]`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de};

/// Writes a duration as a number of seconds.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(of: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(of.as_secs_f64())
}

/// Reads a number of seconds as a duration.
///
/// # Errors
/// Those of the deserializer, and for what no duration can be: negative, not finite, too large.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    duration(f64::deserialize(from)?).map_err(de::Error::custom)
}

/// Longer than anything that was measured: a hundred years.
const LONGEST: f64 = 3.2e9;

/// A duration that sums of can be taken of.
fn duration(seconds: f64) -> Result<Duration, String> {
    let duration = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if seconds > LONGEST { Err(format!("{seconds} s is longer than any")) } else { Ok(duration) }
}

/// Durations that may be unknown: seconds, or null.
pub mod option {
    use super::*;

    /// Writes a number of seconds, or null.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(
        of: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match of {
            Some(of) => super::serialize(of, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a number of seconds, or null.
    ///
    /// # Errors
    /// As above.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<f64>::deserialize(from)?;
        seconds.map(super::duration).transpose().map_err(de::Error::custom)
    }
}
