//! What oha prints (src/printer.rs): `Success rate:`, `Slowest:`, `Fastest:`, `Average:` with
//! a unit, `Requests/sec:`, `50.00% in 0.0011 secs`, `[200] 20000 responses`, and errors as
//! `[5] aborted due to deadline`.

use std::time::Duration;

use walwright_record::{ClientUnit, OperationTotals, Timestamp};

use super::told::Told;
use super::{Tool, whole};
use crate::span::span;

const MOST_PERCENTILES: usize = 20;

#[derive(Debug, Default)]
pub(super) struct Oha {
    /// Whether its summary has begun: other tools print lines like the rest.
    begun: bool,
    totals: OperationTotals,
    /// Responses by status, then errors by their words.
    answers: Vec<(String, u64)>,
    errors: Vec<(String, u64)>,
}

impl Tool for Oha {
    fn line(&mut self, line: &str, _: Option<Timestamp>) {
        if line.starts_with("Success rate:") {
            *self = Oha { begun: true, ..Oha::default() };
        }
        if !self.begun {
            return;
        }
        if let Some((percent, latency)) = line.split_once("% in ") {
            let percent = percent.parse().ok().filter(|p| (0.0..=100.0).contains(p));
            // With --stats-success-breakdown two more lists follow.
            let higher = |p: f64| self.totals.percentiles.last().is_none_or(|last| last.0 < p);
            let known = percent.zip(span(latency)).filter(|(p, _)| higher(*p));
            let room = self.totals.percentiles.len() < MOST_PERCENTILES;
            self.totals.percentiles.extend(known.filter(|_| room));
        } else if let Some((inside, text)) = line.strip_prefix('[').and_then(|l| l.split_once("] "))
        {
            // A status and its count, or a count and what went wrong.
            match text.strip_suffix(" responses") {
                Some(count) => {
                    self.answers.extend(whole(Some(count)).map(|n| (inside.to_owned(), n)));
                }
                None => self.errors.extend(whole(Some(inside)).map(|n| (text.to_owned(), n))),
            }
            self.answers.truncate(1_000);
            self.errors.truncate(1_000);
        } else if let Some((name, value)) = line.split_once(':') {
            match name {
                "Slowest" => self.totals.max = span(value),
                "Fastest" => self.totals.min = span(value),
                "Average" => self.totals.mean = span(value),
                "Requests/sec" => {
                    self.totals.throughput =
                        value.trim().parse().ok().filter(|rate: &f64| rate.is_finite());
                }
                _ => {}
            }
        }
    }

    fn told(&self) -> Option<Told> {
        self.totals.throughput?;
        Some(told(self.totals.clone(), &self.answers, &self.errors))
    }
}

/// What oha told in either of its forms: responses by status, errors by their words.
pub(crate) fn told(
    mut totals: OperationTotals,
    answers: &[(String, u64)],
    errors: &[(String, u64)],
) -> Told {
    let mut told = Told::of(ClientUnit::Request);
    let good = |status: &str| status.starts_with(['2', '3']);
    let sum = |all: &mut dyn Iterator<Item = u64>| all.fold(0_u64, u64::saturating_add);
    let answered = sum(&mut answers.iter().map(|(_, count)| *count));
    let well = answers.iter().filter(|(status, _)| good(status));
    let succeeded = sum(&mut well.map(|(_, count)| *count));
    let missed = sum(&mut errors.iter().map(|(_, count)| *count));
    for (status, count) in answers.iter().filter(|(status, _)| !good(status)) {
        told.failed(&format!("HTTP {status}"), *count);
    }
    for (error, count) in errors {
        told.failed(error, *count);
    }
    told.succeeded = Some(succeeded);
    totals.name = "requests".to_owned();
    totals.count = Some(answered.saturating_add(missed));
    totals.failed = totals.count.map(|count| count.saturating_sub(succeeded));
    let known = |time: Option<Duration>| time.filter(|_| answered > 0);
    (totals.mean, totals.min, totals.max) =
        (known(totals.mean), known(totals.min), known(totals.max));
    told.totals.push(totals);
    told.notes.push(
        "it holds totals of oha's whole test: no percentile of the measured window can be known \
         from it"
            .to_owned(),
    );
    told
}
