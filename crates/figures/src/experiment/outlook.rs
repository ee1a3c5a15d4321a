//! What precision the remaining blocks will buy.

use serde::Serialize;
use walwright_stats::{Confidence, Interval, Moments, PairedEffect, Verdict, t_quantile};

use super::judge::interval;
use super::{Judged, JudgedArm, blocks_to_prove};

/// How an effect stands, and how it will stand when all planned blocks are done, if the
/// blocks to come scatter as those so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Outlook {
    /// Blocks so far.
    pub blocks: usize,
    /// Blocks planned.
    pub planned: usize,
    /// The change so far.
    pub change: f64,
    /// Its interval now.
    pub now: Interval,
    /// Its interval then, around where it stands now.
    pub then: Interval,
    /// The same at a level that is divided by the number of arms that are not proven yet,
    /// as the correction of the test asks.
    pub corrected: Interval,
    /// The noise floor then.
    pub floor: f64,
    /// Whether the planned blocks can prove it: with fewer no p-value is small enough.
    pub can_prove: bool,
}

/// What more blocks can still decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Prospect {
    /// It will be proven if the effect stays where it is.
    WillShow,
    /// The same, but for so few blocks, which prove nothing.
    WillBeScreened,
    /// The interval will lie inside the changes that do not matter.
    WillBeNegligible,
    /// It will not be above the noise floor, though the interval will leave out zero.
    WillBeNoise,
    /// It will still hold zero and changes that would matter.
    WillStayOpen,
}

impl Outlook {
    /// What the planned blocks will decide; changes up to `negligible` (0.02 is 2 %)
    /// do not matter.
    pub fn prospect(&self, negligible: f64) -> Prospect {
        let above_noise = self.change.abs() > self.floor;
        let seen = above_noise && !self.corrected.contains(0.0);
        if seen && self.can_prove {
            Prospect::WillShow
        } else if self.then.low >= -negligible && self.then.high <= negligible {
            Prospect::WillBeNegligible
        } else if seen {
            Prospect::WillBeScreened
        } else if !above_noise && !self.then.contains(0.0) {
            Prospect::WillBeNoise
        } else {
            Prospect::WillStayOpen
        }
    }
}

/// The outlook of one of the arms of `of` for `planned` blocks; `None` before the second block,
/// and where there is no noise floor.
pub fn outlook(arm: &JudgedArm, of: &Judged, planned: usize) -> Option<Outlook> {
    let effect = arm.effect.as_ref()?;
    let moments: Moments = effect.log_ratios.iter().copied().collect();
    let blocks = effect.log_ratios.len();
    let planned = planned.max(blocks);
    // Holm's correction counts no arm that is proven already.
    let is_open = |arm: &&JudgedArm| arm.effect.is_some() && arm.verdict != Some(Verdict::Proven);
    let open = of.arms.iter().filter(is_open).count().max(1);
    let divided = Confidence::new(1.0 - of.confidence.alpha() / open as f64)?;
    let noise = interval(&of.floor.as_ref()?.against_itself, planned, of.confidence)?;
    Some(Outlook {
        blocks,
        planned,
        change: moments.mean()?.exp_m1(),
        now: interval(effect, blocks, of.confidence)?,
        then: interval(effect, planned, of.confidence)?,
        corrected: interval(effect, planned, divided)?,
        floor: noise.low.abs().max(noise.high.abs()),
        can_prove: planned >= blocks_to_prove(open, of.confidence),
    })
}

