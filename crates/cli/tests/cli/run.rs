//! Runs on a cluster made for them: every built-in workload, every version.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;
use walwright_server::Major;

use crate::common::{Host, LONGER, Place, finish, install, until, until_said};

/// What every run that went well has in its summary.
#[track_caller]
fn assert_measured(result: &Value) {
    assert_eq!(result["run"]["state"], "complete");
    let load = &result["summary"]["load"];
    assert!(load["transactions"].as_u64().unwrap() > 0, "{load}");
    assert_eq!(load["failed"], 0, "{load}");
    assert!(load["throughput"]["center"].as_f64().unwrap() > 0.0);
    // At the end of the window one transaction of each client is under way, and ends.
    assert!(load["under_way"]["ended"].as_u64().unwrap() <= 2, "{load}");
    assert_eq!(load["latency"]["unended_from"], Value::Null);
    let page = std::fs::read_to_string(result["report"].as_str().unwrap()).unwrap();
    assert!(page.contains("<svg") && page.trim_end().ends_with("</html>"));
}

fn warnings(result: &Value) -> Vec<&str> {
    result["warnings"].as_array().unwrap().iter().map(|w| w["code"].as_str().unwrap()).collect()
}

#[test]
fn from_nothing_to_a_summary_and_a_report() {
    let place = Place::new();
    let done = place.measure(&["--scale=1", "--clients=2", "--label=first try"]).code(0);
    let out = done.out();
    for words in [
        "tpcb at scale 1 on PostgreSQL 18.6",
        "2 clients in a closed loop, prepared protocol, faithful mode",
        "Throughput ",
        "p99 ",
        "Failed       0 of ",
        "Checkpoints  ",
        "report: ",
    ] {
        assert!(out.contains(words), "{words:?} is not in\n{out}");
    }
    assert!(out.lines().count() <= 50, "a summary fits a screen:\n{out}");
    for phase in ["prepare ...", "load ...", "probe ...", "measure ...", "collect ..."] {
        assert!(done.err().contains(phase), "{}", done.err());
    }
    let runs = place.runs();
    assert_eq!(runs[0]["label"], "first try");
    assert_eq!(runs[0]["target"], "embedded PostgreSQL 18.6");
    place.assert_clean();
}

#[test]
fn flushes_of_a_chosen_latency() {
    let place = Place::new();
    let args = ["--flush-latency=4ms", "-w", "autocommit", "-c", "1", "--json"];
    let done = place.measure(&args);
    let result = done.json();
    assert_measured(&result);
    assert_eq!(place.run(&["show", "--json"]).json(), result, "what was told is what was kept");
    // Such flushes may miss the workload's own pass mark.
    let passed = &result["summary"]["load"]["pass_mark"]["passed"];
    done.code(if passed == false { 4 } else { 0 });
    assert!(warnings(&result).contains(&"lengthened_flushes"), "{:?}", warnings(&result));
    let seconds = |pointer: &str| result.pointer(pointer).and_then(Value::as_f64).unwrap();
    // One row, one commit, one flush: none can be faster than its flush.
    assert!(seconds("/summary/load/latency/p50") >= 0.004);
    let record = place.run(&["export"]).json();
    assert!(record["storage"]["p50"].as_f64().unwrap() >= 0.004, "{record}");
    place
        .measure(&["--flush-latency=1ms", "--set=wal_sync_method=open_datasync"])
        .refuses(&["which wal_sync_method = open_datasync does not use"]);
    place.assert_clean();
}

/// What is there to be scraped, in the form of OpenMetrics.
fn scraped(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text\r\nConnection: close\r\n\r\n"
    )
    .expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("# EOF\n"), "{answer}");
    answer
}

