//! Tunes with real runs: refused, begun, killed, gone on with, stopped, deleted.

use std::fs::File;
use std::process::Stdio;

use crate::common::{Place, finish, setting, signal, until, until_said};

/// As short as a tune can be, from a server whose group leaders wait 5 ms for nobody; with
/// the fill factors of what tpcb updates, as on slow storage and by TCP.
const TUNE: [&str; 19] = [
    "tune",
    "--scale=1",
    "--clients=2",
    "--duration=1s",
    "--warmup=1s",
    "--runs=8",
    "--seed=3",
    "--only=commit_delay",
    "--only=commit_siblings",
    "--only=schema",
    "--consent=schema",
    "--set",
    "commit_delay=5000",
    "--set",
    "commit_siblings=0",
    "--confirm-duration=1s",
    "--confirm-pairs=3",
    "--flush-latency=1ms",
    "--tcp",
];

#[test]
fn what_could_corrupt_or_makes_no_sense_is_refused_before_anything_is_made() {
    let place = Place::new();
    place.run(&["tune", "--consent=fsync"]).misused(&["fsync is never tuned"]);
    place.run(&["tune", "--only=synchronous_commit"]).misused(&["--consent synchronous_commit"]);
    place.run(&["tune", "--only=vm.swappiness"]).misused(&["--consent vm.swappiness"]);
    place.run(&["tune", "--only=kernel"]).misused(&["--consent kernel"]);
    place.run(&["tune", "--only=schema"]).misused(&["--consent schema"]);
    place.run(&["tune", "--consent=vm.nr_hugepages"]).misused(&["cannot be searched"]);
    place.run(&["tune", "--objective=speed"]).misused(&["there is no metric 'speed'"]);
    place.run(&["tune", "--objective=p99@fast"]).misused(&["p99@5000"]);
    place.run(&["tune", "--set", "max_wal_size=much"]).misused(&["max_wal_size", "number"]);
    let near = ["wal_compresion", "did you mean wal_compression?"];
    place.run(&["tune", "--set", "wal_compresion=on"]).misused(&near);
    place.run(&["tune", "resume"]).refuses(&["there is no tune 'latest'"]);
    place.run(&["tune", "--resume", "--confirm-duration=1m"]).code(2).says(&["--confirm-duration"]);
    place.run(&["tune", "--runs=3"]).code(2);
    place.run(&["tune", "--confirm-pairs=2"]).code(2);
    place.run(&["tune", "--worth=0"]).code(2).says(&["not a percentage"]);
    place.run(&["tune", "--allow-loss=5"]).misused(&["'throughput' keeps no throughput"]);
    assert_eq!(place.run(&["tune", "list", "--json"]).code(0).json(), serde_json::json!([]));
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

    // Its page is there while it goes on.
    let tunes = std::fs::read_dir(place.path("lab/tunes")).unwrap();
    let pages: Vec<String> = tunes
        .map(|tune| std::fs::read_to_string(tune.unwrap().path().join("report.html")).unwrap())
        .collect();
    assert_eq!(pages.len(), 1);
    assert!(pages[0].contains("<b>Unfinished.</b>"), "{}", pages[0]);

    let shown = place.run(&["tune", "show", "--json"]).code(0).json();
    assert_eq!(
        (shown["phase"].as_str(), shown["measurements"].as_u64()),
        (Some("search"), Some(2))
    );
    let first = shown["baseline"].as_f64().unwrap();
    assert!(!shown["cause"]["verdict"].as_str().unwrap().is_empty(), "{shown}");
    let searched: Vec<&str> = shown["searched"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["layer"] == "schema" && one["default"] == "100")
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    for table in ["accounts", "branches", "tellers"] {
        let name = format!("table.fillfactor (public.pgbench_{table})");
        assert!(searched.contains(&name.as_str()), "{name} of {searched:?}");
    }
    let id = shown["id"].as_str().unwrap().to_owned();
    let text = place.run(&["tune", "show"]).code(0).out();
    assert!(text.starts_with("Unfinished. It has come to its search."), "{text}");
    assert!(text.contains(&format!("walwright tune resume {id}\n")), "{text}");
    assert!(text.contains(", flushes of at least 1ms, reached by TCP"), "{text}");
    let (_, page) = text.trim_end().rsplit_once("page: ").unwrap();
    assert!(std::fs::read_to_string(page).unwrap().contains("tune of tpcb"), "{page}");
    let runs = place.runs();
    let complete = runs.iter().find(|run| run["state"] == "complete").unwrap();
    let run = place.run(&["export", complete["id"].as_str().unwrap()]).code(0).json();
    assert_eq!(setting(&run, "listen_addresses"), "127.0.0.1");
    let warnings = run["warnings"].to_string();
    assert!(warnings.contains("lengthened_flushes"), "{warnings}");
    let listed = place.run(&["tune", "list", "--json"]).code(0).json();
    assert_eq!(
        (listed[0]["tune"].as_str(), listed[0]["state"].as_str(), listed[0]["measured"].as_u64()),
        (Some(&*id), Some("unfinished: search"), Some(2))
    );
    let list = place.run(&["tune", "list"]).code(0).out();
    assert!(list.contains(&id) && list.contains("2 of 8"), "{list}");
    place.run(&["tune", "promote", &id]).refuses(&["nothing to promote", "unfinished"]);

    let child = begin(&["tune", "resume"]);
    until_said(&log, "  3 of 8");
    signal(child.id(), libc::SIGINT);
    finish(child).code(3);
    place.assert_clean();
    let shown = place.run(&["tune", "show", &id, "--json"]).code(0).json();
    assert!(shown["measurements"].as_u64().unwrap() >= 3, "{shown}");
    assert!(shown["baseline"].as_f64().unwrap() > 0.2 * first);

    place.run(&["tune", "delete", &id]).code(0);
    place.run(&["tune", "show", &id]).refuses(&["there is no tune"]);
    assert!(!place.path("cache/snapshots").join(format!("tune-{id}")).exists());
    assert!(!place.runs().is_empty(), "records stay");
}

