//! The hyperparameters of the process.

use serde::{Deserialize, Serialize};

/// Logarithms of the hyperparameters; variances in units of the variance of the scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hyper {
    /// Of the length scale of each feature where all act together.
    pub log_scales: Vec<f64>,
    /// Of the variance of what each feature does alone.
    #[serde(default)]
    pub log_alone: Vec<f64>,
    /// Of the variance of what they do together.
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

    pub(crate) fn flat(&self) -> Vec<f64> {
        let mut flat = self.log_scales.clone();
        flat.extend(&self.log_alone);
        flat.extend([self.log_signal, self.log_noise, self.log_block]);
        flat
    }

    pub(crate) fn from_flat(flat: &[f64]) -> Hyper {
        let features = (flat.len() - 3) / 2;
        Hyper {
            log_scales: flat[..features].to_vec(),
            log_alone: flat[features..2 * features].to_vec(),
            log_signal: flat[2 * features],
            log_noise: flat[2 * features + 1],
            log_block: flat[2 * features + 2],
        }
    }
}
