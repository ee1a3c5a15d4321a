//! The store keeps what was written, whatever happens to the writer.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use walwright_record::{
    Event, LatencyHistogram, LoadInterval, PartitionPlan, PhaseName, Row, RunHeader, RunId,
    RunState, Sample, SchemaFacts, ScriptInterval, Source, SparseHistogram, Timestamp, Warning,
    WarningCode,
};
use walwright_store::{FindError, Store, StoreError};

const ORIGIN: Timestamp = Timestamp(1_790_000_000_000_000);

fn header(name: &str) -> RunHeader {
    RunHeader {
        id: RunId(name.to_owned()),
        started: ORIGIN,
        ended: None,
        state: RunState::Running,
        walwright_version: "0.1.0".to_owned(),
        command: "walwright run".to_owned(),
        label: None,
        workload: "tpcb".to_owned(),
        target: "embedded".to_owned(),
        error: None,
    }
}

fn counts(latencies_us: &[u64]) -> SparseHistogram {
    let mut dense = LatencyHistogram::new();
    for us in latencies_us {
        dense.record(Duration::from_micros(*us));
    }
    SparseHistogram::from(&dense)
}

fn interval(second: u64, latencies_us: &[u64]) -> LoadInterval {
    LoadInterval {
        start: ORIGIN.plus(Duration::from_secs(second)),
        length: Duration::from_secs(1),
        scripts: vec![ScriptInterval {
            transactions: latencies_us.len() as u64,
            failures: BTreeMap::from([("40001".to_owned(), 2)]),
            latency: counts(latencies_us),
            statements: vec![counts(latencies_us), counts(&[second + 1])],
            ..ScriptInterval::default()
        }],
        clients: 16,
        due: 0,
        skipped: 0,
        late: 0,
        lag: SparseHistogram::default(),
        driver_cpu: Duration::from_millis(80),
        busiest_thread_cpu: Duration::from_millis(50),
        driver_run_delay: Some(Duration::from_millis(10)),
    }
}

fn sample(second: u64) -> Sample {
    let mut row = Row::new();
    row.set("wal_bytes", 1_000 * second).set("wal_sync_time", Option::<f64>::None);
    Sample { at: ORIGIN.plus(Duration::from_secs(second)), source: Source::Wal, rows: vec![row] }
}

#[test]
fn a_run_reads_back_as_it_was_written() {
    let lab = tempfile::tempdir().unwrap();
    let store = Store::open(lab.path()).unwrap();
    let mut writer = store.begin(&header("20260922-000000-abc")).unwrap();
    writer.phase(PhaseName::WarmUp, ORIGIN).unwrap();
    writer.phase(PhaseName::Measure, ORIGIN.plus(Duration::from_secs(1))).unwrap();
    for second in 0..4 {
        writer.interval(&interval(second, &[100, 200, 300])).unwrap();
        writer.samples(&[sample(second)]).unwrap();
    }
    writer
        .event(&Event { at: ORIGIN, kind: "checkpoint".to_owned(), text: "done".to_owned() })
        .unwrap();
    writer.warning(&Warning::new(WarningCode::LeanMode, "lean").hint("say so")).unwrap();
    writer.side_measure("empty query", 3.5e-5).unwrap();
    writer.finish(RunState::Complete, ORIGIN.plus(Duration::from_secs(4)), None).unwrap();

    let record = store.load(&store.find("latest").unwrap().id).unwrap();
    assert_eq!(record.header.state, RunState::Complete);
    assert_eq!(record.window().unwrap().length(), Duration::from_secs(3));
    assert_eq!(record.intervals.len(), 4);
    assert_eq!(record.intervals[2].scripts[0].latency, counts(&[100, 200, 300]));
    assert_eq!(record.intervals[2].scripts[0].failures["40001"], 2);
    assert_eq!(record.samples(Source::Wal)[3], sample(3));
    assert_eq!(record.samples(Source::Wal)[3].rows[0].number("wal_sync_time"), None);
    assert_eq!(record.side_measures["empty query"], 3.5e-5);
    assert_eq!(record.warnings[0].hint.as_deref(), Some("say so"));
    assert_eq!(record.events.len(), 1);
    assert_eq!(store.course(&record.header.id, 2).unwrap(), [3.0, 3.0]);
    assert_eq!(store.course(&record.header.id, 100).unwrap().len(), 4);
    assert_eq!(store.warning_counts().unwrap(), BTreeMap::from([(record.header.id.0.clone(), 1)]));
    // Statements are merged over the measured window only: seconds 1 to 3.
    assert_eq!(record.statement_latency[0][0].count(), 9);
    assert_eq!(record.statement_latency[0][1].count(), 3);
}

