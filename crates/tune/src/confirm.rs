//! The winner against the baseline once more: fresh data, another seed, alternating.

use serde::{Deserialize, Serialize};
use walwright_record::RunId;
use walwright_search::{Ablation, Effect};
use walwright_stats::Confidence;

/// Pairs whose spread says how many it takes where the planned ones leave a question open.
const PILOT: u32 = 12;
/// Share of an interval's half width that an answer may lie off by, so that it settles the
/// question in four cases of five: 0.84 of the 2.24 standard errors of 97.5 %.
const POWER: f64 = 0.84 / 2.24;

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

/// What a confirmation is to settle, and how far it may go for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Questions {
    /// Pairs that are measured in any case.
    pub planned: u32,
    /// Pairs that it ends with at the latest, not fewer than planned.
    pub most: u32,
    /// A gain of this share is to be proven or excluded.
    pub worth: f64,
    /// Share of the baseline's throughput that a gain may cost; `None` where it may cost all.
    pub allowed_loss: Option<f64>,
}

impl Questions {
    /// How often each interval covers the truth: where the answer may be looked at twice, both
    /// looks together leave 95 % (Bonferroni).
    pub fn confidence(&self) -> Confidence {
        let looks = if self.most > self.planned { 2.0 } else { 1.0 };
        Confidence::new(1.0 - Confidence::P95.alpha() / looks).unwrap_or_default()
    }
}

