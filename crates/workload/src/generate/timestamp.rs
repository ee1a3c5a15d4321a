//! Timestamps: evenly spaced, or uniform between two.

use crate::duration::parse_nonzero;
use crate::manifest::TimestampEntry;
use crate::script::{Rng, write_int};

/// Timestamps in UTC, in microseconds since 1970.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Timestamps {
    from: i64,
    kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// Row 1 is `from`; each further row is this much later.
    Every(u64),
    /// Uniform from `from` to this.
    Until(i64),
}

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
/// 9999-12-31 23:59:59.999999.
const LAST: i64 = 253_402_300_799_999_999;

impl Timestamps {
    pub(crate) fn from_entry(entry: &TimestampEntry) -> Result<Timestamps, String> {
        let from = micros(&entry.from).map_err(|message| format!("timestamp, from: {message}"))?;
        let kind = match (&entry.every, &entry.to) {
            (Some(every), None) => {
                let every = parse_nonzero(every)
                    .map_err(|message| format!("timestamp, every: {message}"))?;
                Kind::Every(u64::try_from(every.as_micros()).unwrap_or(u64::MAX))
            }
            (None, Some(to)) => {
                let to = micros(to).map_err(|message| format!("timestamp, to: {message}"))?;
                if to < from {
                    return Err("timestamp: to is earlier than from".into());
                }
                Kind::Until(to)
            }
            _ => {
                return Err(
                    "timestamp: it needs either every (a duration between rows) or to (the last possible time)".into(),
                );
            }
        };
        Ok(Timestamps { from, kind })
    }

    /// Checks that the last row is still in the calendar.
    pub(crate) fn check(&self, rows: u64) -> Result<(), String> {
        match self.kind {
            Kind::Every(step) if self.at(step, rows) > i128::from(LAST) => {
                Err(format!("timestamp: with {rows} rows the last would be after the year 9999"))
            }
            _ => Ok(()),
        }
    }

    fn at(&self, step: u64, row: u64) -> i128 {
        i128::from(self.from) + i128::from(step) * i128::from(row.saturating_sub(1))
    }

    pub(crate) fn write(&self, row: u64, rng: &mut Rng, out: &mut Vec<u8>) {
        let micros = match self.kind {
            // `check` has made sure that it fits.
            Kind::Every(step) => self.at(step, row) as i64,
            Kind::Until(to) => self.from + rng.range_u64(0, (to - self.from) as u64) as i64,
        };
        write_timestamp(micros, out);
    }
}

/// A TOML date and time; a time without offset is UTC.
fn micros(datetime: &toml::value::Datetime) -> Result<i64, String> {
    let Some(date) = datetime.date else {
        return Err(format!("{datetime} has no date"));
    };
    let days = days_from_civil(date.year.into(), date.month.into(), date.day.into());
    let (seconds, nanos) = datetime.time.map_or((0, 0), |time| {
        let second = i64::from(time.second.unwrap_or(0));
        let minutes = i64::from(time.hour) * 60 + i64::from(time.minute);
        (minutes * 60 + second, i64::from(time.nanosecond.unwrap_or(0)))
    });
    let offset_minutes = match datetime.offset {
        Some(toml::value::Offset::Custom { minutes }) => i64::from(minutes),
        _ => 0,
    };
    let seconds = days * SECONDS_PER_DAY + seconds - offset_minutes * 60;
    Ok(seconds * MICROS_PER_SECOND + nanos / 1000)
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar, by the usual
/// count from March, which puts the leap day last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

fn write_timestamp(micros: i64, out: &mut Vec<u8>) {
    let seconds = micros.div_euclid(MICROS_PER_SECOND);
    let fraction = micros.rem_euclid(MICROS_PER_SECOND);
    let (year, month, day) = civil_from_days(seconds.div_euclid(SECONDS_PER_DAY));
    let second = seconds.rem_euclid(SECONDS_PER_DAY);
    write_padded(year, 4, out);
    out.push(b'-');
    write_padded(month, 2, out);
    out.push(b'-');
    write_padded(day, 2, out);
    out.push(b' ');
    write_padded(second / 3600, 2, out);
    out.push(b':');
    write_padded(second / 60 % 60, 2, out);
    out.push(b':');
    write_padded(second % 60, 2, out);
    if fraction > 0 {
        out.push(b'.');
        write_padded(fraction, 6, out);
    }
    out.extend_from_slice(b"+00");
}

fn write_padded(value: i64, width: usize, out: &mut Vec<u8>) {
    let mut digits = 1;
    let mut limit = 10;
    while digits < width && value >= limit {
        digits += 1;
        limit *= 10;
    }
    out.resize(out.len() + width - digits, b'0');
    write_int(value, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(datetime: &str) -> String {
        let mut out = Vec::new();
        write_timestamp(micros(&datetime.parse().unwrap()).unwrap(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn timestamps_come_back_as_they_were_written() {
        for (given, expected) in [
            ("2025-01-01T00:00:00Z", "2025-01-01 00:00:00+00"),
            ("2024-02-29T23:59:59.000123Z", "2024-02-29 23:59:59.000123+00"),
            ("2000-03-01T00:30:00+01:00", "2000-02-29 23:30:00+00"),
            ("1969-12-31T23:59:59.5Z", "1969-12-31 23:59:59.500000+00"),
            ("0001-01-01", "0001-01-01 00:00:00+00"),
            ("9999-12-31T23:59:59.999999Z", "9999-12-31 23:59:59.999999+00"),
        ] {
            assert_eq!(text(given), expected);
        }
        assert_eq!(micros(&"9999-12-31T23:59:59.999999Z".parse().unwrap()), Ok(LAST));
    }

    #[test]
    fn every_day_of_eight_centuries_converts_both_ways() {
        for days in -150_000..150_000 {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }

    #[test]
    fn rows_are_evenly_spaced_and_stay_in_the_calendar() {
        let timestamps = Timestamps { from: 0, kind: Kind::Every(1_500_000) };
        let mut out = Vec::new();
        timestamps.write(3, &mut Rng::from_seed(1), &mut out);
        assert_eq!(out, b"1970-01-01 00:00:03+00");
        assert_eq!(timestamps.check(1_000_000), Ok(()));
        assert!(timestamps.check(u64::MAX).is_err());
    }
}
