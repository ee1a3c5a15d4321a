//! Every source on every major version.

use walwright_probe::HostScope;
use walwright_record::{Row, Source};
use walwright_server::Major;

use crate::bench::{Collector, block_on, connect, facts, server, start, until};

/// Columns that a source has from one major version to another.
const COLUMNS: [(Source, &str, u32, u32); 37] = [
    (Source::Database, "xact_commit", 14, 18),
    (Source::Database, "idle_in_transaction_time", 14, 18),
    (Source::Database, "datfrozenxid_age", 14, 18),
    (Source::Database, "parallel_workers_launched", 18, 18),
    (Source::Wal, "wal_bytes", 14, 18),
    (Source::Wal, "wal_lsn", 14, 18),
    (Source::Wal, "wal_flush_lsn", 14, 18),
    (Source::Wal, "wal_buffers_full", 14, 18),
    (Source::Wal, "wal_sync", 14, 17),
    (Source::Wal, "wal_sync_time", 14, 17),
    (Source::Wal, "stats_reset", 14, 18),
    (Source::Io, "writes", 16, 18),
    (Source::Io, "op_bytes", 16, 17),
    (Source::Io, "write_bytes", 18, 18),
    (Source::Checkpointer, "num_timed", 14, 18),
    (Source::Checkpointer, "num_requested", 14, 18),
    (Source::Checkpointer, "buffers_written", 14, 18),
    (Source::Checkpointer, "write_time", 14, 18),
    (Source::Checkpointer, "checkpoint_lsn", 14, 18),
    (Source::Checkpointer, "num_done", 18, 18),
    (Source::Checkpointer, "checkpoints_req", 0, 0),
    (Source::BackgroundWriter, "buffers_alloc", 14, 18),
    (Source::BackgroundWriter, "buffers_backend_fsync", 14, 16),
    (Source::BackgroundWriter, "checkpoints_req", 0, 0),
    (Source::Slru, "blks_hit", 14, 18),
    (Source::Tables, "n_tup_hot_upd", 14, 18),
    (Source::Tables, "n_tup_newpage_upd", 16, 18),
    (Source::Tables, "total_autovacuum_time", 18, 18),
    (Source::Tables, "heap_blks_hit", 14, 18),
    (Source::Tables, "relation_bytes", 14, 18),
    (Source::Indexes, "idx_blks_hit", 14, 18),
    (Source::Indexes, "last_idx_scan", 16, 18),
    (Source::Statements, "wal_bytes", 14, 18),
    (Source::Statements, "blk_write_time", 14, 16),
    (Source::Statements, "shared_blk_write_time", 17, 18),
    (Source::Statements, "wal_buffers_full", 18, 18),
    (Source::Sessions, "oldest_idle_in_transaction_seconds", 14, 18),
];

const INSERT: &str = "INSERT INTO pebbles (size) VALUES ($1)";

fn each_version(major: Major) {
    let server = server(major, &[("autovacuum", "off")]);
    let number = major.number();
    block_on(async {
        let params = server.connect_params("postgres");
        let client = connect(&params).await;
        client
            .batch_execute(
                "CREATE TABLE pebbles (id bigserial PRIMARY KEY, size int) WITH (fillfactor = 70);
                 CREATE TABLE untouched (a int);
                 CREATE FUNCTION stage() RETURNS void LANGUAGE plpgsql AS
                     $$ BEGIN CREATE TEMP TABLE staged (a int); DROP TABLE staged; END $$;
                 INSERT INTO pebbles (size) VALUES (1); SELECT pg_stat_clear_snapshot()",
            )
            .await
            .expect("tables");
        let host = HostScope::of(&facts(&client).await);
        assert_eq!(host.postmaster_pid, Some(server.postmaster_pid()));
        let (probe, seen) = start(&params, host).await;
        for source in [
            Source::Statements,
            Source::Tables,
            Source::Indexes,
            Source::Checkpointer,
            Source::Catalog,
        ] {
            until("the first samples", || !seen.rows(source).is_empty()).await;
        }

        let insert = client.prepare(INSERT).await.expect("prepared");
        for size in 0..200_i32 {
            client.query_prepared(&[(&insert, &[&size])]).await.expect("inserted");
        }
        let work = "UPDATE pebbles SET size = size + 1; SELECT stage(); CHECKPOINT";
        client.batch_execute(work).await.expect("work");
        // The session reports what it did at most once a second (14) or at its end.
        drop(client);
        let of_table = |row: &Row| row.text("relname") == Some("pebbles");
        until("what the session did is in the counters", || {
            let rows = seen.rows(Source::Tables);
            let last = rows.iter().rfind(|row| of_table(row));
            last.is_some_and(|row| row.number("n_tup_ins") >= Some(201.0))
        })
        .await;
        until("the checkpoint", || !seen.events("checkpoint").is_empty()).await;
        let report = probe.stop().await.expect("stopped");

        counters_moved(&seen, number);
        columns_are_those_of(&seen, number);
        waits_are_told(&seen);
        host_is_told(&seen);
        let gaps: Vec<&String> =
            report.not_observable.iter().filter(|s| s.starts_with("pg_stat_io")).collect();
        assert_eq!(gaps.is_empty(), number >= 16, "{gaps:?}");
        assert!(report.backend_cpu.is_some_and(|cpu| !cpu.is_zero()));
        assert!(!report.own_cpu.is_zero() && report.queries > 10, "{report:?}");
        assert_eq!(report.reconnects, 0);
    });
}

