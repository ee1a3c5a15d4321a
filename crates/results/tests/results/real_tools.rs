//! Files that the tools themselves wrote, against a small HTTP server that fails now and
//! then: Locust 2.47 (`--csv`, `--csv-full-history`, what it prints), autocannon 9.0 (`--json`,
//! what it prints), k6 0.54 (`--out csv`, `--summary-export`, `handleSummary`), wrk 4.1; and
//! what pgbench 18 (`-P 1`) and sysbench 1.0 (`--report-interval=1`) print. What a parser assumes about columns,
//! quoting and empty values is checked here against what is written.

use std::collections::BTreeMap;
use std::time::Duration;

use walwright_record::{ClientDetail, Timestamp};
use walwright_results::{Printed, Results, read};

fn results(name: &str, bytes: &[u8]) -> Results {
    // Each is recognised by what is in it.
    read(name, None, bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn failures(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
    of.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect()
}

#[test]
fn locust_statistics() {
    let log = results("out_stats.csv", include_bytes!("real/locust_stats.csv")).log;
    let names: Vec<&str> = log.totals.iter().map(|totals| totals.name.as_str()).collect();
    assert_eq!(names, ["all requests", "GET /health", "GET /item/\"1\", big", "POST /order"]);
    let all = &log.totals[0];
    assert_eq!((all.count, all.failed, log.succeeded), (Some(264), Some(13), Some(251)));
    assert!(all.throughput.is_some_and(|rate| rate > 1.0));
    // Means and extremes have all decimals of a float, percentiles are whole.
    let micros = |time: Option<Duration>| time.map(|time| time.as_micros());
    assert_eq!((micros(all.mean), micros(all.min)), (Some(54_449), Some(36_617)));
    let of = |percent: f64| all.percentiles.iter().find(|(p, _)| *p == percent).map(|(_, t)| *t);
    assert_eq!(of(50.0), Some(Duration::from_millis(55)));
    assert_eq!(of(99.9), Some(Duration::from_millis(67)));
    assert_eq!(all.percentiles.len(), 11);
}

#[test]
fn locust_failures_with_quotes_and_times() {
    let log = results("out_failures.csv", include_bytes!("real/locust_failures.csv")).log;
    let kinds = [("CatchResponseError('too slow, really')", 10), ("HTTP 500", 3)];
    assert_eq!(log.failures, failures(&kinds));
}

#[test]
fn locust_history_of_all_requests() {
    let history = results("out_stats_history.csv", include_bytes!("real/locust_stats_history.csv"));
    assert_eq!(history.operations, ["all requests"]);
    let counted: Vec<u64> = history.intervals.iter().map(|i| i.scripts[0].transactions).collect();
    // 27, 79, 134 and 187 requests so far, of them 1, 2, 2 and 3 failed.
    assert_eq!(counted, [26, 51, 55, 52]);
    let clients: Vec<u32> = history.intervals.iter().map(|i| i.clients).collect();
    assert_eq!(clients, [2, 4, 4, 4]);
    // (79 · 52.976 − 27 · 52.232) / 52 ms.
    let (count, seconds) = history.intervals[1].scripts[0].latency_sum();
    assert!((seconds / count as f64 - 0.053_362).abs() < 1e-5, "{seconds} {count}");
    assert_eq!(history.log.failures, failures(&[("failed", 3)]));
}

#[test]
fn locust_history_of_each_request() {
    let history = results("out_stats_history.csv", include_bytes!("real/locust_full_history.csv"));
    let mut operations = history.operations.clone();
    operations.sort();
    assert_eq!(operations, ["GET /health", "GET /item/\"1\", big", "POST /order"]);
    // The first row of all requests stands alone; the rows of all say what their parts say.
    assert_eq!(history.intervals.len(), 4);
    assert_eq!(history.log.succeeded, Some(211 - 9));
    assert_eq!(history.log.failures, failures(&[("failed", 9)]));
}

#[test]
fn autocannon_answers_that_failed() {
    let log = results("a.json", include_bytes!("real/autocannon.json")).log;
    assert_eq!(log.succeeded, Some(283));
    assert_eq!(log.failures, failures(&[("HTTP 500", 13)]));
    let totals = &log.totals[0];
    assert_eq!((totals.count, totals.failed), (Some(296), Some(13)));
    assert_eq!(totals.mean, Some(Duration::from_micros(52_980)));
    assert_eq!(totals.max, Some(Duration::from_millis(67)));
    assert!(totals.percentiles.contains(&(97.5, Duration::from_millis(64))), "{totals:?}");
    let window = log.first.zip(log.last).map(|(first, last)| last.since(first));
    assert_eq!(window, Some(Duration::from_millis(4_009)));
}

#[test]
fn autocannon_requests_without_an_answer() {
    let log = results("a.json", include_bytes!("real/autocannon_timeouts.json")).log;
    // Six errors, all of them timeouts, are in no count of requests.
    assert_eq!(log.succeeded, Some(165));
    assert_eq!(log.failures, failures(&[("timeout", 6)]));
}

#[test]
fn k6_requests_one_by_one() {
    let results = results("k6.csv", include_bytes!("real/k6.csv"));
    let mut operations = results.operations.clone();
    operations.sort();
    assert_eq!(
        operations,
        ["GET http://127.0.0.1:1/refused", "GET http://127.0.0.1:18099/item/1?a=1,2", "POST order"]
    );
    assert_eq!(results.log.failures, failures(&[("HTTP 500", 1), ("k6 error 1212", 6)]));
    assert_eq!(results.log.succeeded, Some(40));
    // Seconds 46, 47 and 49: the lines of the second between were cut out of the file.
    assert_eq!(results.intervals.len(), 3);
}

#[test]
fn k6_times_in_microseconds() {
    let log = results("k6.csv", include_bytes!("real/k6_micro.csv")).log;
    assert_eq!(log.last.map(|last| last.0), Some(1_795_245_253_489_606));
    assert_eq!((log.succeeded, log.failures), (Some(23), failures(&[("HTTP 500", 1)])));
}

#[test]
fn k6_summaries_in_both_forms() {
    for (name, bytes) in [
        ("export.json", &include_bytes!("real/k6_export.json")[..]),
        ("data.json", include_bytes!("real/k6_summary_data.json")),
    ] {
        let log = results(name, bytes).log;
        let all = &log.totals[0];
        assert_eq!((all.name.as_str(), all.count), ("all requests", Some(164)), "{name}");
        let failed = if name == "export.json" { 9 } else { 7 };
        assert_eq!(log.failures, failures(&[("failed", failed)]), "{name}");
        assert_eq!(log.succeeded, Some(164 - failed), "{name}");
        let percents: Vec<f64> = all.percentiles.iter().map(|(percent, _)| *percent).collect();
        assert_eq!(percents, [50.0, 90.0, 95.0], "{name}");
        assert_eq!((log.totals[1].name.as_str(), log.totals[1].count), ("iterations", Some(79)));
    }
}

/// What a tool prints, each line at its moment: the reports `first` seconds after the origin
/// and then one a second, the others at once.
fn printed(text: &str, is_report: fn(&str) -> bool) -> Results {
    let mut printed = Printed::new(1);
    let mut at = ORIGIN;
    for line in text.split_inclusive('\n') {
        if is_report(line) {
            at += 1_000_000;
        }
        printed.take(0, line.as_bytes(), Timestamp(at));
    }
    printed.results("output").expect("a tool that is known")
}

const ORIGIN: i64 = 1_795_132_800_000_000;

const PGBENCH: &str = include_str!("real/pgbench_progress.txt");
const SYSBENCH: &str = include_str!("real/sysbench.txt");

#[test]
fn pgbench_reports_are_a_timeline() {
    let results = printed(PGBENCH, |line| line.starts_with("progress: "));
    assert_eq!(results.log.format, "pgbench summary");
    assert_eq!(results.log.detail, ClientDetail::Intervals);
    let counts: Vec<u64> = results.intervals.iter().map(|i| i.scripts[0].transactions).collect();
    assert_eq!(counts, [2_179, 2_223, 1_659]);
    assert_eq!((results.intervals[0].start, results.intervals[0].clients), (Timestamp(ORIGIN), 2));
    let (count, seconds) = results.intervals[0].scripts[0].latency_sum();
    assert!((seconds / count as f64 - 0.000_904).abs() < 1e-9);
    let totals = &results.log.totals[0];
    assert_eq!((totals.count, totals.throughput), (Some(6_067), Some(2_026.018_661)));
    assert_eq!(totals.mean, Some(Duration::from_micros(984)));
    // The same as a file has no clock.
    let file = read("out.txt", None, PGBENCH.as_bytes()).unwrap();
    assert_eq!((file.log.detail, file.intervals.len()), (ClientDetail::Totals, 0));
    assert_eq!(file.log.totals, results.log.totals);
}

#[test]
fn sysbench_reports_are_a_timeline_without_latencies() {
    let results = printed(SYSBENCH, |line| line.starts_with('['));
    let counts: Vec<u64> = results.intervals.iter().map(|i| i.scripts[0].transactions).collect();
    assert_eq!(counts, [14_717, 13_081, 13_988]);
    assert_eq!(results.intervals[0].clients, 2);
    assert_eq!(results.intervals[0].scripts[0].latency_sum(), (0, 0.0));
    let totals = &results.log.totals[0];
    assert_eq!((totals.count, totals.throughput), (Some(41_797), Some(13_923.18)));
    assert_eq!(totals.percentiles, [(95.0, Duration::from_micros(180))]);
}

#[test]
fn wrk_is_read() {
    let log = results("wrk.txt", include_bytes!("real/wrk.txt")).log;
    assert_eq!((log.format.as_str(), log.succeeded), ("wrk summary", Some(261)));
    assert_eq!(log.failures, failures(&[("not 2xx or 3xx", 7)]));
    let totals = &log.totals[0];
    assert_eq!((totals.count, totals.throughput), (Some(268), Some(88.98)));
    assert_eq!(totals.mean, Some(Duration::from_micros(44_620)));
    assert_eq!(totals.max, Some(Duration::from_micros(52_020)));
    assert_eq!(totals.percentiles[3], (99.0, Duration::from_micros(51_990)));
}

#[test]
fn the_table_of_autocannon_is_read() {
    let log = results("a.txt", include_bytes!("real/autocannon_table.txt")).log;
    assert_eq!((log.format.as_str(), log.succeeded), ("autocannon table", Some(267)));
    assert_eq!(log.failures, failures(&[("not 2xx", 1)]));
    let totals = &log.totals[0];
    assert_eq!((totals.count, totals.throughput), (Some(268), Some(89.34)));
    assert_eq!(totals.mean, Some(Duration::from_micros(43_980)));
    assert_eq!(totals.percentiles[2], (97.5, Duration::from_millis(51)));
}

#[test]
fn the_table_of_locust_is_read() {
    let log = results("l.txt", include_bytes!("real/locust.txt")).log;
    assert_eq!((log.format.as_str(), log.succeeded), ("Locust table", Some(214)));
    assert_eq!(log.failures, failures(&[("failed", 8)]));
    let totals = &log.totals[0];
    assert_eq!((totals.count, totals.throughput), (Some(222), Some(63.02)));
    assert_eq!(totals.percentiles[7], (99.0, Duration::from_millis(120)));
}

#[test]
fn json_among_other_lines_is_found() {
    let json = include_str!("real/autocannon.json");
    let results = printed(&format!("hello\n{json}\nbye {{\n"), |_| false);
    assert_eq!(results.log.format, "autocannon result");
    assert!(printed_nothing("hello\n{ \"a\": 1 }\n{ broken\n"));
}

#[test]
fn what_no_tool_prints_says_nothing() {
    for text in [
        "",
        "transactions: 5\nmin: 3\nRequests/sec: 9\n",
        "progress: 50 %\nlatency average = 3 ms\n",
        "summary = of it all\n[200] OK responses\n",
        "Aggregated 5 | 6 | 7\nLatency 5ms\n3 requests in all\n",
    ] {
        assert!(printed_nothing(text), "{text}");
    }
}

fn printed_nothing(text: &str) -> bool {
    let mut printed = Printed::new(1);
    printed.take(0, text.as_bytes(), Timestamp(ORIGIN));
    printed.results("output").is_none()
}
