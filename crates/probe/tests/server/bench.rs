//! What the tests share: a server, a collector, waiting for a condition.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use walwright_probe::{
    Clock, Connector, HostScope, Observation, Probe, ProbeSpec, Rates, Sink, TablesOfInterest,
    TargetDescription, target_facts,
};
use walwright_record::{Event, Row, Sample, Source, TargetFacts, TargetKind};
use walwright_server::{
    Client, Cluster, ClusterSpec, ConnectParams, Installs, Major, RunningCluster,
};

/// A server of its own with default settings and `extra` ones.
pub fn server(major: Major, extra: &[(&str, &str)]) -> RunningCluster {
    cluster(major, extra).start().expect("started")
}

/// The same, not started yet.
pub fn cluster(major: Major, extra: &[(&str, &str)]) -> Cluster {
    let installs = Installs::open(None).expect("a cache");
    let install = installs.ensure(major, &mut |_| {}).expect("an install");
    let mut spec = ClusterSpec::new(installs.places(), install);
    spec.settings = extra.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Cluster::create(spec).expect("a cluster")
}

/// Runs the asynchronous part of a test.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

pub async fn connect(params: &ConnectParams) -> Client {
    walwright_server::connect_for_workload(params).await.expect("connected")
}

pub fn description() -> TargetDescription {
    TargetDescription {
        kind: TargetKind::Attached,
        address: "test".to_owned(),
        install: None,
        tables: TablesOfInterest::Largest(10),
    }
}

pub async fn facts(client: &Client) -> TargetFacts {
    target_facts(client, &description()).await.expect("facts")
}

/// Everything a probe handed over.
#[derive(Clone, Default)]
pub struct Collector(Arc<Mutex<(Vec<Sample>, Vec<Event>)>>);

impl Collector {
    fn lock(&self) -> MutexGuard<'_, (Vec<Sample>, Vec<Event>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn sink(&self) -> Sink {
        let collector = self.clone();
        Arc::new(move |observation| match observation {
            Observation::Sample(sample) => collector.lock().0.push(sample),
            Observation::Event(event) => collector.lock().1.push(event),
        })
    }

    pub fn samples(&self, source: Source) -> Vec<Sample> {
        self.lock().0.iter().filter(|sample| sample.source == source).cloned().collect()
    }

    pub fn events(&self, kind: &str) -> Vec<Event> {
        self.lock().1.iter().filter(|event| event.kind == kind).cloned().collect()
    }

    /// All rows of a source, oldest first.
    pub fn rows(&self, source: Source) -> Vec<Row> {
        self.samples(source).into_iter().flat_map(|sample| sample.rows).collect()
    }

    /// How far a counter moved between the first and the last row for which `which` holds.
    pub fn moved(&self, source: Source, column: &str, which: impl Fn(&Row) -> bool) -> f64 {
        let rows: Vec<Row> = self.rows(source).into_iter().filter(which).collect();
        let value = |row: Option<&Row>| row.and_then(|row| row.number(column));
        match (value(rows.first()), value(rows.last())) {
            (Some(first), Some(last)) => last - first,
            other => panic!("{source:?}.{column}: {other:?} in {} rows", rows.len()),
        }
    }
}

/// A probe that looks often.
pub async fn start(params: &ConnectParams, host: HostScope) -> (Probe, Collector) {
    start_with(Connector::to(params), host).await
}

/// The same with connections from elsewhere.
pub async fn start_with(connector: Connector, host: HostScope) -> (Probe, Collector) {
    let collector = Collector::default();
    let spec = ProbeSpec {
        connector,
        rates: Rates {
            counters: Duration::from_millis(200),
            statements: Duration::from_millis(200),
            tables: Duration::from_millis(400),
            waits: Duration::from_millis(20),
            at_most: None,
        },
        host,
        clock: Clock::start(),
    };
    let probe = Probe::start(spec, collector.sink()).await.expect("a probe");
    (probe, collector)
}

/// Waits until a condition holds; fails the test when it never does.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
