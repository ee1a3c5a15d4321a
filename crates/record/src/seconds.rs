//! Durations in JSON as seconds, both ways.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de};

pub(crate) fn serialize<S: Serializer>(of: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(of.as_secs_f64())
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(de::Error::custom)
}

/// Durations that may be unknown: seconds, or null.
pub(crate) mod option {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        of: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match of {
            Some(of) => super::serialize(of, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<f64>::deserialize(from)?;
        seconds.map(Duration::try_from_secs_f64).transpose().map_err(de::Error::custom)
    }
}
