//! pgbench's log of single transactions.
//!
//! `client_id transaction_no time script_no time_epoch time_us [schedule_lag] [retries]`
//! (documentation of pgbench, "Per-Transaction Logging"). `time` is in microseconds
//! from when the transaction was due to its end, or `skipped`, `failed`,
//! `serialization` or `deadlock`; `schedule_lag` in microseconds is there with
//! `--rate`, `retries` with `--max-tries` other than 1. `transaction_no` counts what
//! is left out by `--sampling-rate` too, which is how a sample is recognised.

use std::collections::HashMap;
use std::io::BufRead;
use std::time::Duration;

use walwright_record::{ClientUnit, Timestamp};

use crate::collect::{Collector, Operation, Outcome};
use crate::line::{Source, whole_lines};
use crate::moment::Moment;
use crate::results::of_operations;
use crate::{Format, Results, ResultsError};

/// A seventh column with a number beyond this holds microseconds of lag: nobody lets
/// a transaction be tried so often.
const MOST_RETRIES: u64 = 100;
/// No pgbench has more clients.
const MOST_CLIENTS: usize = 100_000;
/// Lines after which a seventh column that was never larger is taken for retries.
const UNDECIDED: usize = 20_000;
/// Logs with a larger part of the transactions than this are no samples: pgbench ends
/// with some transactions that it counted and did not log.
const WHOLE: f64 = 0.95;

/// What the seventh column of lines with seven is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seventh {
    Lag,
    Retries,
}

/// One line.
#[derive(Debug, Clone)]
struct Line {
    client: u32,
    number: u64,
    /// Microseconds, or the word in their place.
    time: Result<u64, &'static str>,
    script: u32,
    ended: i64,
    seventh: Option<u64>,
    eighth: Option<u64>,
}

/// First and last transaction number of a client, and how many lines it has.
#[derive(Debug, Clone, Copy)]
struct Span {
    first: u64,
    last: u64,
    lines: u64,
}

pub(crate) fn read(source: Source<'_>, from: impl BufRead) -> Result<Results, ResultsError> {
    let mut log = Log {
        source,
        seventh: match source.format {
            Format::PgbenchLag => Some(Seventh::Lag),
            Format::PgbenchRetries => Some(Seventh::Retries),
            _ => None,
        },
        undecided: Vec::new(),
        spans: HashMap::new(),
        names: HashMap::new(),
        collector: Collector::default(),
        notes: Vec::new(),
    };
    let cut_off = whole_lines(source, from, |number, text| {
        let Some(line) = line(text) else {
            return Err(source.line(
                number,
                "expected 'client transaction time script epoch_s epoch_us [lag] [retries]'",
            ));
        };
        log.take(number, line)
    })?;
    if cut_off {
        log.notes.push("its last line is cut off and was left out".to_owned());
    }
    log.finish()
}

/// A log as far as it is read.
struct Log<'a> {
    source: Source<'a>,
    /// What a seventh column is, once that is known.
    seventh: Option<Seventh>,
    /// Lines kept until it is.
    undecided: Vec<(u64, Line)>,
    spans: HashMap<u32, Span>,
    names: HashMap<u32, String>,
    collector: Collector,
    notes: Vec<String>,
}

