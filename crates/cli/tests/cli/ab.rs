//! Two settings against each other.

use crate::common::{Place, setting};

#[test]
fn a_setting_the_server_refuses_is_told_before_anything_begins() {
    let place = Place::new();
    for (set, words) in [
        ("--set=wal_compresion=on", "did you mean wal_compression?"),
        ("--set=wal_compression=lz5", "Available values: pglz, lz4"),
    ] {
        place.run(&["ab", "-c", "1", "--set=work_mem=4MB", set]).misused(&[words]);
    }
    assert_eq!(place.runs(), [] as [serde_json::Value; 0]);
    place.assert_clean();
}

#[test]
fn two_settings_are_compared_in_pairs_and_the_verdict_comes_first() {
    let place = Place::new();
    // Waiting for a flush of 5 ms, or not.
    let settings = ["ab", "--set", "synchronous_commit=on", "--set", "synchronous_commit=off"];
    let load = ["--pairs=3", "-c", "1", "--scale=1", "-T", "1", "--warmup=1s"];
    let slow = ["--flush-latency=5ms", "--quiet"];
    let ab = [&settings[..], &load, &slow].concat();
    place.run(&ab).code(2).says(&["--consent synchronous_commit"]);
    let out = place.run(&[&ab[..], &["--consent", "synchronous_commit"]].concat()).code(0).out();
    let first = out.lines().next().unwrap();
    assert!(first.starts_with("B looks faster by ") && first.contains("3 pairs"), "{out}");
    assert!(out.contains("A: synchronous_commit = on; B: synchronous_commit = off"), "{out}");
    place.assert_clean();

    // It is an experiment as any other: A twice in each block, B once, on top of nothing of A's.
    let outcome = place.run(&["experiment", "show", "--json"]).code(0).json();
    assert_eq!((outcome["blocks"].as_u64(), outcome["runs"].as_u64()), (Some(3), Some(9)));
    assert_eq!(outcome["judged"]["arms"].as_array().unwrap().len(), 1);
    let value = |run: &serde_json::Value| {
        let record = place.run(&["runs", "export", run.as_str().unwrap()]).code(0).json();
        setting(&record, "synchronous_commit")
    };
    assert_eq!(value(&outcome["baseline_runs"][0][0]), "on");
    assert_eq!(value(&outcome["arms"][0]["runs"][0]), "off");
    let shown = place.run(&["experiment", "show"]).code(0).out();
    assert!(shown.starts_with(first), "{shown}");
    let text = place.run(&["experiment", "list"]).code(0).out();
    assert!(text.contains("A: synchronous_commit = on"), "{text}");
}

#[test]
fn sides_are_two_and_differ() {
    let place = Place::new();
    for wrong in [
        &["ab"][..],
        &["ab", "--set", "jit=off"],
        &["ab", "--set", "jit=off", "--set", "jit=off"],
        &["ab", "--set", "jit=off", "--set", "jit=on", "--set", "work_mem=1MB"],
        &["ab", "--a", "jit=off"],
        &["ab", "--set", "jit=off", "--b", "jit=on"],
    ] {
        place.run(wrong).misused(&[]);
    }
    // Several settings on a side, none of which the other has.
    let sides = ["--a", "jit=off", "--a", "work_mem=1MB", "--b", "commit_delay=0"];
    let load = ["-w", "events", "-c", "8", "-T", "5m", "--rate", "100", "--pairs=10", "--plan"];
    let plan = place.run(&[&["ab"], &sides[..], &load].concat()).code(0).out();
    for line in [
        "design = \"pair\"",
        "blocks = 10",
        "clients = 8",
        "duration = \"5m\"",
        "rate = 100",
        "work_mem = \"1MB\"",
        "commit_delay = \"0\"",
    ] {
        assert!(plan.contains(line), "{line} is not in\n{plan}");
    }
    assert!(plan.contains("metric = [\"latency_mean\""), "{plan}");
    let file = place.file("plan.toml", &plan);
    place.run(&["experiment", &file, "--estimate"]).code(0);
}
