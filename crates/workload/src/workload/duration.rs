//! Durations in `workload.toml`: `"0.5 ms"`.

use std::time::Duration;

/// Reads a number and a unit (us, ms, s, min, h, d).
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "\"{text}\" is not a duration; write a number and a unit (us, ms, s, min, h or d), as in \"0.5 ms\""
        )
    };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(wrong)?;
    let (number, unit) = trimmed.split_at(split);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit.trim() {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(number * seconds)
        .ok()
        .filter(|duration| !duration.is_zero())
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        assert_eq!(parse_duration("0.5 ms"), Ok(Duration::from_micros(500)));
        assert_eq!(parse_duration("10us"), Ok(Duration::from_micros(10)));
        assert_eq!(parse_duration(" 2 min "), Ok(Duration::from_secs(120)));
        for bad in ["", "5", "ms", "1 year", "-1 s", "0 s", "1e400 s", "1..2 s"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
