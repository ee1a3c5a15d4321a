//! Servers that stand still, hang or restart under a load, and sessions that nobody may see:
//! what is not measured is said, and never passed as a figure.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use walwright_server::{Cluster, ClusterSpec, Major, Places, RunningCluster};

use crate::common::{Host, Place, finish, install, signal, until, until_said};

/// A command that goes on, and the file of what it says.
fn start(place: &Place, args: &[&str]) -> (Child, std::path::PathBuf) {
    let log = place.path("progress");
    let mut command = place.command(args);
    command.stderr(File::create(&log).unwrap());
    (command.spawn().unwrap(), log)
}

/// Waits until so many seconds of load have been recorded.
fn until_recorded(place: &Place, seconds: usize) {
    until("seconds of load are in the record", || {
        place.run(&["export", "--series=load"]).out().lines().count() > seconds
    });
}

/// All processes of the only cluster in a place but its postmaster.
fn children(place: &Place) -> Vec<u32> {
    let cluster = &place.clusters()[0];
    let file = place.path("cache/clusters").join(cluster).join("data/postmaster.pid");
    let text = std::fs::read_to_string(file).unwrap();
    let parent = format!("\nPPid:\t{}\n", text.lines().next().unwrap());
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let children = processes.filter(|entry| {
        std::fs::read_to_string(entry.path().join("status")).is_ok_and(|s| s.contains(&parent))
    });
    children.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn seconds(of: &Value, pointer: &str) -> f64 {
    of.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer} in {of:#}"))
}

fn warnings(result: &Value) -> Vec<&str> {
    result["warnings"].as_array().unwrap().iter().map(|w| w["code"].as_str().unwrap()).collect()
}

/// A run whose server stands still from the first second of its window: its load, the file of
/// what it says, and what was stopped.
fn frozen(place: &Place) -> (Child, std::path::PathBuf, Vec<u32>) {
    let (child, log) = start(place, &FROZEN);
    until_said(&log, "measure ...");
    until_recorded(place, 1);
    let processes = children(place);
    processes.iter().for_each(|pid| signal(*pid, libc::SIGSTOP));
    (child, log, processes)
}

const FROZEN: [&str; 8] =
    ["run", "--plain", "--json", "--scale=1", "-c", "3", "--warmup=0s", "--duration=4s"];

#[test]
fn a_stall_across_the_end_of_the_window_is_in_the_latency() {
    let place = Place::new();
    let (child, _, processes) = frozen(&place);
    let frozen = Instant::now();
    // Longer than what is left of the window, and shorter than what is waited for.
    std::thread::sleep(Duration::from_secs(6));
    let frozen = frozen.elapsed().as_secs_f64();
    processes.iter().for_each(|pid| signal(*pid, libc::SIGCONT));
    let result = finish(child).code(0).json();
    let load = &result["summary"]["load"];
    assert!(seconds(load, "/latency/max") >= frozen, "{load:#}");
    assert_eq!(load["latency"]["unended_from"], Value::Null);
    assert_eq!((load["under_way"]["ended"].clone(), load["failed"].clone()), (3.into(), 0.into()));
    // What ended after the window is no throughput of it.
    let all = load["transactions"].as_u64().unwrap() + 3;
    assert_eq!(load["latency"]["count"], all);
    let record = place.run(&["export"]).json();
    let still = record["intervals"].as_array().unwrap().iter().filter(|interval| {
        let script = &interval["interval"]["scripts"][0];
        script["transactions"] == 0
    });
    assert!(still.count() >= 2, "{:#}", record["intervals"]);
    place.assert_clean();
}

#[test]
fn a_stall_that_does_not_end_is_a_lower_bound_and_said() {
    let place = Place::new();
    let (child, log, processes) = frozen(&place);
    until_said(&log, "were still running 10 s after the window and were cut off");
    processes.iter().for_each(|pid| signal(*pid, libc::SIGCONT));
    let result = finish(child).code(0).json();
    let load = &result["summary"]["load"];
    assert!(seconds(load, "/latency/max") >= 10.0, "{load:#}");
    assert!(seconds(load, "/latency/unended_from") >= 10.0, "{load:#}");
    assert_eq!(load["under_way"]["unended"], 3);
    assert!(warnings(&result).contains(&"unended"), "{:?}", warnings(&result));
    let shown = place.run(&["show"]).code(0).out();
    assert!(shown.contains("max ≥ 1"), "{shown}");
    let markdown = place.run(&["report", "--markdown"]).code(0).out();
    assert!(markdown.contains("max ≥ 1"), "{markdown}");
    place.assert_clean();
}

#[test]
fn a_load_that_hangs_throughout_is_a_failure_and_no_figure() {
    let (place, host) = (Place::new(), Host::new());
    host.execute("postgres", "CREATE TABLE t (id int PRIMARY KEY, n int)");
    host.execute("postgres", "INSERT INTO t VALUES (1, 0)");
    let script = place.file("update.sql", "UPDATE t SET n = n + 1 WHERE id = 1;\n");
    let dsn = host.superuser("postgres");
    // Held for as long as the session is there.
    let lock = "BEGIN; UPDATE t SET n = 0; SELECT pg_sleep(600)";
    let mut holder = psql(&host, lock);
    let locked = "SELECT count(*)::text FROM pg_stat_activity WHERE query LIKE 'BEGIN; UPDATE%'
                  AND wait_event = 'PgSleep'";
    until("the row is locked", || host.ask("postgres", locked) == "1");

    let args = ["--dsn", &dsn, "--file", &script, "-c", "2", "--scale=1"];
    let done = place.measure(&args).code(1);
    let first = done.out().lines().next().unwrap().to_owned();
    assert!(
        first.starts_with("Failed. No transaction completed in the measured window"),
        "{first}"
    );
    assert!(done.out().contains("Throughput   0/s"), "{}", done.out());
    assert!(!done.out().contains("Nothing to fix"), "{}", done.out());
    let done = done.says(&["failed; its record is kept", "2 were under way when it ended"]);
    drop(done);
    assert_eq!(place.runs()[0]["state"], "failed");
    let diagnosis = place.run(&["diagnose", "--json"]).code(0).json();
    let verdict = diagnosis["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("No transaction ended well"), "{verdict}");

    // Nor is it a point of a curve.
    let sweep = ["--dsn", &dsn, "--file", &script, "-c", "1,2", "--scale=1", "--json"];
    let done = place.measure(&sweep).code(1);
    assert_eq!(done.json()["sweep"], Value::Null);
    holder.kill().unwrap();
    holder.wait().unwrap();
}

/// A statement that runs in a session of its own.
fn psql(host: &Host, sql: &str) -> Child {
    let mut command = install(Major::V18).command("psql");
    command.args(["-X", "-q", "-c", sql, &host.superuser("postgres")]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("psql runs")
}

/// An attached server, which someone restarts.
struct Restarted {
    cluster: Cluster,
    running: Option<RunningCluster>,
    _place: tempfile::TempDir,
}

impl Restarted {
    fn new() -> Restarted {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(place.path(), open).unwrap();
        let places = Places::open(Some(place.path().join("cache"))).unwrap();
        let cluster = Cluster::create(ClusterSpec::new(&places, install(Major::V18))).unwrap();
        let running = Some(cluster.start().unwrap());
        Restarted { cluster, running, _place: place }
    }

    fn dsn(&self) -> String {
        let running = self.running.as_ref().unwrap();
        let (socket, port) = (running.socket_dir().display(), running.port());
        format!("host={socket} port={port} user=postgres dbname=postgres")
    }

    fn restart(&mut self) {
        self.running.take().unwrap().stop().unwrap();
        self.running = Some(self.cluster.start().unwrap());
    }

    /// Kills one of its sessions' processes.
    fn crash(&self) {
        let postmaster = self.running.as_ref().unwrap().postmaster_pid();
        let parent = format!("\nPPid:\t{postmaster}\n");
        let victim = std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
            let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
            let title = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
            let found = status.contains(&parent) && title.contains("background writer");
            found.then(|| entry.file_name().to_str()?.parse::<u32>().ok())?
        });
        signal(victim.expect("a background writer"), libc::SIGKILL);
    }
}

#[track_caller]
fn assert_told(place: &Place, result: &Value, words: &str) {
    assert_eq!(result["run"]["state"], "interrupted");
    assert!(result["run"]["error"].as_str().unwrap().contains(words), "{}", result["run"]);
    let lost = warnings(result).iter().filter(|code| **code == "server_lost").count();
    assert_eq!(lost, 1, "{:?}", warnings(result));
    let record = place.run(&["export"]).json();
    let events = record["events"].as_array().unwrap();
    let event = events.iter().find(|event| event["kind"] == "server_restart");
    let event = event.unwrap_or_else(|| panic!("{events:#?}"));
    assert!(event["text"].as_str().unwrap().contains(words), "{event}");
    // It lies in the load, not at its end.
    let at = event["at"].as_i64().unwrap();
    let phases = record["phases"].as_array().unwrap();
    let measured = phases.iter().find(|phase| phase["name"] == "measure").unwrap();
    let inside = measured["start"].as_i64().unwrap()..measured["end"].as_i64().unwrap();
    assert!(inside.contains(&at), "{event} {measured}");
}

#[test]
fn a_server_that_restarts_under_a_load_is_told_of() {
    let (place, mut server) = (Place::new(), Restarted::new());
    let script = place.file("one.sql", "SELECT 1;\n");
    let dsn = server.dsn();
    let args = ["run", "--plain", "--json", "--dsn", &dsn, "--file", &script, "-c", "2"];
    let window = ["--warmup=0s", "--duration=12s"];
    let (child, log) = start(&place, &[&args[..], &window].concat());
    until_said(&log, "measure ...");
    until_recorded(&place, 2);
    server.restart();
    let result = finish(child).code(3).json();
    assert_told(&place, &result, "the server was restarted under the load");
}

#[test]
fn a_server_that_restarts_or_crashes_beneath_a_record_is_told_of() {
    let (place, mut server) = (Place::new(), Restarted::new());
    for crash in [false, true] {
        let dsn = server.dsn();
        let (child, log) =
            start(&place, &["record", "--plain", "--json", "--dsn", &dsn, "--for", "10s"]);
        until_said(&log, "measure ...");
        std::thread::sleep(Duration::from_secs(1));
        match crash {
            true => server.crash(),
            false => server.restart(),
        }
        let result = finish(child).code(3).json();
        let words = if crash { "crashed under the load" } else { "restarted under the load" };
        assert_told(&place, &result, words);
    }
}

#[test]
fn a_server_that_goes_beneath_a_record_is_told_of() {
    let (place, mut server) = (Place::new(), Restarted::new());
    let dsn = server.dsn();
    let (child, log) =
        start(&place, &["record", "--plain", "--json", "--dsn", &dsn, "--for", "8s"]);
    until_said(&log, "measure ...");
    std::thread::sleep(Duration::from_secs(1));
    server.running.take().unwrap().stop().unwrap();
    let result = finish(child).code(3).json();
    assert_told(&place, &result, "could not be reached again");
}

#[test]
fn a_crash_that_a_role_may_not_see_is_told_of_too() {
    let (place, host) = (Place::new(), Host::new());
    host.execute("postgres", "CREATE ROLE guest LOGIN PASSWORD 'gG7'");
    let dsn = host.dsn("guest", "gG7", "postgres");
    let crash = || {
        let writer = "SELECT pid::text FROM pg_stat_activity
                      WHERE backend_type = 'background writer'";
        signal(host.ask("postgres", writer).parse().expect("a pid"), libc::SIGKILL);
    };
    // The server tells the clients of a run.
    let script = place.file("one.sql", "SELECT 1;\n");
    let run = ["run", "--plain", "--json", "--dsn", &dsn, "--file", &script, "-c", "2"];
    let (child, log) = start(&place, &[&run[..], &["--warmup=0s", "--duration=12s"]].concat());
    until_said(&log, "measure ...");
    until_recorded(&place, 1);
    crash();
    let result = finish(child).code(3).json();
    assert_told(&place, &result, "crashed under the load");

    // Of someone else's load only walwright's own sessions tell.
    let record = ["record", "--plain", "--json", "--dsn", &dsn, "--for", "10s"];
    let (child, log) = start(&place, &record);
    until_said(&log, "measure ...");
    std::thread::sleep(Duration::from_secs(1));
    crash();
    let result = finish(child).code(3).json();
    assert_told(&place, &result, "ended all of walwright's sessions at once");
}

#[test]
fn what_a_role_may_not_see_is_not_nothing() {
    let (place, host) = (Place::new(), Host::new());
    host.execute("postgres", "CREATE ROLE guest LOGIN PASSWORD 'gG7'");
    host.execute("postgres", "CREATE TABLE t (n int)");
    let script = place.file("insert.sql", "INSERT INTO t VALUES (1);\n");
    let mut load: Command = install(Major::V18).command("pgbench");
    load.args(["-n", "-c", "4", "-T", "300", "-f", &script, &host.superuser("postgres")]);
    let mut load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("pgbench runs");
    let busy =
        "SELECT (count(*) >= 4)::text FROM pg_stat_activity WHERE application_name = 'pgbench'";
    until("it has connected", || host.ask("postgres", busy) == "true");

    let dsn = host.dsn("guest", "gG7", "postgres");
    let record = |dsn: &str| place.run(&["record", "--plain", "--dsn", dsn, "--for", "8s"]).code(0);
    let out = record(&dsn).out();
    assert!(out.contains("Throughput "), "{out}");
    assert!(out.contains("Where the time went: not observable, up to 4 sessions belong"), "{out}");
    let markdown = place.run(&["report", "--markdown"]).code(0).out().replace('\\', "");
    let summary = place.run(&["show", "--json"]).code(0).json()["summary"].clone();
    assert_eq!(summary["time"], Value::Null);
    let diagnosis = place.run(&["diagnose", "--json"]).code(0).json();
    let verdict = diagnosis["verdict"].as_str().unwrap();
    for told in [&out, &markdown, verdict] {
        assert!(told.contains("GRANT pg_monitor TO guest"), "{told}");
        assert!(!told.contains("Nothing to fix") && !told.contains("Where the 0"), "{told}");
    }
    let page = std::fs::read_dir(place.path("lab/reports")).unwrap().flatten().next().unwrap();
    let page = std::fs::read_to_string(page.path()).unwrap();
    assert!(page.contains("GRANT pg_monitor TO guest") && !page.contains("Nothing to fix"));

    // With the grant it sees where the time went.
    host.execute("postgres", "GRANT pg_monitor TO guest");
    let out = record(&dsn).out();
    assert!(out.contains("of a commit on the server went"), "{out}");
    load.kill().unwrap();
    load.wait().unwrap();
}
