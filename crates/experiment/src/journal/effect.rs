//! From a measured effect to what an entry keeps of it.

use walwright_record::journal::Effect;
use walwright_stats::{NoiseFloor, PairedEffect, Verdict};

/// What an entry keeps of the effect of `arm` on `metric`.
pub fn effect(
    arm: &str,
    metric: &str,
    measured: &PairedEffect,
    corrected_p: f64,
    floor: Option<&NoiseFloor>,
    verdict: Verdict,
) -> Effect {
    Effect {
        arm: arm.to_owned(),
        metric: metric.to_owned(),
        change: measured.change.center,
        interval: measured.change.interval.map(|ends| [ends.low, ends.high]),
        confidence: measured.change.confidence.level(),
        blocks: u32::try_from(measured.log_ratios.len()).ok(),
        corrected_p: Some(corrected_p),
        noise_floor: floor.and_then(|floor| floor.relative),
        verdict: match verdict {
            Verdict::Proven => "proven",
            Verdict::Screened => "screening only",
            Verdict::WithinNoise => "within noise",
            Verdict::Open => "open",
        }
        .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use walwright_stats::{Confidence, noise_floor, paired_effect};

    use super::*;

    #[test]
    fn an_effect_keeps_interval_floor_and_verdict() {
        let base = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0];
        let again = [100.2, 100.7, 99.3, 100.4, 99.9, 99.8];
        let arm = base.map(|value| value * 1.1);
        let measured = paired_effect(&base, &arm, Confidence::P95, 1).unwrap();
        let floor = noise_floor(&base, &again, Confidence::P95).unwrap();
        let kept = effect("wide", "throughput", &measured, 0.03, Some(&floor), Verdict::Proven);
        assert!((kept.change - 0.1).abs() < 1e-9);
        let [low, high] = kept.interval.unwrap();
        assert!(low <= 0.1 + 1e-9 && high >= 0.1 - 1e-9);
        assert_eq!((kept.blocks, kept.verdict.as_str()), (Some(6), "proven"));
        assert_eq!(kept.noise_floor, floor.relative);
    }
}
