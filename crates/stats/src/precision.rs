//! How precisely one run knows its own mean: intervals of a run are
//! autocorrelated, so n of them are worth fewer than n independent ones.

use serde::{Deserialize, Serialize};

use crate::{Confidence, Estimate, EstimateWarning, Method, Moments, t_quantile};

/// Fewest batches whose means still give a usable variance. With fewer, the
/// largest of the noisy ratios would inflate tau of a series that has none.
const FEWEST_BATCHES: usize = 4;
/// Below this many effective samples the interval is said to be doubtful: the
/// batches that tau comes from are then themselves correlated.
const FEW_EFFECTIVE: f64 = 10.0;

/// What an autocorrelated series is worth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EffectiveSamples {
    /// Observations made.
    pub observed: usize,
    /// Independent observations that would fix the mean as well: observed / tau.
    pub effective: f64,
    /// Integrated autocorrelation time, in observations; at least 1.
    pub tau: f64,
}

/// Effective sample size by hierarchical batch means: tau is the largest, over
/// batch lengths, of length · Var(batch means) / Var(observations).
///
/// Batch lengths double from 1. The largest ratio is taken because short batches
/// see only part of the correlation; a tau below 1 (anticorrelation) counts as 1.
/// `None` below two observations. The method is that of latte's `stats`.
pub fn effective_samples(series: &[f64]) -> Option<EffectiveSamples> {
    let variance = crate::variance(series)?;
    let mut tau = 1.0_f64;
    if variance > 0.0 {
        let mut length = 2;
        while series.len() / length >= FEWEST_BATCHES {
            // A remainder is dropped at the front, where a run is least settled.
            let batches = series[series.len() % length..].chunks_exact(length);
            let means: Moments = batches.map(|b| b.iter().sum::<f64>() / length as f64).collect();
            tau = tau.max(length as f64 * means.variance().unwrap_or(0.0) / variance);
            length *= 2;
        }
    }
    let observed = series.len();
    Some(EffectiveSamples { observed, effective: observed as f64 / tau, tau })
}

/// The mean of a stationary series with the interval its effective sample size
/// allows: s / sqrt(ESS), Student's t with ESS − 1 degrees of freedom.
///
/// This is precision within one run. It says nothing about how runs differ.
/// `None` when the series is empty or holds a value that is not finite.
pub fn precision_of_mean(series: &[f64], confidence: Confidence) -> Option<Estimate> {
    if series.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let moments: Moments = series.iter().copied().collect();
    let center = moments.mean()?;
    let too_few = |have| {
        let warning = EstimateWarning::TooFewSamples { have, need: 2 };
        Estimate::without_interval(center, confidence, Method::BatchMeans, warning)
    };
    let (Some(deviation), Some(samples)) =
        (moments.standard_deviation(), effective_samples(series))
    else {
        return Some(too_few(series.len()));
    };
    let warning = EstimateWarning::FewEffectiveSamples {
        effective: samples.effective,
        observed: samples.observed,
    };
    let Some(t) = t_quantile(confidence, samples.effective - 1.0) else {
        return Some(Estimate::without_interval(center, confidence, Method::BatchMeans, warning));
    };
    let half_width = t * deviation / samples.effective.sqrt();
    let estimate = Estimate::symmetric(center, half_width, confidence, Method::BatchMeans);
    Some(if deviation == 0.0 {
        estimate.with_warning(EstimateWarning::NoSpread)
    } else if samples.effective < FEW_EFFECTIVE {
        estimate.with_warning(warning)
    } else {
        estimate
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    fn coverage(phi: f64, n: usize, runs: u64) -> f64 {
        let covered = (0..runs)
            .filter(|seed| {
                let series = Synthetic::new(*seed).ar1(n, phi, 100.0, 10.0);
                let estimate = precision_of_mean(&series, Confidence::P95).unwrap();
                estimate.interval.unwrap().contains(100.0)
            })
            .count();
        covered as f64 / runs as f64
    }

    #[test]
    fn intervals_cover_under_autocorrelation() {
        for (phi, n) in [(0.0, 30), (0.0, 120), (0.3, 60), (0.5, 120), (0.7, 240), (0.9, 600)] {
            let share = coverage(phi, n, 2_000);
            println!("phi {phi} n {n} coverage {share:.3}");
            assert!(share > 0.92 && share < 0.995, "phi {phi}, n {n}: coverage {share}");
        }
    }

    #[test]
    fn a_naive_interval_would_not_cover() {
        let missed = (0..500_u64)
            .filter(|seed| {
                let series = Synthetic::new(*seed).ar1(240, 0.7, 100.0, 10.0);
                let moments: Moments = series.iter().copied().collect();
                let error = moments.standard_deviation().unwrap() / (series.len() as f64).sqrt();
                (moments.mean().unwrap() - 100.0).abs() > 1.97 * error
            })
            .count();
        assert!(missed > 150, "{missed} of 500: the test above would prove nothing");
    }

    #[test]
    fn tau_is_that_of_the_process() {
        // (1 + phi) / (1 - phi) for a first-order autoregression.
        let series = Synthetic::new(7).ar1(100_000, 0.8, 0.0, 1.0);
        let samples = effective_samples(&series[..65_536]).unwrap();
        assert!(samples.tau > 7.0 && samples.tau < 15.0, "{samples:?}");
        assert_eq!(samples.observed, 65_536);
        assert!((samples.effective - 65_536.0 / samples.tau).abs() < 1e-9);
    }

    #[test]
    fn a_short_series_has_the_interval_of_student() {
        // Mean 2, deviation 1, t(0.975, 2) = 4.30265.
        let estimate = precision_of_mean(&[1.0, 2.0, 3.0], Confidence::P95).unwrap();
        let half_width = estimate.interval.unwrap().half_width();
        assert!((half_width - 4.302_65 / 3.0_f64.sqrt()).abs() < 1e-4, "{half_width}");
    }

    #[test]
    fn short_or_flat_series_are_said_to_be_so() {
        assert_eq!(precision_of_mean(&[], Confidence::P95), None);
        assert_eq!(precision_of_mean(&[1.0, f64::NAN], Confidence::P95), None);
        let one = precision_of_mean(&[5.0], Confidence::P95).unwrap();
        assert_eq!((one.center, one.interval), (5.0, None));
        assert_eq!(one.warnings, [EstimateWarning::TooFewSamples { have: 1, need: 2 }]);
        let flat = precision_of_mean(&[3.0; 20], Confidence::P95).unwrap();
        assert_eq!(flat.warnings, [EstimateWarning::NoSpread]);
    }

    #[test]
    fn a_slow_wander_has_a_warning() {
        let series: Vec<f64> = (0..60).map(f64::from).collect();
        let estimate = precision_of_mean(&series, Confidence::P95).unwrap();
        assert!(matches!(estimate.warnings[..], [EstimateWarning::FewEffectiveSamples { .. }]));
    }
}
