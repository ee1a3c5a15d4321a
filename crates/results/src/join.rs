//! The files of one test, put together and cut to the stretch that was recorded.

use std::collections::BTreeMap;
use std::time::Duration;

use thiserror::Error;
use walwright_record::{
    ClientDetail, ClientFacts, ClientUnit, LatencyHistogram, LatencySums, LoadInterval,
    ScriptInterval, SparseHistogram, Timestamp, Window,
};

use crate::Results;
use crate::collect::MOST_SECONDS;

/// Part of the operations outside the recorded stretch from which it is said.
const OUTSIDE: f64 = 0.01;
/// Microseconds of a second.
const SECOND: i64 = 1_000_000;

/// Files that do not go together, or not with the record.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum JoinError {
    /// Nothing to join.
    #[error("no file of client-side results was given")]
    None,
    /// Transactions and requests cannot be added.
    #[error(
        "{transactions} counts transactions and {requests} counts requests: they cannot be added, give one of them"
    )]
    MixedUnits {
        /// A file of the one.
        transactions: String,
        /// A file of the other.
        requests: String,
    },
    /// Single operations and sums of intervals may be the same operations twice.
    #[error(
        "{single} tells single operations and {sums} sums over intervals: if they are of one test everything would count twice, give one of them"
    )]
    MixedDetail {
        /// A file of the one.
        single: String,
        /// A file of the other.
        sums: String,
    },
    /// No operation lies in the record.
    #[error(
        "nothing of {file} lies in the record: it covers {from} to {to}, the record {began} to {ended}; are the clocks of both machines right, and is it the file of this test?"
    )]
    Outside {
        /// A file.
        file: String,
        /// First moment of it.
        from: String,
        /// Last moment of it.
        to: String,
        /// First moment of the record.
        began: String,
        /// Last moment of the record.
        ended: String,
    },
}

/// What the files come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Joined {
    /// What the record keeps of the files.
    pub facts: ClientFacts,
    /// The load, in time order; empty where the files hold totals only.
    pub intervals: Vec<LoadInterval>,
    /// The stretch that the intervals cover.
    pub covered: Option<Window>,
    /// Reasons to trust the figures less, each a sentence.
    pub warnings: Vec<String>,
}

/// Puts the files of one test together and keeps what lies wholly in `recorded`.
///
/// Seconds in which nothing ended are put in where a file tells single operations,
/// so that a stall is seen as one.
///
/// # Errors
/// When they do not go together, or nothing lies in the record.
pub fn join(files: Vec<Results>, recorded: Window) -> Result<Joined, JoinError> {
    let telling: Vec<&Results> = files.iter().filter(|file| !file.intervals.is_empty()).collect();
    let unit = check(&telling)?.or(files.first().map(|file| file.unit)).ok_or(JoinError::None)?;
    let mut operations: Vec<String> = Vec::new();
    for name in telling.iter().flat_map(|file| &file.operations) {
        if !operations.contains(name) {
            operations.push(name.clone());
        }
    }
    let mut warnings = Vec::new();
    let intervals = match telling.first() {
        Some(first) => {
            let merged = merge(&telling, &operations);
            let all = counted(merged.values());
            let mut kept: Vec<LoadInterval> =
                merged.into_values().filter(|i| lies_in(i, recorded)).collect();
            if kept.is_empty() {
                return Err(outside(first, recorded));
            }
            let lost = all - counted(kept.iter());
            if lost as f64 > OUTSIDE * all as f64 {
                warnings.push(format!(
                    "{lost} of the {all} operations in the clients' logs lie outside the recorded stretch and are left out"
                ));
            }
            if first.log.detail == ClientDetail::Operations {
                kept = without_gaps(kept, operations.len());
            }
            kept
        }
        None => Vec::new(),
    };
    let covered = intervals
        .first()
        .zip(intervals.last())
        .map(|(first, last)| Window { start: first.start, end: last.start.plus(last.length) });
    let logs = files.into_iter().map(|file| file.log).collect();
    Ok(Joined { facts: ClientFacts { unit, operations, logs }, intervals, covered, warnings })
}

/// The one unit of all files.
fn check(files: &[&Results]) -> Result<Option<ClientUnit>, JoinError> {
    let file = |chosen: &dyn Fn(&Results) -> bool| {
        files.iter().find(|file| chosen(file)).map(|file| file.log.file.clone())
    };
    let transactions = file(&|file| file.unit == ClientUnit::Transaction);
    let requests = file(&|file| file.unit == ClientUnit::Request);
    if let (Some(transactions), Some(requests)) = (transactions, requests) {
        return Err(JoinError::MixedUnits { transactions, requests });
    }
    let single = file(&|file| file.log.detail == ClientDetail::Operations);
    let sums = file(&|file| file.log.detail == ClientDetail::Intervals);
    if let (Some(single), Some(sums)) = (single, sums) {
        return Err(JoinError::MixedDetail { single, sums });
    }
    Ok(files.first().map(|file| file.unit))
}

