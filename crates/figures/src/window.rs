//! The measured window, the intervals inside it, and work counted between two moments.

use serde::Serialize;
use walwright_record::{ClientUnit, LoadInterval, Record, Source, Timestamp, Window};

use crate::Blind;
use crate::server_load::own_queries;

/// What a unit of work is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkUnit {
    /// A transaction of the clients that ended well.
    Transaction,
    /// A request of someone else's client that ended well, as its own log tells.
    Request,
    /// A commit of the target database (`pg_stat_database.xact_commit`), by whomever.
    Commit,
}

impl WorkUnit {
    /// The word for one of them.
    pub fn name(self) -> &'static str {
        match self {
            WorkUnit::Transaction => "transaction",
            WorkUnit::Request => "request",
            WorkUnit::Commit => "commit",
        }
    }
}

/// Work done over a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// How much of it; a fraction where an interval was cut.
    pub count: f64,
    /// Of what.
    pub unit: WorkUnit,
}

/// The intervals whose middle lies inside the window.
pub fn intervals_inside(record: &Record, window: Window) -> impl Iterator<Item = &LoadInterval> {
    record.intervals.iter().filter(move |i| window.contains(i.start.plus(i.length / 2)))
}

/// Transactions of an interval that ended well, all scripts.
pub fn transactions(interval: &LoadInterval) -> u64 {
    interval.scripts.iter().map(|s| s.transactions).sum()
}

/// Transactions of an interval that failed for good, all scripts.
pub fn failures(interval: &LoadInterval) -> u64 {
    interval.scripts.iter().flat_map(|s| s.failures.values()).sum()
}

/// The unit of the clients' operations in a record: transactions, unless the log of
/// someone else's clients tells requests.
pub fn client_unit(record: &Record) -> WorkUnit {
    match record.client.as_ref().map(|client| client.unit) {
        Some(ClientUnit::Request) => WorkUnit::Request,
        Some(ClientUnit::Transaction) | None => WorkUnit::Transaction,
    }
}

/// The work between two moments: the clients' operations, their intervals cut in
/// proportion at both ends; for a record without such intervals, commits of the
/// database less the probe's own, interpolated between samples.
///
/// # Errors
/// When neither covers the stretch, or nothing was done.
pub fn work_between(record: &Record, from: Timestamp, to: Timestamp) -> Result<Work, Blind> {
    let work = if record.intervals.is_empty() {
        Work { count: commits_between(record, from, to)?, unit: WorkUnit::Commit }
    } else {
        let count = driven_between(record, from, to, transactions).ok_or(Blind::NoWork)?;
        Work { count, unit: client_unit(record) }
    };
    if work.count > 0.0 { Ok(work) } else { Err(Blind::NoWork) }
}

/// What `count` finds in the intervals between two moments; `None` when they do
/// not cover 99 % of the stretch.
pub fn driven_between(
    record: &Record,
    from: Timestamp,
    to: Timestamp,
    count: impl Fn(&LoadInterval) -> u64,
) -> Option<f64> {
    let (sum, covered) = driven_within(record, from, to, count);
    let length = to.since(from).as_secs_f64();
    (length > 0.0 && covered >= 0.99 * length).then_some(sum)
}

/// What `count` finds in the intervals, those at either end cut in proportion, and how many
/// seconds they cover.
pub(crate) fn driven_within(
    record: &Record,
    from: Timestamp,
    to: Timestamp,
    count: impl Fn(&LoadInterval) -> u64,
) -> (f64, f64) {
    let (mut sum, mut covered) = (0.0, 0.0);
    for interval in &record.intervals {
        let end = interval.start.plus(interval.length).min(to);
        let inside = end.since(interval.start.max(from)).as_secs_f64();
        if inside > 0.0 {
            sum += count(interval) as f64 * inside / interval.length.as_secs_f64();
            covered += inside;
        }
    }
    (sum, covered)
}

/// Commits of the database that were added between two moments, less the probe's own.
pub(crate) fn commits_between(
    record: &Record,
    from: Timestamp,
    to: Timestamp,
) -> Result<f64, Blind> {
    let source = Source::Database;
    let samples = record.samples(source);
    let commits: Vec<(Timestamp, f64)> = samples
        .iter()
        .filter_map(|s| Some((s.at, s.rows.first()?.number("xact_commit")?)))
        .collect();
    let at = |moment: Timestamp| -> Result<f64, Blind> {
        let after = commits.partition_point(|(at, _)| *at < moment);
        match (after.checked_sub(1).map(|i| commits[i]), commits.get(after)) {
            (_, Some((at, count))) if *at == moment => Ok(*count),
            (Some((t0, c0)), Some((t1, c1))) => {
                let share = moment.since(t0).as_secs_f64() / t1.since(t0).as_secs_f64();
                Ok(c0 + (c1 - c0) * share)
            }
            // The samples of two views of one tick are a few milliseconds apart.
            (Some((t, count)), None) if moment.since(t).as_secs_f64() < 1.0 => Ok(count),
            (None, Some((t, count))) if t.since(moment).as_secs_f64() < 1.0 => Ok(*count),
            _ => Err(Blind::NotSampled { source }),
        }
    };
    let done = at(to)? - at(from)?;
    if done < 0.0 {
        return Err(Blind::Reset { source, at: to });
    }
    Ok((done - own_queries(record, from, to)).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use walwright_testing::{Build, row, second};

    #[test]
    fn intervals_are_cut_in_proportion() {
        let mut build = Build::new();
        build.load(0, 10, 100);
        let work = work_between(&build.record, second(2.25), second(4.75)).unwrap();
        assert_eq!(work.unit, WorkUnit::Transaction);
        assert!((work.count - 250.0).abs() < 1e-6);
    }

    #[test]
    fn a_stretch_that_is_not_covered_has_no_work() {
        let mut build = Build::new();
        build.load(0, 10, 100);
        assert_eq!(work_between(&build.record, second(8.0), second(12.0)), Err(Blind::NoWork));
        assert_eq!(work_between(&build.record, second(3.0), second(3.0)), Err(Blind::NoWork));
    }

    #[test]
    fn without_a_driver_commits_are_the_work() {
        let mut build = Build::new();
        for s in 0..10 {
            build.sample(
                f64::from(s),
                Source::Database,
                [row([("xact_commit", 1_000.0 + 50.0 * f64::from(s))])],
            );
        }
        let work = work_between(&build.record, second(2.5), second(6.0)).unwrap();
        assert_eq!(work, Work { count: 175.0, unit: WorkUnit::Commit });
        assert!(work_between(&build.record, second(2.5), second(60.0)).is_err());
    }
}
