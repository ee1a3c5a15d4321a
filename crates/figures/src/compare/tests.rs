//! Comparisons of small records.

use std::time::Duration;

use walwright_record::{Record, RunId, Scalar, Source, Timestamp};
use walwright_testing::{Build, row, second};

use super::*;

/// A run of `seconds` that began at `start` minutes, with a transaction each millisecond
/// over `rate` thousand a second, each with `wal` bytes.
fn run(name: &str, start: i64, seconds: u32, per_second: u64, wal: f64) -> Record {
    let mut build = Build::new();
    let latency = Duration::from_nanos(1_000_000_000 / per_second * 10);
    for s in 0..seconds {
        // A small wobble, so that there is a precision.
        let count = per_second + u64::from(s % 3);
        build.interval(f64::from(s), &vec![latency; count as usize]);
    }
    build.measure(0.0, f64::from(seconds));
    let mut total = 0.0;
    for s in 0..=seconds {
        let t = f64::from(s);
        build.sample(t, Source::Wal, [row([("wal_bytes", total * wal)])]);
        let mut statement = row([("calls", total), ("total_exec_time", total * 0.5)]);
        statement.set("queryid", start * 7).set("userid", 1_i64).set("dbid", start);
        statement.set("query", Scalar::from("UPDATE  a\n SET x = $1"));
        build.sample(t, Source::Statements, [statement]);
        total += (per_second + u64::from(s % 3)) as f64;
    }
    build.setting("max_wal_size", "1GB").setting("port", name);
    let mut record = build.record;
    record.header.id = RunId(name.to_owned());
    record.header.started = Timestamp(record.header.started.0 + start * 60_000_000);
    record
}

fn group(name: &str, runs: Vec<Record>) -> RunGroup {
    RunGroup { name: name.to_owned(), runs }
}

fn figure<'a>(comparison: &'a Comparison, key: &str) -> &'a ComparedFigure {
    comparison.figures.iter().find(|figure| figure.key == key).unwrap()
}

fn change(comparison: &Comparison, key: &str) -> f64 {
    figure(comparison, key).effects[0].as_ref().unwrap().change.center
}

#[test]
fn one_against_one_gives_the_effect_and_says_that_it_proves_nothing() {
    let groups = vec![
        group("a", vec![run("a", 0, 40, 500, 1_000.0)]),
        group("b", vec![run("b", 2, 40, 600, 800.0)]),
    ];
    let comparison = compare(groups).unwrap();
    assert!((change(&comparison, "throughput") - 0.2).abs() < 0.001);
    assert!((change(&comparison, "wal_bytes") + 0.2).abs() < 0.001);
    assert!((change(&comparison, "latency_p50") + 1.0 / 6.0).abs() < 0.002);
    let finding = &comparison.findings[0];
    assert_eq!((finding.verdict, finding.better), (Verdict::Unproven, Some(true)));
    assert!(finding.text.contains("20.0 % higher"), "{}", finding.text);
    assert!(finding.text.contains("proves nothing"), "{}", finding.text);
    let effect = finding.effect.as_ref().unwrap();
    assert!(effect.change.interval.is_some() && effect.p_value.is_none());
}

#[test]
fn windows_of_different_length_are_cut_to_one() {
    // E2: the long run writes more in all, and the same per transaction.
    let groups = vec![
        group("short", vec![run("a", 0, 30, 500, 1_200.0)]),
        group("long", vec![run("b", 5, 120, 500, 1_260.0)]),
    ];
    let comparison = compare(groups).unwrap();
    assert_eq!(comparison.window, Duration::from_secs(30));
    assert!((change(&comparison, "wal_bytes") - 0.05).abs() < 1e-6);
    let curve = &comparison.curves[1];
    assert!((curve.window.1 - curve.window.0 - 30.0).abs() < 1e-6, "{:?}", curve.window);
    assert!(curve.throughput.last().unwrap().0 > 100.0, "the curve goes on");
    assert!(comparison.warnings.iter().any(|warning| warning.contains("first 30 s are compared")));
}

#[test]
fn runs_that_took_turns_are_compared_pair_by_pair() {
    // The machine is slower in each block, which pairs take out.
    let rates = [500, 460, 430, 400, 370, 350];
    let runs = |offset: i64, factor: f64| -> Vec<Record> {
        (0..6)
            .map(|n| {
                let rate = (rates[n] as f64 * factor * (1.0 + 0.004 * (n % 2) as f64)) as u64;
                let minutes = 4 * n as i64 + offset;
                run(&format!("{offset}-{n}"), minutes, 30, rate, 1_000.0)
            })
            .collect()
    };
    let comparison = compare(vec![group("a", runs(0, 1.0)), group("b", runs(2, 1.1))]).unwrap();
    let finding = &comparison.findings[0];
    let effect = finding.effect.as_ref().unwrap();
    assert_eq!(effect.basis, Basis::Pairs { blocks: 6 });
    assert_eq!(finding.verdict, Verdict::Changed, "{}", finding.text);
    assert!(effect.change.interval.unwrap().contains(0.1), "{effect:?}");
    assert!(finding.text.contains("p = 0.031"), "{}", finding.text);
    assert!(comparison.warnings.iter().any(|warning| warning.contains("scatter by")));
}

