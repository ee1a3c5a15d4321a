//! Throughput, latency and failures as the clients saw them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use walwright_record::{LoadInterval, Record, Schedule, UnderWay, Window};
use walwright_stats::{
    Confidence, Estimate, Resampling, SteadyRule, SteadyState, ValueCounts, percentile_interval,
    precision_of_mean, steady_state,
};

use crate::WorkUnit;
use crate::latency::{Latency, lags, latencies, mean_latency, merge, shortest, under_way};
use crate::stages::{StageSummary, stages};
use crate::window::{client_unit, failures, intervals_inside, transactions};

/// Blocks that the intervals of a run are merged to before they are resampled:
/// long enough to be nearly independent, many enough to show spread.
const BLOCKS: usize = 30;
/// Fewest blocks that a percentile's interval is made from.
const FEWEST_BLOCKS: usize = 8;

/// What was under way when the window ended: in the latencies, and not in the throughput.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct UnderWaySummary {
    /// Operations that ended well later.
    pub ended: u64,
    /// Operations that failed later; they are in no latency.
    pub failed: u64,
    /// Operations that had not ended when they were cut off.
    pub unended: u64,
    /// Open loop: operations that were due and never begun.
    pub not_begun: u64,
    /// The longest latency, age or wait among them.
    #[serde(with = "crate::seconds::option")]
    pub longest: Option<Duration>,
}

impl From<&UnderWay> for UnderWaySummary {
    fn from(of: &UnderWay) -> Self {
        UnderWaySummary {
            ended: of.ended_count(),
            failed: of.failed_count(),
            unended: of.unended_count(),
            not_begun: of.not_begun.count(),
            longest: of.longest(),
        }
    }
}

/// Percentiles of one run with the interval that its own intervals allow, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyPrecision {
    /// Median.
    pub p50: Estimate,
    /// 95th percentile.
    pub p95: Estimate,
    /// 99th percentile.
    pub p99: Estimate,
    /// 99.9th percentile.
    pub p99_9: Estimate,
}

/// One script of the workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScriptSummary {
    /// Its name; its number where the record has no workload facts.
    pub name: String,
    /// Transactions that ended well.
    pub transactions: u64,
    /// Their latency; `None` when there were none.
    pub latency: Option<Latency>,
    /// Transactions that failed for good, by SQLSTATE.
    pub failures: BTreeMap<String, u64>,
    /// Its SQL commands in order, where they were timed.
    pub statements: Vec<StatementLatency>,
}

/// One SQL command of a script.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatementLatency {
    /// Its label.
    pub label: String,
    /// Its latency; `None` when it never ended well.
    pub latency: Option<Latency>,
}

/// How an open loop kept its rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpenLoop {
    /// Transactions a second that were to begin.
    pub offered: f64,
    /// Transactions a second that ended well.
    pub reached: f64,
    /// Transactions that came due in the window.
    pub due: u64,
    /// Transactions skipped because they were too late already.
    pub skipped: u64,
    /// How long after its due time each transaction began.
    pub lag: Option<Latency>,
}

/// Transactions against the latency limit of their load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Late {
    /// The limit.
    #[serde(with = "crate::seconds")]
    pub limit: Duration,
    /// Transactions that ended well, but later.
    pub transactions: u64,
}

/// A single transaction's latency against the mark of its workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PassMark {
    /// The mark.
    #[serde(with = "crate::seconds")]
    pub mark: Duration,
    /// The mean latency.
    #[serde(with = "crate::seconds")]
    pub mean: Duration,
    /// Whether the mean stays under the mark.
    pub passed: bool,
}

