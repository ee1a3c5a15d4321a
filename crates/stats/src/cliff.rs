//! Sudden changes of level inside one run, found fast and with autocorrelation
//! allowed for.

use serde::{Deserialize, Serialize};

use crate::long_run::residual_tau;

/// A sudden change of level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cliff {
    /// Index of the first observation of the new level.
    pub at: usize,
    /// Mean from the previous cliff (or the start) to this one.
    pub before: f64,
    /// Mean from this cliff to the next one (or the end).
    pub after: f64,
    /// How rarely a level series would show as large a change, from 0 to 1.
    pub p_value: f64,
}

impl Cliff {
    /// (after − before) / |before|; `None` from a level of zero.
    pub fn relative_change(&self) -> Option<f64> {
        (self.before != 0.0).then(|| (self.after - self.before) / self.before.abs())
    }
}

/// Changes of level by cumulative sums and segmentation, in order.
///
/// In a stretch of n observations B_k = S_k − (k/n)·S_n would be σ√n times a
/// Brownian bridge if the level were constant. Its range (max − min, Kuiper's
/// statistic) sees a step as well as a dip that passes; where it peaks, edges are
/// put. Stretches are split while the widest range is significant, then edges are
/// tested once more by |B_k| alone (Kolmogorov's) and the weak ones removed.
/// σ² is the long-run variance (variance times tau) of the residuals around all
/// levels found, the candidate's included, so that a step does not hide itself.
///
/// `alpha` is the level of each test; stretches shorter than `shortest` (at least
/// 3) are not made.
pub fn cliffs(series: &[f64], alpha: f64, shortest: usize) -> Vec<Cliff> {
    if series.iter().any(|v| !v.is_finite()) {
        return Vec::new();
    }
    let shortest = shortest.max(3);
    let mut edges = vec![0, series.len()];
    while let Some((range, candidates)) = widest(series, &edges, shortest) {
        let mut with = edges.clone();
        with.extend(candidates);
        with.sort_unstable();
        if kuiper_tail(range / long_run_deviation(series, &with)) > alpha {
            break;
        }
        edges = with;
    }
    // Weakest first, since removing one edge changes the evidence for its neighbours.
    let tails = loop {
        let deviation = long_run_deviation(series, &edges);
        let tails: Vec<f64> = edges
            .windows(3)
            .map(|w| {
                let bridge = bridge(&series[w[0]..w[2]]);
                let n = (w[2] - w[0]) as f64;
                kolmogorov_tail(bridge[w[1] - w[0]].abs() / (deviation * n.sqrt()))
            })
            .collect();
        let weakest = (0..tails.len()).max_by(|a, b| tails[*a].total_cmp(&tails[*b]));
        match weakest.filter(|i| tails[*i] > alpha) {
            Some(i) => edges.remove(i + 1),
            None => break tails,
        };
    };
    edges
        .windows(3)
        .zip(tails)
        .map(|(w, p_value)| Cliff {
            at: w[1],
            before: crate::mean(&series[w[0]..w[1]]).unwrap_or(f64::NAN),
            after: crate::mean(&series[w[1]..w[2]]).unwrap_or(f64::NAN),
            p_value,
        })
        .collect()
}

/// B_k for k = 0 … n.
fn bridge(stretch: &[f64]) -> Vec<f64> {
    let mean = crate::mean(stretch).unwrap_or(0.0);
    let mut sum = 0.0;
    std::iter::once(0.0)
        .chain(stretch.iter().map(|v| {
            sum += v - mean;
            sum
        }))
        .collect()
}

/// The widest range of a bridge over √n among all stretches that can be split,
/// and the one or two edges it suggests.
fn widest(series: &[f64], edges: &[usize], shortest: usize) -> Option<(f64, Vec<usize>)> {
    edges
        .windows(2)
        .filter_map(|w| {
            let (start, n) = (w[0], w[1] - w[0]);
            let bridge = bridge(&series[start..w[1]]);
            let lowest = (0..=n).min_by(|a, b| bridge[*a].total_cmp(&bridge[*b]))?;
            let highest = (0..=n).max_by(|a, b| bridge[*a].total_cmp(&bridge[*b]))?;
            let range = bridge[highest] - bridge[lowest];
            // Rounding leaves a range on flat stretches; compare with the sums.
            let size: f64 = series[start..w[1]].iter().map(|v| v.abs()).sum();
            let mut cuts = vec![lowest.min(highest), lowest.max(highest)];
            cuts.retain(|k| *k >= shortest && n - k >= shortest);
            if cuts.len() == 2 && cuts[1] - cuts[0] < shortest {
                cuts.pop();
            }
            (!cuts.is_empty() && range > 1e-12 * size)
                .then(|| (range / (n as f64).sqrt(), cuts.iter().map(|k| start + k).collect()))
        })
        .max_by(|a: &(f64, Vec<usize>), b| a.0.total_cmp(&b.0))
}