/// A load of inserts with an index that nothing reads.
fn workload(place: &Place) -> String {
    let directory = place.path("marks");
    std::fs::create_dir(&directory).unwrap();
    let file = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
    file(
        "workload.toml",
        "name = \"marks\"\ntitle = \"Marks\"\n[defaults]\nclients = 2\n\
         [sql]\nbefore_load = [\"schema.sql\"]\n[[script]]\nfile = \"mark.sql\"\n",
    );
    file(
        "schema.sql",
        "CREATE TABLE mark (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int);\n\
         CREATE INDEX mark_n ON mark (n);\n",
    );
    file("mark.sql", "\\set n random(1, 1000)\nINSERT INTO mark (n) VALUES (:n);\n");
    directory.display().to_string()
}

/// What the kernel has: both of a pair, of which one is 0.
fn dirty_background() -> (String, String) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/vm/{name}")).unwrap();
    (read("dirty_background_bytes"), read("dirty_background_ratio"))
}

#[test]
fn kernel_schema_and_client_are_searched_by_consent_and_nothing_stays_changed() {
    let place = Place::new();
    let (log, workload, kernel) = (place.path("log"), workload(&place), dirty_background());
    let begin = |args: &[&str]| {
        let file = File::create(&log).unwrap();
        place.command(args).stderr(Stdio::from(file)).spawn().unwrap()
    };
    let child = begin(&[
        "tune",
        "--workload",
        &workload,
        "--consent=kernel",
        "--consent=schema",
        "--only=schema",
        "--only=vm.dirty_background_bytes",
        "--client",
        "--duration=1s",
        "--warmup=1s",
        "--confirm-duration=1s",
        "--runs=8",
        "--seed=3",
    ]);
    until_said(&log, "  2 of 8");
    // Killed where the kernel has another value, if this user may write it and the search
    // comes to it: what it tries follows from what was measured.
    let not_here = "vm.dirty_background_bytes is not searched";
    let said = |words: &str| std::fs::read_to_string(&log).unwrap().contains(words);
    until("a value of the kernel is written", || {
        dirty_background() != kernel || said(not_here) || said("  7 of 8")
    });
    signal(child.id(), libc::SIGKILL);
    finish(child);

    let child = begin(&["tune", "resume"]);
    until_said(&log, "10 transactions in one commit, block 1: ");
    assert!(!said("did not run"));
    signal(child.id(), libc::SIGINT);
    finish(child).code(3);
    assert_eq!(dirty_background(), kernel);
    place.assert_clean();

    let shown = place.run(&["tune", "show", "--json"]).code(0).json();
    let named = |list: &str, name: &str| {
        let list = shown[list].as_array().unwrap().clone();
        list.into_iter().find(|one| one["name"].as_str().unwrap().contains(name))
    };
    let index = named("searched", "index public.mark_n").expect("the index");
    assert_eq!((&index["layer"], &index["default"]), (&"schema".into(), &"kept".into()));
    let schema = |one: &&serde_json::Value| one["layer"] == "schema";
    let searched = shown["searched"].as_array().unwrap();
    assert_eq!(searched.iter().filter(schema).count(), 1, "a primary key stays: {searched:?}");
    // Who may not write the kernel's values is told so.
    match named("searched", "vm.dirty_background_bytes") {
        Some(value) => assert_eq!(value["layer"], "kernel"),
        None => assert!(named("dropped", "vm.dirty_background_bytes").is_some(), "{shown}"),
    }
    let all = shown["client_options"].as_array().unwrap().len();
    assert_eq!(all, 6, "two protocols, a gateway, two pool sizes, a batch: {shown}");
    assert!(
        place.path("lab/tunes").join(shown["id"].as_str().unwrap()).join("batch/1.sql").exists()
    );
    let batch = named("client_options", "10 transactions in one commit").expect("the batch");
    assert_eq!(batch["units_per_transaction"], 10);
    assert!(batch["note"].as_str().unwrap().contains("unit of work"));
    assert_eq!(shown["client_options_left_out"], serde_json::json!([]));
    assert_eq!(shown["measurements"], 8);
}
