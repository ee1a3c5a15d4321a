//! How large a difference between two identical arms looks.

use serde::{Deserialize, Serialize};

use crate::{Confidence, EffectError, PairedEffect, paired_effect};

/// The noise floor of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoiseFloor {
    /// Relative change below which no effect is claimed; `None` when one block
    /// is all there is, which has no spread.
    pub relative: Option<f64>,
    /// The apparent effect of the baseline against itself.
    pub against_itself: PairedEffect,
}

/// The noise floor from an A/A arm: the farther end, in size, of the interval of
/// the baseline against itself, which is the largest effect that the experiment
/// could mistake noise for.
///
/// # Errors
/// As for [`paired_effect`].
pub fn noise_floor(
    baseline: &[f64],
    again: &[f64],
    confidence: Confidence,
) -> Result<NoiseFloor, EffectError> {
    let against_itself = paired_effect(baseline, again, confidence, 0)?;
    let relative = against_itself.change.interval.map(|i| i.low.abs().max(i.high.abs()));
    Ok(NoiseFloor { relative, against_itself })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    #[test]
    fn the_floor_lies_above_most_apparent_effects() {
        let below = (0..500_u64)
            .filter(|seed| {
                let mut synthetic = Synthetic::new(*seed);
                let [a, b, c] = [0; 3].map(|_| synthetic.noise(6, 1_000.0, 20.0));
                let floor = noise_floor(&a, &b, Confidence::P95).unwrap().relative.unwrap();
                let null = paired_effect(&a, &c, Confidence::P95, 0).unwrap();
                null.change.center.abs() <= floor
            })
            .count();
        assert!(below >= 480, "{below} of 500");
    }

    #[test]
    fn one_block_has_no_floor() {
        let floor = noise_floor(&[100.0], &[103.0], Confidence::P95).unwrap();
        assert_eq!(floor.relative, None);
        assert!((floor.against_itself.change.center - 0.03).abs() < 1e-12);
    }
}
