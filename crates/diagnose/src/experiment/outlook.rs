//! What precision the remaining blocks will buy.

use serde::Serialize;
use walwright_stats::{Confidence, Interval, Moments, PairedEffect, t_quantile};

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
}

/// What more blocks can still decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Prospect {
    /// The interval will leave out zero if the effect stays where it is.
    WillShow,
    /// The interval will lie inside the changes that do not matter.
    WillBeNegligible,
    /// It will still hold zero and changes that would matter.
    WillStayOpen,
}

impl Outlook {
    /// What the planned blocks will decide; changes up to `negligible` (0.02 is 2 %)
    /// do not matter.
    pub fn prospect(&self, negligible: f64) -> Prospect {
        if !self.then.contains(0.0) {
            Prospect::WillShow
        } else if self.then.low >= -negligible && self.then.high <= negligible {
            Prospect::WillBeNegligible
        } else {
            Prospect::WillStayOpen
        }
    }
}

/// The outlook of an effect for `planned` blocks; `None` before the second block.
///
/// The half-width of a t-interval over n blocks is t(n − 1) · s / √n, s being the
/// standard deviation of the blocks' log-ratios.
pub fn outlook(effect: &PairedEffect, planned: usize, confidence: Confidence) -> Option<Outlook> {
    let moments: Moments = effect.log_ratios.iter().copied().collect();
    let (mean, deviation) = (moments.mean()?, moments.standard_deviation()?);
    let blocks = effect.log_ratios.len();
    let planned = planned.max(blocks);
    let interval = |blocks: usize| {
        let half =
            t_quantile(confidence, blocks as f64 - 1.0)? * deviation / (blocks as f64).sqrt();
        Some(Interval::between((mean - half).exp_m1(), (mean + half).exp_m1()))
    };
    Some(Outlook {
        blocks,
        planned,
        change: mean.exp_m1(),
        now: interval(blocks)?,
        then: interval(planned)?,
    })
}

#[cfg(test)]
mod tests {
    use walwright_stats::paired_effect;

    use super::*;

    fn effect(ratios: &[f64]) -> PairedEffect {
        let baseline = vec![1_000.0; ratios.len()];
        let arm: Vec<f64> = ratios.iter().map(|ratio| 1_000.0 * ratio).collect();
        paired_effect(&baseline, &arm, Confidence::P95, 1).unwrap()
    }

    #[test]
    fn the_interval_narrows_with_the_root_of_the_blocks_and_the_t_quantile() {
        let effect = effect(&[1.01, 1.05, 1.03]);
        let outlook = outlook(&effect, 12, Confidence::P95).unwrap();
        let change = effect.change.interval.unwrap();
        assert!((outlook.now.low - change.low).abs() < 1e-12);
        let log_width = |i: Interval| (1.0 + i.high).ln() - (1.0 + i.low).ln();
        let expected = (4.302_65 / 3_f64.sqrt()) / (2.200_99 / 12_f64.sqrt());
        assert!((log_width(outlook.now) / log_width(outlook.then) - expected).abs() < 1e-3);
    }

    #[test]
    fn what_will_not_become_clear_is_said() {
        let prospect = |ratios: &[f64], planned| {
            outlook(&effect(ratios), planned, Confidence::P95).unwrap().prospect(0.02)
        };
        assert_eq!(prospect(&[1.10, 1.12, 1.08], 12), Prospect::WillShow);
        assert_eq!(prospect(&[1.001, 0.999, 1.002], 12), Prospect::WillBeNegligible);
        assert_eq!(prospect(&[1.2, 0.8, 1.1, 0.9], 8), Prospect::WillStayOpen);
        assert_eq!(outlook(&effect(&[1.1]), 8, Confidence::P95), None);
    }
}
