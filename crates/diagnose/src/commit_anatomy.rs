//! Where commit time goes: how many commits, how they are flushed, what is written,
//! who waits, and what `commit_delay` could do.

use std::time::Duration;

use serde::Serialize;
use walwright_figures::{StorageUse, WaitClass, WorkUnit};
use walwright_record::Record;
use walwright_stats::Estimate;

use crate::{GatewayOutlook, Reading};

/// Statements listed.
const STATEMENTS: usize = 8;

/// The anatomy of a run's commits. What is not known is `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CommitAnatomy {
    /// What the figures are per.
    pub unit: WorkUnit,
    /// Transactions a second.
    pub rate: Option<f64>,
    /// Mean latency of a transaction.
    #[serde(with = "walwright_figures::seconds::option")]
    pub latency: Option<Duration>,
    /// Flushes a second.
    pub flushes_per_second: Option<f64>,
    /// Transactions that one flush makes durable.
    pub transactions_per_flush: Option<f64>,
    /// Mean time of a flush by the server's counters.
    #[serde(with = "walwright_figures::seconds::option")]
    pub mean_flush: Option<Duration>,
    /// Median flush of the storage before the run.
    #[serde(with = "walwright_figures::seconds::option")]
    pub storage_flush: Option<Duration>,
    /// Flushes against what the disk was measured to do.
    pub storage: Option<StorageUse>,
    /// Share of the time in which a flush was under way, 0 to 1.
    pub flushing: Option<f64>,
    /// The stations of a commit and the time a transaction spends in each.
    pub stations: Vec<Station>,
    /// WAL bytes a transaction.
    pub wal_bytes: Option<f64>,
    /// WAL records a transaction.
    pub wal_records: Option<f64>,
    /// Share of the WAL in full-page images, at most.
    pub image_share: Option<f64>,
    /// Who writes the WAL, largest first.
    pub writers: Vec<Writer>,
    /// What `commit_delay` could do and could not.
    pub delay: Option<DelayOutlook>,
    /// What walwright's gateway could do.
    pub gateway: GatewayOutlook,
}

/// One station of a commit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Station {
    /// What happens there.
    pub name: &'static str,
    /// Who is waited for.
    pub waits_for: &'static str,
    /// Seconds of a transaction.
    pub per_transaction: Estimate,
    /// Share of the latency.
    pub share: f64,
    /// Sessions there at a time.
    pub sessions: f64,
}

/// WAL of one statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Writer {
    /// The statement, cut to a line.
    pub statement: String,
    /// Calls a transaction.
    pub calls: f64,
    /// WAL bytes a call.
    pub bytes_per_call: f64,
    /// Full-page images a call.
    pub images_per_call: Option<f64>,
    /// Share of the WAL of all statements, 0 to 1.
    pub share: f64,
}

/// What a delay of half a flush could do, by arithmetic alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DelayOutlook {
    /// `commit_delay` in force.
    #[serde(with = "walwright_figures::seconds")]
    pub now: Duration,
    /// `commit_siblings` in force.
    pub siblings: Option<f64>,
    /// Half a mean flush, where the documentation starts.
    #[serde(with = "walwright_figures::seconds")]
    pub half_flush: Duration,
    /// Commits that arrive during that delay at the rate of this run.
    pub joining: f64,
    /// Share of the flushes that they could spare at most, 0 to 1.
    pub spared: f64,
}

/// The anatomy of a record's commits; `None` without a measured window.
pub fn commit_anatomy(record: &Record) -> Option<CommitAnatomy> {
    Some(of(&Reading::new(record)?))
}

fn of(reading: &Reading) -> CommitAnatomy {
    let summary = &reading.summary;
    let load = summary.load.as_ref();
    let wal = summary.wal.as_ref();
    let rate = load.and_then(|l| l.throughput.as_ref()).map(|t| t.center);
    let flushes = wal.and_then(|w| w.flushes_per_second);
    let mean_flush = wal.and_then(|w| w.mean_flush);
    CommitAnatomy {
        unit: wal.map_or(WorkUnit::Transaction, |w| w.unit),
        rate,
        latency: load.and_then(|l| l.latency.as_ref()).map(|l| l.mean),
        flushes_per_second: flushes,
        transactions_per_flush: wal.and_then(|w| w.transactions_per_flush),
        mean_flush,
        storage_flush: reading.record.storage.as_ref().map(|s| s.p50),
        storage: summary.storage.clone(),
        flushing: flushes.zip(mean_flush).map(|(n, each)| n * each.as_secs_f64()),
        stations: stations(reading),
        wal_bytes: wal.and_then(|w| w.bytes_per_transaction),
        wal_records: wal.and_then(|w| w.records_per_transaction),
        image_share: crate::rules::image_share(reading),
        writers: writers(reading),
        delay: outlook(reading, rate, flushes, mean_flush),
        gateway: crate::rules::gateway_outlook(reading),
    }
}