/// Blocks in all after which an effect will be clear, if those to come scatter as those so
/// far: shown, or inside the changes that do not matter. `None` where the scatter does not tell,
/// or so many say nothing any more.
pub fn blocks_to_settle(
    effect: &PairedEffect,
    confidence: Confidence,
    negligible: f64,
) -> Option<usize> {
    /// With more, one experiment takes months.
    const MOST: usize = 100_000;
    let moments: Moments = effect.log_ratios.iter().copied().collect();
    let (mean, deviation) = (moments.mean()?, moments.standard_deviation()?);
    let half = |blocks: usize| {
        let t = t_quantile(confidence, blocks as f64 - 1.0)?;
        Some(t * deviation / (blocks as f64).sqrt())
    };
    let wanted = mean.abs().max(negligible.ln_1p() - mean.abs());
    let is_clear = |blocks: usize| half(blocks).is_some_and(|half| half <= wanted);
    let (mut low, mut high) = (blocks_to_prove(1, confidence).max(2), MOST);
    if !is_clear(high) {
        return None;
    }
    // The half-width falls with every block.
    while low < high {
        let middle = usize::midpoint(low, high);
        if is_clear(middle) { high = middle } else { low = middle + 1 }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::judge::tests::throughput;
    use crate::experiment::{Arm, judge};

    /// Arms of these ratios to a baseline that against itself has those of `again`.
    fn judged(arms: &[&[f64]], again: &[f64]) -> Judged {
        let values = |ratios: &[f64]| -> Vec<Option<f64>> {
            ratios.iter().map(|ratio| Some(1_000.0 * ratio)).collect()
        };
        let named = |ratios: &&[f64]| Arm { name: "arm".to_owned(), values: values(ratios) };
        let arms: Vec<Arm> = arms.iter().map(named).collect();
        let base = values(&vec![1.0; again.len()]);
        judge(throughput(), &base, &values(again), &arms, Confidence::P95, 1)
    }

    const QUIET: [f64; 4] = [1.001, 0.999, 1.0, 1.001];

    fn of_first(judged: &Judged, planned: usize) -> Option<Outlook> {
        outlook(&judged.arms[0], judged, planned)
    }

    #[test]
    fn the_interval_narrows_with_the_root_of_the_blocks_and_the_t_quantile() {
        let judged = judged(&[&[1.01, 1.05, 1.03]], &QUIET[..3]);
        let outlook = of_first(&judged, 12).unwrap();
        let change = judged.arms[0].effect.as_ref().unwrap().change.interval.unwrap();
        assert!((outlook.now.low - change.low).abs() < 1e-12);
        let log_width = |i: Interval| (1.0 + i.high).ln() - (1.0 + i.low).ln();
        let expected = (4.302_65 / 3_f64.sqrt()) / (2.200_99 / 12_f64.sqrt());
        assert!((log_width(outlook.now) / log_width(outlook.then) - expected).abs() < 1e-3);
        assert_eq!(outlook.corrected, outlook.then, "one arm is not corrected for");
    }

    #[test]
    fn so_many_blocks_settle_it_and_one_less_does_not() {
        let judged = judged(&[&[1.06, 0.99, 1.02, 1.05]], &QUIET);
        let effect = judged.arms[0].effect.as_ref().unwrap();
        let blocks = blocks_to_settle(effect, Confidence::P95, 0.0).unwrap();
        let after = |blocks| interval(effect, blocks, Confidence::P95).unwrap();
        assert!(!after(blocks).contains(0.0) && after(blocks - 1).contains(0.0), "{blocks}");
        // What matters less need not be shown.
        assert!(blocks_to_settle(effect, Confidence::P95, 0.2).unwrap() < blocks);
    }

    #[test]
    fn what_will_not_become_clear_is_said() {
        let prospect = |ratios: &[f64], planned| {
            of_first(&judged(&[ratios], &QUIET[..ratios.len()]), planned).unwrap().prospect(0.02)
        };
        assert_eq!(prospect(&[1.10, 1.12, 1.08], 12), Prospect::WillShow);
        assert_eq!(prospect(&[1.001, 0.999, 1.002], 12), Prospect::WillBeNegligible);
        assert_eq!(prospect(&[1.2, 0.8, 1.1, 0.9], 8), Prospect::WillStayOpen);
        assert_eq!(of_first(&judged(&[&[1.1]], &QUIET[..1]), 8), None);
    }

    #[test]
    fn only_what_the_verdict_will_claim_is_promised() {
        let clear: &[f64] = &[1.10, 1.12, 1.08, 1.10];
        let prospect = |arms: &[&[f64]], again: &[f64], planned| {
            of_first(&judged(arms, again), planned).unwrap().prospect(0.02)
        };
        assert_eq!(prospect(&[clear], &QUIET, 6), Prospect::WillShow);
        // One arm takes 6 blocks, two take 7.
        assert_eq!(prospect(&[clear], &QUIET, 5), Prospect::WillBeScreened);
        assert_eq!(prospect(&[clear, clear], &QUIET, 6), Prospect::WillBeScreened);
        assert_eq!(prospect(&[clear, clear], &QUIET, 7), Prospect::WillShow);
        let loud = [1.2, 0.8, 1.3, 0.9];
        assert_eq!(prospect(&[clear], &loud, 6), Prospect::WillBeNoise);
        // Eight such are too many for what shows alone.
        let faint: &[f64] = &[1.04, 1.00, 1.05, 1.01];
        assert_eq!(prospect(&[faint], &QUIET, 9), Prospect::WillShow);
        assert_eq!(prospect(&[faint; 8], &QUIET, 9), Prospect::WillStayOpen);
    }
}
