//! What wrk and wrk2 print (src/wrk.c): a line `Latency` under `Thread Stats   Avg      Stdev
//! Max   +/- Stdev`, with `--latency` a `Latency Distribution`, then `268 requests in 3.01s,
//! 30.40KB read`, `Socket errors: connect 0, read 3, write 0, timeout 5`, `Non-2xx or 3xx
//! responses: 7` and `Requests/sec:     88.98`.

use walwright_record::{ClientUnit, OperationTotals, Timestamp};

use super::told::Told;
use super::{Tool, whole};
use crate::span::span;

/// Percentiles that are kept; wrk2 prints eight.
const MOST_PERCENTILES: usize = 20;

#[derive(Debug, Default)]
pub(super) struct Wrk {
    /// Words over the columns of latencies.
    columns: Vec<String>,
    totals: OperationTotals,
    /// Whether lines of percentiles follow.
    percentiles: bool,
    refused: u64,
    /// By kind.
    errors: Vec<(String, u64)>,
}

impl Tool for Wrk {
    fn line(&mut self, line: &str, _: Option<Timestamp>) {
        if let Some(columns) = line.strip_prefix("Thread Stats") {
            // Of several tests the last counts.
            *self = Wrk::default();
            self.columns = columns.split_ascii_whitespace().take(9).map(str::to_owned).collect();
        }
        if self.columns.is_empty() {
            return;
        }
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if line.starts_with("Latency Distribution") {
            // wrk2 may print a second one, of latencies without the wait for their turn.
            self.percentiles = self.totals.percentiles.is_empty();
        } else if let ["Latency", values @ ..] = &words[..] {
            for (name, value) in self.columns.iter().zip(values) {
                match name.as_str() {
                    "Avg" => self.totals.mean = span(value),
                    "Max" => self.totals.max = span(value),
                    _ => {}
                }
            }
        } else if let [percent, latency] = words[..]
            && self.percentiles
            && let Some(percent) = percent.strip_suffix('%')
        {
            let percent = percent.parse().ok().filter(|p| (0.0..=100.0).contains(p));
            let room = self.totals.percentiles.len() < MOST_PERCENTILES;
            self.totals.percentiles.extend(percent.zip(span(latency)).filter(|_| room));
        } else if let [count, "requests", "in", ..] = words[..] {
            self.percentiles = false;
            self.totals.count = whole(Some(count));
        } else if let Some(errors) = line.strip_prefix("Socket errors: ") {
            self.errors = errors
                .split(", ")
                .filter_map(|error| {
                    let (kind, count) = error.split_once(' ')?;
                    Some((kind.chars().take(20).collect(), whole(Some(count))?))
                })
                .take(9)
                .collect();
        } else if let Some(count) = line.strip_prefix("Non-2xx or 3xx responses:") {
            self.refused = whole(Some(count)).unwrap_or(0);
        } else if let ["Requests/sec:", rate] = words[..] {
            self.totals.throughput = rate.parse().ok().filter(|rate: &f64| rate.is_finite());
        }
    }

    fn told(&self) -> Option<Told> {
        let count = self.totals.count?;
        let mut told = Told::of(ClientUnit::Request);
        told.succeeded = Some(count.saturating_sub(self.refused));
        told.failed("not 2xx or 3xx", self.refused);
        for (kind, count) in &self.errors {
            told.failed(kind, *count);
        }
        let failed = self.errors.iter().fold(self.refused, |sum, (_, n)| sum.saturating_add(*n));
        let mut totals = self.totals.clone();
        totals.name = "requests".to_owned();
        totals.failed = Some(failed);
        told.totals.push(totals);
        told.notes.push(
            "it holds totals of wrk's whole test: no percentile of the measured window can be \
             known from it"
                .to_owned(),
        );
        Some(told)
    }
}
