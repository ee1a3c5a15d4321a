//! What became of the rows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Counts that grow while rows are written, to be looked at meanwhile.
#[derive(Debug)]
pub struct Counts {
    /// Bytes read of the inputs.
    pub bytes: AtomicU64,
    /// Rows found in them, without those that an earlier run has written.
    pub rows: AtomicU64,
    /// Rows that are durable.
    pub written: AtomicU64,
    /// Rows that cannot be written as they are.
    pub rejected: AtomicU64,
    /// Rows of which nobody knows.
    pub unknown: AtomicU64,
    /// Rows that were not written for another reason than their own.
    pub failed: AtomicU64,
    /// Rows that an earlier run has written.
    pub before: AtomicU64,
    /// Time from a row's reading to its answer, in microseconds.
    latency: Mutex<Histogram<u64>>,
    /// What the first rows say that were not written.
    told: Mutex<Vec<String>>,
    /// Up to where inputs were read that were not read to their end.
    notes: Mutex<Vec<String>>,
}

/// Rows that were not written of which it is told why.
const TOLD: usize = 10;

/// Longest latency that is told apart.
const LONGEST: Duration = Duration::from_secs(3600);

impl Default for Counts {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        // Bounds that are right by construction: 1 below 2, and 3 figures.
        let latency = Histogram::new_with_bounds(1, LONGEST.as_micros() as u64, 3)
            .unwrap_or_else(|error| unreachable!("{error}"));
        Self {
            bytes: zero(),
            rows: zero(),
            written: zero(),
            rejected: zero(),
            unknown: zero(),
            failed: zero(),
            before: zero(),
            latency: Mutex::new(latency),
            told: Mutex::default(),
            notes: Mutex::default(),
        }
    }
}

impl Counts {
    pub(crate) fn answered(&self, outcome: &AtomicU64, latency: Duration) {
        outcome.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.latency.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(micros);
    }

    pub(crate) fn add(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Says what is to be said at the end.
    pub fn note(&self, text: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    pub(crate) fn tell(&self, input: &str, line: u64, why: &str) {
        tracing::info!(input, line, why, "a row is not written");
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        // What is wrong with all of them, such as a server that is away, is told once.
        let again = told.last().is_some_and(|last| last.ends_with(&format!(": {why}")));
        if told.len() < TOLD && !again {
            told.push(format!("line {line} of {input}: {why}"));
        }
    }

    /// What has become of the rows within this time.
    #[must_use]
    pub fn summary(&self, elapsed: Duration) -> Summary {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        let percentile = |percent| {
            let value = latency.value_at_percentile(percent);
            (!latency.is_empty()).then(|| Duration::from_micros(value))
        };
        Summary {
            rows: of(&self.rows),
            written: of(&self.written),
            rejected: of(&self.rejected),
            unknown: of(&self.unknown),
            failed: of(&self.failed),
            written_before: of(&self.before),
            bytes: of(&self.bytes),
            told: self.told.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            notes: self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            elapsed,
            rows_per_second: of(&self.written) as f64 / elapsed.as_secs_f64().max(1e-6),
            latency: Latency {
                p50: percentile(50.0),
                p95: percentile(95.0),
                p99: percentile(99.0),
                p999: percentile(99.9),
                max: (!latency.is_empty()).then(|| Duration::from_micros(latency.max())),
            },
        }
    }
}

/// What became of the rows.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Found in the inputs, without those that an earlier run had written.
    pub rows: u64,
    /// Durable.
    pub written: u64,
    /// Not to be written as they are.
    pub rejected: u64,
    /// Of which nobody knows: the connection was lost at their COMMIT.
    pub unknown: u64,
    /// Not written for another reason than their own.
    pub failed: u64,
    /// Written by an earlier run.
    pub written_before: u64,
    /// Read.
    pub bytes: u64,
    /// Why the first of those that were not written were not, each reason in a row once.
    pub told: Vec<String>,
    /// Up to where inputs were read that were not read to their end.
    pub notes: Vec<String>,
    /// From connecting to the last answer.
    pub elapsed: Duration,
    /// Durable rows a second.
    pub rows_per_second: f64,
    /// From a row's reading to its answer.
    pub latency: Latency,
}

/// Percentiles; none where no row was answered.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Latency {
    pub p50: Option<Duration>,
    pub p95: Option<Duration>,
    pub p99: Option<Duration>,
    pub p999: Option<Duration>,
    pub max: Option<Duration>,
}
