//! oha's result (`--output-format json`; schema.json of its repository): one object over the
//! whole test. Times are seconds.

use std::io::Read;
use std::time::Duration;

use serde_json::Value;
use walwright_record::OperationTotals;

use crate::line::{Source, json};
use crate::printed::oha::told;
use crate::{Results, ResultsError};

/// Statuses and kinds of errors that are looked at.
const MOST_KINDS: usize = 1_000;

pub(crate) fn read(source: Source<'_>, from: impl Read) -> Result<Results, ResultsError> {
    let body = json(source, from)?;
    let Some(summary) = body.get("summary") else {
        return Err(source.whole("it has no 'summary'"));
    };
    let seconds = |of: &Value, name: &str| duration(of.get(name)?);
    let percentiles = body.get("latencyPercentiles").and_then(Value::as_object);
    let mut percentiles: Vec<(f64, Duration)> = percentiles
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.strip_prefix('p')?.parse().ok()?, duration(value)?)))
        .filter(|(percent, _)| (0.0..=100.0).contains(percent))
        .collect();
    percentiles.sort_by(|a, b| a.0.total_cmp(&b.0));
    let rate = summary.get("requestsPerSec").and_then(Value::as_f64);
    let received = summary.get("sizePerSec").and_then(Value::as_f64);
    let totals = OperationTotals {
        mean: seconds(summary, "average"),
        min: seconds(summary, "fastest"),
        max: seconds(summary, "slowest"),
        throughput: rate.filter(|rate| *rate >= 0.0),
        received: received.filter(|received| *received >= 0.0),
        percentiles,
        ..OperationTotals::default()
    };
    let counts = |name: &str| -> Vec<(String, u64)> {
        let counts = body.get(name).and_then(Value::as_object).into_iter().flatten();
        let counts = counts.filter_map(|(kind, count)| Some((kind.clone(), count.as_u64()?)));
        counts.take(MOST_KINDS).collect()
    };
    let (answers, errors) = (counts("statusCodeDistribution"), counts("errorDistribution"));
    Ok(told(totals, &answers, &errors).results(source))
}

fn duration(seconds: &Value) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds.as_f64()?).ok()
}
