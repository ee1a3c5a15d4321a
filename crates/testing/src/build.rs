//! Small records for tests, second by second.

use std::collections::BTreeMap;
use std::time::Duration;

use walwright_record::{
    LatencyHistogram, LoadFacts, LoadInterval, Phase, PhaseName, Record, Row, RunHeader, Sample,
    Scalar, Schedule, ScriptInterval, Setting, Source, SparseHistogram, TargetFacts, TargetKind,
    Timestamp,
};

use crate::header;

/// 2026-11-20 00:00:00 UTC, when all test runs begin.
const ORIGIN: i64 = 1_795_132_800_000_000;

/// The moment `seconds` after the run began.
pub fn second(seconds: f64) -> Timestamp {
    Timestamp(ORIGIN + (seconds * 1e6).round() as i64)
}

/// A histogram of these latencies.
pub fn histogram(latencies: &[Duration]) -> SparseHistogram {
    let mut dense = LatencyHistogram::new();
    latencies.iter().for_each(|l| dense.record(*l));
    SparseHistogram::from(&dense)
}

/// A closed loop of so many clients.
pub fn closed_loop(clients: u32) -> LoadFacts {
    LoadFacts {
        clients,
        threads: 1,
        protocol: "prepared".to_owned(),
        mode: "faithful".to_owned(),
        schedule: Schedule::CLOSED,
        ramp: Duration::ZERO,
        max_tries: 1,
        seed: 1,
        rules: Default::default(),
        stages: Vec::new(),
        pooler: None,
    }
}

/// A row of numbers.
pub fn row<const N: usize>(columns: [(&str, f64); N]) -> Row {
    let mut row = Row::new();
    for (column, value) in columns {
        row.set(column, value);
    }
    row
}

/// A row of numbers with names before them.
pub fn named<const N: usize, const M: usize>(
    names: [(&str, &str); N],
    columns: [(&str, f64); M],
) -> Row {
    let mut row = row(columns);
    for (column, value) in names {
        row.set(column, Scalar::from(value));
    }
    row
}

/// One row of a tick of wait events; an empty type means no wait.
pub fn wait(state: &str, kind: &str, event: &str, sessions: f64) -> Row {
    let mut row =
        named([("backend_type", "client backend"), ("state", state)], [("sessions", sessions)]);
    let of = |text: &str| if text.is_empty() { Scalar::Null } else { Scalar::from(text) };
    row.set("wait_event_type", of(kind)).set("wait_event", of(event));
    row
}

/// A record under construction.
pub struct Build {
    /// As far as it is built.
    pub record: Record,
}

impl Default for Build {
    fn default() -> Build {
        Build::new()
    }
}

impl Build {
    /// A record of no samples.
    pub fn new() -> Self {
        let record = Record::new(RunHeader {
            started: second(0.0),
            walwright_version: "0.1.0".to_owned(),
            command: "run".to_owned(),
            workload: "tpcb".to_owned(),
            target: "embedded".to_owned(),
            ..header()
        });
        Build { record }
    }

    /// A measured phase between these seconds.
    pub fn measure(&mut self, from: f64, to: f64) -> &mut Self {
        let (start, end) = (second(from), Some(second(to)));
        self.record.phases.push(Phase { name: PhaseName::Measure, start, end });
        self
    }

    /// A sample at this second.
    pub fn sample(
        &mut self,
        at: f64,
        source: Source,
        rows: impl IntoIterator<Item = Row>,
    ) -> &mut Self {
        let sample = Sample { at: second(at), source, rows: rows.into_iter().collect() };
        self.record.samples.entry(source).or_default().push(sample);
        self
    }

    /// One-second intervals of one script at a constant rate and a latency of 2 ms.
    pub fn load(&mut self, from: u32, to: u32, per_second: u64) -> &mut Self {
        for s in from..to {
            self.interval(f64::from(s), &vec![Duration::from_millis(2); per_second as usize]);
        }
        self
    }

    /// One one-second interval of one script with these latencies.
    pub fn interval(&mut self, start: f64, latencies: &[Duration]) -> &mut LoadInterval {
        let script = ScriptInterval {
            transactions: latencies.len() as u64,
            latency: histogram(latencies),
            ..ScriptInterval::default()
        };
        let index = self.record.intervals.len();
        self.record.intervals.push(LoadInterval {
            start: second(start),
            length: Duration::from_secs(1),
            scripts: vec![script],
            clients: 10,
            due: 0,
            skipped: 0,
            late: 0,
            lag: SparseHistogram::default(),
            driver_cpu: Duration::from_millis(50),
            busiest_thread_cpu: Duration::from_millis(30),
            driver_run_delay: None,
        });
        &mut self.record.intervals[index]
    }

    /// The load is an open loop of this rate.
    pub fn open_loop(&mut self, rate: f64) -> &mut Self {
        let schedule = Schedule::Open { rate, poisson: true, latency_limit: None };
        self.record.load = Some(LoadFacts { schedule, ..closed_loop(10) });
        self
    }

    /// A setting of the server.
    pub fn setting(&mut self, name: &str, value: &str) -> &mut Self {
        self.record.settings.push(Setting {
            name: name.to_owned(),
            value: value.to_owned(),
            unit: None,
            shown: value.to_owned(),
            boot_value: None,
            source: "default".to_owned(),
            source_file: None,
            context: "sighup".to_owned(),
            pending_restart: false,
        });
        self
    }
}

/// A server of our own on this machine.
pub fn embedded() -> TargetFacts {
    TargetFacts {
        kind: TargetKind::Embedded,
        address: "embedded".to_owned(),
        version: "18.6".to_owned(),
        version_num: 180_006,
        version_text: String::new(),
        install: None,
        database: "bench".to_owned(),
        role: "bench".to_owned(),
        superuser: true,
        monitor: true,
        local: true,
        postmaster_pid: None,
        processors: None,
        memory_limit_bytes: None,
        data_directory: None,
        extensions: BTreeMap::new(),
        statements: true,
        database_bytes: Some(200 << 20),
        in_recovery: false,
        tables: Vec::new(),
        not_observable: Vec::new(),
    }
}
