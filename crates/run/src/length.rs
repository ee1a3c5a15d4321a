//! Lengths of time as plans write them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A length of time: `500us`, `20ms`, `30s`, `2m`, `1h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "String")]
pub struct Length(pub Duration);

/// A length as a file has it: with its unit, or a number that lacks one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bare(f64),
}

/// Units, the smallest first, in nanoseconds.
const UNITS: [(&str, u128); 5] = [
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Length, String> {
        walwright_workload::parse_duration(text).map(Length)
    }
}

impl fmt::Display for Length {
    /// In the largest unit that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let whole = |(_, unit): &(&str, u128)| nanos.is_multiple_of(*unit) && nanos >= *unit;
        match UNITS.into_iter().rev().find(whole) {
            Some((name, unit)) => write!(f, "{}{name}", nanos / unit),
            None => write!(f, "{}us", nanos as f64 / 1e3),
        }
    }
}

impl TryFrom<Written> for Length {
    type Error = String;

    fn try_from(written: Written) -> Result<Length, String> {
        match written {
            Written::Text(text) => text.parse(),
            Written::Bare(number) => {
                Err(format!("{number} has no unit: write \"{number}s\" or \"{number}ms\""))
            }
        }
    }
}

impl From<Length> for String {
    fn from(length: Length) -> String {
        length.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_units_and_are_written_as_they_are_read() {
        for text in ["500us", "20ms", "30s", "2m", "1h", "1500ms", "90s"] {
            assert_eq!(text.parse::<Length>().unwrap().to_string(), text);
        }
        assert_eq!("0.5 ms".parse::<Length>().unwrap().to_string(), "500us");
        assert_eq!("0s".parse::<Length>().unwrap().to_string(), "0us");
        for wrong in ["", "30", "s", "-1s", "5 weeks", "1e999s", "9000h", "5000000000000000h"] {
            assert!(wrong.parse::<Length>().is_err(), "{wrong}");
        }
        let bare = serde_json::from_str::<Length>("30").unwrap_err().to_string();
        assert!(bare.contains("30 has no unit: write \"30s\""), "{bare}");
        assert_eq!(
            serde_json::from_str::<Length>("\"30s\"").unwrap(),
            Length(Duration::from_secs(30))
        );
    }
}
