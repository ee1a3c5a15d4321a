//! How much is to be learned by measuring a configuration.

use statrs::function::erf::erfc;

/// Measurements that what is expected where nothing was measured counts as.
const PRIOR_WEIGHT: f64 = 0.2;
/// Probability of running where nothing has been measured: most configurations do.
const PRIOR_RUNS: f64 = 0.9;

/// The distribution function of the standard normal distribution.
pub(crate) fn normal_cdf(x: f64) -> f64 {
    0.5 * erfc(-x / std::f64::consts::SQRT_2)
}

fn normal_density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt()
}

/// By how much one measurement is expected to raise the highest of the expected scores:
/// the knowledge gradient (Frazier, Powell & Dayanik 2009). Each item is a configuration's
/// expected score and how far it moves by one standard deviation of the measurement.
///
/// Unlike the expected improvement it knows that a measurement is noisy and that the
/// recommendation will be the highest expectation: one that can change no choice is worth
/// nothing, be it of the best.
pub fn knowledge_gradient(lines: &mut [(f64, f64)]) -> f64 {
    lines.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.total_cmp(&b.0)));
    // The upper envelope of the lines, from left to right, with where each begins.
    let mut envelope: Vec<(f64, f64, f64)> = Vec::new();
    for &mut (mean, slope) in lines {
        let mut from = f64::NEG_INFINITY;
        while let Some(&(last_mean, last_slope, last_from)) = envelope.last() {
            if slope <= last_slope {
                // Equal slopes come in the order of their means.
                envelope.pop();
                continue;
            }
            from = (last_mean - mean) / (slope - last_slope);
            if from > last_from {
                break;
            }
            envelope.pop();
            from = f64::NEG_INFINITY;
        }
        envelope.push((mean, slope, from));
    }
    envelope
        .windows(2)
        .map(|pair| {
            let z = -pair[1].2.abs();
            (pair[1].1 - pair[0].1) * (normal_density(z) + z * normal_cdf(z))
        })
        .sum()
}

/// Probability that a configuration runs: the mean of what is known of others, weighted by how
/// alike they are. Each item is a correlation, 0 to 1, and whether the measured one ran, 0 or 1.
pub fn probability_of_running(known: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    let (mut sum, mut weight) = (PRIOR_WEIGHT * PRIOR_RUNS, PRIOR_WEIGHT);
    for (correlation, ran) in known {
        // The nearest decide: a correlation of a half says little about what runs.
        let alike = correlation.powi(4);
        sum += alike * ran;
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

    /// By quadrature: the mean of the maximum over a fine grid of the normal distribution.
    fn by_grid(lines: &[(f64, f64)]) -> f64 {
        let highest = |z: f64| {
            lines.iter().map(|(mean, slope)| mean + slope * z).fold(f64::NEG_INFINITY, f64::max)
        };
        let steps = (-8000..=8000).map(|i| f64::from(i) / 1000.0);
        steps.map(|z| 0.001 * normal_density(z) * highest(z)).sum::<f64>() - highest(0.0)
    }

    #[test]
    fn knowledge_is_worth_the_better_choices_it_allows() {
        assert_eq!(knowledge_gradient(&mut [(1.0, 0.3)]), 0.0, "nothing else to choose");
        assert_eq!(knowledge_gradient(&mut [(1.0, 0.3), (0.5, 0.3)]), 0.0, "both move alike");
        // Two alike, of which one moves: deviation / sqrt(2 pi).
        let alike = knowledge_gradient(&mut [(1.0, 0.0), (1.0, 0.2)]);
        assert!((alike - 0.2 / std::f64::consts::TAU.sqrt()).abs() < 1e-12);
        let mut many =
            vec![(0.3, -0.4), (1.0, 0.1), (0.9, 0.1), (0.8, 0.5), (0.2, 0.2), (0.95, -0.1)];
        let expected = by_grid(&many);
        let exact = knowledge_gradient(&mut many);
        assert!((exact - expected).abs() < 1e-5, "{exact} {expected}");
    }

    #[test]
    fn what_is_like_a_crash_hardly_runs() {
        assert!(probability_of_running([(1.0, 0.0), (0.1, 1.0)]) < 0.2);
        assert!(probability_of_running([(1.0, 1.0)]) > 0.95);
        assert!((probability_of_running([]) - PRIOR_RUNS).abs() < 1e-12);
        assert!((crashed_score(8.0_f64.ln()) - 4.0_f64.ln()).abs() < 1e-12);
    }
}
