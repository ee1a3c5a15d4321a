//! Estimators, intervals, tests and change points.
//!
//! Pure functions over numbers: no I/O, no clock, no knowledge of PostgreSQL or
//! of records. A result carries its centre, its interval, the assumption behind
//! the interval and any warning together ([`Estimate`]), so that no caller prints
//! a bare number by accident.
//!
//! Where to look:
//! - one run: [`precision_of_mean`] (autocorrelated intervals), [`steady_state`],
//!   [`drift`], [`cliffs`];
//! - shares and percentiles inside runs: [`shares`], [`tick_means`],
//!   [`block_bootstrap`], [`percentile_interval`];
//! - runs against runs: [`paired_effect`], [`unpaired_effect`], [`sign_flip_test`], [`holm`],
//!   [`noise_floor`], [`judge`];
//! - many runs over time: [`change_points`];
//! - throughput over clients: [`fit_scaling`].
//!
//! Everything random takes a seed; the same input and seed give the same result.

mod block_bootstrap;
mod cliff;
mod descriptive;
mod drift;
mod e_divisive;
mod estimate;
mod holm;
mod judge;
mod long_run;
mod mser;
mod noise_floor;
mod paired;
mod percentile_interval;
mod precision;
mod resampling;
mod scaling;
mod shares;
mod sign_flip;
mod steady;
mod student;
#[cfg(test)]
mod synthetic;
mod unpaired;

pub use block_bootstrap::{block_bootstrap, block_length};
pub use cliff::{Cliff, cliffs};
pub use descriptive::{Moments, coefficient_of_variation, mean, median, quantile, variance};
pub use drift::{drift, line_fits_better};
pub use e_divisive::{ChangePoint, ChangePointSearch, change_points};
pub use estimate::{Confidence, Estimate, EstimateWarning, Interval, Method};
pub use holm::holm;
pub use judge::{Verdict, judge};
pub use mser::{Truncation, mser5};
pub use noise_floor::{NoiseFloor, noise_floor};
pub use paired::{EffectError, PairedEffect, paired_effect};
pub use percentile_interval::{ValueCounts, percentile_interval};
pub use precision::{EffectiveSamples, effective_samples, precision_of_mean};
pub use resampling::{IntervalKind, Resampling};
pub use scaling::{BandPoint, Load, ScalingError, ScalingFit, ScalingLaw, fit_scaling};
pub use shares::{shares, tick_means};
pub use sign_flip::{SignFlip, sign_flip_test, smallest_sign_flip_p};
pub use steady::{SteadyRule, SteadyState, Unsteady, steady_state};
pub use student::t_quantile;
pub use unpaired::{Permutation, UnpairedEffect, unpaired_effect};
