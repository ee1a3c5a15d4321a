//! Options of `run` that people know from pgbench.

use serde_json::Value;

use crate::common::{Host, Place};

/// Runs on pgbench's tables at scale 1 on a server of someone else.
struct Bench {
    place: Place,
    host: Host,
}

impl Bench {
    fn new() -> Bench {
        let (place, host) = (Place::new(), Host::new());
        host.program("pgbench", &["-i", "-q", "-s", "1", "postgres"]);
        Bench { place, host }
    }

    fn run(&self, args: &[&str]) -> crate::common::Done {
        let dsn = self.host.superuser("postgres");
        self.place.run(&[&["run", "--dsn", &dsn, "-c", "2"], args].concat())
    }

    fn count(&self, sql: &str) -> i64 {
        self.host.ask("postgres", sql).parse().expect("a number")
    }
}

const HISTORY: &str = "SELECT count(*)::text FROM pgbench_history";

#[test]
fn a_number_of_transactions_with_their_statements() {
    let bench = Bench::new();
    let done = bench.run(&["-t", "30", "-r", "-n", "--plain"]).code(0);
    assert_eq!(bench.count(HISTORY), 60);
    let (_, table) = done.out().split_once("latency of statements").map_or_else(
        || panic!("{}", done.out()),
        |(before, after)| (before.to_owned(), after.to_owned()),
    );
    let rows: Vec<&str> = table.lines().filter(|line| line.contains("pgbench_")).collect();
    assert_eq!(rows.len(), 5, "{table}");
    // Each ran once in each transaction.
    assert!(rows.iter().all(|row| row.split_whitespace().any(|cell| cell == "60")), "{table}");

    let result = bench.run(&["-t", "20", "-C", "-b", "simple", "--json"]).code(0).json();
    let load = &result["summary"]["load"];
    assert_eq!(load["transactions"], 40, "{load}");
    assert_eq!(bench.count(HISTORY), 100);
    assert_eq!(result["run"]["workload"], "simple-update");
    // The first of each client has the connection it began with.
    assert_eq!(load["connection_time"]["count"], 38);
    let export = bench.place.run(&["export"]).json();
    assert_eq!(export["load"]["rules"]["transactions"], 20);
    assert_eq!(export["load"]["rules"]["reconnect"], true);
    let show = bench.place.run(&["show"]).out();
    let show: Vec<&str> = show.split_whitespace().collect();
    assert!(show.join(" ").contains("38 opened"), "{show:?}");
    assert!(show.join(" ").contains("a new connection for each transaction"), "{show:?}");
}

#[test]
fn built_in_scripts_with_weights_and_lines_of_progress() {
    let bench = Bench::new();
    let args = ["-b", "tpcb", "-b", "se@3", "-T", "4", "--warmup", "1s", "-P", "2", "--seed", "5"];
    let done = bench.run(&args).code(0);
    let lines: Vec<String> = done
        .err()
        .lines()
        .filter(|line| line.starts_with("progress: "))
        .map(str::to_owned)
        .collect();
    assert!(lines.len() == 2 && lines[0].contains(" tps, p50 "), "{}", done.err());
    let result: Value = bench.place.run(&["show", "--json"]).json();
    assert_eq!(result["run"]["workload"], "tpcb-like, select-only");
    let scripts = &result["summary"]["load"]["scripts"];
    let count = |place: usize| scripts[place]["transactions"].as_f64().unwrap();
    let share = count(1) / (count(0) + count(1));
    assert!((share - 0.75).abs() < 0.1, "{scripts}");
}

#[test]
fn an_error_stops_a_client_or_the_run() {
    let bench = Bench::new();
    bench.host.execute("postgres", "CREATE TABLE once (client int PRIMARY KEY)");
    // Client 1 does it twice.
    bench.place.file(
        "once.sql",
        "SELECT count(*) AS n FROM pgbench_branches \\gset\n\\if :client_id = 1\n\
         INSERT INTO once VALUES (:client_id);\n\\endif\n",
    );
    let script = ["--file", "once.sql", "-t", "20"];
    let done = bench.run(&[&script[..], &["--on-error", "stop-client", "--json"]].concat());
    let result = done.code(0).json();
    let load = &result["summary"]["load"];
    assert_eq!(load["transactions"], 21, "{load}");
    assert_eq!(load["failures"]["23505"], 1);
    assert!(result["warnings"].to_string().contains("1 of the clients ended at an error"));

    let done = bench.run(&[&script[..], &["--on-error", "stop"]].concat()).code(1);
    assert!(done.err().contains("stopped at its first error"), "{}", done.err());
    assert!(done.err().contains("duplicate key"), "{}", done.err());
    assert_eq!(bench.place.runs().last().unwrap()["state"], "failed");
}

#[test]
fn a_vacuum_before_the_run_is_left_out_where_that_is_asked() {
    let (place, host) = (Place::new(), Host::new());
    let dsn = host.superuser("postgres");
    let vacuums =
        "SELECT vacuum_count::text FROM pg_stat_user_tables WHERE relname = 'pgbench_branches'";
    let mut counts = Vec::new();
    for args in [&["--no-vacuum"][..], &[]] {
        let run = ["run", "--dsn", &dsn, "--init", "-s", "1", "-c", "1", "-t", "5", "-q"];
        place.run(&[&run[..], args].concat()).code(0);
        counts.push(host.ask("postgres", vacuums).parse::<i64>().expect("a number"));
    }
    // The tables are new each time, and loading them vacuums too.
    assert_eq!(counts[1], counts[0] + 1, "{counts:?}");
}

#[test]
fn what_does_not_go_together_is_wrong_usage() {
    let place = Place::new();
    for args in [
        &["-t", "5", "-T", "5"][..],
        &["-t", "0"],
        &["-P", "0"],
        &["-P", "2s"],
        &["-b", "tpcb", "--workload", "events"],
        &["-b", "s"],
        &["-b", "nothing"],
        &["-b", "tpcb@x"],
        &["--on-error", "panic"],
        &["-c", "1,2", "-t", "5"],
        &["--stages", "1s"],
        &["--stages", "1500ms:5"],
        &["--stages", "1s:0"],
        &["--stages", "1s:5,1s:2c"],
        &["--stages", "1s:2c", "-c", "4"],
        &["--stages", "1s:5", "-T", "5"],
        &["--gaps", "even"],
    ] {
        place.run(&[&["run"], args].concat()).code(2);
    }
    assert!(place.run(&["runs", "--json"]).out().trim() == "[]");
}
