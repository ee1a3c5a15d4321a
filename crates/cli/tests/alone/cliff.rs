//! A cliff inside a real run: found where it is, and explained by what changed with it.

use std::fs::File;

use serde_json::Value;

use crate::common::{Host, Place, finish, until_said};

/// From then on each transaction sleeps, as if someone had deployed something.
const DEPLOY: &str = "
    CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END';
    CREATE TRIGGER slow BEFORE UPDATE ON pgbench_tellers FOR EACH ROW EXECUTE FUNCTION slow();";

#[test]
fn a_wait_that_begins_inside_the_run_is_named_with_its_second() {
    let _alone = crate::alone();
    let (place, host) = (Place::new(), Host::new());
    host.execute("postgres", "CREATE DATABASE app");
    let dsn = host.superuser("app");
    let log = place.path("log");
    let mut command = place.command(&[
        "run",
        "--dsn",
        &dsn,
        "--init",
        "--plain",
        "--json",
        "--load-jobs=1",
        "--scale=1",
        "--clients=4",
        "--warmup=1s",
        "--duration=36s",
    ]);
    command.stderr(File::create(&log).unwrap());
    let child = command.spawn().unwrap();
    // The tenth second of the window, or one after it: a disk that is busy may keep it waiting.
    until_said(&log, "  measured 1");
    host.execute("app", DEPLOY);
    let text = std::fs::read_to_string(&log).unwrap();
    let measured = text.rsplit_once("measured ").unwrap().1.trim_start();
    let seconds = measured.split(|c: char| !c.is_ascii_digit()).next().unwrap();
    let deployed: f64 = seconds.parse().unwrap_or_else(|_| panic!("{measured}"));
    finish(child).code(0);

    let diagnosis = place.run(&["diagnose", "--json"]).code(0).json();
    let findings = diagnosis["findings"].as_array().unwrap();
    let cliff = findings.iter().find(|finding| finding["id"] == "D35");
    let cliff = cliff.unwrap_or_else(|| panic!("{diagnosis:#}"));
    let cause = cliff["cause"].as_str().unwrap();
    assert!(cause.contains("Timeout:PgSleep"), "{cause}");
    let second: f64 = cause
        .split_once(" at ")
        .and_then(|(_, rest)| rest.split_once(" s into"))
        .and_then(|(second, _)| second.parse().ok())
        .unwrap_or_else(|| panic!("{cause}"));
    assert!((9.0..deployed + 5.0).contains(&second), "{deployed}: {cause}");
    // The time that is slept shows in the evidence, per transaction.
    let after = |e: &&Value| e["what"].as_str().is_some_and(|what| what.ends_with(" after"));
    let slept =
        cliff["evidence"].as_array().unwrap().iter().find(|e| after(e) && e["unit"] == "seconds");
    let slept = slept.and_then(|e| e["value"].as_f64()).unwrap_or_else(|| panic!("{cliff:#}"));
    assert!(slept > 0.01, "{slept}");
}
