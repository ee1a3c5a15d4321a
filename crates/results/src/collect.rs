//! Single operations counted into the seconds in which they end.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use walwright_record::{
    LatencyHistogram, LoadInterval, ScriptInterval, SparseHistogram, Timestamp,
};

use crate::moment::Moment;

/// Microseconds of a second.
const SECOND: i64 = 1_000_000;
/// Operations told apart; what comes under more names is summed under [`REST`].
const MOST_OPERATIONS: usize = 100;
/// Name of the sum of those.
const REST: &str = "(others)";
/// Logs count retries and not what each was for; pgbench retries for these.
const RETRIED_FOR: &str = "40001 or 40P01";
/// Longest stretch a log may cover: a year. Moments further apart are a mistake in it.
const LONGEST: i64 = 366 * 86_400 * SECOND;
/// Seconds in which something ended: two days of them.
pub(crate) const MOST_SECONDS: usize = 2 * 86_400;
/// What is wrong with a file that has more.
pub(crate) const TOO_MANY_SECONDS: &str =
    "it tells more than two days of seconds: cut it to the stretch of the test";
/// Seconds times operations of the largest file.
pub(crate) const MOST_CELLS: usize = 1_000_000;
/// What is wrong with a file that has more.
pub(crate) const TOO_MANY_CELLS: &str = "it tells more moments of more operations than fit in memory: cut it to the stretch of the test, or name fewer operations";
/// Kinds of failures told apart; others are summed under [`REST`].
const MOST_KINDS: usize = 100;
/// Characters that are kept of a name.
const LONGEST_NAME: usize = 200;
/// Latencies of one second that are kept one by one.
const SINGLE: usize = 1_024;
/// Latencies and buckets of them kept in all.
const MOST_KEPT: usize = 16 << 20;

/// How one operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome<'a> {
    /// Well.
    Good,
    /// Badly, and how.
    Failed(&'a str),
    /// Not begun, because it was too late already.
    Skipped,
}

/// One operation of a log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation<'a> {
    pub(crate) name: &'a str,
    pub(crate) ended: Moment,
    /// All of it, waiting for its turn included.
    pub(crate) latency: Duration,
    pub(crate) outcome: Outcome<'a>,
    /// Time from when it was due to when it began, in an open loop.
    pub(crate) lag: Option<Duration>,
    /// Tries beyond the first.
    pub(crate) retries: u64,
}

/// Latencies in nanoseconds: the newest one by one, the others counted by their size.
#[derive(Debug, Default)]
struct Latencies {
    single: Vec<u64>,
    counted: SparseHistogram,
}

impl Latencies {
    /// Adds one; `scratch` is for counting. Returns by how many more values are kept now,
    /// which counting makes fewer.
    fn push(&mut self, nanos: u64, scratch: &mut LatencyHistogram) -> isize {
        let before = self.kept();
        self.single.push(nanos);
        if self.single.len() >= SINGLE {
            scratch.clear();
            self.counted.add_to(scratch);
            self.single.iter().for_each(|nanos| scratch.record_nanos(*nanos));
            self.single = Vec::new();
            self.counted = SparseHistogram::from(&*scratch);
        }
        self.kept().cast_signed() - before.cast_signed()
    }

    fn kept(&self) -> usize {
        self.single.len() + self.counted.buckets()
    }
}

/// What one name did in one second.
#[derive(Debug, Default)]
struct Bin {
    latencies: Latencies,
    failures: BTreeMap<String, u64>,
    retried: u64,
    retries: u64,
}

#[derive(Debug, Default)]
struct Second {
    bins: HashMap<usize, Bin>,
    lags: Latencies,
    due: u64,
    skipped: u64,
    /// Nanoseconds of all operations that ended here.
    busy: u64,
}

/// Operations counted so far.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    operations: Vec<String>,
    index: HashMap<String, usize>,
    seconds: BTreeMap<i64, Second>,
    first: Option<i64>,
    last: Option<i64>,
    good: u64,
    failures: BTreeMap<String, u64>,
    /// Latencies and buckets of them in memory.
    kept: isize,
    scratch: LatencyHistogram,
}

/// What the operations come to.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) operations: Vec<String>,
    pub(crate) intervals: Vec<LoadInterval>,
    pub(crate) first: Option<Timestamp>,
    pub(crate) last: Option<Timestamp>,
    pub(crate) succeeded: u64,
    pub(crate) failures: BTreeMap<String, u64>,
}