fn counters_moved(seen: &Collector, major: u32) {
    let any = |_: &Row| true;
    let of_table = |row: &Row| row.text("relname") == Some("pebbles");
    assert!(seen.moved(Source::Database, "xact_commit", any) >= 201.0);
    assert!(seen.moved(Source::Wal, "wal_bytes", any) > 20_000.0);
    assert!(seen.moved(Source::Wal, "wal_lsn", any) > 20_000.0);
    assert!(seen.moved(Source::Tables, "n_tup_ins", of_table) >= 200.0);
    assert!(seen.moved(Source::Checkpointer, "num_requested", any) >= 1.0);
    assert!(seen.moved(Source::Checkpointer, "buffers_written", any) >= 1.0);
    assert!(seen.moved(Source::ProbeCost, "queries", any) > 0.0);
    // The table that a function made and dropped: its row type and the array of it.
    let types = |row: &Row| row.text("relname") == Some("pg_type");
    assert!(seen.moved(Source::Catalog, "n_tup_ins", types) >= 2.0);
    assert!(seen.moved(Source::Catalog, "n_tup_del", types) >= 2.0);
    let called =
        |row: &Row| row.text("funcname") == Some("stage") && row.number("calls") == Some(1.0);
    assert!(seen.rows(Source::Functions).iter().any(called));
    if major >= 16 {
        let writer = |row: &Row| {
            row.text("backend_type") == Some("checkpointer")
                && row.text("object") == Some("relation")
                && row.text("context") == Some("normal")
        };
        assert!(seen.moved(Source::Io, "writes", writer) >= 1.0);
    }
    if major >= 18 {
        let flusher = |row: &Row| {
            row.text("backend_type") == Some("client backend")
                && row.text("object") == Some("wal")
                && row.text("context") == Some("normal")
        };
        assert!(seen.moved(Source::Io, "fsyncs", flusher) >= 200.0);
        assert!(seen.moved(Source::Io, "fsync_time", flusher) > 0.0);
    }
    // The statement was not there at the first look, so its calls count from zero.
    let statements = seen.rows(Source::Statements);
    let of_insert: Vec<&Row> =
        statements.iter().filter(|row| row.text("query") == Some(INSERT)).collect();
    assert_eq!(of_insert.len(), 1, "a text is stored once");
    let id = of_insert[0].number("queryid");
    let last = statements.iter().rfind(|row| row.number("queryid") == id).expect("a row");
    assert_eq!(last.number("calls"), Some(200.0));
    assert!(last.number("wal_bytes") > Some(10_000.0));
    // Sparse: what never changes is told once.
    let quiet = seen.rows(Source::Tables);
    assert_eq!(quiet.iter().filter(|row| row.text("relname") == Some("untouched")).count(), 1);
}

fn columns_are_those_of(seen: &Collector, major: u32) {
    for (source, column, first, last) in COLUMNS {
        let rows = seen.rows(source);
        let has = rows.iter().any(|row| row.0.contains_key(column));
        let expected = (first..=last).contains(&major);
        assert_eq!(has, expected, "{source:?}.{column} on {major}");
    }
}

fn waits_are_told(seen: &Collector) {
    let rows = seen.rows(Source::Waits);
    for row in &rows {
        assert!(row.number("sessions") >= Some(1.0));
        assert_ne!(row.text("backend_type"), None);
    }
    let checkpointer = rows.iter().find(|row| {
        row.text("backend_type") == Some("checkpointer")
            && row.text("wait_event") == Some("CheckpointerMain")
    });
    assert!(checkpointer.is_some(), "background sessions are sampled");
    assert!(rows.iter().any(|row| row.text("backend_type") == Some("client backend")));
}

fn host_is_told(seen: &Collector) {
    let any = |_: &Row| true;
    assert!(seen.moved(Source::Cpu, "user", any) >= 0.0);
    assert!(seen.rows(Source::Memory).iter().all(|row| row.number("MemTotal") > Some(0.0)));
    let groups = seen.rows(Source::Processes);
    for group in
        ["server: checkpointer", "server: walwriter", "server: walwright probe", "walwright"]
    {
        let of_group: Vec<&Row> =
            groups.iter().filter(|row| row.text("process_group") == Some(group)).collect();
        assert!(!of_group.is_empty(), "{group}");
        let cpu: Vec<f64> = of_group
            .iter()
            .filter_map(|row| Some(row.number("user_seconds")? + row.number("system_seconds")?))
            .collect();
        assert!(cpu.windows(2).all(|pair| pair[0] <= pair[1]), "{group} goes back: {cpu:?}");
    }
    let probes: Vec<&Row> = groups
        .iter()
        .filter(|row| row.text("process_group") == Some("server: walwright probe"))
        .collect();
    assert!(probes.iter().any(|row| row.number("count") == Some(2.0)));
}

#[test]
fn postgresql_14() {
    each_version(Major::V14);
}

#[test]
fn postgresql_15() {
    each_version(Major::V15);
}

#[test]
fn postgresql_16() {
    each_version(Major::V16);
}

#[test]
fn postgresql_17() {
    each_version(Major::V17);
}

#[test]
fn postgresql_18() {
    each_version(Major::V18);
}