#[test]
fn over_tcp_when_asked_for_and_scraped_meanwhile() {
    let place = Place::new();
    let args = ["--tcp", "--scale=1", "--clients=2", "--json", "--metrics=127.0.0.1:0"];
    let log = place.path("said");
    let mut run = place.command(&[&["run", "--load-jobs=1"], &LONGER[..], &args].concat());
    let run = run.stderr(File::create(&log).expect("a file")).spawn().expect("spawn");
    until_said(&log, "/metrics\n");
    let said = std::fs::read_to_string(&log).expect("it is said");
    let address = said.split_once("metrics: http://").expect("where").1;
    let address = address.split_once('/').expect("a path").0;
    let seen = [
        "walwright_load_transactions_total ",
        "walwright_load_latency_seconds_bucket{le=\"+Inf\"} ",
        "walwright_commits_total ",
        "walwright_wal_bytes_total ",
        "walwright_wait_seconds_total{class=",
    ];
    until("load and server are seen", || {
        let metrics = scraped(address);
        seen.iter().all(|metric| metrics.contains(metric))
    });
    let done = finish(run).code(0);
    assert_measured(&done.json());
    let settings = place.run(&["export"]).json();
    let listen = settings["settings"].as_array().unwrap();
    let listen = listen.iter().find(|s| s["name"] == "listen_addresses").unwrap();
    assert_eq!(listen["value"], "127.0.0.1");
    // What a person says of it afterwards.
    let labelled = place.run(&["runs", "label", "latest", "by TCP", "--json"]).code(0).json();
    assert_eq!(
        (&labelled["label"], &place.runs()[0]["label"]),
        (&"by TCP".into(), &"by TCP".into())
    );
    let noted = place.run(&["runs", "note", "label:by TCP", "look", "--at=1s", "--json"]).code(0);
    let events = place.run(&["export"]).json()["events"].clone();
    let note = events.as_array().unwrap().iter().find(|event| event["kind"] == "note").unwrap();
    assert_eq!((&note["text"], note), (&"look".into(), &noted.json()["note"]));
    place.run(&["runs", "note", "latest", "x"]).refuses(&["has ended", "--at 33s"]);
    place.run(&["runs", "note", "latest", "x", "--at=2h"]).refuses(&["is recorded from"]);
    place.run(&["runs", "note", "latest", "x", "--at=soon"]).misused(&["33s"]);
    place.run(&["runs", "label", "nobody", "x"]).refuses(&["nobody", "walwright runs"]);
    place.run(&["runs", "label", "latest", ""]).code(0);
    assert_eq!(place.runs()[0]["label"], Value::Null);
    place.assert_clean();
}

fn tpcb_on(major: Major, version: &str) {
    let place = Place::new();
    // Fetched here, so that the run below is not.
    install(major);
    let args = ["--pg", &major.to_string(), "--scale=1", "--clients=2", "--json"];
    let result = place.measure(&args).code(0).json();
    assert_measured(&result);
    let target = format!("embedded PostgreSQL {version}");
    assert_eq!(result["run"]["target"], target.as_str());
    place.assert_clean();
}

#[test]
fn on_postgresql_14() {
    tpcb_on(Major::V14, "14.23");
}

#[test]
fn on_postgresql_15() {
    tpcb_on(Major::V15, "15.19");
}

#[test]
fn on_postgresql_16() {
    tpcb_on(Major::V16, "16.15");
}

#[test]
fn on_postgresql_17() {
    tpcb_on(Major::V17, "17.11");
}

#[test]
fn every_other_built_in_workload_and_a_copy_of_one() {
    let place = Place::new();
    let host = Host::new();
    let dsn = host.superuser("postgres");
    for name in ["simple-update", "select-only", "autocommit", "events"] {
        // The mark of autocommit is for one client.
        let clients = if name == "autocommit" { "1" } else { "2" };
        let args = ["--dsn", &dsn, "--init", "-w", name, "--scale=1", "-c", clients, "--json"];
        let done = place.measure(&args);
        let result = done.json();
        assert_measured(&result);
        assert_eq!(result["run"]["workload"], name);
        let passed = &result["summary"]["load"]["pass_mark"]["passed"];
        assert_eq!(passed.is_boolean(), name == "autocommit", "{result}");
        // A disk may be too slow for the mark; the exit code then says so.
        done.code(if passed == false { 4 } else { 0 });
    }
    let index = "SELECT count(*)::text FROM pg_indexes WHERE indexdef LIKE '%WHERE%'
                 AND schemaname = 'public'";
    assert_eq!(host.ask("postgres", index), "1");
    let off = ["--dsn", &dsn, "--init", "-w", "events", "-o", "partial_index=off", "--clients=2"];
    place.measure(&off).code(0);
    assert_eq!(host.ask("postgres", index), "0");

    place.run(&["workload", "export", "simple-update", "mine"]).code(0);
    let manifest = std::fs::read_to_string(place.path("mine/workload.toml")).unwrap();
    place.file("mine/workload.toml", &manifest.replacen("simple-update", "my own", 1));
    place.file("mine/simple-update.sql", "SELECT 1;\nSELECT 2;\n");
    let mine = ["--dsn", &dsn, "-w", "mine", "--clients=2", "--scale=1", "--json"];
    let result = place.measure(&mine).code(0).json();
    assert_eq!(result["run"]["workload"], "my own");
    assert!(!warnings(&result).contains(&"check_failed"));
}

