//! Records of load that is not ours: the real pgbench of the install is someone else.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use walwright_server::Major;

use crate::common::{Done, Host, Place, finish, install, said, signal, until, until_said};

/// The attached server with pgbench's tables, and the pgbench that loads it.
struct Bench {
    host: Host,
    place: Place,
    pgbench: PathBuf,
    libraries: Vec<(String, String)>,
}

impl Bench {
    fn new() -> Bench {
        let (host, place) = (Host::new(), Place::new());
        let command = install(Major::V18).command("pgbench");
        let libraries = command
            .get_envs()
            .filter_map(|(name, value)| {
                Some((name.to_str()?.to_owned(), value?.to_str()?.to_owned()))
            })
            .collect();
        let pgbench = PathBuf::from(command.get_program());
        let bench = Bench { host, place, pgbench, libraries };
        let init = bench.command(&[]).args(["-i", "-s", "1", "-q"]).output().expect("pgbench -i");
        assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
        bench
    }

    fn dsn(&self) -> String {
        self.host.superuser("postgres")
    }

    /// pgbench by itself.
    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(&self.pgbench);
        command.envs(self.libraries.clone()).current_dir(self.place.path("")).args(args);
        command.env("PGHOST", "127.0.0.1").env("PGPORT", self.host.port().to_string());
        command.env("PGUSER", "postgres").env("PGPASSWORD", crate::common::PASSWORD);
        command.env("PGDATABASE", "postgres");
        command
    }

    /// `walwright record` of this server with more arguments; its surroundings are also
    /// those of pgbench.
    fn record(&self, args: &[&str]) -> std::process::Command {
        let dsn = self.dsn();
        let mut command = self.place.command(&["record", "--dsn", &dsn]);
        command.args(args).envs(self.libraries.clone());
        command.env("PGHOST", "127.0.0.1").env("PGPORT", self.host.port().to_string());
        command.env("PGUSER", "postgres").env("PGPASSWORD", crate::common::PASSWORD);
        command.env("PGDATABASE", "postgres");
        command
    }

    /// The same with pgbench as its command.
    fn record_pgbench(&self, args: &[&str], pgbench: &[&str]) -> Done {
        let program = self.pgbench.display().to_string();
        let mut command = self.record(args);
        command.arg("--").arg(program).args(pgbench);
        finish(command.spawn().expect("spawn"))
    }

    /// `walwright record` of a shell whose load is a child, another in the background, and a
    /// daemon that has left the shell's process group and family.
    fn record_family(&self, seconds: &str) -> (std::process::Child, PathBuf) {
        let log = self.place.path("log");
        let sleep = format!("sleep {seconds}");
        let script = format!("(setsid {sleep} &); {sleep} & {sleep}; true");
        let mut command = self.record(&["--", "sh", "-c", &script]);
        command.stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
        let child = command.spawn().unwrap();
        until_said(&log, "was started");
        until("the command runs", || processes_called(&sleep).len() == 3);
        (child, log)
    }
}

/// PIDs of the processes whose command line begins so.
fn processes_called(words: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("proc").flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let pid = entry.file_name().to_string_lossy().parse();
        if let (true, Ok(pid)) = (line.starts_with(words), pid) {
            found.push(pid);
        }
    }
    found
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Whether a machine that is busy with something else had processes looked for less often.
fn slowed(recorded: &Value) -> bool {
    let told = recorded["warnings"].to_string();
    told.contains("to keep the probe cheap") || told.contains("readings missed")
}