fn counted<'a>(intervals: impl Iterator<Item = &'a LoadInterval>) -> u64 {
    intervals
        .flat_map(|i| &i.scripts)
        .flat_map(|script| script.failures.values().chain([&script.transactions]))
        .fold(0, |sum, count| count.saturating_add(sum))
}

fn lies_in(interval: &LoadInterval, window: Window) -> bool {
    window.start <= interval.start && interval.start.plus(interval.length) <= window.end
}

fn outside(file: &Results, recorded: Window) -> JoinError {
    let moment = |at: Option<Timestamp>| {
        at.and_then(|at| jiff::Timestamp::from_microsecond(at.0).ok())
            .map_or_else(|| "an unknown moment".to_owned(), |t| t.strftime("%F %T UTC").to_string())
    };
    JoinError::Outside {
        file: file.log.file.clone(),
        from: moment(file.log.first),
        to: moment(file.log.last),
        began: moment(Some(recorded.start)),
        ended: moment(Some(recorded.end)),
    }
}

/// The intervals of all files by their place in time.
fn merge(files: &[&Results], operations: &[String]) -> BTreeMap<i64, LoadInterval> {
    let begin = files.iter().filter_map(|file| file.intervals.first()).map(|i| i.start.0).min();
    let mut merged: BTreeMap<i64, LoadInterval> = BTreeMap::new();
    for file in files {
        let places: Vec<usize> = file
            .operations
            .iter()
            .map(|name| operations.iter().position(|known| known == name).unwrap_or(0))
            .collect();
        let step = file.intervals.iter().map(|i| i.length.as_micros() as i64).min().unwrap_or(1);
        for interval in &file.intervals {
            // Seconds lie on the clock's grid; the intervals of several threads of one
            // tool begin together, give or take a part of their length.
            let key = match file.log.detail {
                ClientDetail::Operations => interval.start.0.div_euclid(SECOND),
                _ => {
                    let since = interval.start.0 - begin.unwrap_or_default();
                    (since + step.max(1) / 2).div_euclid(step.max(1))
                }
            };
            let placed = spread(interval, &places, operations.len());
            match merged.get_mut(&key) {
                Some(sum) => add(sum, placed),
                None => {
                    merged.insert(key, placed);
                }
            }
        }
    }
    merged
}

/// An interval with a script for every operation of the test.
fn spread(interval: &LoadInterval, places: &[usize], operations: usize) -> LoadInterval {
    let mut scripts = vec![ScriptInterval::default(); operations];
    for (script, place) in interval.scripts.iter().zip(places) {
        scripts[*place] = script.clone();
    }
    LoadInterval { scripts, ..interval.clone() }
}

fn add(sum: &mut LoadInterval, other: LoadInterval) {
    let end = sum.start.plus(sum.length).max(other.start.plus(other.length));
    sum.start = sum.start.min(other.start);
    sum.length = end.since(sum.start);
    sum.clients = sum.clients.saturating_add(other.clients);
    sum.due = sum.due.saturating_add(other.due);
    sum.skipped = sum.skipped.saturating_add(other.skipped);
    sum.lag = both(&sum.lag, &other.lag);
    for (to, from) in sum.scripts.iter_mut().zip(other.scripts) {
        to.transactions = to.transactions.saturating_add(from.transactions);
        to.retried = to.retried.saturating_add(from.retried);
        for (kind, count) in from.failures {
            let sum = to.failures.entry(kind).or_default();
            *sum = sum.saturating_add(count);
        }
        for (kind, count) in from.retries {
            let sum = to.retries.entry(kind).or_default();
            *sum = sum.saturating_add(count);
        }
        to.latency = both(&to.latency, &from.latency);
        to.sums = match (to.sums, from.sums) {
            (Some(a), Some(b)) => Some(LatencySums {
                seconds: a.seconds + b.seconds,
                squares: a.squares.zip(b.squares).map(|(a, b)| a + b),
                min: a.min.into_iter().chain(b.min).min(),
                max: a.max.into_iter().chain(b.max).max(),
            }),
            (one, other) => one.or(other),
        };
    }
}

fn both(a: &SparseHistogram, b: &SparseHistogram) -> SparseHistogram {
    if a.is_empty() {
        return b.clone();
    }
    if b.is_empty() {
        return a.clone();
    }
    let mut dense = LatencyHistogram::new();
    a.add_to(&mut dense);
    b.add_to(&mut dense);
    SparseHistogram::from(&dense)
}

