//! Tunes with real runs: refused, begun, killed, gone on with, stopped, deleted.

mod common;

use std::fs::File;
use std::process::Stdio;

use common::{Place, finish, signal, until_said};

/// As short as a tune can be, from a server whose group leaders wait 5 ms for nobody.
const TUNE: [&str; 14] = [
    "tune",
    "--scale=1",
    "--clients=2",
    "--duration=1s",
    "--warmup=1s",
    "--runs=8",
    "--seed=3",
    "--only=commit_delay",
    "--only=commit_siblings",
    "--set",
    "commit_delay=5000",
    "--set",
    "commit_siblings=0",
    "--confirm-duration=1s",
];

#[test]
fn what_could_corrupt_or_makes_no_sense_is_refused_before_anything_is_made() {
    let place = Place::new();
    place.run(&["tune", "--consent=fsync"]).refuses(&["fsync is never tuned"]);
    place.run(&["tune", "--only=synchronous_commit"]).refuses(&["--consent synchronous_commit"]);
    place.run(&["tune", "--objective=speed"]).refuses(&["there is no metric 'speed'"]);
    place.run(&["tune", "--objective=p99@fast"]).refuses(&["p99@5000"]);
    place.run(&["tune", "--set", "max_wal_size=much"]).refuses(&["max_wal_size", "number"]);
    place.run(&["tune", "--resume"]).refuses(&["there is no tune latest"]);
    place.run(&["tune", "--runs=3"]).code(2);
    assert_eq!(place.run(&["tune", "--list", "--json"]).code(0).json(), serde_json::json!([]));
    place.assert_clean();
}

#[test]
fn a_killed_tune_goes_on_and_a_stopped_one_keeps_what_it_measured() {
    let place = Place::new();
    let log = place.path("log");
    let begin = |args: &[&str]| {
        let file = File::create(&log).unwrap();
        place.command(args).stderr(Stdio::from(file)).spawn().unwrap()
    };
    let child = begin(&TUNE);
    until_said(&log, "  2 of 8");
    signal(child.id(), libc::SIGKILL);
    finish(child);

    let shown = place.run(&["tune", "--show", "--json"]).code(0).json();
    assert_eq!(
        (shown["phase"].as_str(), shown["measurements"].as_u64()),
        (Some("search"), Some(2))
    );
    let first = shown["baseline"].as_f64().unwrap();
    assert!(!shown["cause"]["verdict"].as_str().unwrap().is_empty(), "{shown}");
    let id = shown["id"].as_str().unwrap().to_owned();
    place.run(&["promote", &id]).refuses(&["nothing to promote", "not come to its end"]);

    let child = begin(&["tune", "--resume"]);
    until_said(&log, "  3 of 8");
    signal(child.id(), libc::SIGINT);
    finish(child).code(3);
    place.assert_clean();
    let shown = place.run(&["tune", "--show", &id, "--json"]).code(0).json();
    assert!(shown["measurements"].as_u64().unwrap() >= 3, "{shown}");
    assert!(shown["baseline"].as_f64().unwrap() > 0.2 * first);

    place.run(&["tune", "--delete", &id]).code(0);
    place.run(&["tune", "--show", &id]).refuses(&["there is no tune"]);
    assert!(!place.path("cache/snapshots").join(format!("tune-{id}")).exists());
    assert!(!place.runs().is_empty(), "records stay");
}