#[test]
fn a_command_is_watched_to_its_end_and_its_log_joins() {
    let bench = Bench::new();
    let done = bench.record_pgbench(
        &["--json", "--client-log", "mine.*", "--label", "pgbench"],
        &["-n", "-c", "2", "-T", "4", "-l", "--log-prefix=mine"],
    );
    let result = done.code(0).json();
    let summary = &result["summary"];
    let load = &summary["load"];
    assert_eq!(load["unit"], "transaction");
    // What the clients logged and what the server counted are the same transactions.
    let rate = number(&load["throughput"]["center"]);
    let commits = number(&summary["server_load"]["commits_per_second"]["center"]);
    assert!((0.5..1.6).contains(&(commits / rate)), "{commits} commits, {rate} transactions");
    assert!(number(&load["latency"]["p50"]) > 0.0);
    // The latency breakdown closes: time on the server is part of the clients' latency.
    let on_server = number(&summary["time"]["on_server"]["center"]);
    let latency = number(&summary["time"]["latency"]);
    assert!(on_server > 0.0 && on_server < 1.5 * latency, "{on_server} of {latency}");
    assert_eq!(summary["wal"]["unit"], "transaction");
    assert!(number(&summary["wal"]["bytes_per_transaction"]) > 100.0);
    assert_eq!(summary["client"]["logs"][0]["format"], "pgbench log");
    assert_eq!(result["run"]["workload"], "load of pgbench");
    assert_eq!(result["run"]["state"], "complete");
    // pgbench was recognised as what makes the load, and is no noise.
    let groups = summary["cpu"]["groups"].as_array().unwrap();
    let group = |name: &str| groups.iter().any(|g| g["group"] == name);
    assert!(group("load generator: pgbench") || slowed(&result), "{result}");
    assert!(!group("other: pgbench"));

    // The rest of the tool reads the record like any other.
    let shown = bench.place.run(&["show", "latest"]).code(0).out();
    assert!(shown.contains("Throughput") && shown.contains("load of pgbench"), "{shown}");
    let report = bench.place.run(&["report", "latest"]).code(0).out();
    let page = fs::read_to_string(report.trim()).unwrap();
    assert!(page.contains("load of pgbench"));
    assert!(!page.contains(crate::common::PASSWORD) && !shown.contains(crate::common::PASSWORD));
}

#[test]
fn what_the_schema_costs_is_found_of_a_load_that_is_not_ours() {
    let bench = Bench::new();
    for sql in [
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "INSERT INTO parent SELECT generate_series(1, 200000)",
        "CREATE TABLE child (id int PRIMARY KEY, parent_id int NOT NULL REFERENCES parent)",
        "INSERT INTO child SELECT g, 100000 + g FROM generate_series(1, 60000) g",
        "CREATE SEQUENCE victim",
        "CREATE EXTENSION IF NOT EXISTS pg_stat_statements",
    ] {
        bench.host.execute("postgres", sql);
    }
    bench.host.execute("postgres", "ANALYZE");
    let script = bench.place.file(
        "delete.sql",
        "SELECT nextval('victim') AS id \\gset\nDELETE FROM parent WHERE id = :id;\n",
    );
    let args = ["-n", "-c", "2", "-T", "6", "-f", &script];
    bench.record_pgbench(&["--quiet"], &args).code(0);
    let diagnosis = bench.place.run(&["diagnose", "--json"]).code(0).json();
    let first = &diagnosis["findings"][0];
    assert_eq!(first["id"], "D15", "{diagnosis:#}");
    assert!(first["actions"].to_string().contains("CREATE INDEX"), "{first:#}");
}

/// A document store in functions: each call makes a temporary table unless the session has it.
const STORE: [&str; 7] = [
    "CREATE EXTENSION IF NOT EXISTS pg_stat_statements",
    "CREATE TABLE document (id bigint PRIMARY KEY, body jsonb NOT NULL, n int NOT NULL DEFAULT 0)",
    "INSERT INTO document SELECT g, jsonb_build_object('a', g) FROM generate_series(1, 20000) g",
    "CREATE TABLE page (id bigint PRIMARY KEY, document bigint NOT NULL REFERENCES document)",
    "INSERT INTO page SELECT g, 10000 + g % 10000 + 1 FROM generate_series(1, 20000) g",
    "CREATE SEQUENCE victim",
    "CREATE FUNCTION save(wanted bigint) RETURNS bigint LANGUAGE plpgsql AS $$
     DECLARE saved bigint;
     BEGIN
         CREATE TEMP TABLE IF NOT EXISTS staged (id bigint, body jsonb) ON COMMIT DELETE ROWS;
         INSERT INTO staged SELECT wanted, jsonb_build_object('a', wanted);
         UPDATE document d SET n = n + 1, body = s.body FROM staged s
         WHERE d.id = wanted AND s.id = d.id
         RETURNING d.id INTO saved;
         DELETE FROM document WHERE wanted % 10 = 0 AND id = (SELECT nextval('victim'));
         RETURN saved;
     END $$",
];

