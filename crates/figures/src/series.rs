//! One curve of a plot.

use std::collections::HashMap;

use serde::Serialize;
use walwright_record::{Record, Row, Sample, Scalar, Source, Timestamp};
use walwright_stats::median;

/// Unit of a curve's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Events a second.
    PerSecond,
    /// Seconds.
    Seconds,
    /// Bytes a second.
    BytesPerSecond,
    /// Sessions.
    Sessions,
    /// Processors kept busy.
    Processors,
    /// A fraction, 0 to 1.
    Fraction,
}

/// One curve: a label, a unit, and values over seconds since the run began.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// A short stable name: `throughput`, `latency_p99`, `wait_cpu`.
    pub name: String,
    /// For the legend.
    pub label: String,
    /// Unit of the values.
    pub unit: Unit,
    /// (seconds since the run began, value), ascending. For values that hold over
    /// an interval the middle of it. Where nothing is known there is `None`, so
    /// that a gap is drawn and not a line through it.
    pub points: Vec<(f64, Option<f64>)>,
}

impl Series {
    /// An empty curve.
    pub fn new(name: impl Into<String>, label: impl Into<String>, unit: Unit) -> Self {
        Series { name: name.into(), label: label.into(), unit, points: Vec::new() }
    }

    /// Whether no value is known.
    pub fn is_empty(&self) -> bool {
        self.points.iter().all(|(_, value)| value.is_none())
    }

    /// The largest value.
    pub fn max(&self) -> Option<f64> {
        self.points.iter().filter_map(|(_, v)| *v).max_by(f64::total_cmp)
    }
}

/// Rates of a counter between neighbouring samples: what
/// `counter` makes of the rows of each sample, differenced, per second. A counter
/// that is unknown at either end, went back, or was reset leaves a gap.
pub fn rates(
    record: &Record,
    source: Source,
    counter: impl Fn(&[Row]) -> Option<f64>,
) -> Vec<(f64, Option<f64>)> {
    ratios(record, source, |rows| Some((counter(rows)?, None)))
}

/// Like [`rates`], but per unit of a second counter where the closure gives one:
/// a mean of whatever happened between two samples. Where nothing happened the
/// mean is unknown.
pub fn ratios(
    record: &Record,
    source: Source,
    counters: impl Fn(&[Row]) -> Option<(f64, Option<f64>)>,
) -> Vec<(f64, Option<f64>)> {
    let origin = record.header.started;
    let mut state = State::new(source);
    let moments: Vec<Moment> = record
        .samples(source)
        .iter()
        .map(|sample| {
            let rows = state.after(sample);
            let resets = rows.iter().filter_map(|r| r.0.get("stats_reset").cloned()).collect();
            Moment { at: sample.at, counters: counters(rows), resets }
        })
        .collect();
    let lengths: Vec<f64> = moments.windows(2).map(length).collect();
    let usual = median(&lengths).unwrap_or(0.0);
    moments
        .windows(2)
        .map(|pair| (middle(&pair[0], &pair[1], origin), between(pair, usual)))
        .collect()
}

/// What a sample says of the counters.
struct Moment {
    at: Timestamp,
    counters: Option<(f64, Option<f64>)>,
    resets: Vec<Scalar>,
}

/// The rows of a source as they are after each sample in turn.
struct State {
    source: Source,
    rows: Vec<Row>,
    places: HashMap<String, usize>,
}

impl State {
    fn new(source: Source) -> Self {
        State { source, rows: Vec::new(), places: HashMap::new() }
    }

    /// Takes a sample in; all rows known then.
    fn after<'a>(&'a mut self, sample: &'a Sample) -> &'a [Row] {
        if !self.source.is_sparse() {
            return &sample.rows;
        }
        for row in &sample.rows {
            let place = *self.places.entry(row.key(self.source)).or_insert(self.rows.len());
            match self.rows.get_mut(place) {
                Some(known) => known.clone_from(row),
                None => self.rows.push(row.clone()),
            }
        }
        &self.rows
    }
}

/// Seconds between two samples.
fn length(pair: &[Moment]) -> f64 {
    pair[1].at.since(pair[0].at).as_secs_f64()
}

