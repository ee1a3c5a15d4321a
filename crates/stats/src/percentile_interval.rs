//! Intervals of latency percentiles, by resampling runs and blocks of intervals.

use rand::RngExt;

use crate::resampling::{generator, percentile_cut};
use crate::{Estimate, EstimateWarning, Method, Resampling};

/// How often each value was counted: a histogram of one block of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ValueCounts(Vec<(f64, u64)>);

impl ValueCounts {
    /// From (value, count) pairs in any order; values that are not finite are left out.
    pub fn new(pairs: impl IntoIterator<Item = (f64, u64)>) -> Self {
        let mut pairs: Vec<_> =
            pairs.into_iter().filter(|(v, c)| v.is_finite() && *c > 0).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        ValueCounts(pairs)
    }

    /// Number of observations.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }
}

/// Counts of one block, cumulated over the values that occur anywhere.
struct Cumulative {
    up_to: Vec<u64>,
}

/// The percentile `q` (0 to 1) of all observations, merged, with a hierarchical
/// bootstrap interval: runs are drawn first, then blocks inside each drawn run.
///
/// The percentile is the smallest value that at least `q` of all observations do
/// not exceed. Blocks should be long enough to be nearly independent. With one
/// run only its blocks are drawn, and the estimate says so ([`EstimateWarning::SingleRun`]).
/// `None` when nothing was counted or `q` is outside 0 to 1. Percentile intervals.
pub fn percentile_interval(
    runs: &[Vec<ValueCounts>],
    q: f64,
    how: &Resampling,
) -> Option<Estimate> {
    if !(0.0..=1.0).contains(&q) {
        return None;
    }
    let runs: Vec<&Vec<ValueCounts>> =
        runs.iter().filter(|run| run.iter().any(|block| block.total() > 0)).collect();
    let mut grid: Vec<f64> =
        runs.iter().flat_map(|r| r.iter()).flat_map(|b| b.0.iter().map(|(v, _)| *v)).collect();
    grid.sort_by(f64::total_cmp);
    grid.dedup();
    let cumulated: Vec<Vec<Cumulative>> =
        runs.iter().map(|run| run.iter().map(|block| cumulate(block, &grid)).collect()).collect();
    let everything: Vec<&Cumulative> = cumulated.iter().flatten().collect();
    let center = percentile_of(&everything, &grid, q)?;

    let blocks = cumulated.iter().map(Vec::len).min().unwrap_or(0);
    let few = EstimateWarning::TooFewSamples { have: blocks, need: 2 };
    if cumulated.len() == 1 && blocks < 2 {
        let method = Method::HierarchicalBootstrap;
        return Some(Estimate::without_interval(center, how.confidence, method, few));
    }
    let mut rng = generator(how.seed);
    let mut drawn: Vec<&Cumulative> = Vec::with_capacity(everything.len());
    let values: Vec<f64> = (0..how.resamples)
        .filter_map(|_| {
            drawn.clear();
            for _ in 0..cumulated.len() {
                let run = &cumulated[rng.random_range(0..cumulated.len())];
                drawn.extend((0..run.len()).map(|_| &run[rng.random_range(0..run.len())]));
            }
            percentile_of(&drawn, &grid, q)
        })
        .collect();
    let flat = values.windows(2).all(|w| w[0] == w[1]);
    let mut warnings = Vec::new();
    if cumulated.len() == 1 {
        warnings.push(EstimateWarning::SingleRun);
    }
    if flat {
        warnings.push(EstimateWarning::NoSpread);
    }
    Some(Estimate {
        center,
        interval: percentile_cut(values, how.confidence),
        confidence: how.confidence,
        method: Method::HierarchicalBootstrap,
        warnings,
    })
}

fn cumulate(block: &ValueCounts, grid: &[f64]) -> Cumulative {
    let mut pairs = block.0.iter().peekable();
    let mut sum = 0;
    let up_to = grid
        .iter()
        .map(|value| {
            while let Some((_, count)) = pairs.next_if(|(v, _)| v <= value) {
                sum += count;
            }
            sum
        })
        .collect();
    Cumulative { up_to }
}

/// Binary search over the grid, so that a resample costs blocks × log(values)
/// and not the merging of histograms.
fn percentile_of(blocks: &[&Cumulative], grid: &[f64], q: f64) -> Option<f64> {
    let up_to = |i: usize| blocks.iter().map(|b| b.up_to[i]).sum::<u64>();
    let total = up_to(grid.len().checked_sub(1)?);
    if total == 0 {
        return None;
    }
    // At least one observation, so that q = 0 is the smallest value.
    let wanted = (q * total as f64).max(1.0);
    let (mut low, mut high) = (0, grid.len() - 1);
    while low < high {
        let middle = (low + high) / 2;
        if up_to(middle) as f64 >= wanted { high = middle } else { low = middle + 1 }
    }
    Some(grid[low])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    fn block(values: &[f64]) -> ValueCounts {
        ValueCounts::new(values.iter().map(|v| ((v * 100.0).round() / 100.0, 1)))
    }

    #[test]
    fn the_center_is_the_percentile_of_all_observations() {
        let run =
            vec![ValueCounts::new([(3.0, 1), (1.0, 2)]), ValueCounts::new([(2.0, 3), (10.0, 4)])];
        for (q, expected) in
            [(0.0, 1.0), (0.2, 1.0), (0.21, 2.0), (0.5, 2.0), (0.6, 3.0), (0.61, 10.0), (1.0, 10.0)]
        {
            let estimate =
                percentile_interval(std::slice::from_ref(&run), q, &Resampling::default()).unwrap();
            assert_eq!(estimate.center, expected, "q {q}");
            assert_eq!(estimate.warnings[0], EstimateWarning::SingleRun);
        }
    }

    #[test]
    fn the_spread_between_runs_is_in_the_interval() {
        // Runs differ by a normal offset of deviation 1, observations within by 1;
        // the median over all runs is 100.
        let covered = (0..150_u64)
            .filter(|seed| {
                let mut synthetic = Synthetic::new(*seed);
                let runs: Vec<Vec<ValueCounts>> = (0..15)
                    .map(|_| {
                        let level = 100.0 + synthetic.normal();
                        (0..6).map(|_| block(&synthetic.noise(20, level, 1.0))).collect()
                    })
                    .collect();
                let how = Resampling { resamples: 200, seed: *seed, ..Default::default() };
                percentile_interval(&runs, 0.5, &how).unwrap().interval.unwrap().contains(100.0)
            })
            .count();
        println!("covered {covered}/150");
        assert!(covered >= 132, "{covered} of 150");
    }

    #[test]
    fn the_smallest_value_is_the_percentile_zero() {
        let run = vec![ValueCounts::new([(1.0, 1), (2.0, 9)])];
        assert_eq!(percentile_interval(&[run], 0.0, &Resampling::default()).unwrap().center, 1.0);
    }

    #[test]
    fn one_block_of_one_run_has_no_interval() {
        let one = vec![vec![block(&[1.0, 2.0, 3.0])]];
        let estimate = percentile_interval(&one, 0.5, &Resampling::default()).unwrap();
        assert_eq!((estimate.center, estimate.interval), (2.0, None));
    }

    #[test]
    fn nothing_counted_is_none() {
        let how = Resampling::default();
        assert!(percentile_interval(&[], 0.5, &how).is_none());
        assert!(percentile_interval(&[vec![ValueCounts::default()]], 0.5, &how).is_none());
        assert!(percentile_interval(&[vec![block(&[1.0])]], 1.5, &how).is_none());
    }
}
