//! Quantiles of Student's t, also for fractional degrees of freedom.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::Confidence;

/// The factor `t` such that ± t standard errors cover with `confidence`, for
/// `freedom` degrees of freedom (fractions allowed, as effective sample sizes
/// are). `None` unless `freedom` is positive and finite.
pub fn t_quantile(confidence: Confidence, freedom: f64) -> Option<f64> {
    let distribution = StudentsT::new(0.0, 1.0, freedom).ok().filter(|_| freedom.is_finite())?;
    let t = distribution.inverse_cdf(1.0 - confidence.alpha() / 2.0);
    t.is_finite().then_some(t)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, expected) in
            [(1.0, 12.7062), (2.0, 4.302_65), (5.0, 2.570_58), (30.0, 2.042_27), (1e6, 1.959_97)]
        {
            let t = t_quantile(Confidence::P95, freedom).unwrap();
            assert!((t - expected).abs() < 1e-3, "{freedom}: {t}");
        }
    }

    #[test]
    fn fractions_lie_between_whole_degrees() {
        let t = t_quantile(Confidence::P95, 2.5).unwrap();
        assert!(t > 3.182 && t < 4.303, "{t}");
        assert_eq!(t_quantile(Confidence::P95, 0.0), None);
        assert_eq!(t_quantile(Confidence::P95, f64::NAN), None);
    }
}