#[test]
fn a_run_is_followed_while_it_is_written() {
    let lab = tempfile::tempdir().unwrap();
    let store = Store::open(lab.path()).unwrap();
    let mut writer = store.begin(&header("20260922-000000-abc")).unwrap();
    let id = writer.id().clone();
    let mut following = Store::open(lab.path()).unwrap().follow(&id).unwrap();
    assert_eq!(following.record(), &store.load(&id).unwrap());
    writer.phase(PhaseName::Measure, ORIGIN).unwrap();
    writer.side_measure("empty query", 3.5e-5).unwrap();
    // More than one at a time, and none.
    let mut second = 0;
    for seconds in [1, 0, 3] {
        for _ in 0..seconds {
            writer.interval(&interval(second, &[100, 200])).unwrap();
            writer.samples(&[sample(second)]).unwrap();
            // Each source is read at times of its own.
            let late = Sample { source: Source::Cpu, at: ORIGIN, ..sample(second) };
            let at = ORIGIN.plus(Duration::from_millis(1000 * second + 700));
            writer.samples(&[Sample { at, ..late }]).unwrap();
            second += 1;
        }
        writer
            .event(&Event { at: ORIGIN, kind: "checkpoint".to_owned(), text: "done".to_owned() })
            .unwrap();
        following.read().unwrap();
        let mut whole = store.load(&id).unwrap();
        whole.statement_latency.clear();
        assert_eq!(following.record(), &whole);
        assert_eq!(whole.intervals.len() as u64, second);
    }
    store.relabel(&id, Some("after the fix")).unwrap();
    let note = Event { at: ORIGIN, kind: "note".to_owned(), text: "here".to_owned() };
    store.add_event(&id, &note).unwrap();
    assert_eq!(store.notes().unwrap(), BTreeMap::from([(id.0.clone(), vec!["here".to_owned()])]));
    assert_eq!(store.written_by(std::process::id(), ORIGIN).unwrap(), std::slice::from_ref(&id));
    writer.finish(RunState::Complete, ORIGIN.plus(Duration::from_secs(4)), None).unwrap();
    following.read().unwrap();
    assert_eq!(following.record(), &store.load(&id).unwrap());
    assert_eq!(following.record().header.label.as_deref(), Some("after the fix"));
    assert_eq!(following.record().events.last(), Some(&note));
    assert_eq!(following.record().statement_latency[0][0].count(), 8);
    store.delete(&id).unwrap();
    assert!(matches!(following.read(), Err(StoreError::Find(FindError::NoSuch { .. }))));
}

#[test]
fn a_run_whose_process_died_is_marked_and_readable() {
    let lab = tempfile::tempdir().unwrap();
    // A second process that writes and dies without a word.
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writes_and_aborts", "--nocapture"])
        .env("WALWRIGHT_TEST_LAB", lab.path())
        .output()
        .unwrap()
        .status;
    assert!(!status.success(), "the child must die");

    let store = Store::open(lab.path()).unwrap();
    let found = store.find("dying").unwrap();
    assert_eq!(found.state, RunState::Interrupted);
    assert_eq!(found.ended, Some(ORIGIN.plus(Duration::from_secs(5))));
    let record = store.load(&found.id).unwrap();
    assert_eq!(record.intervals.len(), 3);
    assert_eq!(record.window().unwrap().end, ORIGIN.plus(Duration::from_secs(3)));
}

/// Not a test of its own: the process that dies for the one above, told from an
/// ordinary test run by the variable.
#[test]
fn writes_and_aborts() {
    let Some(lab) = std::env::var_os("WALWRIGHT_TEST_LAB") else { return };
    let store = Store::open(lab.as_ref()).unwrap();
    let mut writer = store.begin(&header("dying")).unwrap();
    writer.phase(PhaseName::Measure, ORIGIN).unwrap();
    for second in 0..3 {
        writer.interval(&interval(second, &[100])).unwrap();
    }
    // The probe may have seen more than the driver had reported.
    writer.samples(&[sample(5)]).unwrap();
    std::process::abort();
}