/// The load as the clients saw it inside the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadSummary {
    /// Transactions that ended well.
    pub transactions: u64,
    /// Transactions a second, with the precision of this one run; `None` without intervals.
    pub throughput: Option<Estimate>,
    /// The rows that they wrote, where rows are the unit of work of every script.
    pub rows: Option<RowsWritten>,
    /// Whether throughput was level through the window; `None` where the load was driven in
    /// stages, which are not meant to be.
    pub steadiness: Option<SteadyState>,
    /// Stage by stage, where it was driven in stages.
    pub stages: Vec<StageSummary>,
    /// What one of the `transactions` is.
    pub unit: WorkUnit,
    /// What was under way when the window ended; `None` where that is not known, as of a
    /// load that is not ours.
    pub under_way: Option<UnderWaySummary>,
    /// Mean latency of what `latency` covers, all scripts: also where the clients'
    /// log holds only sums.
    #[serde(with = "crate::seconds::option")]
    pub mean_latency: Option<Duration>,
    /// Latency of transactions that ended well in the window or were under way when it
    /// ended, all scripts; `None` where single ones are not known.
    pub latency: Option<Latency>,
    /// The same percentiles with intervals; `None` for short windows.
    pub precision: Option<LatencyPrecision>,
    /// Script by script.
    pub scripts: Vec<ScriptSummary>,
    /// Transactions that failed for good.
    pub failed: u64,
    /// The same by SQLSTATE.
    pub failures: BTreeMap<String, u64>,
    /// Transactions that needed more than one try.
    pub retried: u64,
    /// Tries beyond the first by the SQLSTATE that caused them.
    pub retries: BTreeMap<String, u64>,
    /// How an open loop kept its rate; `None` in a closed loop.
    pub open_loop: Option<OpenLoop>,
    /// Transactions that took longer than the limit; `None` where none is given.
    pub late: Option<Late>,
    /// Against the mark of the workload, where it has one.
    pub pass_mark: Option<PassMark>,
    /// Time to open a connection over the whole load, where each transaction had its own. In a
    /// closed loop it is no part of `latency`.
    pub connection_time: Option<Latency>,
}

/// Rows that transactions wrote.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowsWritten {
    /// In a transaction.
    pub each: u32,
    /// A second; `None` without intervals.
    pub throughput: Option<Estimate>,
}

/// Rows that each transaction of a record writes, where rows are the unit of work and all
/// scripts write as many.
pub fn rows_each(record: &Record) -> Option<u32> {
    let scripts = &record.workload.as_ref()?.scripts;
    let mut rows = scripts.iter().map(|script| Some(script.batch.as_ref()?.rows));
    let first = rows.next()??;
    rows.all(|of| of == Some(first)).then_some(first)
}

