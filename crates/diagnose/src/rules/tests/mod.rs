//! Rules on built records: each finds what it is for, and nothing else does.

mod clients;
mod commits;
mod machine;
mod mistakes;
mod statements;

use std::time::Duration;

use walwright_record::{HostFacts, InstrumentFacts, Record, Row, Setting, Source, StorageProbe};
use walwright_testing::{Build, closed_loop, embedded, named, row, wait};

use crate::{Change, Diagnosis, DiagnosisId, Finding, Kind, Reading, findings};

/// Seconds of a case; ten before the window, and the window to its end.
const SECONDS: u32 = 70;
const FROM: u32 = 10;

/// A run in the making: clients in a closed loop at a constant rate, on this machine.
pub(super) struct Case {
    pub(super) build: Build,
    rate: f64,
    statements: Vec<Row>,
}

/// Starts a case whose latency is clients over rate.
pub(super) fn case(clients: u32, rate: u32) -> Case {
    let mut build = Build::new();
    let latency = Duration::from_secs_f64(f64::from(clients) / f64::from(rate));
    for s in 0..SECONDS {
        let interval = build.interval(f64::from(s), &vec![latency; rate as usize]);
        interval.clients = clients;
    }
    build.measure(f64::from(FROM), f64::from(SECONDS));
    build.record.load = Some(closed_loop(clients));
    build.record.target = Some(embedded());
    build.record.host = Some(HostFacts {
        processors: Some(4),
        memory_bytes: Some(16 << 30),
        ..HostFacts::default()
    });
    Case { build, rate: f64::from(rate), statements: Vec::new() }
}

impl Case {
    /// Sessions seen at each tick: state, wait type, event, how many on average.
    pub(super) fn waits(mut self, seen: &[(&str, &str, &str, f64)]) -> Self {
        for tick in 0..SECONDS * 10 {
            // A little more in every other tick, so that there is spread.
            let sway = if tick % 2 == 0 { 0.9 } else { 1.1 };
            let rows: Vec<Row> = seen
                .iter()
                .map(|(state, kind, event, n)| wait(state, kind, event, n * sway))
                .collect();
            self.build.sample(f64::from(tick) / 10.0, Source::Waits, rows);
        }
        self
    }

    /// Counters of a source with one row, a transaction.
    pub(super) fn counts<const N: usize>(mut self, source: Source, per: [(&str, f64); N]) -> Self {
        for s in 0..SECONDS {
            let done = self.rate * f64::from(s);
            self.build.sample(f64::from(s), source, [row(per.map(|(c, n)| (c, n * done)))]);
        }
        self
    }

    /// Readings of a source with one row that stay as they are.
    pub(super) fn reads<const N: usize>(
        mut self,
        source: Source,
        columns: [(&str, f64); N],
    ) -> Self {
        for s in 0..SECONDS {
            self.build.sample(f64::from(s), source, [row(columns)]);
        }
        self
    }

    /// Flushes a transaction and milliseconds of each, timed by the server.
    pub(super) fn flushes(self, each: f64, milliseconds: f64) -> Self {
        self.setting("track_wal_io_timing", "on").counts(
            Source::Wal,
            [
                ("wal_bytes", 1_000.0),
                ("wal_records", 5.0),
                ("wal_fpi", 0.0),
                ("wal_buffers_full", 0.0),
                ("wal_sync", each),
                ("wal_sync_time", each * milliseconds),
            ],
        )
    }

    /// A statement: text, calls a transaction, milliseconds a call, other counters a call.
    pub(super) fn statement<const N: usize>(
        mut self,
        text: &str,
        calls: f64,
        milliseconds: f64,
        others: [(&str, f64); N],
    ) -> Self {
        let mut of = named([("query", text)], others);
        of.set("calls", calls).set("ms", milliseconds);
        self.statements.push(of);
        self
    }

    /// Process groups: name, processors, seconds of run-queue time a transaction.
    pub(super) fn processes(mut self, source: Source, groups: &[(&str, f64, f64)]) -> Self {
        for s in 0..SECONDS {
            let t = f64::from(s);
            let rows: Vec<Row> = groups
                .iter()
                .map(|(name, processors, delay)| {
                    named(
                        [("process_group", *name)],
                        [
                            ("user_seconds", processors * t),
                            ("system_seconds", 0.0),
                            ("run_delay_seconds", delay * self.rate * t),
                        ],
                    )
                })
                .collect();
            self.build.sample(t, source, rows);
        }
        self
    }

    /// Processors busy and stolen, of four.
    pub(super) fn busy(mut self, busy: f64, steal: f64) -> Self {
        for s in 0..SECONDS {
            let t = 4.0 * f64::from(s);
            let kinds = [
                ("user", 0.7 * busy * t),
                ("nice", 0.0),
                ("system", 0.3 * busy * t),
                ("idle", (1.0 - busy - steal) * t),
                ("iowait", 0.0),
                ("irq", 0.0),
                ("softirq", 0.0),
                ("steal", steal * t),
            ];
            self.build.sample(f64::from(s), Source::Cpu, [row(kinds)]);
        }
        self
    }

    pub(super) fn setting(mut self, name: &str, value: &str) -> Self {
        self.build.setting(name, value);
        self
    }

