//! Throughput over clients: Gunther's universal scalability law.

use rand::RngExt;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::resampling::{generator, percentile_cut};
use crate::{Estimate, EstimateWarning, Interval, Method, Resampling};

/// Fewest different loads: three parameters and something left to judge the fit by.
const FEWEST_LOADS: usize = 4;
/// Client counts at which the band around the curve is given.
const BAND_POINTS: usize = 64;
/// No system that is measured has a larger serial share; κ is bounded alike.
const LARGEST: f64 = 1.0;

/// One measured point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Clients (sessions, threads) offered.
    pub clients: f64,
    /// Throughput reached, per second.
    pub throughput: f64,
}

/// X(N) = λN / (1 + σ(N − 1) + κN(N − 1)).
///
/// N. J. Gunther, "Guerrilla Capacity Planning" (2007), chapter 4 ff.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScalingLaw {
    /// λ, throughput of one client, per second.
    pub single: f64,
    /// σ, share of the work that is serial (contention), 0 to 1.
    pub contention: f64,
    /// κ, cost of keeping each pair of clients coherent, at least 0.
    pub coherency: f64,
}

impl ScalingLaw {
    /// Throughput at `clients`, per second.
    pub fn throughput(&self, clients: f64) -> f64 {
        self.single * self.capacity(clients)
    }

    fn capacity(&self, n: f64) -> f64 {
        n / (1.0 + self.contention * (n - 1.0) + self.coherency * n * (n - 1.0))
    }

    /// Clients at which throughput is highest, √((1 − σ)/κ); `None` when it rises
    /// without end (κ = 0).
    pub fn peak_clients(&self) -> Option<f64> {
        (self.coherency > 0.0).then(|| ((1.0 - self.contention) / self.coherency).sqrt().max(1.0))
    }

    /// The highest throughput, or the one approached when there is no peak (λ/σ);
    /// `None` when throughput grows without bound.
    pub fn ceiling(&self) -> Option<f64> {
        match self.peak_clients() {
            Some(peak) => Some(self.throughput(peak)),
            None => (self.contention > 0.0).then(|| self.single / self.contention),
        }
    }

    /// The knee: clients at which perfect scaling would meet the ceiling. More
    /// clients mostly wait. `None` when there is no ceiling.
    pub fn knee_clients(&self) -> Option<f64> {
        self.ceiling().map(|ceiling| ceiling / self.single)
    }
}

/// A fitted law with intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScalingFit {
    /// Best fit.
    pub law: ScalingLaw,
    /// λ with interval.
    pub single: Estimate,
    /// σ with interval.
    pub contention: Estimate,
    /// κ with interval.
    pub coherency: Estimate,
    /// Clients at the peak; `None` when the best fit has none.
    pub peak_clients: Option<Estimate>,
    /// Highest throughput; `None` when the best fit has no ceiling.
    pub ceiling: Option<Estimate>,
    /// Clients at the knee; `None` when the best fit has no ceiling.
    pub knee_clients: Option<Estimate>,
    /// Relative deviation of the measured points from the curve (root mean
    /// square, three fitted parameters taken off).
    pub relative_error: f64,
    /// The curve over the range that was measured, each place with its interval.
    pub band: Vec<BandPoint>,
}

/// The fitted curve at one client count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BandPoint {
    /// Clients.
    pub clients: f64,
    /// Throughput of the best fit, per second.
    pub throughput: f64,
    /// Where the curve may lie there; the scatter of single points is not in it.
    /// `None` without resamples.
    pub interval: Option<Interval>,
}

/// Points that cannot be fitted.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum ScalingError {
    /// Too few different loads.
    #[error("the scalability law needs at least {FEWEST_LOADS} different client counts, not {0}")]
    TooFewLoads(usize),
    /// A load that is not a measurement.
    #[error(
        "{clients} clients at {throughput}/s cannot be fitted: clients must be at least 1 and throughput above 0"
    )]
    BadLoad {
        /// Its clients.
        clients: f64,
        /// Its throughput.
        throughput: f64,
    },
}

