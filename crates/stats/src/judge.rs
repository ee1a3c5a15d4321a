//! What may be said about an effect.

use serde::{Deserialize, Serialize};

use crate::{NoiseFloor, PairedEffect};

/// What may be said about an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The corrected test rejects "no effect", the interval leaves out zero and
    /// the effect is above the noise floor.
    Proven,
    /// As far as so few blocks can show it there is an effect; they cannot prove one.
    Screened,
    /// The effect is not above the noise floor.
    WithinNoise,
    /// The data leave it open.
    Open,
}

/// Judges an effect by its corrected p-value (see [`crate::holm`]), its interval
/// and the noise floor of the experiment. Without a known floor nothing is
/// claimed beyond [`Verdict::Open`].
pub fn judge(effect: &PairedEffect, corrected_p: f64, floor: &NoiseFloor) -> Verdict {
    let alpha = effect.change.confidence.alpha();
    match floor.relative {
        None => Verdict::Open,
        Some(floor) if effect.change.center.abs() <= floor => Verdict::WithinNoise,
        Some(_) if !effect.change.excludes(0.0) => Verdict::Open,
        Some(_) if corrected_p <= alpha => Verdict::Proven,
        Some(_) if effect.test.smallest_p > alpha => Verdict::Screened,
        Some(_) => Verdict::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;
    use crate::{Confidence, holm, noise_floor, paired_effect};

    fn verdict(seed: u64, blocks: usize, effect: f64) -> Verdict {
        let mut synthetic = Synthetic::new(seed);
        let baseline = synthetic.noise(blocks, 1_000.0, 10.0);
        let again = synthetic.noise(blocks, 1_000.0, 10.0);
        let arm = synthetic.noise(blocks, 1_000.0 * (1.0 + effect), 10.0);
        let floor = noise_floor(&baseline, &again, Confidence::P95).unwrap();
        let effect = paired_effect(&baseline, &arm, Confidence::P95, 0).unwrap();
        judge(&effect, holm(&[effect.test.p_value])[0], &floor)
    }

    #[test]
    fn null_experiments_rarely_claim() {
        let claims = (0..1_000)
            .filter(|seed| matches!(verdict(*seed, 6, 0.0), Verdict::Proven | Verdict::Screened))
            .count();
        assert!(claims <= 50, "{claims} of 1000 null experiments");
    }

    #[test]
    fn a_large_effect_is_proven_by_six_blocks_and_screened_by_three() {
        let count =
            |blocks, wanted| (0..100).filter(|seed| verdict(*seed, blocks, 0.2) == wanted).count();
        assert!(count(6, Verdict::Proven) >= 95);
        assert!(count(3, Verdict::Screened) >= 80);
        assert_eq!(count(3, Verdict::Proven), 0);
    }

    #[test]
    fn one_block_decides_nothing() {
        assert_eq!(verdict(1, 1, 0.5), Verdict::Open);
    }
}
