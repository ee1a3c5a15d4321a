//! The effect of an arm against the baseline of the same blocks.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    Confidence, Estimate, EstimateWarning, Method, Moments, SignFlip, sign_flip_test, t_quantile,
};

/// An effect measured in blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairedEffect {
    /// Relative change of arm against baseline: 0.05 is 5 % more.
    pub change: Estimate,
    /// ln(arm / baseline) of every block.
    pub log_ratios: Vec<f64>,
    /// Test that there is no effect.
    pub test: SignFlip,
}

/// Figures that cannot be paired.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum EffectError {
    /// Arm and baseline have different numbers of blocks.
    #[error(
        "the baseline has {baseline} blocks and the arm {arm}; an effect needs both of every block"
    )]
    Unpaired {
        /// Blocks of the baseline.
        baseline: usize,
        /// Blocks of the arm.
        arm: usize,
    },
    /// No block at all.
    #[error("no block is complete, so there is no effect to state")]
    NoBlocks,
    /// A figure that has no logarithm.
    #[error("block {block} holds {value}, but a ratio needs figures above zero")]
    NotPositive {
        /// Index of the block, from 0.
        block: usize,
        /// The figure.
        value: f64,
    },
}

/// The mean log-ratio of the blocks as a relative change, with a t-interval and
/// an exact sign-flip test (drawn patterns beyond 20 blocks, from `seed`).
///
/// `baseline[i]` and `arm[i]` come from block `i`. With so few blocks that the
/// test cannot reach `confidence`, the change is marked [`EstimateWarning::ScreeningOnly`].
///
/// # Errors
/// When blocks are missing or a figure is not above zero.
pub fn paired_effect(
    baseline: &[f64],
    arm: &[f64],
    confidence: Confidence,
    seed: u64,
) -> Result<PairedEffect, EffectError> {
    if baseline.len() != arm.len() {
        return Err(EffectError::Unpaired { baseline: baseline.len(), arm: arm.len() });
    }
    let positive = |block: usize, value: f64| {
        if value > 0.0 && value.is_finite() {
            Ok(value)
        } else {
            Err(EffectError::NotPositive { block, value })
        }
    };
    let log_ratios = baseline
        .iter()
        .zip(arm)
        .enumerate()
        .map(|(block, (b, a))| Ok((positive(block, *a)? / positive(block, *b)?).ln()))
        .collect::<Result<Vec<f64>, EffectError>>()?;
    let moments: Moments = log_ratios.iter().copied().collect();
    let (Some(mean), Some(test)) = (moments.mean(), sign_flip_test(&log_ratios, seed)) else {
        return Err(EffectError::NoBlocks);
    };
    let blocks = log_ratios.len();
    let method = Method::PairedLogRatio;
    let interval = moments.standard_deviation().zip(t_quantile(confidence, blocks as f64 - 1.0));
    let mut change = match interval {
        Some((deviation, t)) => {
            Estimate::symmetric(mean, t * deviation / (blocks as f64).sqrt(), confidence, method)
        }
        None => {
            let warning = EstimateWarning::TooFewSamples { have: blocks, need: 2 };
            Estimate::without_interval(mean, confidence, method, warning)
        }
    }
    .map(f64::exp_m1);
    if test.smallest_p > confidence.alpha() {
        change = change
            .with_warning(EstimateWarning::ScreeningOnly { blocks, smallest_p: test.smallest_p });
    }
    Ok(PairedEffect { change, log_ratios, test })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    #[test]
    fn the_interval_covers_the_true_effect() {
        let covered = (0..1_000_u64)
            .filter(|seed| {
                let mut synthetic = Synthetic::new(*seed);
                // Blocks differ by far more than the effect; pairing removes that.
                let blocks = synthetic.noise(6, 0.0, 0.3);
                let mut measured = |effect: f64| -> Vec<f64> {
                    blocks
                        .iter()
                        .map(|b| 5e3 * (b + effect + 0.02 * synthetic.normal()).exp())
                        .collect()
                };
                let (baseline, arm) = (measured(0.0), measured(1.1_f64.ln()));
                let effect = paired_effect(&baseline, &arm, Confidence::P95, 0).unwrap();
                effect.change.interval.unwrap().contains(0.1)
            })
            .count();
        assert!((930..=968).contains(&covered), "{covered} of 1000");
    }

    #[test]
    fn three_blocks_screen_and_six_prove() {
        let effect = |blocks: usize| {
            let baseline: Vec<f64> = (0..blocks).map(|i| 1_000.0 + i as f64).collect();
            let arm: Vec<f64> =
                baseline.iter().enumerate().map(|(i, b)| b * (1.05 + 1e-3 * i as f64)).collect();
            paired_effect(&baseline, &arm, Confidence::P95, 0).unwrap()
        };
        assert_eq!(
            effect(3).change.warnings,
            [EstimateWarning::ScreeningOnly { blocks: 3, smallest_p: 0.25 }]
        );
        assert_eq!(effect(5).change.warnings.len(), 1);
        assert!(effect(6).change.warnings.is_empty());
        assert_eq!(effect(6).test.p_value, 0.03125);
    }

    #[test]
    fn doubling_and_halving_are_mirror_images() {
        let up = paired_effect(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0], Confidence::P95, 0).unwrap();
        let down = paired_effect(&[2.0, 4.0, 6.0], &[1.0, 2.0, 3.0], Confidence::P95, 0).unwrap();
        assert!((up.change.center - 1.0).abs() < 1e-12);
        assert!((down.change.center + 0.5).abs() < 1e-12);
    }

    #[test]
    fn what_cannot_be_paired_is_an_error() {
        let effect = |b: &[f64], a: &[f64]| paired_effect(b, a, Confidence::P95, 0).unwrap_err();
        assert_eq!(effect(&[], &[]), EffectError::NoBlocks);
        assert_eq!(effect(&[1.0], &[]), EffectError::Unpaired { baseline: 1, arm: 0 });
        assert_eq!(effect(&[1.0], &[0.0]), EffectError::NotPositive { block: 0, value: 0.0 });
        assert!(matches!(effect(&[f64::NAN], &[1.0]), EffectError::NotPositive { .. }));
    }
}