fn stations(reading: &Reading) -> Vec<Station> {
    let Some(time) = &reading.summary.time else { return Vec::new() };
    [
        (WaitClass::Flush, "writing and flushing the WAL itself", "the storage"),
        (WaitClass::FlushQueue, "waiting for another's flush", "the session that flushes"),
        (WaitClass::Replication, "waiting for a standby", "the standby's confirmation"),
        (WaitClass::Lock, "waiting for locks", "sessions that hold them until their commit"),
    ]
    .into_iter()
    .filter_map(|(class, name, waits_for)| {
        let part = time.part(class)?;
        Some(Station {
            name,
            waits_for,
            per_transaction: part.per_transaction.clone(),
            share: part.share.center,
            sessions: part.sessions,
        })
    })
    .collect()
}

fn writers(reading: &Reading) -> Vec<Writer> {
    let Ok(uses) = &reading.statements else { return Vec::new() };
    let Some(all) = uses.sum("wal_bytes").filter(|bytes| *bytes > 0.0) else { return Vec::new() };
    let mut writers: Vec<Writer> = uses
        .toplevel()
        .filter_map(|s| {
            let bytes = s.sum("wal_bytes").filter(|bytes| *bytes >= 0.001 * all)?;
            Some(Writer {
                statement: s.short(),
                calls: s.calls / uses.work.count,
                bytes_per_call: bytes / s.calls,
                images_per_call: s.per_call("wal_fpi"),
                share: bytes / all,
            })
        })
        .collect();
    writers.sort_by(|a, b| b.share.total_cmp(&a.share));
    writers.truncate(STATEMENTS);
    writers
}

fn outlook(
    reading: &Reading,
    rate: Option<f64>,
    flushes: Option<f64>,
    mean_flush: Option<Duration>,
) -> Option<DelayOutlook> {
    let (rate, flushes, flush) = (rate?, flushes.filter(|f| *f > 0.0)?, mean_flush?);
    let half_flush = flush / 2;
    let joining = rate * half_flush.as_secs_f64();
    // Each flush would take along those that arrive while it waits, as long as there
    // are sessions left that can.
    let now = rate / flushes;
    let most = f64::from(reading.summary.clients.unwrap_or(1)).max(now);
    let then = (now + joining).min(most);
    Some(DelayOutlook {
        now: Duration::from_micros(reading.number("commit_delay")? as u64),
        siblings: reading.number("commit_siblings"),
        half_flush,
        joining,
        spared: (1.0 - now / then).max(0.0),
    })
}

#[cfg(test)]
mod tests {
    use walwright_record::Source;

    use super::*;
    use walwright_testing::{Build, row, wait};

    #[test]
    fn the_outlook_is_arithmetic_on_the_run() {
        let mut build = Build::new();
        build.load(0, 30, 1_000).measure(0.0, 30.0);
        build.setting("commit_delay", "0").setting("commit_siblings", "5");
        build.record.load = None;
        for tick in 0..300_u32 {
            let at = f64::from(tick) / 10.0;
            build.sample(
                at,
                Source::Waits,
                [wait("active", "IO", "walsync", 1.0), wait("active", "LWLock", "walwrite", 3.0)],
            );
        }
        for s in 0..30 {
            let t = f64::from(s);
            let wal = [("wal_bytes", 3e5 * t), ("wal_sync", 500.0 * t), ("wal_sync_time", 1e3 * t)];
            build.sample(t, Source::Wal, [row(wal)]);
        }
        let anatomy = commit_anatomy(&build.record).unwrap();
        assert_eq!(anatomy.mean_flush, Some(Duration::from_millis(2)));
        assert!((anatomy.flushing.unwrap() - 1.0).abs() < 1e-6);
        assert_eq!(anatomy.stations.len(), 2);
        let delay = anatomy.delay.unwrap();
        assert_eq!(delay.half_flush, Duration::from_millis(1));
        assert!((delay.joining - 1.0).abs() < 1e-6);
        // The clients are not known, so no more than now can be said to join.
        assert_eq!(delay.spared, 0.0);
    }
}
