//! Looking before the end without being fooled.
//!
//! Whoever looks at an experiment after every block and stops as soon as the interval
//! leaves out zero is wrong far more often than the level says, since each look is
//! another chance for noise. Here looks are fixed before the first run, and the level
//! is shared equally between them (Bonferroni): with three looks at 95 % each one is
//! taken at 98.3 %. That is stricter than the boundaries of Pocock or of O'Brien and
//! Fleming, which know how looks are correlated under a normal law, and needs no such
//! law.

use serde::Serialize;
use walwright_stats::{Confidence, Verdict};

use super::{Judged, JudgedArm, Prospect, blocks_to_prove, outlook};

/// Parts of the planned blocks after which there may be a look.
const PARTS: [f64; 3] = [0.5, 0.75, 1.0];

/// When an experiment may be looked at, and how sure each look must be.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Looks {
    /// Blocks after which there is a look, the last of them all.
    pub after: Vec<usize>,
    /// How sure each look is.
    pub confidence: Confidence,
}

/// What a look shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Look {
    /// Every arm is proven, or certainly too small to matter.
    Clear,
    /// What is not clear yet will not become clear with the blocks that are planned.
    Hopeless,
    /// More blocks are worth their time.
    Open,
}

impl Looks {
    /// One look, at the end.
    pub fn at_end(planned: usize, confidence: Confidence) -> Looks {
        Looks { after: vec![planned], confidence }
    }

    /// Looks on the way, at those parts of the planned blocks at which `arms` arms can
    /// be proven at all.
    pub fn spending(planned: usize, arms: usize, confidence: Confidence) -> Looks {
        // Fewer looks leave each a larger share, which may make an earlier one useful.
        for count in (2..=PARTS.len()).rev() {
            let share = Confidence::new(1.0 - confidence.alpha() / count as f64);
            let Some(share) = share else { continue };
            let least = blocks_to_prove(arms, share);
            let mut after: Vec<usize> = PARTS[PARTS.len() - count..]
                .iter()
                .map(|part| (part * planned as f64).ceil() as usize)
                .collect();
            after.dedup();
            if after.len() == count && after[0] >= least {
                return Looks { after, confidence: share };
            }
        }
        Looks::at_end(planned, confidence)
    }

    /// Fewest planned blocks with which there is a look on the way.
    pub fn least_blocks(arms: usize, confidence: Confidence) -> usize {
        let has_more =
            |planned: &usize| Looks::spending(*planned, arms, confidence).after.len() > 1;
        (1..).find(has_more).unwrap_or(usize::MAX)
    }

    /// What to make of the figures after a block, `None` where it is not one of the
    /// looks. `judged` must have been judged at [`Looks::confidence`] and hold only arms that
    /// go on; changes up to `negligible` do not matter.
    pub fn look(&self, blocks: usize, judged: &Judged, negligible: f64) -> Option<Look> {
        if !self.after.contains(&blocks) {
            return None;
        }
        let planned = self.after.last().copied().unwrap_or(blocks);
        let open: Vec<&JudgedArm> =
            judged.arms.iter().filter(|arm| !is_clear(arm, negligible)).collect();
        if open.is_empty() {
            return Some(Look::Clear);
        }
        let hopeless = open.iter().all(|arm| is_hopeless(arm, judged, planned, negligible));
        Some(if hopeless { Look::Hopeless } else { Look::Open })
    }
}

/// Proven, or certainly too small to matter.
fn is_clear(arm: &JudgedArm, negligible: f64) -> bool {
    let Some(effect) = &arm.effect else { return false };
    let inside = |i: walwright_stats::Interval| i.low >= -negligible && i.high <= negligible;
    arm.verdict == Some(Verdict::Proven) || effect.change.interval.is_some_and(inside)
}

fn is_hopeless(arm: &JudgedArm, judged: &Judged, planned: usize, negligible: f64) -> bool {
    // What has no ratio in a block that is done has none whatever comes, and what no run has told
    // so far the others will not tell.
    if arm.effect.is_none() {
        return true;
    }
    let Some(outlook) = outlook(arm, judged, planned) else { return false };
    match outlook.prospect(negligible) {
        Prospect::WillShow | Prospect::WillBeNegligible => false,
        Prospect::WillBeScreened | Prospect::WillBeNoise | Prospect::WillStayOpen => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::judge::tests::throughput;
    use crate::experiment::{Arm, judge};

    #[test]
    fn looks_share_the_level_and_come_no_earlier_than_they_can_prove() {
        let looks = |planned, arms| Looks::spending(planned, arms, Confidence::P95);
        let of = looks(20, 3);
        assert_eq!(of.after, [10, 15, 20]);
        assert!((of.confidence.alpha() - 0.05 / 3.0).abs() < 1e-12);
        // 12 blocks: half of them could prove nothing at a third of the level.
        assert_eq!(looks(12, 1).after, [9, 12]);
        assert_eq!(looks(6, 1), Looks::at_end(6, Confidence::P95));
        assert_eq!(looks(8, 8).after, [8]);
        let least = Looks::least_blocks(1, Confidence::P95);
        assert_eq!((looks(least - 1, 1).after.len(), looks(least, 1).after.len()), (1, 2));
    }

    fn look(arm: impl Fn(usize) -> f64) -> Option<Look> {
        let wobble = |block: usize, phase: usize| {
            1.0 + 0.01 * [0.4, -0.7, 1.0, -0.2, 0.6, -1.0, 0.1][(block + phase) % 7]
        };
        let looks = Looks::spending(20, 1, Confidence::P95);
        let values = |f: &dyn Fn(usize) -> f64| (0..10).map(|b| Some(1e3 * f(b))).collect();
        let base: Vec<Option<f64>> = values(&|b| wobble(b, 0));
        let again: Vec<Option<f64>> = values(&|b| wobble(b, 1));
        let arm = Arm { name: "a".to_owned(), values: values(&|b| arm(b) * wobble(b, 3)) };
        let judged = judge(throughput(), &base, &again, &[arm], looks.confidence, 1);
        assert_eq!(looks.look(9, &judged, 0.03), None);
        looks.look(10, &judged, 0.03)
    }

    #[test]
    fn a_look_tells_clear_from_hopeless() {
        assert_eq!(look(|_| 1.3), Some(Look::Clear));
        assert_eq!(look(|_| 1.0), Some(Look::Clear), "certainly no change that matters");
        let scatter = [1.3, 0.75, 1.2, 0.8, 1.1, 0.9];
        assert_eq!(look(|b| scatter[b % 6]), Some(Look::Hopeless));
        assert_eq!(look(|b| 0.98 + 0.07 * (b % 3) as f64), Some(Look::Open));
        assert_eq!(look(|b| f64::from(b != 3)), Some(Look::Hopeless), "no ratio is not clear");
    }
}
