//! What a careful owner of a server fears of walwright: tables gone, work left running, a record
//! that hangs, and what was not seen called slow.

use std::fs::File;

use serde_json::Value;

use crate::common::{Host, Place, finish, signal, until, until_said};

const ROWS: &str = "SELECT concat(count(*)::text, obj_description('events'::regclass)) FROM events";

#[test]
fn a_table_that_walwright_did_not_make_is_dropped_only_where_it_is_named() {
    let (place, host) = (Place::new(), Host::new());
    let dsn = host.superuser("postgres");
    host.execute(
        "postgres",
        "CREATE TABLE events (what text); INSERT INTO events VALUES ('ours');
         COMMENT ON TABLE events IS 'of the shop'; ANALYZE events",
    );
    let run = |more: &[&str]| {
        place.measure(&[&["--dsn", &dsn, "-w", "events", "-c", "1", "--init"], more].concat())
    };
    run(&[]).refuses(&["public.events (about 1 rows, of role postgres)", "--replace events"]);
    run(&["--replace", "another"]).refuses(&["would replace a table"]);
    assert_eq!(host.ask("postgres", ROWS), "1of the shop");

    // An experiment fills tables too.
    place.file(
        "plan.toml",
        "blocks = 1\n[workload]\nname = \"events\"\n[load]\nclients = 1\nduration = \"1s\"\n\
         warmup = \"1s\"\n[[arm]]\nname = \"delay\"\nsettings = { commit_delay = 1000 }\n",
    );
    let experiment = ["experiment", "plan.toml", "--dsn", &dsn, "--maintenance", "--init"];
    let done = place.run(&experiment);
    assert!(done.err().contains("would replace a table"), "{}", done.err());
    assert_eq!(host.ask("postgres", ROWS), "1of the shop");

    // Named it goes, and what walwright made it may make again.
    run(&["--replace", "public.events"]).code(0);
    run(&[]).code(0);
    assert!(host.ask("postgres", ROWS).contains("walwright made and filled this table"));
}

#[test]
fn a_built_in_workload_runs_on_tables_and_lends_no_superuser() {
    let (place, host) = (Place::new(), Host::new());
    let dsn = host.superuser("postgres");
    place.measure(&["--dsn", &dsn, "-c", "1", "--scale=1", "--init"]).code(0);
    let run = |dsn: &str| place.measure(&["--dsn", dsn, "-c", "1"]);
    host.execute(
        "postgres",
        "CREATE ROLE app LOGIN PASSWORD 'aA1'; ALTER TABLE pgbench_accounts OWNER TO app;
         GRANT ALL ON pgbench_branches, pgbench_tellers, pgbench_history TO app",
    );
    run(&dsn).refuses(&["public.pgbench_accounts belongs to the role app", "connect as app"]);
    run(&host.dsn("app", "aA1", "postgres")).code(0);
    host.execute(
        "postgres",
        "ALTER TABLE pgbench_history RENAME TO kept;
         CREATE VIEW pgbench_history AS SELECT * FROM kept",
    );
    run(&host.dsn("app", "aA1", "postgres")).refuses(&["public.pgbench_history is not a table"]);
}

/// Statements of walwright's that run on the server.
fn at_work(host: &Host) -> String {
    host.ask(
        "postgres",
        "SELECT string_agg(query, ',') FROM pg_stat_activity
         WHERE application_name LIKE 'walwright%' AND state = 'active' AND pid <> pg_backend_pid()",
    )
}

