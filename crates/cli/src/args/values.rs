//! Values as they are typed: times and sizes.

use std::time::Duration;

/// Reads a duration; it needs its unit.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    walwright_workload::parse_duration(text)
}

/// Reads a duration that is not zero, a bare number as seconds: `-T 5`, as pgbench's.
pub(super) fn seconds_or_time(text: &str) -> Result<Duration, String> {
    let bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if bare { some_time(&format!("{text}s")) } else { some_time(text) }
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
    fn only_where_pgbench_has_it_so_a_bare_number_is_seconds() {
        assert_eq!(seconds_or_time("5"), Ok(Duration::from_secs(5)));
        assert_eq!(seconds_or_time("5m"), Ok(Duration::from_secs(300)));
        for wrong in ["", "0", "0s", "-5", "5.", "five"] {
            assert!(seconds_or_time(wrong).is_err(), "{wrong}");
        }
        assert!(duration("5").is_err() && some_time("5").is_err());
    }

    #[test]
    fn memory_has_a_unit() {
        assert_eq!(memory("1.5GB"), Ok(1_610_612_736));
        for wrong in ["", "64", "GB", "-1GB", "1e30TB", "5 parsecs", "0MB"] {
            assert!(memory(wrong).is_err(), "{wrong}");
        }
    }
}
