//! What the plots of a run show, on one axis: seconds since the run began.

use std::collections::BTreeMap;

use serde::Serialize;
use walwright_record::{
    LatencyHistogram, LoadInterval, Record, Row, Source, SparseHistogram, Timestamp,
};

use crate::checkpoints::completions;
use crate::series::{rates, ratios};
use crate::window::failures;
use crate::{Series, Unit, WaitClass, host_series, transactions};

/// A stretch of the axis: a phase of the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stretch {
    /// For display.
    pub label: String,
    /// Start in seconds since the run began.
    pub from: f64,
    /// End in seconds since the run began.
    pub to: f64,
}

/// A moment on the axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mark {
    /// Seconds since the run began.
    pub at: f64,
    /// `checkpoint`, `server_lost`, …
    pub kind: String,
    /// One sentence.
    pub text: String,
}

/// The plots of a run. A plot of which nothing is known has no series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timeline {
    /// Length of the axis in seconds.
    pub length: f64,
    /// Phases.
    pub phases: Vec<Stretch>,
    /// Checkpoints that completed and events, in time order.
    pub marks: Vec<Mark>,
    /// Transactions a second; failed ones where there were any.
    pub throughput: Vec<Series>,
    /// p50, p95, p99 and longest latency of each interval.
    pub latency: Vec<Series>,
    /// Open loop: p50 and p99 of lag of each interval.
    pub lag: Vec<Series>,
    /// Sessions in transactions by wait class, second by second; to be stacked.
    pub waits: Vec<Series>,
    /// WAL bytes a second, and bytes that checkpoints write to tables and indexes.
    pub wal: Vec<Series>,
    /// WAL flushes a second.
    pub flushes: Vec<Series>,
    /// Mean time of a WAL flush, where the server times them.
    pub flush_time: Vec<Series>,
    /// Share of time each disk was busy.
    pub disk_busy: Vec<Series>,
    /// Mean latency of writes and flushes of each disk.
    pub disk_latency: Vec<Series>,
    /// Processors kept busy by each process group; to be stacked.
    pub cpu: Vec<Series>,
}

/// All plots of a record, warm-up included.
pub fn timeline(record: &Record) -> Timeline {
    let origin = record.header.started;
    let end = record.last_seen();
    let moment = |at: Timestamp| at.seconds_from(origin);
    let phases = record
        .phases
        .iter()
        .map(|phase| Stretch {
            label: phase.name.name().to_owned(),
            from: moment(phase.start),
            to: moment(phase.end.unwrap_or(end)),
        })
        .collect();
    let mut plots = Timeline {
        length: moment(end),
        phases,
        marks: marks(record),
        throughput: throughput(record),
        latency: percentiles(record, "latency", "latency", &[50.0, 95.0, 99.0, 100.0], |i| {
            i.scripts.iter().map(|s| &s.latency).collect()
        }),
        lag: percentiles(record, "lag", "lag", &[50.0, 99.0], |i| vec![&i.lag]),
        waits: waits(record),
        wal: wal(record),
        flushes: flushes(record),
        flush_time: flush_time(record),
        disk_busy: host_series::disk_busy(record),
        disk_latency: host_series::disk_latency(record),
        cpu: host_series::cpu_by_group(record),
    };
    for plot in [
        &mut plots.throughput,
        &mut plots.latency,
        &mut plots.lag,
        &mut plots.waits,
        &mut plots.wal,
        &mut plots.flushes,
        &mut plots.flush_time,
        &mut plots.disk_busy,
        &mut plots.disk_latency,
        &mut plots.cpu,
    ] {
        plot.retain(|series| !series.is_empty());
    }
    plots
}

