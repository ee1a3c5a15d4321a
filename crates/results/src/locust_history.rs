//! Locust's `_stats_history.csv`: what was counted so far, about each second.
//!
//! `Timestamp,User Count,Type,Name,Requests/s,Failures/s,50%,…,Total Request
//! Count,Total Failure Count,Total Median Response Time,Total Average Response
//! Time,Total Min Response Time,Total Max Response Time,Total Average Content Size`.
//! With `--csv-full-history` there are rows for each request beside those of all
//! (`Aggregated`). The totals run from the start of the test, so their differences
//! are what happened between two rows: counts, and the sum of response times. The
//! percentile columns are of a sliding window and cannot be differenced; they are left out.
//! Response times of failed requests are in the sums, too.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::time::Duration;

use walwright_record::{
    ClientDetail, ClientUnit, LatencySums, LoadInterval, ScriptInterval, Timestamp,
};

use crate::collect::{MOST_CELLS, MOST_SECONDS, TOO_MANY_CELLS, TOO_MANY_SECONDS};
use crate::line::{Source, Table};
use crate::locust_stats::{ALL, called};
use crate::moment::moment;
use crate::results::empty_log;
use crate::{Results, ResultsError};

/// Totals of one request up to a row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sofar {
    count: u64,
    failed: u64,
    /// Seconds.
    sum: f64,
}

/// All rows of one moment.
#[derive(Debug, Default)]
struct Row {
    users: u32,
    totals: HashMap<usize, Sofar>,
}

