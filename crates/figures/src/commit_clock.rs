//! How far the clients' work had come when counters were read.
//!
//! A session adds what it counted to the cumulative statistics at the end of a transaction,
//! and at most once a second (`PGSTAT_MIN_INTERVAL` in pgstat.c; twice before 15). So a
//! sample of counters is up to a second behind the clients, and where their rate changes the
//! work done between two samples is not the work that was counted. Commits are added in the
//! same moment as everything else that a session counts: they tell the time of that clock.

use std::time::Duration;

use walwright_record::{Record, Source, Window};

use crate::window::{Work, commits_between, driven_within, transactions, work_between};
use crate::{Blind, Difference, difference, latency};

/// Longest that a session which begins one transaction after the other keeps what it counted,
/// beside the transaction that is under way then.
const KEPT: Duration = Duration::from_secs(1);
/// No session has added anything so soon after the load began.
const NOTHING_ADDED: Duration = Duration::from_millis(400);

/// The work that the counters of a difference hold: for sources that sessions add to, the
/// work of the commits that were added between the same two samples.
///
/// # Errors
/// As [`work_between`].
pub fn work_counted(record: &Record, of: &Difference) -> Result<Work, Blind> {
    let work = work_between(record, of.from, of.to)?;
    // Without clients' intervals the work is commits, which are as late as the rest.
    if record.intervals.is_empty() || !of.source().is_added_late() {
        return Ok(work);
    }
    let Some(commits) = commits_of_one(record) else { return Ok(work) };
    let Ok(counted) = commits_between(record, of.from, of.to) else { return Ok(work) };
    // Commits of others are no part of the work: it is what the clients did in this stretch,
    // but for what they did just before either end.
    let [first, last] = just_before(record, of);
    let (least, most) = (work.count - last, work.count + first);
    let count = (counted / commits).clamp(least.max(0.0), most);
    if count > 0.0 { Ok(Work { count, ..work }) } else { Err(Blind::NoWork) }
}

/// By what part at most the work of WAL counters is unlike what was counted, where commits do
/// not tell; `None` where they do.
pub(crate) fn unknown_part(record: &Record, window: Window) -> Option<f64> {
    if record.intervals.is_empty() || commits_of_one(record).is_some() {
        return None;
    }
    let wal = difference(record, Source::Wal, window).ok()?;
    let work = work_between(record, wal.from, wal.to).ok()?;
    let [first, last] = just_before(record, &wal);
    Some(first.max(last) / work.count)
}

/// What clients did just before either end and sessions may not have added by then.
fn just_before(record: &Record, of: &Difference) -> [f64; 2] {
    let latency = record.window().and_then(|window| latency::mean_latency(record, window));
    let late = KEPT + latency.unwrap_or_default();
    [of.from, of.to].map(|at| driven_within(record, at.minus(late), at, transactions).0)
}

/// Commits of one transaction of the clients over the whole load. Ours begins and ends with
/// nothing that is yet to be added; that of others goes on before and after its log. `None`
/// where it was not sampled from end to end.
fn commits_of_one(record: &Record) -> Option<f64> {
    let (first, last) = (record.intervals.first()?, record.intervals.last()?);
    let (begun, ended) = (first.start.plus(NOTHING_ADDED), last.start.plus(last.length));
    let samples = record.samples(Source::Database);
    let from = samples.iter().rev().find(|sample| sample.at <= begun)?;
    let mut after = samples.iter().filter(|sample| sample.at >= ended);
    let to = if record.client.is_none() { after.next_back() } else { after.next() }?;
    let commits = commits_between(record, from.at, to.at).ok()?;
    let done: u64 = record.intervals.iter().map(transactions).sum();
    (done > 0 && commits > 0.0).then(|| commits / done as f64)
}

#[cfg(test)]
mod tests {
    use walwright_record::{ClientFacts, ClientUnit, Sample};
    use walwright_testing::{Build, row, second};

    use super::*;

    /// Transactions of each second of a load that finds its pace late.
    const RATES: [u64; 11] = [60, 70, 100, 70, 20, 140, 370, 310, 1_090, 1_580, 0];

