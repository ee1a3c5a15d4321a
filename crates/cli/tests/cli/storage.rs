//! `walwright storage`: measured, kept, known to later runs, and gone from the disk.

use std::path::{Path, PathBuf};

use crate::common::{LONGER, Place, finish, signal, until};

/// A directory to measure in, and its name as an argument.
fn ground(place: &Place) -> (PathBuf, String) {
    let path = place.path("ground");
    std::fs::create_dir(&path).unwrap();
    let name = path.display().to_string();
    (path, name)
}

fn files(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn what_was_measured_is_kept_shown_and_told_to_later_runs() {
    let place = Place::new();
    let (path, name) = ground(&place);
    let measured = place
        .run(&["storage", "--json", "--wal-dir", &name, "--for", "25ms", "--size", "16MB"])
        .code(0)
        .json();
    assert_eq!(files(&path), 0);
    let id = measured["storage"]["id"].as_str().unwrap();
    assert_eq!(measured["storage"]["complete"], true);
    assert!(measured["storage"]["cells"].as_array().unwrap().len() > 20);
    let page = std::fs::read_to_string(measured["page"].as_str().unwrap()).unwrap();
    assert!(page.contains("Flushes one at a time, by size") && page.contains("<svg"));

    let list = place.run(&["storage", "list"]).code(0).out();
    assert!(list.contains(id), "{list}");
    let shown = place.run(&["storage", "show"]).code(0).out();
    assert!(shown.contains("64 sessions") && shown.contains(&name), "{shown}");

    place.run(&[&["run", "--scale=1", "--clients=2"], &LONGER[..]].concat()).code(0);
    let told = place.run(&["diagnose", "--json"]).code(0).json();
    let ceiling = &told["storage"]["ceiling"];
    assert_eq!(ceiling["measurement"], id, "{told}");
    let (flushes, most) = (&told["storage"]["flushes_per_second"], &ceiling["per_second"]);
    let share = flushes.as_f64().unwrap() / most.as_f64().unwrap();
    assert!((ceiling["share"].as_f64().unwrap() / share - 1.0).abs() < 1e-9);
    // What other work held up is no measure for the data disk.
    let least = &told["data_disk"]["writes"]["least_share"];
    assert!(least.is_null() || ceiling["disturbed"] == false, "{told}");
    // The record is whole in itself.
    std::fs::remove_dir_all(place.path("lab/storage")).unwrap();
    let said = place.run(&["diagnose"]).code(0).out();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("that this disk did with one at a time"), "{said}");
}

#[test]
fn without_a_measurement_a_run_says_how_to_make_one_and_claims_nothing() {
    let place = Place::new();
    place.run(&[&["run", "--scale=1", "--clients=2"], &LONGER[..]].concat()).code(0);
    let told = place.run(&["diagnose", "--json"]).code(0).json();
    assert!(told["storage"]["ceiling"].is_null(), "{told}");
    let why = told["storage"]["absent"].as_str().unwrap();
    assert!(why.contains("`walwright storage`"), "{why}");
}

#[test]
fn killed_or_stopped_it_keeps_nothing_and_the_next_start_removes_what_is_left() {
    let place = Place::new();
    let (path, name) = ground(&place);
    let long = ["storage", "--wal-dir", &name, "--for", "300s", "--size", "16MB"];
    for (kind, code) in [(libc::SIGINT, Some(3)), (libc::SIGKILL, None)] {
        let child = place.command(&long).spawn().unwrap();
        until("a file is written", || files(&path) > 0);
        signal(child.id(), kind);
        let done = finish(child);
        match code {
            Some(code) => {
                done.code(code);
                assert_eq!(files(&path), 0);
            }
            None => assert!(files(&path) > 0, "a killed process removes nothing"),
        }
    }
    assert_eq!(place.run(&["storage", "list", "--json"]).code(0).json(), serde_json::json!([]));
    let short = ["storage", "--quiet", "--wal-dir", &name, "--for", "1ms", "--size", "16MB"];
    place.run(&short).code(0);
    assert_eq!(files(&path), 0);
}

#[test]
fn places_that_cannot_be_measured_are_refused() {
    let place = Place::new();
    let (_, name) = ground(&place);
    place.run(&["storage", "-q", "--wal-dir", "/no/such/place"]).refuses(&["/no/such/place"]);
    place.run(&["storage", "-q", "--wal-dir", "/proc"]).refuses(&["/proc"]);
    place
        .run(&["storage", "-q", "--wal-dir", &name, "--size", "900000TB"])
        .refuses(&["MB free", "--size"]);
    place.run(&["storage", "show", "nothing"]).refuses(&["walwright storage list"]);
    place.run(&["storage", "--for", "0s"]).code(2);
}
