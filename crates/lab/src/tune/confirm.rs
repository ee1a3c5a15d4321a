//! The winner against the baseline once more: fresh data, another seed, alternating.

use serde::{Deserialize, Serialize};
use walwright_record::RunId;
use walwright_search::ablation::Noise;
use walwright_search::{Ablation, Effect};

/// Checkpoints that each window of the confirmation holds: what a configuration moves past
/// one of them comes back in the next.
pub(super) const CHECKPOINTS: u32 = 2;

/// One measurement of the confirmation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Confirming {
    /// Whether the winner was measured, or the baseline.
    pub is_winner: bool,
    /// Its pair, from 0.
    pub pair: u32,
    /// Its record; `None` where it could not begin.
    pub run: Option<RunId>,
    /// Its score and its value; `None` where it crashed.
    pub score: Option<f64>,
    /// Its value of the objective.
    pub value: Option<f64>,
    /// Its transactions a second.
    #[serde(default)]
    pub throughput: Option<f64>,
    /// Checkpoints completed in its window.
    pub checkpoints: Option<f64>,
}

/// What the confirmation showed so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    /// Its measurements, in order.
    pub made: Vec<Confirming>,
}

impl Confirmation {
    /// The next measurement of so many pairs: baseline, winner, winner, baseline, and so
    /// on, so that steady drift cancels. Whether it is the winner's, and its pair.
    pub fn next(&self, pairs: u32) -> Option<(bool, u32)> {
        let done = self.made.len() as u32;
        (done < 2 * pairs).then_some((matches!(done % 4, 1 | 2), done / 2))
    }

    /// The winner against the baseline, with its interval over pairs; `before` is the
    /// noise of the baseline against itself.
    pub fn effect(&self, before: Option<Noise>) -> Effect {
        self.compared(before, |made| made.score)
    }

    /// Its throughput against the baseline's, with its interval over pairs.
    pub fn throughput(&self) -> Effect {
        self.compared(None, |made| Some(made.throughput?.ln()))
    }

    fn compared(&self, before: Option<Noise>, of: impl Fn(&Confirming) -> Option<f64>) -> Effect {
        let scores = |winner: bool| -> Vec<Option<f64>> {
            let mut these: Vec<&Confirming> =
                self.made.iter().filter(|made| made.is_winner == winner).collect();
            these.sort_by_key(|made| made.pair);
            these.into_iter().map(&of).collect()
        };
        Ablation { scores: vec![scores(false), scores(true)] }.effect(1, 0, before)
    }

    /// Complete pairs.
    pub fn pairs(&self) -> usize {
        let count = |winner: bool| self.made.iter().filter(|m| m.is_winner == winner).count();
        count(true).min(count(false))
    }

    /// Fewest checkpoints completed in a window of the winner; `None` where none tells.
    pub fn least_checkpoints(&self) -> Option<f64> {
        let winners = self.made.iter().filter(|made| made.is_winner);
        winners
            .map(|made| made.checkpoints)
            .collect::<Option<Vec<f64>>>()?
            .into_iter()
            .reduce(f64::min)
    }

    /// Whether every window of the winner held the checkpoints that it takes to judge what
    /// moves cost past one.
    pub fn held_checkpoints(&self) -> bool {
        self.least_checkpoints().is_some_and(|least| least >= f64::from(CHECKPOINTS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_alternates_and_states_its_interval() {
        let mut confirmation = Confirmation::default();
        let mut order = String::new();
        while let Some((is_winner, pair)) = confirmation.next(5) {
            order.push(if is_winner { 'w' } else { 'b' });
            let drift = 0.01 * confirmation.made.len() as f64;
            let wobble = if pair % 2 == 0 { 0.002 } else { -0.002 };
            let score = Some(drift + wobble + if is_winner { 0.1 } else { 0.0 });
            let made = Confirming {
                is_winner,
                pair,
                run: None,
                score,
                value: None,
                throughput: score.map(|score| 1_000.0 * (-score).exp()),
                checkpoints: Some(f64::from(pair)),
            };
            confirmation.made.push(made);
        }
        assert_eq!(order, "bwwbbwwbbw");
        assert_eq!((confirmation.pairs(), confirmation.least_checkpoints()), (5, Some(0.0)));
        let effect = confirmation.effect(None);
        let interval = effect.estimate().unwrap().interval.unwrap();
        assert!(interval.contains(f64::exp_m1(0.1)) && effect.is_gain(), "{interval:?}");
        let lost = confirmation.throughput();
        assert!(lost.is_loss(), "{lost:?}");
        confirmation.made[3].throughput = None;
        assert_eq!(confirmation.throughput().estimate(), None, "unknown is not zero");
    }
}