/// Fits the law by least squares on log throughput (errors of throughput are
/// relative) with 0 ≤ σ ≤ 1 and 0 ≤ κ ≤ 1; intervals by resampling residuals.
///
/// # Errors
/// With fewer than four different client counts or figures that are not positive.
pub fn fit_scaling(loads: &[Load], how: &Resampling) -> Result<ScalingFit, ScalingError> {
    for &Load { clients, throughput } in loads {
        let good =
            clients >= 1.0 && clients.is_finite() && throughput > 0.0 && throughput.is_finite();
        if !good {
            return Err(ScalingError::BadLoad { clients, throughput });
        }
    }
    let mut counts: Vec<f64> = loads.iter().map(|l| l.clients).collect();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    if counts.len() < FEWEST_LOADS {
        return Err(ScalingError::TooFewLoads(counts.len()));
    }
    let points: Vec<(f64, f64)> = loads.iter().map(|l| (l.clients, l.throughput.ln())).collect();
    let law = fit(&points, None);
    let residuals: Vec<f64> = points.iter().map(|(n, y)| y - law.throughput(*n).ln()).collect();
    let squares: f64 = residuals.iter().map(|r| r * r).sum();
    let freedom = points.len().saturating_sub(3).max(1) as f64;
    // Residuals of a fit are smaller than the errors; n − 3 of n carry them.
    let inflation = (points.len() as f64 / freedom).sqrt();

    let mut rng = generator(how.seed);
    let laws: Vec<ScalingLaw> = (0..how.resamples)
        .map(|_| {
            let drawn: Vec<(f64, f64)> = points
                .iter()
                .map(|(n, _)| {
                    let residual = residuals[rng.random_range(0..residuals.len())];
                    (*n, law.throughput(*n).ln() + inflation * residual)
                })
                .collect();
            fit(&drawn, Some(&law))
        })
        .collect();
    let measured_to = counts[counts.len() - 1];
    let estimate = |of: &dyn Fn(&ScalingLaw) -> Option<f64>| -> Option<Estimate> {
        let center = of(&law)?;
        let values: Vec<f64> = laws.iter().filter_map(of).filter(|v| v.is_finite()).collect();
        let lost = laws.len() - values.len();
        let warnings =
            (lost > 0).then_some(EstimateWarning::ResamplesLost { lost, of: laws.len() });
        Some(Estimate {
            center,
            interval: percentile_cut(values, how.confidence),
            confidence: how.confidence,
            method: Method::ResidualBootstrap,
            warnings: warnings.into_iter().collect(),
        })
    };
    let bounded = |estimate: Option<Estimate>, beyond: bool| {
        estimate.map(|e| {
            if beyond { e.with_warning(EstimateWarning::BeyondData { measured_to }) } else { e }
        })
    };
    let parameter = |of: &dyn Fn(&ScalingLaw) -> f64| {
        estimate(&|law| Some(of(law))).unwrap_or_else(|| {
            let warning = EstimateWarning::TooFewSamples { have: loads.len(), need: FEWEST_LOADS };
            Estimate::without_interval(of(&law), how.confidence, Method::ResidualBootstrap, warning)
        })
    };
    let peak_beyond = law.peak_clients().is_none_or(|peak| peak > measured_to);
    let knee_beyond = law.knee_clients().is_some_and(|knee| knee > measured_to);
    Ok(ScalingFit {
        law,
        single: parameter(&|l| l.single),
        contention: parameter(&|l| l.contention),
        coherency: parameter(&|l| l.coherency),
        peak_clients: bounded(estimate(&ScalingLaw::peak_clients), peak_beyond),
        ceiling: bounded(estimate(&ScalingLaw::ceiling), peak_beyond),
        knee_clients: bounded(estimate(&ScalingLaw::knee_clients), knee_beyond),
        relative_error: (squares / freedom).sqrt(),
        band: band(&law, &laws, (counts[0], measured_to), how),
    })
}

/// The curve and its interval at places that are even on a logarithmic axis.
fn band(
    law: &ScalingLaw,
    laws: &[ScalingLaw],
    (from, to): (f64, f64),
    how: &Resampling,
) -> Vec<BandPoint> {
    (0..BAND_POINTS)
        .map(|place| {
            let clients = from * (to / from).powf(place as f64 / (BAND_POINTS - 1) as f64);
            let values = laws.iter().map(|law| law.throughput(clients)).collect();
            BandPoint {
                clients,
                throughput: law.throughput(clients),
                interval: percentile_cut(values, how.confidence),
            }
        })
        .collect()
}

