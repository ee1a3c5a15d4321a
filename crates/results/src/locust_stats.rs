//! Locust's `_stats.csv`: one row a request and one for all, totals over the whole
//! test.
//!
//! `Type,Name,Request Count,Failure Count,Median Response Time,Average Response
//! Time,Min Response Time,Max Response Time,Average Content
//! Size,Requests/s,Failures/s,50%,66%,…,100%`. Times are milliseconds. The percentiles are
//! of response times that Locust has rounded (`stats.py`: to two significant digits above
//! 100 ms), and the counts and times hold failed requests too.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use walwright_record::{ClientDetail, ClientUnit, OperationTotals};

use crate::line::{Fields, Source, Table};
use crate::results::empty_log;
use crate::{Results, ResultsError};

/// Rows of the largest file.
const MOST_REQUESTS: usize = 10_000;
/// More percentiles nobody looks at.
const MOST_PERCENTILES: usize = 50;
/// Name of the row for all requests.
pub(crate) const ALL: &str = "Aggregated";

pub(crate) fn read(source: Source<'_>, from: impl Read) -> Result<Results, ResultsError> {
    let mut table = Table::open(source, from)?;
    let (method, name) = (table.column("type")?, table.column("name")?);
    let (count, failed) = (table.column("request count")?, table.column("failure count")?);
    let (mean, min, max) = (
        table.column("average response time")?,
        table.column("min response time")?,
        table.column("max response time")?,
    );
    let rate = table.find(&["requests/s"]);
    let percentiles = percentile_columns(table.header());
    let mut log = empty_log(source, ClientDetail::Totals);
    while let Some(fields) = table.next()? {
        if log.totals.len() > MOST_REQUESTS {
            return Err(source.line(fields.line, "it tells more than 10,000 requests apart"));
        }
        let Some(counted) = fields.count(count) else {
            return Err(source.line(fields.line, "the request count is no number"));
        };
        let some = |column: usize| (counted > 0).then(|| milliseconds(&fields, column)).flatten();
        let name = fields.text(name);
        let is_all = name == ALL || name == "Total";
        let totals = OperationTotals {
            name: if is_all {
                "all requests".to_owned()
            } else {
                called(&fields.text(method), &name)
            },
            count: Some(counted),
            failed: fields.count(failed),
            mean: some(mean),
            min: some(min),
            max: some(max),
            percentiles: percentiles
                .iter()
                .filter_map(|(column, percent)| Some((*percent, some(*column)?)))
                .collect(),
            throughput: rate.and_then(|rate| fields.number(rate)).filter(|rate| *rate >= 0.0),
            ..OperationTotals::default()
        };
        if is_all {
            log.succeeded = totals.failed.map(|failed| counted.saturating_sub(failed));
            if let Some(failed) = totals.failed.filter(|failed| *failed > 0) {
                log.failures = BTreeMap::from([("failed".to_owned(), failed)]);
            }
            log.totals.insert(0, totals);
        } else {
            log.totals.push(totals);
        }
    }
    if log.totals.is_empty() {
        return Err(source.whole("it holds a header and no rows"));
    }
    log.notes.push(
        "its percentiles are Locust's own, over the whole test with failed requests in them, from rounded times".to_owned(),
    );
    Ok(Results { log, unit: ClientUnit::Request, operations: Vec::new(), intervals: Vec::new() })
}

/// `GET /path`.
pub(crate) fn called(method: &str, name: &str) -> String {
    format!("{method} {name}").trim().to_owned()
}

/// Columns called `50%`, `99.9%`.
pub(crate) fn percentile_columns(header: &[String]) -> Vec<(usize, f64)> {
    header
        .iter()
        .enumerate()
        .filter_map(|(place, name)| Some((place, name.strip_suffix('%')?.parse::<f64>().ok()?)))
        .filter(|(_, percent)| (0.0..=100.0).contains(percent))
        .take(MOST_PERCENTILES)
        .collect()
}

pub(crate) fn milliseconds(fields: &Fields<'_>, column: usize) -> Option<Duration> {
    Duration::try_from_secs_f64(fields.number(column)? / 1e3).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    const STATS: &str = "Type,Name,Request Count,Failure Count,Median Response Time,Average Response Time,Min Response Time,Max Response Time,Average Content Size,Requests/s,Failures/s,50%,95%,99%,100%\n\
        POST,/order,1000,3,5,6.5,2.1,120,34,99.8,0.3,5,11,42,120\n\
        GET,/never,0,0,0,0,0,0,0,0.0,0.0,N/A,N/A,N/A,N/A\n\
        ,Aggregated,1000,3,5,6.5,2.1,120,34,99.8,0.3,5,11,42,120\n";

    #[test]
    fn totals_are_kept_with_their_percentiles() {
        let source = Source { file: "x_stats.csv", format: Format::LocustStats };
        let log = read(source, STATS.as_bytes()).unwrap().log;
        assert_eq!(log.totals[0].name, "all requests");
        assert_eq!(log.totals[1].name, "POST /order");
        assert_eq!(log.totals[1].percentiles[2], (99.0, Duration::from_millis(42)));
        // Of what never happened nothing is known.
        assert_eq!(log.totals[2].mean, None);
        assert!(log.totals[2].percentiles.is_empty());
        assert_eq!((log.succeeded, log.failures["failed"]), (Some(997), 3));
    }
}