    /// Transactions done by a moment.
    fn done(at: f64) -> f64 {
        let second = |(s, rate): (usize, &u64)| *rate as f64 * (at - s as f64).clamp(0.0, 1.0);
        RATES.iter().enumerate().map(second).sum()
    }

    /// Sessions add what they counted 0.9 s late: two commits and a flush a transaction. What
    /// is left is there when they have ended. Beside them others commit.
    fn build(others: impl Fn(f64) -> f64) -> Build {
        let mut build = Build::new();
        for (s, rate) in RATES.iter().enumerate() {
            build.interval(s as f64, &vec![Duration::from_micros(500); *rate as usize]);
        }
        build.measure(2.0, 10.0);
        for s in 0..=11 {
            let at = f64::from(s) + 0.2;
            let seen = if s == 11 { done(at) } else { done(at - 0.9) };
            let commits = 7_000.0 + 2.0 * seen + others(at);
            build.sample(at, Source::Database, [row([("xact_commit", commits)])]);
            build.sample(at, Source::Wal, [row([("wal_sync", seen)])]);
            build.sample(at, Source::Checkpointer, [row([("num_done", 0.0)])]);
        }
        build
    }

    fn counted(build: &Build, source: Source) -> f64 {
        let window = Window { start: second(2.0), end: second(10.0) };
        let of = difference(&build.record, source, window).unwrap();
        work_counted(&build.record, &of).unwrap().count
    }

    #[test]
    fn counters_are_set_against_the_work_that_was_added_with_them() {
        let build = build(|_| 0.0);
        let flushes = done(9.2 - 0.9) - done(2.2 - 0.9);
        assert!((counted(&build, Source::Wal) - flushes).abs() < 1.0, "{flushes}");
        // What did not come from sessions is set against what was done meanwhile.
        let meanwhile = done(9.2) - done(2.2);
        assert!((counted(&build, Source::Checkpointer) - meanwhile).abs() < 1.0);
        assert!(flushes < 0.7 * meanwhile);
    }

    #[test]
    fn steady_commits_of_others_change_little_and_a_burst_no_more_than_a_second_of_work() {
        let flushes = done(9.2 - 0.9) - done(2.2 - 0.9);
        let steady = counted(&build(|at| 10.0 * at), Source::Wal);
        assert!((steady / flushes - 1.0).abs() < 0.03, "{steady} {flushes}");
        let burst = counted(&build(|at| if at < 5.0 { 0.0 } else { 1e6 }), Source::Wal);
        let most = done(9.2) - done(2.2 - 1.1);
        assert!(flushes <= burst && burst <= most, "{burst} {most}");
    }

    #[test]
    fn what_others_commit_before_and_after_the_log_of_their_clients_is_no_part_of_it() {
        let mut build = build(|_| 0.0);
        build.record.client = Some(ClientFacts {
            unit: ClientUnit::Transaction,
            operations: Vec::new(),
            logs: Vec::new(),
        });
        let samples = build.record.samples.get_mut(&Source::Database).unwrap();
        for (at, commits) in [(-30.0, 0.0), (60.0, 90_000.0)] {
            let rows = vec![row([("xact_commit", commits)])];
            samples.push(Sample { at: second(at), source: Source::Database, rows });
        }
        samples.sort_by_key(|sample| sample.at);
        let flushes = done(9.2 - 0.9) - done(2.2 - 0.9);
        assert!((counted(&build, Source::Wal) - flushes).abs() < 1.0, "{flushes}");
    }

    #[test]
    fn a_load_that_was_not_sampled_from_end_to_end_is_counted_as_it_was_done() {
        let mut build = build(|_| 0.0);
        build.record.samples.get_mut(&Source::Database).unwrap().pop();
        let meanwhile = done(9.2) - done(2.2);
        assert!((counted(&build, Source::Wal) - meanwhile).abs() < 1.0);
        let window = Window { start: second(2.0), end: second(10.0) };
        let off = unknown_part(&build.record, window).unwrap();
        assert!((off - (done(9.2) - done(8.2)) / meanwhile).abs() < 0.01, "{off}");
        assert_eq!(unknown_part(&self::build(|_| 0.0).record, window), None);
    }
}
