//! What k6 prints at its end: `http_reqs......................: 1818   15.091157/s`, and
//! `http_req_duration`, `http_req_failed`, `iterations`, `iteration_duration` likewise. The
//! share that failed is `0.86% 281 out of 32621`, before 1.0 `0.86% ✓ 281 ✗ 32340`.

use walwright_record::{ClientUnit, OperationTotals, Timestamp};

use super::told::{FAILED, Told};
use super::{Tool, whole};
use crate::span::span;

const MOST_PERCENTILES: usize = 20;

#[derive(Debug, Default)]
pub(super) struct K6 {
    requests: OperationTotals,
    iterations: OperationTotals,
}

impl Tool for K6 {
    fn line(&mut self, line: &str, _: Option<Timestamp>) {
        // A threshold's verdict may stand before.
        let line = line.trim_start_matches(['✓', '✗', ' ']);
        let Some((name, value)) = line.split_once(':') else { return };
        // The dots tell it from the words of others.
        let Some(name) = name.strip_suffix("..").map(|name| name.trim_end_matches('.')) else {
            return;
        };
        match name {
            "http_reqs" => counted(value, &mut self.requests),
            "http_req_duration" => times(value, &mut self.requests),
            "http_req_failed" => self.requests.failed = failed(value),
            "iterations" => counted(value, &mut self.iterations),
            "iteration_duration" => times(value, &mut self.iterations),
            _ => {}
        }
    }

    fn told(&self) -> Option<Told> {
        let mut told = Told::of(ClientUnit::Request);
        for (name, totals) in [("requests", &self.requests), ("iterations", &self.iterations)] {
            if totals.count.is_some() {
                told.totals.push(OperationTotals { name: name.to_owned(), ..totals.clone() });
            }
        }
        let count = told.totals.first()?.count;
        if self.requests.count.is_some() {
            let failed = self.requests.failed.unwrap_or(0);
            told.failed(FAILED, failed);
            told.succeeded = count.map(|count| count.saturating_sub(failed));
        }
        told.notes.push(
            "it holds totals of k6's whole test, ramp-up included: no percentile of the measured \
             window can be known from it; --out csv=FILE tells every request"
                .to_owned(),
        );
        Some(told)
    }
}

/// `1818   15.091157/s`
fn counted(value: &str, totals: &mut OperationTotals) {
    let mut words = value.split_ascii_whitespace();
    // Of several tests the last counts.
    totals.count = whole(words.next());
    let rate = words.next().and_then(|rate| rate.strip_suffix("/s")?.parse().ok());
    totals.throughput = rate.filter(|rate: &f64| rate.is_finite() && *rate >= 0.0);
}

/// `avg=4.61ms min=154.58µs med=3.78ms max=44.82ms p(90)=9.26ms p(95)=11.27ms`
fn times(value: &str, totals: &mut OperationTotals) {
    totals.percentiles.clear();
    for (name, value) in value.split_whitespace().filter_map(|word| word.split_once('=')) {
        match name {
            "avg" => totals.mean = span(value),
            "min" => totals.min = span(value),
            "max" => totals.max = span(value),
            name => {
                let percent = match name {
                    "med" => Some(50.0),
                    name => {
                        let number = name.strip_prefix("p(").and_then(|p| p.strip_suffix(')'));
                        number.and_then(|number| number.parse().ok())
                    }
                };
                let percent = percent.filter(|p| (0.0..=100.0).contains(p));
                let room = totals.percentiles.len() < MOST_PERCENTILES;
                totals.percentiles.extend(percent.zip(span(value)).filter(|_| room));
            }
        }
    }
    totals.percentiles.sort_by(|a, b| a.0.total_cmp(&b.0));
}

/// `0.86% 281 out of 32621`, `0.86% ✓ 281 ✗ 32340`
fn failed(value: &str) -> Option<u64> {
    let words = value.split_whitespace().skip(1).filter(|word| *word != "✓");
    words.take(1).find_map(|word| whole(Some(word)))
}
