//! From the threads' parts to intervals of the load.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use walwright_record::{LoadInterval, ScriptInterval};

use crate::clock::{Clock, Moment};
use crate::outcome::ScriptTotals;
use crate::tally::{Part, Spares, add_all};

/// Puts the parts of the workers together.
pub(crate) struct Merger {
    clock: Clock,
    length: Duration,
    /// By worker, how many intervals it has closed; `None` once it has ended.
    closed: Vec<Option<u64>>,
    /// Number of the next interval to be completed.
    next: u64,
    open: BTreeMap<u64, Open>,
    spares: Arc<Spares>,
    pub(crate) totals: Totals,
}

/// Sums over the whole load.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) scripts: Vec<ScriptTotals>,
    pub(crate) due: u64,
    pub(crate) skipped: u64,
    pub(crate) late: u64,
}

/// An interval of which some parts are there.
struct Open {
    sum: Part,
    busiest: Duration,
}

impl Merger {
    /// For a load whose moment zero is that of `clock`.
    pub(crate) fn new(
        clock: Clock,
        length: Duration,
        workers: usize,
        scripts: usize,
        spares: Arc<Spares>,
    ) -> Self {
        let totals =
            Totals { scripts: vec![ScriptTotals::default(); scripts], ..Totals::default() };
        Merger {
            clock,
            length,
            closed: vec![Some(0); workers],
            next: 0,
            open: BTreeMap::new(),
            spares,
            totals,
        }
    }

    /// A worker has closed an interval.
    pub(crate) fn add(&mut self, worker: usize, part: Part) {
        if let Some(closed) = self.closed.get_mut(worker) {
            *closed = Some(part.index + 1);
        }
        match self.open.get_mut(&part.index) {
            None => {
                self.open.insert(part.index, Open { busiest: part.cpu, sum: part });
            }
            Some(Open { sum, busiest }) => {
                *busiest = (*busiest).max(part.cpu);
                sum.counts.merge(&part.counts);
                sum.end = sum.end.max(part.end);
                sum.clients += part.clients;
                sum.due += part.due;
                sum.cpu += part.cpu;
                sum.run_delay = sum.run_delay.zip(part.run_delay).map(|(a, b)| a + b);
                self.spares.give(part.counts);
            }
        }
    }

    /// A worker will close no more intervals.
    pub(crate) fn end(&mut self, worker: usize) {
        if let Some(closed) = self.closed.get_mut(worker) {
            *closed = None;
        }
    }

    /// Whether all workers have ended.
    pub(crate) fn all_ended(&self) -> bool {
        self.closed.iter().all(Option::is_none)
    }

    /// The next interval that all workers have closed.
    pub(crate) fn take(&mut self) -> Option<LoadInterval> {
        let complete =
            self.closed.iter().all(|closed| closed.is_none_or(|closed| closed > self.next));
        if !complete {
            return None;
        }
        let Open { sum, busiest } = self.open.remove(&self.next)?;
        let start = Moment::default() + self.length.saturating_mul(self.next as u32);
        self.next += 1;
        for (total, script) in self.totals.scripts.iter_mut().zip(&sum.counts.scripts) {
            total.transactions += script.transactions;
            total.retried += script.retried;
            add_all(&mut total.failures, &script.failures);
            add_all(&mut total.retries, &script.retries);
        }
        self.totals.due += sum.due;
        self.totals.skipped += sum.counts.skipped;
        self.totals.late += sum.counts.late;
        let interval = LoadInterval {
            start: self.clock.timestamp(start),
            length: sum.end.since(start),
            scripts: sum.counts.scripts.iter().map(ScriptInterval::from).collect(),
            clients: sum.clients,
            due: sum.due,
            skipped: sum.counts.skipped,
            late: sum.counts.late,
            lag: sum.counts.lag(),
            driver_cpu: sum.cpu,
            busiest_thread_cpu: busiest,
            driver_run_delay: sum.run_delay,
        };
        self.spares.give(sum.counts);
        Some(interval)
    }
}
