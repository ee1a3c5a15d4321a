//! Durations as text: `20ms`, `0.5 s`, `2m`. One grammar for command line, plans and workloads.

use std::time::Duration;

/// The longest duration: sums of some millions of them still fit a [`Duration`].
const LONGEST_NANOS: f64 = 366.0 * 86_400e9;

/// Reads a number and its unit: us, ms, s, m or min, h, d.
///
/// # Errors
/// For all else, and for more than a year.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("\"{text}\" is not a duration: write a number and a unit, as 20ms, 30s or 2m");
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(wrong)?;
    let (number, unit) = trimmed.split_at(split);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let nanos = match unit.trim_start() {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        "d" => 86_400e9,
        unit => return Err(format!("'{unit}' is not a unit of time: us, ms, s, m, h or d")),
    };
    let nanos = number * nanos;
    if nanos > LONGEST_NANOS {
        return Err(format!("\"{text}\" is too long: a year at most"));
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// Reads a duration as [`parse_duration`] does, and not zero.
pub(crate) fn parse_nonzero(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err(format!("\"{text}\" is no time at all")),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        assert_eq!(parse_duration("0.5 ms"), Ok(Duration::from_micros(500)));
        assert_eq!(parse_duration(" 2 min "), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        assert!(parse_nonzero("0 s").is_err());
        let (no_number, no_unit) = (["", "s", ".s", "nan", "1..2 s"], ["5", "1 year", "5 weeks"]);
        let beyond = ["-1s", "+1s", "1e3s", "367d", "9000h", "99999999999999999999h"];
        for wrong in no_number.iter().chain(&no_unit).chain(&beyond) {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn whole_numbers_of_a_unit_are_exact(
            count in 0u64..8784,
            (name, nanos) in prop::sample::select(vec![
                ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("m", 60_000_000_000),
                ("min", 60_000_000_000), ("h", 3_600_000_000_000u64),
            ]),
            space in " {0,2}",
        ) {
            let read = parse_duration(&format!("{space}{count}{space}{name}{space}"));
            prop_assert_eq!(read, Ok(Duration::from_nanos(count * nanos)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = parse_duration(&text);
        }
    }
}
