//! Values as they are typed: times and sizes.

use std::time::Duration;

/// The longest time that can be chosen.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// Parses `500us`, `20ms`, `30s`, `2m`, `1h`; a bare number means seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number
        .trim()
        .parse()
        .map_err(|_| format!("'{text}' is not a time: write 30s, 20ms or 2m"))?;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(format!("'{unit}' is not a unit of time: us, ms, s, m or h")),
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time <= LONGEST => Ok(time),
        _ => Err(format!("'{text}' is not a time that can be waited for; a year at most")),
    }
}

/// Parses `64GB`, `512MB`, `1.5TB`, as bytes.
pub(super) fn memory(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a size of memory: write 64GB or 512MB");
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let unit: f64 = match unit {
        "MB" | "M" => 1_048_576.0,
        "GB" | "G" => 1_073_741_824.0,
        "TB" | "T" => 1_099_511_627_776.0,
        _ => return Err(wrong()),
    };
    let bytes = number * unit;
    if (1_048_576.0..1e18).contains(&bytes) { Ok(bytes as u64) } else { Err(wrong()) }
}

/// A duration that is not zero.
pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("nothing can be measured in no time".to_owned()),
        time => Ok(time),
    }
}

/// Reads a share in percent, above 0 and below 100.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
    number
        .filter(|percent| *percent > 0.0 && *percent < 100.0)
        .ok_or_else(|| format!("'{text}' is no share in percent: write 3, for 3 %"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_above_nothing_and_below_all() {
        assert_eq!((percent("3"), percent("2.5 %")), (Ok(3.0), Ok(2.5)));
        for wrong in ["0", "-1", "100", "NaN", "inf", "three", ""] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        for wrong in ["", "s", "5 weeks", "-1s", "1e999s", "1e12h", "nan"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn memory_has_a_unit() {
        assert_eq!(memory("1.5GB"), Ok(1_610_612_736));
        for wrong in ["", "64", "GB", "-1GB", "1e30TB", "5 parsecs", "0MB"] {
            assert!(memory(wrong).is_err(), "{wrong}");
        }
    }
}