impl Log<'_> {
    fn take(&mut self, number: u64, line: Line) -> Result<(), ResultsError> {
        if self.seventh.is_some() {
            return self.count(number, &line);
        }
        let decided = line.eighth.is_some() || line.seventh.is_none_or(|n| n > MOST_RETRIES);
        self.undecided.push((number, line));
        if decided || self.undecided.len() >= UNDECIDED { self.decide() } else { Ok(()) }
    }

    /// Decides by the lines so far, and counts them.
    fn decide(&mut self) -> Result<(), ResultsError> {
        let ambiguous = self.undecided.iter().filter(|(_, line)| line.eighth.is_none());
        let largest = ambiguous.filter_map(|(_, line)| line.seventh).max();
        let retries = largest.is_some_and(|largest| largest <= MOST_RETRIES);
        self.seventh = Some(if retries { Seventh::Retries } else { Seventh::Lag });
        if let Some(largest) = largest.filter(|largest| retries && *largest > 0) {
            self.notes.push(format!(
                "its seventh column, at most {largest}, is taken for retries; --client-log-format pgbench-lag reads it as lag"
            ));
        }
        for (number, line) in std::mem::take(&mut self.undecided) {
            self.count(number, &line)?;
        }
        Ok(())
    }

    fn count(&mut self, number: u64, line: &Line) -> Result<(), ResultsError> {
        if self.spans.len() > MOST_CLIENTS {
            return Err(self.source.line(number, "it names more than 100,000 clients"));
        }
        let span = self.spans.entry(line.client).or_insert(Span {
            first: line.number,
            last: line.number,
            lines: 0,
        });
        span.first = span.first.min(line.number);
        span.last = span.last.max(line.number);
        span.lines += 1;
        let name =
            self.names.entry(line.script).or_insert_with(|| format!("script {}", line.script + 1));
        let (lag, retries) = match (self.seventh, line.seventh, line.eighth) {
            (_, lag, Some(retries)) => (lag, retries),
            (Some(Seventh::Retries), retries, None) => (None, retries.unwrap_or(0)),
            (_, lag, None) => (lag, 0),
        };
        if retries > MOST_RETRIES && self.source.format == Format::Pgbench {
            return Err(self.source.line(
                number,
                format!("its seventh column is {retries}, too many for retries, as which lines before it were read; pgbench-lag reads it as lag"),
            ));
        }
        let operation = Operation {
            name,
            ended: Moment { at: Timestamp(line.ended), whole_seconds: false },
            latency: Duration::from_micros(line.time.unwrap_or(0)),
            outcome: match line.time {
                Ok(_) => Outcome::Good,
                Err("skipped") => Outcome::Skipped,
                Err(kind) => Outcome::Failed(kind),
            },
            lag: lag.map(Duration::from_micros),
            retries,
        };
        self.collector.add(operation).map_err(|problem| self.source.line(number, problem))
    }

    fn finish(mut self) -> Result<Results, ResultsError> {
        self.decide()?;
        let lines: u64 = self.spans.values().map(|span| span.lines).sum();
        if lines == 0 {
            return Err(ResultsError::Empty { file: self.source.file.to_owned() });
        }
        let sampling = sampling(&self.spans);
        let clients = u32::try_from(self.spans.len()).ok();
        let collected = self.collector.finish(1.0 / sampling.unwrap_or(1.0), clients);
        let mut results = of_operations(self.source, ClientUnit::Transaction, collected)?;
        results.log.sampling = sampling;
        if let Some(rate) = sampling {
            results.log.notes.push(format!(
                "it is a sample of about {:.3} % of the transactions: counts are estimates, and tails rest on {lines} transactions",
                rate * 100.0
            ));
        }
        results.log.notes.append(&mut self.notes);
        Ok(results)
    }
}

fn line(text: &str) -> Option<Line> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if !(6..=8).contains(&words.len()) {
        return None;
    }
    let whole = |place: usize| words.get(place)?.parse::<u64>().ok();
    // Lag is printed with "%.0f", which may give "-0".
    let micros = |word: &str| {
        word.parse::<f64>().ok().filter(|n| (-1e3..1e13).contains(n)).map(|n| n.max(0.0) as u64)
    };
    let optional = |place: usize| match words.get(place) {
        Some(word) => micros(word).map(Some),
        None => Some(None),
    };
    let time = match words[2] {
        "skipped" => Err("skipped"),
        "failed" => Err("failed"),
        "serialization" => Err("40001"),
        "deadlock" => Err("40P01"),
        "other" | "other_sql" => Err("SQL error"),
        number => Ok(micros(number)?),
    };
    let seconds = i64::try_from(whole(4)?).ok().filter(|seconds| *seconds < 100_000_000_000)?;
    let micros_of_second = i64::try_from(whole(5)?).ok().filter(|micros| *micros < 1_000_000)?;
    Some(Line {
        client: words[0].parse().ok()?,
        number: whole(1).filter(|number| *number < 1_000_000_000_000_000)?,
        time,
        script: words[3].parse().ok().filter(|script| *script < 10_000)?,
        ended: seconds * 1_000_000 + micros_of_second,
        seventh: optional(6)?,
        eighth: optional(7)?,
    })
}

