//! What goes wrong in the middle: killed servers, killed runs, impatient people.

use std::fs::File;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::common::{Place, finish, signal, until, until_said};

/// A run that is far from its end, and the file of what it says.
fn long_run(place: &Place, more: &[&str]) -> (Child, std::path::PathBuf) {
    let args = ["run", "--plain", "--scale=1", "--warmup=0s", "--duration=300s"];
    let log = place.path("progress");
    let mut command = place.command(&[&args[..], more].concat());
    command.stderr(File::create(&log).unwrap());
    (command.spawn().unwrap(), log)
}

/// The postmaster of the only cluster in a place.
fn postmaster(place: &Place) -> u32 {
    let cluster = &place.clusters()[0];
    let file = place.path("cache/clusters").join(cluster).join("data/postmaster.pid");
    std::fs::read_to_string(file).unwrap().lines().next().unwrap().parse().unwrap()
}

/// Waits until seconds of load have been recorded.
fn until_recorded(place: &Place) {
    until("three seconds are in the record", || {
        let done = place.run(&["export", "--series=load"]);
        done.out().lines().count() > 3
    });
}

#[test]
fn a_killed_server_ends_the_run_and_the_record_holds_what_was_seen() {
    let place = Place::new();
    let (child, log) = long_run(&place, &["-c", "2"]);
    until_said(&log, "measure ...");
    until_recorded(&place);
    let killed = Instant::now();
    signal(postmaster(&place), libc::SIGKILL);
    let done = finish(child).code(3);
    assert!(killed.elapsed() < Duration::from_secs(20), "{:?}", killed.elapsed());
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("its record is kept"), "{said}");
    assert!(said.contains("the server was killed by SIGKILL"), "{said}");
    assert!(done.out().contains("Interrupted. The server was lost"), "{}", done.out());
    assert!(place.run(&["show"]).code(0).out().contains("Throughput "));
    assert_eq!(place.runs()[0]["state"], "interrupted");
    place.assert_clean();
}

#[test]
fn ctrl_c_stops_at_once_and_keeps_the_record() {
    let place = Place::new();
    let (child, log) = long_run(&place, &["-c", "2", "--json"]);
    until_said(&log, "measure ...");
    until_recorded(&place);
    let asked = Instant::now();
    signal(child.id(), libc::SIGINT);
    let result = finish(child).code(3).json();
    assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
    assert_eq!(result["run"]["state"], "interrupted");
    assert!(result["summary"]["load"]["transactions"].as_u64().unwrap() > 0);
    place.assert_clean();
}

#[test]
fn ctrl_c_before_the_load_leaves_nothing() {
    let place = Place::new();
    let (child, log) = long_run(&place, &["-c", "2"]);
    until_said(&log, "making a cluster");
    signal(child.id(), libc::SIGTERM);
    finish(child).code(3);
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("stopped before the load began"), "{said}");
    assert_eq!(place.runs(), [] as [serde_json::Value; 0]);
    place.assert_clean();
}

#[test]
fn a_killed_run_is_readable_and_the_next_start_sweeps() {
    let place = Place::new();
    let (child, log) = long_run(&place, &["-c", "2"]);
    until_said(&log, "measure ...");
    until_recorded(&place);
    signal(child.id(), libc::SIGKILL);
    finish(child);
    until("the server has ended with its owner", || place.processes().is_empty());
    assert_eq!(place.clusters().len(), 1);

    let shown = place.run(&["show"]).code(0).out();
    assert!(shown.contains("Interrupted. The walwright process that ran this died"), "{shown}");
    assert!(shown.contains("Throughput "), "{shown}");
    place.run(&["report"]).code(0);
    let killed = place.runs()[0]["id"].as_str().unwrap().to_owned();

    let next = place.measure(&["--scale=1", "-c", "2"]).code(0);
    next.says(&["removed what an earlier crash left: 1 cluster"]);
    place.assert_clean();
    place.run(&["delete", &killed]).code(0);
    assert_eq!(place.runs().len(), 1);
}

#[test]
fn a_crash_that_the_server_survives_is_told_and_the_data_are_checked() {
    let place = Place::new();
    let (child, log) = {
        let load = ["--scale=1", "--warmup=0s", "--duration=6s", "-c", "2"];
        let log = place.path("progress");
        let mut command = place.command(&[&["run", "--plain", "--all"], &load[..]].concat());
        command.stderr(File::create(&log).unwrap());
        (command.spawn().unwrap(), log)
    };
    until_said(&log, "measure ...");
    // Any child of the postmaster with shared memory will do: the background writer.
    let parent = format!("\nPPid:\t{}\n", postmaster(&place));
    let victim = std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let title = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let found = status.contains(&parent) && title.contains("background writer");
        found.then(|| entry.file_name().to_str()?.parse::<u32>().ok())?
    });
    signal(victim.expect("a background writer"), libc::SIGKILL);
    let out = finish(child).code(3).out();
    let first = "Interrupted. One of the server's processes crashed under the load";
    assert!(out.starts_with(first), "{out}");
    assert!(out.contains("client connections were lost under the load"), "{out}");
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("holds: history adds up"), "{said}");
    place.assert_clean();
}

#[test]
fn two_runs_in_one_lab_do_not_disturb_each_other() {
    let place = Place::new();
    let args =
        ["run", "-q", "--scale=1", "-c", "1", "--warmup=1s", "-T", "2s", "--no-probe", "--json"];
    let both = [(); 2].map(|()| place.command(&args).spawn().unwrap());
    let names = both.map(|child| {
        let result = finish(child).code(0).json();
        assert_eq!(result["run"]["state"], "complete");
        result["run"]["id"].as_str().unwrap().to_owned()
    });
    assert_ne!(names[0], names[1]);
    assert_eq!(place.runs().len(), 2);
    place.assert_clean();
}