pub(crate) fn read(source: Source<'_>, from: impl Read) -> Result<Results, ResultsError> {
    let mut table = Table::open(source, from)?;
    let time = table.column("timestamp")?;
    let users = table.column("user count")?;
    let (method, name) = (table.column("type")?, table.column("name")?);
    let count = table.column("total request count")?;
    let failed = table.column("total failure count")?;
    let mean = table.column("total average response time")?;
    let mut names: Vec<String> = Vec::new();
    let mut rows: BTreeMap<i64, Row> = BTreeMap::new();
    let mut broken = None;
    while let Some(fields) = table.next()? {
        if let Some(error) = broken.take() {
            return Err(error);
        }
        let at = moment(&fields.text(time)).filter(|_| fields.is_whole());
        let Some((at, counted)) = at.zip(fields.count(count)) else {
            broken = Some(
                source
                    .line(fields.line, "expected a timestamp in seconds and a total request count"),
            );
            continue;
        };
        let name = fields.text(name);
        let name = if name == ALL || name == "Total" {
            ALL.to_owned()
        } else {
            called(&fields.text(method), &name)
        };
        let place = names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        if rows.len() > MOST_SECONDS {
            return Err(source.line(fields.line, TOO_MANY_SECONDS));
        }
        if names.len().saturating_mul(rows.len()) > MOST_CELLS {
            return Err(source.line(fields.line, TOO_MANY_CELLS));
        }
        let row = rows.entry(at.at.0).or_default();
        row.users = fields.count(users).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let sum = fields.number(mean).unwrap_or(0.0).max(0.0) / 1e3 * counted as f64;
        let failed = fields.count(failed).unwrap_or(0);
        row.totals.insert(place, Sofar { count: counted, failed, sum });
    }
    if let (Some(error), true) = (broken, rows.is_empty()) {
        return Err(error);
    }
    // Rows of single requests, where there are some, say all that the row of all says.
    let single = names.iter().any(|name| name != ALL);
    let kept: Vec<usize> =
        (0..names.len()).filter(|place| single != (names[*place] == ALL)).collect();
    let intervals = differences(&rows, &kept);
    if intervals.is_empty() {
        return Err(source.whole(
            "it holds fewer than two rows with different times, so no interval can be made of it",
        ));
    }
    let mut log = empty_log(source, ClientDetail::Intervals);
    log.first = intervals.first().map(|interval| interval.start);
    log.last = intervals.last().map(|interval| interval.start.plus(interval.length));
    log.succeeded = Some(
        intervals
            .iter()
            .flat_map(|i| &i.scripts)
            .fold(0, |sum, s| s.transactions.saturating_add(sum)),
    );
    for (kind, count) in intervals.iter().flat_map(|i| &i.scripts).flat_map(|s| &s.failures) {
        let sum = log.failures.entry(kind.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
    log.notes.push(
        "it holds totals so far: rates and mean response times of its intervals are known (failed requests are in the means), percentiles are not".to_owned(),
    );
    let operations =
        kept.iter()
            .map(|place| {
                if names[*place] == ALL { "all requests".to_owned() } else { names[*place].clone() }
            })
            .collect();
    Ok(Results { log, unit: ClientUnit::Request, operations, intervals })
}

/// What happened between one row and the next.
fn differences(rows: &BTreeMap<i64, Row>, kept: &[usize]) -> Vec<LoadInterval> {
    let mut before: HashMap<usize, Sofar> = HashMap::new();
    let mut since: Option<i64> = None;
    let mut intervals = Vec::new();
    for (at, row) in rows {
        let scripts: Vec<ScriptInterval> = kept
            .iter()
            .map(|place| {
                let then = before.get(place).copied().unwrap_or_default();
                let now = row.totals.get(place).copied().unwrap_or(then);
                between(then, now)
            })
            .collect();
        // The first row's totals have an unknown past.
        if let Some(since) = since {
            intervals.push(LoadInterval {
                start: Timestamp(since),
                length: Duration::from_micros(at.abs_diff(since)),
                scripts,
                clients: row.users,
                ..LoadInterval::default()
            });
        }
        before.extend(row.totals.iter().map(|(place, sofar)| (*place, *sofar)));
        since = Some(*at);
    }
    intervals
}

fn between(then: Sofar, now: Sofar) -> ScriptInterval {
    // Locust begins anew when its statistics are reset.
    let then = if now.count < then.count { Sofar::default() } else { then };
    let counted = now.count - then.count;
    let failed = now.failed.saturating_sub(then.failed).min(counted);
    let transactions = counted - failed;
    // The mean holds the failed ones; it is taken for both alike.
    let seconds = (now.sum - then.sum).max(0.0);
    let share = if counted > 0 { transactions as f64 / counted as f64 } else { 0.0 };
    ScriptInterval {
        transactions,
        failures: (failed > 0).then(|| ("failed".to_owned(), failed)).into_iter().collect(),
        sums: Some(LatencySums { seconds: seconds * share, ..LatencySums::default() }),
        ..ScriptInterval::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    const HEADER: &str = "Timestamp,User Count,Type,Name,Requests/s,Failures/s,50%,99%,Total Request Count,Total Failure Count,Total Median Response Time,Total Average Response Time,Total Min Response Time,Total Max Response Time,Total Average Content Size\n";

    fn results(rows: &str) -> Result<Results, ResultsError> {
        let source = Source { file: "x_stats_history.csv", format: Format::LocustHistory };
        read(source, format!("{HEADER}{rows}").as_bytes())
    }

    #[test]
    fn totals_so_far_are_differenced() {
        let results = results(
            "1795132800,0,,Aggregated,0,0,N/A,N/A,0,0,0,0.0,0,0,0\n\
             1795132801,10,,Aggregated,50,0,5,9,100,0,5,6.0,2,9,10\n\
             1795132803,20,,Aggregated,99,1,5,9,300,20,5,8.0,2,30,10\n",
        )
        .unwrap();
        assert_eq!(results.operations, ["all requests"]);
        let [first, second] = &results.intervals[..] else { panic!("two intervals") };
        assert_eq!((first.clients, first.scripts[0].transactions), (10, 100));
        assert_eq!(second.length, Duration::from_secs(2));
        assert_eq!(second.scripts[0].failures["failed"], 20);
        assert_eq!(second.scripts[0].transactions, 180);
        // 300 × 8 ms − 100 × 6 ms = 1.8 s of 200 requests: 9 ms each.
        let (count, seconds) = second.scripts[0].latency_sum();
        assert!((seconds / count as f64 - 0.009).abs() < 1e-9);
        assert_eq!(results.log.succeeded, Some(280));
    }

    #[test]
    fn rows_of_single_requests_are_not_counted_twice() {
        let results = results(
            "1795132800,5,GET,/a,0,0,1,1,10,0,1,1.0,1,1,1\n\
             1795132800,5,,Aggregated,0,0,1,1,10,0,1,1.0,1,1,1\n\
             1795132801,5,GET,/a,0,0,1,1,30,0,1,1.0,1,1,1\n\
             1795132801,5,,Aggregated,0,0,1,1,30,0,1,1.0,1,1,1\n",
        )
        .unwrap();
        assert_eq!(results.operations, ["GET /a"]);
        assert_eq!(results.log.succeeded, Some(20));
    }

    #[test]
    fn a_row_cut_off_at_the_end_is_left_out() {
        let rows = "1795132800,1,,Aggregated,0,0,1,1,10,0,1,1.0,1,1,1\n\
                    1795132801,1,,Aggregated,0,0,1,1,20,0,1,1.0,1,1,1\n1795132802,1,,Agg";
        assert_eq!(results(rows).unwrap().intervals.len(), 1);
        let error = results("soon,1\n1795132801,1\n").unwrap_err().to_string();
        assert!(error.contains(":2:"), "{error}");
    }
}
