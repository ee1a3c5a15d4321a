//! Every command, as superuser, on a database whose owner waits for one.

use std::fs::File;
use std::process::Command;

use walwright_server::Major;

use crate::common::{Done, Host, PASSWORD, Place, finish, install, signal, until_said};

const HOSTILE: &str = include_str!("hostile_database.sql");

/// What the owner adds last: from here on every session of the database is in its hands.
const TAKEN_OVER: &str = "
    ALTER DATABASE hostile SET search_path = evil, public, pg_catalog;
    ALTER DATABASE hostile SET standard_conforming_strings = off;
    ALTER DATABASE hostile SET quote_all_identifiers = on;
    ALTER DATABASE hostile SET \"DateStyle\" = 'SQL, DMY';
    ALTER DATABASE hostile SET \"IntervalStyle\" = 'iso_8601';
    ALTER DATABASE hostile SET bytea_output = 'escape'";

/// Where a superuser set event triggers up that call what is not theirs. Sessions before
/// version 17 cannot be told not to run them but by `session_replication_role`, and there
/// are none for logins.
const EVENTS: &str = "
    CREATE EVENT TRIGGER a ON ddl_command_start EXECUTE FUNCTION canary.event();
    CREATE EVENT TRIGGER b ON ddl_command_end EXECUTE FUNCTION canary.event();
    CREATE EVENT TRIGGER c ON sql_drop EXECUTE FUNCTION canary.event()";
const LOGIN: &str = "CREATE EVENT TRIGGER d ON login EXECUTE FUNCTION canary.event()";

fn hostile(major: Major) -> Host {
    let host = Host::of(major);
    host.execute("postgres", "CREATE DATABASE hostile");
    host.execute("hostile", "CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public");
    host.execute_safely("hostile", HOSTILE);
    host.execute_safely("hostile", EVENTS);
    if major >= Major::V17 {
        host.execute_safely("hostile", LOGIN);
    }
    host.execute("postgres", TAKEN_OVER);
    host
}

/// Runs a statement as psql would: with the path of the database and all that comes of it.
fn psql(host: &Host, major: Major, dsn: &str, sql: &str) {
    let mut command = Command::new(install(major).bin_dir().join("psql"));
    command.args(["-X", "-q", "-d", dsn, "-c", sql]).env_remove("PGOPTIONS");
    let done = command.output().expect("psql");
    assert!(done.status.success(), "{}\n{}", String::from_utf8_lossy(&done.stderr), host.log());
}

/// How often the canary was heard so far.
fn fired(host: &Host) -> usize {
    host.log().matches("LOG:  CANARY").count()
}

/// Rows of the canary's table.
fn canaries(host: &Host) -> String {
    host.ask_safely(
        "hostile",
        "SELECT count(*)::text FROM canary.fired WHERE what <> 'event trigger'",
    )
}

/// What was heard since, with event triggers or `without_events`.
fn heard(host: &Host, from: usize, without_events: bool) -> String {
    let log = host.log();
    let heard = log.lines().filter(|line| line.contains("LOG:  CANARY")).skip(from);
    let counts = |line: &&str| !(without_events && line.ends_with("event trigger"));
    heard.filter(counts).collect::<Vec<_>>().join("\n")
}

