//! A Gaussian process over configurations that knows noise and drift.
//!
//! A score is a constant, plus a smooth function of the features (Matérn 5/2 with a
//! length scale for each feature), plus an offset shared by all measurements of a block
//! (drift), plus noise of its own. Replicates are measurements of their own, so a
//! configuration measured n times is known with the noise variance over n. The constant
//! is estimated by generalised least squares; length scales and variances are those of
//! the highest posterior density, climbed from several starts (Rasmussen & Williams,
//! Gaussian Processes for Machine Learning, ch. 5).

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::kernel::{LIMIT, correlations, inverse_squares, matern, squared_distance};
use crate::optimise::climb;

/// Steps of each climb.
const STEPS: usize = 40;
/// Added to the diagonal, in units of the signal's variance: rounding must not make the
/// matrix indefinite.
const JITTER: f64 = 1e-8;

/// One measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// What the process sees of the configuration.
    pub features: Vec<f64>,
    /// Which block it was made in.
    pub block: u32,
    /// What it scored.
    pub score: f64,
}

/// Logarithms of the hyperparameters; variances in units of the variance of the scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hyper {
    /// Of the length scale of each feature.
    pub log_scales: Vec<f64>,
    /// Of the variance of the function.
    pub log_signal: f64,
    /// Of the variance of the noise.
    pub log_noise: f64,
    /// Of the variance of the block offsets.
    pub log_block: f64,
}

impl Hyper {
    /// The same to six digits after the point, which JSON keeps exactly.
    #[must_use]
    pub fn rounded(&self) -> Hyper {
        let flat: Vec<f64> = self.flat().iter().map(|log| (log * 1e6).round() / 1e6).collect();
        Hyper::from_flat(&flat)
    }

    fn flat(&self) -> Vec<f64> {
        let mut flat = self.log_scales.clone();
        flat.extend([self.log_signal, self.log_noise, self.log_block]);
        flat
    }

    fn from_flat(flat: &[f64]) -> Hyper {
        let scales = flat.len() - 3;
        Hyper {
            log_scales: flat[..scales].to_vec(),
            log_signal: flat[scales],
            log_noise: flat[scales + 1],
            log_block: flat[scales + 2],
        }
    }
}

/// Where the hyperparameters are expected, as logarithms: mean and deviation.
struct Prior {
    scale: (f64, f64),
    signal: (f64, f64),
    noise: (f64, f64),
    block: (f64, f64),
}

impl Prior {
    /// Length scales grow with the root of the number of features, so that the distance
    /// between random points stays moderate (Hvarfner et al., ICML'24). `noise` is the
    /// variance seen in A/A measurements, in units of that of the scores.
    fn new(features: usize, noise: Option<f64>) -> Prior {
        let noise = match noise {
            Some(variance) => (variance.max(1e-6).ln(), 0.5),
            None => (0.05_f64.ln(), 1.5),
        };
        Prior {
            scale: (0.25 * (features.max(1) as f64).ln(), 1.0),
            signal: (0.0, 1.0),
            block: (noise.0 - 2.0, 1.0),
            noise,
        }
    }

    fn of(&self, index: usize, scales: usize) -> (f64, f64) {
        match index.checked_sub(scales) {
            None => self.scale,
            Some(0) => self.signal,
            Some(1) => self.noise,
            Some(_) => self.block,
        }
    }

    fn start(&self, scales: usize) -> Vec<f64> {
        (0..scales + 3).map(|index| self.of(index, scales).0).collect()
    }
}

/// What the process expects of a configuration, free of noise and drift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Expected score.
    pub mean: f64,
    /// Standard deviation of what is not known of it.
    pub deviation: f64,
}

/// How well the process predicts each measurement from all others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeaveOneOut {
    /// Root of the mean squared error over that of predicting the mean of the others:
    /// below 1 the features say something.
    pub error_ratio: f64,
    /// Mean logarithmic predictive density of the standardised scores.
    pub log_density: f64,
}

/// A fitted process.
#[derive(Debug, Clone)]
pub struct Process {
    rows: Vec<Vec<f64>>,
    hyper: Hyper,
    inverse_squares: Vec<f64>,
    cholesky: Cholesky<f64, Dyn>,
    /// K⁻¹ (y − constant).
    weights: DVector<f64>,
    standard: DVector<f64>,
    /// K⁻¹ 1 and 1ᵀ K⁻¹ 1, for the uncertainty of the constant.
    ones: DVector<f64>,
    ones_total: f64,
    constant: f64,
    shift: f64,
    spread: f64,
}

/// Observations made ready for the likelihood.
struct Data {
    rows: Vec<Vec<f64>>,
    blocks: Vec<u32>,
    standard: DVector<f64>,
}

