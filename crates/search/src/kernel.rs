//! The covariance of the process: how alike two configurations score.

use nalgebra::DMatrix;

/// Logarithms of the hyperparameters lie within plus or minus this.
pub(crate) const LIMIT: f64 = 9.0;

/// Matérn 5/2 at a squared scaled distance, and what its derivative with respect to the
/// logarithm of a length scale is multiplied by (5/3 (1 + √5 r) exp(−√5 r), times the
/// squared scaled difference in that feature).
pub(crate) fn matern(squared: f64) -> (f64, f64) {
    let root = (5.0 * squared).sqrt();
    let decay = (-root).exp();
    ((1.0 + root + 5.0 / 3.0 * squared) * decay, 5.0 / 3.0 * (1.0 + root) * decay)
}

/// Squared distance of two rows of features in units of the length scales.
pub(crate) fn squared_distance(a: &[f64], b: &[f64], inverse_squares: &[f64]) -> f64 {
    a.iter().zip(b).zip(inverse_squares).map(|((a, b), inverse)| (a - b) * (a - b) * inverse).sum()
}

/// The squared length scales, inverted, of their logarithms.
pub(crate) fn inverse_squares(log_scales: &[f64]) -> Vec<f64> {
    log_scales.iter().map(|log| (-2.0 * log).exp()).collect()
}

/// The correlations of all pairs without noise, a symmetric matrix with ones on its
/// diagonal, and the factors of its derivatives.
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
}