#[test]
fn what_a_function_hides_is_found_with_the_reset_that_makes_it_necessary() {
    let bench = Bench::new();
    for sql in STORE {
        bench.host.execute("postgres", sql);
    }
    bench.host.execute("postgres", "ANALYZE");
    let call = "\\set id random(10001, 20000)\nSELECT save(:id);\n";
    let diagnose = |script: &str| {
        let script = bench.place.file("call.sql", script);
        let args = ["-n", "-c", "2", "-T", "8", "-f", &script];
        bench.record_pgbench(&["--quiet"], &args).code(0);
        bench.place.run(&["diagnose", "--json"]).code(0).json()
    };
    let found = |diagnosis: &Value, id: &str| {
        let findings = diagnosis["findings"].as_array().unwrap();
        let found = findings.iter().find(|f| f["id"] == id);
        found.unwrap_or_else(|| panic!("no {id} in {diagnosis:#}")).clone()
    };
    let diagnosis = diagnose(&format!("{call}DISCARD ALL;\n"));
    // Other tests on this machine are neighbours.
    let findings = diagnosis["findings"].as_array().unwrap();
    let reset = findings.iter().find(|f| f["id"] != "D55").unwrap();
    assert_eq!(reset["id"], "D10", "{diagnosis:#}");
    assert!(reset["evidence"].to_string().contains("SELECT save($1)"), "{reset:#}");
    let tables = found(&diagnosis, "D21");
    assert_eq!(tables["parent"], "D10", "{tables:#}");
    assert!(tables["cause"].as_str().unwrap().contains("SELECT save($1)"), "{tables:#}");
    // Hidden in the same function: the delete that looks for rows that point at its own.
    let key = found(&diagnosis, "D15");
    assert_eq!(key["kind"], "problem", "{key:#}");
    let outlook = diagnosis["outlook"].as_array().unwrap();
    assert!(outlook.iter().any(|step| step["id"] == "D10"), "{diagnosis:#}");
    let said = bench.place.run(&["diagnose"]).code(0).out();
    assert!(said.contains("fixed one after another"), "{said}");

    // A table that stays in its session is made once.
    let diagnosis = diagnose(call);
    let findings = diagnosis["findings"].as_array().unwrap();
    assert!(findings.iter().all(|f| f["id"] != "D10" && f["id"] != "D21"), "{diagnosis:#}");
}

#[test]
fn a_server_that_others_load_is_watched_for_a_time() {
    let bench = Bench::new();
    let mut load = bench.command(&["-n", "-c", "2", "-T", "30"]);
    let mut load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("pgbench");
    let done = finish(bench.record(&["--for", "4s", "--warmup", "1s", "--plain"]).spawn().unwrap());
    signal(load.id(), libc::SIGTERM);
    load.wait().expect("wait");
    let out = done.code(0).out();
    assert!(out.contains("server transactions (commits)"), "{out}");
    assert!(out.contains("Observed load") || out.contains("observed load"), "{out}");

    let result = bench.place.run(&["show", "latest", "--json"]).code(0).json();
    let summary = &result["summary"];
    assert!(summary["load"].is_null());
    assert!(number(&summary["server_load"]["commits"]) > 0.0);
    assert_eq!(summary["time"]["unit"], "commit");
    // 4 seconds less the one of warm-up.
    let window = number(&summary["window"]);
    assert!((2.9..4.0).contains(&window), "{window}");
}

#[test]
fn the_exit_code_is_the_commands_and_its_record_is_kept() {
    let bench = Bench::new();
    let done = finish(
        bench.record(&["--", "sh", "-c", "sleep 1.2; echo its own words; exit 7"]).spawn().unwrap(),
    );
    let done = done.code(7);
    assert!(done.out().contains("its own words"), "{}", done.out());
    let runs = bench.place.runs();
    assert_eq!(runs[0]["state"], "complete");
    let result = bench.place.run(&["show", "latest", "--json"]).code(0).json();
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("exit code 7"), "{warnings}");
    assert!(result["summary"]["client"].is_null(), "nobody's figures are in those words");

    // A JSON result is not mixed with what the command prints.
    let done =
        finish(bench.record(&["--json", "--", "sh", "-c", "echo loud; sleep 1"]).spawn().unwrap());
    let done = done.code(0);
    assert_eq!(done.json()["run"]["state"], "complete");
    assert!(done.err().contains("loud"));
}

