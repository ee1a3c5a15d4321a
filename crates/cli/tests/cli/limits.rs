//! Runs that fail by what was measured: limits, failed transactions.

use serde_json::Value;

use crate::common::{Host, Place};

#[test]
fn a_run_fails_by_its_limits_and_by_failed_transactions() {
    let (place, host) = (Place::new(), Host::new());
    let dsn = host.superuser("postgres");
    place.file("slow.sql", "SELECT pg_sleep(0.005);\n");
    place.file("fails.sql", "\\set r random(0, 1)\nSELECT 1 / :r;\n");

    // One limit is passed, one holds, one cannot be judged.
    let limits =
        ["--fail-if=p99 > 10s", "--fail-if", "p50 > 1ms", "--fail-if", "lag_p99 > 1ms", "--json"];
    let slow = ["--dsn", &dsn, "--no-probe", "-c", "1", "--file", "slow.sql"];
    let judged = place.measure(&[&slow[..], &limits].concat()).code(4).json()["limits"].clone();
    let outcomes: Vec<&Value> =
        judged.as_array().unwrap().iter().map(|limit| &limit["outcome"]).collect();
    assert_eq!(outcomes, ["passed", "failed", "unknown"]);
    assert_eq!(judged[1]["limit"], "p50 > 1ms");
    assert!(judged[1]["value"].as_f64().unwrap() >= 0.005, "{judged}");
    let told = place.measure(&[&slow[..], &["--fail-if=lag_p99 > 1ms"]].concat()).code(4).out();
    assert!(told.contains("only a run with --rate has it"), "{told}");
    let told = place.measure(&[&slow[..], &["--fail-if=tps > 1000"]].concat()).code(0).out();
    assert!(told.contains("passed: tps is"), "{told}");

    // Half of the transactions of a sweep fail; so does each point by a limit.
    let fails = ["run", "--dsn", &dsn, "--no-probe", "--file", "fails.sql", "--clients", "1,2"];
    let short = ["--warmup=1s", "--duration=1s", "--plain"];
    place.run(&[&fails[..], &short].concat()).code(4);
    let slow = ["run", "--dsn", &dsn, "--no-probe", "--file", "slow.sql", "--clients", "1,2"];
    let limit = ["--fail-if=p50 > 1ms"];
    let done = place.run(&[&slow[..], &short, &limit].concat()).code(4);
    let failed = done.err().lines().filter(|line| line.contains(": failed: p50 is")).count();
    assert_eq!(failed, 2, "{}", done.err());

    // Other work is said before any figure of it.
    let of = |workload: &str| {
        let runs = place.runs();
        let run = runs.iter().find(|run| run["workload"] == workload).unwrap();
        run["id"].as_str().unwrap().to_owned()
    };
    let other = place.run(&["compare", &of("slow.sql"), &of("fails.sql"), "--json"]).code(0).json();
    let said = other["findings"][0]["text"].as_str().unwrap();
    assert!(
        said.contains("did other work than") && said.contains("slow.sql → fails.sql"),
        "{said}"
    );
    assert!(said.find("other work") < said.find("%"), "{said}");

    // What is no limit is told before anything is begun.
    for (wrong, words) in [
        ("p99 > 20", "no unit; write a time with its unit, as 20ms"),
        ("q99 > 20ms", "at character 1, 'q99'"),
        ("change(p99) > 5%", "use it with walwright compare"),
    ] {
        place.run(&["run", "--fail-if", wrong]).code(2).says(&[words]);
    }
}
