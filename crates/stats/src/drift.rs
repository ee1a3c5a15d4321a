//! A slow trend through a series that should be level.

use crate::long_run::residual_tau;
use crate::{Confidence, Estimate, EstimateWarning, Method, t_quantile};

/// Fewest observations a trend is fitted to.
const NEED: usize = 10;

/// The relative change from the first to the last observation along the
/// least-squares line, with an interval that allows for autocorrelation: the
/// slope's variance is that of independent residuals times their tau, with
/// ESS − 2 degrees of freedom.
///
/// `None` when the mean is zero, a value is not finite or there are fewer than
/// ten observations.
pub fn drift(series: &[f64], confidence: Confidence) -> Option<Estimate> {
    if series.len() < NEED || series.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let n = series.len() as f64;
    let mean = crate::mean(series)?;
    if mean == 0.0 {
        return None;
    }
    let (slope, residuals) = line(series, mean);
    let span = (n - 1.0) / mean.abs();
    let spread = n * (n * n - 1.0) / 12.0;
    let tau = residual_tau(&residuals, 2);
    let center = slope * span;
    let Some(t) = t_quantile(confidence, n / tau - 2.0) else {
        let warning =
            EstimateWarning::FewEffectiveSamples { effective: n / tau, observed: series.len() };
        return Some(Estimate::without_interval(center, confidence, Method::BatchMeans, warning));
    };
    let squares: f64 = residuals.iter().map(|r| r * r).sum();
    let variance = squares / (n - 2.0) * tau / spread;
    Some(Estimate::symmetric(center, t * variance.sqrt() * span, confidence, Method::BatchMeans))
}

/// Whether a straight line explains the series better than a step at `at`, by what each
/// leaves unexplained: a decline is no cliff.
///
/// `false` where `at` lies outside of the series.
pub fn line_fits_better(series: &[f64], at: usize) -> bool {
    let Some((before, after)) = series.split_at_checked(at) else { return false };
    let mean = |values: &[f64]| crate::mean(values).unwrap_or(0.0);
    let squares = |values: &[f64]| -> f64 {
        let level = mean(values);
        values.iter().map(|v| (v - level).powi(2)).sum()
    };
    let (_, residuals) = line(series, mean(series));
    let of_line: f64 = residuals.iter().map(|r| r * r).sum();
    of_line < squares(before) + squares(after)
}

/// Slope per observation and residuals of the least-squares line.
fn line(series: &[f64], mean: f64) -> (f64, Vec<f64>) {
    let n = series.len() as f64;
    let middle = (n - 1.0) / 2.0;
    let spread = n * (n * n - 1.0) / 12.0;
    let covariance: f64 =
        series.iter().enumerate().map(|(i, v)| (i as f64 - middle) * (v - mean)).sum();
    let slope = if spread > 0.0 { covariance / spread } else { 0.0 };
    let residuals =
        series.iter().enumerate().map(|(i, v)| v - mean - slope * (i as f64 - middle)).collect();
    (slope, residuals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    #[test]
    fn a_level_series_is_rarely_called_drifting() {
        for (phi, n) in [(0.0, 60), (0.5, 120), (0.7, 240)] {
            let called = (0..1_000_u64)
                .filter(|seed| {
                    let series = Synthetic::new(*seed).ar1(n, phi, 1_000.0, 50.0);
                    drift(&series, Confidence::P95).unwrap().excludes(0.0)
                })
                .count();
            println!("phi {phi} n {n} false drift {called}/1000");
            assert!(called <= 80, "phi {phi}, n {n}: {called} of 1000");
        }
    }

    #[test]
    fn a_known_trend_is_measured() {
        let covered = (0..300_u64)
            .filter(|seed| {
                let noise = Synthetic::new(*seed).ar1(120, 0.3, 0.0, 20.0);
                let series: Vec<f64> = noise
                    .iter()
                    .enumerate()
                    .map(|(i, e)| 950.0 + 100.0 * i as f64 / 119.0 + e)
                    .collect();
                let estimate = drift(&series, Confidence::P95).unwrap();
                estimate.excludes(0.0) && estimate.interval.unwrap().contains(0.1)
            })
            .count();
        assert!(covered > 270, "{covered} of 300");
    }

    #[test]
    fn a_decline_is_a_line_and_a_cliff_is_a_step() {
        for seed in 0..50 {
            let noise = Synthetic::new(seed).noise(20, 0.0, 150.0);
            let with = |level: fn(usize) -> f64| -> Vec<f64> {
                noise.iter().enumerate().map(|(i, e)| level(i) + e).collect()
            };
            let decline = with(|i| 8_000.0 - 180.0 * i as f64);
            let cliff = with(|i| if i < 9 { 8_000.0 } else { 5_000.0 });
            assert!(line_fits_better(&decline, 9), "{decline:?}");
            assert!(!line_fits_better(&cliff, 9), "{cliff:?}");
        }
        assert!(!line_fits_better(&[1.0], 5));
    }

    #[test]
    fn nothing_to_fit_is_none() {
        assert_eq!(drift(&[1.0; 9], Confidence::P95), None);
        assert_eq!(drift(&[0.0; 30], Confidence::P95), None);
    }
}