#[test]
fn a_stop_keeps_the_record_and_ends_the_command_with_all_it_started() {
    let bench = Bench::new();
    let (child, _) = bench.record_family("812.25");
    signal(child.id(), libc::SIGINT);
    finish(child).code(3);
    assert_eq!(processes_called("sleep 812.25"), [0; 0], "all had ended before walwright did");
    assert_eq!(bench.place.runs()[0]["state"], "interrupted");
    assert!(bench.place.run(&["show", "latest"]).code(0).out().contains("Interrupted"));
}

#[test]
fn what_hears_no_request_is_killed_before_walwright_gives_up() {
    let bench = Bench::new();
    let log = bench.place.path("log");
    let deaf = "(setsid sh -c 'trap \"\" INT TERM HUP; sleep 817.25; sleep 817.25' &)";
    let mut command = bench.record(&["--", "sh", "-c", &format!("{deaf}; sleep 817.25; true")]);
    command.stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
    let child = command.spawn().unwrap();
    until("both run", || processes_called("sleep 817.25").len() == 2);
    until_said(&log, "was started");
    signal(child.id(), libc::SIGTERM);
    finish(child).code(3);
    assert_eq!(processes_called("sleep 817.25"), [0; 0]);
    assert!(!fs::read_to_string(log).unwrap().contains("did not end"));
}

#[test]
fn a_killed_walwright_leaves_its_record_and_no_command() {
    let bench = Bench::new();
    let (mut child, _) = bench.record_family("813.25");
    // Two samples make a difference.
    until("samples are written", || {
        bench.place.run(&["export", "latest", "--series", "database"]).out().lines().count() >= 4
    });
    signal(child.id(), libc::SIGKILL);
    child.wait().unwrap();
    until("nothing is left of it", || processes_called("sleep 813.25").is_empty());
    let result = bench.place.run(&["show", "latest", "--json"]).code(0).json();
    assert_eq!(result["run"]["state"], "interrupted");
    assert!(number(&result["summary"]["window"]) > 1.0);
    assert!(!result["summary"]["server_load"].is_null());
}

#[test]
fn the_load_of_a_killed_guard_is_ended_by_walwright_itself() {
    let bench = Bench::new();
    let (child, log) = bench.record_family("814.25");
    let walwright = assert_cmd::cargo::cargo_bin!("walwright").display();
    let guards = processes_called(&format!("{walwright} guard {} ", child.id()));
    let [guard] = guards[..] else { panic!("one guard, not {guards:?}") };
    signal(guard, libc::SIGKILL);
    finish(child).code(3);
    assert_eq!(processes_called("sleep 814.25"), [0; 0], "all had ended before walwright did");
    let said = fs::read_to_string(log).unwrap();
    assert!(said.contains("the process that guards 'sh' was killed"), "{said}");
    assert!(said.contains("what it left behind was ended: s"), "{said}");
    assert!(said.contains("warning: the load may be incomplete"), "{said}");
    let run = &bench.place.runs()[0];
    assert_eq!(run["state"], "interrupted");
    assert!(run["error"].to_string().contains("guards the command was killed"), "{run}");
}

#[test]
fn what_a_command_leaves_behind_at_its_end_is_ended_and_told() {
    let bench = Bench::new();
    let script = "(setsid sleep 815.25 &); sleep 1.2; exit 5";
    let done = finish(bench.record(&["--plain", "--", "sh", "-c", script]).spawn().unwrap());
    done.code(5).says(&["what it left behind was ended: sleep (PID "]);
    assert_eq!(processes_called("sleep 815.25"), [0; 0]);
    let script = "sleep 816.25 & sleep 1.2";
    let done = finish(bench.record(&["--plain", "--", "sh", "-c", script]).spawn().unwrap());
    done.code(0).says(&["wait for what it starts in the background"]);
    assert_eq!(processes_called("sleep 816.25"), [0; 0]);
}

