//! What one thread counts in one interval.

use std::collections::BTreeMap;
use std::time::Duration;

use walwright_record::{LatencyHistogram, ScriptInterval, SparseHistogram};
use walwright_workload::script::Program;

use crate::clock::Moment;

/// Key of failures that the connection's loss caused.
pub(crate) const CONNECTION: &str = "connection";
/// Key of failures of the script itself, such as a division by zero.
pub(crate) const SCRIPT: &str = "script";

/// One thread's part of an interval.
#[derive(Debug)]
pub(crate) struct Part {
    /// Number of the interval, from 0.
    pub(crate) index: u64,
    /// When this thread closed it; the interval's end unless it is the last.
    pub(crate) end: Moment,
    pub(crate) counts: Counts,
    /// Clients connected and running at the end.
    pub(crate) clients: u32,
    /// Open loop: transactions due in the interval.
    pub(crate) due: u64,
    /// CPU time of the thread in the interval.
    pub(crate) cpu: Duration,
}

/// What is counted as it happens.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) scripts: Vec<ScriptCounts>,
    pub(crate) skipped: u64,
    pub(crate) late: u64,
    pub(crate) lag: LatencyHistogram,
}

/// The same of one script; fields as in [`ScriptInterval`].
#[derive(Debug)]
pub(crate) struct ScriptCounts {
    pub(crate) transactions: u64,
    pub(crate) failures: BTreeMap<String, u64>,
    pub(crate) retried: u64,
    pub(crate) retries: BTreeMap<String, u64>,
    pub(crate) latency: LatencyHistogram,
    /// Empty where they are not kept.
    pub(crate) statements: Vec<LatencyHistogram>,
}

impl Counts {
    /// Nothing counted yet.
    pub(crate) fn new(program: &Program, statement_histograms: bool) -> Self {
        let scripts = program
            .scripts
            .iter()
            .map(|script| ScriptCounts {
                transactions: 0,
                failures: BTreeMap::new(),
                retried: 0,
                retries: BTreeMap::new(),
                latency: LatencyHistogram::new(),
                statements: if statement_histograms {
                    vec![LatencyHistogram::new(); script.statements.len()]
                } else {
                    Vec::new()
                },
            })
            .collect();
        Counts { scripts, skipped: 0, late: 0, lag: LatencyHistogram::new() }
    }

    /// Adds what another thread counted in the same interval.
    pub(crate) fn merge(&mut self, other: &Counts) {
        for (mine, theirs) in self.scripts.iter_mut().zip(&other.scripts) {
            mine.transactions += theirs.transactions;
            mine.retried += theirs.retried;
            add_all(&mut mine.failures, &theirs.failures);
            add_all(&mut mine.retries, &theirs.retries);
            mine.latency.merge(&theirs.latency);
            for (mine, theirs) in mine.statements.iter_mut().zip(&theirs.statements) {
                mine.merge(theirs);
            }
        }
        self.skipped += other.skipped;
        self.late += other.late;
        self.lag.merge(&other.lag);
    }
}

impl From<ScriptCounts> for ScriptInterval {
    fn from(counts: ScriptCounts) -> Self {
        ScriptInterval {
            transactions: counts.transactions,
            failures: counts.failures,
            retried: counts.retried,
            retries: counts.retries,
            latency: SparseHistogram::from(&counts.latency),
            statements: counts.statements.iter().map(SparseHistogram::from).collect(),
        }
    }
}

/// Adds counts by key.
pub(crate) fn add_all(to: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
    for (key, count) in from {
        add(to, key, *count);
    }
}

/// Adds to the count of one key.
pub(crate) fn add(to: &mut BTreeMap<String, u64>, key: &str, count: u64) {
    match to.get_mut(key) {
        Some(sum) => *sum += count,
        None => {
            to.insert(key.to_owned(), count);
        }
    }
}
