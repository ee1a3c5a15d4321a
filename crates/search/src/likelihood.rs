//! How likely the measurements are under a process, and where its hyperparameters are
//! expected.

use nalgebra::{Cholesky, DMatrix, DVector};

use crate::ablation::Noise;
use crate::edge::Edge;
use crate::hyper::Hyper;
use crate::kernel::{LIMIT, alone, correlations, inverse_squares};
use crate::solved::Solved;

/// Added to the diagonal, in units of the signal's variance: rounding must not make the
/// matrix indefinite.
const JITTER: f64 = 1e-8;
/// Variance expected of what features do together, in units of that of the scores.
const TOGETHER: f64 = 0.3;
/// Deviation of the logarithm of the noise's variance, however well it was measured at the
/// start: an hour is noisier than its first minutes, on the machines seen so far by two to ten
/// times in a standard deviation, and seldom quieter.
const WANDERS: f64 = 1.5;

/// Where the hyperparameters are expected, as logarithms: mean and deviation.
#[derive(Debug, Clone)]
pub(crate) struct Prior {
    features: usize,
    scale: (f64, f64),
    alone: (f64, f64),
    signal: (f64, f64),
    noise: (f64, f64),
    block: (f64, f64),
}

impl Prior {
    /// Length scales grow with the root of the number of features, so that the distance
    /// between random points stays moderate (Hvarfner et al., ICML'24). `noise` is what
    /// A/A measurements showed, in units of the variance of the scores.
    pub(crate) fn new(features: usize, noise: Option<Noise>) -> Prior {
        let noise = noise.map_or((0.05_f64.ln(), 1.5), of_noise);
        let count = features.max(1) as f64;
        Prior {
            features,
            scale: (0.25 * count.ln(), 1.0),
            // Few features do anything, and those a lot.
            alone: (-count.ln(), 1.5),
            signal: (TOGETHER.ln(), 1.0),
            block: (noise.0 - 1.0, 2.0),
            noise,
        }
    }

    fn of(&self, index: usize) -> (f64, f64) {
        match index.checked_sub(2 * self.features) {
            None if index < self.features => self.scale,
            None => self.alone,
            Some(0) => self.signal,
            Some(1) => self.noise,
            Some(_) => self.block,
        }
    }

    /// Mean and deviation of each.
    pub(crate) fn all(&self) -> Vec<(f64, f64)> {
        (0..2 * self.features + 3).map(|index| self.of(index)).collect()
    }

    pub(crate) fn start(&self) -> Vec<f64> {
        self.all().into_iter().map(|(mean, _)| mean).collect()
    }

    /// Logarithm of its density, less a constant.
    pub(crate) fn log_density(&self, flat: &[f64]) -> f64 {
        let apart = |(log, (mean, deviation)): (&f64, (f64, f64))| (log - mean) / deviation;
        -0.5 * flat.iter().zip(self.all()).map(|pair| apart(pair).powi(2)).sum::<f64>()
    }
}

/// What a measured variance says of the logarithm of the true one: mean and deviation. With ν
/// degrees of freedom the logarithm of their ratio is that of χ²/ν, whose mean is
/// ψ(ν/2) − ln(ν/2) ≈ −1/ν − 1/3ν² and whose variance is ψ₁(ν/2) ≈ 2/ν + 2/ν² (Abramowitz &
/// Stegun, 6.3.18 and 6.4.12): three measurements that agree by luck are no proof of quiet.
/// What comes later is a variance that wanders from there, rather up: its middle is raised so
/// that the precision 1/σ² that is expected is the measured one.
fn of_noise(noise: Noise) -> (f64, f64) {
    let few = 1.0 / noise.freedom;
    let wanders = WANDERS * WANDERS;
    let mean = noise.variance.max(1e-6).ln() + few + few * few / 3.0 + 0.5 * wanders;
    (mean, (2.0 * few * (1.0 + few) + wanders).sqrt())
}

/// Observations made ready for the likelihood.
#[derive(Debug, Clone)]
pub(crate) struct Data {
    pub(crate) rows: Vec<Vec<f64>>,
    pub(crate) blocks: Vec<u32>,
    pub(crate) standard: DVector<f64>,
    /// Correlations of what each feature does alone: those of a pair of rows are
    /// neighbours, pairs (1, 0), (2, 0), (2, 1), (3, 0) and so on.
    alone: Vec<f64>,
    /// Where scores have a step.
    pub(crate) edge: Option<Edge>,
}

