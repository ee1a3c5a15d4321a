//! What may be said after the ablation of the winner, and of each of its lines.

use serde::{Deserialize, Serialize};
use walwright_stats::{Confidence, Estimate, Method};

use super::ablate::{BASELINE, FIXED_ARMS, WINNER};
use super::model::Model;
use super::taken::Taken;
use super::{Searcher, Stage};
use crate::random::generator;
use crate::{Ablation, Configuration, Dimension, Effect, Prediction, Process};

/// Half width of the model's intervals in standard deviations of its uncertainty: 95 % of a normal
/// distribution.
const INTERVAL: f64 = 1.96;
/// Standard deviations of its uncertainty by which the model must hold for better what the blocks
/// alone do not prove, to propose it: 90 %.
const LIKELY: f64 = 1.28;
/// Of the gain that is expected, what unproven lines that go back may be worth together:
/// by the model, or as measured where they were taken back together.
const SPARED: f64 = 0.07;
/// Standard deviations by which the model must be sure that it is no more: 70 %.
const RATHER: f64 = 0.52;
/// Processes that are drawn for the intervals of lines.
const DRAWN: usize = 12;

/// What became of a line of the winner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Without it the winner is worse, as blocks of its own showed: it stays.
    Proven,
    /// The same, but only by the model of all measurements.
    Likely,
    /// Its own interval contains zero, but the gain is real and would not be the same
    /// without this and what has gone back.
    Carrying,
    /// It would go back but for what is to be kept beside the score: without this and what has
    /// gone back that is less likely kept.
    Keeping,
    /// It is no better than its default as far as its interval says, and the gain does not need
    /// it: it goes back to its default.
    Returned,
    /// The winner had the default, and blocks of its own proved the baseline's value better: that
    /// comes back.
    Restored,
    /// It is the default; what the baseline had does harm.
    HarmUndone,
    /// It is the default; what the baseline had makes no difference that could be seen.
    HarmlessUndone,
    /// It was not ablated.
    NotMeasured,
}

/// One parameter in which the winner or the baseline has no default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The parameter.
    pub name: String,
    /// The winner's value.
    pub value: String,
    /// Its default.
    pub home: String,
    /// The baseline's value.
    pub was: String,
    /// The change by going back from the winner's value to the default, all else being
    /// the winner's: from the ablation or, where that tells less, from the model of all
    /// measurements. Not measured where the winner has the default.
    pub without: Effect,
    /// How many others went back with it in the same measurements.
    pub together: usize,
    /// The change by going back to the baseline's value, where that is no default: what
    /// it costs, by the model where the ablation had no arm for it. Not measured where the
    /// winner has that value too.
    pub harm: Effect,
    /// What became of it.
    pub standing: Standing,
}

impl Line {
    /// What the baseline's value costs against the default: the change by going back to
    /// it, or, where the winner still had it, the change by leaving it turned round.
    pub fn cost_of_baseline(&self) -> Effect {
        match &self.without {
            Effect::Measured(_) if self.value == self.was && self.together == 0 => {
                self.without.inverted()
            }
            _ => self.harm.clone(),
        }
    }
}

/// What may be said at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conclusion {
    /// What to use: the winner without what it does not need, or the baseline.
    pub configuration: Configuration,
    /// What won; where the lines that were taken back together all went, without them.
    pub winner: Configuration,
    /// The winner against the baseline, in measurements that played no part in choosing it.
    pub gain: Effect,
    /// Whether it is to be confirmed: its interval lies above zero or does not exclude a gain that
    /// is worth a change or, where the blocks speak for one, the model of all measurements holds
    /// one for likely.
    #[serde(alias = "is_gain")]
    pub is_proposed: bool,
    /// The lines of the winner.
    pub lines: Vec<Line>,
    /// Complete blocks of the ablation.
    pub blocks: usize,
    /// Their scores.
    pub ablation: Ablation,
}