fn marks(record: &Record) -> Vec<Mark> {
    let origin = record.header.started;
    let sampled = completions(record);
    let from_events = record.events.iter().filter(|e| e.kind != "checkpoint" || sampled.is_empty());
    let mut marks: Vec<Mark> = from_events
        .map(|event| Mark {
            at: event.at.seconds_from(origin),
            kind: event.kind.clone(),
            text: event.text.clone(),
        })
        .chain(sampled.iter().map(|at| Mark {
            at: at.seconds_from(origin),
            kind: "checkpoint".to_owned(),
            text: "checkpoint completed".to_owned(),
        }))
        .collect();
    marks.sort_by(|a, b| a.at.total_cmp(&b.at));
    marks
}

/// One point for each interval, at its middle.
fn by_interval(
    record: &Record,
    series: Series,
    value: impl Fn(&LoadInterval) -> Option<f64>,
) -> Series {
    let points = record
        .intervals
        .iter()
        .map(|i| (i.start.plus(i.length / 2).seconds_from(record.header.started), value(i)))
        .collect();
    Series { points, ..series }
}

fn throughput(record: &Record) -> Vec<Series> {
    let rate = |count: u64, i: &LoadInterval| {
        let seconds = i.length.as_secs_f64();
        (seconds > 0.0).then(|| count as f64 / seconds)
    };
    let series = Series::new("throughput", "transactions", Unit::PerSecond);
    let mut plot = vec![by_interval(record, series, |i| rate(transactions(i), i))];
    if record.intervals.iter().any(|i| failures(i) > 0) {
        let series = Series::new("failures", "failed transactions", Unit::PerSecond);
        plot.push(by_interval(record, series, |i| rate(failures(i), i)));
    }
    if record.intervals.iter().any(|i| i.due > 0) {
        let series = Series::new("due", "due transactions", Unit::PerSecond);
        plot.push(by_interval(record, series, |i| rate(i.due, i)));
    }
    plot
}

/// One series for each percentile (100 is the longest) of the merged histograms
/// of every interval.
fn percentiles<'r>(
    record: &'r Record,
    name: &str,
    label: &str,
    percents: &[f64],
    histograms: impl Fn(&'r LoadInterval) -> Vec<&'r SparseHistogram>,
) -> Vec<Series> {
    let mut plot: Vec<Series> = percents
        .iter()
        .map(|percent| {
            if *percent >= 100.0 {
                Series::new(format!("{name}_max"), format!("longest {label}"), Unit::Seconds)
            } else {
                let name = format!("{name}_p{percent}");
                Series::new(name, format!("{label} p{percent}"), Unit::Seconds)
            }
        })
        .collect();
    // One dense histogram for all intervals: a new one costs more than a merge.
    let mut merged = LatencyHistogram::new();
    for interval in &record.intervals {
        let middle = interval.start.plus(interval.length / 2);
        merged.clear();
        histograms(interval).iter().for_each(|h| h.add_to(&mut merged));
        for (series, percent) in plot.iter_mut().zip(percents) {
            let value = merged.percentile(*percent).map(|d| d.as_secs_f64());
            series.points.push((middle.seconds_from(record.header.started), value));
        }
    }
    plot
}

/// Mean sessions of each class in each second that has ticks.
fn waits(record: &Record) -> Vec<Series> {
    let mut seconds: BTreeMap<i64, (f64, BTreeMap<WaitClass, f64>)> = BTreeMap::new();
    for tick in record.samples(Source::Waits) {
        let second = tick.at.seconds_from(record.header.started).floor() as i64;
        let (ticks, classes) = seconds.entry(second).or_default();
        *ticks += 1.0;
        for row in &tick.rows {
            if let (Some(class), Some(sessions)) = (WaitClass::of(row), row.number("sessions")) {
                *classes.entry(class).or_insert(0.0) += sessions;
            }
        }
    }
    let shown = with_gaps(seconds.keys().copied());
    WaitClass::ALL
        .into_iter()
        .filter(|class| seconds.values().any(|(_, classes)| classes.contains_key(class)))
        .map(|class| {
            let name = serde_json::to_value(class).ok();
            let name = name.as_ref().and_then(|n| n.as_str()).unwrap_or_default();
            let mut series = Series::new(format!("wait_{name}"), class.label(), Unit::Sessions);
            series.points = shown
                .iter()
                .map(|second| {
                    let mean = seconds
                        .get(second)
                        .map(|(ticks, classes)| classes.get(&class).unwrap_or(&0.0) / ticks);
                    (*second as f64 + 0.5, mean)
                })
                .collect();
            series
        })
        .collect()
}

