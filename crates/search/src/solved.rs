//! A process solved for its measurements.

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};

/// The pieces of one evaluation of the likelihood.
pub(crate) struct Solved {
    pub(crate) cholesky: Cholesky<f64, Dyn>,
    pub(crate) weights: DVector<f64>,
    pub(crate) ones: DVector<f64>,
    pub(crate) ones_total: f64,
    pub(crate) constant: f64,
    pub(crate) correlation: DMatrix<f64>,
    pub(crate) slope: DMatrix<f64>,
}
