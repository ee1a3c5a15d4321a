//! Watching by the command: what it prints, and the report of what was kept.

use serde_json::Value;

use crate::common::{Host, Place};

#[test]
fn what_was_watched_is_reported_and_no_secret_is_shown() {
    let (host, place) = (Host::new(), Place::new());
    let dsn = host.superuser("postgres");
    let secret = "http://me:hush@127.0.0.1:1/SECRET";
    let done = place
        .run(&[
            "watch",
            "--dsn",
            &dsn,
            "--for",
            "3s",
            "--json",
            "--metrics",
            "127.0.0.1:0",
            "--webhook",
            secret,
            "-v",
        ])
        .code(0);
    assert!(done.err().contains("metrics: http://127.0.0.1:"), "{}", done.err());
    for said in [done.out(), done.err()] {
        assert!(!said.contains("hush") && !said.contains("SECRET"), "{said}");
    }
    let lines: Vec<Value> =
        done.out().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().any(|line| line["slot"]["figures"]["up"][0] == 1.0), "{lines:?}");
    assert!(lines.iter().any(|line| line["event"]["kind"] == "watching"), "{lines:?}");

    let day = place.run(&["watch", "report", "--last", "1h", "--json"]).code(0).json();
    assert!(day["watched"].as_f64().is_some_and(|seconds| seconds > 2.0), "{day}");
    assert_eq!(day["events"].as_array().map(Vec::len), Some(2), "{day}");
    let shown = place.run(&["watch", "report"]).code(0).out();
    assert!(shown.contains("What was normal") && shown.contains("watching ended"), "{shown}");
    place.run(&["watch", "report", "--server", "no such"]).code(1);
    let page = place.path("day.html");
    let to = page.display().to_string();
    place.run(&["watch", "report", "--output", &to]).code(0);
    assert!(std::fs::read_to_string(page).expect("a page").contains("Who wrote the WAL"));
}