impl Data {
    /// Rows of equal length, with as many blocks and scores.
    pub(crate) fn new(rows: Vec<Vec<f64>>, blocks: Vec<u32>, standard: DVector<f64>) -> Data {
        let mut pairs = Vec::new();
        for (i, a) in rows.iter().enumerate() {
            for b in &rows[..i] {
                pairs.extend(a.iter().zip(b).map(|(a, b)| alone(*a, *b)));
            }
        }
        Data { rows, blocks, standard, alone: pairs, edge: None }
    }

    /// The same observations with a step at an edge.
    pub(crate) fn with_edge(&self, edge: Edge) -> Data {
        Data { edge: Some(edge), ..self.clone() }
    }

    /// The covariance that the step gives to two rows.
    fn step(&self, i: usize, j: usize) -> f64 {
        self.edge.map_or(0.0, |edge| edge.covariance(&self.rows[i], &self.rows[j]))
    }

    /// The correlations of features alone in a pair of rows, `i` above `j`.
    fn alone(&self, i: usize, j: usize) -> &[f64] {
        let features = self.rows[0].len();
        let pair = i * (i - 1) / 2 + j;
        &self.alone[pair * features..(pair + 1) * features]
    }

    pub(crate) fn solve(&self, hyper: &Hyper) -> Option<Solved> {
        let (correlation, slope) = correlations(&self.rows, &inverse_squares(&hyper.log_scales));
        let (signal, noise, block) =
            (hyper.log_signal.exp(), hyper.log_noise.exp(), hyper.log_block.exp());
        let alone: Vec<f64> = hyper.log_alone.iter().map(|log| log.exp()).collect();
        let n = self.rows.len();
        let mut covariance = DMatrix::from_diagonal_element(
            n,
            n,
            signal * (1.0 + JITTER) + alone.iter().sum::<f64>() + noise + block,
        );
        for i in 0..n {
            for j in 0..i {
                let shared = if self.blocks[i] == self.blocks[j] { block } else { 0.0 };
                let apart: f64 = self.alone(i, j).iter().zip(&alone).map(|(c, w)| c * w).sum();
                covariance[(i, j)] =
                    signal * correlation[(i, j)] + apart + shared + self.step(i, j);
                covariance[(j, i)] = covariance[(i, j)];
            }
            covariance[(i, i)] += self.step(i, i);
        }
        let cholesky = Cholesky::new(covariance)?;
        let ones = cholesky.solve(&DVector::repeat(n, 1.0));
        let ones_total = ones.sum();
        let constant = ones.dot(&self.standard) / ones_total;
        let weights = cholesky.solve(&self.standard.add_scalar(-constant));
        Some(Solved { cholesky, weights, ones, ones_total, constant, correlation, slope })
    }

    /// Logarithm of the likelihood, less a constant.
    pub(crate) fn log_likelihood_of(&self, solved: &Solved) -> f64 {
        let residual = self.standard.add_scalar(-solved.constant);
        let log_determinant: f64 =
            solved.cholesky.l_dirty().diagonal().iter().map(|d| d.ln()).sum();
        -0.5 * residual.dot(&solved.weights) - log_determinant
    }

    /// The same of hyperparameters; `None` where they are out of bounds.
    pub(crate) fn log_likelihood(&self, flat: &[f64]) -> Option<f64> {
        if flat.iter().any(|log| log.abs() > LIMIT) {
            return None;
        }
        Some(self.log_likelihood_of(&self.solve(&Hyper::from_flat(flat))?))
    }