impl Searcher {
    /// Says what may be said, and ends the search.
    pub(super) fn conclude(&mut self) {
        let ablation = self.ablation_scores();
        let model = self.model();
        let judged = Judged::new(self, &ablation, model.as_ref());
        let mut lines: Vec<Line> =
            self.space.dimensions.iter().filter_map(|dimension| judged.line(dimension)).collect();
        lines.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
        let mut configuration = self.baseline.clone();
        if judged.is_proposed {
            configuration = judged.whole.clone();
            for line in &lines {
                let back = match line.standing {
                    Standing::Returned => &line.home,
                    Standing::Restored => &line.was,
                    _ => continue,
                };
                configuration.insert(line.name.clone(), back.clone());
            }
        }
        let Judged { whole, gain, is_proposed, .. } = judged;
        let stands = |model| self.may_stand_for(model, &configuration, &whole);
        if is_proposed && !model.as_ref().is_none_or(stands) {
            // What goes back line by line was not judged together.
            configuration = whole.clone();
            stay(&mut lines, &whole);
        }
        let is_proposed = is_proposed && configuration != self.baseline;
        self.conclusion = Some(Conclusion {
            configuration,
            winner: whole,
            gain,
            is_proposed,
            lines,
            blocks: ablation.blocks(),
            ablation,
        });
        self.stage = Stage::Done;
    }
}

/// The arm that is claimed, and what its lines are judged by.
struct Judged<'a> {
    searcher: &'a Searcher,
    ablation: &'a Ablation,
    /// What the model may be, as far as the measurements tell.
    drawn: Vec<Process>,
    /// What was ablated.
    winner: Configuration,
    /// The arm, and its configuration.
    arm: usize,
    whole: Configuration,
    gain: Effect,
    is_proposed: bool,
    /// What of it the gain needs by the model; `None` without either.
    needed: Option<Configuration>,
}

