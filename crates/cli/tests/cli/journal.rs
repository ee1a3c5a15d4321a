//! `walwright journal`: appended, never changed, read by people and programs.

use std::io::Write;

use crate::common::Place;

fn add(place: &Place, more: &[&str]) -> String {
    let entry = place.run(&[&["journal", "add", "--json"], more].concat()).code(0).json();
    entry["id"].as_str().unwrap().to_owned()
}

#[test]
fn entries_are_listed_shown_corrected_and_exported() {
    let place = Place::new();
    assert!(place.run(&["journal"]).code(0).out().contains("journal add"));
    let question = "Does lz4 spare WAL?";
    let first = add(
        &place,
        &[
            "--question",
            question,
            "--change",
            "wal_compression=off->lz4",
            "--result",
            "38 % less WAL",
            "--decision",
            "keep it",
            "--class",
            "S",
        ],
    );
    let second = add(&place, &["--question", "Was the cache warm?", "--corrects", &first]);

    let list = place.run(&["journal"]).code(0).out();
    let places = [question, "38 % less WAL", &second].map(|part| list.find(part).unwrap());
    assert!(places.is_sorted(), "newest last: {list}");
    let shown = place.run(&["journal", "show", &first]).code(0).out();
    for part in ["wal_compression: off → lz4", "Class S: safe", "Corrected by", "keep it"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown = place.run(&["journal", "show", &first, "--json"]).code(0).json();
    assert_eq!(shown["corrected_by"], serde_json::json!([second]));
    assert!(shown["entry"]["machine"]["processors"].as_u64().unwrap() > 0, "{shown:#}");

    let text = place.run(&["journal", "export"]).code(0).out();
    assert!(text.contains("### Does lz4 spare WAL?"), "{text}");
    let page = place.path("journal.html").display().to_string();
    place.run(&["journal", "export", "-o", &page, &second]).code(0);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("Was the cache warm?") && !page.contains("keep it"));
}

#[test]
fn a_torn_line_trips_nobody_and_nothing_before_it_is_lost() {
    let place = Place::new();
    add(&place, &["--question", "one"]);
    let path = place.path("lab/journal.jsonl");
    let whole = std::fs::read(&path).unwrap();
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&whole[..whole.len() / 2]).unwrap();
    assert_eq!(place.run(&["journal", "--json"]).code(0).json().as_array().unwrap().len(), 1);
    add(&place, &["--question", "two"]);
    let kept = place.run(&["journal", "--json"]).code(0).json();
    let questions: Vec<&str> =
        kept.as_array().unwrap().iter().map(|e| e["question"].as_str().unwrap()).collect();
    assert_eq!(questions, ["one", "two"]);
    assert!(std::fs::read(&path).unwrap().starts_with(&whole));
}

#[test]
fn what_cannot_be_an_entry_is_refused() {
    let place = Place::new();
    place.run(&["journal", "add"]).misused(&["--question"]);
    place.run(&["journal", "add", "--question", " "]).refuses(&["question"]);
    let of_no_run = ["journal", "add", "--question", "q", "--run", "latest"];
    place.run(&of_no_run).refuses(&["no runs"]);
    let of_no_change = ["journal", "add", "--question", "q", "--change", "faster"];
    place.run(&of_no_change).misused(&["NAME=FROM->TO"]);
    place.run(&["journal", "show", "1999"]).refuses(&["walwright journal"]);
    assert_eq!(place.run(&["journal", "--json"]).code(0).json(), serde_json::json!([]));
    assert!(place.run(&["journal", "trend"]).code(0).out().contains("--all-runs"));
}
