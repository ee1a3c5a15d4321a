//! Times, with PostgreSQL's units.

use std::fmt;
use std::time::Duration;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use walwright_catalog::Unit;

/// Longer than any of these limits makes sense.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// A time as it is written: a number and a unit as PostgreSQL has them, or 0 for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub Option<Duration>);

impl std::str::FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Time, String> {
        let text = text.trim();
        if text == "0" {
            return Ok(Time(None));
        }
        let wrong = || {
            format!(
                "\"{text}\" is no time: write a number and a unit, as \"500ms\", \"120s\" or \"5min\"; 0 is no limit"
            )
        };
        let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(wrong)?;
        let (number, unit) = text.split_at(split);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let unit = unit.trim_start();
        let micros = match Unit::named(unit) {
            Some(Unit::Micros(micros)) if !unit.starts_with(|c: char| c.is_ascii_digit()) => micros,
            _ => return Err(format!("\"{unit}\" is no unit of time: us, ms, s, min, h or d")),
        };
        let nanos = number * micros * 1e3;
        let time = Duration::from_nanos(nanos.round() as u64);
        if time > LONGEST {
            return Err(format!("\"{text}\" is too long: a year at most, and 0 is no limit"));
        }
        Ok(Time(Some(time).filter(|time| !time.is_zero())))
    }
}

impl fmt::Display for Time {
    /// In the largest unit that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(time) = self.0 else { return f.write_str("0") };
        let micros = time.as_micros();
        let units = [
            (86_400_000_000, "d"),
            (3_600_000_000, "h"),
            (60_000_000, "min"),
            (1_000_000, "s"),
            (1_000, "ms"),
            (1, "us"),
        ];
        let whole = units.iter().find(|(size, _)| micros.is_multiple_of(*size));
        let (size, unit) = whole.unwrap_or(&(1, "us"));
        write!(f, "{}{unit}", micros / size)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Time, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Time;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time, as \"120s\" or \"5min\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Time, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Time, E> {
                match number {
                    0 => Ok(Time(None)),
                    _ => Err(E::custom(format!(
                        "{number} has no unit: write \"{number}s\" or \"{number}ms\""
                    ))),
                }
            }
        }
        from.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_written_as_postgresql_has_them() {
        let time = |text: &str| text.parse::<Time>();
        assert_eq!(time("120s"), Ok(Time(Some(Duration::from_secs(120)))));
        assert_eq!(time(" 1.5 min"), Ok(Time(Some(Duration::from_secs(90)))));
        assert_eq!(time("0"), Ok(Time(None)));
        assert_eq!(time("0ms"), Ok(Time(None)));
        for wrong in ["", "5", "s", "-1s", "5m", "5 MB", "1..2s", "367d", "1e9s", "5 8s"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_again(micros in 1_u64..100_000_000_000, zeros in 0_u32..6) {
            let time = Time(Some(Duration::from_micros(micros * 10_u64.pow(zeros))));
            prop_assume!(time.0.is_some_and(|time| time < LONGEST));
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }

        #[test]
        fn no_text_panics(text in "\\PC*", number in "[0-9.]{0,20}", unit in "[a-zA-Z0-9 ]{0,4}") {
            let _ = text.parse::<Time>();
            let _ = format!("{number}{unit}").parse::<Time>();
        }
    }
}
