//! The formats, and how a file's own is recognised.

use std::fmt;
use std::str::FromStr;

use crate::plain_csv::{BEGAN, ENDED, LATENCY};
use crate::printed;

/// A format of client-side results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `pgbench --log`: a line for each transaction. A column of lag or of retries
    /// is told from the values.
    Pgbench,
    /// The same with `--rate`: the seventh column is the lag.
    PgbenchLag,
    /// The same with `--max-tries`: the seventh column counts retries.
    PgbenchRetries,
    /// `pgbench --log --aggregate-interval`: a line for each interval.
    PgbenchAggregate,
    /// What pgbench prints when it ends, and with `-P` meanwhile.
    PgbenchSummary,
    /// What sysbench prints when it ends, and with `--report-interval` meanwhile.
    SysbenchSummary,
    /// What HammerDB prints of its TPROC-C test, or its file of times.
    HammerDb,
    /// What BenchBase prints.
    Benchbase,
    /// BenchBase's `.summary.json`.
    BenchbaseSummary,
    /// BenchBase's `.raw.csv`: a line for each transaction.
    BenchbaseRaw,
    /// BenchBase's `.results.csv` or `.samples.csv`: a line for some seconds.
    BenchbaseResults,
    /// Locust's `_stats.csv`: totals by request.
    LocustStats,
    /// Locust's `_stats_history.csv`: totals so far, about each second.
    LocustHistory,
    /// Locust's `_failures.csv`: failures by request and error.
    LocustFailures,
    /// `k6 run --out csv=FILE`: a line for each measurement.
    K6Csv,
    /// `k6 run --summary-export FILE`, or the data that `handleSummary` gets, as JSON.
    K6Summary,
    /// What Locust prints.
    LocustText,
    /// What k6 prints when it ends.
    K6Text,
    /// `autocannon --json`.
    Autocannon,
    /// What autocannon prints when it ends.
    AutocannonTable,
    /// What oha prints when it ends.
    Oha,
    /// `oha --output-format json`.
    OhaJson,
    /// What wrk and wrk2 print when they end.
    Wrk,
    /// JMeter's CSV (JTL): a line for each sample.
    Jmeter,
    /// What JMeter prints.
    JmeterSummary,
    /// CSV with a header that names time, operation, latency and status.
    Csv,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 26] = [
        Format::Pgbench,
        Format::PgbenchLag,
        Format::PgbenchRetries,
        Format::PgbenchAggregate,
        Format::PgbenchSummary,
        Format::SysbenchSummary,
        Format::HammerDb,
        Format::Benchbase,
        Format::BenchbaseSummary,
        Format::BenchbaseRaw,
        Format::BenchbaseResults,
        Format::LocustStats,
        Format::LocustHistory,
        Format::LocustFailures,
        Format::LocustText,
        Format::K6Csv,
        Format::K6Summary,
        Format::K6Text,
        Format::Autocannon,
        Format::AutocannonTable,
        Format::Oha,
        Format::OhaJson,
        Format::Wrk,
        Format::Jmeter,
        Format::JmeterSummary,
        Format::Csv,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Pgbench => "pgbench",
            Format::PgbenchLag => "pgbench-lag",
            Format::PgbenchRetries => "pgbench-retries",
            Format::PgbenchAggregate => "pgbench-aggregate",
            Format::PgbenchSummary => "pgbench-summary",
            Format::SysbenchSummary => "sysbench-summary",
            Format::HammerDb => "hammerdb",
            Format::Benchbase => "benchbase",
            Format::BenchbaseSummary => "benchbase-summary",
            Format::BenchbaseRaw => "benchbase-raw",
            Format::BenchbaseResults => "benchbase-results",
            Format::LocustStats => "locust-stats",
            Format::LocustHistory => "locust-history",
            Format::LocustFailures => "locust-failures",
            Format::LocustText => "locust-text",
            Format::K6Csv => "k6-csv",
            Format::K6Summary => "k6-summary",
            Format::K6Text => "k6-text",
            Format::Autocannon => "autocannon",
            Format::AutocannonTable => "autocannon-table",
            Format::Oha => "oha",
            Format::OhaJson => "oha-json",
            Format::Wrk => "wrk",
            Format::Jmeter => "jmeter",
            Format::JmeterSummary => "jmeter-summary",
            Format::Csv => "csv",
        }
    }

    /// What wrote such a file, for display.
    pub fn label(self) -> &'static str {
        match self {
            Format::Pgbench | Format::PgbenchLag | Format::PgbenchRetries => "pgbench log",
            Format::PgbenchAggregate => "pgbench aggregate log",
            Format::PgbenchSummary => "pgbench summary",
            Format::SysbenchSummary => "sysbench summary",
            Format::HammerDb => "HammerDB result",
            Format::Benchbase => "BenchBase result",
            Format::BenchbaseSummary => "BenchBase summary",
            Format::BenchbaseRaw => "BenchBase raw CSV",
            Format::BenchbaseResults => "BenchBase results CSV",
            Format::LocustStats => "Locust statistics",
            Format::LocustHistory => "Locust statistics history",
            Format::LocustFailures => "Locust failures",
            Format::LocustText => "Locust table",
            Format::K6Csv => "k6 CSV",
            Format::K6Summary => "k6 summary",
            Format::K6Text => "k6 summary",
            Format::Autocannon => "autocannon result",
            Format::AutocannonTable => "autocannon table",
            Format::Oha | Format::OhaJson => "oha summary",
            Format::Wrk => "wrk summary",
            Format::Jmeter => "JMeter CSV",
            Format::JmeterSummary => "JMeter summary",
            Format::Csv => "CSV of operations",
        }
    }

    /// All names in a row.
    pub(crate) fn names() -> String {
        Format::ALL.map(Format::name).join(", ")
    }

    /// The format that the beginning of a file shows; `None` where none does.
    pub(crate) fn recognise(head: &str) -> Option<Format> {
        let first = head.lines().find(|line| !line.trim().is_empty())?.trim();
        if first.starts_with('{') {
            let has = |key: &str| head.contains(&format!("\"{key}\""));
            // oha's result has metrics, too.
            return if has("latencyPercentiles") && has("summary") {
                Some(Format::OhaJson)
            } else if has("metrics") {
                Some(Format::K6Summary)
            } else if has("Latency Distribution") && has("Throughput (requests/second)") {
                Some(Format::BenchbaseSummary)
            } else if has("latency") && (has("requests") || has("throughput")) {
                Some(Format::Autocannon)
            } else {
                None
            };
        }
        let words: Vec<&str> = first.split_ascii_whitespace().collect();
        if is_pgbench(&words) {
            return Some(Format::Pgbench);
        }
        if is_pgbench_aggregate(&words) {
            return Some(Format::PgbenchAggregate);
        }
        if let Some(format) = printed::recognise(head) {
            return Some(format);
        }
        let header = first.trim_start_matches('\u{feff}').to_ascii_lowercase().replace('"', "");
        let has = |column: &str| header.split(',').any(|name| name.trim() == column);
        if has("timestamp") && has("elapsed") && has("success") {
            Some(Format::Jmeter)
        } else if has("transaction name") && has("latency (microseconds)") {
            Some(Format::BenchbaseRaw)
        } else if has("time (seconds)") && has("throughput (requests/second)") {
            Some(Format::BenchbaseResults)
        } else if has("metric_name") && has("metric_value") {
            Some(Format::K6Csv)
        } else if has("user count") && has("timestamp") {
            Some(Format::LocustHistory)
        } else if has("occurrences") && has("error") {
            Some(Format::LocustFailures)
        } else if has("type") && has("name") && has("request count") {
            Some(Format::LocustStats)
        } else if is_header(&header) {
            Some(Format::Csv)
        } else {
            None
        }
    }
}

