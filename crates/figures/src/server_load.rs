//! The load as the server counts it, by whomever it was made.

use serde::Serialize;
use walwright_record::{Record, Sample, Source, Timestamp, Window};
use walwright_stats::{Confidence, Estimate, precision_of_mean};

use crate::{Blind, difference};

/// Transactions of the target database over the window, as `pg_stat_database` counts
/// them. The probe's own queries, each a transaction, are taken off.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerLoad {
    /// Transactions that committed.
    pub commits: f64,
    /// The same a second, with the precision of this one run; backends report their
    /// counts about once a second, so single seconds are blurred.
    pub commits_per_second: Option<Estimate>,
    /// Transactions that rolled back, a second.
    pub rollbacks_per_second: Option<f64>,
    /// Rolled back over all, 0 to 1.
    pub rollback_share: Option<f64>,
    /// Deadlocks that were found.
    pub deadlocks: Option<f64>,
}

/// The load as the server counts it.
///
/// # Errors
/// When `pg_stat_database` was not sampled twice inside the window, or was reset.
pub fn server_load(record: &Record, window: Window) -> Result<ServerLoad, Blind> {
    let counted = difference(record, Source::Database, window)?;
    let seconds = counted.length().as_secs_f64();
    let own = own_queries(record, counted.from, counted.to);
    let commits = (counted.sum("xact_commit")? - own).max(0.0);
    let rollbacks = counted.sum("xact_rollback").ok();
    let inside: Vec<&Sample> = record
        .samples(Source::Database)
        .iter()
        .filter(|sample| window.contains(sample.at))
        .collect();
    let own_rate = own / seconds.max(1e-9);
    let rates: Vec<f64> = inside
        .windows(2)
        .filter_map(|pair| {
            let count = |sample: &Sample| sample.rows.first()?.number("xact_commit");
            let length = pair[1].at.since(pair[0].at).as_secs_f64();
            let done = count(pair[1])? - count(pair[0])?;
            (length > 0.0 && done >= 0.0).then(|| (done / length - own_rate).max(0.0))
        })
        .collect();
    // The centre is what was counted over the whole; the seconds give its precision.
    let precision = precision_of_mean(&rates, Confidence::P95);
    let rate = commits / seconds.max(1e-9);
    let commits_per_second = precision.filter(|_| seconds > 0.0).map(|of_seconds| {
        let shift = rate - of_seconds.center;
        of_seconds.map(|value| value + shift)
    });
    let all = rollbacks.map(|rollbacks| rollbacks + commits);
    Ok(ServerLoad {
        commits,
        commits_per_second,
        rollbacks_per_second: rollbacks.filter(|_| seconds > 0.0).map(|n| n / seconds),
        rollback_share: rollbacks.zip(all).filter(|(_, all)| *all > 0.0).map(|(n, all)| n / all),
        deadlocks: counted.sum("deadlocks").ok(),
    })
}

/// Queries of the probe between two moments, each a transaction of its own, that the server
/// had as commits then; 0 where it did not count them.
pub fn own_queries(record: &Record, from: Timestamp, to: Timestamp) -> f64 {
    let counts: Vec<(Timestamp, f64)> = record
        .samples(Source::ProbeCost)
        .iter()
        .filter_map(|sample| {
            let row = sample.rows.first()?;
            Some((sample.at, row.number("commits").or_else(|| row.number("queries"))?))
        })
        .collect();
    let (Some(first), Some(last)) = (counts.first(), counts.last()) else { return 0.0 };
    let at = |moment: Timestamp| {
        let after = counts.partition_point(|(at, _)| *at < moment);
        match (after.checked_sub(1).and_then(|i| counts.get(i)), counts.get(after)) {
            (Some((t0, c0)), Some((t1, c1))) if t1 > t0 => {
                c0 + (c1 - c0) * moment.since(*t0).as_secs_f64() / t1.since(*t0).as_secs_f64()
            }
            (None, _) => first.1,
            _ => last.1,
        }
    };
    (at(to) - at(from)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use walwright_testing::{Build, row, second};

    fn build() -> Build {
        let mut build = Build::new();
        for s in 0..40 {
            let t = f64::from(s);
            let wobble = f64::from(s % 3);
            let counts = [
                ("xact_commit", 5_000.0 + 115.0 * t + wobble),
                ("xact_rollback", 5.0 * t),
                ("deadlocks", 2.0),
            ];
            build.sample(t, Source::Database, [row(counts)]);
            build.sample(t, Source::ProbeCost, [row([("queries", 15.0 * t)])]);
        }
        build
    }

    #[test]
    fn commits_are_counted_without_the_probes_own() {
        let window = Window { start: second(5.0), end: second(35.5) };
        let load = server_load(&build().record, window).unwrap();
        let rate = load.commits_per_second.unwrap();
        assert!((rate.center - 100.0).abs() < 0.1, "{rate:?}");
        assert!(rate.interval.unwrap().contains(100.0));
        assert!((load.rollback_share.unwrap() - 5.0 / 105.0).abs() < 1e-3);
        assert_eq!(load.deadlocks, Some(0.0));
    }

    #[test]
    fn a_server_that_was_not_sampled_has_no_load() {
        let window = Window { start: second(100.0), end: second(200.0) };
        assert!(server_load(&build().record, window).is_err());
    }
}
