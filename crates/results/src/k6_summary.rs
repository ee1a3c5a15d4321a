//! k6's summary at the end of a test, as JSON: `--summary-export`, or the data that
//! `handleSummary` is given (there the figures of a metric are under `values`).
//!
//! Trends are in milliseconds: `avg`, `min`, `med`, `max`, `p(90)`, … Totals over the whole
//! test, ramp-up included; there is no time in it.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use serde_json::Value;
use walwright_record::{ClientDetail, ClientUnit, OperationTotals};

use crate::line::{Source, json};
use crate::results::empty_log;
use crate::{Results, ResultsError};

/// Trends that are durations of operations.
const DURATIONS: [&str; 3] = ["http_req_duration", "grpc_req_duration", "iteration_duration"];

pub(crate) fn read(source: Source<'_>, from: impl Read) -> Result<Results, ResultsError> {
    let body = json(source, from)?;
    let Some(metrics) = body.get("metrics").and_then(Value::as_object) else {
        return Err(source.whole("it has no 'metrics'"));
    };
    let figures = |metric: &str| {
        let metric = metrics.get(metric)?;
        Some(metric.get("values").unwrap_or(metric))
    };
    let number = |metric: &str, figure: &str| figures(metric)?.get(figure)?.as_f64();
    let count = |metric: &str| {
        number(metric, "count").filter(|n| (0.0..1e18).contains(n)).map(|n| n as u64)
    };
    let mut log = empty_log(source, ClientDetail::Totals);
    for metric in DURATIONS {
        let Some(values) = figures(metric).and_then(Value::as_object) else { continue };
        let milliseconds = |name: &str| duration(values.get(name)?);
        let (name, counter) = match metric {
            "http_req_duration" => ("all requests", "http_reqs"),
            "iteration_duration" => ("iterations", "iterations"),
            _ => ("gRPC calls", ""),
        };
        let rate = number(counter, "rate");
        let mut percentiles: Vec<(f64, Duration)> = values
            .iter()
            .filter_map(|(name, value)| {
                let percent = match name.as_str() {
                    "med" => 50.0,
                    name => name.strip_prefix("p(")?.strip_suffix(')')?.parse().ok()?,
                };
                Some((percent, duration(value)?))
            })
            .filter(|(percent, _)| (0.0..=100.0).contains(percent))
            .collect();
        percentiles.sort_by(|a, b| a.0.total_cmp(&b.0));
        log.totals.push(OperationTotals {
            name: name.to_owned(),
            count: count(counter),
            failed: None,
            mean: milliseconds("avg"),
            min: milliseconds("min"),
            max: milliseconds("max"),
            percentiles,
            throughput: rate.filter(|rate| *rate >= 0.0),
            ..OperationTotals::default()
        });
    }
    if log.totals.is_empty() {
        return Err(source.whole(format!("its metrics hold none of {}", DURATIONS.join(", "))));
    }
    // The rate of a rate is the share of those that were true, here: that failed.
    let share = number("http_req_failed", "rate").or_else(|| number("http_req_failed", "value"));
    if let Some((all, share)) = count("http_reqs").zip(share.filter(|s| (0.0..=1.0).contains(s))) {
        let failed = (all as f64 * share).round() as u64;
        log.succeeded = Some(all.saturating_sub(failed));
        if let Some(totals) = log.totals.first_mut() {
            totals.failed = Some(failed);
        }
        if failed > 0 {
            log.failures = BTreeMap::from([("failed".to_owned(), failed)]);
        }
    }
    log.notes.push(
        "it holds totals over k6's whole test: no percentile of the measured window can be known from it; --out csv=FILE tells every request".to_owned(),
    );
    Ok(Results { log, unit: ClientUnit::Request, operations: Vec::new(), intervals: Vec::new() })
}

fn duration(milliseconds: &Value) -> Option<Duration> {
    Duration::try_from_secs_f64(milliseconds.as_f64()? / 1e3).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    fn log(text: &str) -> Result<Results, ResultsError> {
        read(Source { file: "k6.json", format: Format::K6Summary }, text.as_bytes())
    }

    #[test]
    fn both_forms_say_the_same() {
        let flat = r#"{"metrics":{"http_reqs":{"count":1000,"rate":99.5},
            "http_req_failed":{"passes":30,"fails":970,"value":0.03},
            "http_req_duration":{"avg":12.5,"min":3,"med":11,"max":80,"p(90)":20,"p(95)":31.5}}}"#;
        let nested = r#"{"root_group":{},"metrics":{"http_reqs":{"type":"counter","values":{"count":1000,"rate":99.5}},
            "http_req_failed":{"values":{"rate":0.03}},
            "http_req_duration":{"type":"trend","values":{"avg":12.5,"min":3,"med":11,"max":80,"p(90)":20,"p(95)":31.5}}}}"#;
        let (a, b) = (log(flat).unwrap().log, log(nested).unwrap().log);
        assert_eq!(a, b);
        assert_eq!((a.succeeded, a.failures["failed"]), (Some(970), 30));
        assert_eq!(a.totals[0].throughput, Some(99.5));
        let percents: Vec<f64> = a.totals[0].percentiles.iter().map(|(p, _)| *p).collect();
        assert_eq!(percents, [50.0, 90.0, 95.0]);
    }

    #[test]
    fn other_json_is_refused() {
        for (text, words) in [
            ("{", "no JSON"),
            ("{\"metrics\":3}", "no 'metrics'"),
            ("{\"metrics\":{}}", "hold none"),
        ] {
            let error = log(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