impl Collector {
    /// Counts one operation; the error is what is wrong with its moment.
    pub(crate) fn add(&mut self, operation: Operation<'_>) -> Result<(), String> {
        let nanos = u64::try_from(operation.latency.as_nanos()).unwrap_or(u64::MAX);
        let ended = operation.ended.at.0;
        let began = ended.saturating_sub(i64::try_from(nanos / 1_000).unwrap_or(i64::MAX));
        // One whose moment is a whole second ended somewhere inside it.
        let until = if operation.ended.whole_seconds { ended + SECOND } else { ended };
        let first = self.first.map_or(began, |first| first.min(began));
        let last = self.last.map_or(until, |last| last.max(until));
        if last.saturating_sub(first) > LONGEST {
            return Err("its moment is more than a year from the others".to_owned());
        }
        (self.first, self.last) = (Some(first), Some(last));
        if self.seconds.len() > MOST_SECONDS {
            return Err(TOO_MANY_SECONDS.to_owned());
        }
        if self.seconds.len().saturating_mul(self.operations.len()) > MOST_CELLS {
            return Err(TOO_MANY_CELLS.to_owned());
        }
        if self.kept > MOST_KEPT.cast_signed() {
            return Err("it tells more latencies than fit in memory: cut it to the stretch of the test, or let the tool log a sample or sums".to_owned());
        }
        let place = self.place(operation.name);
        let second = self.seconds.entry(ended.div_euclid(SECOND)).or_default();
        if let Some(lag) = operation.lag {
            second.due += 1;
            if operation.outcome == Outcome::Good {
                let nanos = u64::try_from(lag.as_nanos()).unwrap_or(u64::MAX);
                self.kept += second.lags.push(nanos, &mut self.scratch);
            }
        }
        second.busy = second.busy.saturating_add(nanos);
        let bin = match operation.outcome {
            Outcome::Skipped => {
                second.skipped += 1;
                return Ok(());
            }
            _ => second.bins.entry(place).or_default(),
        };
        if operation.retries > 0 {
            bin.retried += 1;
            bin.retries = bin.retries.saturating_add(operation.retries);
        }
        match operation.outcome {
            Outcome::Failed(kind) => {
                let kind = count_kind(&mut self.failures, kind, 1);
                *bin.failures.entry(kind).or_default() += 1;
            }
            Outcome::Good | Outcome::Skipped => {
                self.kept += bin.latencies.push(nanos, &mut self.scratch);
                self.good += 1;
            }
        }
        Ok(())
    }

    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.index.get(name) {
            return *place;
        }
        let name = if self.operations.len() >= MOST_OPERATIONS { REST } else { name };
        let name: String = name.chars().take(LONGEST_NAME).collect();
        let place = *self.index.entry(name.clone()).or_insert(self.operations.len());
        if place == self.operations.len() {
            self.operations.push(name);
        }
        place
    }

    /// Seconds as intervals; those at the ends are as long as the log covers of them.
    /// `weight` is how many operations each stands for, and `clients` how many clients
    /// the log names.
    pub(crate) fn finish(self, weight: f64, clients: Option<u32>) -> Collected {
        let mut counted = self.scratch;
        let mut dense = LatencyHistogram::new();
        let mut sparse = |latencies: &Latencies| -> SparseHistogram {
            dense.clear();
            // What is owed is carried on, so that the total is right for any weight.
            let mut owed = 0.0;
            let mut record = |latency: Duration, times: u64| {
                owed += weight * times as f64;
                dense.record_n(latency, owed as u64);
                owed = owed.fract();
            };
            counted.clear();
            latencies.counted.add_to(&mut counted);
            counted.buckets().for_each(|(latency, times)| record(latency, times));
            latencies.single.iter().for_each(|nanos| record(Duration::from_nanos(*nanos), 1));
            SparseHistogram::from(&dense)
        };
        let scaled = |count: u64| (count as f64 * weight).round() as u64;
        let scaled_kinds = |kinds: BTreeMap<String, u64>| -> BTreeMap<String, u64> {
            kinds.into_iter().map(|(kind, count)| (kind, scaled(count))).collect()
        };
        let (first, last) = (self.first.unwrap_or_default(), self.last.unwrap_or_default());
        let operations = self.operations.len();
        let intervals = self
            .seconds
            .into_iter()
            .map(|(number, mut second)| {
                let start = (number * SECOND).max(first);
                let end = ((number + 1) * SECOND).min(last).max(start + 1);
                let length = Duration::from_micros(end.abs_diff(start));
                let scripts = (0..operations)
                    .map(|place| {
                        let bin = second.bins.remove(&place).unwrap_or_default();
                        let latency = sparse(&bin.latencies);
                        let retries = (bin.retries > 0)
                            .then(|| (RETRIED_FOR.to_owned(), scaled(bin.retries)))
                            .into_iter()
                            .collect();
                        ScriptInterval {
                            transactions: latency.count(),
                            failures: scaled_kinds(bin.failures),
                            retried: scaled(bin.retried),
                            retries,
                            latency,
                            ..ScriptInterval::default()
                        }
                    })
                    .collect();
                let flying = second.busy as f64 * weight / length.as_nanos() as f64;
                LoadInterval {
                    start: Timestamp(start),
                    length,
                    scripts,
                    clients: clients.unwrap_or(flying.ceil() as u32),
                    due: scaled(second.due),
                    skipped: scaled(second.skipped),
                    lag: sparse(&second.lags),
                    ..LoadInterval::default()
                }
            })
            .collect();
        Collected {
            operations: self.operations,
            intervals,
            first: self.first.map(Timestamp),
            last: self.last.map(Timestamp),
            succeeded: self.good,
            failures: self.failures,
        }
    }
}