/// The pieces of one evaluation of the likelihood.
struct Solved {
    cholesky: Cholesky<f64, Dyn>,
    weights: DVector<f64>,
    ones: DVector<f64>,
    ones_total: f64,
    constant: f64,
    correlation: DMatrix<f64>,
    slope: DMatrix<f64>,
}

impl Data {
    fn solve(&self, hyper: &Hyper) -> Option<Solved> {
        let (correlation, slope) = correlations(&self.rows, &inverse_squares(&hyper.log_scales));
        let (signal, noise, block) =
            (hyper.log_signal.exp(), hyper.log_noise.exp(), hyper.log_block.exp());
        let n = self.rows.len();
        let covariance = DMatrix::from_fn(n, n, |i, j| {
            let own = if i == j { noise + JITTER * signal } else { 0.0 };
            let shared = if self.blocks[i] == self.blocks[j] { block } else { 0.0 };
            signal * correlation[(i, j)] + shared + own
        });
        let cholesky = Cholesky::new(covariance)?;
        let ones = cholesky.solve(&DVector::repeat(n, 1.0));
        let ones_total = ones.sum();
        let constant = ones.dot(&self.standard) / ones_total;
        let weights = cholesky.solve(&self.standard.add_scalar(-constant));
        Some(Solved { cholesky, weights, ones, ones_total, constant, correlation, slope })
    }

    /// Log posterior density of the hyperparameters and its gradient.
    fn posterior(&self, flat: &[f64], prior: &Prior) -> Option<(f64, Vec<f64>)> {
        let hyper = Hyper::from_flat(flat);
        let solved = self.solve(&hyper)?;
        let n = self.rows.len();
        let residual = self.standard.add_scalar(-solved.constant);
        let log_determinant: f64 =
            solved.cholesky.l_dirty().diagonal().iter().map(|d| d.ln()).sum();
        let mut value = -0.5 * residual.dot(&solved.weights) - log_determinant;

        // d/dθ = ½ tr((w wᵀ − K⁻¹) dK/dθ).
        let inverse = solved.cholesky.inverse();
        let half =
            DMatrix::from_fn(n, n, |i, j| solved.weights[i] * solved.weights[j] - inverse[(i, j)]);
        let scales = hyper.log_scales.len();
        let (signal, noise, block) =
            (hyper.log_signal.exp(), hyper.log_noise.exp(), hyper.log_block.exp());
        let inverse_squares = inverse_squares(&hyper.log_scales);
        let mut gradient = vec![0.0; flat.len()];
        for i in 0..n {
            gradient[scales] += 0.5 * half[(i, i)] * signal * (1.0 + JITTER);
            gradient[scales + 1] += 0.5 * half[(i, i)] * noise;
            gradient[scales + 2] += 0.5 * half[(i, i)] * block;
            for j in 0..i {
                // Both halves of a symmetric matrix.
                let weight = half[(i, j)];
                let by_distance = weight * signal * solved.slope[(i, j)];
                for (feature, inverse) in inverse_squares.iter().enumerate() {
                    let apart = self.rows[i][feature] - self.rows[j][feature];
                    gradient[feature] += by_distance * apart * apart * inverse;
                }
                gradient[scales] += weight * signal * solved.correlation[(i, j)];
                if self.blocks[i] == self.blocks[j] {
                    gradient[scales + 2] += weight * block;
                }
            }
        }
        for (index, log) in flat.iter().enumerate() {
            let (mean, deviation) = prior.of(index, scales);
            let apart = (log - mean) / deviation;
            value -= 0.5 * apart * apart;
            gradient[index] -= apart / deviation;
        }
        Some((value, gradient))
    }
}

