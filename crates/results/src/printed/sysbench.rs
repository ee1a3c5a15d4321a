//! What sysbench prints (src/lua/internal/sysbench.lua): with `--report-interval`,
//! `[ 10s ] thds: 8 tps: 623.34 qps: 12478.80 (r/w/o: …) lat (ms,95%): 4.03 err/s: 0.00
//! reconn/s: 0.00`; at the end `transactions: 1234 (…)` and a block `Latency (ms):`.

use walwright_record::{ClientUnit, OperationTotals, Timestamp};

use super::told::{Report, Told};
use super::{Tool, milliseconds, whole};
use crate::collect::MOST_SECONDS;

#[derive(Debug, Default)]
pub(super) struct Sysbench {
    totals: OperationTotals,
    reports: Vec<Report>,
    /// Whether the statistics at the end have begun.
    ended: bool,
}

impl Tool for Sysbench {
    fn line(&mut self, line: &str, came: Option<Timestamp>) {
        if line.starts_with('[') {
            if self.reports.len() <= MOST_SECONDS {
                self.reports.extend(report(line, came));
            }
            return;
        }
        if line == "SQL statistics:" {
            // Of several tests the last counts.
            self.ended = true;
            self.totals =
                OperationTotals { name: "transactions".to_owned(), ..OperationTotals::default() };
        }
        if self.ended {
            of_end(line, &mut self.totals);
        }
    }

    fn told(&self) -> Option<Told> {
        let mut told = Told::of(ClientUnit::Transaction);
        told.reports = self.reports.clone();
        if let Some(count) = self.totals.count {
            // Those that failed are among the ones it repeats.
            told.succeeded = Some(count);
            told.totals.push(self.totals.clone());
            told.notes.push(
                "its totals are of sysbench's whole test: no percentile of the measured window \
                 can be known from them"
                    .to_owned(),
            );
        }
        told.tells().then_some(told)
    }
}

/// `[ 10s ] thds: 8 tps: 623.34 …`: the latency is a percentile, so no mean is known.
fn report(line: &str, came: Option<Timestamp>) -> Option<Report> {
    let (time, rest) = line.strip_prefix('[')?.split_once(']')?;
    let end = number(time.trim().strip_suffix('s')?)?;
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let after = |name: &str| {
        let place = words.iter().position(|word| *word == name)?;
        number(words.get(place + 1)?)
    };
    let clients = after("thds:").filter(|n| *n < 1e6).map(|n| n as u32);
    Some(Report { came, end, rate: after("tps:")?, clients, ..Report::default() })
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

fn of_end(line: &str, totals: &mut OperationTotals) {
    let Some((name, value)) = line.split_once(':') else { return };
    let value = value.trim();
    match name.trim() {
        "transactions" => {
            totals.count = whole(value.split(' ').next());
            // `73925  (7391.41 per sec.)`
            let rate = value.split_once('(').and_then(|(_, rest)| rest.split_once(' '));
            totals.throughput = rate.and_then(|(rate, _)| number(rate));
        }
        "min" => totals.min = milliseconds(Some(value)),
        "avg" => totals.mean = milliseconds(Some(value)),
        "max" => totals.max = milliseconds(Some(value)),
        name => {
            let percent = name.strip_suffix(" percentile").and_then(|of| {
                of.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse::<f64>().ok()
            });
            // 0.00 where percentiles were switched off.
            let latency = milliseconds(Some(value)).filter(|latency| !latency.is_zero());
            let known = percent.filter(|percent| (0.0..=100.0).contains(percent)).zip(latency);
            totals.percentiles.extend(known.filter(|_| totals.percentiles.is_empty()));
        }
    }
}
