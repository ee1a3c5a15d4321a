//! A Gaussian process over configurations that knows noise and drift.
//!
//! A score is a constant, plus a smooth function of each feature alone, plus one of all of
//! them together (Matérn 5/2, there with a length scale for each), plus a step at an edge where
//! the measurements speak for one, plus an offset shared by all measurements of a block
//! (drift), plus noise of its own. Replicates are measurements of their own, so a
//! configuration measured n times is known with the noise variance over n. The constant
//! is estimated by generalised least squares; length scales and variances are those of
//! the highest posterior density, climbed from several starts (Rasmussen & Williams,
//! Gaussian Processes for Machine Learning, ch. 5).

use std::sync::Arc;

use nalgebra::{Cholesky, DVector, Dyn};
use rand::RngExt;

use crate::ablation::Noise;
use crate::edge::Edge;
use crate::hyper::Hyper;
use crate::kernel::{Kernel, LIMIT};
use crate::likelihood::{Data, Prior};
use crate::optimise::climb;
use crate::slice::Draw;

/// Steps of each climb.
const STEPS: usize = 40;
/// How much less probable than the smooth fit an edge may look before it has a fit of its own,
/// as a logarithm.
const NEAR: f64 = 6.0;
/// Moves from one draw of the hyperparameters to the next.
const MOVES: usize = 10;

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

/// What the process expects of a configuration, free of noise and drift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Expected score.
    pub mean: f64,
    /// Standard deviation of what is not known of it.
    pub deviation: f64,
}

impl Prediction {
    /// The mean in standard deviations of what is not known of it.
    pub fn deviations(&self) -> f64 {
        self.mean / self.deviation.max(f64::MIN_POSITIVE)
    }
}

/// A configuration as a process sees it: what it expects, and what it takes to compare it
/// with others.
#[derive(Debug, Clone)]
pub struct Look {
    /// What it expects of it.
    pub prediction: Prediction,
    features: Vec<f64>,
    covariance: DVector<f64>,
    solved: DVector<f64>,
    unexplained: f64,
}

/// A fitted process.
#[derive(Debug, Clone)]
pub struct Process {
    data: Arc<Data>,
    prior: Prior,
    hyper: Hyper,
    kernel: Kernel,
    cholesky: Cholesky<f64, Dyn>,
    /// K⁻¹ (y − constant).
    weights: DVector<f64>,
    /// K⁻¹ 1 and 1ᵀ K⁻¹ 1, for the uncertainty of the constant.
    ones: DVector<f64>,
    ones_total: f64,
    constant: f64,
    shift: f64,
    spread: f64,
}

impl Process {
    /// Fits a process. `scales` are the features on which something can lie beyond a value,
    /// those without marks of their own; `noise` is what repeated measurements showed of the noise
    /// of one, where there were any; `earlier` a fit to fewer of these observations.
    /// `None` with fewer than three observations, with rows of unequal length, or with
    /// scores that are all the same.
    pub fn fit(
        observations: &[Observation],
        scales: &[usize],
        noise: Option<Noise>,
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
        let data = Data::new(
            observations.iter().map(|o| o.features.clone()).collect(),
            observations.iter().map(|o| o.block).collect(),
            DVector::from_iterator(
                scores.len(),
                scores.iter().map(|score| (score - shift) / spread),
            ),
        );
        let in_spreads =
            |noise: Noise| Noise { variance: noise.variance / spread.powi(2), ..noise };
        let prior = Prior::new(features, noise.map(in_spreads));
        let mut starts = vec![prior.start()];
        let same = |h: &&Hyper| [h.log_scales.len(), h.log_alone.len()] == [features; 2];
        starts.extend(earlier.filter(same).map(Hyper::flat));
        // One that takes many features as unimportant and few as important.
        starts.push(
            prior
                .start()
                .iter()
                .enumerate()
                .map(|(index, mean)| {
                    let about = match index {
                        _ if index < 2 * features => 1.5,
                        // Drift may be anything beside the noise.
                        _ if index == 2 * features + 2 => 2.0,
                        _ => 0.3,
                    };
                    mean + about * (2.0 * rng.random::<f64>() - 1.0)
                })
                .collect(),
        );
        let top = |data: &Data| {
            let climbs = starts.iter().filter_map(|start| {
                climb(start.clone(), STEPS, LIMIT, |flat| data.posterior(flat, &prior))
            });
            climbs.max_by(|a, b| a.0.total_cmp(&b.0))
        };
        let smooth = top(&data)?;
        // The most probable edge, and how dense the posterior is with one in that feature.
        let edge_by = |flat: &Vec<f64>| {
            let solved = data.solve(&Hyper::from_flat(flat))?;
            let (edge, log_odds) = Edge::most_probable(&data.rows, scales, &solved)?;
            Some((data.log_likelihood_of(&solved) + prior.log_density(flat) + log_odds, edge))
        };
        let with_edge = || {
            // The smooth fit has bent itself to the edge; others have not.
            let (_, edge) = std::iter::once(&smooth.1)
                .chain(&starts)
                .filter_map(edge_by)
                .max_by(|a, b| a.0.total_cmp(&b.0))
                .filter(|(density, _)| *density > smooth.0 - NEAR)?;
            let (_, flat) = top(&data.with_edge(edge))?;
            let (density, edge) = edge_by(&flat)?;
            (density > smooth.0).then(|| (data.with_edge(edge), flat))
        };
        let (data, flat) = match with_edge() {
            Some(found) => found,
            None => (data, smooth.1),
        };
        Process::with(Arc::new(data), prior, Hyper::from_flat(&flat), (shift, spread))
    }