impl<'a> Judged<'a> {
    fn new(searcher: &'a Searcher, ablation: &'a Ablation, model: Option<&'a Model>) -> Judged<'a> {
        let baseline = &searcher.baseline;
        let winner = searcher.arms.get(WINNER).unwrap_or(baseline).clone();
        let ahead = |arm: &Configuration| model.map(|model| searcher.ahead(model, arm, baseline));
        // Of a gain that is larger than the model's floor under bad scores, only the blocks
        // know.
        let measured = ablation.effect(WINNER, BASELINE);
        let measured = measured.estimate().map_or(0.0, |gain| gain.center.ln_1p());
        let expected = ahead(&winner).map_or(0.0, |gain| gain.mean);
        let spared = SPARED * expected.max(measured);
        // Where the winner does as well without all the rest, that simpler one is judged and
        // claimed: it was measured in the same blocks. A few noisy blocks hide a line that is
        // worth much, so the model of all measurements must agree.
        let simpler = searcher.rest_arm().filter(|rest| {
            let without = ablation.effect(*rest, WINNER);
            let cost = without.estimate().map(|estimate| -estimate.center.ln_1p());
            let agrees = |model: &Model| {
                searcher.arms.get(*rest).is_none_or(|arm| {
                    searcher.ahead(model, &winner, arm).mean <= spared
                        && searcher.may_stand_for(model, arm, &winner)
                })
            };
            !without.is_loss()
                && cost.is_some_and(|cost| cost <= spared)
                && model.is_none_or(agrees)
        });
        let arm = simpler.unwrap_or(WINNER);
        let whole = searcher.arms.get(arm).unwrap_or(&winner).clone();
        let gain = ablation.effect(arm, BASELINE);
        let likely = ahead(&whole).is_some_and(|gain| gain.deviations() > LIKELY);
        let blocks_agree = gain.estimate().is_some_and(|gain| gain.center > 0.0);
        // A winner that crashed, or was not measured, is nothing to confirm.
        let is_open = gain.estimate().is_some() && !gain.excludes(searcher.options.worth);
        let is_proposed = searcher.arms.len() >= FIXED_ARMS
            && (is_open || gain.is_gain() || blocks_agree && likely);
        let may_go = |lost: Prediction| lost.mean + RATHER * lost.deviation <= spared;
        let needed =
            model.filter(|_| is_proposed).map(|model| searcher.simplified(model, &whole, may_go));
        let mut rng = generator(searcher.options.seed ^ 0xD4A3, u64::from(searcher.next_id()));
        let drawn = model.map_or(Vec::new(), |model| model.process.drawn(DRAWN, &mut rng));
        Judged { searcher, ablation, drawn, winner, arm, whole, gain, is_proposed, needed }
    }

    /// What may be said of one parameter; `None` where winner and baseline have its default.
    fn line(&self, dimension: &Dimension) -> Option<Line> {
        let (name, home) = (&dimension.name, &dimension.home);
        let (value, was) = (&self.winner[name], &self.searcher.baseline[name]);
        if value == home && was == home {
            return None;
        }
        let is_default = value == home;
        let is_judged = self.whole[name] == *value;
        let base = if is_judged { &self.whole } else { &self.winner };
        let with = |instead: &String| {
            let mut other = base.clone();
            other.insert(name.clone(), instead.clone());
            other
        };
        let by_model = |instead: &String| self.contrast(&with(instead), base);
        // Without its only line what is judged may be the baseline, or another arm.
        let without_it = with(home);
        let is_it = |arm: &Configuration| is_judged && !is_default && *arm == without_it;
        let (mut without, mut together) = match self.searcher.arms.iter().position(is_it) {
            Some(arm) => (self.ablation.effect(arm, self.arm), 0),
            None => self.taken_back(name, false),
        };
        let (mut harm, _) = self.taken_back(name, true);
        if was != home && was != value && with(was) == self.searcher.baseline {
            // The only one that differs: the baseline's arm has it.
            let base = if is_judged { self.arm } else { WINNER };
            harm = self.ablation.effect(BASELINE, base);
        }
        if harm == Effect::NotMeasured && was != home && was != value {
            harm = by_model(was).unwrap_or(harm);
        }
        let went = self.is_proposed && !is_judged;
        // Of those that went together, what was measured of all tells more than the model of
        // each.
        if !is_default
            && !went
            && let Some(modelled) = by_model(home)
            && (together > 0 || tells_more(&modelled, &without))
        {
            (without, together) = (modelled, 0);
        }
        let stays = self.needed.as_ref().map(|needed| needed[name] == *value);
        let standing = if is_default { undone(&harm) } else { kept(&without, stays) };
        Some(Line {
            name: name.clone(),
            value: value.clone(),
            home: home.clone(),
            was: was.clone(),
            without,
            together,
            harm,
            standing,
        })
    }

    /// The effect on the winner of the arm that takes this parameter back, to the baseline's
    /// value or to its default, and how many others it takes back.
    fn taken_back(&self, name: &str, is_harm: bool) -> (Effect, usize) {
        let this = |line: &Taken| line.name == name && line.is_harm == is_harm;
        let mut arms = self.searcher.lines.iter().enumerate();
        match arms.find(|(_, lines)| lines.iter().any(this)) {
            Some((arm, lines)) => (self.ablation.effect(arm + FIXED_ARMS, WINNER), lines.len() - 1),
            None => (Effect::NotMeasured, 0),
        }
    }

    /// The relative change from `base` to another configuration as the model has it after
    /// all measurements.
    fn contrast(&self, other: &Configuration, base: &Configuration) -> Option<Effect> {
        let space = &self.searcher.space;
        let (other, base) = (space.features(other), space.features(base));
        let change = Process::difference_by_all(&self.drawn, &other, &base)?;
        let half = INTERVAL * change.deviation;
        let estimate =
            Estimate::symmetric(change.mean, half, Confidence::P95, Method::GaussianProcess);
        Some(Effect::Measured(estimate.map(f64::exp_m1)))
    }
}

/// Lines that would go back and are in what is proposed whole.
fn stay(lines: &mut [Line], whole: &Configuration) {
    for line in lines.iter_mut().filter(|line| whole.get(&line.name) == Some(&line.value)) {
        if matches!(line.standing, Standing::Returned | Standing::Restored) {
            line.standing = Standing::Keeping;
        }
    }
}

fn hurts(effect: &Effect) -> bool {
    effect.is_loss() || *effect == Effect::Crashed
}

/// A default that undoes the baseline's value, which costs this.
fn undone(harm: &Effect) -> Standing {
    match harm {
        Effect::NotMeasured => Standing::NotMeasured,
        harm if hurts(harm) => Standing::HarmUndone,
        harm if harm.is_gain() && !harm.is_modelled() => Standing::Restored,
        _ => Standing::HarmlessUndone,
    }
}

/// A value that is no default, without which this changes, and which the model would
/// have stay.
fn kept(without: &Effect, stays: Option<bool>) -> Standing {
    match (without, stays) {
        (without, _) if hurts(without) && without.is_modelled() => Standing::Likely,
        (without, _) if hurts(without) => Standing::Proven,
        (_, Some(true)) => Standing::Carrying,
        (Effect::NotMeasured, None) => Standing::NotMeasured,
        _ => Standing::Returned,
    }
}

/// Whether the model says more of a line than blocks of its own, which prove what they show:
/// where they show nothing, and it knows the effect more closely.
fn tells_more(modelled: &Effect, measured: &Effect) -> bool {
    let width =
        |effect: &Effect| effect.estimate().and_then(|e| e.interval).map(|ends| ends.half_width());
    let narrower = width(modelled) < width(measured) || width(measured).is_none();
    narrower && !hurts(measured)
}

/// The logarithm of what a line is worth, an equal share of what went back with it; 0
/// where that is not known.
fn worth(line: &Line) -> f64 {
    let log = |effect: &Effect| effect.estimate().map(|change| -change.center.ln_1p());
    let without = log(&line.without).map(|worth| worth / (line.together + 1) as f64);
    without.or(log(&line.harm)).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Domain, Options, Purpose, Space, Trial};