#[test]
fn what_is_under_way_is_cancelled_when_the_tool_is_asked_to_end() {
    let (place, host) = (Place::new(), Host::new());
    std::fs::create_dir(place.path("slow")).unwrap();
    place.file(
        "slow/workload.toml",
        "name = \"slow\"\ntitle = \"slow\"\n[sql]\nbefore_load = [\"schema.sql\"]\n\
         [[script]]\nfile = \"one.sql\"\n",
    );
    place.file("slow/schema.sql", "SELECT pg_sleep(300);\n");
    place.file("slow/one.sql", "SELECT pg_sleep(300);\n");
    let dsn = host.superuser("postgres");
    for init in [true, false] {
        let log = place.path("progress");
        let mut args = vec!["run", "--plain", "-w", "./slow", "-c", "2", "--dsn", &dsn];
        args.extend(init.then_some("--init"));
        let mut command = place.command(&args);
        let child = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
        if !init {
            until_said(&log, "measure ...");
        }
        until("it sleeps", || at_work(&host).contains("pg_sleep"));
        signal(child.id(), libc::SIGTERM);
        finish(child);
        assert_eq!(at_work(&host), "", "nothing goes on for nobody");
    }

    // Killed, it can ask for nothing: the server itself looks whether its client is there.
    let child = place.command(&["run", "-w", "./slow", "-c", "2", "--dsn", &dsn, "--init"]).spawn();
    let child = child.unwrap();
    until("it sleeps", || at_work(&host).contains("pg_sleep"));
    signal(child.id(), libc::SIGKILL);
    finish(child);
    until("the server has noticed", || at_work(&host).is_empty());
}

#[test]
fn a_locked_catalog_is_said_and_not_waited_for() {
    let (place, host) = (Place::new(), Host::new());
    let dsn = host.superuser("postgres");
    let held = host.hold("postgres", "LOCK pg_extension IN ACCESS EXCLUSIVE MODE");
    let done = place.run(&["record", "--dsn", &dsn, "--for", "2s"]).code(0);
    let told = not_seen(&place.run(&["export"]).json());
    assert!(told.contains("lock timeout (SQLSTATE 55P03)"), "{told}\n{}", done.err());
    drop(held);
    place.run(&["record", "--dsn", &dsn, "--for", "2s"]).code(0);
}

/// All that a record says was not seen.
fn not_seen(record: &Value) -> String {
    record["warnings"].as_array().unwrap().iter().map(|w| w["text"].as_str().unwrap()).collect()
}

#[test]
fn bytes_of_another_encoding_are_shown_and_cost_nothing_else() {
    let (place, host) = (Place::new(), Host::new());
    host.execute(
        "postgres",
        "CREATE DATABASE ascii ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
    );
    host.execute("ascii", "CREATE EXTENSION IF NOT EXISTS pg_stat_statements");
    let dsn = host.superuser("ascii");
    let statement = b"SELECT pg_sleep(0.01) AS \"caf\xe9\";\n".repeat(200);
    let load = place.file("load.sql", "");
    let table = b"CREATE TABLE \"na\xefve\" (id int);\n".to_vec();
    std::fs::write(&load, [table, statement].concat()).unwrap();
    let psql = crate::common::install(walwright_server::Major::V18).bin_dir().join("psql");
    let psql = psql.display().to_string();
    let args = ["record", "--dsn", &dsn, "--", &psql, "-X", "-q", "-d", &dsn, "-f", &load];
    place.run(&args).code(0);
    let record = place.run(&["export"]).json();
    assert!(record.to_string().contains(r"caf\\xe9"), "{}", not_seen(&record));
    assert!(record.to_string().contains(r"na\\xefve"), "a table made meanwhile");
    assert!(!not_seen(&record).contains("failed"), "{}", not_seen(&record));
}

#[test]
fn a_privilege_that_is_withdrawn_is_told_in_the_servers_words() {
    let (place, host) = (Place::new(), Host::new());
    host.execute("postgres", "CREATE DATABASE app");
    host.execute(
        "postgres",
        "REVOKE CONNECT ON DATABASE app FROM PUBLIC;
         CREATE ROLE guest LOGIN PASSWORD 'gG7'; GRANT pg_monitor TO guest;
         GRANT CONNECT ON DATABASE app TO guest",
    );
    let dsn = host.dsn("guest", "gG7", "app");
    let log = place.path("progress");
    let mut command = place.command(&["record", "--plain", "--dsn", &dsn, "--for", "5s"]);
    let child = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
    until_said(&log, "measure ...");
    host.execute("postgres", "REVOKE CONNECT ON DATABASE app FROM guest");
    host.execute(
        "postgres",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'guest'",
    );
    let done = finish(child);
    let told = place.run(&["export"]).json().to_string() + &done.out();
    assert!(told.contains("permission denied for database"), "{told}");
    assert!(!told.contains("machine was slow"), "{told}");
}
