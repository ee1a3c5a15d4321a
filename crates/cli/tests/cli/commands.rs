//! Commands that need no server: what they print, and with which exit code they end.

use crate::common::Place;

#[test]
fn alone_it_says_what_it_is_and_where_to_start() {
    let place = Place::new();
    let out = place.run(&[]).code(0).out();
    assert!(out.starts_with("walwright 0."), "{out}");
    assert_eq!(out.lines().filter(|line| line.starts_with("  walwright run")).count(), 3);
    let start = place.run(&["--json"]).code(0).json();
    assert_eq!(start["start"].as_array().unwrap().len(), 3);
}

#[test]
fn help_teaches_the_exit_codes_and_wrong_usage_is_two() {
    let place = Place::new();
    let help = place.run(&["--help"]).code(0).out();
    for words in ["Exit codes: 0 done, 1 failed, 2 wrong usage", "NO_COLOR", "walwright run --file"]
    {
        assert!(help.contains(words), "{words}");
    }
    for wrong in [
        &["bogus"][..],
        &["run", "--clients=0"],
        &["run", "--duration=0s"],
        &["run", "--duration=5weeks"],
        &["run", "--rate=0"],
        &["run", "--rate=nan"],
        &["run", "--set=nothing"],
        &["run", "--init"],
        &["run", "--dsn=x", "--keep"],
        &["run", "--think=1s", "--rate=5"],
        &["delete"],
    ] {
        let done = place.run(wrong).code(2);
        assert_eq!(done.out(), "");
        assert!(done.err().starts_with("error: "), "{wrong:?}: {}", done.err());
    }
    assert!(!place.path("lab").exists());
}

#[test]
fn reading_an_empty_lab_makes_nothing_and_says_how_to_begin() {
    let place = Place::new();
    let out = place.run(&["runs"]).code(0).out();
    assert!(out.contains("`walwright run` makes the first"), "{out}");
    assert_eq!(place.run(&["runs", "--json"]).code(0).json(), serde_json::json!([]));
    for command in [&["show"][..], &["report"], &["export"], &["delete", "latest"]] {
        place.run(command).refuses(&["there are no runs in", "`walwright run` makes one"]);
    }
    assert!(!place.path("lab").exists());
    // An empty variable is none: the lab is then the user's own.
    let mut command = place.command(&["runs"]);
    let done = crate::common::finish(command.env("WALWRIGHT_LAB", "").spawn().unwrap()).code(0);
    assert!(done.out().contains("home/.local/share/walwright"), "{}", done.out());
}

#[test]
fn workloads_are_listed_shown_and_copied_once() {
    let place = Place::new();
    let names = ["tpcb", "simple-update", "select-only", "autocommit", "events", "tpcc"];
    let list = place.run(&["workload", "list", "--json"]).code(0).json();
    let listed: Vec<_> = list.as_array().unwrap().iter().map(|w| w["name"].as_str()).collect();
    assert_eq!(listed, names.map(Some));
    assert_eq!(place.run(&["workload", "list"]).code(0).out().lines().count(), names.len());
    for name in names {
        let shown = place.run(&["workload", "show", name, "--json"]).code(0).json();
        assert_eq!(shown["files"][0]["name"], "workload.toml");
    }
    let text = place.run(&["workload", "show", "events"]).code(0).out();
    assert!(text.contains("--option partial_index=true"), "{text}");

    place.run(&["workload", "export", "events", "mine"]).code(0);
    assert!(place.path("mine/workload.toml").is_file());
    place.run(&["workload", "export", "events", "mine"]).refuses(&["already exists"]);
    let mine = place.run(&["workload", "show", "mine", "--json"]).code(0).json();
    assert_eq!(mine["name"], "events");
    place.run(&["workload", "show", "evnts"]).refuses(&["did you mean events?"]);
}

#[test]
fn installs_are_listed_and_the_machine_is_examined() {
    let place = Place::new();
    let list = place.run(&["pg", "list", "--json"]).code(0).json();
    let installs = list.as_array().unwrap();
    for version in ["14.23.0", "15.19.0", "16.15.0", "17.11.0", "18.6.0"] {
        let named = |i: &&serde_json::Value| i["name"].as_str().unwrap().contains(version);
        assert_eq!(installs.iter().filter(named).count(), 1, "{version}");
    }
    let checks = place.run(&["pg", "doctor", "--json"]).json();
    assert!(checks.as_array().unwrap().iter().any(|check| check["name"] == "processor"));
    place.run(&["pg", "install", "13"]).refuses(&["'13' is not one of 14, 15, 16, 17 and 18"]);
}

#[test]
fn colours_are_given_on_demand_only() {
    let place = Place::new();
    assert!(!place.run(&[]).out().contains('\x1b'));
    assert!(place.run(&["--color=always"]).out().contains('\x1b'));
    let mut command = place.command(&["--color=auto", "show"]);
    let done = crate::common::finish(command.env("NO_COLOR", "1").spawn().unwrap());
    assert!(!done.err().contains('\x1b'), "{}", done.err());
    assert!(place.run(&["--color=always", "show"]).err().contains('\x1b'));
}

#[test]
fn completion_scripts_name_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.run(&["completion", shell]).code(0).out();
        assert!(script.contains("calibrate") && script.contains("latency-limit"), "{shell}");
    }
    place.run(&["completion", "tcl"]).code(2);
}
