//! The winner against the baseline once more: fresh data, another seed, alternating.

use serde::{Deserialize, Serialize};
use walwright_record::RunId;
use walwright_search::ablation::Noise;
use walwright_search::{Ablation, Effect};

use super::objective::ALLOWED_LOSS;

/// Pairs up to which the confirmation goes on where the planned ones leave open whether
/// throughput is kept.
pub(super) const MOST_PAIRS: u32 = 12;

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
    /// Why it has no value.
    #[serde(default)]
    pub crashed: Option<String>,
}

impl Confirming {
    /// That it says nothing, and why.
    fn failure(&self) -> String {
        let which = if self.is_winner { "the winner" } else { "the baseline" };
        let why = self.crashed.as_deref().unwrap_or("it gave no figure");
        format!("{which} did not run in pair {}: {why}", self.pair + 1)
    }
}

/// Whether the winner keeps the baseline's throughput, as far as the interval over pairs says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// The whole interval lies above the loss that is allowed.
    Yes,
    /// The whole interval lies below it.
    No,
    /// It lies on both sides.
    Open,
}

/// What the confirmation showed so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    /// Its measurements, in order.
    pub made: Vec<Confirming>,
}

impl Confirmation {
    /// The next measurement of so many pairs: baseline, winner, winner, baseline, and so
    /// on, so that steady drift cancels. Whether it is the winner's, and its pair. None after
    /// one that did not run: then nothing can be confirmed.
    pub fn next(&self, pairs: u32) -> Option<(bool, u32)> {
        let done = self.made.len() as u32;
        (done < 2 * pairs && self.failure().is_none())
            .then_some((matches!(done % 4, 1 | 2), done / 2))
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

    /// Which measurement did not run, and why; `None` where all did.
    pub fn failure(&self) -> Option<String> {
        self.made.iter().find(|made| made.score.is_none()).map(Confirming::failure)
    }

    /// Whether throughput is kept; `None` where it is not known.
    pub fn keeps_throughput(&self) -> Option<Kept> {
        let throughput = self.throughput();
        let estimate = throughput.estimate()?;
        Some(match (estimate.low(), estimate.high()) {
            (Some(low), _) if low >= -ALLOWED_LOSS => Kept::Yes,
            (_, Some(high)) if high < -ALLOWED_LOSS => Kept::No,
            _ => Kept::Open,
        })
    }

    /// Pairs to measure where so many were planned: [`MOST_PAIRS`] where these show a gain and
    /// leave open what it costs in throughput. Later pairs do not change that: a look after
    /// each of them would take noise for an answer sooner or later.
    pub(super) fn pairs_to_keep_throughput(&self, planned: u32, before: Option<Noise>) -> u32 {
        if self.pairs() < planned as usize {
            return planned;
        }
        let made = self.made.iter().take(2 * planned as usize).cloned().collect();
        let first = Confirmation { made };
        let open = first.keeps_throughput() == Some(Kept::Open);
        if open && first.effect(before).is_gain() { MOST_PAIRS.max(planned) } else { planned }
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
                crashed: None,
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
        assert_eq!(confirmation.keeps_throughput(), Some(Kept::No));
        confirmation.made[3].throughput = None;
        assert_eq!(confirmation.keeps_throughput(), None);
        assert_eq!(confirmation.throughput().estimate(), None, "unknown is not zero");
    }

    /// A confirmation whose objective gains a tenth, with these changes of throughput.
    fn costing(changes: &[f64]) -> Confirmation {
        let mut confirmation = Confirmation::default();
        while let Some((is_winner, pair)) = confirmation.next(changes.len() as u32) {
            let change = changes[pair as usize];
            confirmation.made.push(Confirming {
                is_winner,
                pair,
                run: None,
                score: Some(0.001 * f64::from(pair) + if is_winner { 0.1 } else { 0.0 }),
                value: None,
                throughput: Some(1_000.0 * if is_winner { 1.0 + change } else { 1.0 }),
                checkpoints: None,
                crashed: None,
            });
        }
        confirmation
    }

    #[test]
    fn it_goes_on_where_it_is_open_whether_throughput_is_kept() {
        let noisy = [-0.1, 0.1, 0.02];
        for (changes, kept, pairs) in [
            (&[0.0, 0.01, 0.0][..], Kept::Yes, 3),
            (&[-0.1, -0.11, -0.1], Kept::No, 3),
            (&noisy, Kept::Open, MOST_PAIRS),
        ] {
            let confirmation = costing(changes);
            assert_eq!(confirmation.keeps_throughput(), Some(kept), "{changes:?}");
            assert_eq!(confirmation.pairs_to_keep_throughput(3, None), pairs, "{changes:?}");
        }
        assert_eq!(costing(&noisy[..2]).pairs_to_keep_throughput(3, None), 3, "not all made");
        // What the planned pairs left open is not decided by a look at the next.
        let calm = costing(&[&noisy[..], &[0.03; 8]].concat());
        assert_eq!(calm.keeps_throughput(), Some(Kept::Yes));
        assert_eq!(calm.pairs_to_keep_throughput(3, None), MOST_PAIRS);
        let mut no_gain = costing(&noisy);
        no_gain.made.iter_mut().for_each(|made| made.score = Some(0.0));
        assert_eq!(no_gain.pairs_to_keep_throughput(3, None), 3);
    }
}
