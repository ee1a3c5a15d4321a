//! Comparisons of real runs.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use serde_json::Value;

use crate::common::Place;

/// Runs of one size, each with its label and one setting.
fn runs(place: &Place, label: &str, setting: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|_| {
            // Long enough for several samples of each source.
            let run = place.run(&[
                "run",
                "--plain",
                "--warmup=1s",
                "--duration=4s",
                "--load-jobs=1",
                "-c",
                "2",
                "--scale=1",
                "--label",
                label,
                "--set",
                setting,
                "--json",
            ]);
            run.code(0).json()["run"]["id"].as_str().unwrap().to_owned()
        })
        .collect()
}

fn figure<'a>(comparison: &'a Value, key: &str) -> &'a Value {
    let figures = comparison["figures"].as_array().unwrap();
    figures.iter().find(|figure| figure["key"] == key).unwrap()
}

#[test]
fn runs_are_compared_one_by_one_and_in_groups() {
    let place = Place::new();
    let slow = runs(&place, "full", "wal_compression=off", 2);
    let fast = runs(&place, "async", "synchronous_commit=off", 2);

    // One against one: the effect, and that it proves nothing.
    let one = place.run(&["compare", &slow[0], &fast[0], "--json"]).code(0).json();
    assert_eq!(one["findings"][0]["verdict"], "unproven");
    assert_eq!(one["unit"], "transaction");
    let bytes = figure(&one, "wal_bytes");
    assert!(bytes["values"][0]["center"].as_f64().unwrap() > 100.0, "{bytes}");
    // Without waiting for flushes hardly any is left of them.
    let flushes = figure(&one, "flushes");
    let change = flushes["effects"][0]["change"]["center"].as_f64().unwrap();
    assert!(change < -0.2, "{flushes}");
    let differences = one["differences"].to_string();
    assert!(differences.contains("synchronous_commit"), "{differences}");
    assert!(!differences.contains("data_directory"), "{differences}");
    let statements = one["statements"].as_array().unwrap();
    let update =
        statements.iter().find(|s| s["query"].as_str().unwrap().contains("pgbench_accounts"));
    assert!(update.unwrap()["groups"][1]["calls"].as_f64().unwrap() > 0.5, "{statements:?}");

    let page = place.path("compared.html");
    let text = place
        .run(&["compare", &slow[0], &fast[0], "--html", &page.display().to_string()])
        .code(0)
        .out();
    assert!(text.contains("proves nothing") && text.contains("synchronous_commit"), "{text}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("The runs laid over each other"));
    assert!(page.matches("class=\"line i-main\"").count() >= 2, "both plots have the baseline");
    assert!(page.contains("class=\"line i-second\""));

    // Limits: on what is compared, and on its change.
    let limited = ["--fail-if", "failed_share > 0%", "--fail-if", "change(p99) > -100%", "--json"];
    let limited = place.run(&[&["compare", &slow[0], &fast[0]], &limited[..]].concat()).code(4);
    let judged = limited.json()["limits"].clone();
    assert_eq!(
        (&judged[0]["outcome"], &judged[1]["outcome"]),
        (&"passed".into(), &"failed".into())
    );
    let said = ["compare", &slow[0], &fast[0], "--fail-if", "tps < 1"];
    assert!(place.run(&said).code(0).out().contains("passed: tps of"), "a line for each limit");
    place.run(&["compare", "x", "y", "--fail-if", "change(p99) > 5"]).code(2).says(&["as 5%"]);

    // For other programs, and for a ticket.
    let format = |format: &str| {
        let shown = place.run(&["compare", &slow[0], &fast[0], "--format", format]).code(0);
        shown.out()
    };
    let csv = format("csv");
    let columns = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().all(|line| line.split(',').count() == columns), "{csv}");
    let throughput: Vec<f64> = csv
        .lines()
        .filter(|line| line.starts_with("throughput,load,per_second,"))
        .map(|line| line.split(',').nth(5).unwrap().parse().unwrap())
        .collect();
    let told =
        [0, 1].map(|group| figure(&one, "throughput")["values"][group]["center"].as_f64().unwrap());
    let same = |(a, b): (&f64, f64)| (a - b).abs() <= 1e-9 * b;
    assert!(throughput.iter().zip(told).all(same), "{throughput:?} {told:?}");
    let markdown = format("markdown");
    assert!(
        markdown.contains("proves nothing") && markdown.contains("| throughput |"),
        "{markdown}"
    );
    assert_eq!(serde_json::from_str::<Value>(&format("json")).unwrap(), one);
    assert_eq!(format("text"), place.run(&["compare", &slow[0], &fast[0]]).code(0).out());

    // What they cost: twice the price is twice the money, and the rate's interval goes through.
    let prices = place.path("prices.toml");
    let priced = |hour: f64| {
        let example = place.run(&["cost", "--example"]).code(0).out();
        fs::write(&prices, example.replace("= 0.75", &format!("= {hour}"))).unwrap();
        let file = prices.display().to_string();
        let cost = ["cost", "label:full", "label:async", "--prices", &file];
        let cost = [&cost[..], &["--instance", "db.example.xlarge"]].concat();
        (
            place.run(&[&cost[..], &["--json"]].concat()).code(0).json(),
            place.run(&cost).code(0).out(),
        )
    };
    let (once, text) = priced(1000.0);
    let twice = priced(2000.0).0;
    assert!(text.contains("USD less") && text.contains("What the change saves"), "{text}");
    let million = |costs: &Value, at: usize| costs[at]["million"].as_f64().unwrap();
    assert!((million(&twice, 0) / million(&once, 0) - 2.0).abs() < 0.001, "{once}");
    assert!(million(&once, 1) < million(&once, 0), "{once}");
    assert_eq!(once[0]["capacity"]["runs"].as_array().unwrap().len(), 2);
    place.run(&["cost", "--prices", &prices.display().to_string()]).code(1).says(&["--instance"]);

    // Groups, by name and by label.
    let (base, other) = (slow.join(","), fast.join(","));
    let by_name = place.run(&["compare", &base, &other, "--json"]).code(0).json();
    let by_label = place.run(&["compare", "label:full", "label:async", "--json"]).code(0).json();
    assert_eq!(by_name["figures"], by_label["figures"]);
    assert_eq!(by_label["groups"][0]["name"], "full");
    let effect = &figure(&by_name, "throughput")["effects"][0];
    assert_eq!(effect["basis"], "groups");
    assert_eq!(effect["base"], 2);
    // Two against two can be divided in six ways, and never prove anything.
    assert!(effect["smallest_p"].as_f64().unwrap() > 0.3, "{effect}");
    assert_ne!(by_name["findings"][0]["verdict"], "changed");
    assert!(by_name["warnings"].to_string().contains("did not take turns"));
}