/// The seconds, with the first and the last of each stretch that is missing: a gap of any length
/// costs two points, since a clock that was set may put years between two samples.
fn with_gaps(seconds: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut shown: Vec<i64> = Vec::new();
    for second in seconds {
        if let Some(&last) = shown.last()
            && second.saturating_sub(last) > 1
        {
            shown.push(last + 1);
            if second - 1 > last + 1 {
                shown.push(second - 1);
            }
        }
        shown.push(second);
    }
    shown
}

fn first_number(rows: &[Row], column: &str) -> Option<f64> {
    rows.first()?.number(column)
}

fn wal(record: &Record) -> Vec<Series> {
    let mut bytes = Series::new("wal_bytes", "WAL", Unit::BytesPerSecond);
    bytes.points = rates(record, Source::Wal, |rows| {
        first_number(rows, "wal_bytes").or_else(|| first_number(rows, "wal_lsn"))
    });
    let block = record.setting("block_size").and_then(|s| s.value.parse().ok()).unwrap_or(8_192.0);
    let mut written = Series::new("checkpoint_bytes", "checkpointer writes", Unit::BytesPerSecond);
    written.points = rates(record, Source::Checkpointer, |rows| {
        Some(block * first_number(rows, "buffers_written")?)
    });
    vec![bytes, written]
}

/// Sum of a column over the rows of `pg_stat_io` that hold WAL flushes (18 on).
fn wal_io(rows: &[Row], column: &str) -> Option<f64> {
    rows.iter()
        .filter(|r| r.text("object") == Some("wal") && r.text("context") == Some("normal"))
        .filter_map(|r| r.number(column))
        .reduce(|a, b| a + b)
}

/// Up to 17 from `pg_stat_wal`, from 18 from `pg_stat_io`.
fn flush_points(
    record: &Record,
    wal: impl Fn(&[Row]) -> Option<(f64, Option<f64>)>,
    io: impl Fn(&[Row]) -> Option<(f64, Option<f64>)>,
) -> Vec<(f64, Option<f64>)> {
    let old =
        record.samples(Source::Wal).iter().any(|s| first_number(&s.rows, "wal_sync").is_some());
    if old { ratios(record, Source::Wal, wal) } else { ratios(record, Source::Io, io) }
}

fn flushes(record: &Record) -> Vec<Series> {
    let mut series = Series::new("wal_flushes", "WAL flushes", Unit::PerSecond);
    series.points = flush_points(
        record,
        |rows| Some((first_number(rows, "wal_sync")?, None)),
        |rows| Some((wal_io(rows, "fsyncs")?, None)),
    );
    vec![series]
}

fn flush_time(record: &Record) -> Vec<Series> {
    // Times that never leave 0 were not measured.
    let timed = |time: f64, count: Option<f64>| (time > 0.0).then_some((time / 1e3, count));
    let mut series = Series::new("wal_flush_time", "mean WAL flush", Unit::Seconds);
    series.points = flush_points(
        record,
        |rows| timed(first_number(rows, "wal_sync_time")?, Some(first_number(rows, "wal_sync")?)),
        |rows| timed(wal_io(rows, "fsync_time")?, Some(wal_io(rows, "fsyncs")?)),
    );
    vec![series]
}

#[cfg(test)]
mod tests {
    use walwright_record::{Event, Phase, PhaseName};

    use super::*;
    use walwright_testing::{Build, named, row, second, wait};

