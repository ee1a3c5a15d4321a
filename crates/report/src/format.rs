//! How figures are written: one place for every rendering.
//!
//! Three significant digits unless more are exact, a thin unit after a space,
//! commas between thousands. Bytes count in powers of 1024 under the names
//! PostgreSQL uses (`kB`, `MB`, `GB`), so that a figure compares with a setting.

use std::time::Duration;

use walwright_record::Timestamp;
use walwright_stats::Estimate;

/// What is written where a figure cannot be known.
pub const NOT_OBSERVABLE: &str = "not observable";

/// A number with three significant digits, thousands separated: `0.43`, `12.3`, `5,312`.
///
/// Whole parts are never rounded away: 5312.4 is `5,312`.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    let decimals = decimals(size);
    let text = format!("{size:.decimals$}");
    // Only a figure that rounds to zero loses its sign.
    let sign =
        if value < 0.0 && text.bytes().any(|b| matches!(b, b'1'..=b'9')) { "−" } else { "" };
    format!("{sign}{}", group(&text))
}

/// Decimals that leave three significant digits, at most two below ten.
fn decimals(size: f64) -> usize {
    match size {
        s if s == 0.0 || s >= 99.95 => 0,
        s if s >= 9.995 => 1,
        _ => 2,
    }
}

/// Puts commas between thousands of the whole part.
fn group(text: &str) -> String {
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::with_capacity(text.len() + whole.len() / 3);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// A count, exact: `1,234,567`.
pub fn count(value: u64) -> String {
    group(&value.to_string())
}

/// A number rounded to a whole one: `5,312`.
pub(crate) fn whole(value: f64) -> String {
    let text = group(&format!("{:.0}", value.abs()));
    if value <= -0.5 { format!("−{text}") } else { text }
}

/// A count that need not be exact, shortened from a million on: `1.23 M`.
pub fn about(value: f64) -> String {
    match value.abs() {
        s if s >= 999.5e6 => format!("{} G", number(value / 1e9)),
        s if s >= 999.5e3 => format!("{} M", number(value / 1e6)),
        _ => number(value),
    }
}

/// Events a second: `5,312/s`.
pub fn rate(per_second: f64) -> String {
    format!("{}/s", about(per_second))
}

/// Things a second: `5,312 commits/s`.
pub fn rate_of(per_second: f64, what: &str) -> String {
    format!("{} {what}/s", about(per_second))
}

/// A latency: `85 µs`, `0.43 ms`, `12.3 ms`, `1.2 s`.
pub fn latency(value: Duration) -> String {
    seconds(value.as_secs_f64())
}

/// A time given in seconds, as [`latency`] writes it.
pub fn seconds(value: f64) -> String {
    let unit = TimeUnit::of(value);
    format!("{} {}", number(value / unit.seconds()), unit.name())
}

/// A stretch of time as a person says it: `45 s`, `10 min`, `1 h 5 min`.
pub fn length(value: Duration) -> String {
    let total = value.as_secs_f64();
    if total < 10.0 {
        return seconds(total);
    }
    let whole = total.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    let parts: &[(u64, &str)] = match whole {
        0..120 => &[(whole, "s")],
        120..3600 => &[(minutes, "min"), (rest, "s")],
        _ => &[(hours, "h"), (minutes, "min")],
    };
    let said: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n} {unit}")).collect();
    said.join(" ")
}

/// A point on a time axis: `0:07`, `12:30`, `1:02:30`, `-0:05`.
pub fn clock(seconds: f64) -> String {
    let whole = seconds.round().abs() as u64;
    let sign = if seconds.round() < 0.0 { "−" } else { "" };
    match whole / 3600 {
        0 => format!("{sign}{}:{:02}", whole / 60, whole % 60),
        hours => format!("{sign}{hours}:{:02}:{:02}", whole / 60 % 60, whole % 60),
    }
}

/// Bytes in powers of 1024: `312 B`, `8.4 kB`, `1.2 GB`.
pub fn bytes(value: f64) -> String {
    let unit = ByteUnit::of(value);
    let value = value / unit.bytes();
    // One decimal is what a size is read to.
    if value.fract() != 0.0 && (0.05..99.95).contains(&value.abs()) && unit != ByteUnit::B {
        let sign = if value < 0.0 { "−" } else { "" };
        format!("{sign}{:.1} {}", value.abs(), unit.name())
    } else {
        format!("{} {}", whole(value), unit.name())
    }
}