/// Puts empty seconds where nothing ended, as long as there are not too many.
fn without_gaps(intervals: Vec<LoadInterval>, operations: usize) -> Vec<LoadInterval> {
    let mut whole: Vec<LoadInterval> = Vec::with_capacity(intervals.len());
    for interval in intervals {
        while let Some(end) = whole.last().map(|last| last.start.plus(last.length))
            && end < interval.start
            && whole.len() < MOST_SECONDS
        {
            let length = Duration::from_secs(1).min(interval.start.since(end));
            whole.push(LoadInterval {
                start: end,
                length,
                scripts: vec![ScriptInterval::default(); operations],
                clients: interval.clients,
                ..LoadInterval::default()
            });
        }
        whole.push(interval);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, read};

    const ORIGIN: i64 = 1_795_132_800;

    fn window(from: i64, to: i64) -> Window {
        let at = |seconds: i64| Timestamp((ORIGIN + seconds) * SECOND);
        Window { start: at(from), end: at(to) }
    }

    /// A pgbench log of one client with a transaction of 1 ms in each half second.
    fn log(name: &str, seconds: impl IntoIterator<Item = i64>) -> Results {
        let lines: String = seconds
            .into_iter()
            .enumerate()
            .flat_map(|(n, second)| {
                [250_000, 750_000].map(|micros| {
                    let number = 2 * n + usize::from(micros > 500_000);
                    format!("0 {number} 1000 0 {} {micros}\n", ORIGIN + second)
                })
            })
            .collect();
        read(name, Some(Format::Pgbench), lines.as_bytes()).unwrap()
    }

    #[test]
    fn threads_of_one_test_are_added() {
        let joined = join(vec![log("a.1", 0..5), log("a.2", 1..6)], window(-10, 10)).unwrap();
        let counts: Vec<u64> = joined.intervals.iter().map(|i| i.scripts[0].transactions).collect();
        assert_eq!(counts, [2, 4, 4, 4, 4, 2]);
        assert_eq!(joined.intervals[1].clients, 2);
        assert_eq!(joined.facts.operations, ["script 1"]);
        assert_eq!(joined.facts.logs.len(), 2);
        assert!(joined.warnings.is_empty());
    }

    #[test]
    fn a_stall_is_seconds_without_work() {
        let joined = join(vec![log("a", [0, 1, 6, 7])], window(-10, 10)).unwrap();
        let counts: Vec<u64> = joined.intervals.iter().map(|i| i.scripts[0].transactions).collect();
        assert_eq!(counts, [2, 2, 0, 0, 0, 0, 2, 2]);
        let pairs = joined.intervals.windows(2);
        assert!(pairs.clone().all(|p| p[0].start.plus(p[0].length) == p[1].start));
    }

    #[test]
    fn what_lies_outside_the_record_is_left_out_and_said() {
        let joined = join(vec![log("a", 0..10)], window(3, 8)).unwrap();
        assert_eq!(joined.intervals.len(), 5);
        assert_eq!(joined.covered, Some(window(3, 8)));
        assert!(joined.warnings[0].contains("10 of the 20 operations"), "{:?}", joined.warnings);
        let error = join(vec![log("a", 0..10)], window(100, 200)).unwrap_err().to_string();
        assert!(error.contains("nothing of a lies in the record"), "{error}");
        assert!(error.contains("2026-11-20 00:00:0"), "{error}");
    }

    #[test]
    fn intervals_of_several_threads_are_added_by_their_place() {
        let aggregate = |shift: i64| {
            let lines: String = (0..4)
                .map(|n| format!("{} 10 20000 50000000 1000 9000\n", ORIGIN + shift + 5 * n))
                .collect();
            read("agg", None, lines.as_bytes()).unwrap()
        };
        let joined = join(vec![aggregate(0), aggregate(1)], window(-10, 60)).unwrap();
        assert_eq!(joined.intervals.len(), 4);
        assert_eq!(joined.intervals[2].scripts[0].latency_sum(), (20, 0.04));
    }

    #[test]
    fn what_would_count_twice_is_refused() {
        let csv = "time,latency_ms\n1795132801,2\n";
        let requests = read("ops.csv", None, csv.as_bytes()).unwrap();
        let error = join(vec![log("a", 0..3), requests], window(-5, 9)).unwrap_err();
        assert!(matches!(error, JoinError::MixedUnits { .. }));
        let lines =
            "1795132800 10 20000 50000000 1000 9000\n1795132801 10 20000 50000000 1000 9000\n";
        let sums = read("agg", None, lines.as_bytes()).unwrap();
        let error = join(vec![log("a", 0..3), sums], window(-5, 9)).unwrap_err();
        assert!(matches!(error, JoinError::MixedDetail { .. }));
        assert_eq!(join(Vec::new(), window(0, 1)), Err(JoinError::None));
    }

    #[test]
    fn totals_alone_join_without_intervals() {
        let text = r#"{"metrics":{"http_req_duration":{"avg":12.5}}}"#;
        let summary = read("k6.json", None, text.as_bytes()).unwrap();
        let joined = join(vec![summary], window(0, 10)).unwrap();
        assert!(joined.intervals.is_empty() && joined.covered.is_none());
    }
}
