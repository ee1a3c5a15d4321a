//! Experiments with real runs: begun, killed, resumed, judged; findings made into plans.

use std::fs::{self, File};
use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{Place, finish, setting, signal, until_said};

/// Two arms, one of which cannot be run.
const PLAN: &str = r#"
name = "two arms"
question = "Which of two arms can be run?"
blocks = 2
seed = 3
metric = ["throughput", "cost"]
cost = "1e3 * :latency_mean"

[workload]
name = "tpcb"
scale = 1

[load]
clients = 2
duration = "1s"
warmup = "1s"

[server]
ddl = ["CREATE INDEX extra ON pgbench_accounts (abalance)"]

[[arm]]
name = "no index"
tcp = true
ddl = [{ sql = "DROP INDEX extra", undo = "CREATE INDEX extra ON pgbench_accounts (abalance)" }]

[[arm]]
name = "no such table"
ddl = ["ALTER TABLE nowhere SET (fillfactor = 50)"]
"#;

fn listed(place: &Place) -> Value {
    place.run(&["experiment", "list", "--json"]).code(0).json()[0].clone()
}

fn texts(of: &Value) -> Vec<&str> {
    of.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn a_killed_experiment_goes_on_and_is_judged() {
    let place = Place::new();
    let plan = place.file("plan.toml", PLAN);
    let estimate = place.run(&["experiment", &plan, "--estimate", "--json"]).code(0).json();
    assert_eq!((estimate["runs"].as_u64(), estimate["arms"].as_u64()), (Some(8), Some(2)));
    assert_eq!(estimate["blocks_to_prove"], 7);

    // Killed once a run is done.
    let log = place.path("log");
    let child = place
        .command(&["experiment", &plan])
        .stderr(Stdio::from(File::create(&log).unwrap()))
        .spawn()
        .unwrap();
    until_said(&log, " left\n");
    signal(child.id(), libc::SIGKILL);
    finish(child);
    let before = listed(&place);
    assert_eq!(before["ending"], "unfinished");
    assert!(before["done"].as_u64().unwrap() >= 1);
    let id = before["id"].as_str().unwrap().to_owned();
    let page = place.path("lab/experiments").join(&id).join("report.html");
    let page = fs::read_to_string(page).expect("its page is there while it goes on");
    assert!(page.contains("0 of 2 blocks done") && page.contains("not finished"), "{page}");
    // As if it had been killed while it wrote the next run down.
    let cells = place.path("lab/experiments").join(&id).join("cells.jsonl");
    let first = fs::read_to_string(&cells).unwrap();
    File::options().append(true).open(&cells).unwrap().write_all(b"{\"block\":0,").unwrap();

    place.run(&["experiment", &plan]).code(2).says(&[
        "is unfinished",
        "experiment resume",
        "--new",
    ]);
    let outcome = place.run(&["experiment", "resume", &id, "--json"]).code(0).json();
    place.assert_clean();
    assert!(!place.path("cache/snapshots").join(&id).exists());
    assert!(fs::read_to_string(&cells).unwrap().starts_with(&first), "no run is made again");
    assert_eq!(
        (outcome["ending"].as_str(), outcome["blocks"].as_u64()),
        (Some("all_blocks"), Some(2))
    );
    assert_eq!(outcome["runs"], 6);

    // Both arms of the plan: one has an effect, the other says why it has none.
    let arms = outcome["arms"].as_array().unwrap();
    assert!(arms[1]["failed"].as_str().unwrap().contains("nowhere"), "{}", arms[1]["failed"]);
    assert_eq!(outcome["judged"]["arms"][1]["effect"], Value::Null);
    let effect = &outcome["judged"]["arms"][0]["effect"];
    assert_eq!(effect["log_ratios"].as_array().unwrap().len(), 2);
    // Two blocks prove nothing, whatever they show.
    assert_ne!(outcome["judged"]["arms"][0]["verdict"], "proven");
    assert_eq!(outcome["others"][0]["metric"]["expression"], "1e3 * :latency_mean");
    assert!(outcome["others"][0]["baseline"].as_f64().unwrap() > 0.0);

    // Runs of an experiment are no run to begin a proof with, whichever is the last.
    place.run(&["prove", "latest"]).refuses(&["was made by `walwright run`"]);

    // Every run is an ordinary record, from the same data, under its place.
    let runs = place.runs();
    assert!(runs.len() >= 6);
    // The one that was killed stays beside them, interrupted.
    let complete = runs.iter().filter(|run| run["state"] == "complete");
    let labels: Vec<&str> = complete.filter_map(|run| run["label"].as_str()).collect();
    for name in ["baseline", "baseline again (A/A)", "no index"] {
        for block in 1..=2 {
            let label = format!("{id} block {block} {name}");
            assert_eq!(labels.iter().filter(|l| **l == label).count(), 1, "{label} in {labels:?}");
        }
    }
    let record = |arm: usize| {
        let run = outcome["arms"][arm]["runs"][0].as_str().unwrap();
        place.run(&["runs", "export", run]).code(0).json()
    };
    let indexes = |record: &Value| {
        let tables = record["target"]["tables"].as_array().unwrap();
        let accounts = tables.iter().find(|t| t["name"] == "pgbench_accounts").unwrap();
        texts(&accounts["indexes"]).len()
    };
    assert_eq!(indexes(&record(0)), 1);
    assert_eq!(setting(&record(0), "listen_addresses"), "127.0.0.1");
    let base = outcome["baseline_runs"][0][0].as_str().unwrap();
    let base = place.run(&["runs", "export", base]).code(0).json();
    assert_eq!(indexes(&base), 2, "the baseline has the index again, from the same data");
    assert_eq!(setting(&base, "listen_addresses"), "", "the baseline is reached by its socket");
    assert_eq!(base["load"]["seed"], record(0)["load"]["seed"], "one block, one seed");

    // What has ended is shown again, and its page drawn.
    let shown = place.run(&["experiment", "show", &id[id.len() - 3..]]).code(0).out();
    assert!(shown.contains("no index") && shown.contains("Given up"), "{shown}");
    let page = fs::read_to_string(place.path("lab/experiments").join(&id).join("report.html"));
    assert!(page.unwrap().contains("<svg"), "a forest plot");
    let told = place.run(&["journal", "--json"]).code(0).json();
    assert_eq!(told.as_array().unwrap().len(), 1, "one entry, though it was resumed: {told}");
    assert_eq!(told[0]["experiments"], serde_json::json!([id]));
    assert!(!told[0]["effects"].as_array().unwrap().is_empty(), "{told}");

    // Its runs go by its name, or by its plan's.
    for name in [&*id, "two arms"] {
        let named = place.run(&["runs", "delete", name, "--json"]).code(2).json();
        assert_eq!(named["would_delete"].as_array().unwrap().len(), runs.len(), "{named}");
    }

    // One that cannot be read is named, and goes all the same.
    let header = place.path("lab/experiments").join(&id).join("header.json");
    fs::write(&header, "{").unwrap();
    let wrong = ["header.json cannot be read", "experiment delete"];
    place.run(&["experiment", "show", &id]).refuses(&wrong);
    place.run(&["experiment", "delete", &id]).code(0);
    assert!(!header.exists());
    assert_eq!(place.run(&["experiment", "list", "--json"]).code(0).out().trim(), "[]");
}

#[test]
fn an_experiment_without_an_arm_left_measures_no_baseline_any_more() {
    let place = Place::new();
    let plan = PLAN.replace("blocks = 2", "blocks = 4");
    let (head, rest) = plan.split_once("[[arm]]").unwrap();
    let (_, failing) = rest.split_once("[[arm]]").unwrap();
    let plan = place.file("plan.toml", &format!("{head}[[arm]]{failing}"));
    let ended = place.run(&["experiment", &plan, "--json"]).code(1);
    let ended = ended.says(&["every arm of", "nothing was compared"]);
    let outcome = ended.json();
    assert_eq!(outcome["ending"], "no_arm_left");
    assert!(outcome["runs"].as_u64().unwrap() <= 2, "none after the first block: {outcome}");
    let shown = place.run(&["experiment", "show", "latest"]).code(0).out();
    assert!(shown.contains("every arm was given up"), "{shown}");
    place.assert_clean();
}

#[test]
fn what_lowers_durability_is_refused_before_anything_runs() {
    let place = Place::new();
    let plan = |setting: &str| {
        place.file("plan.toml", &format!("[[arm]]\nname = \"a\"\nsettings = {{ {setting} }}\n"))
    };
    let lossy = plan("synchronous_commit = \"off\"");
    place.run(&["experiment", &lossy]).code(2).says(&["--consent synchronous_commit"]);
    let consent = ["experiment", &lossy, "--consent", "synchronous_commit", "--estimate"];
    place.run(&consent).code(0);
    let corrupt = plan("fsync = false");
    place.run(&["experiment", &corrupt]).code(2).says(&["fsync", "--consent fsync"]);
    // A cluster of our own that is thrown away may be put at risk.
    place.run(&["experiment", &corrupt, "--consent", "fsync", "--estimate"]).code(0);
    let attached = place.file(
        "attached.toml",
        "[server]\ndsn = \"host=db\"\n[[arm]]\nname = \"a\"\nsettings = { jit = \"off\" }\n",
    );
    place.run(&["experiment", &attached]).code(2).says(&["--maintenance"]);
    assert!(place.runs().is_empty());
    assert!(!place.path("lab/experiments").exists());
}

#[test]
fn settings_that_no_server_takes_are_told_before_anything_runs() {
    let place = Place::new();
    let plan = place.file(
        "plan.toml",
        "[[arm]]\nname = \"a\"\nsettings = { wal_compresion = \"on\", work_mem = \"1kB\" }\n",
    );
    let told = ["did you mean wal_compression?", "outside the valid range", "work_mem"];
    place.run(&["experiment", &plan]).misused(&told);
    assert!(place.runs().is_empty());
    assert!(!place.path("lab/experiments").exists());
}

#[test]
fn the_example_is_a_plan_that_can_be_run() {
    let place = Place::new();
    let example = place.run(&["experiment", "--example"]).code(0).out();
    let plan = place.file("example.toml", &example);
    place.run(&["experiment", &plan, "--estimate"]).code(0);
}

#[test]
fn a_finding_becomes_an_experiment_beside_the_run_as_it_was() {
    let place = Place::new();
    let flags = [
        "-c",
        "3",
        "--scale",
        "1",
        "--set",
        "synchronous_commit=off",
        "--label",
        "it's",
        "-C",
        "-L",
        "5ms",
        "--on-error",
        "stop",
    ];
    place.measure(&[&flags[..], &["--tcp"]].concat()).code(0);
    let plan = place.run(&["prove", "latest", "D37", "--plan"]).code(0).out();
    for line in [
        "clients = 3",
        "scale = 1",
        "synchronous_commit = \"off\"",
        "duration = \"2s\"",
        "tcp = true",
        "connect = true",
        "latency_limit = \"5ms\"",
        "on_error = \"stop\"",
        "[[arm]]",
        "synchronous_commit = \"on\"",
    ] {
        assert!(plan.contains(line), "{line} is not in\n{plan}");
    }
    let file = place.file("plan.toml", &plan);
    place.run(&["experiment", &file, "--estimate"]).code(0);
    let list = place.run(&["prove", "latest"]).code(0).out();
    assert!(list.contains("synchronous_commit = on") && list.contains(" D37 --action 1"), "{list}");
    place.run(&["prove", "latest", "D1"]).refuses(&["no finding D1", "D37"]);
}