/// Adds to the failures of a kind, and gives the name under which they are counted.
pub(crate) fn count_kind(kinds: &mut BTreeMap<String, u64>, kind: &str, count: u64) -> String {
    let short: String = kind.chars().take(LONGEST_NAME).collect();
    let known = kinds.len() < MOST_KINDS || kinds.contains_key(&short);
    let name = if known { short } else { REST.to_owned() };
    let sum = kinds.entry(name.clone()).or_default();
    *sum = sum.saturating_add(count);
    name
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ORIGIN: i64 = 1_795_132_800 * SECOND;

    fn operation(at: i64, millis: u64) -> Operation<'static> {
        Operation {
            name: "a",
            ended: Moment { at: Timestamp(ORIGIN + at), whole_seconds: false },
            latency: Duration::from_millis(millis),
            outcome: Outcome::Good,
            lag: None,
            retries: 0,
        }
    }

    #[test]
    fn seconds_at_the_ends_are_as_long_as_the_log() {
        let mut collector = Collector::default();
        for at in [700_000, 1_200_000, 1_900_000, 2_400_000] {
            collector.add(operation(at, 100)).unwrap();
        }
        let collected = collector.finish(1.0, None);
        let lengths: Vec<u128> = collected.intervals.iter().map(|i| i.length.as_millis()).collect();
        assert_eq!(lengths, [400, 1_000, 400]);
        assert_eq!(collected.first, Some(Timestamp(ORIGIN + 600_000)));
        assert_eq!(collected.succeeded, 4);
        // 0.2 s of operations in a second is one in flight, rounded up.
        assert_eq!(collected.intervals[1].clients, 1);
    }

    #[test]
    fn failures_and_skipped_ones_are_in_no_latency() {
        let mut collector = Collector::default();
        collector.add(operation(100_000, 5)).unwrap();
        let failed = Operation { outcome: Outcome::Failed("HTTP 500"), ..operation(200_000, 900) };
        collector.add(failed).unwrap();
        let skipped = Operation { outcome: Outcome::Skipped, ..operation(300_000, 0) };
        collector.add(skipped).unwrap();
        let interval = &collector.finish(1.0, None).intervals[0];
        assert_eq!((interval.scripts[0].transactions, interval.skipped), (1, 1));
        assert_eq!(interval.scripts[0].failures["HTTP 500"], 1);
        assert!(interval.scripts[0].latency.max().unwrap() < Duration::from_millis(6));
    }

    #[test]
    fn a_moment_far_off_is_refused() {
        let mut collector = Collector::default();
        collector.add(operation(0, 1)).unwrap();
        assert!(collector.add(operation(2 * LONGEST, 1)).is_err());
    }

    #[test]
    fn many_names_end_in_one() {
        let mut collector = Collector::default();
        for number in 0..500 {
            let name = format!("/item/{number}");
            collector.add(Operation { name: &name, ..operation(number, 1) }).unwrap();
        }
        let collected = collector.finish(1.0, None);
        assert_eq!(collected.operations.len(), MOST_OPERATIONS + 1);
        assert_eq!(collected.intervals[0].scripts[MOST_OPERATIONS].transactions, 400);
    }

    proptest! {
        #[test]
        fn a_weight_scales_the_counts_whatever_it_is(n in 1_usize..400, weight in 1.0..50.0_f64) {
            let mut collector = Collector::default();
            for at in 0..n {
                collector.add(operation(at as i64, 3)).unwrap();
            }
            let collected = collector.finish(weight, None);
            let total: u64 = collected.intervals.iter().map(|i| i.scripts[0].transactions).sum();
            let wanted = n as f64 * weight;
            let seconds = collected.intervals.len() as f64;
            prop_assert!((total as f64 - wanted).abs() <= seconds, "{total} {wanted}");
        }
    }
}