fn nothing_of_it_runs(major: Major) {
    let (place, host) = (Place::new(), hostile(major));
    let dsn = host.superuser("hostile");

    // The trap works: a careless session falls into it.
    let before = fired(&host);
    psql(
        &host,
        major,
        &dsn,
        "SELECT relname FROM pg_class WHERE relname = 'pg_class'::text LIMIT 1",
    );
    assert!(fired(&host) > before, "{}", host.log());
    // What mallory ran is there to be planned by whoever looks at statements.
    let mallory = host.dsn("mallory", "mM1", "hostile");
    for _ in 0..3 {
        psql(&host, major, &mallory, "SELECT evil.folded(), * FROM public.parted");
    }

    let table = canaries(&host);
    let profile = place.file("config.env", "PG_WORK_MEM=6MB\n");
    place.file("one.sql", "SELECT 1;\n");
    let plan = format!(
        "blocks = 1\nseed = 5\n[workload]\nname = \"autocommit\"\n[load]\nclients = 2\n\
         duration = \"1s\"\nwarmup = \"1s\"\n[server]\ndsn = \"host=127.0.0.1 port={} user=postgres dbname=hostile\"\n\
         [[arm]]\nname = \"delay\"\nsettings = {{ commit_delay = 3000 }}\n",
        host.port()
    );
    let plan = place.file("plan.toml", &plan);
    let index = format!(
        "blocks = 1\nseed = 5\n[workload]\nfiles = [\"one.sql\"]\n[load]\nclients = 2\n\
         duration = \"1s\"\nwarmup = \"1s\"\n[server]\ndsn = \"host=127.0.0.1 port={} user=postgres dbname=hostile\"\n\
         [[arm]]\nname = \"without\"\nddl = [{{ sql = \"DROP INDEX public.noted_n\", \
         undo = \"CREATE INDEX noted_n ON public.noted USING btree (lower(n))\" }}]\n",
        host.port()
    );
    let index = place.file("index.toml", &index);
    let measure =
        ["run", "--plain", "--warmup=1s", "--duration=2s", "--load-jobs=2", "--dsn", &dsn];
    let run = |more: &[&'static str]| {
        let clients: &[&str] = if more.contains(&"-c") { &[] } else { &["-c", "2"] };
        [&measure[..], clients, more].concat()
    };
    let commands: Vec<Vec<&str>> = vec![
        vec!["record", "--dsn", &dsn, "--for", "2s"],
        vec!["record", "--dsn", &dsn, "--", "sleep", "1"],
        vec!["review", "--dsn", &dsn],
        vec!["config", "import", "--dsn", &dsn, "--output", "found.env"],
        vec!["config", "check", &profile, "--dsn", &dsn],
        vec!["config", "apply", &profile, "--dsn", &dsn, "--yes"],
        vec!["config", "rollback", "1", "--dsn", &dsn],
        run(&["-w", "tpcb", "--scale=1"]),
        run(&["-w", "select-only"]),
        run(&["-w", "events", "--init"]),
        run(&["-w", "autocommit", "--init"]),
        run(&["-w", "autocommit"]),
        vec!["experiment", &plan, "--maintenance", "--init"],
        vec!["experiment", &index, "--maintenance"],
        run(&["--file", "one.sql"]),
        run(&["-w", "autocommit", "--init", "-c", "1000"]),
    ];
    for command in commands {
        let before = fired(&host);
        let mut spawned = place.command(&command);
        spawned.env("PGPASSWORD", PASSWORD);
        let done: Done = crate::common::finish(spawned.spawn().expect("spawn"));
        let shown = format!("{}\n{}", done.out(), done.err());
        // Statements of the user's own run as anywhere, and so do event triggers, which only a
        // superuser can have made.
        let own = command.contains(&"one.sql") || command.contains(&index.as_str());
        let heard = heard(&host, before, own);
        assert_eq!(heard, "", "{command:?}\n{shown}");
        // Tables of mallory's are not for a superuser to write to; all else goes well.
        let refused = command.contains(&"tpcb") || command.contains(&"select-only");
        assert_eq!(shown.contains("belongs to the role mallory"), refused, "{command:?}\n{shown}");
        let refused = refused || command.contains(&"1000");
        // A profile that a server does not have is drift.
        let drift = command.starts_with(&["config", "check"]);
        let done = done.code(if drift { 4 } else { i32::from(refused) });
        assert!(!done.err().contains("panicked"), "{shown}");
    }
    a_tune_runs_nothing(&place, &host, &dsn);
    // With privileges on the tables of a superuser, and with another role of the database's.
    for (settings, args) in [
        ("search_path = mart, pg_catalog", ["-w", "autocommit"]),
        ("role = 'mallory'", ["-w", "tpcb"]),
        ("role = 'mallory'", ["--file", "one.sql"]),
    ] {
        host.execute_safely("postgres", &format!("ALTER DATABASE hostile SET {settings}"));
        let before = fired(&host);
        let done = place.run(&run(&args));
        let shown = format!("{}\n{}", done.out(), done.err());
        let heard = heard(&host, before, args.contains(&"one.sql"));
        assert_eq!(heard, "", "{settings} {args:?}\n{shown}");
    }
    // Whoever owns the schema of the extension may give its name to another (from 15 on the
    // owner of the database owns public).
    if major >= Major::V15 {
        place.run(&["record", "--dsn", &dsn, "--for", "1s"]).code(0);
        let told = place.run(&["export"]).json()["target"]["not_observable"].to_string();
        assert!(told.contains("in the schema public of mallory"), "{told}");
    }
    // The index is what it was, of the function that it was of.
    let definition = "SELECT count(*)::text FROM pg_depend
        WHERE objid = 'public.noted_n'::regclass AND refclassid = 'pg_proc'::regclass";
    assert_eq!(host.ask_safely("hostile", definition), "0", "of pg_catalog's, which is pinned");
    // What the trap and mallory left, and no more.
    assert_eq!(canaries(&host), table);
}

/// A tune, as far as its second measurement.
fn a_tune_runs_nothing(place: &Place, host: &Host, dsn: &str) {
    let before = fired(host);
    let log = place.path("log");
    let mut tune = place.command(&[
        "tune",
        "-w",
        "autocommit",
        "--clients=2",
        "--duration=1s",
        "--warmup=1s",
        "--runs=8",
        "--confirm-pairs=3",
        "--only=commit_delay",
        "--only=commit_siblings",
        "--dsn",
        dsn,
        "--maintenance",
        "--init",
    ]);
    let tune = tune.stderr(File::create(&log).unwrap()).spawn().unwrap();
    until_said(&log, "  2 of 8");
    signal(tune.id(), libc::SIGINT);
    finish(tune).code(3);
    assert_eq!(heard(host, before, false), "");
}

#[test]
fn nothing_of_a_hostile_database_runs_as_superuser_on_18() {
    nothing_of_it_runs(Major::V18);
}

#[test]
fn nothing_of_a_hostile_database_runs_as_superuser_on_14() {
    nothing_of_it_runs(Major::V14);
}
