//! Sweeps over clients: every point from the same data, found again by their name.

use std::collections::BTreeSet;
use std::fs::File;

use serde_json::Value;

use crate::common::{Host, Place, finish, signal, until_said};

/// Flags of points that are as short as can be and still have samples.
const BRIEF: [&str; 5] = ["--plain", "--warmup=0s", "--duration=2s", "--waits=20", "--scale=1"];

fn sweep(place: &Place, args: &[&str]) -> crate::common::Done {
    place.run(&[&["run", "--load-jobs=1"], &BRIEF[..], args].concat())
}

fn numbers(values: &Value, key: &str) -> Vec<u64> {
    let of = |value: &Value| value[key].as_u64().expect("a number");
    values.as_array().expect("a list").iter().map(of).collect()
}

#[test]
fn every_point_starts_from_the_same_data_and_the_curve_is_told() {
    let place = Place::new();
    let done = sweep(&place, &["--clients", "1,2,3,4", "--label", "mine", "--json"]);
    let result = done.code(0).json();
    let found = &result["sweep"];
    assert_eq!(numbers(&found["loads"], "clients"), [1, 2, 3, 4]);
    assert_eq!(found["not_fitted"], Value::Null);
    assert!(found["fit"]["law"]["single"].as_f64().unwrap() > 0.0);
    // The latency breakdown of each load are those of its latency.
    for load in found["loads"].as_array().unwrap() {
        let times = load["times"].as_array().unwrap();
        let shares: f64 = times.iter().map(|t| t["share"]["center"].as_f64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 0.01, "{load}");
    }
    assert!(found["verdict"].as_array().unwrap().len() >= 2, "{found}");

    // Each is an ordinary run of its own, under one name.
    let name = found["name"].as_str().unwrap();
    let runs = place.runs();
    assert_eq!(runs.len(), 4);
    let mut clients = BTreeSet::new();
    for run in &runs {
        assert_eq!(run["label"], format!("mine {name}"));
        assert_eq!((&run["sweep"], &run["state"]), (&Value::from(name), &Value::from("complete")));
        let id = run["id"].as_str().unwrap();
        let record = place.run(&["runs", "export", id]).code(0).json();
        clients.insert(record["load"]["clients"].as_u64().unwrap());
        // What other points inserted is not there.
        let tables = record["target"]["tables"].as_array().unwrap();
        let history = tables.iter().find(|t| t["name"] == "pgbench_history").unwrap();
        assert_eq!(history["bytes"], 0, "{history}");
        assert!(place.path(&format!("lab/reports/{id}.html")).exists());
    }
    assert_eq!(clients, BTreeSet::from([1, 2, 3, 4]));

    // It can be told again from its records, by the beginning of its name too.
    let again = place.run(&["runs", "show", name, "--json"]).code(0).json();
    assert_eq!(again["sweep"], *found);
    let shown = place.run(&["runs", "show", &name[..name.len() - 2]]).code(0).out();
    assert!(shown.contains("throughput over clients") && shown.contains('●'), "{shown}");
    let page = place.path(&format!("lab/reports/{name}.html"));
    let first = std::fs::read_to_string(&page).unwrap();
    std::fs::remove_file(&page).unwrap();
    place.run(&["report", name]).code(0);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), first);
    let listed = place.run(&["runs", "list"]).code(0).out();
    assert!(
        listed.lines().any(|line| line.trim_start().starts_with(name) && line.contains("4 runs")),
        "{listed}"
    );
    let named = [name, "mine"].map(|name| {
        let done = place.run(&["runs", "delete", name, "--json"]).code(2);
        done.json()["would_delete"].as_array().unwrap().len()
    });
    assert_eq!(named, [4, 4], "all of its runs, by its name or their label");
    place.run(&["diagnose", name]).refuses(&["fits several runs", runs[0]["id"].as_str().unwrap()]);
    let one = place.run(&["runs", "show", "latest"]).code(0).out();
    assert!(one.contains(&format!("walwright runs show {name}")), "{one}");
    place.assert_clean();
}

#[test]
fn a_sweep_that_is_stopped_keeps_what_it_has_and_leaves_no_server() {
    let place = Place::new();
    let log = place.path("log");
    let args = [&["run", "--clients", "1,2,8", "--load-jobs=1"], &BRIEF[..]].concat();
    let mut command = place.command(&args);
    command.stderr(File::create(&log).unwrap());
    let child = command.spawn().unwrap();
    until_said(&log, "run 2 of 3");
    signal(child.id(), libc::SIGINT);
    let done = finish(child).code(3);
    assert!(done.out().contains("No curve was fitted"), "{}", done.out());
    let runs = place.runs();
    assert!(runs.iter().any(|run| run["state"] == "complete"), "{runs:?}");
    assert!(runs.len() <= 2, "{runs:?}");
    place.assert_clean();
}

#[test]
fn on_attached_server_the_tables_are_filled_once() {
    let (place, host) = (Place::new(), Host::new());
    host.execute("postgres", "CREATE DATABASE app");
    let dsn = host.superuser("app");
    let args = ["--clients", "1,2", "--dsn", &dsn, "--init", "--no-probe", "--json"];
    let result = sweep(&place, &args).code(0).json();
    let found = &result["sweep"];
    assert_eq!(numbers(&found["loads"], "clients"), [1, 2]);
    assert!(found["not_fitted"].as_str().unwrap().contains("at least 4"), "{found}");
    // All transactions of both points are in one table, which nobody emptied between them.
    let kept: u64 = host.ask("app", "SELECT count(*)::text FROM pgbench_history").parse().unwrap();
    let counted: u64 = place
        .runs()
        .iter()
        .map(|run| {
            let shown =
                place.run(&["runs", "show", run["id"].as_str().unwrap(), "--json"]).code(0).json();
            shown["summary"]["load"]["transactions"].as_u64().unwrap()
        })
        .sum();
    assert!(kept >= counted && counted > 0, "{kept} rows, {counted} transactions");
}

#[test]
fn what_makes_no_sweep_is_wrong_usage() {
    let place = Place::new();
    for (args, said) in [
        (&["run", "--repeats=3"][..], "need several client counts"),
        (&["run", "--clients=4,4"], "need several client counts"),
        (&["run", "--clients=1,2,4,8", "--rate=100"], "needs a closed loop"),
        (&["run", "--clients=1,2,4,8", "--keep"], "leave --keep out"),
        (&["run", "--clients=1,0"], "0 is not in 1..=5000"),
    ] {
        place.run(args).code(2).says(&[said]);
    }
    assert!(!place.path("lab").exists());
}