    fn taken(name: &str) -> Taken {
        Taken { name: name.to_owned(), instead: String::new(), is_harm: false }
    }

    #[test]
    fn a_value_of_the_baseline_that_blocks_prove_better_comes_back() {
        let effect = |center: f64, method| {
            Effect::Measured(Estimate::symmetric(center, 0.02, Confidence::P95, method))
        };
        assert_eq!(undone(&effect(0.05, Method::PairedLogRatio)), Standing::Restored);
        assert_eq!(undone(&effect(0.05, Method::GaussianProcess)), Standing::HarmlessUndone);
        assert_eq!(undone(&effect(0.01, Method::PairedLogRatio)), Standing::HarmlessUndone);
        assert_eq!(undone(&effect(-0.05, Method::PairedLogRatio)), Standing::HarmUndone);
    }

    #[test]
    fn of_what_is_proposed_whole_nothing_goes_back() {
        let line = |name: &str, standing| Line {
            name: name.to_owned(),
            value: "on".to_owned(),
            home: "off".to_owned(),
            was: "off".to_owned(),
            without: Effect::NotMeasured,
            together: 0,
            harm: Effect::NotMeasured,
            standing,
        };
        let mut lines = [
            line("a", Standing::Proven),
            line("b", Standing::Returned),
            line("c", Standing::Restored),
            line("gone with others", Standing::Returned),
        ];
        let whole = [("a", "on"), ("b", "on"), ("c", "on"), ("gone with others", "off")];
        stay(&mut lines, &whole.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        use Standing::{Keeping, Proven, Returned};
        assert_eq!(lines.map(|line| line.standing), [Proven, Keeping, Keeping, Returned]);
    }

    #[test]
    fn what_blocks_prove_is_told_by_them_however_closely_the_model_knows_it() {
        let effect = |center: f64, half: f64| {
            let method = Method::PairedLogRatio;
            Effect::Measured(Estimate::symmetric(center, half, Confidence::P95, method))
        };
        let modelled = effect(-0.2, 0.01);
        assert!(!tells_more(&modelled, &effect(-0.2, 0.1)));
        assert!(!tells_more(&modelled, &Effect::Crashed));
        assert!(tells_more(&modelled, &effect(-0.2, 0.3)));
        assert!(!tells_more(&effect(-0.2, 0.4), &effect(-0.2, 0.3)));
        assert!(tells_more(&modelled, &Effect::NotMeasured));
    }

    /// A search over three parameters that has just measured an ablation with these
    /// scores: of the baseline, of a winner of all three, of the first of them alone.
    fn ablated(scores: [[f64; 3]; 3]) -> Searcher {
        let dimension = |name: &str| Dimension {
            name: name.to_owned(),
            group: name.to_owned(),
            domain: Domain::Words(vec!["off".to_owned(), "on".to_owned()]),
            home: "off".to_owned(),
            trial: None,
            restart: false,
        };
        let space = Space { dimensions: ["a", "b", "c"].map(dimension).to_vec() };
        let home = space.home();
        let options =
            Options { runs: 12, seed: 1, worth: 0.05, allowed_loss: None, starts: Vec::new() };
        let mut searcher = Searcher::new(space, &home, options).unwrap();
        for score in [0.01, -0.01] {
            let ask = searcher.ask().unwrap();
            searcher.tell(ask.trial, crate::Outcome::score(score)).unwrap();
        }
        let with = |names: &[&str]| {
            let mut at = home.clone();
            at.extend(names.iter().map(|name| ((*name).to_owned(), "on".to_owned())));
            at
        };
        searcher.arms = vec![home.clone(), with(&["a", "b", "c"]), with(&["a"])];
        searcher.lines = vec![vec![taken("b"), taken("c")]];
        for (arm, scores) in scores.iter().enumerate() {
            for (block, score) in scores.iter().enumerate() {
                let block = block as u32;
                searcher.trials.push(Trial {
                    id: searcher.trials.len() as u32,
                    purpose: Purpose::Ablate { arm, block },
                    configuration: searcher.arms[arm].clone(),
                    block: 1_000 + block,
                    outcome: crate::Outcome::score(*score),
                });
            }
        }
        searcher.conclude();
        searcher
    }

    #[test]
    fn the_simpler_arm_is_claimed_where_it_does_as_well() {
        let baseline = [0.0, 0.02, -0.01];
        let simple = [0.14, 0.15, 0.13];
        let searcher = ablated([baseline, [0.09, 0.03, 0.10], simple]);
        let end = searcher.conclusion().unwrap();
        assert!(end.is_proposed);
        assert!((end.gain.estimate().unwrap().center - 0.136_f64.exp_m1()).abs() < 0.01);
        assert_eq!(end.configuration, searcher.arms[2]);
        // Without its only line it is the baseline, which was measured too.
        let line = end.lines.iter().find(|line| line.name == "a").unwrap();
        assert_eq!(line.standing, Standing::Proven);
        let center = |effect: &Effect| effect.estimate().unwrap().center;
        assert!((center(&line.without) - center(&end.gain.inverted())).abs() < 1e-9);
        assert_eq!(searcher.arm_name(2), "winner without 2 of its values");

        // Where the others carry the gain, the winner is what is judged.
        let searcher = ablated([baseline, simple, [0.02, 0.01, 0.0]]);
        let end = searcher.conclusion().unwrap();
        assert!(end.is_proposed);
        assert_ne!(end.configuration, searcher.arms[2]);
        assert_eq!(end.gain, end.ablation.effect(1, 0));
    }
}