#[test]
fn a_live_run_is_left_alone_and_not_deleted() {
    let lab = tempfile::tempdir().unwrap();
    let store = Store::open(lab.path()).unwrap();
    let mut writer = store.begin(&header("alive")).unwrap();
    let second_reader = Store::open(lab.path()).unwrap();
    let found = second_reader.find("alive").unwrap();
    assert_eq!(found.state, RunState::Running);
    assert!(matches!(second_reader.delete(&found.id), Err(StoreError::InUse { .. })));
    writer.finish(RunState::Complete, ORIGIN, None).unwrap();
    second_reader.delete(&found.id).unwrap();
    assert!(matches!(store.load(&found.id), Err(StoreError::Find(FindError::NoSuch { .. }))));
}

#[test]
fn deleting_a_run_shrinks_the_file() {
    let lab = tempfile::tempdir().unwrap();
    let store = Store::open(lab.path()).unwrap();
    let size = || std::fs::metadata(store.path()).unwrap().len();
    let write = |name: &str, seconds: u64| {
        let mut writer = store.begin(&header(name)).unwrap();
        for second in 0..seconds {
            writer
                .event(&Event { at: ORIGIN, kind: "x".to_owned(), text: "y".repeat(4_000) })
                .unwrap();
            writer.samples(&[sample(second)]).unwrap();
        }
        writer
    };
    write("small", 1).finish(RunState::Complete, ORIGIN, None).unwrap();
    let before = size();
    write("large", 300).finish(RunState::Complete, ORIGIN, None).unwrap();
    write("medium", 100).finish(RunState::Complete, ORIGIN, None).unwrap();
    let full = size();
    assert!(full > before + 1_000_000, "{before} {full}");
    store.delete(&RunId("large".to_owned())).unwrap();
    let less = size();
    assert!(less + 1_000_000 < full, "{full} {less}");

    // While a run is written the file is left alone; its end brings the space back.
    let mut alive = write("alive", 1);
    store.delete(&RunId("medium".to_owned())).unwrap();
    assert!(size() >= less, "{less} {}", size());
    alive.finish(RunState::Complete, ORIGIN, None).unwrap();
    assert!(size() < before + 100_000, "{before} {}", size());
    assert_eq!(store.runs().unwrap().len(), 2);
}

#[test]
fn two_writers_share_a_lab() {
    let lab = tempfile::tempdir().unwrap();
    let store = Store::open(lab.path()).unwrap();
    let mut one = store.begin(&header("one")).unwrap();
    let mut two = store.begin(&header("two")).unwrap();
    for second in 0..50 {
        one.interval(&interval(second, &[10])).unwrap();
        two.samples(&[sample(second)]).unwrap();
    }
    assert_eq!(store.load(&RunId("one".to_owned())).unwrap().intervals.len(), 50);
    assert_eq!(store.load(&RunId("two".to_owned())).unwrap().samples(Source::Wal).len(), 50);
}

#[test]
fn names_are_found_by_their_ends_and_ambiguity_is_said() {
    let lab = tempfile::tempdir().unwrap();
    let store = Store::open(lab.path()).unwrap();
    for name in ["20260922-000000-abc", "20260922-000001-abd"] {
        store.begin(&header(name)).unwrap();
    }
    assert_eq!(store.find("abd").unwrap().id.0, "20260922-000001-abd");
    assert!(matches!(store.find("20260922"), Err(StoreError::Find(FindError::Several { .. }))));
    assert!(matches!(store.find("xyz"), Err(StoreError::Find(FindError::NoSuch { .. }))));
    assert!(matches!(store.find(""), Err(StoreError::Find(FindError::NoSuch { .. }))));
}

#[test]
fn other_files_are_refused_with_a_reason() {
    let lab = tempfile::tempdir().unwrap();
    let file = lab.path().join("walwright.db");
    std::fs::write(&file, b"this is not a database, whatever its name says").unwrap();
    assert!(matches!(Store::open(lab.path()), Err(StoreError::Sqlite { .. })));

    std::fs::remove_file(&file).unwrap();
    let foreign = rusqlite::Connection::open(&file).unwrap();
    foreign.execute_batch("CREATE TABLE invoice (id INTEGER)").unwrap();
    assert!(matches!(Store::open(lab.path()), Err(StoreError::Foreign { .. })));

    drop(foreign);
    std::fs::remove_file(&file).unwrap();
    drop(Store::open(lab.path()).unwrap());
    let newer = rusqlite::Connection::open(&file).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(Store::open(lab.path()), Err(StoreError::TooNew { found: 99, .. })));
}

