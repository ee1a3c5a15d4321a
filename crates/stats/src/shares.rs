//! Shares of categories counted in ticks, such as sessions by wait class.

use rand::RngExt;

use crate::resampling::{generator, percentile_cut};
use crate::{Estimate, EstimateWarning, Method, Resampling, block_length};

/// Fewest blocks of ticks an interval should rest on.
const FEW_BLOCKS: usize = 8;

/// The share of every category in the counts of all ticks, with intervals from a
/// bootstrap over blocks of ticks: sessions seen in one tick depend on each
/// other, and so do neighbouring ticks.
///
/// `ticks` holds one row a tick with one count a category; all rows have the
/// length of the first, longer or shorter ones are cut or filled with zero. The
/// same resamples serve all categories, so their shares add up in each. Always
/// percentile intervals. `None` without ticks or when all counts are zero. A
/// category never seen has the interval 0 to 0 and the warning [`EstimateWarning::NoSpread`].
pub fn shares(ticks: &[Vec<f64>], how: &Resampling) -> Option<Vec<Estimate>> {
    resampled_ratios(ticks, how, |counts, _| counts.iter().sum())
}

/// The mean count of every category in a tick, with the same bootstrap as
/// [`shares`]. Times the length of a window this is the time all sessions spent
/// in the category; over a throughput it is the time a transaction spends there
/// (Little's law). `None` without ticks.
pub fn tick_means(ticks: &[Vec<f64>], how: &Resampling) -> Option<Vec<Estimate>> {
    resampled_ratios(ticks, how, |_, ticks| ticks as f64)
}

/// Counts of each category over what `whole` makes of the summed counts and the
/// number of ticks.
fn resampled_ratios(
    ticks: &[Vec<f64>],
    how: &Resampling,
    whole: impl Fn(&[f64], usize) -> f64,
) -> Option<Vec<Estimate>> {
    let categories = ticks.first()?.len();
    let n = ticks.len();
    let count = |tick: &Vec<f64>, category: usize| tick.get(category).copied().unwrap_or(0.0);
    let row = |i: usize| -> Vec<f64> { (0..categories).map(|k| count(&ticks[i], k)).collect() };
    // Prefix sums over the ticks twice round make every block one subtraction.
    let mut prefix = vec![vec![0.0; categories]];
    for i in 0..2 * n {
        let next = (0..categories).map(|k| prefix[i][k] + count(&ticks[i % n], k)).collect();
        prefix.push(next);
    }
    let total = whole(&prefix[n], n);
    if !(total.is_finite() && total > 0.0) {
        return None;
    }
    let centers: Vec<f64> = prefix[n].iter().map(|s| s / total).collect();
    // The influence of a tick on a ratio is what its autocorrelation matters for.
    let block = (0..categories)
        .map(|k| {
            let influence: Vec<f64> =
                (0..n).map(|i| count(&ticks[i], k) - centers[k] * whole(&row(i), 1)).collect();
            block_length(&influence)
        })
        .max()
        .unwrap_or(1);

    let mut rng = generator(how.seed);
    let mut resampled = vec![Vec::with_capacity(how.resamples); categories];
    let mut drawn = vec![0.0; categories];
    let mut lost = 0;
    for _ in 0..how.resamples {
        drawn.fill(0.0);
        let mut left = n;
        while left > 0 {
            let length = block.min(left);
            let start = rng.random_range(0..n);
            for (k, sum) in drawn.iter_mut().enumerate() {
                *sum += prefix[start + length][k] - prefix[start][k];
            }
            left -= length;
        }
        let of_all = whole(&drawn, n);
        if of_all > 0.0 {
            (0..categories).for_each(|k| resampled[k].push(drawn[k] / of_all));
        } else {
            lost += 1;
        }
    }
    let blocks = n.div_ceil(block);
    let estimate = |(center, values): (f64, Vec<f64>)| {
        let mut warnings = Vec::new();
        if lost > 0 {
            warnings.push(EstimateWarning::ResamplesLost { lost, of: how.resamples });
        }
        if values.windows(2).all(|w| w[0] == w[1]) {
            warnings.push(EstimateWarning::NoSpread);
        }
        let interval = if blocks < 2 { None } else { percentile_cut(values, how.confidence) };
        if blocks < FEW_BLOCKS {
            warnings.push(EstimateWarning::TooFewSamples { have: blocks, need: FEW_BLOCKS });
        }
        let method = Method::BlockBootstrap;
        Estimate { center, interval, confidence: how.confidence, method, warnings }
    };
    Some(centers.into_iter().zip(resampled).map(estimate).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    /// Ticks of ten sessions whose share in the first category wanders.
    fn ticks(seed: u64, n: usize, phi: f64) -> Vec<Vec<f64>> {
        let mut synthetic = Synthetic::new(seed);
        let level = synthetic.ar1(n, phi, 0.4, 0.1);
        level
            .iter()
            .map(|p| {
                let first = (0..10).filter(|_| synthetic.uniform() < *p).count() as f64;
                vec![first, 10.0 - first, 0.0]
            })
            .collect()
    }

    #[test]
    fn intervals_of_shares_cover() {
        for phi in [0.0, 0.7] {
            let covered = (0..200_u64)
                .filter(|seed| {
                    let how = Resampling { resamples: 400, seed: *seed, ..Default::default() };
                    let shares = shares(&ticks(*seed, 200, phi), &how).unwrap();
                    shares[0].interval.unwrap().contains(0.4)
                })
                .count();
            println!("phi {phi} covered {covered}/200");
            assert!(covered >= 174, "phi {phi}: {covered} of 200");
        }
    }

    #[test]
    fn precision_is_that_of_the_method_note() {
        // A share of one half in which all sessions of a tick agree: 60 ticks
        // give a standard error of 6.5 points, 600 give 2.
        let width = |n: usize| {
            let mut synthetic = Synthetic::new(21);
            let ticks: Vec<Vec<f64>> = (0..n)
                .map(|_| if synthetic.uniform() < 0.5 { vec![8.0, 0.0] } else { vec![0.0, 8.0] })
                .collect();
            shares(&ticks, &Resampling::default()).unwrap()[0].interval.unwrap().half_width()
        };
        assert!((width(60) / 1.96 - 0.065).abs() < 0.02, "{}", width(60) / 1.96);
        assert!((width(600) / 1.96 - 0.0204).abs() < 0.006, "{}", width(600) / 1.96);
    }

    #[test]
    fn shares_add_up_and_the_unseen_has_a_warning() {
        let shares = shares(&ticks(1, 50, 0.0), &Resampling::default()).unwrap();
        let sum: f64 = shares.iter().map(|s| s.center).sum();
        assert!((sum - 1.0).abs() < 1e-12);
        assert!(shares[2].warnings.contains(&EstimateWarning::NoSpread));
    }

    #[test]
    fn mean_counts_are_those_of_the_ticks() {
        let ticks: Vec<Vec<f64>> = (0..100).map(|i| vec![f64::from(i % 4), 0.0]).collect();
        let means = tick_means(&ticks, &Resampling::default()).unwrap();
        assert!((means[0].center - 1.5).abs() < 1e-12);
        assert!(means[0].interval.unwrap().contains(1.5));
        // Ticks in which nobody is seen count as well.
        assert_eq!(
            tick_means(&[vec![0.0], vec![0.0]], &Resampling::default()).unwrap()[0].center,
            0.0
        );
    }

    #[test]
    fn without_counts_there_is_no_share() {
        assert!(shares(&[], &Resampling::default()).is_none());
        assert!(shares(&[vec![0.0, 0.0]], &Resampling::default()).is_none());
    }
}
