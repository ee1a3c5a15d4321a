//! How far counters went inside a window.

use std::collections::BTreeMap;
use std::time::Duration;

use walwright_record::{Record, Row, Sample, Source, Timestamp, Window};

use crate::Blind;

/// What a source counted between its first and last sample inside a window.
///
/// Both ends are samples, never extrapolated: whoever divides by work must count
/// the work between the same two moments ([`Difference::from`], [`Difference::to`]), and
/// where sessions add late, the work that was added ([`work_counted`](crate::work_counted)).
#[derive(Debug, Clone)]
pub struct Difference {
    source: Source,
    /// Moment of the first sample.
    pub from: Timestamp,
    /// Moment of the last sample.
    pub to: Timestamp,
    /// One entry for each row of the last sample.
    pub rows: Vec<RowDifference>,
}

/// One row at both ends.
#[derive(Debug, Clone)]
pub struct RowDifference {
    first: Option<Row>,
    /// The row at the end, for its names and gauges.
    pub last: Row,
}

impl RowDifference {
    /// Whether `column` is a number at both ends.
    fn is_known(&self, column: &str) -> bool {
        let first = self.first.as_ref().is_none_or(|row| row.number(column).is_some());
        first && self.last.number(column).is_some()
    }

    /// How far `column` went; `None` when it is not there at both ends or went
    /// back. A row that appeared in between counts from zero.
    pub fn delta(&self, column: &str) -> Option<f64> {
        let last = self.last.number(column)?;
        let first = match &self.first {
            Some(row) => row.number(column)?,
            None => 0.0,
        };
        (last >= first).then_some(last - first)
    }
}

impl RowDifference {
    /// How far went what `counter` makes of the row; `None` when it is unknown at
    /// either end or went back. A row that appeared in between counts from zero.
    pub fn moved(&self, counter: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
        let last = counter(&self.last)?;
        let first = self.first.as_ref().map_or(Some(0.0), &counter)?;
        (last >= first).then_some(last - first)
    }
}

impl Difference {
    /// What was read.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Time between the two samples.
    pub fn length(&self) -> Duration {
        self.to.since(self.from)
    }

    /// Sum of `column` over all rows that have it.
    ///
    /// # Errors
    /// When no row has it, or a row's counter went back.
    pub fn sum(&self, column: &str) -> Result<f64, Blind> {
        self.sum_where(column, |_| true)
    }

    /// How far the sum of `column` over the chosen rows went, where counts may move
    /// from one of them to another (a process that is given its role late).
    ///
    /// # Errors
    /// When no chosen row has it at both ends, or the sum went back.
    pub fn net_where(&self, column: &str, chosen: impl Fn(&Row) -> bool) -> Result<f64, Blind> {
        let known: Vec<&RowDifference> =
            self.rows.iter().filter(|r| chosen(&r.last) && r.is_known(column)).collect();
        let end = |row: Option<&Row>| row.and_then(|r| r.number(column)).unwrap_or(0.0);
        let net: f64 = known.iter().map(|r| end(Some(&r.last)) - end(r.first.as_ref())).sum();
        if known.is_empty() {
            Err(Blind::NoColumn { source: self.source, column: column.to_owned() })
        } else if net < 0.0 {
            Err(Blind::Reset { source: self.source, at: self.to })
        } else {
            Ok(net)
        }
    }

    /// Sum of `column` over the chosen rows that have it.
    ///
    /// # Errors
    /// When no chosen row has it, or a row's counter went back.
    pub fn sum_where(&self, column: &str, chosen: impl Fn(&Row) -> bool) -> Result<f64, Blind> {
        let mut sum = None;
        for row in self.rows.iter().filter(|r| chosen(&r.last)) {
            if row.is_known(column) {
                let delta =
                    row.delta(column).ok_or(Blind::Reset { source: self.source, at: self.to })?;
                sum = Some(sum.unwrap_or(0.0) + delta);
            } else if row.last.number(column).is_some() {
                // Known at the end only: what this row added is unknown, and so the sum.
                sum = None;
                break;
            }
        }
        sum.ok_or_else(|| Blind::NoColumn { source: self.source, column: column.to_owned() })
    }
}