/// `client transaction latency script seconds microseconds [lag] [retries]`
fn is_pgbench(words: &[&str]) -> bool {
    let number = |place: usize| words.get(place).and_then(|word| word.parse::<i64>().ok());
    (6..=8).contains(&words.len())
        && number(0).is_some_and(|client| (0..1_000_000).contains(&client))
        && number(3).is_some()
        && number(4).is_some_and(|seconds| seconds > 100_000_000)
        && number(5).is_some_and(|micros| (0..1_000_000).contains(&micros))
}

/// `seconds count Σlatency Σlatency² min max …`
fn is_pgbench_aggregate(words: &[&str]) -> bool {
    words.len() >= 6
        && words.iter().all(|word| word.parse::<f64>().is_ok())
        && words[0].parse::<i64>().is_ok_and(|seconds| seconds > 100_000_000)
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Format, String> {
        Format::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            format!("'{name}' is no format of results known here; known are {}", Format::names())
        })
    }
}

/// Whether a line in lower case without quotes is such a header.
fn is_header(line: &str) -> bool {
    let has = |names: &[&str]| line.split(',').any(|name| names.contains(&name.trim()));
    let latency = line.split(',').any(|name| LATENCY.iter().any(|l| name.trim().starts_with(l)));
    (has(&ENDED) || has(&BEGAN)) && latency
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_shows_its_format() {
        for (head, format) in [
            ("0 1 4533 0 1795132800 12345\n", Format::Pgbench),
            ("3 77 skipped 0 1795132800 12345 77123\n", Format::Pgbench),
            (
                "1649114136 5815 27552565 177846919143 1078 21716 0 0 0 0 0 0 0 0 0\n",
                Format::PgbenchAggregate,
            ),
            ("1649114136 5815 27552565 177846919143 1078 21716\n", Format::PgbenchAggregate),
            ("Type,Name,Request Count,Failure Count,Median Response Time\n", Format::LocustStats),
            ("Timestamp,User Count,Type,Name,Requests/s\n", Format::LocustHistory),
            ("Method,Name,Error,Occurrences\n", Format::LocustFailures),
            ("metric_name,timestamp,metric_value,check\n", Format::K6Csv),
            ("{\n \"metrics\": {}}", Format::K6Summary),
            ("{\"url\":\"x\",\"requests\":{},\"latency\":{}}", Format::Autocannon),
            ("time,operation,latency_ms,status\n", Format::Csv),
            ("timeStamp,elapsed,label,responseCode,success,bytes\n", Format::Jmeter),
            (
                "Transaction Type Index,Transaction Name,Start Time (microseconds),Latency (microseconds)\n",
                Format::BenchbaseRaw,
            ),
            (
                "Time (seconds),Throughput (requests/second),Average Latency (millisecond)\n",
                Format::BenchbaseResults,
            ),
        ] {
            assert_eq!(Format::recognise(head), Some(format), "{head}");
        }
        for other in ["", "hello world\n", "{\"a\":1}", "a,b,c\n", "%PDF-1.4\n1 2 3"] {
            assert_eq!(Format::recognise(other), None, "{other}");
        }
    }

    #[test]
    fn names_are_read_back() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert!("gatling".parse::<Format>().unwrap_err().contains("k6-csv"));
    }
}
