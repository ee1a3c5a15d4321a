//! Effects of arms, and what may be said of them.

use serde::Serialize;
use walwright_stats::{
    Confidence, Interval, Moments, NoiseFloor, PairedEffect, Verdict, holm, noise_floor,
    paired_effect, smallest_sign_flip_p, t_quantile,
};

use crate::compare::{Better, FigureUnit};

/// What is measured of each run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricKind {
    /// A short stable name: the key of a figure, or `cost`.
    pub key: String,
    /// What a person calls it.
    pub name: String,
    /// Its unit.
    pub unit: FigureUnit,
    /// Which way is better.
    pub better: Better,
    /// The expression it is computed by, where it is no plain figure.
    pub expression: Option<String>,
}

/// A figure of one arm in every block, in their order; `None` where the run of a block
/// is not there or does not know it.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    /// What a person calls it.
    pub name: String,
    /// Its value in each block.
    pub values: Vec<Option<f64>>,
}

/// One metric, judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judged {
    /// What was measured.
    pub metric: MetricKind,
    /// How often the intervals cover the truth.
    pub confidence: Confidence,
    /// Geometric mean of the baseline, in the metric's unit.
    pub baseline: Option<f64>,
    /// The baseline against itself; `None` before a block is complete, and where it has no
    /// ratio.
    pub floor: Option<NoiseFloor>,
    /// Why the baseline against itself has no ratio, where blocks are there.
    pub floor_has_no_ratio: Option<NoRatio>,
    /// Every arm, in the order of the plan.
    pub arms: Vec<JudgedArm>,
    /// Fewest blocks in which so many arms can be proven at all.
    pub blocks_to_prove: usize,
}

/// A value that no ratio can be made of: zero or less. With one such block there is no mean
/// log-ratio, and leaving the block out would judge the others alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct NoRatio {
    /// Its block, from 1.
    pub block: usize,
    /// The value, in the metric's unit.
    pub value: f64,
    /// Whether it is the arm's; else it is the baseline's.
    pub of_arm: bool,
}

/// One arm, judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedArm {
    /// What a person calls it.
    pub name: String,
    /// Geometric mean over the blocks it shares with the baseline.
    pub value: Option<f64>,
    /// Its effect; `None` without a block in which both it and the baseline have a value,
    /// and where it has no ratio.
    pub effect: Option<PairedEffect>,
    /// Why it has no ratio to the baseline, where blocks are there.
    pub has_no_ratio: Option<NoRatio>,
    /// The p-value of the sign-flip test, corrected for the number of arms (Holm).
    pub corrected_p: Option<f64>,
    /// What may be said; `None` without an effect.
    pub verdict: Option<Verdict>,
    /// Whether the change is to the better, where its interval leaves out zero.
    pub better: Option<bool>,
}

/// Judges arms against the baseline of the same blocks. `again` is the baseline's
/// second run in each block, the A/A arm. `seed` is for sign-flip tests of more than
/// 20 blocks.
///
/// The family that Holm's correction is over is all `arms`.
pub fn judge(
    metric: MetricKind,
    baseline: &[Option<f64>],
    again: &[Option<f64>],
    arms: &[Arm],
    confidence: Confidence,
    seed: u64,
) -> Judged {
    let (a, b) = pairs(baseline, again);
    let floor = noise_floor(&a, &b, confidence).ok();
    let blocks_to_prove = blocks_to_prove(arms.len(), confidence);
    let effects: Vec<(Option<f64>, Option<PairedEffect>)> = arms
        .iter()
        .map(|arm| {
            let (base, values) = pairs(baseline, &arm.values);
            (geometric_mean(&values), paired_effect(&base, &values, confidence, seed).ok())
        })
        .collect();
    let tested: Vec<f64> =
        effects.iter().filter_map(|(_, effect)| Some(effect.as_ref()?.test.p_value)).collect();
    let mut corrected = holm(&tested).into_iter();
    let arms = arms
        .iter()
        .zip(effects)
        .map(|(arm, (value, effect))| {
            let corrected_p = effect.as_ref().and_then(|_| corrected.next());
            let verdict = effect
                .as_ref()
                .zip(corrected_p)
                .map(|(effect, p)| verdict(effect, p, floor.as_ref(), tested.len()));
            let better =
                effect.as_ref().filter(|effect| effect.change.excludes(0.0)).map(|effect| {
                    match metric.better {
                        Better::Higher => effect.change.center > 0.0,
                        Better::Lower => effect.change.center < 0.0,
                    }
                });
            let has_no_ratio = no_ratio(baseline, &arm.values);
            let name = arm.name.clone();
            JudgedArm { name, value, effect, has_no_ratio, corrected_p, verdict, better }
        })
        .collect();
    let floor_has_no_ratio = no_ratio(baseline, again);
    let baseline = geometric_mean(&baseline.iter().copied().flatten().collect::<Vec<_>>());
    Judged { metric, confidence, baseline, floor, floor_has_no_ratio, arms, blocks_to_prove }
}

