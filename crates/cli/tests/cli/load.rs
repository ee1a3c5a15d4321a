//! How a load is driven, seen from outside: schedules, modes, weights, retries.

use serde_json::Value;

use crate::common::{Done, Host, Place};

/// The summary of a run of these on a server that has `hot`, a table of one row.
struct Bench {
    place: Place,
    host: Host,
}

impl Bench {
    fn new() -> Bench {
        let (place, host) = (Place::new(), Host::new());
        host.execute("postgres", "CREATE TABLE hot (id int PRIMARY KEY, n bigint)");
        host.execute("postgres", "INSERT INTO hot VALUES (1, 0), (2, 0)");
        Bench { place, host }
    }

    fn measure(&self, args: &[&str]) -> Done {
        let dsn = self.host.superuser("postgres");
        self.place.measure(&[&["--dsn", &dsn], args].concat())
    }

    fn json(&self, args: &[&str]) -> Value {
        self.measure(&[&["--json"], args].concat()).code(0).json()
    }
}

fn warning<'a>(result: &'a Value, code: &str) -> Option<&'a str> {
    let found = result["warnings"].as_array()?.iter().find(|w| w["code"] == code)?;
    found["text"].as_str()
}

#[test]
fn scripts_are_weighted_and_each_is_counted() {
    let bench = Bench::new();
    bench.place.file("a.sql", "SELECT 1;\n");
    bench.place.file("b.sql", "SELECT 2;\n");
    let result = bench.json(&["-c", "1", "--file", "a.sql@3", "--file", "b.sql", "--seed", "7"]);
    assert_eq!(result["run"]["workload"], "a.sql, b.sql");
    let export = bench.place.run(&["export"]).code(0).json();
    let mut counts = [0.0_f64; 2];
    for interval in export["intervals"].as_array().unwrap() {
        for (count, script) in
            counts.iter_mut().zip(interval["interval"]["scripts"].as_array().unwrap())
        {
            *count += script["transactions"].as_f64().unwrap();
        }
    }
    let share = counts[0] / (counts[0] + counts[1]);
    // Thousands of draws at the very least: 0.75 within a few standard deviations.
    assert!(counts[1] > 500.0 && (share - 0.75).abs() < 0.06, "{counts:?}");
}

#[test]
fn a_rate_out_of_reach_is_said() {
    let bench = Bench::new();
    bench.place.file("slow.sql", "SELECT pg_sleep(0.01);\n");
    let result = bench.json(&["-c", "2", "--rate=5000", "--gaps=even", "--file", "slow.sql"]);
    let all = result["warnings"].to_string();
    assert!(all.contains("5000 a second were offered"), "{all}");
    // One that a single client could meet comes due as its schedule says, however fast this
    // machine is, and the warning goes with what is missing.
    let result = bench.json(&["-c", "4", "--rate=50", "--gaps=even", "--file", "slow.sql"]);
    let load = &result["summary"]["load"];
    let open = &load["open_loop"];
    assert_eq!(open["offered"], 50.0);
    let due = open["due"].as_f64().unwrap();
    let window = result["summary"]["window"].as_f64().unwrap();
    assert!((due - 50.0 * window).abs() <= 2.0, "{due} in {window} s");
    let missing = due - load["transactions"].as_f64().unwrap();
    let warned = warning(&result, "rate_not_reached");
    assert_eq!(warned.is_some(), missing > 0.02 * due + 4.0, "{missing} of {due}: {warned:?}");
}

#[test]
fn lean_mode_is_named_wherever_its_figures_are() {
    let bench = Bench::new();
    bench.place.file("a.sql", "SELECT n FROM hot WHERE id = 1;\n");
    let result = bench.json(&["-c", "1", "--lean", "--file", "a.sql"]);
    assert!(warning(&result, "lean_mode").unwrap().contains("do not compare with pgbench's"));
    assert!(result["run"]["command"].as_str().unwrap().contains("--lean"));
    let show = bench.place.run(&["show"]).code(0).out();
    assert!(show.contains("lean mode"), "{show}");
    assert_eq!(bench.place.run(&["export"]).json()["load"]["mode"], "lean");
    let page = std::fs::read_to_string(result["report"].as_str().unwrap()).unwrap();
    assert!(page.contains("lean mode"));
    let markdown = bench.place.run(&["report", "--markdown"]).out();
    assert!(markdown.contains("lean mode"), "{markdown}");
}

