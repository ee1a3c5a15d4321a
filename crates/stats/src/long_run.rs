//! How correlated the residuals of a fit are.

use crate::effective_samples;

/// Integrated autocorrelation time of the residuals of a fit with `parameters`
/// fitted levels or slopes: the larger of the batch-means value and that of a
/// first-order autoregression, (1 + ρ)/(1 − ρ).
///
/// Fitting takes correlation out of residuals, which would make every test on
/// them reject too often. So ρ is corrected for its small-sample bias, about
/// −(1 + 3ρ)/n for each fitted parameter (Kendall, Biometrika 41, 1954).
pub(crate) fn residual_tau(residuals: &[f64], parameters: usize) -> f64 {
    let n = residuals.len() as f64;
    let squares: f64 = residuals.iter().map(|r| r * r).sum();
    let products: f64 = residuals.windows(2).map(|w| w[0] * w[1]).sum();
    if squares <= 0.0 {
        return 1.0;
    }
    let rho = products / squares;
    let corrected = (rho + parameters as f64 * (1.0 + 3.0 * rho) / n).clamp(0.0, 0.97);
    let of_batches = effective_samples(residuals).map_or(1.0, |samples| samples.tau);
    of_batches.max((1.0 + corrected) / (1.0 - corrected))
}
