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
        &["runs", "delete"],
        &["runs", "lost"],
        &["tune", "list", "--runs=8"],
        &["experiment", "list", "--new"],
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
    let out = place.run(&["runs", "list"]).code(0).out();
    assert!(out.contains("`walwright run` makes the first"), "{out}");
    for old in [&["runs"][..], &["list"]] {
        assert_eq!(place.run(old).code(0).out(), out);
    }
    assert_eq!(place.run(&["runs", "list", "--json"]).code(0).json(), serde_json::json!([]));
    for command in ["report", "runs show", "runs export", "runs delete latest"] {
        let words: Vec<&str> = command.split(' ').collect();
        // What there was before `runs` stays.
        let old = if words[0] == "runs" { &words[1..] } else { &words[..] };
        assert_eq!(place.run(old).code(1).err(), place.run(&words).err());
        place.run(&words).refuses(&["there are no runs in", "`walwright run` makes one"]);
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
    let names =
        ["tpcb", "simple-update", "select-only", "autocommit", "events", "documents", "tpcc"];
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
    place.run(&["workload", "show", "evnts"]).misused(&["did you mean events?"]);
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
    place.run(&["pg", "install", "13"]).misused(&["'13' is not one of 14, 15, 16, 17 and 18"]);
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
        // Older spellings are understood, not taught.
        for old in ["older spelling", "guard"] {
            assert!(!script.contains(old), "{shell}: {old}");
        }
        for new in ["promote", "resume", "storage-dir"] {
            assert!(script.contains(new), "{shell}: {new}");
        }
    }
    place.run(&["completion", "tcl"]).code(2);
}

#[test]
fn older_spellings_are_understood_and_not_taught() {
    let place = Place::new();
    let help = place.run(&["--help"]).code(0).out();
    let taught: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(taught.contains(&"runs") && taught.contains(&"tune"), "{taught:?}");
    for old in ["list", "show", "export", "delete", "promote", "guard"] {
        assert!(!taught.contains(&old), "{old} in {taught:?}");
    }
    for (old, new) in [
        (&["tune", "--list"][..], &["tune", "list"][..]),
        (&["tune", "--show", "nosuch"], &["tune", "show", "nosuch"]),
        (&["tune", "--delete", "nosuch"], &["tune", "delete", "nosuch"]),
        (&["tune", "--resume", "nosuch"], &["tune", "resume", "nosuch"]),
        (&["promote", "nosuch"], &["tune", "promote", "nosuch"]),
        (&["promote", "nosuch"], &["config", "promote", "nosuch"]),
        (&["experiment", "--resume", "nosuch"], &["experiment", "resume", "nosuch"]),
        (&["experiment", "--example"], &["experiment", "run", "--example"]),
    ] {
        let (old, new) = (place.run(old), place.run(new));
        assert_eq!((old.exit_code(), old.out()), (new.exit_code(), new.out()));
        assert_eq!(old.err(), new.err());
    }
    for command in ["tune", "experiment"] {
        let help = place.run(&[command, "--help"]).code(0).out();
        for old in ["--resume", "--list", "--show", "--delete"] {
            assert!(!help.contains(old), "{command}: {old}");
        }
    }
}