#[test]
fn the_schema_is_kept_as_it_was_before_and_after() {
    let lab = tempfile::tempdir().unwrap();
    let store = Store::open(lab.path()).unwrap();
    let mut run = store.begin(&header("20261120-000000-aaa")).unwrap();
    let before = SchemaFacts {
        foreign_keys: Some(Vec::new()),
        incomplete: vec!["sizes: a lock".to_owned()],
        ..SchemaFacts::default()
    };
    let after = SchemaFacts {
        plans: vec![PartitionPlan {
            query_id: "-77".to_owned(),
            table: 5,
            scanned: 4,
            partitions: 4,
            key_in_conditions: false,
        }],
        ..before.clone()
    };
    run.schema(&before).unwrap();
    run.schema_end(&after).unwrap();
    run.finish(RunState::Complete, ORIGIN, None).unwrap();
    let record = store.load(run.id()).unwrap();
    // Unknown publications stay unknown, known absence of keys stays known.
    assert_eq!((record.schema, record.schema_end), (Some(before), Some(after)));
}

#[test]
fn a_run_whose_first_page_is_damaged_is_listed_with_the_others_and_refused() {
    let lab = tempfile::tempdir().unwrap();
    for damage in [
        "started_us = 9223372036854775807",
        "ended_us = -9223372036854775808",
        "command = CAST(x'ff' AS TEXT)",
        "state = 'running', owner_pid = -1, target = CAST(x'ff' AS TEXT)",
    ] {
        let lab = lab.path().join(damage.len().to_string());
        let store = Store::open(&lab).unwrap();
        for name in ["20261120-000000-aaa", "20261120-000000-bbb"] {
            let mut run = store.begin(&header(name)).unwrap();
            run.finish(RunState::Complete, ORIGIN, None).unwrap();
        }
        let file = rusqlite::Connection::open(store.path()).unwrap();
        let bad = RunId("20261120-000000-aaa".to_owned());
        file.execute(&format!("UPDATE run SET {damage} WHERE id = ?1"), [&bad.0]).unwrap();
        let store = Store::open(&lab).unwrap();
        let runs = store.runs().unwrap();
        let damaged: Vec<&RunId> =
            runs.iter().filter(|run| run.damage().is_some()).map(|run| &run.id).collect();
        assert_eq!((runs.len(), damaged), (2, vec![&bad]), "{damage}");
        let said = store.load(&bad).unwrap_err().to_string();
        assert!(said.contains("its first page cannot be read back"), "{said}");
        store.load(&RunId("20261120-000000-bbb".to_owned())).unwrap();
        store.delete(&bad).unwrap();
        assert_eq!(store.runs().unwrap().len(), 1);
    }
}

#[test]
fn figures_that_no_run_has_are_refused_with_a_sentence() {
    for (change, said) in [
        ("fact SET body = '1e308'", "too large"),
        (
            "interval SET body = json_set(body, '$.length.secs', 9223372036854775807)",
            "longer than any",
        ),
        ("interval SET body = json_set(body, '$.due', 9000000000000000)", "too many"),
        ("interval SET body = json_set(body, '$.due', 18446744073709551615)", "too large"),
        ("histogram SET statement = 65535 WHERE statement = 0", "no script has"),
        ("histogram SET body = zeroblob(99)", "does not begin as one"),
        ("phase SET end_us = 1", "it ends before it begins"),
        ("event SET at_us = -1", "no moment"),
        ("sample SET body = '['", "a sample cannot be read back"),
    ] {
        let lab = tempfile::tempdir().unwrap();
        let store = Store::open(lab.path()).unwrap();
        let mut run = store.begin(&header("20261120-000000-aaa")).unwrap();
        run.phase(PhaseName::Measure, ORIGIN).unwrap();
        run.interval(&interval(1, &[100])).unwrap();
        run.samples(&[sample(1)]).unwrap();
        run.side_measure("empty query", 1.0).unwrap();
        run.event(&Event { at: ORIGIN, kind: "x".to_owned(), text: "y".to_owned() }).unwrap();
        run.finish(RunState::Complete, ORIGIN.plus(Duration::from_secs(9)), None).unwrap();
        store.load(run.id()).unwrap();
        let file = rusqlite::Connection::open(store.path()).unwrap();
        file.execute(&format!("UPDATE {change}"), []).unwrap();
        let error = store.load(run.id()).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("-aaa"), "{change}: {error}");
    }
}
