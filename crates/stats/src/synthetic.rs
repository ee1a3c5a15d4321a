//! Series with known properties, for tests.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use crate::resampling::generator;

/// Normal deviates and processes built from them, from one seed.
pub(crate) struct Synthetic(Xoshiro256PlusPlus);

impl Synthetic {
    pub(crate) fn new(seed: u64) -> Self {
        Synthetic(generator(seed))
    }

    /// A fraction in (0, 1].
    pub(crate) fn uniform(&mut self) -> f64 {
        1.0 - self.0.random::<f64>()
    }

    /// A standard normal deviate, by Box and Muller.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Independent normal deviates around `mean`.
    pub(crate) fn noise(&mut self, n: usize, mean: f64, deviation: f64) -> Vec<f64> {
        (0..n).map(|_| mean + deviation * self.normal()).collect()
    }

    /// A stationary first-order autoregressive series with coefficient `phi`.
    pub(crate) fn ar1(&mut self, n: usize, phi: f64, mean: f64, deviation: f64) -> Vec<f64> {
        let innovation = (1.0 - phi * phi).sqrt();
        let mut state = self.normal();
        (0..n)
            .map(|_| {
                let value = mean + deviation * state;
                state = phi * state + innovation * self.normal();
                value
            })
            .collect()
    }
}