/// The verdict of `stats`, with two additions for several arms. Holm's correction makes
/// even the smallest p-value of so many blocks too large, and a clear effect is then screened, not
/// open. And as there is no test to correct where effects are only screened, their intervals must
/// leave out zero at a level that is divided by the number of arms.
fn verdict(
    effect: &PairedEffect,
    corrected_p: f64,
    floor: Option<&NoiseFloor>,
    family: usize,
) -> Verdict {
    let Some(floor) = floor else { return Verdict::Open };
    let alpha = effect.change.confidence.alpha();
    let cannot_prove = effect.test.smallest_p * family as f64 > alpha;
    match walwright_stats::judge(effect, corrected_p, floor) {
        Verdict::Open | Verdict::Screened
            if cannot_prove && floor.relative.is_some() && is_screened(effect, family) =>
        {
            Verdict::Screened
        }
        Verdict::Screened => Verdict::Open,
        verdict => verdict,
    }
}

/// Whether the interval leaves out zero at the level of one arm among `family`.
fn is_screened(effect: &PairedEffect, family: usize) -> bool {
    let alpha = effect.change.confidence.alpha() / family.max(1) as f64;
    let shared = Confidence::new(1.0 - alpha);
    let strict = shared.and_then(|level| interval(effect, effect.log_ratios.len(), level));
    strict.is_some_and(|interval| !interval.contains(0.0))
}

/// Fewest blocks in which the sign-flip test of each of `arms` can be below the level
/// after Holm's correction: 6 for one arm at 95 %, 8 for four, 9 for eight.
pub fn blocks_to_prove(arms: usize, confidence: Confidence) -> usize {
    let reaches =
        |blocks: &usize| smallest_sign_flip_p(*blocks) * arms.max(1) as f64 <= confidence.alpha();
    // 2^-62 is below any level there is.
    (1..64).find(reaches).unwrap_or(64)
}

/// The first value of a block in which both are known that no ratio can be made of.
fn no_ratio(base: &[Option<f64>], other: &[Option<f64>]) -> Option<NoRatio> {
    let known = base.iter().zip(other).enumerate();
    known.filter_map(|(block, (base, other))| Some((block + 1, (*base)?, (*other)?))).find_map(
        |(block, base, other)| {
            let sides = [(base, false), (other, true)];
            let lacking = sides.into_iter().find(|(value, _)| !has_ratio(*value));
            lacking.map(|(value, of_arm)| NoRatio { block, value, of_arm })
        },
    )
}