#[test]
fn a_stop_ends_also_what_hangs_and_says_what_it_waits_for() {
    let bench = Bench::new();
    // Opening a pipe that nobody writes to takes forever.
    let pipe = bench.place.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let start = || {
        let log = bench.place.path("log");
        let mut command = bench.record(&["--for", "1s", "--plain", "--client-log"]);
        command.arg(&pipe).stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
        let child = command.spawn().unwrap();
        until_said(&log, "reading the logs of the clients");
        signal(child.id(), libc::SIGTERM);
        until_said(&log, "a second signal ends this at once");
        (child, log)
    };
    let (child, log) = start();
    finish(child).code(3);
    until_said(&log, "did not stop within 10 s");
    assert_eq!(bench.place.runs()[0]["state"], "interrupted");
    let (child, log) = start();
    signal(child.id(), libc::SIGTERM);
    finish(child).code(130);
    assert!(!fs::read_to_string(log).unwrap().contains("did not stop within"));
}

#[test]
fn what_pgbench_prints_is_in_the_summary() {
    let bench = Bench::new();
    let done = bench.record_pgbench(&["--json"], &["-n", "-c", "2", "-T", "5", "-P", "1"]);
    let done = done.code(0);
    let result = done.json();
    // It was shown meanwhile, and is not in the way of the result.
    assert!(done.err().contains("progress: 1.0 s, "), "{}", done.err());
    assert!(done.err().contains("number of transactions actually processed"), "{}", done.err());
    let summary = &result["summary"];
    let log = &summary["client"]["logs"][0];
    assert_eq!((&log["format"], &log["detail"]), (&"pgbench summary".into(), &"intervals".into()));
    let totals = &log["totals"][0];
    let load = &summary["load"];
    assert_eq!(load["unit"], "transaction");
    let (counted, all) = (number(&load["transactions"]), number(&totals["count"]));
    assert!((0.5..1.01).contains(&(counted / all)), "{counted} of {all}");
    let mean = number(&load["mean_latency"]) / number(&totals["mean"]);
    assert!((0.5..2.0).contains(&mean), "{mean}");
    assert!(load["latency"].is_null(), "percentiles cannot be known from means");
    let shown = bench.place.run(&["show", "latest"]).code(0).out();
    assert!(shown.contains("output of the command (pgbench summary"), "{shown}");

    // Without reports there are its totals, beside what the server counted.
    let summary = bench.record_pgbench(&["--json"], &["-n", "-c", "2", "-T", "2"]).code(0).json();
    let summary = &summary["summary"];
    assert!(summary["load"].is_null() && !summary["server_load"].is_null());
    let totals = &summary["client"]["logs"][0]["totals"][0];
    let rate = number(&totals["throughput"]);
    let shown = bench.place.run(&["show", "latest"]).code(0).out();
    assert!(rate > 0.0 && shown.contains("of its clients only"), "{shown}");
}

#[test]
fn the_log_that_pgbench_writes_is_found() {
    let bench = Bench::new();
    let old = bench.place.file("pgbench_log.5000000", "0 1 4533 0 1795132800 12345\n");
    // A file's time is as coarse as the kernel's timer.
    until("the old log is old", || {
        let made = fs::metadata(&old).unwrap().modified().unwrap();
        made.elapsed().is_ok_and(|age| age.as_millis() > 100)
    });
    let result = bench.record_pgbench(&["--json"], &["-n", "-c", "2", "-T", "3", "-l"]);
    let result = result.code(0).json();
    let logs = result["summary"]["client"]["logs"].as_array().unwrap();
    let [log] = &logs[..] else { panic!("one log, not {logs:?}") };
    assert_eq!(log["format"], "pgbench log");
    assert_ne!(log["file"], "pgbench_log.5000000");
    assert!(number(&result["summary"]["load"]["latency"]["p99"]) > 0.0);
}

#[test]
fn what_is_piped_is_read_as_it_comes() {
    let bench = Bench::new();
    let mut load = bench.command(&["-n", "-c", "2", "-T", "6", "-P", "1"]);
    let script = "exec \"$0\" \"$@\" 2>&1";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script]).arg(load.get_program()).args(load.get_args());
    shell.envs(load.get_envs().filter_map(|(name, value)| Some((name, value?))));
    load = shell;
    let mut load = load.stdout(Stdio::piped()).spawn().expect("pgbench");
    let mut record = bench.record(&["--json", "--client-log", "-"]);
    let done = finish(record.stdin(load.stdout.take().unwrap()).spawn().unwrap());
    load.wait().expect("wait");
    let result = done.code(0).json();
    let log = &result["summary"]["client"]["logs"][0];
    assert_eq!((&log["file"], &log["detail"]), (&"standard input".into(), &"intervals".into()));
    assert!(number(&result["summary"]["load"]["transactions"]) > 0.0);
}