impl Process {
    /// Fits a process. `noise` is the standard deviation of a score between repeated
    /// measurements, where that is known; `earlier` a fit to fewer of these observations.
    /// `None` with fewer than three observations, with rows of unequal length, or with
    /// scores that are all the same.
    pub fn fit(
        observations: &[Observation],
        noise: Option<f64>,
        earlier: Option<&Hyper>,
        rng: &mut impl RngExt,
    ) -> Option<Process> {
        let features = observations.first()?.features.len();
        let scores: Vec<f64> = observations.iter().map(|o| o.score).collect();
        let shift = walwright_stats::mean(&scores)?;
        let spread = walwright_stats::variance(&scores)?.sqrt();
        let whole = observations.iter().all(|o| o.features.len() == features);
        if observations.len() < 3 || !whole || !(spread > 0.0 && spread.is_finite()) {
            return None;
        }
        let data = Data {
            rows: observations.iter().map(|o| o.features.clone()).collect(),
            blocks: observations.iter().map(|o| o.block).collect(),
            standard: DVector::from_iterator(
                scores.len(),
                scores.iter().map(|score| (score - shift) / spread),
            ),
        };
        let prior = Prior::new(features, noise.map(|sigma| (sigma / spread).powi(2)));
        let mut starts = vec![prior.start(features)];
        starts.extend(earlier.filter(|h| h.log_scales.len() == features).map(Hyper::flat));
        // One that takes many features as unimportant and few as important.
        starts.push(
            prior
                .start(features)
                .iter()
                .enumerate()
                .map(|(index, mean)| {
                    let about = if index < features { 1.5 } else { 0.3 };
                    mean + about * (2.0 * rng.random::<f64>() - 1.0)
                })
                .collect(),
        );
        let (_, flat) = starts
            .into_iter()
            .filter_map(|start| climb(start, STEPS, LIMIT, |flat| data.posterior(flat, &prior)))
            .max_by(|a, b| a.0.total_cmp(&b.0))?;
        let hyper = Hyper::from_flat(&flat);
        let solved = data.solve(&hyper)?;
        Some(Process {
            inverse_squares: inverse_squares(&hyper.log_scales),
            rows: data.rows,
            standard: data.standard,
            hyper,
            cholesky: solved.cholesky,
            weights: solved.weights,
            ones: solved.ones,
            ones_total: solved.ones_total,
            constant: solved.constant,
            shift,
            spread,
        })
    }

    /// What it expects of a configuration.
    pub fn predict(&self, features: &[f64]) -> Prediction {
        let signal = self.hyper.log_signal.exp();
        let covariance = DVector::from_iterator(
            self.rows.len(),
            self.rows.iter().map(|row| {
                signal * matern(squared_distance(row, features, &self.inverse_squares)).0
            }),
        );
        let mean = self.constant + covariance.dot(&self.weights);
        let solved = self.cholesky.solve(&covariance);
        let unexplained = 1.0 - self.ones.dot(&covariance);
        let variance =
            signal - covariance.dot(&solved) + unexplained * unexplained / self.ones_total;
        Prediction {
            mean: self.shift + self.spread * mean,
            deviation: self.spread * variance.max(0.0).sqrt(),
        }
    }

    /// By how much `a` is expected to score above `b`. What is not known of both alike
    /// is no doubt about the difference.
    pub fn difference(&self, a: &[f64], b: &[f64]) -> Prediction {
        let signal = self.hyper.log_signal.exp();
        let of =
            |row: &[f64], at: &[f64]| matern(squared_distance(row, at, &self.inverse_squares)).0;
        let covariance = DVector::from_iterator(
            self.rows.len(),
            self.rows.iter().map(|row| signal * (of(row, a) - of(row, b))),
        );
        let shared = self.ones.dot(&covariance);
        let variance = 2.0 * signal * (1.0 - of(a, b))
            - covariance.dot(&self.cholesky.solve(&covariance))
            + shared * shared / self.ones_total;
        Prediction {
            mean: self.spread * covariance.dot(&self.weights),
            deviation: self.spread * variance.max(0.0).sqrt(),
        }
    }

    /// Correlation of the scores of two configurations, 0 to 1.
    pub fn correlation(&self, a: &[f64], b: &[f64]) -> f64 {
        matern(squared_distance(a, b, &self.inverse_squares)).0
    }

    /// Standard deviation of one measurement, as fitted.
    pub fn noise(&self) -> f64 {
        self.spread * (0.5 * self.hyper.log_noise).exp()
    }

    /// What was fitted.
    pub fn hyper(&self) -> &Hyper {
        &self.hyper
    }