/// What happened between two samples that usually lie `usual` seconds apart.
fn between(pair: &[Moment], usual: f64) -> Option<f64> {
    let (before, after) = (&pair[0], &pair[1]);
    if before.resets != after.resets {
        return None;
    }
    let ((b, below_b), (a, below_a)) = (before.counters?, after.counters?);
    let below = match below_b.zip(below_a) {
        Some((b, a)) => a - b,
        // A session adds what it counted about once a second and when it ends: soon after
        // another sample that is no rate.
        None => Some(length(pair)).filter(|seconds| *seconds >= 0.5 * usual)?,
    };
    (a >= b && below > 0.0).then(|| (a - b) / below)
}

fn middle(before: &Moment, after: &Moment, origin: Timestamp) -> f64 {
    (before.at.seconds_from(origin) + after.at.seconds_from(origin)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use walwright_testing::{Build, named, row};

    #[test]
    fn gaps_stay_gaps() {
        let mut build = Build::new();
        for (t, bytes) in [
            (1.0, Some(100.0)),
            (2.0, Some(300.0)),
            (3.0, None),
            (4.0, Some(900.0)),
            (5.0, Some(10.0)),
            (6.0, Some(30.0)),
        ] {
            let rows = bytes.map(|b| row([("wal_bytes", b)]));
            build.sample(t, Source::Wal, rows);
        }
        let points = rates(&build.record, Source::Wal, |rows| rows.first()?.number("wal_bytes"));
        assert_eq!(
            points,
            [(1.5, Some(200.0)), (2.5, None), (3.5, None), (4.5, None), (5.5, Some(20.0))]
        );
    }

    #[test]
    fn what_sessions_add_when_they_end_is_no_rate() {
        let mut build = Build::new();
        for (t, count) in [(1.0, 100.0), (2.0, 200.0), (3.0, 300.0), (3.1, 380.0)] {
            build.sample(t, Source::Wal, [row([("wal_sync", count), ("wal_sync_time", count)])]);
        }
        let column = |name| move |rows: &[Row]| rows.first()?.number(name);
        let rate = rates(&build.record, Source::Wal, column("wal_sync"));
        assert_eq!(
            rate.iter().map(|(_, v)| *v).collect::<Vec<_>>(),
            [Some(100.0), Some(100.0), None]
        );
        let mean = |rows: &[Row]| Some((column("wal_sync_time")(rows)?, column("wal_sync")(rows)));
        assert_eq!(ratios(&build.record, Source::Wal, mean)[2].1, Some(1.0));
    }

    #[test]
    fn a_reset_leaves_a_gap() {
        let mut build = Build::new();
        for (t, reset) in [(1.0, "a"), (2.0, "b"), (3.0, "b")] {
            let mut wal = row([("wal_bytes", 100.0 * t)]);
            wal.set("stats_reset", reset);
            build.sample(t, Source::Wal, [wal]);
        }
        let points = rates(&build.record, Source::Wal, |rows| rows.first()?.number("wal_bytes"));
        assert_eq!(points, [(1.5, None), (2.5, Some(100.0))]);
    }

    #[test]
    fn a_mean_of_nothing_is_unknown() {
        let mut build = Build::new();
        for (t, time, count) in [(1.0, 0.0, 0.0), (2.0, 5.0, 10.0), (3.0, 5.0, 10.0)] {
            build.sample(t, Source::Wal, [row([("time", time), ("count", count)])]);
        }
        let points = ratios(&build.record, Source::Wal, |rows| {
            let row = rows.first()?;
            Some((row.number("time")?, row.number("count")))
        });
        assert_eq!(points, [(1.5, Some(0.5)), (2.5, None)]);
    }

    #[test]
    fn rows_of_a_sparse_source_keep_their_value_until_they_change() {
        let mut build = Build::new();
        let io = |who: &str, fsyncs: f64| named([("backend_type", who)], [("fsyncs", fsyncs)]);
        build.sample(0.0, Source::Io, [io("walwriter", 10.0), io("client backend", 100.0)]);
        build.sample(1.0, Source::Io, [io("client backend", 150.0)]);
        build.sample(2.0, Source::Io, []);
        build.sample(3.0, Source::Io, [io("walwriter", 12.0)]);
        let all =
            |rows: &[Row]| Some(rows.iter().filter_map(|row| row.number("fsyncs")).sum::<f64>());
        let points = rates(&build.record, Source::Io, all);
        assert_eq!(points, [(0.5, Some(50.0)), (1.5, Some(0.0)), (2.5, Some(2.0))]);
    }
}
