//! The covariance of the process: how alike two configurations score.

use nalgebra::DMatrix;

use crate::edge::Edge;
use crate::hyper::Hyper;

/// Logarithms of the hyperparameters lie within plus or minus this.
pub(crate) const LIMIT: f64 = 9.0;
/// Length scale of what a feature does on its own, in units of its range: about two bends
/// from end to end. Sharper ones are left to the part that sees all features at once.
const ALONE: f64 = 0.4;

/// The covariance function: a part that every feature contributes alone, a part in which all act
/// together, and a step at an edge where there is one. Effects of settings mostly add up (as
/// logarithms), so that what one does is learned from all measurements, whatever the others were
/// (Duvenaud, Nickisch & Rasmussen, NIPS'11).
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    /// Variance of what each feature does alone.
    alone: Vec<f64>,
    /// Variance of what they do together, and its squared length scales, inverted.
    signal: f64,
    inverse_squares: Vec<f64>,
    pub(crate) edge: Option<Edge>,
}

impl Kernel {
    pub(crate) fn of(hyper: &Hyper, edge: Option<Edge>) -> Kernel {
        Kernel {
            edge,
            alone: hyper.log_alone.iter().map(|log| log.exp()).collect(),
            signal: hyper.log_signal.exp(),
            inverse_squares: inverse_squares(&hyper.log_scales),
        }
    }

    /// Of the scores of two configurations with these features.
    pub(crate) fn covariance(&self, a: &[f64], b: &[f64]) -> f64 {
        self.smooth(a, b) + self.edge.map_or(0.0, |edge| edge.covariance(a, b))
    }

    /// Of the score of any configuration with itself.
    pub(crate) fn variance(&self) -> f64 {
        self.smooth_variance() + self.edge.map_or(0.0, |_| Edge::VARIANCE)
    }

    /// How alike two configurations are, 0 to 1: by what is smooth, since all on one side of an
    /// edge have the step in common, near or far, and not at all across it.
    pub(crate) fn alike(&self, a: &[f64], b: &[f64]) -> f64 {
        let is_across = self.edge.is_some_and(|edge| edge.is_below(a) != edge.is_below(b));
        if is_across { 0.0 } else { self.smooth(a, b) / self.smooth_variance() }
    }

    fn smooth(&self, a: &[f64], b: &[f64]) -> f64 {
        let alone: f64 =
            self.alone.iter().zip(a.iter().zip(b)).map(|(w, (a, b))| w * alone(*a, *b)).sum();
        alone + self.signal * matern(squared_distance(a, b, &self.inverse_squares)).0
    }

    fn smooth_variance(&self) -> f64 {
        self.signal + self.alone.iter().sum::<f64>()
    }
}

/// Correlation of what a feature does alone at two of its values.
pub(crate) fn alone(a: f64, b: f64) -> f64 {
    // Most values are the default, and most pairs of them equal.
    if a == b { 1.0 } else { matern(((a - b) / ALONE).powi(2)).0 }
}

/// Matérn 5/2 at a squared scaled distance, and what its derivative with respect to the
/// logarithm of a length scale is multiplied by (5/3 (1 + √5 r) exp(−√5 r), times the
/// squared scaled difference in that feature).
pub(crate) fn matern(squared: f64) -> (f64, f64) {
    let root = (5.0 * squared).sqrt();
    let decay = (-root).exp();
    ((1.0 + root + 5.0 / 3.0 * squared) * decay, 5.0 / 3.0 * (1.0 + root) * decay)
}

/// Squared distance of two rows of features in units of the length scales.
fn squared_distance(a: &[f64], b: &[f64], inverse_squares: &[f64]) -> f64 {
    a.iter().zip(b).zip(inverse_squares).map(|((a, b), inverse)| (a - b) * (a - b) * inverse).sum()
}