#[test]
fn windows_of_different_length_are_cut_and_said() {
    let place = Place::new();
    let common = ["-c", "1", "--scale=1", "--json"];
    let id =
        |done: crate::common::Done| done.code(0).json()["run"]["id"].as_str().unwrap().to_owned();
    let memory: &[&str] = if may_limit_memory() { &["--memory=1GB"] } else { &[] };
    let short = id(place.measure(&[&common[..], &["--processors=1"], memory].concat()));
    let args = ["run", "--plain", "--warmup=1s", "--duration=5s", "--load-jobs=1"];
    let long = id(place.run(&[&args[..], &common[..]].concat()));
    let result = place.run(&["compare", &short, &long, "--json"]).code(0).json();
    let window = result["window"].as_f64().unwrap();
    assert!((1.5..3.5).contains(&window), "{window}");
    assert!(result["warnings"].to_string().contains("are compared"), "{}", result["warnings"]);

    // The short one's server had one processor, so it tells of an instance with one.
    let prices = place.path("prices.toml");
    let example = place.run(&["cost", "--example"]).code(0).out();
    let small = example.replace("processors = 4 ", "processors = 1 ");
    fs::write(&prices, small.replace("memory_gb = 16", "memory_gb = 1.0738")).unwrap();
    let file = prices.display().to_string();
    let claim = |run: &str| {
        let cost = ["cost", run, "--prices", &file, "--instance", "db.example.4xlarge"];
        let cost = place.run(&[&cost[..], &["--rate", "1", "--json"]].concat()).code(0).json();
        cost[0]["smaller"][0].clone()
    };
    let tested = claim(&short);
    // Two seconds of a busy machine may have an interval that says neither yes nor no.
    let verdict = &tested["verdict"]["tested"];
    assert!(verdict["does"].as_f64().unwrap() > 1.0, "{tested}");
    assert_ne!(verdict["would_do"], false, "{tested}");
    assert!(tested["verdict"].to_string().contains("its disk"), "{tested}");
    let has_its_memory = !tested["verdict"].to_string().contains("memory");
    assert_eq!(has_its_memory, !memory.is_empty(), "{tested}");
    if std::thread::available_parallelism().unwrap().get() > 1 {
        let untested = claim(&long);
        let to_test = untested["verdict"]["not_tested"]["to_test"].as_str().unwrap();
        assert!(to_test.contains("--processors 1"), "{untested}");
        let predicted = place.run(&["what-if", &short]).code(0).out();
        assert!(predicted.contains("server was held to 1 of"), "{predicted}");
    }
    place.run(&["run", "--processors=4000000", "-q"]).code(1).says(&["--processors"]);

    place.run(&["compare", &short, &short]).misused(&["named twice"]);
    place.run(&["compare", &short, "label:nobody"]).refuses(&["'nobody'", "walwright runs"]);
    place.run(&["compare", &short, "20010101-000000-xxx"]).refuses(&["there is no run"]);
    place.run(&["compare", &short]).code(2);
}

/// Whether this process may hold a server to less memory: as root, where control groups limit it.
fn may_limit_memory() -> bool {
    let given = fs::read_to_string("/sys/fs/cgroup/cgroup.subtree_control").unwrap_or_default();
    let mounted = std::path::Path::new("/sys/fs/cgroup/memory/cgroup.procs").exists();
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    is_root && (mounted || given.contains("memory"))
}
