//! Draws from a posterior with a normal prior, by elliptical slice sampling (Murray, Adams &
//! MacKay, AISTATS'10): it has no step size to choose.

use std::f64::consts::TAU;

use rand::RngExt;

/// Shrinkings after which a draw stays where it was; a handful is usual.
const MOST_TRIES: usize = 100;

/// A point and the logarithm of its likelihood.
#[derive(Debug, Clone)]
pub(crate) struct Draw {
    pub at: Vec<f64>,
    pub log_likelihood: f64,
}

impl Draw {
    /// Moves on to another draw of the posterior. `prior` has mean and standard deviation of
    /// each coordinate; what has no likelihood is never drawn.
    pub fn advance(
        &mut self,
        prior: &[(f64, f64)],
        log_likelihood: impl Fn(&[f64]) -> Option<f64>,
        rng: &mut impl RngExt,
    ) {
        let other: Vec<f64> = prior.iter().map(|(_, deviation)| deviation * normal(rng)).collect();
        let level = self.log_likelihood + (1.0 - rng.random::<f64>()).ln();
        let mut angle = TAU * rng.random::<f64>();
        let (mut low, mut high) = (angle - TAU, angle);
        for _ in 0..MOST_TRIES {
            let (sine, cosine) = angle.sin_cos();
            let here = self.at.iter().zip(&other).zip(prior);
            let at: Vec<f64> = here
                .map(|((at, other), (mean, _))| mean + (at - mean) * cosine + other * sine)
                .collect();
            if let Some(found) = log_likelihood(&at).filter(|found| *found > level) {
                *self = Draw { at, log_likelihood: found };
                return;
            }
            // Towards where it was, which lies above the level.
            if angle < 0.0 {
                low = angle
            } else {
                high = angle
            }
            angle = low + (high - low) * rng.random::<f64>();
        }
    }
}

/// A draw of the standard normal distribution (Box & Muller).
fn normal(rng: &mut impl RngExt) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (TAU * rng.random::<f64>()).cos()
}

#[cfg(test)]
mod tests {
    use walwright_stats::Moments;

    use super::*;
    use crate::random::generator;

    #[test]
    fn draws_have_the_mean_and_spread_of_the_posterior() {
        // Prior of mean 1 and variance 4, likelihood of mean 3 and variance 1: a posterior of
        // mean 2.6 and variance 0.8. The second coordinate is the prior's, cut at zero.
        let prior = [(1.0, 2.0), (0.0, 1.0)];
        let likelihood = |at: &[f64]| (at[1] > 0.0).then(|| -0.5 * (at[0] - 3.0).powi(2));
        let mut draw = Draw { at: vec![1.0, 0.5], log_likelihood: -2.0 };
        let mut rng = generator(5, 0);
        let (mut first, mut second) = (Moments::new(), Moments::new());
        for _ in 0..40_000 {
            draw.advance(&prior, likelihood, &mut rng);
            first.add(draw.at[0]);
            second.add(draw.at[1]);
            assert_eq!(likelihood(&draw.at), Some(draw.log_likelihood));
        }
        let (mean, variance) = (first.mean().unwrap(), first.variance().unwrap());
        assert!((mean - 2.6).abs() < 0.05 && (variance - 0.8).abs() < 0.05, "{mean} {variance}");
        let half_normal = (2.0 / std::f64::consts::PI).sqrt();
        assert!((second.mean().unwrap() - half_normal).abs() < 0.03, "{:?}", second.mean());
    }
}
