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

/// What one name did in one second.
#[derive(Debug, Default)]
struct Bin {
    latencies: Vec<u64>,
    failures: BTreeMap<String, u64>,
    retried: u64,
    retries: u64,
}

#[derive(Debug, Default)]
struct Second {
    bins: HashMap<usize, Bin>,
    lags: Vec<u64>,
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
        let place = self.place(operation.name);
        let second = self.seconds.entry(ended.div_euclid(SECOND)).or_default();
        if let Some(lag) = operation.lag {
            second.due += 1;
            if operation.outcome == Outcome::Good {
                second.lags.push(u64::try_from(lag.as_nanos()).unwrap_or(u64::MAX));
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
            bin.retries += operation.retries;
        }
        match operation.outcome {
            Outcome::Failed(kind) => {
                *bin.failures.entry(kind.to_owned()).or_default() += 1;
                *self.failures.entry(kind.to_owned()).or_default() += 1;
            }
            Outcome::Good | Outcome::Skipped => {
                bin.latencies.push(nanos);
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
        let place = *self.index.entry(name.to_owned()).or_insert(self.operations.len());
        if place == self.operations.len() {
            self.operations.push(name.to_owned());
        }
        place
    }

    /// Seconds as intervals; those at the ends are as long as the log covers of them.
    /// `weight` is how many operations each stands for, and `clients` how many clients
    /// the log names.
    pub(crate) fn finish(self, weight: f64, clients: Option<u32>) -> Collected {
        let mut dense = LatencyHistogram::new();
        let mut sparse = |nanos: &[u64]| -> SparseHistogram {
            dense.clear();
            // What is owed is carried on, so that the total is right for any weight.
            let mut owed = 0.0;
            for latency in nanos {
                owed += weight;
                dense.record_n(Duration::from_nanos(*latency), owed as u64);
                owed = owed.fract();
            }
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
                    late: 0,
                    lag: sparse(&second.lags),
                    driver_cpu: Duration::ZERO,
                    busiest_thread_cpu: Duration::ZERO,
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