#[test]
fn results_that_tell_more_replace_what_was_printed_once() {
    let bench = Bench::new();
    // The log lies where nobody looks for it.
    let script = "mkdir sub && cd sub && exec \"$0\" \"$@\"";
    let mut command = bench.record(&["--", "sh", "-c", script]);
    command.arg(&bench.pgbench).args(["-n", "-c", "2", "-T", "4", "-l"]);
    command.args(["--aggregate-interval=1", "--log-prefix=agg"]);
    finish(command.spawn().unwrap()).code(0);
    let printed = bench.place.run(&["show", "latest", "--json"]).code(0).json();
    assert_eq!(printed["summary"]["client"]["logs"][0]["detail"], "totals");
    let log = fs::read_dir(bench.place.path("sub"))
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.file_name().unwrap().to_string_lossy().starts_with("agg."))
        .unwrap();
    let log = log.display().to_string();
    let add = ["record", "--add-to", "latest", "--client-log", &log];
    let said = bench.place.run(&add).code(0).out();
    assert!(said.contains("percentiles are not"), "{said}");
    let result = bench.place.run(&["show", "latest", "--json"]).code(0).json();
    let load = &result["summary"]["load"];
    assert!(load["latency"].is_null(), "percentiles cannot be known from sums");
    let mean = number(&load["mean_latency"]);
    assert!(mean > 0.0 && mean < 1.0, "{mean}");
    assert!(number(&load["throughput"]["center"]) > 1.0);
    assert_eq!(result["summary"]["client"]["logs"].as_array().map(Vec::len), Some(1));
    assert!(!result["warnings"].to_string().contains("output of the command"), "{result}");
    assert!(bench.place.run(&["show", "latest"]).code(0).out().contains("hold sums"));
    bench.place.run(&add).refuses(&["has the results of agg."]);
}

#[test]
fn a_log_that_cannot_be_read_costs_the_log_and_not_the_record() {
    let bench = Bench::new();
    let file = bench.place.file("notes.txt", "these are my notes\n");
    let done =
        finish(bench.record(&["--client-log", &file, "--", "sleep", "1.5"]).spawn().unwrap());
    done.code(1).says(&["notes.txt has no format known here", "--client-log-format", "is kept"]);
    let result = bench.place.run(&["show", "latest", "--json"]).code(0).json();
    assert_eq!(result["run"]["state"], "complete");
    assert!(result["warnings"].to_string().contains("--add-to"));

    // A log of another day.
    let file = bench.place.file("old.csv", "time,latency_ms\n1500000000,5\n1500000001,6\n");
    bench
        .place
        .run(&["record", "--add-to", "latest", "--client-log", &file])
        .refuses(&["nothing of old.csv lies in the record", "2017-07-14"]);
}

#[test]
fn what_cannot_begin_is_said_and_not_recorded() {
    let bench = Bench::new();
    let refuse = |args: &[&str], words: &[&str]| {
        finish(bench.record(args).spawn().unwrap()).refuses(words);
    };
    refuse(&["--", "no-such-program-812"], &["there is no program 'no-such-program-812'"]);
    refuse(
        &["--for", "1s", "--client-log", "x", "--client-log-format", "gatling"],
        &["'gatling'", "k6-csv"],
    );
    let nowhere = bench.place.run(&["record", "--dsn", "host=127.0.0.1 port=1", "--for", "1s"]);
    nowhere.refuses(&["127.0.0.1"]);
    let done = finish(bench.record(&[]).spawn().unwrap());
    done.code(2).says(&["--for"]);
    assert_eq!(bench.place.runs(), [] as [Value; 0]);
}

