//! What the service counts.

use std::sync::atomic::AtomicI64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Upper ends of buckets in seconds: a thin network to a hung server.
const BUCKETS: [f64; 17] = [
    5e-5, 1e-4, 2e-4, 3e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 5.0,
];

/// A request, without what differs between documents.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) route: &'static str,
}

/// A request and how it was answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Answered {
    pub(crate) method: &'static str,
    pub(crate) route: &'static str,
    pub(crate) status: u16,
}

/// Why a transaction was tried again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Reason {
    pub(crate) reason: String,
}

/// What became of references.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Path {
    pub(crate) path: &'static str,
}

/// Counters, gauges and histograms.
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) requests: Family<Answered, Counter>,
    pub(crate) latency: Family<Route, Histogram, fn() -> Histogram>,
    pub(crate) pool_wait: Histogram,
    pub(crate) pool_in_use: Gauge<i64, AtomicI64>,
    pub(crate) pool_exhausted: Counter,
    pub(crate) connections_made: Counter,
    pub(crate) retries: Family<Reason, Counter>,
    references: [Counter; 4],
}

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

impl Metrics {
    pub(crate) fn new(pool_size: usize) -> Self {
        let references = Family::<Path, Counter>::default();
        let paths = ["unchanged", "inserted", "updated", "deleted"];
        let mut metrics = Self {
            registry: Registry::with_prefix("walwright_documents"),
            requests: Family::default(),
            latency: Family::new_with_constructor(histogram),
            pool_wait: histogram(),
            pool_in_use: Gauge::default(),
            pool_exhausted: Counter::default(),
            connections_made: Counter::default(),
            retries: Family::default(),
            references: paths.map(|path| references.get_or_create_owned(&Path { path })),
        };
        let size = Gauge::<i64, AtomicI64>::default();
        size.set(pool_size as i64);
        let of = &mut metrics.registry;
        of.register("requests", "Requests answered", metrics.requests.clone());
        of.register_with_unit(
            "request",
            "From the head of a request to its answer",
            Unit::Seconds,
            metrics.latency.clone(),
        );
        of.register_with_unit(
            "pool_wait",
            "From asking for a session to having it",
            Unit::Seconds,
            metrics.pool_wait.clone(),
        );
        of.register("pool_in_use", "Sessions that requests have", metrics.pool_in_use.clone());
        of.register("pool_size", "Sessions at most", size);
        let told = "Requests for which no session was free in time";
        of.register("pool_exhausted", told, metrics.pool_exhausted.clone());
        of.register("connections_made", "Sessions begun", metrics.connections_made.clone());
        let told = "Transactions tried again, by what ended the try";
        of.register("retries", told, metrics.retries.clone());
        of.register("references", "References written, by what that took", references);
        metrics
    }

    /// What became of the references of a document.
    pub(crate) fn referred(&self, counts: [i32; 4]) {
        for (counter, count) in self.references.iter().zip(counts) {
            counter.inc_by(u64::from(count.unsigned_abs()));
        }
    }

    pub(crate) fn answered(&self, route: Route, status: u16, took: Duration) {
        let Route { method, route: path } = route;
        self.requests.get_or_create(&Answered { method, route: path, status }).inc();
        self.latency.get_or_create(&route).observe(took.as_secs_f64());
    }

    pub(crate) fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