/// The load inside the window; `None` for a record without driver intervals there.
pub fn load_summary(record: &Record, window: Window) -> Option<LoadSummary> {
    let intervals: Vec<&LoadInterval> = intervals_inside(record, window).collect();
    if intervals.is_empty() {
        return None;
    }
    let rates = rates(&intervals);
    // Stages differ by intent, so no interval tells how far their mean would be off.
    let level = record.load.as_ref().is_none_or(|load| load.stages.is_empty());
    let seconds: f64 = intervals.iter().map(|i| i.length.as_secs_f64()).sum();
    let total: u64 = intervals.iter().map(|i| transactions(i)).sum();
    let under_way = under_way(record, window);
    let unended_from = under_way.and_then(|of| shortest(of.at_least()));
    let latency = Latency::with_unended(&latencies(record, window), unended_from);
    let by_state = |of: fn(&walwright_record::ScriptInterval) -> &BTreeMap<String, u64>| {
        sum_maps(intervals.iter().flat_map(|i| &i.scripts).map(of))
    };
    let open_loop = match record.load.as_ref().map(|load| load.schedule) {
        Some(Schedule::Open { rate, .. }) => Some(OpenLoop {
            offered: rate,
            reached: total as f64 / seconds,
            due: intervals.iter().map(|i| i.due).sum(),
            skipped: intervals.iter().map(|i| i.skipped).sum(),
            lag: Latency::with_unended(
                &lags(record, window),
                under_way.and_then(|of| shortest([&of.not_begun].into_iter())),
            ),
        }),
        Some(Schedule::Closed { .. }) | None => None,
    };
    let limit = record.load.as_ref().and_then(|load| load.schedule.latency_limit());
    let late =
        limit.map(|limit| Late { limit, transactions: intervals.iter().map(|i| i.late).sum() });
    let mark = record.workload.as_ref().and_then(|w| w.pass_mark);
    let pass_mark = mark.zip(latency.as_ref()).map(|(mark, latency)| PassMark {
        mark,
        mean: latency.mean,
        passed: latency.mean < mark,
    });
    let throughput = throughput(&rates, total).map(|mean| match level {
        true => mean,
        false => Estimate { interval: None, ..mean },
    });
    let rows = rows_each(record).map(|each| RowsWritten {
        each,
        throughput: throughput.clone().map(|rate| rate.map(|rate| rate * f64::from(each))),
    });
    Some(LoadSummary {
        transactions: total,
        throughput,
        rows,
        steadiness: level.then(|| steady_state(&rates, &SteadyRule::default())),
        stages: stages(record, window),
        precision: level.then(|| precision(&intervals, under_way)).flatten(),
        unit: client_unit(record),
        under_way: under_way.map(UnderWaySummary::from),
        mean_latency: mean_latency(record, window),
        latency,
        scripts: scripts(record, &intervals, under_way),
        failed: intervals.iter().map(|i| failures(i)).sum(),
        failures: by_state(|s| &s.failures),
        retried: intervals.iter().flat_map(|i| &i.scripts).map(|s| s.retried).sum(),
        retries: by_state(|s| &s.retries),
        open_loop,
        late,
        pass_mark,
        connection_time: record
            .connection_time
            .as_ref()
            .and_then(|time| Latency::of(&merge([time].into_iter()))),
    })
}

/// Mean rate with its precision; nothing at all has none.
fn throughput(rates: &[f64], total: u64) -> Option<Estimate> {
    let mean = precision_of_mean(rates, Confidence::P95)?;
    Some(if total == 0 { Estimate { interval: None, ..mean } } else { mean })
}

/// Transactions a second of each interval. A last interval cut short to less than
/// half of the usual length would be mostly noise and is left out.
fn rates(intervals: &[&LoadInterval]) -> Vec<f64> {
    let longest = intervals.iter().map(|i| i.length).max().unwrap_or_default();
    intervals
        .iter()
        .filter(|i| i.length * 2 >= longest && !i.length.is_zero())
        .map(|i| transactions(i) as f64 / i.length.as_secs_f64())
        .collect()
}

fn sum_maps<'a>(maps: impl Iterator<Item = &'a BTreeMap<String, u64>>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (key, count) in maps.flatten() {
        *sums.entry(key.clone()).or_insert(0) += count;
    }
    sums
}

fn precision(
    intervals: &[&LoadInterval],
    under_way: Option<&UnderWay>,
) -> Option<LatencyPrecision> {
    if intervals.len() < FEWEST_BLOCKS {
        return None;
    }
    let length = intervals.len().div_ceil(BLOCKS);
    let last = (intervals.len() - 1) / length;
    let blocks: Vec<ValueCounts> = intervals
        .chunks(length)
        .enumerate()
        .map(|(place, block)| {
            let inside = block.iter().flat_map(|i| &i.scripts).map(|s| &s.latency);
            // What was under way at the end goes with the last block.
            let later = under_way.filter(|_| place == last).into_iter();
            let later = later.flat_map(|of| of.ended().chain(of.at_least()));
            let merged = merge(inside.chain(later));
            ValueCounts::new(merged.buckets().map(|(value, count)| (value.as_secs_f64(), count)))
        })
        .collect();
    let runs = [blocks];
    let at = |q: f64| percentile_interval(&runs, q, &Resampling::default());
    Some(LatencyPrecision { p50: at(0.5)?, p95: at(0.95)?, p99: at(0.99)?, p99_9: at(0.999)? })
}