/// A question that pairs leave open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// Whether there is a gain: none is proven, and one that is worth a change not excluded.
    Gain,
    /// Whether throughput is kept.
    Throughput,
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

    /// The winner against the baseline, with its interval over pairs.
    pub fn effect(&self, asked: &Questions) -> Effect {
        self.compared(asked.confidence(), |made| made.score)
    }

    /// Its throughput against the baseline's, with its interval over pairs.
    pub fn throughput(&self, asked: &Questions) -> Effect {
        self.compared(asked.confidence(), |made| Some(made.throughput?.ln()))
    }

    /// Which measurement did not run, and why; `None` where all did.
    pub fn failure(&self) -> Option<String> {
        self.made.iter().find(|made| made.score.is_none()).map(Confirming::failure)
    }

    /// Whether throughput is kept; `None` where it need not be, or is not known.
    pub fn keeps_throughput(&self, asked: &Questions) -> Option<Kept> {
        let allowed_loss = asked.allowed_loss?;
        let throughput = self.throughput(asked);
        let estimate = throughput.estimate()?;
        Some(match (estimate.low(), estimate.high()) {
            (Some(low), _) if low >= -allowed_loss => Kept::Yes,
            (_, Some(high)) if high < -allowed_loss => Kept::No,
            _ => Kept::Open,
        })
    }

    /// What these pairs leave open.
    pub fn open(&self, asked: &Questions) -> Option<Open> {
        let gain = self.effect(asked);
        if !gain.is_gain() {
            gain.estimate()?;
            return (!gain.excludes(asked.worth)).then_some(Open::Gain);
        }
        (self.keeps_throughput(asked)? == Kept::Open).then_some(Open::Throughput)
    }

    /// Pairs to measure: the planned ones and, where these leave a question open, so many as it
    /// [needs](Confirmation::needed), as far as it may go. Between the planned pairs and the
    /// last nothing is decided: a look after each of them would take noise for an answer sooner
    /// or later.
    pub fn wanted(&self, asked: &Questions) -> u32 {
        if self.pairs() < asked.planned as usize || self.first(asked.planned).open(asked).is_none()
        {
            return asked.planned;
        }
        let pilot = PILOT.clamp(asked.planned, asked.most);
        self.needed(asked).map_or(pilot, |needed| needed.clamp(pilot, asked.most))
    }

    /// How many pairs settle what the planned ones leave open, by the spread of the first twelve:
    /// so many that an interval of the gain is as narrow as the gain that is asked about, and that
    /// one of throughput without a loss lies above the allowed one in four cases of five. `None`
    /// before there are so many.
    pub fn needed(&self, asked: &Questions) -> Option<u32> {
        let pilot = PILOT.clamp(asked.planned, asked.most);
        if self.pairs() < pilot as usize {
            return None;
        }
        let first = self.first(pilot);
        let gain = pairs_for(pilot, &first.effect(asked), 0.5 * asked.worth.ln_1p());
        let room = asked.allowed_loss.map(|loss| -(-loss).ln_1p() / (1.0 + POWER));
        let throughput = room.map_or(0, |room| pairs_for(pilot, &first.throughput(asked), room));
        match self.first(asked.planned).open(asked)? {
            Open::Throughput => Some(throughput),
            // Whether throughput is kept is asked next.
            Open::Gain => Some(gain.max(throughput)),
        }
    }

    /// The first so many pairs.
    fn first(&self, pairs: u32) -> Confirmation {
        Confirmation { made: self.made.iter().take(2 * pairs as usize).cloned().collect() }
    }

    fn compared(&self, confidence: Confidence, of: impl Fn(&Confirming) -> Option<f64>) -> Effect {
        let scores = |winner: bool| -> Vec<Option<f64>> {
            let mut these: Vec<&Confirming> =
                self.made.iter().filter(|made| made.is_winner == winner).collect();
            these.sort_by_key(|made| made.pair);
            these.into_iter().map(&of).collect()
        };
        Ablation { scores: vec![scores(false), scores(true)] }.effect_at(1, 0, confidence)
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

/// Pairs after which half the width of an interval is `half`, by that of these pairs, which falls
/// with the root of their number; an effect that is not known asks for none.
fn pairs_for(pairs: u32, effect: &Effect, half: f64) -> u32 {
    let ends = effect.estimate().and_then(|of| Some((of.low()?, of.high()?)));
    let times = ends.map_or(0.0, |(low, high)| (0.5 * (high.ln_1p() - low.ln_1p()) / half).powi(2));
    (f64::from(pairs) * times).ceil() as u32
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
        let effect = confirmation.effect(&ASKED);
        let interval = effect.estimate().unwrap().interval.unwrap();
        assert!(interval.contains(f64::exp_m1(0.1)) && effect.is_gain(), "{interval:?}");
        let lost = confirmation.throughput(&ASKED);
        assert!(lost.is_loss(), "{lost:?}");
        assert_eq!(confirmation.keeps_throughput(&ASKED), Some(Kept::No));
        confirmation.made[3].throughput = None;
        assert_eq!(confirmation.keeps_throughput(&ASKED), None);
        assert_eq!(confirmation.throughput(&ASKED).estimate(), None, "unknown is not zero");
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

    const ASKED: Questions =
        Questions { planned: 3, most: 40, worth: 0.05, allowed_loss: Some(0.03) };

    #[test]
    fn it_goes_on_where_it_is_open_whether_throughput_is_kept() {
        let noisy = [-0.1, 0.1, 0.02];
        for (changes, kept, pairs) in [
            (&[0.0, 0.01, 0.0][..], Kept::Yes, 3),
            (&[-0.1, -0.11, -0.1], Kept::No, 3),
            (&noisy, Kept::Open, PILOT),
        ] {
            let confirmation = costing(changes);
            assert_eq!(confirmation.keeps_throughput(&ASKED), Some(kept), "{changes:?}");
            assert_eq!(confirmation.wanted(&ASKED), pairs, "{changes:?}");
        }
        let open = costing(&noisy).open(&ASKED);
        assert_eq!(open, Some(Open::Throughput));
        let much = Questions { allowed_loss: Some(0.5), ..ASKED };
        assert_eq!(costing(&noisy).keeps_throughput(&much), Some(Kept::Yes), "if so much may go");
        assert_eq!(costing(&noisy[..2]).wanted(&ASKED), 3, "not all made");
        let any = Questions { allowed_loss: None, ..ASKED };
        assert_eq!(costing(&noisy).wanted(&any), 3, "throughput may fall");
    }

    #[test]
    fn two_looks_share_their_error_and_one_has_it_alone() {
        let level = |most| Questions { most, ..ASKED }.confidence().level();
        assert!((level(40) - 0.975).abs() < 1e-12 && (level(3) - 0.95).abs() < 1e-12);
        let low = |most| {
            let of = costing(&[0.0, 0.02, 0.01]).throughput(&Questions { most, ..ASKED });
            of.estimate().unwrap().low().unwrap()
        };
        assert!(low(40) < low(3));
    }

    #[test]
    fn the_spread_of_twelve_pairs_says_how_many_it_takes() {
        let noisy = [-0.1, 0.1, 0.02];
        // What the planned pairs left open is not decided by a look at the next ones.
        let calm = costing(&[&noisy[..], &[0.03; 8]].concat());
        assert_eq!((calm.keeps_throughput(&ASKED), calm.wanted(&ASKED)), (Some(Kept::Yes), PILOT));
        let wide = noisy.repeat(4);
        let wanted = |asked| costing(&wide).wanted(&asked);
        assert_eq!(wanted(ASKED), 40);
        let wider = Questions { allowed_loss: Some(0.06), ..ASKED };
        assert!((PILOT + 1..40).contains(&wanted(wider)), "{}", wanted(wider));
        assert!(costing(&wide).needed(&ASKED).unwrap() > 80, "told, though it may not");
        let gain_open = |mut of: Confirmation| {
            for made in &mut of.made {
                made.score = Some(0.1 * f64::from(u8::from(made.is_winner && made.pair > 1)));
            }
            of
        };
        let both = gain_open(costing(&wide));
        assert_eq!(both.first(3).open(&ASKED), Some(Open::Gain));
        assert_eq!(both.wanted(&ASKED), 40, "throughput is asked about too");
        assert_eq!(wanted(Questions { most: 8, ..ASKED }), 8, "as far as it may go");
    }

    #[test]
    fn a_gain_is_proven_or_one_worth_a_change_excluded() {
        let gaining = |gains: &[f64]| {
            let mut confirmation = costing(&vec![0.0; gains.len()]);
            for made in confirmation.made.iter_mut().filter(|made| made.is_winner) {
                made.score = Some(gains[made.pair as usize]);
            }
            for made in confirmation.made.iter_mut().filter(|made| !made.is_winner) {
                made.score = Some(0.0);
            }
            confirmation
        };
        let asked = Questions { allowed_loss: None, ..ASKED };
        for (gains, open, pairs) in [
            (&[0.1, 0.11, 0.1][..], None, 3),
            (&[0.0, 0.01, -0.01], None, 3),
            (&[-0.1, -0.11, -0.1], None, 3),
            (&[0.0, 0.1, 0.04], Some(Open::Gain), PILOT),
        ] {
            let confirmation = gaining(gains);
            assert_eq!(confirmation.open(&asked), open, "{gains:?}");
            assert_eq!(confirmation.wanted(&asked), pairs, "{gains:?}");
        }
        // Whatever the truth, an interval as wide as what is asked about answers it.
        let all = gaining(&[0.0, 0.1, 0.04].repeat(4));
        let wanted = all.wanted(&asked);
        assert!((13..40).contains(&wanted), "{wanted}");
        let settled = gaining(&[0.0, 0.1, 0.04].repeat(14)[..wanted as usize]);
        assert_eq!(settled.open(&asked), None);
    }
}