#[test]
fn three_runs_a_side_only_screen() {
    let runs = |offset: i64, rate: u64| -> Vec<Record> {
        (0..3)
            .map(|n| run(&format!("{offset}-{n}"), offset + 2 * n, 30, rate + n as u64, 1e3))
            .collect()
    };
    let comparison = compare(vec![group("a", runs(0, 500)), group("b", runs(20, 600))]).unwrap();
    let finding = &comparison.findings[0];
    assert_eq!(finding.effect.as_ref().unwrap().basis, Basis::Groups { base: 3, other: 3 });
    assert_eq!(finding.verdict, Verdict::Screened, "{}", finding.text);
    assert!(comparison.warnings.iter().any(|warning| warning.contains("did not take turns")));
}

#[test]
fn statements_are_matched_by_text_and_not_by_id() {
    let mut other = run("b", 2, 30, 500, 1_000.0);
    for sample in other.samples.get_mut(&Source::Statements).unwrap() {
        for row in &mut sample.rows {
            row.set("query", Scalar::from("UPDATE a SET x = $1"));
            let calls = row.number("calls").unwrap();
            row.set("total_exec_time", calls * 2.0);
        }
    }
    let groups = vec![group("a", vec![run("a", 0, 30, 500, 1_000.0)]), group("b", vec![other])];
    let statements = compare(groups).unwrap().statements;
    assert_eq!(statements.len(), 1);
    let [base, other] = [0, 1].map(|group| statements[0].groups[group].unwrap());
    assert!((base.mean_time.unwrap() - 0.000_5).abs() < 1e-9);
    assert!((other.mean_time.unwrap() - 0.002).abs() < 1e-9);
    assert!((statements[0].time_change[0].unwrap() - 0.001_5).abs() < 1e-5);
}

#[test]
fn what_could_explain_a_change_is_told_and_places_are_not() {
    let mut other = run("b", 2, 30, 500, 1_000.0);
    other.settings[0].shown = "16GB".to_owned();
    other.header.workload = "simple-update".to_owned();
    let groups = vec![group("a", vec![run("a", 0, 30, 500, 1_000.0)]), group("b", vec![other])];
    let comparison = compare(groups).unwrap();
    let names: Vec<&str> = comparison.differences.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["workload", "max_wal_size"]);
    assert_eq!(comparison.differences[1].values[1].as_deref(), Some("16GB"));
    let said = &comparison.findings[0].text;
    let first = "b did other work than a (workload tpcb → simple-update), so";
    assert!(said.starts_with(first) && said.contains("Throughput of b"), "{said}");
}

#[test]
fn runs_of_different_units_are_brought_to_commits() {
    let mut watched = run("b", 2, 30, 500, 1_000.0);
    watched.intervals.clear();
    for s in 0..=30 {
        let t = f64::from(s);
        let sample = walwright_record::Sample {
            at: second(t),
            source: Source::Database,
            rows: vec![row([("xact_commit", 250.0 * t)])],
        };
        watched.samples.entry(Source::Database).or_default().push(sample);
    }
    let groups = vec![group("a", vec![run("a", 0, 30, 500, 1_000.0)]), group("b", vec![watched])];
    let comparison = compare(groups).unwrap();
    assert_eq!(comparison.unit, WorkUnit::Commit);
    // The baseline has no commits in its record, so nothing is made up.
    assert_eq!(comparison.findings[0].verdict, Verdict::Unknown);
    assert!(comparison.warnings.iter().any(|warning| warning.contains("count different things")));
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let a = || run("a", 0, 30, 500, 1.0);
    let refused = |groups| compare(groups).unwrap_err();
    assert_eq!(refused(vec![group("a", vec![a()])]), CompareError::OneGroup);
    assert_eq!(
        refused(vec![group("a", vec![a()]), group("b", vec![a()])]),
        CompareError::Twice(RunId("a".to_owned()))
    );
    assert_eq!(
        refused(vec![group("a", vec![a()]), group("b", Vec::new())]),
        CompareError::EmptyGroup("b".to_owned())
    );
    let mut b = run("b", 2, 30, 500, 1.0);
    b.phases.clear();
    assert_eq!(
        refused(vec![group("a", vec![a()]), group("b", vec![b])]),
        CompareError::NoWindow(RunId("b".to_owned()))
    );
}

#[test]
fn a_comparison_is_json_in_seconds() {
    let groups = vec![
        group("a", vec![run("a", 0, 30, 500, 1e3)]),
        group("b", vec![run("b", 2, 30, 600, 1e3)]),
    ];
    let json = serde_json::to_value(compare(groups).unwrap()).unwrap();
    assert_eq!(json["window"], 30.0);
    assert_eq!(json["findings"][0]["verdict"], "unproven");
    assert_eq!(json["figures"][0]["key"], "throughput");
    assert_eq!(json["figures"][0]["effects"][0]["basis"], "within_runs");
}
