//! autocannon's result (`--json`): one object over the whole test.
//!
//! `latency` in milliseconds: `average`, `stddev`, `min`, `max`, `p50`, `p97_5`, … (whole
//! milliseconds, from an HDR histogram), `requests.total`, `errors` (timeouts among
//! them), `timeouts`, `non2xx`, `statusCodeStats`, `start` and `finish` as RFC 3339.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use serde_json::Value;
use walwright_record::{ClientDetail, ClientUnit, OperationTotals};

use crate::line::{Source, json};
use crate::moment::moment;
use crate::results::empty_log;
use crate::{Results, ResultsError, plain_csv};

/// No load test counts further.
const MOST: u64 = 1_000_000_000_000_000;

pub(crate) fn read(source: Source<'_>, from: impl Read) -> Result<Results, ResultsError> {
    let body = json(source, from)?;
    let Some(latency) = body.get("latency").and_then(Value::as_object) else {
        return Err(source.whole("it has no 'latency'"));
    };
    let milliseconds = |name: &str| duration(latency.get(name)?);
    let mut percentiles: Vec<(f64, Duration)> = latency
        .iter()
        .filter_map(|(name, value)| {
            let percent = name.strip_prefix('p')?.replace('_', ".").parse().ok()?;
            Some((percent, duration(value)?))
        })
        .filter(|(percent, _)| (0.0..=100.0).contains(percent))
        .collect();
    percentiles.sort_by(|a, b| a.0.total_cmp(&b.0));
    let failures = failures(&body);
    let failed: u64 = failures.values().sum();
    let answered =
        body.get("requests").and_then(|r| count(r, "total")).or_else(|| count(&body, "2xx"));
    let rate = body.get("requests").and_then(|requests| requests.get("average")?.as_f64());
    let received = body.get("throughput").and_then(|bytes| bytes.get("average")?.as_f64());
    let mut log = empty_log(source, ClientDetail::Totals);
    let moment_of = |name: &str| Some(moment(body.get(name)?.as_str()?)?.at);
    log.first = moment_of("start");
    log.last = moment_of("finish");
    // Answers other than 2xx are among the requests that were answered; errors are not.
    let refused = count(&body, "non2xx").unwrap_or(0);
    log.succeeded = answered.map(|answered| answered.saturating_sub(refused));
    log.totals.push(OperationTotals {
        name: body.get("url").and_then(Value::as_str).unwrap_or("all requests").to_owned(),
        count: answered,
        failed: Some(failed),
        mean: milliseconds("average").or_else(|| milliseconds("mean")),
        min: milliseconds("min"),
        max: milliseconds("max"),
        percentiles,
        throughput: rate.filter(|rate| *rate >= 0.0),
        received: received.filter(|received| *received >= 0.0),
    });
    log.failures = failures;
    log.notes.push(
        "it holds totals over autocannon's whole test in whole milliseconds: no percentile of the measured window can be known from it".to_owned(),
    );
    Ok(Results { log, unit: ClientUnit::Request, operations: Vec::new(), intervals: Vec::new() })
}

/// Failures by kind: errors and timeouts, and answers by status where they are told.
fn failures(body: &Value) -> BTreeMap<String, u64> {
    let (errors, timeouts) =
        (count(body, "errors").unwrap_or(0), count(body, "timeouts").unwrap_or(0));
    let mut kinds = BTreeMap::from([
        ("connection".to_owned(), errors.saturating_sub(timeouts)),
        ("timeout".to_owned(), timeouts),
    ]);
    let refused = count(body, "non2xx").unwrap_or(0);
    let mut told = 0_u64;
    let statuses = body.get("statusCodeStats").and_then(Value::as_object);
    for (status, stats) in statuses.into_iter().flatten() {
        if !status.starts_with('2')
            && let Some(count) = count(stats, "count").filter(|count| *count > 0)
        {
            let kind = plain_csv::kind(status);
            let kind = if kind == *status { format!("HTTP {status}") } else { kind };
            told = told.saturating_add(count);
            kinds.insert(kind, count);
        }
    }
    kinds.insert("not 2xx".to_owned(), refused.saturating_sub(told));
    kinds.retain(|_, count| *count > 0);
    kinds
}

/// A count, which autocannon writes as a number or as text.
fn count(of: &Value, name: &str) -> Option<u64> {
    let value = of.get(name)?;
    let count: u64 = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    (count < MOST).then_some(count)
}

fn duration(milliseconds: &Value) -> Option<Duration> {
    Duration::try_from_secs_f64(milliseconds.as_f64()? / 1e3).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    #[test]
    fn a_result_is_read_whole() {
        let text = r#"{"url":"http://h/","requests":{"average":250,"total":500},"throughput":{"average":6320.38},
            "latency":{"average":100.1,"stddev":84.7,"min":47,"max":424,"p50":67,"p97_5":378,"p99":386,"totalCount":500},
            "errors":9,"timeouts":4,"non2xx":7,"2xx":493,
            "start":"2026-11-20T09:38:31.027Z","finish":"2026-11-20T09:38:33.089Z",
            "statusCodeStats":{"200":{"count":"493"},"302":{"count":"2"},"503":{"count":5}}}"#;
        let source = Source { file: "a.json", format: Format::Autocannon };
        let log = read(source, text.as_bytes()).unwrap().log;
        assert_eq!(log.succeeded, Some(493));
        let kinds: Vec<(&str, u64)> = log.failures.iter().map(|(k, n)| (k.as_str(), *n)).collect();
        assert_eq!(kinds, [("HTTP 302", 2), ("HTTP 503", 5), ("connection", 5), ("timeout", 4)]);
        let totals = &log.totals[0];
        assert_eq!(totals.percentiles[1], (97.5, Duration::from_millis(378)));
        assert_eq!((totals.throughput, totals.received), (Some(250.0), Some(6_320.38)));
        assert_eq!(log.last.unwrap().since(log.first.unwrap()), Duration::from_millis(2_062));
    }
}