/// Bytes a second: `8.4 MB/s`.
pub fn byte_rate(per_second: f64) -> String {
    format!("{}/s", bytes(per_second))
}

/// A share of one as a percentage: `12.3 %`, `<0.1 %`, `100 %`.
pub fn percent(share: f64) -> String {
    let size = (share * 100.0).abs();
    let sign = if share < 0.0 { "−" } else { "" };
    match size {
        s if !s.is_finite() => "–".to_owned(),
        s if s > 0.0 && s < 0.1 => format!("{sign}<0.1 %"),
        0.0 => "0 %".to_owned(),
        // A ratio to next to nothing: that it is large is all it tells.
        s if s >= MOST_PERCENT => format!("beyond {sign}{} %", whole(MOST_PERCENT)),
        s if s >= 99.95 => format!("{sign}{} %", whole(s)),
        s => format!("{sign}{s:.1} %"),
    }
}

/// Percent from which a share is only called large.
const MOST_PERCENT: f64 = 100_000.0;

/// The name of a percentile given in percent: `p50`, `p99.9`.
pub fn percentile_name(percent: f64) -> String {
    format!("p{percent}")
}

/// An estimate with its interval: `5,312 ± 41/s`, or both ends where the
/// interval does not lie evenly around the centre: `5,312 (5,240 to 5,350)/s`.
///
/// `unit` follows the figures as it is, with its own space if it wants one.
pub fn estimate(of: &Estimate, unit: &str) -> String {
    let center = number(of.center);
    let Some(interval) = of.interval else { return format!("{center}{unit}") };
    let (below, above) = (of.center - interval.low, interval.high - of.center);
    let even = (below - above).abs() <= 0.1 * (below + above);
    if even {
        // The half-width is written as finely as the centre.
        let decimals = decimals(of.center.abs());
        let half_width = interval.half_width();
        let text = group(&format!("{half_width:.decimals$}"));
        format!("{center} ± {text}{unit}")
    } else {
        format!("{center} ({} to {}){unit}", number(interval.low), number(interval.high))
    }
}

/// A moment in UTC: `2026-11-20 23:50:12 UTC`.
pub fn moment(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.0)
        .map(|t| t.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
        .unwrap_or_else(|_| "an impossible moment".to_owned())
}

/// `1 error`, `2 errors`, `1,200 errors`.
pub fn counted(count_of: u64, singular: &str) -> String {
    let plural = match count_of {
        1 => "",
        _ if singular.ends_with(['s', 'x']) || singular.ends_with("sh") => "es",
        _ => "s",
    };
    format!("{} {singular}{plural}", count(count_of))
}

/// A unit of time for latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    Micros,
    Millis,
    Seconds,
}

impl TimeUnit {
    /// The unit in which a time is read most easily.
    pub(crate) fn of(seconds: f64) -> TimeUnit {
        match seconds.abs() {
            0.0 => TimeUnit::Millis,
            s if s < 99.95e-6 => TimeUnit::Micros,
            s if s < 0.9995 => TimeUnit::Millis,
            _ => TimeUnit::Seconds,
        }
    }

    pub(crate) fn seconds(self) -> f64 {
        match self {
            TimeUnit::Micros => 1e-6,
            TimeUnit::Millis => 1e-3,
            TimeUnit::Seconds => 1.0,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            TimeUnit::Micros => "µs",
            TimeUnit::Millis => "ms",
            TimeUnit::Seconds => "s",
        }
    }
}

/// A unit of size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteUnit {
    B,
    KB,
    MB,
    GB,
    TB,
}

impl ByteUnit {
    /// The unit in which a size is read most easily.
    pub(crate) fn of(bytes: f64) -> ByteUnit {
        match bytes.abs() {
            s if s < 1023.5 => ByteUnit::B,
            s if s < 1023.5 * 1024.0 => ByteUnit::KB,
            s if s < 1023.5 * 1048576.0 => ByteUnit::MB,
            s if s < 1023.5 * 1073741824.0 => ByteUnit::GB,
            _ => ByteUnit::TB,
        }
    }

