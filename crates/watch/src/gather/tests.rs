use super::*;
use walwright_testing::{named, row, second, wait};

fn sample(at: f64, source: Source, rows: Vec<Row>) -> Sample {
    Sample { at: second(at), source, rows }
}

fn value(gatherer: &Gatherer, metric: Metric, labels: &[&str]) -> Option<f64> {
    match gatherer.samples(&metric) {
        Samples::Values(values) => {
            values.into_iter().find(|of| of.labels == labels).map(|of| of.value)
        }
        Samples::Histogram(of) => Some(of.sum),
    }
}

fn begun() -> Gatherer {
    let mut gatherer = Gatherer::new(Duration::from_secs(1));
    assert_eq!(gatherer.close(second(0.0)), None);
    gatherer
}

#[test]
fn commits_are_those_of_others_and_go_on_after_a_reset() {
    let mut gatherer = begun();
    for (at, commits, own) in [(0.0, 1000.0, 10.0), (10.0, 1600.0, 25.0), (20.0, 90.0, 40.0)] {
        gatherer.take(&sample(at, Source::ProbeCost, vec![row([("commits", own)])]));
        let database = row([("xact_commit", commits), ("datfrozenxid_age", 500.0)]);
        gatherer.take(&sample(at, Source::Database, vec![database]));
    }
    // 600 less 15 of our own; then the server began at zero.
    assert_eq!(value(&gatherer, metric::COMMITS, &[]), Some(585.0 + 75.0));
    assert_eq!(value(&gatherer, metric::XID_AGE, &[]), Some(500.0));
    let slot = gatherer.close(second(20.0)).unwrap();
    assert_eq!(slot.figure("commits").unwrap().max, 58.5);
    assert_eq!(gatherer.close(second(30.0)).unwrap().figure("commits"), None);
}

#[test]
fn flushes_of_18_are_those_of_the_wal_and_their_time_only_where_timed() {
    let io = |context: &str, count: f64, time: Option<f64>| {
        let names = [("backend_type", "client backend"), ("object", "wal"), ("context", context)];
        let mut row = named(names, [("fsyncs", count)]);
        row.set("fsync_time", time);
        row
    };
    let mut gatherer = begun();
    for (at, count) in [(0.0, 0.0), (10.0, 100.0)] {
        let rows = vec![io("normal", count, Some(count * 2.0)), io("init", 7.0 * count, Some(1.0))];
        gatherer.take(&sample(at, Source::Io, rows));
    }
    assert_eq!(value(&gatherer, metric::WAL_FLUSHES, &[]), Some(100.0));
    assert_eq!(value(&gatherer, metric::WAL_FLUSH_SECONDS, &[]), Some(0.2));
    let mut untimed = begun();
    for (at, count) in [(0.0, 0.0), (10.0, 100.0)] {
        untimed.take(&sample(at, Source::Io, vec![io("normal", count, None)]));
    }
    assert_eq!(value(&untimed, metric::WAL_FLUSHES, &[]), Some(100.0));
    let slot = untimed.close(second(10.0)).unwrap();
    assert_eq!(slot.figure("wal_flush_seconds"), None);
    assert_eq!(slot.figure("wal_flushes").and_then(Value::mean), Some(10.0));
}

#[test]
fn waits_are_session_seconds_and_a_gap_is_not_filled() {
    let mut gatherer = begun();
    for at in [0.0, 1.0, 2.0, 100.0] {
        let rows = vec![wait("active", "Lock", "tuple", 4.0), wait("active", "", "", 1.0)];
        gatherer.take(&sample(at, Source::Waits, rows));
    }
    assert_eq!(value(&gatherer, metric::WAIT_SECONDS, &["lock"]), Some(4.0 * (1.0 + 1.0 + 3.0)));
    assert_eq!(value(&gatherer, metric::WAIT_SECONDS, &["flush"]), Some(0.0));
    let slot = gatherer.close(second(100.0)).unwrap();
    assert_eq!(slot.figure("wait_seconds|lock").unwrap().mean(), Some(4.0));
}

