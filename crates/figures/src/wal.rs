//! WAL, flushes and what a commit costs of them.

use std::time::Duration;

use serde::Serialize;
use walwright_record::{Record, Row, Source, Window};

use crate::counters::Difference;
use crate::not_observable::Gaps;
use crate::seconds::duration;
use crate::window::{driven_between, transactions};
use crate::{Blind, Work, WorkUnit, difference, work_between, work_counted};

/// WAL figures over the window. Counters cover the whole server, so on a server
/// with other load they hold more than the workload's. Those a second are those a
/// transaction times the transactions a second of the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WalSummary {
    /// What the figures are per.
    pub unit: WorkUnit,
    /// WAL bytes a transaction.
    pub bytes_per_transaction: Option<f64>,
    /// WAL records a transaction.
    pub records_per_transaction: Option<f64>,
    /// Full-page images a transaction.
    pub fpi_per_transaction: Option<f64>,
    /// WAL bytes a second.
    pub bytes_per_second: Option<f64>,
    /// Times that WAL had to be written because its buffers were full, a transaction.
    pub buffers_full_per_transaction: Option<f64>,
    /// Flushes a second.
    pub flushes_per_second: Option<f64>,
    /// Flushes a transaction.
    pub flushes_per_transaction: Option<f64>,
    /// Transactions a flush: what group commit merges.
    pub transactions_per_flush: Option<f64>,
    /// Mean time of one flush, where the server times them.
    #[serde(with = "crate::seconds::option")]
    pub mean_flush: Option<Duration>,
    /// Flush time a transaction, all processes, where the server times them.
    #[serde(with = "crate::seconds::option")]
    pub flush_time_per_transaction: Option<Duration>,
}

/// Flushes and their time, from wherever this version counts them.
struct Flushes {
    count: f64,
    time: Result<Duration, Blind>,
    work: Work,
}

/// WAL figures over the window; `None` (with the reason noted) when no WAL view is there.
pub fn wal_summary(record: &Record, window: Window, gaps: &mut Gaps) -> Option<WalSummary> {
    let measured = difference(record, Source::Wal, window)
        .and_then(|wal| Ok((work_counted(record, &wal)?, wal)));
    let (work, wal) = gaps.note("WAL a transaction", measured)?;
    let rate = rate(record, window, &wal);
    let per = |column: &str| wal.sum(column).map(|sum| sum / work.count);
    // The position is always up to date.
    let bytes = per("wal_bytes")
        .or_else(|_| Ok(wal.sum("wal_lsn")? / work_between(record, wal.from, wal.to)?.count));
    let flushes = gaps.note("WAL flushes", flushes(record, window, &wal, work));
    let time = flushes.as_ref().and_then(|f| gaps.note("flush time", f.time.clone()));
    let counted = flushes.as_ref().filter(|f| f.count > 0.0);
    Some(WalSummary {
        unit: work.unit,
        bytes_per_second: bytes.as_ref().ok().zip(rate).map(|(bytes, rate)| bytes * rate),
        bytes_per_transaction: gaps.note("WAL bytes", bytes),
        records_per_transaction: gaps.note("WAL records", per("wal_records")),
        fpi_per_transaction: gaps.note("full-page images", per("wal_fpi")),
        buffers_full_per_transaction: gaps.note("WAL buffers full", per("wal_buffers_full")),
        flushes_per_second: flushes
            .as_ref()
            .zip(rate)
            .map(|(f, rate)| f.count / f.work.count * rate),
        flushes_per_transaction: flushes.as_ref().map(|f| f.count / f.work.count),
        transactions_per_flush: counted.map(|f| f.work.count / f.count),
        mean_flush: counted.zip(time).and_then(|(f, time)| duration(time.as_secs_f64() / f.count)),
        flush_time_per_transaction: flushes
            .as_ref()
            .zip(time)
            .and_then(|(f, time)| duration(time.as_secs_f64() / f.work.count)),
    })
}

/// Work a second: that of the clients over the whole window, commits between the two samples.
fn rate(record: &Record, window: Window, wal: &Difference) -> Option<f64> {
    let of_clients = driven_between(record, window.start, window.end, transactions)
        .map(|done| done / window.length().as_secs_f64());
    let work = || work_between(record, wal.from, wal.to).ok();
    of_clients
        .or_else(|| Some(work()?.count / wal.length().as_secs_f64()))
        .filter(|rate| rate.is_finite())
}