#[test]
fn settings_are_given_and_a_kept_cluster_starts_again() {
    let place = Place::new();
    let args = ["--scale=1", "--clients=2", "--set=work_mem=5MB", "--keep", "--json"];
    let result = place.measure(&args).code(0).json();
    let export = place.run(&["export"]).code(0).json();
    let settings = export["settings"].as_array().unwrap();
    let work_mem = settings.iter().find(|s| s["name"] == "work_mem").unwrap();
    assert_eq!(work_mem["shown"], "5MB");
    place.assert_clean();

    let kept = &result["kept_cluster"];
    let shell = |command: &str| {
        let done = std::process::Command::new("sh").args(["-c", command]).output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(
            done.status.success(),
            "{command}\n{said}{}",
            String::from_utf8_lossy(&done.stderr)
        );
        said
    };
    shell(kept["start"].as_str().unwrap());
    let rows = "-Atc 'SELECT count(*) > 0 FROM pgbench_history'";
    let connect = kept["connect"].as_str().unwrap();
    let answer = shell(&format!("{connect} {rows}"));
    shell(kept["stop"].as_str().unwrap());
    assert_eq!(answer.trim(), "t");
}

#[test]
fn two_runs_at_once_name_each_other() {
    let place = Place::new();
    let begin = |args: &[&str]| {
        place.command(&[&["run", "-c4", "--scale=1"], args].concat()).spawn().unwrap()
    };
    let long = begin(&["--warmup=0s", "-T12s", "--label=long"]);
    crate::common::until("a cluster", || place.clusters().len() == 1);
    let short = begin(&["--warmup=0s", "-T4s", "--label=short"]);
    for run in [short, long] {
        crate::common::finish(run).code(0);
    }
    // The last look is when a run ends: the other's load went on beside the shorter one.
    let record = place.run(&["runs", "export", "label:short"]).code(0).json();
    let looks = record["samples"]["neighbours"].as_array().expect("looks");
    assert!(
        looks.iter().any(|look| look.to_string().contains("other: another walwright run")),
        "{looks:?}"
    );
}

#[test]
fn settings_the_server_refuses_leave_nothing() {
    let place = Place::new();
    for (set, words) in [
        ("--set=shared_buffers=lots", "invalid value for parameter \"shared_buffers\""),
        ("--set=nonsense=1", "unrecognized configuration parameter \"nonsense\""),
        ("--set=wal_compresion=on", "did you mean wal_compression?"),
        ("--set=wal_compression=lz5", "Available values: pglz, lz4"),
        ("--set=port=5433", "port is set by walwright itself"),
    ] {
        place.measure(&["--keep", set]).misused(&[words]);
    }
    place.assert_clean();
    let kept = std::fs::read_dir(place.path("cache/kept")).into_iter().flatten().count();
    assert_eq!(kept, 0);
    assert_eq!(place.runs(), [] as [Value; 0]);
}

#[test]
fn it_works_from_a_directory_that_only_its_user_can_enter() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    std::fs::create_dir(place.path("mine")).unwrap();
    std::fs::set_permissions(place.path("mine"), PermissionsExt::from_mode(0o700)).unwrap();
    place.file("mine/my.sql", "\\set n random(1, 9)\nSELECT :n;\n");
    let mut command =
        place.command(&["run", "-q", "-f", "my.sql", "-c", "1", "--warmup=0s", "-T", "1s"]);
    command.current_dir(place.path("mine")).env("WALWRIGHT_LAB", "lab");
    let out = crate::common::finish(command.spawn().unwrap()).code(0).out();
    assert!(out.contains("my.sql at scale 1 on PostgreSQL 18.6"), "{out}");
    assert!(place.path("mine/lab/walwright.db").is_file());
    place.assert_clean();
}