fn scripts(
    record: &Record,
    intervals: &[&LoadInterval],
    under_way: Option<&UnderWay>,
) -> Vec<ScriptSummary> {
    let count = intervals.iter().map(|i| i.scripts.len()).max().unwrap_or(0);
    (0..count)
        .map(|index| {
            let of_script = || intervals.iter().filter_map(|i| i.scripts.get(index));
            let facts = record.workload.as_ref().and_then(|w| w.scripts.get(index));
            let called = record.client.as_ref().and_then(|c| c.operations.get(index));
            let later = under_way.and_then(|of| of.scripts.get(index));
            let latency = merge(
                of_script()
                    .map(|s| &s.latency)
                    .chain(later.into_iter().flat_map(|of| [&of.ended, &of.unended])),
            );
            let unended_from = later.and_then(|of| shortest([&of.unended].into_iter()));
            let timed = record.statement_latency.get(index).map_or(&[][..], Vec::as_slice);
            let statements = timed
                .iter()
                .enumerate()
                .map(|(place, histogram)| StatementLatency {
                    label: facts
                        .and_then(|f| f.statements.get(place).cloned())
                        .unwrap_or_else(|| format!("statement {}", place + 1)),
                    latency: Latency::of(histogram),
                })
                .collect();
            ScriptSummary {
                name: facts
                    .map(|facts| facts.name.clone())
                    .or_else(|| called.cloned())
                    .unwrap_or_else(|| format!("script {}", index + 1)),
                transactions: of_script().map(|s| s.transactions).sum(),
                latency: Latency::with_unended(&latency, unended_from),
                failures: sum_maps(of_script().map(|s| &s.failures)),
                statements,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use walwright_record::{ScriptUnderWay, SparseHistogram};

    use super::*;
    use walwright_testing::{Build, histogram, second};

    const MS: Duration = Duration::from_millis(1);

    fn summary(build: &Build, from: f64, to: f64) -> LoadSummary {
        load_summary(&build.record, Window { start: second(from), end: second(to) }).unwrap()
    }

    #[test]
    fn percentiles_come_from_merged_histograms() {
        let mut build = Build::new();
        // One slow second of 10 transactions beside nine fast ones of 100: the
        // mean of the medians would be 10.9 ms.
        for s in 0..9 {
            build.interval(f64::from(s), &[MS; 100]);
        }
        build.interval(9.0, &[100 * MS; 10]);
        let latency = summary(&build, 0.0, 10.0).latency.unwrap();
        assert_eq!(latency.count, 910);
        assert!(latency.p50 < 2 * MS);
        assert!(latency.p99 > 99 * MS && latency.max > 99 * MS);
        assert!((latency.mean.as_secs_f64() - 1.9 / 910.0).abs() < 1e-5);
    }

    #[test]
    fn warm_up_is_left_out() {
        let mut build = Build::new();
        build.load(0, 10, 50).load(10, 40, 200);
        let summary = summary(&build, 10.0, 40.0);
        assert_eq!(summary.transactions, 6_000);
        assert!((summary.throughput.unwrap().center - 200.0).abs() < 1e-9);
        assert_eq!(summary.steadiness, Some(SteadyState::Steady { from: 0 }));
    }

    #[test]
    fn failures_are_kept_apart() {
        let mut build = Build::new();
        for s in 0..10 {
            let interval = build.interval(f64::from(s), &[MS; 10]);
            interval.scripts[0].failures.insert("23505".to_owned(), 2);
            interval.scripts[0].retries.insert("40001".to_owned(), 3);
            interval.scripts[0].retried = 1;
        }
        let summary = summary(&build, 0.0, 10.0);
        assert_eq!((summary.transactions, summary.failed, summary.retried), (100, 20, 10));
        assert_eq!(summary.latency.unwrap().count, 100);
        assert_eq!(summary.failures, BTreeMap::from([("23505".to_owned(), 20)]));
        assert_eq!(summary.retries["40001"], 30);
    }

    #[test]
    fn a_stub_of_an_interval_does_not_sway_the_rate() {
        let mut build = Build::new();
        build.load(0, 20, 100);
        let stub = build.interval(20.0, &[]);
        stub.length = Duration::from_millis(40);
        let throughput = summary(&build, 0.0, 21.0).throughput.unwrap();
        assert_eq!(throughput.center, 100.0);
    }

    #[test]
    fn an_open_loop_states_offered_and_reached() {
        let mut build = Build::new();
        build.load(0, 10, 80);
        build.record.intervals.iter_mut().for_each(|i| {
            i.due = 100;
            i.skipped = 20;
            i.lag = histogram(&[3 * MS]);
        });
        build.open_loop(100.0);
        let open = summary(&build, 0.0, 10.0).open_loop.unwrap();
        assert_eq!((open.offered, open.reached), (100.0, 80.0));
        assert_eq!((open.due, open.skipped), (1_000, 200));
        assert!(open.lag.unwrap().p99 >= 3 * MS);
    }

    /// Thirty seconds of 100 transactions of 2 ms, and at the end ten under way.
    fn stalled(ended: &[Duration], unended: &[Duration], not_begun: &[Duration]) -> Build {
        let mut build = Build::new();
        build.load(0, 30, 100).measure(0.0, 30.0);
        let script = ScriptUnderWay {
            ended: histogram(ended),
            unended: histogram(unended),
            ..ScriptUnderWay::default()
        };
        build.record.under_way = Some(UnderWay {
            scripts: vec![script],
            lag: SparseHistogram::default(),
            not_begun: histogram(not_begun),
        });
        build
    }

    #[test]
    fn what_was_under_way_at_the_end_is_in_latency_and_not_in_throughput() {
        let build = stalled(&[5_000 * MS; 10], &[], &[]);
        let load = summary(&build, 0.0, 30.0);
        let latency = load.latency.unwrap();
        assert_eq!((load.transactions, latency.count), (3_000, 3_010));
        assert!((load.throughput.unwrap().center - 100.0).abs() < 1e-9);
        assert!(latency.max >= 5_000 * MS && !latency.is_lower_bound(latency.max));
        assert!(latency.p99_9 > 4_999 * MS && latency.p99 < 3 * MS);
        let mean = (3_000.0 * 0.002 + 50.0) / 3_010.0;
        assert!((load.mean_latency.unwrap().as_secs_f64() - mean).abs() < 1e-4);
        assert!((load.precision.unwrap().p99_9.center - latency.p99_9.as_secs_f64()).abs() < 0.01);
        assert_eq!(load.scripts[0].latency.as_ref().unwrap().max, latency.max);
        // Of another window it was not the end.
        assert_eq!(summary(&build, 0.0, 20.0).latency.unwrap().count, 2_000);
    }

    #[test]
    fn what_never_ended_makes_lower_bounds_of_the_figures_it_can_move() {
        let build = stalled(&[], &[10_000 * MS, 12_000 * MS], &[11_000 * MS]);
        let load = summary(&build, 0.0, 30.0);
        let latency = load.latency.unwrap();
        assert!(latency.max >= 12_000 * MS && latency.is_lower_bound(latency.max));
        assert!(!latency.is_lower_bound(latency.p99));
        let told = load.under_way.unwrap();
        assert_eq!((told.ended, told.unended, told.not_begun), (0, 2, 1));
        assert!(told.longest.unwrap() >= 12_000 * MS);
    }

    #[test]
    fn a_load_without_a_transaction_has_no_precision() {
        let mut build = Build::new();
        for s in 0..30 {
            build.interval(f64::from(s), &[]);
        }
        let throughput = summary(&build, 0.0, 30.0).throughput.unwrap();
        assert_eq!((throughput.center, throughput.interval), (0.0, None));
    }

    #[test]
    fn without_intervals_there_is_no_load() {
        let build = Build::new();
        let window = Window { start: second(0.0), end: second(9.0) };
        assert_eq!(load_summary(&build.record, window), None);
    }
}
