//! The store of runs: as a file of bytes, and with a value of a column replaced.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use walwright_record::{
    Event, LatencyHistogram, LoadInterval, PhaseName, Row, RunHeader, RunId, RunState, Sample,
    ScriptInterval, Setting, Source, SparseHistogram, Timestamp, Warning, WarningCode,
};
use walwright_store::Store;

use crate::Target;

/// The file as it lies there.
pub(crate) const STORE: Target = Target { name: "store", samples: || vec![store()], feed: file };

/// One value of one row, in a file that is sound otherwise.
pub(crate) const COLUMNS: Target = Target { name: "columns", samples: columns, feed: column };

const FILE: &str = "walwright.db";

/// A store of two runs.
fn store() -> Vec<u8> {
    static STORE: OnceLock<Vec<u8>> = OnceLock::new();
    STORE.get_or_init(|| made().expect("a store")).clone()
}

fn made() -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    const START: Timestamp = Timestamp(1_790_000_000_000_000);
    let directory = tempfile::tempdir()?;
    let store = Store::open(directory.path())?;
    for (name, state) in [("20260921-120000-aaa", RunState::Complete), ("b", RunState::Running)] {
        let header = RunHeader {
            id: RunId(name.to_owned()),
            started: START,
            ended: None,
            state: RunState::Running,
            walwright_version: "0.1.0".to_owned(),
            command: "walwright run".to_owned(),
            label: Some("before".to_owned()),
            workload: "tpcb".to_owned(),
            target: "embedded".to_owned(),
            error: None,
        };
        let mut run = store.begin(&header)?;
        run.settings(&[Setting {
            name: "work_mem".to_owned(),
            value: "4096".to_owned(),
            unit: Some("kB".to_owned()),
            shown: "4MB".to_owned(),
            boot_value: Some("4096".to_owned()),
            source: "default".to_owned(),
            source_file: None,
            context: "user".to_owned(),
            pending_restart: false,
        }])?;
        for (phase, second) in [(PhaseName::WarmUp, 0), (PhaseName::Measure, 1)] {
            run.phase(phase, START.plus(Duration::from_secs(second)))?;
        }
        let (kind, text) = ("checkpoint".to_owned(), "complete".to_owned());
        run.event(&Event { at: START, kind, text })?;
        run.warning(&Warning::new(WarningCode::ShortWindow, "the window is 2 s"))?;
        for second in 0..3 {
            let mut row = Row::new();
            row.set("wal_bytes", 1_000 * second as i64);
            run.samples(&[Sample {
                source: Source::Wal,
                at: START.plus(Duration::from_secs(second as u64)),
                rows: vec![row],
            }])?;
            let mut counts = LatencyHistogram::new();
            counts.record(Duration::from_micros(900));
            let latency = SparseHistogram::from(&counts);
            run.interval(&LoadInterval {
                start: START.plus(Duration::from_secs(second as u64)),
                length: Duration::from_secs(1),
                scripts: vec![ScriptInterval {
                    transactions: 1,
                    failures: BTreeMap::from([("40001".to_owned(), 2)]),
                    latency: latency.clone(),
                    statements: vec![latency.clone()],
                    ..ScriptInterval::default()
                }],
                clients: 16,
                due: 0,
                skipped: 0,
                late: 0,
                lag: latency,
                driver_cpu: Duration::from_millis(80),
                busiest_thread_cpu: Duration::from_millis(50),
                driver_run_delay: Some(Duration::from_millis(10)),
            })?;
        }
        if state == RunState::Complete {
            run.finish(state, START.plus(Duration::from_secs(4)), None)?;
        }
    }
    drop(store);
    let path = directory.path().join(FILE);
    let whole = Connection::open(&path)?;
    whole.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    // A file in WAL mode that is copied alone is whole after that.
    whole.close().map_err(|(_, error)| error)?;
    Ok(fs::read(path)?)
}

fn file(bytes: &[u8]) {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join(FILE), bytes).expect("a file");
    read(directory.path());
}

fn read(lab: &Path) {
    let Ok(Some(store)) = Store::open_existing(lab) else { return };
    let _ = black_box(store.headlines());
    let _ = black_box(store.find("latest"));
    for header in store.runs().unwrap_or_default() {
        let _ = black_box(store.load(&header.id));
        let _ = black_box(store.probes(&header.id, 3));
    }
}

const TABLES: [(&str, &[&str]); 8] = [
    (
        "run",
        &["id", "started_us", "ended_us", "state", "label", "workload", "target", "owner_started"],
    ),
    ("fact", &["name", "body"]),
    ("phase", &["name", "start_us", "end_us"]),
    ("event", &["at_us", "kind", "text"]),
    ("warning", &["body"]),
    ("sample", &["source", "at_us", "body"]),
    ("interval", &["start_us", "body"]),
    ("histogram", &["start_us", "script", "statement", "body"]),
];

/// Letters that say where a value goes: table, column, row, kind; then the value.
fn columns() -> Vec<Vec<u8>> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(FILE);
    fs::write(&path, store()).expect("a file");
    let store = Connection::open(path).expect("a store");
    let mut all = Vec::new();
    for (table, (name, columns)) in (0_u8..).zip(TABLES) {
        for (column, of) in (0_u8..).zip(columns) {
            let query = format!("SELECT {of} FROM {name} LIMIT 1");
            let value: Value = store.query_row(&query, [], |row| row.get(0)).expect("a row");
            let (kind, value) = match value {
                Value::Null => (0, Vec::new()),
                Value::Integer(number) => (1, number.to_string().into_bytes()),
                Value::Real(number) => (1, number.to_string().into_bytes()),
                Value::Text(text) => (2, text.into_bytes()),
                Value::Blob(blob) => (3, blob),
            };
            all.push([vec![table, column, 0, kind], value].concat());
        }
    }
    all
}

fn column(bytes: &[u8]) {
    let [table, column, row, kind, value @ ..] = bytes else { return };
    let (table, columns) = TABLES[usize::from(*table) % TABLES.len()];
    let column = columns[usize::from(*column) % columns.len()];
    let text = || String::from_utf8_lossy(value).into_owned();
    let value = match kind % 4 {
        0 => Value::Null,
        1 => Value::Integer(text().parse().unwrap_or_else(|_| {
            value.iter().fold(0, |number: i64, byte| number.wrapping_mul(256) + i64::from(*byte))
        })),
        2 => Value::Text(text()),
        _ => Value::Blob(value.to_vec()),
    };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(FILE);
    fs::write(&path, store()).expect("a file");
    let store = Connection::open(path).expect("a store");
    let keyed = if table == "event" || table == "warning" { "rowid" } else { "run_id" };
    let keyed = if table == "run" { "id" } else { keyed };
    let sql = match row % 2 {
        0 => format!("UPDATE {table} SET {column} = ?1"),
        _ => format!(
            "UPDATE {table} SET {column} = ?1 WHERE {keyed} = (SELECT max({keyed}) FROM {table})"
        ),
    };
    // What the file's own rules refuse is no input.
    if store.execute(&sql, params_from_iter([value])).is_ok() {
        drop(store);
        read(directory.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_sound() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join(FILE), store()).expect("a file");
        let store = Store::open_existing(directory.path()).expect("opens").expect("is there");
        let runs = store.runs().expect("runs");
        assert_eq!(runs.len(), 2);
        let record = store.load(&runs[0].id).expect("a record");
        assert_eq!((record.intervals.len(), record.settings.len()), (3, 1));
    }
}