/// The squared length scales, inverted, of their logarithms.
pub(crate) fn inverse_squares(log_scales: &[f64]) -> Vec<f64> {
    log_scales.iter().map(|log| (-2.0 * log).exp()).collect()
}

/// The correlations of all pairs in the part in which features act together, a symmetric
/// matrix with ones on its diagonal, and the factors of its derivatives.
pub(crate) fn correlations(
    rows: &[Vec<f64>],
    inverse_squares: &[f64],
) -> (DMatrix<f64>, DMatrix<f64>) {
    let n = rows.len();
    let (mut value, mut slope) = (DMatrix::identity(n, n), DMatrix::zeros(n, n));
    for i in 0..n {
        for j in 0..i {
            let (k, d) = matern(squared_distance(&rows[i], &rows[j], inverse_squares));
            value[(i, j)] = k;
            value[(j, i)] = k;
            slope[(i, j)] = d;
            slope[(j, i)] = d;
        }
    }
    (value, slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_falls_with_distance_and_its_slope_is_the_derivative() {
        let at = |log_scale: f64| matern(0.36 * (-2.0 * log_scale).exp());
        assert_eq!(matern(0.0).0, 1.0);
        assert!(matern(0.1).0 > matern(1.0).0 && matern(100.0).0 < 1e-6);
        let (h, scale) = (1e-6, 0.3);
        let numeric = (at(scale + h).0 - at(scale - h).0) / (2.0 * h);
        let exact = at(scale).1 * 0.36 * (-2.0 * scale).exp();
        assert!((numeric - exact).abs() < 1e-8, "{numeric} {exact}");
    }

    #[test]
    fn what_a_feature_does_alone_is_known_whatever_the_others_are() {
        let hyper = Hyper {
            log_scales: vec![-1.0; 3],
            log_alone: vec![0.5_f64.ln(), 1e-9_f64.ln(), 1e-9_f64.ln()],
            log_signal: 0.1_f64.ln(),
            log_noise: 0.0,
            log_block: 0.0,
        };
        let kernel = Kernel::of(&hyper, None);
        assert!((kernel.variance() - kernel.covariance(&[0.2; 3], &[0.2; 3])).abs() < 1e-12);
        let far = kernel.covariance(&[0.2, 0.0, 0.0], &[0.2, 9.0, 9.0]);
        assert!((far - 0.5).abs() < 1e-6, "{far}");
        assert!(kernel.covariance(&[0.2, 0.0, 0.0], &[0.9, 0.0, 0.0]) < 0.2);
    }

    #[test]
    fn configurations_are_alike_by_distance_on_one_side_of_an_edge_and_not_across() {
        let hyper = Hyper {
            log_scales: vec![-1.0; 2],
            log_alone: vec![-2.0; 2],
            log_signal: 0.0,
            log_noise: 0.0,
            log_block: 0.0,
        };
        let edge = Edge::test_between(0, 0.4, 0.6);
        let [smooth, stepped] = [None, Some(edge)].map(|edge| Kernel::of(&hyper, edge));
        for (a, b) in [([0.1, 0.0], [0.3, 0.9]), ([0.7, 0.0], [0.9, 0.9])] {
            assert!((stepped.variance() - stepped.covariance(&a, &a)).abs() < 1e-12);
            assert_eq!(stepped.alike(&a, &b), smooth.alike(&a, &b));
            assert!(stepped.alike(&a, &b) < 0.5 && stepped.covariance(&a, &b) > 1.0);
        }
        let (a, b) = ([0.4, 0.0], [0.6, 0.0]);
        assert!(smooth.alike(&a, &b) > 0.5 && stepped.alike(&a, &b) == 0.0);
        // The variance of the difference is the step's and what is smooth.
        let apart = |k: &Kernel| 2.0 * (k.variance() - k.covariance(&a, &b));
        assert!((apart(&stepped) - apart(&smooth) - 4.0 * Edge::VARIANCE).abs() < 1e-12);
    }
}