/// The rows of `source` at the first and last sample inside `window`.
///
/// Rows of sparse sources carry forward from earlier samples. When any
/// `stats_reset` moved between the two, the view is void.
///
/// # Errors
/// When there are fewer than two samples inside, or a reset.
pub fn difference(record: &Record, source: Source, window: Window) -> Result<Difference, Blind> {
    let samples = record.samples(source);
    let start = samples.partition_point(|s| s.at < window.start);
    let end = samples.partition_point(|s| s.at < window.end);
    match end.saturating_sub(start) {
        0 => return Err(Blind::NotSampled { source }),
        1 => return Err(Blind::TooFewSamples { source, have: 1, need: 2 }),
        _ => {}
    }
    if let Some(at) = reset_between(&samples[..end], start, source) {
        return Err(Blind::Reset { source, at });
    }
    let mut first = state_at(samples, start, source);
    let last = state_at(samples, end - 1, source);
    let begins_at_zero =
        source.lists_what_exists() || matches!(source, Source::Processes | Source::Neighbours);
    let rows = last
        .into_iter()
        .filter_map(|(key, last)| {
            let before = first.remove(&key);
            let known = before.is_some();
            // A statement that was evicted and came back began anew (17 on).
            let same = |before: &Row| before.0.get("stats_since") == last.0.get("stats_since");
            let first = before.filter(same);
            // A new row of a view that lists what exists (a table, a statement)
            // began at zero, and so did a process group since the probe began, but
            // for the 1 % of a processor below which a foreign command is not
            // listed. A new row of another source brings a past that is unknown.
            (known || begins_at_zero).then_some(RowDifference { first, last })
        })
        .collect();
    Ok(Difference { source, from: samples[start].at, to: samples[end - 1].at, rows })
}

/// All rows known at sample `index`, by key.
pub fn state_at(samples: &[Sample], index: usize, source: Source) -> BTreeMap<String, Row> {
    let seen = if source.is_sparse() { &samples[..=index] } else { &samples[index..=index] };
    let mut state: BTreeMap<String, Row> = BTreeMap::new();
    for row in seen.iter().flat_map(|s| &s.rows) {
        // Column by column: what does not change (a query's text) may be sent once.
        state.entry(row.key(source)).or_default().update(row.clone());
    }
    state
}