    #[test]
    fn curves_lie_on_one_axis_from_the_start_of_the_run() {
        let mut build = Build::new();
        build.load(5, 15, 100).measure(8.0, 15.0);
        for s in 0..16 {
            build.sample(f64::from(s), Source::Wal, [row([("wal_bytes", 50.0 * f64::from(s))])]);
        }
        let plots = timeline(&build.record);
        assert_eq!(plots.throughput.len(), 1);
        assert_eq!(plots.throughput[0].points[0], (5.5, Some(100.0)));
        assert_eq!(plots.wal[0].points[0], (0.5, Some(50.0)));
        assert_eq!(plots.wal[0].unit, Unit::BytesPerSecond);
        assert_eq!(plots.phases[0].from, 8.0);
        let names: Vec<&str> = plots.latency.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["latency_p50", "latency_p95", "latency_p99", "latency_max"]);
        assert!((plots.latency[2].points[3].1.unwrap() - 0.002).abs() < 1e-5);
        assert_eq!(plots.length, 15.0);
    }

    #[test]
    fn what_is_not_known_has_no_plot() {
        let mut build = Build::new();
        build.load(0, 5, 10);
        let plots = timeline(&build.record);
        assert!(plots.wal.is_empty() && plots.waits.is_empty() && plots.flush_time.is_empty());
        assert!(plots.lag.is_empty() && plots.cpu.is_empty() && plots.disk_busy.is_empty());
    }

    #[test]
    fn waits_are_mean_sessions_and_a_missing_second_is_a_gap() {
        let mut build = Build::new();
        for tick in (0..10_u32).chain(20..30) {
            let sessions = f64::from(tick % 2) * 4.0;
            build.sample(
                f64::from(tick) / 10.0,
                Source::Waits,
                [wait("active", "IO", "walsync", sessions), wait("active", "", "", 1.0)],
            );
        }
        let plots = timeline(&build.record);
        assert_eq!(plots.waits.len(), 2);
        assert_eq!(plots.waits[1].name, "wait_flush");
        assert_eq!(plots.waits[1].points, [(0.5, Some(2.0)), (1.5, None), (2.5, Some(2.0))]);
    }

    #[test]
    fn a_gap_of_years_is_two_points() {
        assert_eq!(with_gaps([0, 1, 3, 4].into_iter()), [0, 1, 2, 3, 4]);
        assert_eq!(with_gaps([0, i64::MAX].into_iter()), [0, 1, i64::MAX - 1, i64::MAX]);
    }

    #[test]
    fn flushes_come_from_the_view_that_has_them() {
        let mut build = Build::new();
        for s in 0..3 {
            let t = f64::from(s);
            build.sample(t, Source::Wal, [row([("wal_bytes", t)])]);
            build.sample(
                t,
                Source::Io,
                [named(
                    [("object", "wal"), ("context", "normal"), ("backend_type", "client backend")],
                    [("fsyncs", 100.0 * t), ("fsync_time", 10.0 + 50.0 * t)],
                )],
            );
        }
        let plots = timeline(&build.record);
        assert_eq!(plots.flushes[0].points, [(0.5, Some(100.0)), (1.5, Some(100.0))]);
        assert_eq!(plots.flush_time[0].points, [(0.5, Some(0.0005)), (1.5, Some(0.0005))]);
    }

    #[test]
    fn a_checkpoint_is_marked_once() {
        let mut build = Build::new();
        let event = |kind: &str| Event { at: second(3.0), kind: kind.into(), text: "x".into() };
        build.record.events = vec![event("checkpoint"), event("server_lost")];
        build.record.phases.push(Phase { name: PhaseName::Measure, start: second(0.0), end: None });
        assert_eq!(timeline(&build.record).marks.len(), 2);
        for s in 0..5 {
            let t = f64::from(s);
            build.sample(t, Source::Checkpointer, [row([("num_done", (t / 2.0).floor())])]);
        }
        let kinds: Vec<String> =
            timeline(&build.record).marks.into_iter().map(|m| m.kind).collect();
        assert_eq!(kinds, ["checkpoint", "server_lost", "checkpoint"]);
    }
}