    /// A setting with its unit and context.
    pub(super) fn sized(mut self, name: &str, value: &str, unit: &str, context: &str) -> Self {
        self.build.setting(name, value);
        if let Some(setting) = self.build.record.settings.last_mut() {
            setting.unit = Some(unit.to_owned());
            setting.context = context.to_owned();
        }
        self
    }

    pub(super) fn storage(mut self, milliseconds: f64) -> Self {
        let time = Duration::from_secs_f64(milliseconds / 1e3);
        self.build.record.storage = Some(StorageProbe {
            path: "data".to_owned(),
            method: "fdatasync".to_owned(),
            block_bytes: 8192,
            flushes: 1_000,
            p50: time,
            p99: time,
            max: time,
            mean: time,
        });
        self
    }

    pub(super) fn instrument(mut self, busiest: f64, ceiling: f64) -> Self {
        self.build.record.instrument = Some(InstrumentFacts {
            cpu_per_transaction: None,
            ceiling: Some(ceiling),
            busiest_thread: Some(busiest),
        });
        self
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Record)) -> Self {
        change(&mut self.build.record);
        self
    }

    pub(super) fn diagnose(mut self) -> Diagnosis {
        let statements = std::mem::take(&mut self.statements);
        if !statements.is_empty() {
            for s in 0..SECONDS {
                let done = self.rate * f64::from(s);
                let rows: Vec<Row> =
                    statements.iter().zip(1_i64..).map(|(of, id)| counted(of, id, done)).collect();
                self.build.sample(f64::from(s), Source::Statements, rows);
            }
        }
        let diagnosis = findings(&self.build.record);
        diagnosis.findings.iter().for_each(taken);
        for impact in diagnosis.findings.iter().filter_map(|finding| finding.impact.as_ref()) {
            let share = &impact.share;
            let ends = share.interval.map_or([share.center; 2], |i| [i.low, i.high]);
            assert!(ends.iter().all(|end| (0.0..=1.0).contains(end)), "{share:?}");
        }
        diagnosis
    }
}

/// Whether the server takes the settings that a finding would have.
fn taken(finding: &Finding) {
    for action in &finding.actions {
        if let Change::Setting { name, value } = &action.change {
            let known = walwright_catalog::setting(name);
            let Some(known) = known else {
                assert!(name.contains('.'), "{name}");
                continue;
            };
            known.read_in(18, value).unwrap_or_else(|error| panic!("{name} = {value}: {error}"));
        }
    }
}

#[test]
fn no_advice_is_outside_the_range_of_a_setting() {
    let mut build = case(4, 100).build;
    let known = || walwright_catalog::settings().filter(|p| p.is_in(18));
    for parameter in known() {
        build.setting(&parameter.name, "?");
    }
    let reading = Reading::new(&build.record).unwrap();
    for parameter in known() {
        for value in ["-1e300", "-2", "0", "1e9", "9e300", "nonsense"] {
            if let Some(action) = reading.set(&parameter.name, value, "") {
                let mut finding = reading.finding(crate::DiagnosisId::D1, Kind::Problem, "");
                finding.actions.push(action);
                taken(&finding);
            }
        }
    }
    let value = |name: &str, value: &str| reading.set(name, value, "").map(|action| action.change);
    let setting = |name: &str, value: &str| {
        Some(Change::Setting { name: name.to_owned(), value: value.to_owned() })
    };
    assert_eq!(value("commit_delay", "500000"), setting("commit_delay", "100000"));
    assert_eq!(value("wal_buffers", "64MB"), setting("wal_buffers", "64MB"));
    assert_eq!(value("wal_compression", "lz5"), None);
}

/// The row of a statement after so many transactions.
fn counted(of: &Row, id: i64, done: f64) -> Row {
    let calls = of.number("calls").unwrap_or(0.0) * done;
    let mut row = Row::new();
    row.set("queryid", id).set("userid", 10_i64).set("dbid", 5_i64).set("toplevel", true);
    row.set("calls", calls).set("total_exec_time", calls * of.number("ms").unwrap_or(0.0));
    for (column, value) in &of.0 {
        let name: &str = column;
        match of.number(name) {
            Some(_) if name == "calls" || name == "ms" => {}
            Some(per_call) => drop(row.set(name, per_call * calls)),
            None => drop(row.set(name, value.clone())),
        }
    }
    row
}

pub(super) fn found(diagnosis: &Diagnosis, id: DiagnosisId) -> &Finding {
    match diagnosis.findings.iter().find(|f| f.id == id) {
        Some(finding) => finding,
        None => panic!("{id} is not among {:?}", ids(diagnosis)),
    }
}

pub(super) fn ids(diagnosis: &Diagnosis) -> Vec<(DiagnosisId, Kind)> {
    diagnosis.findings.iter().map(|f| (f.id, f.kind)).collect()
}

pub(super) fn problems(diagnosis: &Diagnosis) -> Vec<DiagnosisId> {
    diagnosis.problems().map(|f| f.id).collect()
}

pub(super) fn commands(finding: &Finding) -> Vec<String> {
    finding.actions.iter().filter_map(crate::Action::command).collect()
}

/// A setting as the server shows it, for a record that is built by hand.
pub(super) fn stored(name: &str, value: &str) -> Setting {
    let mut build = Build::new();
    build.setting(name, value);
    build.record.settings.remove(0)
}
