//! A history of runs of one workload: where its throughput changed for good.

use serde::Serialize;
use walwright_record::journal::EntryId;
use walwright_record::{RunId, Timestamp};
use walwright_stats::{ChangePointSearch, Confidence, Estimate, change_points, unpaired_effect};

/// One run of the history.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrendPoint {
    /// The run.
    pub run: RunId,
    /// When it began.
    pub started: Timestamp,
    /// Transactions a second over its measured window.
    pub throughput: f64,
    /// The first journal entry that rests on it.
    pub entry: Option<EntryId>,
    /// What that entry asked.
    pub question: Option<String>,
}

/// A place from which on throughput was another one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shift {
    /// Index of the first run after it.
    pub at: usize,
    /// Mean from the shift before (or the beginning), in transactions a second.
    pub before: f64,
    /// Mean to the next shift (or the end).
    pub after: f64,
    /// Relative change between the two stretches with its interval; `None` where a
    /// run did nothing, which has no ratio.
    pub change: Option<Estimate>,
    /// p-value of the permutation test that accepted it.
    pub p_value: f64,
}

/// The history of one workload on one machine's lab.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trend {
    /// Name of the workload.
    pub workload: String,
    /// The runs, oldest first.
    pub points: Vec<TrendPoint>,
    /// The shifts, oldest first; none does not mean that there was no change, but that
    /// so few runs do not show one.
    pub shifts: Vec<Shift>,
    /// Runs that the search needs before it can find anything.
    pub fewest: usize,
}

/// Finds the shifts in a history, by E-divisive change points over its runs in order.
///
/// The runs may differ in anything (configuration, clients, scale): the trend says
/// when the figure moved, not why.
pub fn trend(workload: String, mut points: Vec<TrendPoint>) -> Trend {
    points.sort_by_key(|point| point.started);
    let series: Vec<f64> = points.iter().map(|point| point.throughput).collect();
    let search = ChangePointSearch::default();
    let found = change_points(&series, &search);
    let edges: Vec<usize> = std::iter::once(0)
        .chain(found.iter().map(|point| point.at))
        .chain([series.len()])
        .collect();
    let shifts = found
        .iter()
        .zip(edges.windows(3))
        .map(|(point, edges)| {
            let (before, after) = (&series[edges[0]..edges[1]], &series[edges[1]..edges[2]]);
            let effect = unpaired_effect(before, after, Confidence::P95, search.seed);
            Shift {
                at: point.at,
                before: point.before,
                after: point.after,
                change: effect.ok().map(|effect| effect.change),
                p_value: point.p_value,
            }
        })
        .collect();
    Trend { workload, points, shifts, fewest: 2 * search.shortest }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(series: &[f64]) -> Trend {
        let point = |(i, throughput): (usize, &f64)| TrendPoint {
            run: RunId(format!("run-{i}")),
            started: Timestamp(i as i64),
            throughput: *throughput,
            entry: None,
            question: None,
        };
        // Given in any order.
        trend("tpcb".to_owned(), series.iter().enumerate().map(point).rev().collect())
    }

    #[test]
    fn a_step_is_found_where_it_is_with_its_size() {
        let mut series = vec![5_000.0, 5_050.0, 4_980.0, 5_020.0, 5_010.0, 4_990.0];
        series.extend([5_760.0, 5_740.0, 5_700.0, 5_790.0, 5_750.0, 5_730.0]);
        let trend = history(&series);
        assert_eq!(trend.shifts.len(), 1);
        let shift = &trend.shifts[0];
        assert_eq!(shift.at, 6);
        assert!(shift.p_value <= 0.05);
        let change = shift.change.as_ref().unwrap();
        assert!(change.excludes(0.0) && (0.13..0.16).contains(&change.center), "{change:?}");
    }

    #[test]
    fn a_level_history_and_a_short_one_have_no_shift() {
        assert_eq!(history(&[5.0, 5.1, 4.9, 5.05, 4.95, 5.02, 4.97, 5.0]).shifts, []);
        assert_eq!(history(&[5.0, 9.0, 5.0]).shifts, []);
        assert_eq!(history(&[]).shifts, []);
    }
}
