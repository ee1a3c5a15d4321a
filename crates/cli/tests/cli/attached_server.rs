//! Runs on an attached server: what is left alone, who may do what, and where a
//! password must never appear.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::common::{Done, Host, PASSWORD, Place, finish};

/// Everything about a database that walwright has no business changing.
fn state(host: &Host, database: &str) -> String {
    host.ask(
        database,
        "SELECT concat_ws(E'\\n',
            (SELECT string_agg(name || '=' || setting, ',' ORDER BY name) FROM pg_settings
              WHERE name NOT LIKE 'transaction%'),
            (SELECT string_agg(nspname, ',' ORDER BY nspname) FROM pg_namespace
              WHERE nspname !~ '^pg_(toast_)?temp'),
            (SELECT string_agg(relname, ',' ORDER BY relname) FROM pg_class),
            (SELECT string_agg(proname, ',' ORDER BY proname) FROM pg_proc),
            (SELECT string_agg(extname, ',' ORDER BY extname) FROM pg_extension),
            (SELECT string_agg(rolname, ',' ORDER BY rolname) FROM pg_roles),
            (SELECT string_agg(datname || coalesce(stats_reset::text, '-') || temp_files, ','
                               ORDER BY datname) FROM pg_stat_database WHERE datname IS NOT NULL),
            (SELECT stats_reset::text FROM pg_stat_wal),
            (SELECT stats_reset::text FROM pg_stat_bgwriter),
            (SELECT stats_reset::text FROM pg_stat_checkpointer),
            (SELECT sum(num_requested)::text FROM pg_stat_checkpointer),
            (SELECT count(*)::text FROM pg_prepared_statements))",
    )
}

#[test]
fn walwright_changes_nothing_but_what_its_scripts_do() {
    let (place, host) = (Place::new(), Host::new());
    host.execute("postgres", "CREATE DATABASE app");
    host.execute("app", "CREATE TABLE counter (id int PRIMARY KEY, n bigint)");
    host.execute("app", "INSERT INTO counter SELECT g, 0 FROM generate_series(1, 100) g");
    let dsn = host.superuser("app");

    let before = state(&host, "app");
    place
        .measure(&["--dsn", &dsn, "-c", "2", "--scale=1"])
        .refuses(&["needs the table pgbench_branches", "--init lets walwright create"]);
    let script = "\\set id random(1, 100)\nUPDATE counter SET n = n + 1 WHERE id = :id;\n";
    let script = place.file("count.sql", script);
    let result =
        place.measure(&["--dsn", &dsn, "-c", "2", "--file", &script, "--json"]).code(0).json();
    assert_eq!(state(&host, "app"), before);

    // Of what ran, all was counted: warm-up, window and the rest of the last second.
    let updated: u64 = host.ask("app", "SELECT sum(n)::text FROM counter").parse().unwrap();
    let measured = result["summary"]["load"]["transactions"].as_u64().unwrap();
    assert!(measured > 0 && updated >= measured, "{updated} {measured}");
    let target = result["run"]["target"].as_str().unwrap();
    assert!(target.contains("127.0.0.1") && !target.contains(PASSWORD), "{target}");

    // With --init it may; and used tables hold their checks without it.
    place.measure(&["--dsn", &dsn, "--init", "-c", "2", "--scale=1"]).code(0);
    place.measure(&["--dsn", &dsn, "-w", "simple-update", "-c", "2", "--scale=1"]).code(0);
    place.measure(&["--dsn", &dsn, "-c", "2", "--scale=1"]).code(0);
}

#[test]
fn tables_that_are_there_tell_their_scale_and_whether_they_are_whole() {
    let (place, host) = (Place::new(), Host::new());
    let dsn = host.superuser("postgres");
    place.measure(&["--dsn", &dsn, "--init", "-c", "1", "--scale=2"]).code(0);
    place.measure(&["--dsn", &dsn, "-c", "1"]).code(0);
    let record = place.run(&["export"]).json();
    assert_eq!(record["workload"]["scale"], 2);
    let comments = "SELECT count(*) || ' ' || min(description) FROM pg_description
        WHERE description LIKE 'walwright%'";
    let made = "4 walwright made and filled this table, and --init replaces it";
    assert_eq!(host.ask("postgres", comments), made);

    // As an --init leaves it that was killed while it filled the tables.
    let mark =
        "COMMENT ON TABLE pgbench_accounts IS 'walwright has not filled this table to its end'";
    host.execute("postgres", mark);
    place
        .measure(&["--dsn", &dsn, "-c", "1"])
        .refuses(&["were not filled to their end", "--init fills them anew"]);
    host.execute("postgres", "COMMENT ON TABLE pgbench_accounts IS NULL");
    host.execute("postgres", "TRUNCATE pgbench_branches");
    place.measure(&["--dsn", &dsn, "-c", "1"]).refuses(&["which holds 0", "--init"]);
}

#[test]
fn environment_variables_alone_can_name_the_server() {
    let (place, host) = (Place::new(), Host::new());
    place.file("one.sql", "SELECT 1;\n");
    let args =
        [&["run"], &crate::common::SHORT[..], &["-c", "1", "--dsn", "", "--file", "one.sql"]];
    let mut command = place.command(&args.concat());
    command.env("PGHOST", "127.0.0.1").env("PGPORT", host.port().to_string());
    command.env("PGUSER", "postgres").env("PGPASSWORD", PASSWORD).env("PGDATABASE", "postgres");
    finish(command.spawn().unwrap()).code(0);
    let target = place.runs()[0]["target"].as_str().unwrap().to_owned();
    assert!(target.contains(&format!("127.0.0.1:{}", host.port())), "{target}");
}

