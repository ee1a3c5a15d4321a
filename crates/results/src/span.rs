//! Lengths of time as tools print them: `44.62ms`, `704.27µs`, `1m0s`, `1.31m`.

use std::time::Duration;

/// A length of time: numbers, each with its unit at once or after a blank.
pub(crate) fn span(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let after = after.trim_start();
        let end = after.find(|c: char| c.is_ascii_digit() || c == ' ').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" | "sec" | "secs" => 1.0,
            "m" | "min" => 60.0,
            "h" | "hour" => 3_600.0,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * unit;
        rest = after.trim_start();
    }
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_all_tools_are_read() {
        for (text, micros) in [
            ("44.62ms", 44_620),
            ("482.58us", 482),
            ("704.27µs", 704),
            ("42.60s ", 42_600_000),
            ("1m0s", 60_000_000),
            ("1h2m3.5s", 3_723_500_000),
            ("0s", 0),
            ("0.0011 secs", 1_100),
            ("41 ms", 41_000),
        ] {
            assert_eq!(span(text).map(|s| s.as_micros()), Some(micros), "{text}");
        }
        for wrong in ["", "ms", "5", "5 parsecs", "-1s", "1..2s", "nan s", "1e3s"] {
            assert_eq!(span(wrong), None, "{wrong}");
        }
    }
}
