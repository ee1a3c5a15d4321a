//! What can be watched.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::batch::{Answer, Batch};
use crate::error::{Refusal, WriteError};
use crate::queue::Cause;

/// The metrics of a coalescer; clones share their values.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    rows: Family<OutcomeLabel, Counter>,
    batches: Family<CauseLabel, Counter>,
    batch_rows: Histogram,
    queue_age: Histogram,
    flush: Histogram,
    latency: Histogram,
    pub(crate) waiting_rows: Gauge,
    pub(crate) waiting_bytes: Gauge,
    pub(crate) retries: Counter,
    pub(crate) bisections: Counter,
    dead_letters: Counter,
}

/// Adds the metrics of a coalescer to a registry, those of none: what they are called.
pub fn describe(registry: &mut Registry) {
    Metrics::new().register(registry);
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabel {
    cause: &'static str,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        // 50 µs to 26 s.
        let seconds = || Histogram::new(exponential_buckets(50e-6, 2.0, 20));
        Self {
            rows: Family::default(),
            batches: Family::default(),
            batch_rows: Histogram::new(exponential_buckets(1.0, 2.0, 14)),
            queue_age: seconds(),
            flush: seconds(),
            latency: seconds(),
            waiting_rows: Gauge::default(),
            waiting_bytes: Gauge::default(),
            retries: Counter::default(),
            bisections: Counter::default(),
            dead_letters: Counter::default(),
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("rows", "Rows answered, by outcome", self.rows.clone());
        registry.register("batches", "Batches, by what sent them off", self.batches.clone());
        registry.register("batch_rows", "Rows of a batch", self.batch_rows.clone());
        registry.register_with_unit(
            "queue_age",
            "How long the oldest row of a batch had waited when it went",
            Unit::Seconds,
            self.queue_age.clone(),
        );
        registry.register_with_unit(
            "flush",
            "From sending a batch to its answer, tries and all",
            Unit::Seconds,
            self.flush.clone(),
        );
        registry.register_with_unit(
            "acknowledgement",
            "From a row's coming to its answer",
            Unit::Seconds,
            self.latency.clone(),
        );
        registry.register(
            "waiting_rows",
            "Rows that wait or are on their way",
            self.waiting_rows.clone(),
        );
        registry.register_with_unit(
            "waiting",
            "Bytes of rows that wait or are on their way",
            Unit::Bytes,
            self.waiting_bytes.clone(),
        );
        registry.register("retries", "Batches tried again", self.retries.clone());
        registry.register(
            "bisections",
            "Batches taken apart to find a refused row",
            self.bisections.clone(),
        );
        registry.register("dead_letters", "Rows kept as dead letters", self.dead_letters.clone());
    }

    pub(crate) fn took(&self, batch: &Batch, cause: Cause) {
        let cause = cause.into();
        self.batches.get_or_create(&CauseLabel { cause }).inc();
        self.batch_rows.observe(batch.rows.len() as f64);
        if let Some(first) = batch.rows.first() {
            self.queue_age.observe(first.since.elapsed().as_secs_f64());
        }
    }

    /// A batch was answered for, which took so long.
    pub(crate) fn flushed(&self, took: Duration) {
        self.flush.observe(took.as_secs_f64());
    }

    /// Counts the rows of a batch: `answer` goes to all that are not refused.
    pub(crate) fn answered(
        &self,
        batch: &Batch,
        answer: &Answer,
        refused: &BTreeMap<usize, Refusal>,
    ) {
        let outcome = match answer {
            Ok(()) => "written",
            Err(WriteError::Refused(_)) => "refused",
            Err(WriteError::Unknown(_)) => "unknown",
            Err(_) => "failed",
        };
        let count = |outcome, rows: usize| {
            self.rows.get_or_create(&OutcomeLabel { outcome }).inc_by(rows as u64);
        };
        count(outcome, batch.rows.len() - refused.len());
        count("refused", refused.len());
        let letters = refused.values().filter(|refusal| refusal.dead_letter).count();
        self.dead_letters.inc_by(letters as u64);
        let now = Instant::now();
        for row in &batch.rows {
            self.latency.observe(now.saturating_duration_since(row.since).as_secs_f64());
        }
    }
}
