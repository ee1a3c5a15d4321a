//! What all resampling shares: seeds, how many, and how an interval is cut.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::descriptive::quantile_of_sorted;
use crate::{Confidence, Interval};

/// How to resample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Resampling {
    /// Resamples to draw. More make the ends of the interval steadier, not closer.
    pub resamples: usize,
    /// Seed of the generator.
    pub seed: u64,
    /// Confidence level of the interval.
    pub confidence: Confidence,
    /// How the interval is cut from the resamples.
    pub interval: IntervalKind,
}

impl Default for Resampling {
    fn default() -> Self {
        // 2,000 put the Monte Carlo error of a 2.5 % tail near 0.35 points.
        Resampling {
            resamples: 2_000,
            seed: 0x5741_4c57,
            confidence: Confidence::P95,
            interval: IntervalKind::Percentile,
        }
    }
}

/// How a bootstrap interval is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalKind {
    /// Quantiles of the resampled values.
    Percentile,
    /// Bias-corrected and accelerated (Efron, JASA 82, 1987).
    Bca,
}

/// The generator of this crate: fast, and the same on every platform.
pub(crate) fn generator(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// Percentile interval of resampled values; `None` when there are none.
pub(crate) fn percentile_cut(mut values: Vec<f64>, confidence: Confidence) -> Option<Interval> {
    if values.is_empty() {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let tail = confidence.alpha() / 2.0;
    Some(Interval {
        low: quantile_of_sorted(&values, tail),
        high: quantile_of_sorted(&values, 1.0 - tail),
    })
}

/// BCa interval of resampled values around `center`, with the acceleration
/// from `jackknife` (the statistic with one block left out, each in turn).
/// `None` when there are no values or the bias correction is not finite.
pub(crate) fn bca_cut(
    mut values: Vec<f64>,
    center: f64,
    jackknife: &[f64],
    confidence: Confidence,
) -> Option<Interval> {
    if values.is_empty() || jackknife.is_empty() {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let below = values.iter().filter(|v| **v < center).count() as f64;
    let ties = values.iter().filter(|v| **v == center).count() as f64;
    let normal = Normal::new(0.0, 1.0).ok()?;
    let bias = normal.inverse_cdf((below + ties / 2.0) / values.len() as f64);
    if !bias.is_finite() {
        return None;
    }
    let jack_mean = jackknife.iter().sum::<f64>() / jackknife.len() as f64;
    let (squares, cubes) = jackknife.iter().fold((0.0, 0.0), |(s, c), v| {
        let d = jack_mean - v;
        (s + d * d, c + d * d * d)
    });
    let acceleration = if squares > 0.0 { cubes / (6.0 * squares.powf(1.5)) } else { 0.0 };
    let adjusted = |tail: f64| {
        let shifted = bias + normal.inverse_cdf(tail);
        normal.cdf(bias + shifted / (1.0 - acceleration * shifted))
    };
    let tail = confidence.alpha() / 2.0;
    Some(Interval::between(
        quantile_of_sorted(&values, adjusted(tail)),
        quantile_of_sorted(&values, adjusted(1.0 - tail)),
    ))
}
