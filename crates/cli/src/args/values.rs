//! Values as they are typed: times and sizes.

use std::time::Duration;

use walwright_figures::limit::Limit;
use walwright_record::Timestamp;
use walwright_run::MemorySize;

/// Reads a duration; it needs its unit.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    walwright_workload::parse_duration(text)
}

/// Reads a duration that is not zero, a bare number as seconds: `-T 5`, as pgbench's.
pub(super) fn seconds_or_time(text: &str) -> Result<Duration, String> {
    let bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if bare { some_time(&format!("{text}s")) } else { some_time(text) }
}

/// Reads an amount of memory, as bytes.
pub(super) fn memory(text: &str) -> Result<u64, String> {
    text.parse::<MemorySize>().map(|size| size.0)
}

/// A duration that is not zero.
pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("the time must be longer than zero".to_owned()),
        time => Ok(time),
    }
}

/// Reads a limit on one run.
pub(super) fn limit(text: &str) -> Result<Limit, String> {
    match text.parse::<Limit>().map_err(|error| error.to_string())? {
        limit if limit.of_change => {
            Err("change(…) needs two runs: use it with walwright compare".to_owned())
        }
        limit => Ok(limit),
    }
}

/// Reads a moment: so long ago, or a date with or without a time, in UTC.
pub(super) fn since(text: &str) -> Result<Timestamp, String> {
    if let Ok(ago) = duration(text) {
        return Ok(Timestamp(Timestamp::now().0 - ago.as_micros() as i64));
    }
    date(text).ok_or_else(|| {
        format!(
            "'{text}' is not a time: write an age such as 2h or 3d, or a date such as 2026-11-23"
        )
    })
}

/// A date with or without a time, in UTC.
fn date(text: &str) -> Option<Timestamp> {
    let moment = text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(jiff::tz::TimeZone::UTC);
    Some(Timestamp(moment.ok()?.timestamp().as_microsecond()))
}

/// Where on the timeline of a run something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// So long after the beginning of the timeline, as plots count it.
    Into(Duration),
    /// By the clock.
    At(Timestamp),
}

/// Reads where on a timeline something is: so long after its begin, or a time in UTC.
pub(super) fn moment(text: &str) -> Result<Moment, String> {
    let into = duration(text).ok().map(Moment::Into);
    into.or_else(|| date(text).map(Moment::At)).ok_or_else(|| {
        format!(
            "'{text}' is no place on a timeline: write 33s for 33 seconds after its begin, or a \
             time in UTC such as 2026-11-23T14:30:05"
        )
    })
}

/// Reads what a person says of a run in one line, of so many letters at most.
pub(super) fn one_line<const MOST: usize>(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.chars().any(char::is_control) {
        return Err("it must be one line of text".to_owned());
    }
    if text.chars().count() > MOST {
        return Err(format!("it has {MOST} letters at most"));
    }
    Ok(text.to_owned())
}

/// Reads a share in percent, above 0 and below 100.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
    number
        .filter(|percent| *percent > 0.0 && *percent < 100.0)
        .ok_or_else(|| format!("'{text}' is not a percentage: write 3 for 3 %"))
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
    fn a_moment_is_a_date_or_so_long_ago() {
        assert_eq!(since("2023-11-14"), Ok(Timestamp(1_699_920_000_000_000)));
        assert_eq!(since("2023-11-14T22:13:20"), Ok(Timestamp(1_700_000_000_000_000)));
        assert_eq!(since("2023-11-14 22:13"), Ok(Timestamp(1_699_999_980_000_000)));
        let (two_hours, now) = (since("2h").unwrap().0, Timestamp::now().0);
        assert!((0..60_000_000).contains(&(now - two_hours - 7_200_000_000)));
        for wrong in ["", "yesterday", "2h ago", "2023-13-01", "5"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_place_on_a_timeline_is_a_length_or_a_date() {
        assert_eq!(moment("33s"), Ok(Moment::Into(Duration::from_secs(33))));
        let at = moment("2023-11-14T22:13:20");
        assert_eq!(at, Ok(Moment::At(Timestamp(1_700_000_000_000_000))));
        assert!(moment("33").is_err() && moment("noon").is_err());
    }

    #[test]
    fn what_is_said_of_a_run_is_one_line() {
        assert_eq!(one_line::<4>(" ab "), Ok("ab".to_owned()));
        assert!(one_line::<4>("a\nb").is_err() && one_line::<4>("abcde").is_err());
    }
}