    /// The process with these hyperparameters; `scale` is mean and spread of the scores.
    fn with(data: Arc<Data>, prior: Prior, hyper: Hyper, scale: (f64, f64)) -> Option<Process> {
        let solved = data.solve(&hyper)?;
        let (shift, spread) = scale;
        let edge = data.edge.map(|edge| {
            // The expected step is the sum of the weights above it, times its variance.
            let above = data.rows.iter().zip(&solved.weights);
            let above = above.filter(|(row, _)| edge.is_below(row)).map(|(_, weight)| weight);
            edge.cautious(above.sum::<f64>() < 0.0)
        });
        Some(Process {
            kernel: Kernel::of(&hyper, edge),
            data,
            prior,
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

    /// Processes whose hyperparameters are drawn from their posterior. The fitted ones are
    /// its top, which says more of itself than a handful of measurements can bear out: what
    /// all of them say together is as uncertain as it should be, but for an edge, which is the
    /// same in all.
    pub fn drawn(&self, count: usize, rng: &mut impl RngExt) -> Vec<Process> {
        let (data, prior) = (&self.data, self.prior.all());
        let at = self.hyper.flat();
        let Some(log_likelihood) = data.log_likelihood(&at) else { return Vec::new() };
        let mut draw = Draw { at, log_likelihood };
        (0..count)
            .filter_map(|_| {
                for _ in 0..MOVES {
                    draw.advance(&prior, |flat| data.log_likelihood(flat), rng);
                }
                let hyper = Hyper::from_flat(&draw.at);
                Process::with(data.clone(), self.prior.clone(), hyper, (self.shift, self.spread))
            })
            .collect()
    }

    /// The same where the edge lies half-way between what was measured on its two sides, and
    /// not as near as can be to the better one; `None` without an edge.
    pub fn half_way(&self) -> Option<Process> {
        let edge = Some(self.kernel.edge?.half_way());
        Some(Process { kernel: Kernel::of(&self.hyper, edge), ..self.clone() })
    }

    /// What it expects of a configuration.
    pub fn predict(&self, features: &[f64]) -> Prediction {
        self.look(features).prediction
    }

    /// By how much `a` is expected to score above `b`. What is not known of both alike
    /// is no uncertainty about the difference.
    pub fn difference(&self, a: &[f64], b: &[f64]) -> Prediction {
        let of = |row: &[f64], at: &[f64]| self.kernel.covariance(row, at);
        let covariance = DVector::from_iterator(
            self.data.rows.len(),
            self.data.rows.iter().map(|row| of(row, a) - of(row, b)),
        );
        let shared = self.ones.dot(&covariance);
        let variance = 2.0 * (self.kernel.variance() - of(a, b))
            - covariance.dot(&self.cholesky.solve(&covariance))
            + shared * shared / self.ones_total;
        Prediction {
            mean: self.spread * covariance.dot(&self.weights),
            deviation: self.spread * variance.max(0.0).sqrt(),
        }
    }

    /// The same by several processes that are equally likely: what they do not agree on is
    /// uncertainty too. `None` without any.
    pub fn difference_by_all(all: &[Process], a: &[f64], b: &[f64]) -> Option<Prediction> {
        let each: Vec<Prediction> = all.iter().map(|process| process.difference(a, b)).collect();
        let mean = each.iter().map(|one| one.mean).sum::<f64>() / each.len() as f64;
        let square = |one: &Prediction| one.deviation.powi(2) + (one.mean - mean).powi(2);
        let variance = each.iter().map(square).sum::<f64>() / each.len() as f64;
        (!each.is_empty()).then(|| Prediction { mean, deviation: variance.sqrt() })
    }

    /// What it knows of a configuration.
    pub fn look(&self, features: &[f64]) -> Look {
        let covariance = DVector::from_iterator(
            self.data.rows.len(),
            self.data.rows.iter().map(|row| self.kernel.covariance(row, features)),
        );
        let solved = self.cholesky.solve(&covariance);
        let mean = self.constant + covariance.dot(&self.weights);
        let unexplained = 1.0 - self.ones.dot(&covariance);
        let variance = self.kernel.variance() - covariance.dot(&solved)
            + unexplained * unexplained / self.ones_total;
        Look {
            prediction: Prediction {
                mean: self.shift + self.spread * mean,
                deviation: self.spread * variance.max(0.0).sqrt(),
            },
            features: features.to_vec(),
            covariance,
            solved,
            unexplained,
        }
    }

    /// By how much the expected score of `of` moves for one standard deviation of what one
    /// measurement of `by` may show.
    pub fn moved(&self, of: &Look, by: &Look) -> f64 {
        let shared = self.kernel.covariance(&of.features, &by.features)
            - of.covariance.dot(&by.solved)
            + of.unexplained * by.unexplained / self.ones_total;
        let seen = by.prediction.deviation.powi(2) + self.noise().powi(2);
        shared * self.spread * self.spread / seen.sqrt()
    }

    /// How alike two configurations are, 0 to 1: not at all across an edge.
    pub fn alike(&self, a: &[f64], b: &[f64]) -> f64 {
        self.kernel.alike(a, b)
    }

    /// Standard deviation of one measurement, as fitted.
    pub fn noise(&self) -> f64 {
        self.spread * (0.5 * self.hyper.log_noise).exp()
    }

    /// What was fitted.
    pub fn hyper(&self) -> &Hyper {
        &self.hyper
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::random::generator;

    const SCALES: [usize; 3] = [0, 1, 2];

    /// Twelve uniform numbers less six: near enough to normal.
    fn normal(rng: &mut impl RngExt) -> f64 {
        (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
    }

    /// A noise of this standard deviation, known well.
    fn known(sigma: f64) -> Option<Noise> {
        Some(Noise { variance: sigma * sigma, freedom: 30.0 })
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

    /// Root of the mean squared error of predicting each measurement from all others
    /// (Rasmussen & Williams, eq. 5.12), over that of predicting the mean of the others: below
    /// 1 the features say something.
    fn error_ratio(process: &Process) -> f64 {
        let inverse = process.cholesky.inverse();
        let n = process.data.rows.len() as f64;
        let (mut squares, mut of_mean) = (0.0, 0.0);
        for i in 0..process.data.rows.len() {
            squares += (process.weights[i] / inverse[(i, i)]).powi(2);
            // The mean of the others, of standardised scores whose mean is zero.
            of_mean += (process.data.standard[i] * n / (n - 1.0)).powi(2);
        }
        (squares / of_mean).sqrt()
    }

    fn bump(x: &[f64]) -> f64 {
        -(x[0] - 0.6).powi(2)
    }

    #[test]
    fn it_learns_a_surface_its_noise_and_which_feature_matters() {
        let observations = observed(60, 0.02, 0.0, 7, bump);
        let fitted =
            Process::fit(&observations, &SCALES, None, None, &mut generator(1, 1)).unwrap();
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
        // The variance of a difference, put together from what each moves of the other.
        let (look_a, look_b) = (fitted.look(&a), fitted.look(&b));
        let seen = fitted.predict(&b).deviation.hypot(fitted.noise());
        let shared = fitted.moved(&look_a, &look_b) * seen;
        let squares = fitted.predict(&a).deviation.powi(2) + fitted.predict(&b).deviation.powi(2);
        assert!((squares - 2.0 * shared - apart.deviation.powi(2)).abs() < 1e-9);
        let alone = &fitted.hyper().log_alone;
        assert!(alone[0] > alone[1] && alone[0] > alone[2], "{alone:?}");
        assert!(error_ratio(&fitted) < 0.4);
    }

    #[test]
    fn drift_between_blocks_is_not_taken_for_the_surface() {
        let observations = observed(60, 0.01, 0.1, 11, bump);
        let with =
            Process::fit(&observations, &SCALES, known(0.01), None, &mut generator(1, 1)).unwrap();
        let blind: Vec<Observation> = observations
            .iter()
            .enumerate()
            .map(|(i, o)| Observation { block: i as u32, ..o.clone() })
            .collect();
        let without = Process::fit(&blind, &SCALES, None, None, &mut generator(1, 1)).unwrap();
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
    fn drawn_processes_together_cover_the_truth_more_often() {
        let (a, b) = ([0.6, 0.5, 0.5], [0.15, 0.5, 0.5]);
        let truth = bump(&a) - bump(&b);
        let covers = |p: Prediction| usize::from((p.mean - truth).abs() <= 1.96 * p.deviation);
        let (mut by_top, mut by_all) = (0, 0);
        for seed in 0..100 {
            let few = observed(12, 0.05, 0.0, seed, bump);
            let top = Process::fit(&few, &SCALES, known(0.05), None, &mut generator(1, 1)).unwrap();
            let drawn = top.drawn(8, &mut generator(seed, 2));
            assert_eq!(drawn.len(), 8);
            by_top += covers(top.difference(&a, &b));
            by_all += covers(Process::difference_by_all(&drawn, &a, &b).unwrap());
        }
        assert!(by_all >= 80 && by_all > by_top, "{by_all} and {by_top} of 100");
        assert!(Process::difference_by_all(&[], &a, &b).is_none());
    }

    #[test]
    fn what_lies_before_an_edge_is_not_judged_by_what_lies_beyond() {
        let cliff = |x: &[f64]| 0.5 * x[0] - if x[0] > 0.65 { 0.6 } else { 0.0 };
        let observations = observed(60, 0.05, 0.0, 5, cliff);
        let fitted =
            Process::fit(&observations, &SCALES, known(0.05), None, &mut generator(1, 1)).unwrap();
        let (mut low, mut high) = (0.0_f64, 1.0_f64);
        for seen in observations.iter().map(|observation| observation.features[0]) {
            if seen > 0.65 { high = high.min(seen) } else { low = low.max(seen) }
        }
        let at = |process: &Process, x: f64| process.predict(&[x, 0.5, 0.5]).mean;
        let error = at(&fitted, low) - cliff(&[low]);
        assert!(error.abs() < 0.06, "{error}");
        // Between the two, nobody knows.
        let half_way = fitted.half_way().unwrap();
        let nearer = 0.75 * low + 0.25 * high;
        assert!(at(&fitted, nearer) < at(&fitted, low) - 0.4);
        assert!(at(&half_way, nearer) > at(&half_way, low));
        assert_eq!(at(&half_way, low), at(&fitted, low));
        let look = |x: f64| fitted.look(&[x, 0.5, 0.5]);
        let (before, beyond) = (look(low), look(high));
        // The variance of a difference across the edge is that of its parts.
        let apart = fitted.difference(&[low, 0.5, 0.5], &[high, 0.5, 0.5]);
        let seen = beyond.prediction.deviation.hypot(fitted.noise());
        let squares = before.prediction.deviation.powi(2) + beyond.prediction.deviation.powi(2);
        let shared = fitted.moved(&before, &beyond) * seen;
        assert!((squares - 2.0 * shared - apart.deviation.powi(2)).abs() < 1e-9);
        // The same where what is better lies above.
        let mirrored: Vec<Observation> = observations
            .iter()
            .map(|o| Observation {
                features: vec![1.0 - o.features[0], o.features[1], o.features[2]],
                ..o.clone()
            })
            .collect();
        let fitted = Process::fit(&mirrored, &SCALES, known(0.05), None, &mut generator(1, 1));
        let fitted = fitted.unwrap();
        assert!(at(&fitted, 1.0 - nearer) < at(&fitted, 1.0 - low) - 0.4);
        assert!(at(&fitted.half_way().unwrap(), 1.0 - nearer) > at(&fitted, 1.0 - low) - 0.1);
        let smooth = observed(60, 0.05, 0.0, 7, bump);
        let smooth =
            Process::fit(&smooth, &SCALES, known(0.05), None, &mut generator(1, 1)).unwrap();
        assert!(smooth.half_way().is_none());
    }

    #[test]
    fn noise_alone_predicts_nothing_and_replicates_narrow() {
        let flat = observed(40, 0.05, 0.0, 5, |_| 1.0);
        let fitted = Process::fit(&flat, &SCALES, known(0.05), None, &mut generator(1, 1)).unwrap();
        assert!(error_ratio(&fitted) > 0.85);
        let mut repeated = flat.clone();
        for block in 0..8 {
            repeated.push(Observation { features: vec![0.5; 3], block, score: 1.0 });
        }
        let narrowed =
            Process::fit(&repeated, &SCALES, known(0.05), None, &mut generator(1, 1)).unwrap();
        let at = [0.5; 3];
        assert!(narrowed.predict(&at).deviation < fitted.predict(&at).deviation + 1e-9);
    }

    #[test]
    fn too_little_makes_no_process() {
        let two = observed(2, 0.1, 0.0, 1, bump);
        assert!(Process::fit(&two, &SCALES, None, None, &mut generator(1, 1)).is_none());
        let same = vec![Observation { features: vec![0.5], block: 0, score: 1.0 }; 5];
        assert!(Process::fit(&same, &SCALES, None, None, &mut generator(1, 1)).is_none());
    }
}