    /// Log posterior density of the hyperparameters and its gradient.
    pub(crate) fn posterior(&self, flat: &[f64], prior: &Prior) -> Option<(f64, Vec<f64>)> {
        let hyper = Hyper::from_flat(flat);
        let solved = self.solve(&hyper)?;
        let n = self.rows.len();

        // d/dθ = ½ tr((w wᵀ − K⁻¹) dK/dθ).
        let inverse = solved.cholesky.inverse();
        let half =
            DMatrix::from_fn(n, n, |i, j| solved.weights[i] * solved.weights[j] - inverse[(i, j)]);
        let features = hyper.log_scales.len();
        // Where the variances follow the length scales and the weights.
        let at = 2 * features;
        let (signal, noise, block) =
            (hyper.log_signal.exp(), hyper.log_noise.exp(), hyper.log_block.exp());
        let inverse_squares = inverse_squares(&hyper.log_scales);
        let mut gradient = vec![0.0; flat.len()];
        let alone = features..at;
        for i in 0..n {
            for slope in &mut gradient[alone.clone()] {
                *slope += 0.5 * half[(i, i)];
            }
            gradient[at] += 0.5 * half[(i, i)] * signal * (1.0 + JITTER);
            gradient[at + 1] += 0.5 * half[(i, i)] * noise;
            gradient[at + 2] += 0.5 * half[(i, i)] * block;
            for j in 0..i {
                // Both halves of a symmetric matrix.
                let weight = half[(i, j)];
                let by_distance = weight * signal * solved.slope[(i, j)];
                for (feature, inverse) in inverse_squares.iter().enumerate() {
                    let apart = self.rows[i][feature] - self.rows[j][feature];
                    gradient[feature] += by_distance * apart * apart * inverse;
                }
                for (slope, alike) in gradient[alone.clone()].iter_mut().zip(self.alone(i, j)) {
                    *slope += weight * alike;
                }
                gradient[at] += weight * signal * solved.correlation[(i, j)];
                if self.blocks[i] == self.blocks[j] {
                    gradient[at + 2] += weight * block;
                }
            }
        }
        for index in alone {
            gradient[index] *= flat[index].exp();
        }
        for (index, log) in flat.iter().enumerate() {
            let (mean, deviation) = prior.of(index);
            gradient[index] -= (log - mean) / deviation.powi(2);
        }
        Some((self.log_likelihood_of(&solved) + prior.log_density(flat), gradient))
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::random::generator;

    #[test]
    fn a_variance_of_few_measurements_is_known_to_within_a_factor() {
        // Sums of squares of normal numbers, by their exact distribution for two degrees of
        // freedom: the logarithm of an exponential one.
        let mut rng = generator(5, 0);
        let logs = (0..20_000).map(|_| (-(1.0 - rng.random::<f64>()).ln()).ln());
        let drawn: walwright_stats::Moments = logs.collect();
        let (mean, deviation) = of_noise(Noise { variance: 1.0, freedom: 2.0 });
        let (well, wanders) = of_noise(Noise { variance: 1.0, freedom: 1e6 });
        assert!((mean - well + drawn.mean().unwrap()).abs() < 0.03, "{mean}");
        let of_few = (deviation.powi(2) - wanders.powi(2)).sqrt();
        let exact = drawn.standard_deviation().unwrap();
        assert!((of_few / exact - 1.0).abs() < 0.06, "{of_few} and {exact}");
        assert!((wanders - WANDERS).abs() < 1e-5 && well > 0.0);
    }

    #[test]
    fn the_gradient_is_that_of_the_density() {
        let mut rng = generator(3, 0);
        let rows: Vec<Vec<f64>> =
            (0..14).map(|_| (0..3).map(|_| rng.random::<f64>()).collect()).collect();
        let scores = rows.iter().map(|row| row[0] * 3.0 - row[1] + rng.random::<f64>()).collect();
        let blocks = (0..14).map(|i| i / 6).collect();
        let data = Data::new(rows, blocks, DVector::from_vec(scores));
        let prior = Prior::new(3, Some(Noise { variance: 0.1, freedom: 2.0 }));
        let at = vec![0.2, -0.4, 0.9, -1.2, 0.1, -3.0, 0.3, -1.5, -2.0];
        let (_, gradient) = data.posterior(&at, &prior).unwrap();
        for index in 0..at.len() {
            let moved = |by: f64| {
                let mut flat = at.clone();
                flat[index] += by;
                data.posterior(&flat, &prior).unwrap().0
            };
            let numeric = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((numeric - gradient[index]).abs() < 1e-4, "{index}: {numeric} {gradient:?}");
        }
    }
}