    pub(crate) fn bytes(self) -> f64 {
        match self {
            ByteUnit::B => 1.0,
            ByteUnit::KB => 1024.0,
            ByteUnit::MB => 1048576.0,
            ByteUnit::GB => 1073741824.0,
            ByteUnit::TB => 1099511627776.0,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            ByteUnit::B => "B",
            ByteUnit::KB => "kB",
            ByteUnit::MB => "MB",
            ByteUnit::GB => "GB",
            ByteUnit::TB => "TB",
        }
    }
}

#[cfg(test)]
mod tests {
    use walwright_stats::{Confidence, Interval, Method};

    use super::*;

    #[test]
    fn numbers_keep_three_digits_and_whole_parts() {
        for (value, text) in [
            (0.0, "0"),
            (0.434, "0.43"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (12.34, "12.3"),
            (99.96, "100"),
            (5312.4, "5,312"),
            (1_234_567.0, "1,234,567"),
            (-1234.0, "−1,234"),
            (-0.001, "0.00"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number(value), text, "{value}");
        }
    }

    #[test]
    fn times_choose_their_unit() {
        for (micros, text) in [
            (0, "0 ms"),
            (85, "85.0 µs"),
            (100, "0.10 ms"),
            (430, "0.43 ms"),
            (12_340, "12.3 ms"),
            (999_600, "1.00 s"),
            (1_234_000, "1.23 s"),
            (61_000_000, "61.0 s"),
        ] {
            assert_eq!(latency(Duration::from_micros(micros)), text, "{micros}");
        }
    }

    #[test]
    fn stretches_are_said_as_a_person_does() {
        for (secs, text) in [
            (45, "45 s"),
            (119, "119 s"),
            (600, "10 min"),
            (605, "10 min 5 s"),
            (3900, "1 h 5 min"),
        ] {
            assert_eq!(length(Duration::from_secs(secs)), text);
        }
        assert_eq!(length(Duration::from_millis(1500)), "1.50 s");
    }

    #[test]
    fn clocks_count_minutes_and_hours() {
        assert_eq!(clock(7.2), "0:07");
        assert_eq!(clock(750.0), "12:30");
        assert_eq!(clock(3750.0), "1:02:30");
        assert_eq!(clock(-5.0), "−0:05");
        assert_eq!(clock(-0.2), "0:00");
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        for (value, text) in [
            (0.0, "0 B"),
            (312.0, "312 B"),
            (8.4 * 1024.0, "8.4 kB"),
            (1024.0 * 1024.0, "1 MB"),
            (64.0 * 1048576.0, "64 MB"),
            (1536.0 * 1024.0, "1.5 MB"),
            (1023.9 * 1024.0, "1.0 MB"),
            (312.4 * 1048576.0, "312 MB"),
        ] {
            assert_eq!(bytes(value), text, "{value}");
        }
    }

    #[test]
    fn shares_do_not_vanish() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.0004), "<0.1 %");
        assert_eq!(percent(0.123), "12.3 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(481_571_428_571.0), "beyond 100,000 %");
        assert_eq!(percent(-0.021), "−2.1 %");
    }

    #[test]
    fn an_even_interval_is_written_as_plus_minus() {
        let even = Estimate::symmetric(5312.3, 41.2, Confidence::P95, Method::BatchMeans);
        assert_eq!(estimate(&even, "/s"), "5,312 ± 41/s");
        let mut uneven = even.clone();
        uneven.interval = Some(Interval { low: 5200.0, high: 5330.0 });
        assert_eq!(estimate(&uneven, "/s"), "5,312 (5,200 to 5,330)/s");
        let mut unknown = even;
        unknown.interval = None;
        assert_eq!(estimate(&unknown, "/s"), "5,312/s");
    }

    #[test]
    fn a_moment_is_utc() {
        assert_eq!(moment(Timestamp(1_700_000_000_000_000)), "2023-11-14 22:13:20 UTC");
        assert_eq!(moment(Timestamp(i64::MAX)), "an impossible moment");
    }

    #[test]
    fn one_is_not_plural() {
        assert_eq!(counted(1, "error"), "1 error");
        assert_eq!(counted(1200, "error"), "1,200 errors");
    }
}