/// Up to 17 `pg_stat_wal` counts flushes, from 18 the rows of `pg_stat_io` for
/// WAL. Its context `init` is the creation of segments, not a commit's flush.
fn flushes(
    record: &Record,
    window: Window,
    wal: &Difference,
    work: Work,
) -> Result<Flushes, Blind> {
    if let Some(method) = record.setting("wal_sync_method")
        && method.value.starts_with("open_")
    {
        // The sync is inside the write there, and not counted.
        let why = format!("wal_sync_method = {} flushes inside the write", method.value);
        return Err(Blind::Hidden { why });
    }
    if let Ok(count) = wal.sum("wal_sync") {
        let time = flush_time(record, wal.sum("wal_sync_time"), count);
        return Ok(Flushes { count, time, work });
    }
    let io = difference(record, Source::Io, window)?;
    let of_wal =
        |row: &Row| row.text("object") == Some("wal") && row.text("context") == Some("normal");
    let count = io.sum_where("fsyncs", of_wal)?;
    let time = flush_time(record, io.sum_where("fsync_time", of_wal), count);
    let work = work_counted(record, &io)?;
    Ok(Flushes { count, time, work })
}

/// Milliseconds counted as a duration. Where timing is off the columns read 0 or
/// nothing, which means unknown.
fn flush_time(
    record: &Record,
    milliseconds: Result<f64, Blind>,
    count: f64,
) -> Result<Duration, Blind> {
    let off = || Blind::TimingOff { setting: "track_wal_io_timing".to_owned() };
    if record.setting("track_wal_io_timing").is_some_and(|s| s.value == "off") {
        return Err(off());
    }
    // A server that counts flushes has the column; where it holds nothing, it is not timed.
    let milliseconds = match milliseconds {
        Err(Blind::NoColumn { .. }) => return Err(off()),
        known => known?,
    };
    if milliseconds == 0.0 && count > 0.0 {
        return Err(off());
    }
    duration(milliseconds / 1e3).ok_or_else(off)
}

#[cfg(test)]
mod tests {
    use super::*;
    use walwright_testing::{Build, named, row, second};

    /// 500 transactions a second, each with 1,200 bytes of WAL, and half a flush of 0.4 ms.
    fn up_to_17(timing: bool) -> Build {
        let mut build = Build::new();
        build.load(0, 100, 500);
        build.setting("track_wal_io_timing", if timing { "on" } else { "off" });
        for s in 0..100 {
            let t = 500.0 * f64::from(s);
            build.sample(
                f64::from(s) + 0.3,
                Source::Wal,
                [row([
                    ("wal_bytes", 1e9 + 1_200.0 * t),
                    ("wal_records", 9.0 * t),
                    ("wal_fpi", 0.1 * t),
                    ("wal_buffers_full", 0.0),
                    ("wal_sync", 0.5 * t),
                    ("wal_sync_time", if timing { 0.5 * 0.4 * t } else { 0.0 }),
                ])],
            );
        }
        build
    }

    fn summary(build: &Build, from: f64, to: f64) -> (Option<WalSummary>, Gaps) {
        let mut gaps = Gaps::default();
        let window = Window { start: second(from), end: second(to) };
        let summary = wal_summary(&build.record, window, &mut gaps);
        (summary, gaps)
    }

    #[test]
    fn unequal_windows_give_the_same_figures_per_transaction() {
        // E2: totals over unequal windows looked like −62 %.
        let build = up_to_17(true);
        for (from, to) in [(10.0, 20.0), (10.0, 90.0), (33.7, 41.2)] {
            let wal = summary(&build, from, to).0.unwrap();
            assert!((wal.bytes_per_transaction.unwrap() - 1_200.0).abs() < 1e-6);
            assert!((wal.records_per_transaction.unwrap() - 9.0).abs() < 1e-9);
            assert!((wal.flushes_per_transaction.unwrap() - 0.5).abs() < 1e-9);
            assert!((wal.transactions_per_flush.unwrap() - 2.0).abs() < 1e-9);
            assert!((wal.flushes_per_second.unwrap() - 250.0).abs() < 1e-9);
            assert_eq!(wal.mean_flush.unwrap(), Duration::from_micros(400));
            assert_eq!(wal.flush_time_per_transaction.unwrap(), Duration::from_micros(200));
            assert_eq!(wal.buffers_full_per_transaction, Some(0.0));
        }
    }