/// Least squares over (clients, ln throughput). λ has a closed form once σ and κ
/// are given (the mean of ln X − ln capacity), so the search is in two bounded
/// dimensions: damped Gauss-Newton from several starts, or from `near` alone.
fn fit(points: &[(f64, f64)], near: Option<&ScalingLaw>) -> ScalingLaw {
    const STARTS: [(f64, f64); 6] =
        [(0.0, 0.0), (0.02, 1e-4), (0.1, 1e-3), (0.3, 1e-2), (0.05, 1e-6), (0.7, 1e-4)];
    let mut starts: Vec<(f64, f64)> =
        near.map(|l| (l.contention, l.coherency)).into_iter().collect();
    if starts.is_empty() {
        starts.extend(STARTS);
    }
    let best = starts
        .into_iter()
        .map(|start| descend(points, start))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map_or((0.0, 0.0), |(parameters, _)| parameters);
    let (_, mean) = residuals(points, best);
    ScalingLaw { single: mean.exp(), contention: best.0, coherency: best.1 }
}

/// Residuals ln X − ln capacity around their mean, and that mean (ln λ).
fn residuals(points: &[(f64, f64)], (sigma, kappa): (f64, f64)) -> (Vec<f64>, f64) {
    let law = ScalingLaw { single: 1.0, contention: sigma, coherency: kappa };
    let raw: Vec<f64> = points.iter().map(|(n, y)| y - law.capacity(*n).ln()).collect();
    let mean = raw.iter().sum::<f64>() / raw.len() as f64;
    (raw.into_iter().map(|r| r - mean).collect(), mean)
}

fn squares(points: &[(f64, f64)], at: (f64, f64)) -> f64 {
    residuals(points, at).0.iter().map(|r| r * r).sum()
}