/// σ: long-run standard deviation of the residuals around the level of each stretch.
fn long_run_deviation(series: &[f64], edges: &[usize]) -> f64 {
    let levels = edges.len() - 1;
    let residuals: Vec<f64> = edges
        .windows(2)
        .flat_map(|w| {
            let stretch = &series[w[0]..w[1]];
            let mean = crate::mean(stretch).unwrap_or(0.0);
            stretch.iter().map(move |v| v - mean)
        })
        .collect();
    let squares: f64 = residuals.iter().map(|r| r * r).sum();
    let freedom = residuals.len().saturating_sub(levels).max(1) as f64;
    (squares / freedom * residual_tau(&residuals, levels)).sqrt()
}

/// P(sup |Brownian bridge| > x), by its alternating series.
fn kolmogorov_tail(x: f64) -> f64 {
    if x.is_nan() || x < 0.2 {
        return 1.0;
    }
    let term = |k: f64| {
        let sign = if k % 2.0 == 1.0 { 2.0 } else { -2.0 };
        sign * (-2.0 * k * k * x * x).exp()
    };
    (1..=100).map(|k| term(f64::from(k))).sum::<f64>().clamp(0.0, 1.0)
}

/// P(max − min of a Brownian bridge > x) (Kuiper, 1960).
fn kuiper_tail(x: f64) -> f64 {
    if x.is_nan() || x < 0.4 {
        return 1.0;
    }
    if x > 30.0 {
        return 0.0;
    }
    let term = |k: f64| 2.0 * (4.0 * k * k * x * x - 1.0) * (-2.0 * k * k * x * x).exp();
    (1..=100).map(|k| term(f64::from(k))).sum::<f64>().clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    #[test]
    fn the_tail_is_that_of_the_tables() {
        for (x, p) in [(1.2238, 0.10), (1.3581, 0.05), (1.6276, 0.01)] {
            assert!((kolmogorov_tail(x) - p).abs() < 1e-3, "{x}");
        }
        // Kuiper's critical values for large samples.
        for (x, p) in [(1.620, 0.10), (1.747, 0.05), (2.001, 0.01)] {
            assert!((kuiper_tail(x) - p).abs() < 1e-3, "{x}: {}", kuiper_tail(x));
        }
        assert_eq!((kolmogorov_tail(f64::INFINITY), kuiper_tail(f64::INFINITY)), (0.0, 0.0));
        assert_eq!(kolmogorov_tail(0.0), 1.0);
    }

    #[test]
    fn a_level_series_rarely_has_a_cliff() {
        for (phi, n) in [(0.0, 60), (0.0, 300), (0.5, 120), (0.7, 300)] {
            let wrong = (0..500_u64)
                .filter(|seed| {
                    let series = Synthetic::new(*seed).ar1(n, phi, 1_000.0, 50.0);
                    !cliffs(&series, 0.05, 5).is_empty()
                })
                .count();
            println!("phi {phi} n {n} false cliffs {wrong}/500");
            assert!(wrong <= 35, "phi {phi}, n {n}: {wrong} of 500 at level 0.05");
        }
    }

    #[test]
    fn the_cliff_of_the_journal_is_found() {
        // Source diary: 34.8 k requests/s fall to 17 k at 15 s.
        let mut synthetic = Synthetic::new(3);
        let mut series = synthetic.ar1(15, 0.3, 34_800.0, 1_500.0);
        series.extend(synthetic.ar1(45, 0.3, 17_000.0, 1_500.0));
        let found = cliffs(&series, 0.01, 5);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].at, 15);
        assert!((found[0].relative_change().unwrap() + 0.51).abs() < 0.03);
    }

    #[test]
    fn a_dip_has_two_edges() {
        let mut synthetic = Synthetic::new(5);
        let mut series = synthetic.noise(60, 1_000.0, 30.0);
        series.extend(synthetic.noise(20, 500.0, 30.0));
        series.extend(synthetic.noise(60, 1_000.0, 30.0));
        let edges: Vec<usize> = cliffs(&series, 0.01, 5).iter().map(|c| c.at).collect();
        assert_eq!(edges, [60, 80]);
    }

    #[test]
    fn a_perfect_step_and_a_flat_line() {
        let step: Vec<f64> = (0..20).map(|i| if i < 10 { 1.0 } else { 2.0 }).collect();
        let found = cliffs(&step, 0.01, 3);
        assert_eq!(found.iter().map(|c| (c.at, c.p_value)).collect::<Vec<_>>(), [(10, 0.0)]);
        assert!(cliffs(&[0.1; 50], 0.05, 3).is_empty());
        assert!(cliffs(&[], 0.05, 3).is_empty());
    }
}