    #[test]
    fn no_timing_is_not_a_flush_of_zero() {
        let (wal, gaps) = summary(&up_to_17(false), 10.0, 90.0);
        assert_eq!(wal.unwrap().mean_flush, None);
        assert!(gaps.0.iter().any(|g| matches!(g.why, Blind::TimingOff { .. })));
    }

    #[test]
    fn flushes_that_took_no_time_at_all_were_not_timed() {
        let mut build = up_to_17(false);
        build.record.settings.clear();
        assert_eq!(summary(&build, 10.0, 90.0).0.unwrap().mean_flush, None);
    }

    #[test]
    fn times_of_the_few_sessions_that_timed_themselves_are_not_a_mean_of_all() {
        let mut build = up_to_17(true);
        build.record.settings.clear();
        build.setting("track_wal_io_timing", "off");
        assert_eq!(summary(&build, 10.0, 90.0).0.unwrap().mean_flush, None);
    }

    #[test]
    fn times_that_the_probe_left_null_are_untimed() {
        let mut build = up_to_17(true);
        build.record.settings.clear();
        for sample in build.record.samples.get_mut(&Source::Wal).unwrap() {
            sample.rows[0].set("wal_sync_time", Option::<f64>::None);
        }
        let (wal, gaps) = summary(&build, 10.0, 90.0);
        assert!(wal.unwrap().flushes_per_transaction.is_some());
        assert!(gaps.0.iter().any(|g| matches!(g.why, Blind::TimingOff { .. })));
    }

    #[test]
    fn from_18_flushes_are_in_pg_stat_io() {
        let mut build = up_to_17(true);
        build.record.settings.clear();
        for sample in build.record.samples.get_mut(&Source::Wal).unwrap() {
            sample.rows[0].0.retain(|name, _| !name.starts_with("wal_sync"));
        }
        for s in 0..100 {
            let t = 500.0 * f64::from(s);
            let io = |backend, object, context, fsyncs, time| {
                named(
                    [("backend_type", backend), ("object", object), ("context", context)],
                    [("fsyncs", fsyncs), ("fsync_time", time)],
                )
            };
            build.sample(
                f64::from(s) + 0.3,
                Source::Io,
                [
                    io("client backend", "wal", "normal", 0.4 * t, 0.4 * 0.5 * t),
                    io("walwriter", "wal", "normal", 0.1 * t, 0.1 * 0.5 * t),
                    io("client backend", "wal", "init", 7.0 * t, 9.0 * t),
                    io("checkpointer", "relation", "normal", 5.0 * t, 9.0 * t),
                ],
            );
        }
        let wal = summary(&build, 10.0, 90.0).0.unwrap();
        assert!((wal.flushes_per_transaction.unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(wal.mean_flush.unwrap(), Duration::from_micros(500));
    }

    #[test]
    fn flushes_inside_the_write_are_unknown() {
        let mut build = up_to_17(true);
        build.setting("wal_sync_method", "open_datasync");
        let (wal, gaps) = summary(&build, 10.0, 90.0);
        assert_eq!(wal.unwrap().flushes_per_transaction, None);
        assert!(gaps.0.iter().any(|g| g.figure == "WAL flushes"));
    }

    #[test]
    fn a_reset_inside_the_window_voids_the_figures() {
        let mut build = up_to_17(true);
        let samples = build.record.samples.get_mut(&Source::Wal).unwrap();
        for (i, sample) in samples.iter_mut().enumerate() {
            sample.rows[0].set("stats_reset", i64::from(i > 50));
        }
        let (wal, gaps) = summary(&build, 10.0, 90.0);
        assert_eq!(wal, None);
        assert!(matches!(gaps.0[0].why, Blind::Reset { source: Source::Wal, .. }));
        assert!(summary(&build, 60.0, 90.0).0.is_some());
    }

    #[test]
    fn a_read_only_load_has_no_transactions_a_flush() {
        let mut build = Build::new();
        build.load(0, 20, 100);
        for s in 0..20 {
            build.sample(
                f64::from(s),
                Source::Wal,
                [row([("wal_bytes", 10.0), ("wal_sync", 3.0), ("wal_sync_time", 1.0)])],
            );
        }
        let wal = summary(&build, 0.0, 20.0).0.unwrap();
        assert_eq!((wal.flushes_per_transaction, wal.transactions_per_flush), (Some(0.0), None));
    }
}