#[test]
fn thinking_clients_wait_and_ramped_ones_come_one_by_one() {
    let bench = Bench::new();
    bench.place.file("a.sql", "SELECT 1;\n");
    let result = bench.json(&["-c", "4", "--think=100ms", "--ramp=2s", "--file", "a.sql"]);
    let export = bench.place.run(&["export"]).json();
    assert_eq!(export["load"]["ramp"], 2.0);
    let clients: Vec<u64> = export["intervals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["interval"]["clients"].as_u64().unwrap())
        .collect();
    assert!(clients[0] < 4 && *clients.iter().max().unwrap() == 4, "{clients:?}");
    // 4 clients that think for 100 ms each can do about 40 a second, never hundreds.
    let rate = result["summary"]["load"]["throughput"]["center"].as_f64().unwrap();
    assert!(rate > 1.0 && rate < 100.0, "{rate}");
}

#[test]
fn retries_turn_serialization_failures_into_successes() {
    let bench = Bench::new();
    bench.place.file(
        "hot.sql",
        "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT n FROM hot WHERE id = 1;\n\
         UPDATE hot SET n = n + 1 WHERE id = 1;\nCOMMIT;\n",
    );
    // Most of them fail, which is no success of the run; how many is the machine's affair.
    let done = bench.measure(&["--json", "-c", "4", "--file", "hot.sql"]);
    let result = done.json();
    let load = &result["summary"]["load"];
    let count = |of: &str| load[of].as_u64().unwrap();
    assert!(load["failures"]["40001"].as_u64().unwrap() > 0);
    done.code(if count("failed") * 3 >= count("transactions") { 4 } else { 0 });
    assert!(warning(&result, "failures").unwrap().contains("they are in no latency"));
    let result = bench.json(&["-c", "4", "--max-tries=10000", "--file", "hot.sql"]);
    let load = &result["summary"]["load"];
    assert_eq!(load["failed"], 0, "{load}");
    let csv = bench.place.run(&["export", "--series=load"]).out();
    let retries: u64 =
        csv.lines().skip(1).map(|l| l.split(',').nth(5).unwrap().parse::<u64>().unwrap()).sum();
    assert!(retries > 0, "{csv}");
}

#[test]
fn stages_have_figures_of_their_own_and_no_steady_state() {
    let bench = Bench::new();
    bench.place.file("a.sql", "SELECT 1;\n");
    let dsn = bench.host.superuser("postgres");
    let run = |stages: &str| {
        let args =
            ["run", "--dsn", &dsn, "--file", "a.sql", "--json", "--plain", "--stages", stages];
        bench.place.run(&args).code(0).json()
    };
    let result = run("3s:20,2s:200");
    let load = &result["summary"]["load"];
    let stages = load["stages"].as_array().unwrap();
    assert_eq!(stages.len(), 2, "{load}");
    let figure = |place: usize, name: &str| stages[place][name].as_f64().unwrap();
    // Poisson arrivals: within five standard deviations.
    assert!((figure(0, "transactions") - 60.0).abs() < 40.0, "{stages:?}");
    assert!((figure(1, "transactions") - 400.0).abs() < 100.0, "{stages:?}");
    assert_eq!((figure(0, "length"), figure(1, "length")), (3.0, 2.0));
    assert!(stages.iter().all(|stage| stage["latency"]["p99"].as_f64() > Some(0.0)), "{stages:?}");
    assert_eq!((&load["steadiness"], &load["precision"]), (&Value::Null, &Value::Null));
    assert_eq!(load["open_loop"]["offered"], 92.0);
    assert_eq!(warning(&result, "no_steady_state"), None);
    let export = bench.place.run(&["export"]).json();
    let of_stages = |export: &Value| -> Vec<(i64, String)> {
        let events = export["events"].as_array().unwrap().iter().filter(|e| e["kind"] == "stage");
        let of = |e: &Value| (e["at"].as_i64().unwrap(), e["text"].as_str().unwrap().to_owned());
        events.map(of).collect()
    };
    let events = of_stages(&export);
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(events[1].0 - events[0].0, 3_000_000, "{events:?}");
    assert_eq!(events[1].1, "stage 2 of 2: 200 transactions a second for 2 s");
    let show = bench.place.run(&["show"]).out();
    assert!(show.contains("200 /s due") || show.contains("200/s due"), "{show}");

    let result = run("2s:1c,2s:3c");
    let stages = &result["summary"]["load"]["stages"];
    assert_eq!(stages[1]["level"]["clients"], 3, "{stages}");
    assert_eq!(result["summary"]["clients"], 3);
}

#[test]
fn tpcc_stays_consistent_under_load() {
    let (place, host) = (Place::new(), Host::new());
    let dsn = host.superuser("postgres");
    let args = ["run", "--dsn", &dsn, "--init", "-w", "tpcc", "-c", "6", "-t", "150", "--plain"];
    let done = place.run(&[&args[..], &["--max-tries=0", "--seed=3", "--json"]].concat()).code(0);
    let result = done.json();
    let load = &result["summary"]["load"];
    assert_eq!((&load["transactions"], &load["failed"]), (&900.into(), &0.into()), "{load}");
    for script in load["scripts"].as_array().unwrap() {
        assert!(script["transactions"].as_u64().unwrap() > 5, "{script}");
    }
    let export = place.run(&["export"]).json();
    let holds = export["events"].as_array().unwrap().iter().filter(|event| {
        event["kind"] == "check" && event["text"].as_str().unwrap().starts_with("holds: ")
    });
    assert_eq!(holds.count(), 6);
    // What the transactions did, and not only that it agrees with itself.
    let count = |sql: &str| -> i64 {
        host.ask("postgres", &format!("SELECT ({sql})::text")).parse().expect("a number")
    };
    let script = |place: usize| load["scripts"][place]["transactions"].as_i64().unwrap();
    let orders = count("SELECT count(*) - 30000 FROM tpcc_orders");
    // One in a hundred is taken back.
    assert!(orders <= script(0) && orders > script(0) * 9 / 10, "{orders} of {}", script(0));
    assert_eq!(count("SELECT count(*) - 30000 FROM tpcc_history"), script(1));
    assert_eq!(count("SELECT sum(c_delivery_cnt) FROM tpcc_customer"), 10 * script(3));
    let lines = "SELECT count(*) - 300000 FROM tpcc_order_line";
    assert_eq!(count(lines), count("SELECT sum(s_order_cnt) FROM tpcc_stock"));
    assert_eq!(
        count("SELECT sum(s_ytd) FROM tpcc_stock"),
        count("SELECT sum(ol_quantity) - 1500000 FROM tpcc_order_line"),
    );

    // Each check notices what it is for, and only then does the run not exit 0.
    let damage = [
        "UPDATE tpcc_warehouse SET w_ytd = w_ytd + 1",
        // Of two districts: the one transaction of the run may take an order in one of them.
        "UPDATE tpcc_district SET d_next_o_id = d_next_o_id + 1 WHERE d_id IN (4, 8)",
        "DELETE FROM tpcc_new_order WHERE no_o_id = 2900 AND no_d_id = 5",
        "UPDATE tpcc_order_line SET ol_delivery_d = NULL WHERE ol_o_id = 7 AND ol_number = 3",
        "UPDATE tpcc_customer SET c_balance = c_balance - 1 WHERE c_id = 9",
    ];
    damage.iter().for_each(|sql| host.execute("postgres", sql));
    let args = ["run", "--dsn", &dsn, "-w", "tpcc", "-c", "1", "-t", "1", "--json", "--plain"];
    let result = place.run(&args).code(4).json();
    let missed = result["warnings"].as_array().unwrap();
    let missed = missed.iter().filter(|warning| warning["code"] == "check_failed");
    assert_eq!(missed.count(), 6, "{}", result["warnings"]);
}
