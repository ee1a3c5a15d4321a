//! Bootstrap of a statistic of a stationary series, block by block, so that
//! resamples keep the dependence between neighbours.

use rand::RngExt;

use crate::resampling::{bca_cut, generator, percentile_cut};
use crate::{Estimate, EstimateWarning, IntervalKind, Method, Resampling};

/// Fewest blocks a resample should be made of for its spread to mean something.
const FEW_BLOCKS: usize = 8;

/// Block length for the circular bootstrap of a series' mean: (6n)^⅓ ·
/// (ρ/(1−ρ²))^⅔ with the lag-1 autocorrelation ρ, the value of Politis and White
/// (Econometric Reviews 23, 2004) for a first-order autoregression. 1 where there
/// is no positive autocorrelation, at most a quarter of the series.
pub fn block_length(series: &[f64]) -> usize {
    let n = series.len();
    let Some(mean) = crate::mean(series) else { return 1 };
    let squares: f64 = series.iter().map(|v| (v - mean).powi(2)).sum();
    let products: f64 = series.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    if squares <= 0.0 || products <= 0.0 {
        return 1;
    }
    let rho = (products / squares).min(0.97);
    let length = (6.0 * n as f64).cbrt() * (rho / (1.0 - rho * rho)).powf(2.0 / 3.0);
    (length.ceil() as usize).clamp(1, (n / 4).max(1))
}