#[test]
fn logs_of_all_kinds_of_pgbench_runs_are_read() {
    let bench = Bench::new();
    let script = bench.place.file(
        "hot.sql",
        "BEGIN ISOLATION LEVEL SERIALIZABLE;\nUPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;\nSELECT count(*) FROM pgbench_tellers;\nCOMMIT;\n",
    );
    let join = |prefix: &str, more: &[&str]| {
        let prefix_flag = format!("--log-prefix={prefix}");
        let pattern = format!("{prefix}.*");
        let base = ["-n", "-c", "4", "-j", "2", "-T", "3", "-l", &prefix_flag];
        let args = [&base[..], more].concat();
        let done = bench.record_pgbench(&["--json", "--client-log", &pattern], &args);
        done.code(0).json()
    };
    let sampled = join("sampled", &["--sampling-rate=0.2"]);
    let logs = sampled["summary"]["client"]["logs"].as_array().unwrap().clone();
    assert_eq!(logs.len(), 2, "one file for each of pgbench's threads");
    let rate = number(&logs[0]["sampling"]);
    assert!((0.1..0.3).contains(&rate), "{rate}");
    let throughput = number(&sampled["summary"]["load"]["throughput"]["center"]);
    let commits = number(&sampled["summary"]["server_load"]["commits_per_second"]["center"]);
    assert!((0.4..2.0).contains(&(throughput / commits)), "{throughput} {commits}");

    let throttled = join("throttled", &["--rate=200", "--latency-limit=50"]);
    assert!(
        !throttled["summary"]["time"]["queue"].is_null(),
        "the lag is in the latency breakdown"
    );

    let retried = join("retried", &["--max-tries=2", "--failures-detailed", "-f", &script]);
    let load = &retried["summary"]["load"];
    let failures = load["failures"].as_object().unwrap();
    assert!(failures.contains_key("40001"), "{failures:?}");
    assert!(number(&load["retried"]) > 0.0);

    let aggregated = join(
        "aggregated",
        &["--aggregate-interval=1", "--max-tries=2", "--failures-detailed", "-f", &script],
    );
    let load = &aggregated["summary"]["load"];
    assert!(load["failures"].as_object().unwrap().contains_key("40001"), "{load}");
    assert!(number(&load["mean_latency"]) > 0.0);
}

/// A gateway before the server of a bench, with these arguments more, and its port.
fn gateway_before(bench: &Bench, log: &str, more: &[&str]) -> (std::process::Child, String) {
    let dsn = bench.dsn();
    let words = ["gateway", "--server", &dsn, "--listen=127.0.0.1:0"];
    let mut command = bench.place.command(&[&words[..], more].concat());
    command.stderr(std::fs::File::create(bench.place.path(log)).unwrap());
    let gateway = command.current_dir(bench.place.path("")).spawn().unwrap();
    let port = said(&bench.place, log, "listening on 127.0.0.1:", '\n');
    until_said(&bench.place.path(log), "Ctrl-C ends it");
    (gateway, port)
}

#[test]
fn a_gateway_before_the_server_tells_what_it_kept_back() {
    let bench = Bench::new();
    // Below the ports that systems hand out.
    let port = 20_000 + std::process::id() % 10_000;
    let table = format!("[metrics]\nlisten = \"127.0.0.1:{port}\"\n");
    std::fs::write(bench.place.path("gateway.toml"), table).unwrap();
    let load = ["-n", "-c", "4", "-T", "3", "-l", "-h", "127.0.0.1", "-p"];
    let time = |recorded: &Value| recorded["summary"]["time"].clone();

    let (gateway, at) = gateway_before(&bench, "first.log", &["--config", "gateway.toml"]);
    let recorded = bench.record_pgbench(&["--json"], &[&load[..], &[&at]].concat()).code(0).json();
    signal(gateway.id(), libc::SIGTERM);
    finish(gateway).code(0);
    let split = time(&recorded);
    let withheld = number(&split["gateway"]["withheld"]);
    let latency = number(&split["latency"]);
    assert!(withheld > 0.0 && withheld < latency, "{withheld} of {latency}");
    assert_eq!(split["is_withheld"], false);
    let shown = bench.place.run(&["show", "latest"]).code(0).out();
    assert!(shown.contains("withheld until durable"), "{shown}");

    // One that shows none is told of.
    let (gateway, at) = gateway_before(&bench, "second.log", &[]);
    let recorded = bench.record_pgbench(&["--json"], &[&load[..], &[&at]].concat()).code(0).json();
    signal(gateway.id(), libc::SIGTERM);
    finish(gateway).code(0);
    let split = time(&recorded);
    assert_eq!(split["gateway"], Value::Null);
    let told = split["warnings"].to_string().contains("gateway --metrics");
    assert!(told && split["is_withheld"] == true || slowed(&recorded), "{recorded}");
}