fn statement(id: i64, calls: f64, wal: f64) -> Row {
    let mut row = row([("calls", calls), ("wal_bytes", wal), ("total_exec_time", calls)]);
    row.set("queryid", id).set("userid", 10_i64).set("dbid", 5_i64).set("toplevel", true);
    row.set("query", format!("INSERT INTO t{id}\n VALUES ($1)"));
    row
}

#[test]
fn statements_are_exposed_within_bounds_and_no_counter_goes_back() {
    let mut gatherer = begun();
    let mut before: BTreeMap<Vec<String>, f64> = BTreeMap::new();
    let read = |gatherer: &mut Gatherer, round: u32| {
        // Another half of three hundred works each time.
        let rows = (0..300_i64).filter(|id| (*id + i64::from(round)) % 2 == 0 || round == 0);
        let rows = rows.map(|id| {
            let weight = if id < 30 { 1e6 } else { 1.0 };
            statement(id, 10.0 * f64::from(round), weight * f64::from(round))
        });
        let rows = rows.collect();
        gatherer.take(&sample(60.0 * f64::from(round), Source::Statements, rows));
    };
    for round in 0..50 {
        read(&mut gatherer, round);
        let Samples::Values(values) = gatherer.samples(&metric::STATEMENT_WAL_BYTES) else {
            panic!("a counter")
        };
        assert!(values.len() <= STATEMENTS + 1);
        for of in values {
            let was = before.insert(of.labels.clone(), of.value).unwrap_or(0.0);
            assert!(of.value >= was, "{:?} went back in round {round}", of.labels);
        }
    }
    assert_eq!(before.keys().filter(|labels| labels[0] == "other").count(), 1);
    assert!(before.keys().any(|labels| labels[1] == "INSERT INTO t0 VALUES ($1)"));
    let slot = gatherer.close(second(3000.0)).unwrap();
    assert_eq!(slot.statements.len(), 300);
}

#[test]
fn what_vacuum_owes_is_measured_by_when_autovacuum_comes() {
    let mut gatherer = begun();
    let setting = |name: &str, value: &str| {
        let mut build = walwright_testing::Build::new();
        build.setting(name, value).record.settings.remove(0)
    };
    gatherer.settings(&[
        setting("autovacuum_vacuum_threshold", "50"),
        setting("autovacuum_vacuum_scale_factor", "0.2"),
    ]);
    let table = |id: i64, dead: f64| {
        let mut row = row([("n_dead_tup", dead), ("reltuples", 1000.0), ("n_tup_upd", dead)]);
        row.set("relid", id).set("schemaname", "public").set("relname", format!("t{id}"));
        row
    };
    gatherer.take(&sample(0.0, Source::Tables, vec![table(1, 0.0), table(2, 500.0)]));
    gatherer.take(&sample(60.0, Source::Tables, vec![table(1, 125.0)]));
    assert_eq!(value(&gatherer, metric::VACUUM_DEBT_RATIO, &["public.t1"]), Some(0.5));
    assert_eq!(value(&gatherer, metric::VACUUM_DEBT_RATIO, &["public.t2"]), Some(2.0));
    assert_eq!(value(&gatherer, metric::DEAD_ROWS, &[]), Some(625.0));
    let slot = gatherer.close(second(60.0)).unwrap();
    assert_eq!(slot.tables[&1].updated, 125.0);
    assert_eq!(slot.figure("vacuum_debt_ratio").unwrap().max, 2.0);
}

#[test]
fn a_standby_that_has_gone_has_no_lag() {
    let mut gatherer = begun();
    gatherer.take(&sample(0.0, Source::Wal, vec![row([("wal_lsn", 5000.0)])]));
    let standby = named(
        [("application_name", "s1")],
        [("replay_lsn", 2000.0), ("replay_lag", 1500.0), ("pid", 3.0)],
    );
    gatherer.take(&sample(0.0, Source::Replication, vec![standby]));
    assert_eq!(value(&gatherer, metric::REPLICATION_LAG_SECONDS, &["s1"]), Some(1.5));
    assert_eq!(value(&gatherer, metric::REPLICATION_LAG_BYTES, &["s1"]), Some(3000.0));
    gatherer.take(&sample(10.0, Source::Replication, Vec::new()));
    assert_eq!(value(&gatherer, metric::REPLICATION_LAG_SECONDS, &["s1"]), None);
}