#[test]
fn a_role_without_privileges_is_told_what_it_lacks() {
    let (place, host) = (Place::new(), Host::new());
    host.execute("postgres", "CREATE TABLE secret (n int); CREATE ROLE guest LOGIN PASSWORD 'gG7'");
    let dsn = host.dsn("guest", "gG7", "postgres");
    let file = place.file("read.sql", "SELECT n FROM secret;\n");
    place
        .measure(&["--dsn", &dsn, "-c", "2", "--file", &file])
        .refuses(&["permission denied for table secret", "lacks a privilege"]);
    place
        .measure(&["--dsn", &dsn, "-c", "2", "--init"])
        .refuses(&["permission denied for schema public", "lacks a privilege"]);
    assert_eq!(place.runs(), [] as [serde_json::Value; 0]);

    let file = place.file("own.sql", "SELECT 1;\n");
    let done = place.measure(&["--dsn", &dsn, "-c", "2", "--file", &file]).code(0);
    assert!(done.out().contains("pg_monitor") || done.err().contains("pg_monitor"));
}

#[test]
fn sql_that_never_works_ends_the_run_with_its_place() {
    let (place, host) = (Place::new(), Host::new());
    let dsn = host.superuser("postgres");
    for (text, words) in [
        ("SELECT 1;\nSELECT 1,\n  SELEC 2;\n", "my.sql:3:9: syntax error"),
        ("\\set a 5\nSELECT :a,\n  nothing FROM pg_class;\n", "my.sql:3:3: column \"nothing\""),
        ("SELECT 1 FROM nowhere;\n", "my.sql:1:15: relation \"nowhere\" does not exist"),
        ("\\set x 1 / 0\nSELECT :x;\n", "my.sql:1:2: division by zero"),
    ] {
        place.file("my.sql", text);
        place.measure(&["--dsn", &dsn, "-c", "2", "--file", "my.sql"]).refuses(&[words]);
    }
    place.measure(&["--dsn", &dsn, "-c", "200", "--file", "my.sql"]).refuses(&[
        "200 clients and the probe need",
        "max_connections leaves",
        "lower --clients or raise that limit",
    ]);
    assert_eq!(place.runs(), [] as [serde_json::Value; 0]);
}

/// A short run as `app`, whose password comes from elsewhere than the arguments.
fn measure_as_app(place: &Place, host: &Host, set: impl FnOnce(&mut Command)) -> Done {
    let dsn = format!("host=127.0.0.1 port={} user=app dbname=postgres", host.port());
    let file = place.file("one.sql", "SELECT 1;\n");
    let mut command = place.command(
        &[&["run"], &crate::common::SHORT[..], &["-vv", "-c", "1", "--dsn", &dsn, "--file", &file]]
            .concat(),
    );
    set(&mut command);
    finish(command.spawn().unwrap())
}

#[test]
fn a_password_is_taken_from_every_usual_place_and_appears_nowhere() {
    const SECRET: &str = "quiet-Marmalade-31";
    const WRONG: &str = "loud-Marmalade-13";
    let (place, host) = (Place::new(), Host::new());
    host.execute("postgres", &format!("CREATE ROLE app LOGIN PASSWORD '{SECRET}'"));
    let mut said = Vec::new();
    let mut heard = |done: Done| said.push(done.out() + &done.err());

    let file = place.file("one.sql", "SELECT 1;\n");
    let dsn = host.dsn("app", SECRET, "postgres");
    heard(place.measure(&["-vv", "-c", "1", "--dsn", &dsn, "--file", &file]).code(0));
    let equals = format!(
        "--dsn=host=127.0.0.1 port={} user=app password={SECRET} dbname=postgres",
        host.port()
    );
    heard(place.measure(&["-vv", "-c", "1", &equals, "--file", &file]).code(0));
    heard(
        measure_as_app(&place, &host, |command| {
            command.env("PGPASSWORD", SECRET);
        })
        .code(0),
    );
    let line = format!("127.0.0.1:{}:*:app:{SECRET}\n", host.port());
    let passfile = place.file("home/.pgpass", &line);
    std::fs::set_permissions(&passfile, PermissionsExt::from_mode(0o600)).unwrap();
    heard(measure_as_app(&place, &host, |_| {}).code(0));
    std::fs::remove_file(&passfile).unwrap();

    heard(measure_as_app(&place, &host, |_| {}).refuses(&["give it in PGPASSWORD or ~/.pgpass"]));
    let wrong = host.dsn("app", WRONG, "postgres");
    let done = place.measure(&["-vv", "-c", "1", "--dsn", &wrong, "--file", &file]);
    heard(done.code(1).says(&["password authentication failed for user \"app\""]));
    heard(place.run(&["export"]).code(0));
    heard(place.run(&["show"]).code(0));

    for text in said {
        assert!(!text.contains(SECRET) && !text.contains(WRONG), "{text}");
    }
    let mut files = 0;
    for entry in walk(&place.path("lab")) {
        let bytes = std::fs::read(&entry).unwrap();
        files += 1;
        for secret in [SECRET, WRONG, PASSWORD] {
            let found = bytes.windows(secret.len()).any(|w| w == secret.as_bytes());
            assert!(!found, "a password is in {}", entry.display());
        }
    }
    assert!(files >= 5, "a record file and four reports were read, not {files}");
}

fn walk(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path) }
    }
    files
}