    /// Predicts each measurement from all others (Rasmussen & Williams, eq. 5.12).
    pub fn leave_one_out(&self) -> LeaveOneOut {
        let inverse = self.cholesky.inverse();
        let n = self.rows.len() as f64;
        let (mut squares, mut of_mean, mut density) = (0.0, 0.0, 0.0);
        for i in 0..self.rows.len() {
            let variance = 1.0 / inverse[(i, i)];
            let error = self.weights[i] * variance;
            squares += error * error;
            // The mean of the others, of standardised scores whose mean is zero.
            let from_mean = self.standard[i] * n / (n - 1.0);
            of_mean += from_mean * from_mean;
            density -= 0.5 * ((std::f64::consts::TAU * variance).ln() + error * error / variance);
        }
        LeaveOneOut { error_ratio: (squares / of_mean).sqrt(), log_density: density / n }
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::random::generator;

    /// Twelve uniform numbers less six: near enough to normal.
    fn normal(rng: &mut impl RngExt) -> f64 {
        (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
    }

    fn observed(
        n: usize,
        sigma: f64,
        drift: f64,
        seed: u64,
        f: impl Fn(&[f64]) -> f64,
    ) -> Vec<Observation> {
        let mut rng = generator(seed, 0);
        let offsets: Vec<f64> = (0..n / 6 + 1).map(|_| drift * normal(&mut rng)).collect();
        (0..n)
            .map(|i| {
                let features: Vec<f64> = (0..3).map(|_| rng.random::<f64>()).collect();
                let score = f(&features) + offsets[i / 6] + sigma * normal(&mut rng);
                Observation { features, block: (i / 6) as u32, score }
            })
            .collect()
    }

    fn bump(x: &[f64]) -> f64 {
        -(x[0] - 0.6).powi(2)
    }

    #[test]
    fn the_gradient_is_that_of_the_density() {
        let observations = observed(14, 0.05, 0.05, 3, bump);
        let scores: Vec<f64> = observations.iter().map(|o| o.score * 8.0).collect();
        let data = Data {
            rows: observations.iter().map(|o| o.features.clone()).collect(),
            blocks: observations.iter().map(|o| o.block).collect(),
            standard: DVector::from_vec(scores),
        };
        let prior = Prior::new(3, Some(0.1));
        let at = vec![0.2, -0.4, 0.9, 0.3, -1.5, -2.0];
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

    #[test]
    fn it_learns_a_surface_its_noise_and_which_feature_matters() {
        let observations = observed(60, 0.02, 0.0, 7, bump);
        let fitted = Process::fit(&observations, None, None, &mut generator(1, 1)).unwrap();
        for x in [0.1, 0.35, 0.6, 0.9] {
            let at = [x, 0.5, 0.5];
            let prediction = fitted.predict(&at);
            assert!((prediction.mean - bump(&at)).abs() < 0.03, "{x} {prediction:?}");
            assert!(prediction.deviation < 0.05);
        }
        assert!((0.013..0.03).contains(&fitted.noise()), "{}", fitted.noise());
        let (a, b) = ([0.6, 0.5, 0.5], [0.1, 0.5, 0.5]);
        let apart = fitted.difference(&a, &b);
        let alone = fitted.predict(&a).mean - fitted.predict(&b).mean;
        assert!((apart.mean - alone).abs() < 1e-9);
        let scales = &fitted.hyper().log_scales;
        assert!(scales[0] < scales[1] && scales[0] < scales[2], "{scales:?}");
        assert!(fitted.leave_one_out().error_ratio < 0.4);
    }

    #[test]
    fn drift_between_blocks_is_not_taken_for_the_surface() {
        let observations = observed(60, 0.01, 0.1, 11, bump);
        let with = Process::fit(&observations, Some(0.01), None, &mut generator(1, 1)).unwrap();
        let blind: Vec<Observation> = observations
            .iter()
            .enumerate()
            .map(|(i, o)| Observation { block: i as u32, ..o.clone() })
            .collect();
        let without = Process::fit(&blind, None, None, &mut generator(1, 1)).unwrap();
        let error = |process: &Process| -> f64 {
            (0..20)
                .map(|i| {
                    let (a, b) = ([f64::from(i) / 19.0, 0.5, 0.5], [0.6, 0.5, 0.5]);
                    let apart = process.predict(&a).mean - process.predict(&b).mean;
                    (apart - (bump(&a) - bump(&b))).powi(2)
                })
                .sum()
        };
        assert!(error(&with) < 0.5 * error(&without), "{} {}", error(&with), error(&without));
    }

    #[test]
    fn noise_alone_predicts_nothing_and_replicates_narrow() {
        let flat = observed(40, 0.05, 0.0, 5, |_| 1.0);
        let fitted = Process::fit(&flat, Some(0.05), None, &mut generator(1, 1)).unwrap();
        assert!(fitted.leave_one_out().error_ratio > 0.85);
        let mut repeated = flat.clone();
        for block in 0..8 {
            repeated.push(Observation { features: vec![0.5; 3], block, score: 1.0 });
        }
        let narrowed = Process::fit(&repeated, Some(0.05), None, &mut generator(1, 1)).unwrap();
        let at = [0.5; 3];
        assert!(narrowed.predict(&at).deviation < fitted.predict(&at).deviation + 1e-9);
    }

    #[test]
    fn too_little_makes_no_process() {
        let two = observed(2, 0.1, 0.0, 1, bump);
        assert!(Process::fit(&two, None, None, &mut generator(1, 1)).is_none());
        let same = vec![Observation { features: vec![0.5], block: 0, score: 1.0 }; 5];
        assert!(Process::fit(&same, None, None, &mut generator(1, 1)).is_none());
    }
}