fn has_ratio(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

/// The values of the blocks in which both are known.
pub(super) fn pairs(base: &[Option<f64>], other: &[Option<f64>]) -> (Vec<f64>, Vec<f64>) {
    base.iter().zip(other).filter_map(|(base, other)| Some(((*base)?, (*other)?))).unzip()
}

pub(super) fn geometric_mean(values: &[f64]) -> Option<f64> {
    let positive = !values.is_empty() && values.iter().all(|value| *value > 0.0);
    positive
        .then(|| (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// The interval of an effect over so many blocks that scatter as its own; `None` before the
/// second.
///
/// The half-width of a t-interval over n blocks is t(n − 1) · s / √n, s being the
/// standard deviation of the blocks' log-ratios.
pub(super) fn interval(
    effect: &PairedEffect,
    blocks: usize,
    confidence: Confidence,
) -> Option<Interval> {
    let moments: Moments = effect.log_ratios.iter().copied().collect();
    let (mean, deviation) = (moments.mean()?, moments.standard_deviation()?);
    let half = t_quantile(confidence, blocks as f64 - 1.0)? * deviation / (blocks as f64).sqrt();
    Some(Interval::between((mean - half).exp_m1(), (mean + half).exp_m1()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn throughput() -> MetricKind {
        MetricKind {
            key: "throughput".to_owned(),
            name: "throughput".to_owned(),
            unit: FigureUnit::PerSecond,
            better: Better::Higher,
            expression: None,
        }
    }

    fn known(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    /// A baseline that wobbles by 1 %, and `factor` of it with a little wobble of its own.
    fn wobbling(blocks: usize, factor: f64, phase: usize) -> Vec<Option<f64>> {
        let wobble = [0.4, -0.7, 1.0, -0.2, 0.6, -1.0, 0.1];
        let value = |block: usize| 1_000.0 * factor * (1.0 + 0.01 * wobble[(block + phase) % 7]);
        (0..blocks).map(|block| Some(value(block))).collect()
    }

    fn arms(blocks: usize, factors: &[f64]) -> Judged {
        let arms: Vec<Arm> = factors
            .iter()
            .enumerate()
            .map(|(place, factor)| Arm {
                name: format!("arm {place}"),
                values: wobbling(blocks, *factor, place + 3),
            })
            .collect();
        let (baseline, again) = (wobbling(blocks, 1.0, 0), wobbling(blocks, 1.0, 1));
        judge(throughput(), &baseline, &again, &arms, Confidence::P95, 1)
    }

    #[test]
    fn a_clear_effect_is_proven_and_none_is_noise() {
        let judged = arms(8, &[1.2, 1.001, 0.8]);
        let verdicts: Vec<_> = judged.arms.iter().map(|arm| arm.verdict.unwrap()).collect();
        assert_eq!(verdicts, [Verdict::Proven, Verdict::WithinNoise, Verdict::Proven]);
        assert_eq!([judged.arms[0].better, judged.arms[2].better], [Some(true), Some(false)]);
        assert!((judged.arms[0].value.unwrap() / judged.baseline.unwrap() - 1.2).abs() < 0.02);
    }

    #[test]
    fn six_blocks_prove_one_arm_but_only_screen_four() {
        assert_eq!(arms(6, &[1.2]).arms[0].verdict, Some(Verdict::Proven));
        let four = arms(6, &[1.2; 4]);
        assert_eq!(four.arms[3].verdict, Some(Verdict::Screened));
        assert_eq!(four.blocks_to_prove, 8);
        assert_eq!(arms(3, &[1.2]).arms[0].verdict, Some(Verdict::Screened));
    }

    #[test]
    fn the_blocks_that_prove_grow_with_the_arms() {
        let blocks = |arms| blocks_to_prove(arms, Confidence::P95);
        assert_eq!([1, 2, 3, 4, 8, 25].map(blocks), [6, 7, 7, 8, 9, 10]);
    }

    #[test]
    fn blocks_that_lack_a_run_are_left_out_for_that_arm_alone() {
        let mut arm = wobbling(8, 1.2, 3);
        arm[2] = None;
        let other = Arm { name: "other".to_owned(), values: wobbling(8, 1.2, 3) };
        let judged = judge(
            throughput(),
            &wobbling(8, 1.0, 0),
            &wobbling(8, 1.0, 1),
            &[Arm { name: "arm".to_owned(), values: arm }, other],
            Confidence::P95,
            1,
        );
        let blocks = |arm: usize| judged.arms[arm].effect.as_ref().unwrap().log_ratios.len();
        assert_eq!((blocks(0), blocks(1)), (7, 8));
    }

    #[test]
    fn what_has_no_ratio_has_no_verdict() {
        let base = known(&[1.0, 2.0]);
        let arm = Arm { name: "zero".to_owned(), values: known(&[0.0, 0.0]) };
        let judged = judge(throughput(), &base, &base, &[arm], Confidence::P95, 1);
        assert_eq!((judged.arms[0].verdict, judged.arms[0].value), (None, None));
        let zero = Some(NoRatio { block: 1, value: 0.0, of_arm: true });
        assert_eq!(judged.arms[0].has_no_ratio, zero);
        assert_eq!(judged.floor_has_no_ratio, None);
        let nothing = judge(throughput(), &[], &[], &[], Confidence::P95, 1);
        assert_eq!((nothing.floor, nothing.baseline), (None, None));
    }

    #[test]
    fn the_block_without_a_ratio_is_named_as_people_count() {
        let values = |of: [f64; 3]| of.map(Some);
        let missing = [None, Some(1.0), Some(1.0)];
        let no_ratio = |base: [Option<f64>; 3], other: [Option<f64>; 3]| no_ratio(&base, &other);
        let base = values([1.0, 1.0, -1.0]);
        let negative = NoRatio { block: 3, value: -1.0, of_arm: false };
        assert_eq!(no_ratio(base, values([1.0, 1.0, 0.0])), Some(negative));
        // A block in which one of both is missing counts for nothing anyway.
        assert_eq!(no_ratio(missing, values([0.0, 1.0, 1.0])), None);
        let zero = NoRatio { block: 2, value: 0.0, of_arm: true };
        assert_eq!(no_ratio(missing, values([1.0, 0.0, 1.0])), Some(zero));
    }
}