/// The first sample after `start` whose `stats_reset` of some row differs from what it
/// was, which for a sparse source an earlier sample may have told.
fn reset_between(samples: &[Sample], start: usize, source: Source) -> Option<Timestamp> {
    let mut known = BTreeMap::new();
    let first = if source.is_sparse() { 0 } else { start };
    for (index, sample) in samples.iter().enumerate().skip(first) {
        for row in &sample.rows {
            let Some(reset) = row.0.get("stats_reset") else { continue };
            match known.insert(row.key(source), reset) {
                Some(before) if before != reset && index > start => return Some(sample.at),
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use walwright_record::Scalar;

    use super::*;
    use walwright_testing::{Build, row, second};

    fn window(from: f64, to: f64) -> Window {
        Window { start: second(from), end: second(to) }
    }

    #[test]
    fn only_samples_inside_count() {
        let mut build = Build::new();
        for s in 0..20 {
            build.sample(f64::from(s), Source::Wal, [row([("wal_bytes", f64::from(s) * 100.0)])]);
        }
        let wal = difference(&build.record, Source::Wal, window(4.5, 10.0)).unwrap();
        assert_eq!((wal.from, wal.to), (second(5.0), second(9.0)));
        assert_eq!(wal.sum("wal_bytes"), Ok(400.0));
        assert_eq!(wal.length(), Duration::from_secs(4));
    }

    #[test]
    fn unknown_is_not_zero() {
        let mut build = Build::new();
        build.sample(1.0, Source::Wal, [row([("wal_bytes", 1.0)])]);
        let blind =
            |from, to| difference(&build.record, Source::Wal, window(from, to)).unwrap_err();
        assert_eq!(blind(0.0, 5.0), Blind::TooFewSamples { source: Source::Wal, have: 1, need: 2 });
        assert_eq!(blind(2.0, 5.0), Blind::NotSampled { source: Source::Wal });
        build.sample(2.0, Source::Wal, [row([("wal_bytes", 9.0)])]);
        let wal = difference(&build.record, Source::Wal, window(0.0, 5.0)).unwrap();
        assert!(matches!(wal.sum("wal_sync"), Err(Blind::NoColumn { .. })));
    }

    #[test]
    fn a_null_is_unknown_at_either_end() {
        let mut build = Build::new();
        let mut null = row([("x", 1.0)]);
        null.set("x", Scalar::Null);
        build.sample(1.0, Source::Wal, [null]);
        build.sample(2.0, Source::Wal, [row([("x", 5.0)])]);
        let wal = difference(&build.record, Source::Wal, window(0.0, 5.0)).unwrap();
        assert_eq!(wal.rows[0].delta("x"), None);
        assert!(matches!(wal.sum("x"), Err(Blind::NoColumn { .. })));
    }

    #[test]
    fn a_row_known_only_at_the_end_leaves_the_sum_unknown() {
        let mut build = Build::new();
        let io = |backend: &str, time: Option<f64>| {
            let mut row = row([("fsyncs", 1.0)]);
            row.set("backend_type", backend).set("fsync_time", time);
            row
        };
        build.sample(1.0, Source::Io, [io("walwriter", Some(1.0)), io("client backend", None)]);
        build.sample(
            2.0,
            Source::Io,
            [io("walwriter", Some(3.0)), io("client backend", Some(900.0))],
        );
        let io = difference(&build.record, Source::Io, window(0.0, 5.0)).unwrap();
        assert!(matches!(io.sum("fsync_time"), Err(Blind::NoColumn { .. })));
        let writer = |row: &Row| row.text("backend_type") == Some("walwriter");
        assert_eq!(io.sum_where("fsync_time", writer), Ok(2.0));
    }

    #[test]
    fn a_reset_voids_its_view_only() {
        let mut build = Build::new();
        for (s, reset) in [(1.0, "a"), (2.0, "b"), (3.0, "b")] {
            let mut wal = row([("wal_bytes", 100.0 * s)]);
            wal.set("stats_reset", reset);
            build.sample(s, Source::Wal, [wal]);
            build.sample(s, Source::Database, [row([("xact_commit", s)])]);
        }
        assert_eq!(
            difference(&build.record, Source::Wal, window(0.0, 5.0)).unwrap_err(),
            Blind::Reset { source: Source::Wal, at: second(2.0) },
        );
        assert!(difference(&build.record, Source::Wal, window(1.5, 5.0)).is_ok());
        assert!(difference(&build.record, Source::Database, window(0.0, 5.0)).is_ok());
    }

    #[test]
    fn a_counter_that_went_back_is_void() {
        let mut build = Build::new();
        build.sample(1.0, Source::Wal, [row([("wal_bytes", 500.0)])]);
        build.sample(2.0, Source::Wal, [row([("wal_bytes", 20.0)])]);
        let wal = difference(&build.record, Source::Wal, window(0.0, 5.0)).unwrap();
        assert!(matches!(wal.sum("wal_bytes"), Err(Blind::Reset { .. })));
    }

    #[test]
    fn an_evicted_statement_that_came_back_counts_from_zero() {
        let mut build = Build::new();
        for (s, calls, since) in [(1.0, 100.0, 0_i64), (2.0, 130.0, 7)] {
            let mut statement = row([("calls", calls)]);
            statement.set("queryid", 1_i64).set("stats_since", since);
            build.sample(s, Source::Statements, [statement]);
        }
        let seen = difference(&build.record, Source::Statements, window(0.0, 5.0)).unwrap();
        assert_eq!(seen.sum("calls"), Ok(130.0));
    }

    #[test]
    fn sparse_rows_carry_forward() {
        let mut build = Build::new();
        let table = |relid: i64, updates: f64| {
            let mut table = row([("n_tup_upd", updates)]);
            table.set("relid", relid);
            table
        };
        // Complete before the window; inside, table 1 is silent at first, table 2
        // stays silent, table 3 is new.
        build.sample(0.0, Source::Tables, [table(1, 10.0), table(2, 70.0)]);
        build.sample(5.0, Source::Tables, []);
        build.sample(10.0, Source::Tables, [table(1, 25.0)]);
        build.sample(15.0, Source::Tables, [table(3, 4.0)]);
        let tables = difference(&build.record, Source::Tables, window(4.0, 20.0)).unwrap();
        assert_eq!(tables.sum("n_tup_upd"), Ok(15.0 + 0.0 + 4.0));
        assert_eq!(tables.rows.len(), 3);
    }
}