/// The statistic of `items` with a bootstrap interval over circular blocks of
/// `block` neighbours.
///
/// `statistic` may refuse a resample (`None`); refused ones are counted in a
/// warning. `None` when the statistic of all items is `None`.
pub fn block_bootstrap<T>(
    items: &[T],
    block: usize,
    statistic: impl Fn(&[&T]) -> Option<f64>,
    how: &Resampling,
) -> Option<Estimate> {
    let all: Vec<&T> = items.iter().collect();
    let center = statistic(&all)?;
    let n = items.len();
    let block = block.clamp(1, n.max(1));
    let blocks = n.div_ceil(block);
    let method = match how.interval {
        IntervalKind::Percentile => Method::BlockBootstrap,
        IntervalKind::Bca => Method::BlockBootstrapBca,
    };
    if blocks < 2 {
        let warning = EstimateWarning::TooFewSamples { have: blocks, need: 2 };
        return Some(Estimate::without_interval(center, how.confidence, method, warning));
    }
    let mut rng = generator(how.seed);
    let mut resample: Vec<&T> = Vec::with_capacity(n + block);
    let values: Vec<f64> = (0..how.resamples)
        .filter_map(|_| {
            resample.clear();
            while resample.len() < n {
                let start = rng.random_range(0..n);
                resample.extend((0..block).map(|i| &items[(start + i) % n]));
            }
            resample.truncate(n);
            statistic(&resample).filter(|v| v.is_finite())
        })
        .collect();
    let lost = how.resamples - values.len();
    let flat = values.windows(2).all(|w| w[0] == w[1]);
    let interval = match how.interval {
        IntervalKind::Percentile => percentile_cut(values, how.confidence),
        IntervalKind::Bca => {
            let jackknife: Vec<f64> = (0..blocks)
                .filter_map(|left_out| {
                    let rest: Vec<&T> = items
                        .iter()
                        .enumerate()
                        .filter(|(i, _)| i / block != left_out)
                        .map(|(_, item)| item)
                        .collect();
                    statistic(&rest).filter(|v| v.is_finite())
                })
                .collect();
            bca_cut(values, center, &jackknife, how.confidence)
        }
    };
    let mut warnings = Vec::new();
    if lost > 0 {
        warnings.push(EstimateWarning::ResamplesLost { lost, of: how.resamples });
    }
    if flat {
        warnings.push(EstimateWarning::NoSpread);
    } else if blocks < FEW_BLOCKS {
        warnings.push(EstimateWarning::TooFewSamples { have: blocks, need: FEW_BLOCKS });
    }
    Some(Estimate { center, interval, confidence: how.confidence, method, warnings })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    fn mean_of(items: &[&f64]) -> Option<f64> {
        (!items.is_empty()).then(|| items.iter().copied().sum::<f64>() / items.len() as f64)
    }

    fn coverage(phi: f64, n: usize, block: Option<usize>, interval: IntervalKind) -> f64 {
        let runs = 300_u64;
        let covered = (0..runs)
            .filter(|seed| {
                let series = Synthetic::new(*seed).ar1(n, phi, 50.0, 5.0);
                let how =
                    Resampling { resamples: 300, seed: *seed, interval, ..Default::default() };
                let block = block.unwrap_or_else(|| block_length(&series));
                block_bootstrap(&series, block, mean_of, &how)
                    .unwrap()
                    .interval
                    .unwrap()
                    .contains(50.0)
            })
            .count();
        covered as f64 / runs as f64
    }

    #[test]
    fn blocks_cover_where_single_items_do_not() {
        assert!(coverage(0.0, 100, None, IntervalKind::Percentile) > 0.91);
        assert!(coverage(0.0, 100, None, IntervalKind::Bca) > 0.91);
        let with_blocks = coverage(0.6, 300, None, IntervalKind::Percentile);
        let without = coverage(0.6, 300, Some(1), IntervalKind::Percentile);
        assert!(with_blocks > 0.88, "{with_blocks}");
        assert!(without < 0.80, "{without}");
    }

    #[test]
    fn bca_follows_the_skew() {
        // The variance of normal data is skewed to the right: BCa moves the
        // interval up from the percentile one.
        let series = Synthetic::new(9).noise(30, 0.0, 1.0);
        let variance =
            |items: &[&f64]| crate::variance(&items.iter().map(|v| **v).collect::<Vec<f64>>());
        let at = |interval| {
            let how = Resampling { interval, ..Default::default() };
            block_bootstrap(&series, 1, variance, &how).unwrap().interval.unwrap()
        };
        let (percentile, bca) = (at(IntervalKind::Percentile), at(IntervalKind::Bca));
        assert!(bca.high > percentile.high && bca.low > percentile.low);
    }

    #[test]
    fn longer_memory_gives_longer_blocks() {
        let length = |phi| block_length(&Synthetic::new(1).ar1(600, phi, 0.0, 1.0));
        assert!(length(0.0) <= 4);
        assert!(length(0.5) > length(0.0) && length(0.9) > length(0.5));
        assert_eq!(block_length(&[]), 1);
        assert_eq!(block_length(&[1.0; 9]), 1);
    }

    #[test]
    fn too_little_is_said() {
        let how = Resampling::default();
        assert!(block_bootstrap(&[], 1, mean_of, &how).is_none());
        assert_eq!(block_bootstrap(&[1.0], 1, mean_of, &how).unwrap().interval, None);
        let few = block_bootstrap(&[1.0, 2.0, 3.0], 1, mean_of, &how).unwrap();
        assert_eq!(few.warnings, [EstimateWarning::TooFewSamples { have: 3, need: 8 }]);
        let flat = block_bootstrap(&[2.0; 30], 1, mean_of, &how).unwrap();
        assert_eq!(flat.warnings, [EstimateWarning::NoSpread]);
    }

    #[test]
    fn refused_resamples_are_counted() {
        let statistic = |items: &[&f64]| {
            let mean = mean_of(items)?;
            (mean > 1.9).then_some(mean)
        };
        let items: Vec<f64> = (0..20).map(|i| f64::from(i % 5)).collect();
        let estimate = block_bootstrap(&items, 1, statistic, &Resampling::default()).unwrap();
        assert!(
            matches!(estimate.warnings[..], [EstimateWarning::ResamplesLost { lost, of: 2_000 }] if lost > 0)
        );
    }
}
