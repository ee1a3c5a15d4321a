//! What autocannon prints without `--json` (lib/printResult.js): a table of latencies with
//! the columns `Stat │ 2.5% │ 50% │ 97.5% │ 99% │ Avg │ Stdev │ Max`, one of requests a
//! second, then `267 2xx responses, 1 non 2xx responses`, `272 requests in 3.02s, 30.6 kB
//! read` (`1k`, `2M` from a thousand on: what was sent) and `9 errors (4 timeouts)`.

use walwright_record::{ClientUnit, OperationTotals, Timestamp};

use super::told::Told;
use super::{Tool, whole};
use crate::span::span;

#[derive(Debug, Default)]
pub(super) struct Autocannon {
    /// Names of the columns of the last table.
    columns: Vec<String>,
    latency: Option<OperationTotals>,
    throughput: Option<f64>,
    /// Answers: well, and others.
    answers: Option<(u64, u64)>,
    /// About how many were sent.
    sent: Option<u64>,
    errors: u64,
    timeouts: u64,
}

impl Tool for Autocannon {
    fn line(&mut self, line: &str, _: Option<Timestamp>) {
        if let Some(row) = line.strip_prefix('│') {
            let cells: Vec<&str> = row.trim_end_matches('│').split('│').map(str::trim).collect();
            match cells[..] {
                ["Stat", ref columns @ ..] => {
                    self.columns = columns.iter().take(20).map(|c| (*c).to_owned()).collect();
                }
                ["Latency", ref values @ ..] if !self.columns.is_empty() => {
                    // Of several tests the last counts.
                    let columns = std::mem::take(&mut self.columns);
                    *self = Autocannon {
                        latency: Some(latency(&columns, values)),
                        columns,
                        ..Autocannon::default()
                    };
                }
                ["Req/Sec", ref values @ ..] => {
                    let average = self.columns.iter().zip(values).find(|(name, _)| *name == "Avg");
                    self.throughput = average.and_then(|(_, rate)| {
                        rate.replace(',', "").parse().ok().filter(|rate: &f64| rate.is_finite())
                    });
                }
                _ => {}
            }
            return;
        }
        if self.latency.is_none() {
            return;
        }
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            [good, "2xx", "responses,", other, "non", "2xx", "responses"] => {
                self.answers = whole(Some(good)).zip(whole(Some(other)));
            }
            [sent, "requests", "in", ..] => self.sent = about(sent),
            [errors, "errors", timeouts, "timeouts)"] => {
                self.errors = about(errors).unwrap_or(0);
                self.timeouts = about(timeouts.trim_start_matches('(')).unwrap_or(0);
            }
            _ => {}
        }
    }

    fn told(&self) -> Option<Told> {
        let mut totals = self.latency.clone()?;
        let sent = self.sent?;
        let mut told = Told::of(ClientUnit::Request);
        let refused = self.answers.map_or(0, |(_, other)| other);
        told.failed("not 2xx", refused);
        told.failed("connection", self.errors.saturating_sub(self.timeouts));
        told.failed("timeout", self.timeouts);
        told.succeeded = self.answers.map(|(good, _)| good);
        totals.count = self.answers.map(|(good, other)| good.saturating_add(other)).or(Some(sent));
        totals.failed = Some(refused.saturating_add(self.errors));
        totals.throughput = self.throughput;
        told.totals.push(totals);
        told.notes.push(
            "it holds totals of autocannon's whole test in whole milliseconds, and counts that \
             it rounds: no percentile of the measured window can be known from it; --json tells \
             more"
                .to_owned(),
        );
        Some(told)
    }
}

fn latency(columns: &[String], values: &[&str]) -> OperationTotals {
    let mut totals = OperationTotals { name: "requests".to_owned(), ..OperationTotals::default() };
    for (name, value) in columns.iter().zip(values) {
        match name.as_str() {
            "Avg" => totals.mean = span(value),
            "Max" => totals.max = span(value),
            name => {
                let percent = name.strip_suffix('%').and_then(|p| p.parse().ok());
                let percent = percent.filter(|p| (0.0..=100.0).contains(p));
                totals.percentiles.extend(percent.zip(span(value)));
            }
        }
    }
    totals
}

/// `272`, `12k`, `3M`.
fn about(text: &str) -> Option<u64> {
    let (number, times) = match text.strip_suffix(['k', 'K']) {
        Some(thousands) => (thousands, 1e3),
        None => text.strip_suffix('M').map_or((text, 1.0), |millions| (millions, 1e6)),
    };
    let count = number.parse::<f64>().ok()? * times;
    (0.0..1e15).contains(&count).then(|| count.round() as u64)
}
