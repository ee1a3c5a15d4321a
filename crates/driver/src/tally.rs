//! What one thread counts in one interval.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use walwright_record::{LatencyHistogram, ScriptInterval, SparseHistogram};
use walwright_workload::script::Program;

use crate::clock::Moment;

/// Key of failures that the connection's loss caused.
pub(crate) const CONNECTION: &str = "connection";
/// Key of failures of answers that did not come in time.
pub(crate) const TIMEOUT: &str = "timeout";
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
    /// Time in the interval that the thread waited for a processor; `None` where the kernel
    /// does not count it.
    pub(crate) run_delay: Option<Duration>,
}

/// What is counted as it happens.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) scripts: Vec<ScriptCounts>,
    pub(crate) skipped: u64,
    pub(crate) late: u64,
    lag: LatencyHistogram,
    /// Latencies that are in no histogram yet. A histogram is large and each of
    /// them lies elsewhere, so that counting one at a time would fetch several
    /// lines of memory every time.
    log: Vec<(Histogram, u32)>,
}

/// Names a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Histogram {
    /// Lag of transactions.
    Lag,
    /// Latency of the transactions of a script.
    Script(u16),
    /// Latency of a statement, by script and statement.
    Statement(u16, u16),
}

/// Latencies logged before they are counted in one go.
const LOG: usize = 4096;

/// The same of one script; fields as in [`ScriptInterval`].
#[derive(Debug)]
pub(crate) struct ScriptCounts {
    pub(crate) transactions: u64,
    pub(crate) failures: BTreeMap<String, u64>,
    pub(crate) retried: u64,
    pub(crate) retries: BTreeMap<String, u64>,
    latency: LatencyHistogram,
    /// Empty where they are not kept.
    statements: Vec<LatencyHistogram>,
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
        let (lag, log) = (LatencyHistogram::new(), Vec::with_capacity(LOG));
        Counts { scripts, skipped: 0, late: 0, lag, log }
    }

    /// Counts a latency, given in nanoseconds.
    #[inline]
    pub(crate) fn record(&mut self, histogram: Histogram, nanos: u64) {
        match u32::try_from(nanos) {
            Ok(nanos) => {
                self.log.push((histogram, nanos));
                if self.log.len() == LOG {
                    self.count_log();
                }
            }
            // Above four seconds; those are few.
            Err(_) => self.count(histogram, nanos),
        }
    }

    /// Counts what is only logged so far.
    pub(crate) fn count_log(&mut self) {
        let mut log = std::mem::take(&mut self.log);
        for (histogram, nanos) in log.drain(..) {
            self.count(histogram, u64::from(nanos));
        }
        self.log = log;
    }

    fn count(&mut self, histogram: Histogram, nanos: u64) {
        let script = |place: u16| usize::from(place);
        let histogram = match histogram {
            Histogram::Lag => Some(&mut self.lag),
            Histogram::Script(place) => {
                self.scripts.get_mut(script(place)).map(|counts| &mut counts.latency)
            }
            Histogram::Statement(place, statement) => self
                .scripts
                .get_mut(script(place))
                .and_then(|counts| counts.statements.get_mut(usize::from(statement))),
        };
        if let Some(histogram) = histogram {
            histogram.record_nanos(nanos);
        }
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

    /// Forgets what was counted and keeps the memory.
    pub(crate) fn clear(&mut self) {
        for script in &mut self.scripts {
            script.transactions = 0;
            script.retried = 0;
            script.failures.clear();
            script.retries.clear();
            for histogram in script.statements.iter_mut().chain([&mut script.latency]) {
                if !histogram.is_empty() {
                    histogram.clear();
                }
            }
        }
        self.skipped = 0;
        self.late = 0;
        self.lag.clear();
        self.log.clear();
    }

    /// Open loop: how long after its due time each transaction began.
    pub(crate) fn lag(&self) -> SparseHistogram {
        SparseHistogram::from(&self.lag)
    }
}

/// Counts that are of no more use, for who needs new ones: their memory is
/// large, and asking the kernel for it every interval would not be free.
#[derive(Debug, Default)]
pub(crate) struct Spares(Mutex<Vec<Counts>>);

impl Spares {
    pub(crate) fn give(&self, mut counts: Counts) {
        counts.clear();
        self.lock().push(counts);
    }

    pub(crate) fn take(&self) -> Option<Counts> {
        self.lock().pop()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Counts>> {
        // The list is whole even where a thread ended in a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<&ScriptCounts> for ScriptInterval {
    fn from(counts: &ScriptCounts) -> Self {
        ScriptInterval {
            transactions: counts.transactions,
            failures: counts.failures.clone(),
            retried: counts.retried,
            retries: counts.retries.clone(),
            latency: SparseHistogram::from(&counts.latency),
            statements: counts.statements.iter().map(SparseHistogram::from).collect(),
            sums: None,
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

#[cfg(test)]
mod tests {
    use walwright_workload::script::ScriptSource;

    use super::*;

    fn counts(statement_histograms: bool) -> Counts {
        let source =
            ScriptSource { name: "test".into(), text: "SELECT 1;\nSELECT 2;".into(), weight: 1 };
        let program = Program::compile(&[source], &[]).unwrap();
        Counts::new(&program, statement_histograms)
    }

    #[test]
    fn every_latency_ends_up_in_its_histogram() {
        let mut counts = counts(true);
        // More than the log holds, and some that do not fit an entry of it.
        for i in 0..LOG as u64 + 10 {
            counts.record(Histogram::Script(0), 1_000_000 + i);
            counts.record(Histogram::Statement(0, 1), 2_000_000);
        }
        counts.record(Histogram::Lag, 5_000_000_000);
        counts.count_log();
        let script = ScriptInterval::from(&counts.scripts[0]);
        let all = LOG as u64 + 10;
        assert_eq!((script.latency.count(), script.statements[1].count()), (all, all));
        assert_eq!(script.statements[0].count(), 0);
        assert!(counts.lag().max().unwrap() >= Duration::from_secs(5));
        let mut twice = self::counts(true);
        twice.merge(&counts);
        twice.merge(&counts);
        assert_eq!(ScriptInterval::from(&twice.scripts[0]).latency.count(), 2 * all);
        twice.clear();
        assert!(ScriptInterval::from(&twice.scripts[0]).latency.is_empty());
        assert!(twice.lag().is_empty());
    }

    #[test]
    fn latencies_of_statements_are_dropped_where_they_are_not_kept() {
        let mut counts = counts(false);
        counts.record(Histogram::Statement(0, 0), 1);
        counts.count_log();
        assert!(ScriptInterval::from(&counts.scripts[0]).statements.is_empty());
    }
}
