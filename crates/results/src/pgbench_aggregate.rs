//! pgbench's log of aggregates.
//!
//! Up to 14: `interval_start num_transactions sum_latency sum_latency_2 min_latency
//! max_latency [sum_lag sum_lag_2 min_lag max_lag [skipped]]`. From 15 all columns are
//! always there, zero where they mean nothing, and after `skipped` come `retried
//! retries serialization_failures deadlock_failures`; some versions put their sum before the
//! last two, newer ones other SQL failures after them (documentation of pgbench,
//! "Aggregated Logging", and `logAgg` of its source). Times are microseconds.
//! Percentiles cannot be known from these.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::time::Duration;

use walwright_record::{
    ClientDetail, ClientUnit, LatencySums, LoadInterval, ScriptInterval, Timestamp,
};

use crate::collect::{MOST_SECONDS, TOO_MANY_SECONDS};
use crate::line::{Source, whole_lines};
use crate::results::empty_log;
use crate::{Results, ResultsError};

/// No interval holds more transactions.
const MOST: f64 = 1e15;

pub(crate) fn read(source: Source<'_>, from: impl BufRead) -> Result<Results, ResultsError> {
    let mut rows: Vec<Row> = Vec::new();
    let cut_off = whole_lines(source, from, |number, text| {
        if rows.len() > MOST_SECONDS {
            return Err(source.line(number, TOO_MANY_SECONDS));
        }
        rows.push(row(text).ok_or_else(|| {
            source.line(number, "expected 'start count Σlatency Σlatency² min max …', all numbers")
        })?);
        Ok(())
    })?;
    let starts: BTreeSet<i64> = rows.iter().map(|row| row.start).collect();
    let Some((first, last)) = starts.first().copied().zip(starts.last().copied()) else {
        return Err(ResultsError::Empty { file: source.file.to_owned() });
    };
    let pairs = starts.iter().zip(starts.iter().skip(1));
    let Some(length) = pairs.map(|(a, b)| b - a).min() else {
        return Err(source.whole(
            "it holds one interval only, so how long that was is not known: use a shorter --aggregate-interval",
        ));
    };
    let length = Duration::from_secs(length.unsigned_abs());
    let mut intervals: BTreeMap<i64, LoadInterval> = BTreeMap::new();
    let mut log = empty_log(source, ClientDetail::Intervals);
    let mut good = 0_u64;
    for row in &rows {
        good = row.count.saturating_add(good);
        for (kind, count) in &row.failures {
            let sum = log.failures.entry((*kind).to_owned()).or_default();
            *sum = sum.saturating_add(*count);
        }
        // An interval is there once: what several would say of it is one thing.
        intervals.insert(row.start, row.interval(length));
    }
    log.first = Some(Timestamp(first.saturating_mul(1_000_000)));
    log.last = Some(Timestamp(last.saturating_mul(1_000_000)).plus(length));
    log.succeeded = Some(good);
    log.notes.push(format!(
        "it holds sums over {:.0} s: rates and means are known, percentiles are not",
        length.as_secs_f64()
    ));
    if cut_off {
        log.notes.push("its last line is cut off and was left out".to_owned());
    }
    Ok(Results {
        log,
        unit: ClientUnit::Transaction,
        operations: vec!["all scripts".to_owned()],
        intervals: intervals.into_values().collect(),
    })
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    /// Seconds since 1970.
    start: i64,
    count: u64,
    /// Microseconds, as all times of a line.
    sum: f64,
    squares: f64,
    min: f64,
    max: f64,
    lag_sum: f64,
    skipped: u64,
    retried: u64,
    retries: u64,
    failures: BTreeMap<&'static str, u64>,
}