/// Levenberg-Marquardt with projection on the bounds; returns the point and its sum of squares.
fn descend(points: &[(f64, f64)], start: (f64, f64)) -> ((f64, f64), f64) {
    let mut at = start;
    let mut value = squares(points, at);
    let mut damping = 1e-3;
    for _ in 0..200 {
        let (errors, _) = residuals(points, at);
        // d residual / dσ = (n − 1)/D and d residual / dκ = n(n − 1)/D, centred as λ moves along.
        let mut gradient: Vec<(f64, f64)> = points
            .iter()
            .map(|(n, _)| {
                let below = 1.0 + at.0 * (n - 1.0) + at.1 * n * (n - 1.0);
                ((n - 1.0) / below, n * (n - 1.0) / below)
            })
            .collect();
        let count = gradient.len() as f64;
        let mean = gradient.iter().fold((0.0, 0.0), |m, g| (m.0 + g.0 / count, m.1 + g.1 / count));
        gradient.iter_mut().for_each(|g| *g = (g.0 - mean.0, g.1 - mean.1));
        let (mut a, mut b, mut c, mut u, mut v) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (g, e) in gradient.iter().zip(&errors) {
            a += g.0 * g.0;
            b += g.0 * g.1;
            c += g.1 * g.1;
            u += g.0 * e;
            v += g.1 * e;
        }
        // A parameter that its bound holds back stays there for this step.
        let held = |x: f64, slope: f64| (x <= 0.0 && slope > 0.0) || (x >= LARGEST && slope < 0.0);
        let (hold_sigma, hold_kappa) = (held(at.0, u), held(at.1, v));
        let (p, q) = (a * (1.0 + damping), c * (1.0 + damping));
        let step = match (hold_sigma, hold_kappa) {
            (true, true) => break,
            (true, false) => (0.0, -v / q),
            (false, true) => (-u / p, 0.0),
            (false, false) => {
                let determinant = p * q - b * b;
                ((b * v - q * u) / determinant, (b * u - p * v) / determinant)
            }
        };
        let next = ((at.0 + step.0).clamp(0.0, LARGEST), (at.1 + step.1).clamp(0.0, LARGEST));
        let next_value = squares(points, next);
        if next_value < value {
            let done = value - next_value <= 1e-14 * value;
            (at, value) = (next, next_value);
            damping = (damping / 10.0).max(1e-12);
            if done {
                break;
            }
        } else {
            damping *= 10.0;
            if damping > 1e12 || !next_value.is_finite() && damping > 1e6 {
                break;
            }
        }
    }
    (at, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    const CLIENTS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

    fn measure(law: ScalingLaw, seed: u64, error: f64) -> Vec<Load> {
        let mut synthetic = Synthetic::new(seed);
        CLIENTS
            .iter()
            .map(|n| Load {
                clients: *n,
                throughput: law.throughput(*n) * (error * synthetic.normal()).exp(),
            })
            .collect()
    }

    fn how(seed: u64) -> Resampling {
        Resampling { resamples: 200, seed, ..Default::default() }
    }

    #[test]
    fn exact_points_give_back_the_law() {
        for (contention, coherency) in
            [(0.05, 2e-4), (0.02, 0.0), (0.0, 1e-3), (0.4, 1e-5), (0.0, 0.0)]
        {
            let law = ScalingLaw { single: 800.0, contention, coherency };
            let fit = fit_scaling(&measure(law, 0, 0.0), &how(0)).unwrap().law;
            assert!((fit.single / 800.0 - 1.0).abs() < 1e-4, "{fit:?}");
            assert!((fit.contention - contention).abs() < 1e-5, "{fit:?}");
            assert!((fit.coherency - coherency).abs() < 1e-7, "{fit:?}");
        }
    }

    #[test]
    fn intervals_cover_peak_and_ceiling() {
        let law = ScalingLaw { single: 800.0, contention: 0.05, coherency: 4e-4 };
        let (peak, ceiling) = (law.peak_clients().unwrap(), law.ceiling().unwrap());
        let (mut peaks, mut ceilings) = (0, 0);
        for seed in 0..100 {
            let fit = fit_scaling(&measure(law, seed, 0.03), &how(seed)).unwrap();
            let covers = |e: &Option<Estimate>, truth| {
                e.as_ref().is_some_and(|e| e.interval.unwrap().contains(truth))
            };
            peaks += i32::from(covers(&fit.peak_clients, peak));
            ceilings += i32::from(covers(&fit.ceiling, ceiling));
            assert!(fit.relative_error > 0.005 && fit.relative_error < 0.08);
        }
        println!("peak {peaks}/100 ceiling {ceilings}/100");
        assert!(peaks >= 85 && ceilings >= 85, "peak {peaks}, ceiling {ceilings} of 100");
    }

    #[test]
    fn the_band_covers_the_true_curve() {
        let law = ScalingLaw { single: 800.0, contention: 0.05, coherency: 4e-4 };
        let mut covered = 0;
        for seed in 0..60 {
            let fit = fit_scaling(&measure(law, seed, 0.03), &how(seed)).unwrap();
            assert_eq!((fit.band[0].clients, fit.band.len()), (1.0, BAND_POINTS));
            let middle = fit.band[BAND_POINTS / 2];
            let interval = middle.interval.unwrap();
            covered += i32::from(interval.contains(law.throughput(middle.clients)));
        }
        assert!(covered >= 48, "{covered} of 60");
    }

    #[test]
    fn peak_and_knee_follow_from_the_parameters() {
        let law = ScalingLaw { single: 100.0, contention: 0.19, coherency: 0.0081 };
        // 100 · 10 / (1 + 0.19 · 9 + 0.0081 · 90)
        assert!((law.throughput(10.0) - 1_000.0 / 3.439).abs() < 1e-9);
        assert!((law.peak_clients().unwrap() - 10.0).abs() < 1e-9);
        assert!(law.throughput(10.0) > law.throughput(9.0));
        assert!(law.throughput(10.0) > law.throughput(11.0));
        let flat = ScalingLaw { single: 100.0, contention: 0.05, coherency: 0.0 };
        assert_eq!(flat.peak_clients(), None);
        assert!((flat.knee_clients().unwrap() - 20.0).abs() < 1e-9);
        let linear = ScalingLaw { single: 100.0, contention: 0.0, coherency: 0.0 };
        assert_eq!(linear.ceiling(), None);
    }

    #[test]
    fn a_peak_that_was_not_reached_has_a_warning() {
        let law = ScalingLaw { single: 800.0, contention: 0.01, coherency: 1e-6 };
        let fit = fit_scaling(&measure(law, 1, 0.0), &how(1)).unwrap();
        assert!(
            fit.ceiling
                .unwrap()
                .warnings
                .contains(&EstimateWarning::BeyondData { measured_to: 256.0 })
        );
    }

    #[test]
    fn bad_points_are_errors() {
        let load = |clients, throughput| Load { clients, throughput };
        let few = [load(1.0, 10.0), load(2.0, 19.0), load(2.0, 20.0), load(4.0, 30.0)];
        assert_eq!(fit_scaling(&few, &how(0)).unwrap_err(), ScalingError::TooFewLoads(3));
        let bad = [load(0.0, 10.0)];
        assert!(matches!(fit_scaling(&bad, &how(0)).unwrap_err(), ScalingError::BadLoad { .. }));
    }
}