/// The part of the transactions that is logged; `None` where it is all of them.
fn sampling(spans: &HashMap<u32, Span>) -> Option<f64> {
    // The ends of each client's range are logged by definition, so they do not count.
    let inner: u64 = spans.values().map(|span| span.lines.saturating_sub(1)).sum();
    let counted: u64 = spans.values().map(|span| span.last - span.first).sum();
    let rate = inner as f64 / counted as f64;
    (inner > 0 && counted > 0 && rate < WHOLE).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(text: &str) -> Result<Results, ResultsError> {
        let source = Source { file: "pgbench_log.7", format: Format::Pgbench };
        read(source, text.as_bytes())
    }

    #[test]
    fn transactions_count_in_the_second_they_end_in() {
        let log = "0 1 4500 0 1795132800 100000\n1 1 5500 1 1795132800 900000\n\
                   0 2 2000 0 1795132801 500000\n";
        let results = results(log).unwrap();
        assert_eq!(results.operations, ["script 1", "script 2"]);
        assert_eq!(results.intervals.len(), 2);
        assert_eq!(results.intervals[0].clients, 2);
        assert_eq!(results.intervals[0].scripts[1].transactions, 1);
        assert_eq!(results.log.sampling, None);
        let mean = results.intervals[1].scripts[0].latency.mean().unwrap();
        assert!((mean.as_secs_f64() - 0.002).abs() < 1e-5);
    }

    #[test]
    fn failures_are_told_by_kind() {
        let log = "0 1 serialization 0 1795132800 100000 3\n0 2 deadlock 0 1795132800 200000 3\n\
                   0 3 failed 0 1795132800 300000 0\n0 4 700 0 1795132800 400000 2\n";
        let results = results(log).unwrap();
        let script = &results.intervals[0].scripts[0];
        let kinds: Vec<&str> = script.failures.keys().map(String::as_str).collect();
        assert_eq!(kinds, ["40001", "40P01", "failed"]);
        assert_eq!((script.transactions, script.retried), (1, 3));
        assert_eq!(script.retries.values().sum::<u64>(), 8);
        assert!(results.log.notes[0].contains("taken for retries"));
    }

    #[test]
    fn lag_is_told_by_its_size_and_skipped_ones_are_counted_apart() {
        let log = "0 1 4500 0 1795132800 100000 2500\n0 2 skipped 0 1795132800 200000 90000\n";
        let results = results(log).unwrap();
        let interval = &results.intervals[0];
        assert_eq!((interval.due, interval.skipped, interval.scripts[0].transactions), (2, 1, 1));
        let lag = interval.lag.mean().unwrap().as_secs_f64();
        assert!((lag - 0.0025).abs() < 1e-5, "{lag}");
    }

    #[test]
    fn both_columns_have_their_places() {
        let results = results("0 1 4500 0 1795132800 100000 7 2\n").unwrap();
        assert_eq!(results.intervals[0].scripts[0].retried, 1);
        assert_eq!(results.intervals[0].due, 1);
    }

    #[test]
    fn a_sample_is_recognised_and_scaled() {
        let mut log = String::new();
        for number in (1..=2_000).step_by(10) {
            log.push_str(&format!("0 {number} 1000 0 {} 0\n", 1_795_132_800 + number / 500));
        }
        let results = results(&log).unwrap();
        assert!((results.log.sampling.unwrap() - 0.1).abs() < 1e-3);
        assert_eq!(results.log.succeeded, Some(200));
        let total: u64 = results.intervals.iter().map(|i| i.scripts[0].transactions).sum();
        assert!((1_990..=2_010).contains(&total), "{total}");
    }

    #[test]
    fn a_line_that_is_none_is_an_error_with_its_number() {
        let log = "0 1 4500 0 1795132800 100000\nnonsense\n0 2 1 0 1795132800 200000\n";
        let error = results(log).unwrap_err().to_string();
        assert!(error.starts_with("pgbench_log.7:2: expected 'client"), "{error}");
    }

    #[test]
    fn a_last_line_without_its_end_is_left_out() {
        let results = results("0 1 4500 0 1795132800 100000\n0 2 45").unwrap();
        assert_eq!(results.log.succeeded, Some(1));
        assert!(results.log.notes[0].contains("cut off"));
    }
}