fn row(text: &str) -> Option<Row> {
    let columns: Vec<f64> = text
        .split_ascii_whitespace()
        .map(|word| word.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0))
        .collect::<Option<_>>()?;
    let counts = columns.iter().skip(10).chain(columns.get(1));
    if columns.len() < 6 || columns[0] > 1e11 || counts.into_iter().any(|n| *n > MOST) {
        return None;
    }
    let at = |place: usize| columns.get(place).copied().unwrap_or(0.0);
    let count = |place: usize| at(place) as u64;
    let (a, b, c) = (count(13), count(14), count(15));
    let kinds = match columns.len() {
        0..=14 => vec![("failed", a)],
        15 => vec![("40001", a), ("40P01", b)],
        // The sum stands before its parts, and alone where they are not told apart.
        _ if a == b.saturating_add(c) => vec![("40001", b), ("40P01", c)],
        _ if b == 0 && c == 0 => vec![("failed", a)],
        _ => vec![("40001", a), ("40P01", b), ("SQL error", c)],
    };
    Some(Row {
        start: columns[0] as i64,
        count: count(1),
        sum: at(2),
        squares: at(3),
        min: at(4),
        max: at(5),
        lag_sum: at(6),
        skipped: count(10),
        retried: count(11),
        retries: count(12),
        failures: kinds.into_iter().filter(|(_, count)| *count > 0).collect(),
    })
}

impl Row {
    fn interval(&self, length: Duration) -> LoadInterval {
        let micros = |value: f64| Duration::try_from_secs_f64(value / 1e6).ok();
        let some = |value: f64| if self.count > 0 { micros(value) } else { None };
        // Throttled transactions have lags; how each of them was is not told, so their
        // mean is in the latency and no histogram of lags can be given.
        let throttled = self.lag_sum > 0.0;
        let script = ScriptInterval {
            transactions: self.count,
            failures: self.failures.iter().map(|(k, n)| ((*k).to_owned(), *n)).collect(),
            retried: self.retried,
            retries: (self.retries > 0)
                .then(|| ("40001 or 40P01".to_owned(), self.retries))
                .into_iter()
                .collect(),
            sums: Some(LatencySums {
                seconds: self.sum / 1e6,
                squares: Some(self.squares / 1e12),
                min: some(self.min),
                max: some(self.max),
            }),
            ..ScriptInterval::default()
        };
        let flying = self.sum / 1e6 / length.as_secs_f64();
        LoadInterval {
            start: Timestamp(self.start.saturating_mul(1_000_000)),
            length,
            scripts: vec![script],
            clients: flying.ceil() as u32,
            due: if throttled { self.count.saturating_add(self.skipped) } else { 0 },
            skipped: self.skipped,
            ..LoadInterval::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    fn results(text: &str) -> Result<Results, ResultsError> {
        let source = Source { file: "agg", format: Format::PgbenchAggregate };
        read(source, text.as_bytes())
    }

    #[test]
    fn lines_of_all_versions_are_read() {
        // 14; 15 and later; with other SQL failures; the documentation's own example.
        for (line, failures) in [
            ("1649114136 5815 27552565 177846919143 1078 21716", vec![]),
            ("1649114136 5815 27552565 177846919143 1078 21716 0 0 0 0 0 0 0 3 1", vec![3, 1]),
            ("1649114136 5815 27552565 177846919143 1078 21716 0 0 0 0 0 0 0 3 1 9", vec![3, 1, 9]),
            (
                "1649114136 5815 27552565 177846919143 1078 21716 2756 7264696105 0 9661 0 7854 31472 4022 4022 0",
                vec![4_022],
            ),
        ] {
            let row = row(line).unwrap();
            let found: Vec<u64> = row.failures.values().copied().collect();
            assert_eq!(found, failures, "{line}");
            assert_eq!(row.count, 5_815);
        }
    }

    #[test]
    fn means_are_known_and_percentiles_are_not() {
        let log = "1795132800 100 500000 3000000000 1000 9000\n\
                   1795132805 200 800000 4000000000 900 8000\n\
                   1795132810 0 0 0 0 0\n";
        let results = results(log).unwrap();
        assert_eq!(results.intervals.len(), 3);
        assert_eq!(results.intervals[0].length, Duration::from_secs(5));
        assert_eq!(results.log.last, Some(Timestamp(1_795_132_815_000_000)));
        let script = &results.intervals[0].scripts[0];
        assert_eq!(script.latency_sum(), (100, 0.5));
        assert!(script.latency.is_empty());
        assert_eq!(results.intervals[2].scripts[0].sums.unwrap().max, None);
    }

    #[test]
    fn one_interval_alone_has_no_length() {
        let error = results("1795132800 100 500000 3000000000 1000 9000\n").unwrap_err();
        assert!(error.to_string().contains("shorter --aggregate-interval"));
    }
}
