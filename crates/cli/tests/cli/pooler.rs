//! A gateway or PgBouncer between the load and an embedded server.

use std::path::Path;
use std::process::Child;

use serde_json::Value;

use crate::common::{LONGER, Place, finish, signal, until};

/// Where a distribution installs PgBouncer.
const PGBOUNCER: &str = "/usr/sbin/pgbouncer";

/// The process of the gateway of the run in a place, once it is there.
fn gateway(place: &Place) -> u32 {
    let home = place.path("").display().to_string();
    let mut found = None;
    until("a gateway runs", || {
        let pids = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        found = pids.into_iter().find(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains("walwright gateway --server") && line.contains(&home)
        });
        found.is_some()
    });
    found.unwrap()
}

fn long_run(place: &Place) -> Child {
    let args = ["run", "--plain", "--scale=1", "-c", "2", "--warmup=0s", "--duration=300s"];
    place.command(&[&args[..], &["--gateway"]].concat()).spawn().unwrap()
}

/// Waits until the load has been recorded for a moment.
fn until_recorded(place: &Place) {
    until("a second is in the record", || {
        place.run(&["export", "--series=load"]).out().lines().count() > 1
    });
}

/// What stood in between, by the record of a run.
fn pooler(place: &Place, run: &str) -> Value {
    place.run(&["export", run]).code(0).json()["load"]["pooler"]["kind"].clone()
}

/// A run must have measured something with the pooler in between.
#[track_caller]
fn measured(place: &Place, run: &str, kind: &str, group: &str) {
    assert_eq!(pooler(place, run), kind);
    let shown = place.run(&["show", run, "--json"]).code(0).json();
    let groups = shown["summary"]["cpu"]["groups"].as_array().unwrap();
    let of = groups.iter().find(|of| of["group"] == group).expect("its CPU");
    assert!(of["processors"].as_f64().unwrap() > 0.0, "{of}");
    assert!(shown["summary"]["load"]["transactions"].as_u64().unwrap() > 0);
}

/// A summary without its line breaks.
fn joined(out: &str) -> String {
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_gateway_stands_between_load_and_server() {
    let place = Place::new();
    // Flushes so long that the wait for them is seen in a window as short as this.
    let args = ["--gateway", "--tcp", "--scale=1", "-c", "8", "--flush-latency=5ms"];
    let out = joined(&place.run(&[&["run"], &LONGER[..], &args].concat()).code(0).out());
    assert!(out.contains("faithful mode, through walwright gateway"), "{out}");
    assert!(out.contains("processors in the pooler"), "{out}");
    measured(&place, "latest", "gateway", "pooler: walwright gateway");
    // Commits of its sessions wait for nothing, and the run's own checks passed.
    let breakdown = place.run(&["diagnose", "--json"]).code(0).json();
    let lines = breakdown["latency_breakdown"]["lines"].as_array().unwrap();
    let seconds = |name: &str| {
        let line = lines.iter().find(|line| line["name"] == name);
        line.map(|line| line["per_transaction"]["center"].as_f64().unwrap())
    };
    for name in ["queue in the gateway", "residual: network, client"] {
        assert!(seconds(name).is_some(), "{name}: {lines:?}");
    }
    // What it took itself is told of what it did not keep back, where there is any of that.
    let is_left = seconds("residual: network, client").unwrap() > 0.0;
    assert!(seconds("pooler CPU").is_some() || !is_left, "{lines:?}");
    let withheld = seconds("withheld until durable").unwrap();
    // Each waits for the rest of one flush and for the next at most, as far as this machine keeps
    // the time.
    assert!(withheld > 2.5e-3, "{withheld}");
    let commits = joined(&place.run(&["commit"]).code(0).out());
    assert!(commits.contains("It stands in between already."), "{commits}");
    place.assert_clean();
}

#[test]
fn a_gateway_goes_with_whoever_is_killed() {
    let place = Place::new();
    let child = long_run(&place);
    until_recorded(&place);
    signal(gateway(&place), libc::SIGKILL);
    let done = finish(child).code(3);
    done.says(&["the gateway between clients and server was lost: it was killed by SIGKILL"]);
    assert_eq!(place.runs()[0]["state"], "interrupted");
    place.assert_clean();

    let mut child = long_run(&place);
    gateway(&place);
    child.kill().unwrap();
    child.wait().unwrap();
    until("nothing is left", || place.processes().is_empty());
}

#[test]
fn pgbouncer_stands_there_too_where_it_is_installed() {
    let place = Place::new();
    let missing = ["run", "--pooler=pgbouncer=/nowhere/pgbouncer"];
    place.run(&missing).misused(&["/nowhere/pgbouncer is no PgBouncer that runs here"]);
    place.run(&["run", "--pooler=pgpool"]).misused(&["'pgpool' is no pooler"]);
    place.run(&["run", "--gateway", "--dsn", "host=/tmp"]).misused(&["name that with --dsn"]);
    assert_eq!(place.runs(), [] as [Value; 0]);
    if !Path::new(PGBOUNCER).exists() {
        place.run(&["run", "--pooler=pgbouncer"]).misused(&["apt-get install pgbouncer"]);
        return;
    }
    let args = ["--pooler=pgbouncer", "--protocol=simple", "--scale=1", "-c", "4"];
    let out = joined(&place.run(&[&["run"], &LONGER[..], &args].concat()).code(0).out());
    assert!(out.contains("through PgBouncer 1."), "{out}");
    measured(&place, "latest", "pg_bouncer", "pooler: pgbouncer");
    place.assert_clean();
}

#[test]
fn with_and_without_are_sides_of_a_comparison() {
    let place = Place::new();
    let sides = ["ab", "--set", "load.pooler=none", "--set", "load.pooler=gateway"];
    let load = ["-w", "autocommit", "-c", "16", "--pairs=1", "-T", "4", "--warmup=1s"];
    let how = ["--flush-latency=5ms", "--quiet"];
    let out = place.run(&[&sides[..], &load, &how].concat()).code(0).out();
    assert!(out.contains("A: pooler = none; B: pooler = gateway"), "{out}");
    let outcome = place.run(&["experiment", "show", "--json"]).code(0).json();
    let run = |run: &Value| run.as_str().unwrap().to_owned();
    assert_eq!(pooler(&place, &run(&outcome["baseline_runs"][0][0])), Value::Null);
    let through = run(&outcome["arms"][0]["runs"][0]);
    measured(&place, &through, "gateway", "pooler: walwright gateway");
    place.assert_clean();
}
