//! How much is to be expected of measuring a configuration.

use statrs::function::erf::erfc;

use crate::Prediction;

/// Measurements that a feasibility of one half is worth, far from all others.
const PRIOR_WEIGHT: f64 = 0.2;
/// Feasibility where nothing has been measured: most configurations work.
const PRIOR_FEASIBLE: f64 = 0.9;

/// The distribution function of the standard normal distribution.
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * erfc(-x / std::f64::consts::SQRT_2)
}

fn normal_density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt()
}

/// Expected improvement over `incumbent`, which is the posterior mean of the best
/// configuration and not the best score seen: under noise the latter is luck.
pub fn expected_improvement(prediction: Prediction, incumbent: f64) -> f64 {
    let ahead = prediction.mean - incumbent;
    if prediction.deviation <= 0.0 {
        return ahead.max(0.0);
    }
    let z = ahead / prediction.deviation;
    ahead * normal_cdf(z) + prediction.deviation * normal_density(z)
}

/// Probability that a configuration is feasible: the mean of what is known of others,
/// weighted by how alike they are. Each item is a correlation, 0 to 1, and the
/// probability that the measured one is feasible.
pub fn feasibility(known: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    let (mut sum, mut weight) = (PRIOR_WEIGHT * PRIOR_FEASIBLE, PRIOR_WEIGHT);
    for (correlation, feasible) in known {
        // The nearest decide: a correlation of a half says little about a constraint.
        let alike = correlation.powi(4);
        sum += alike * feasible;
        weight += alike;
    }
    sum / weight
}

/// The score of a trial that crashed: twice as bad as the worst seen.
pub fn crashed_score(worst: f64) -> f64 {
    worst - std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn improvement_grows_with_mean_and_with_doubt() {
        let at = |mean, deviation| expected_improvement(Prediction { mean, deviation }, 1.0);
        assert_eq!((at(1.5, 0.0), at(0.5, 0.0)), (0.5, 0.0));
        assert!(at(1.1, 0.1) > at(1.0, 0.1) && at(0.9, 0.3) > at(0.9, 0.1));
        // At the incumbent's mean it is deviation / sqrt(2 pi).
        assert!((at(1.0, 0.2) - 0.2 / std::f64::consts::TAU.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn what_is_like_a_crash_is_not_feasible() {
        assert!(feasibility([(1.0, 0.0), (0.1, 1.0)]) < 0.2);
        assert!(feasibility([(1.0, 1.0)]) > 0.95);
        assert!((feasibility([]) - PRIOR_FEASIBLE).abs() < 1e-12);
        assert!((crashed_score(8.0_f64.ln()) - 4.0_f64.ln()).abs() < 1e-12);
    }
}
