//! Secrets of a server, of its statements and of a command line do not reach the lab.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Host, PASSWORD, Place, finish};

/// What must not be found. No other word holds these letters.
const SECRET: &str = "Zq9jXv7k";

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

fn holds(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}

#[test]
fn no_secret_of_statements_settings_or_commands_is_kept() {
    let host = Host::with(&[
        ("shared_preload_libraries", "pg_stat_statements"),
        ("pg_stat_statements.track", "all"),
        ("app.password", SECRET),
        ("app.url", &format!("postgres://me:{SECRET}@elsewhere/d")),
        ("archive_command", &format!("PGPASSWORD={SECRET} /bin/true")),
        ("cluster_name", "kept-word"),
        ("primary_conninfo", &format!("host=h password={SECRET}")),
    ]);
    host.execute("postgres", "CREATE EXTENSION IF NOT EXISTS pg_stat_statements");
    host.execute("postgres", "CREATE EXTENSION IF NOT EXISTS pgcrypto");
    host.execute(
        "postgres",
        "CREATE ROLE worker; CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w;
         CREATE USER MAPPING FOR worker SERVER s; CREATE TABLE t (a text);
         CREATE SUBSCRIPTION sub CONNECTION 'dbname=x' PUBLICATION p WITH (connect = false)",
    );
    let statements: Vec<String> = [
        "ALTER ROLE worker PASSWORD '{}'",
        "alter user worker with encrypted password/* a */E'{}' valid until '2030-01-01'",
        "ALTER ROLE worker PASSWORD $x${}$x$",
        "ALTER USER MAPPING FOR worker SERVER s OPTIONS (user 'u', password '{}')",
        "ALTER USER MAPPING FOR worker SERVER s OPTIONS (DROP user, DROP password)",
        "ALTER SUBSCRIPTION sub CONNECTION 'host=h password={}'",
        "ALTER ROLE worker SET app.api_token = '{}'",
        "SET app.password = '{}'",
        "DO $$ BEGIN EXECUTE 'ALTER ROLE worker PASSWORD ''{}'''; END $$",
        "COMMENT ON TABLE t IS 'from postgres://me:{}@elsewhere/d'",
        "CREATE OR REPLACE FUNCTION f() RETURNS void LANGUAGE plpgsql AS
         'BEGIN PERFORM crypt(''{}'', gen_salt(''bf'')); END'",
        "INSERT INTO t VALUES ('ordinary')",
    ]
    .iter()
    .map(|template| template.replace("{}", SECRET))
    .collect();

    let place = Place::new();
    fs::set_permissions(place.path(""), PermissionsExt::from_mode(0o755)).expect("chmod");
    let command = format!("PGPASSWORD={SECRET} sh -c 'sleep 6' -- --api-token {SECRET}");
    let mut recording = place.command(&["record", "--dsn", &host.superuser("postgres"), "--json"]);
    recording.args(["--", "env", &format!("PGPASSWORD={SECRET}"), "sh", "-c", &command]);
    let recording = recording.spawn().expect("spawn");

    let over = AtomicBool::new(false);
    let shown = std::thread::scope(|scope| {
        let (host, statements, over) = (&host, &statements, &over);
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                for statement in statements {
                    host.execute("postgres", statement);
                }
            }
        });
        let done = finish(recording);
        over.store(true, Ordering::Relaxed);
        done.code(0)
    });
    // The server did keep it: what follows has something to find.
    let kept = host.ask(
        "postgres",
        &format!("SELECT count(*)::text FROM pg_stat_statements WHERE query LIKE '%{SECRET}%'"),
    );
    assert!(kept.parse::<u32>().expect("a number") >= 8, "{kept}");

    let export = place.run(&["export", "latest"]).code(0).out();
    let run = place.run(&["show", "latest"]).code(0).out();
    let listed = place.run(&["runs", "--json"]).code(0).out();
    for text in [shown.out(), shown.err(), export.clone(), run, listed] {
        assert!(!text.contains(SECRET) && !text.contains(PASSWORD), "{text}");
    }
    let lab = files(&place.path("lab"));
    assert!(lab.iter().any(|file| file.ends_with("walwright.db")), "{lab:?}");
    assert!(lab.iter().any(|file| file.extension().is_some_and(|end| end == "html")), "{lab:?}");
    for file in &lab {
        let bytes = fs::read(file).expect("a file");
        assert!(!holds(&bytes, SECRET) && !holds(&bytes, PASSWORD), "{}", file.display());
        let mode = file.metadata().expect("metadata").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} is {mode:o}", file.display());
    }
    let mode = place.path("lab").metadata().expect("metadata").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    // What is no secret is there.
    for word in ["ALTER ROLE worker PASSWORD …", "INSERT INTO t VALUES", "kept-word", "sleep 6"] {
        assert!(export.contains(word), "no {word} in {export}");
    }
}
