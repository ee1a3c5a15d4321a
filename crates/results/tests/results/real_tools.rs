//! Files that the tools themselves wrote, against a small HTTP server that fails now and
//! then: Locust 2.47 (`--csv`, `--csv-full-history`), autocannon 9.0 (`--json`), k6 0.54
//! (`--out csv`, `--summary-export`, `handleSummary`). What a parser assumes about columns,
//! quoting and empty values is checked here against what is written.

use std::collections::BTreeMap;
use std::time::Duration;

use walwright_results::{Results, read};

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
