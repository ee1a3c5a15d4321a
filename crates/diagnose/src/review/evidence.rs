//! What a record says that settings are judged by.

use walwright_figures::{difference, statement_uses, summary, work_counted};
use walwright_record::{Record, Source};

/// Figures of a load; each `None` where the record does not show it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Evidence {
    /// Name of the run.
    pub(super) run: Option<String>,
    /// WAL bytes a second.
    pub(super) wal_rate: Option<f64>,
    /// Times WAL buffers were full, a transaction.
    pub(super) buffers_full: Option<f64>,
    /// Share of the WAL that is full-page images, at most (uncompressed).
    pub(super) images: Option<f64>,
    /// Mean seconds of a WAL flush.
    pub(super) flush: Option<f64>,
    /// Sessions that ran.
    pub(super) clients: Option<f64>,
    /// Bytes spilled to temporary files, a transaction.
    pub(super) spilled: Option<f64>,
    /// Share of the statements' time that is JIT.
    pub(super) jit: Option<f64>,
    /// Share of the processors that was busy.
    pub(super) busy: Option<f64>,
    /// Size of the database in bytes.
    pub(super) database: Option<f64>,
    /// Checkpoints that were forced by WAL volume, and those that came by time.
    pub(super) forced: Option<(f64, f64)>,
}

impl Evidence {
    pub(super) fn of(record: &Record) -> Evidence {
        let run = Some(record.header.id.to_string());
        let database =
            record.target.as_ref().and_then(|t| t.database_bytes).map(|bytes| bytes as f64);
        let Some(window) = record.window() else {
            return Evidence { run, database, ..Evidence::default() };
        };
        let summary = summary(record);
        let wal = summary.wal.as_ref();
        let images = wal.and_then(|w| {
            let bytes = w.bytes_per_transaction.filter(|bytes| *bytes > 0.0)?;
            Some((w.fpi_per_transaction? * 8192.0 / bytes).min(1.0))
        });
        let spilled = difference(record, Source::Database, window).ok().and_then(|d| {
            let work = work_counted(record, &d).ok()?;
            Some(d.sum("temp_bytes").ok()? / work.count)
        });
        let jit = statement_uses(record, window).ok().and_then(|uses| {
            let time = uses.sum("total_exec_time").filter(|time| *time > 0.0)?;
            let parts = ["generation", "inlining", "optimization", "emission"]
                .map(|part| uses.sum(&format!("jit_{part}_time")));
            Some(parts.into_iter().sum::<Option<f64>>()? / time)
        });
        let forced = difference(record, Source::Checkpointer, window)
            .ok()
            .and_then(|d| Some((d.sum("num_requested").ok()?, d.sum("num_timed").ok()?)));
        Evidence {
            run,
            wal_rate: wal.and_then(|w| w.bytes_per_second),
            buffers_full: wal.and_then(|w| w.buffers_full_per_transaction),
            images,
            flush: wal
                .and_then(|w| w.mean_flush)
                .or(record.storage.as_ref().map(|probe| probe.mean))
                .map(|flush| flush.as_secs_f64()),
            clients: summary.clients.map(f64::from),
            spilled,
            jit,
            busy: summary.cpu.as_ref().and_then(|cpu| cpu.busy),
            database,
            forced,
        }
    }

    /// The load in a few words.
    pub(super) fn in_words(&self) -> Option<String> {
        let run = self.run.as_ref()?;
        let wal = self
            .wal_rate
            .map(|rate| format!(", {} of WAL a second", super::bytes::in_words(rate)))
            .unwrap_or_default();
        let clients = self.clients.map(|n| format!(", {n} clients")).unwrap_or_default();
        Some(format!("run {run}{clients}{wal}"))
    }
}
