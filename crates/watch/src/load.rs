//! The figures of a load of our own, as metrics.

use walwright_record::{LatencyHistogram, LoadInterval};

use crate::exposition::Snapshot;
use crate::gather::{Histogram, Labelled, Samples};
use crate::metric::{self, Metric};

/// What a load has done since it began.
#[derive(Debug, Default)]
pub struct LoadMetrics {
    transactions: u64,
    failures: u64,
    clients: u32,
    latency: Histogram,
    of_interval: LatencyHistogram,
}

impl LoadMetrics {
    /// Takes a second of load.
    pub fn take(&mut self, interval: &LoadInterval) {
        self.clients = interval.clients;
        self.of_interval.clear();
        for script in &interval.scripts {
            self.transactions += script.transactions;
            self.failures += script.failures.values().sum::<u64>();
            script.latency.add_to(&mut self.of_interval);
        }
        for (latency, count) in self.of_interval.buckets() {
            self.latency.add(count, latency.as_secs_f64() * count as f64);
        }
    }

    /// Its metrics as they are now.
    pub fn snapshot(&self) -> Snapshot {
        let value = |metric: Metric, value: f64| {
            (metric.name, Samples::Values(vec![Labelled { labels: Vec::new(), value }]))
        };
        Snapshot::from([
            value(metric::LOAD_TRANSACTIONS, self.transactions as f64),
            value(metric::LOAD_FAILURES, self.failures as f64),
            value(metric::LOAD_CLIENTS, f64::from(self.clients)),
            (metric::LOAD_LATENCY_SECONDS.name, Samples::Histogram(self.latency.clone())),
        ])
    }
}
