//! The ablation of the winner, and what may be said after it.

use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};
use walwright_stats::{Confidence, Estimate, Method};

use super::model::Model;
use super::race::CLEAR;
use super::{Searcher, Stage};
use crate::budget::{MOST_BLOCKS, PROVING_BLOCKS};
use crate::random::generator;
use crate::{Ablation, Configuration, Effect, Purpose, Trial};

/// Arms beyond the lines.
const FIXED_ARMS: usize = 2;
/// The first of them,
const BASELINE: usize = 0;
/// and the second.
const WINNER: usize = 1;
/// Lines ablated at most: one to four parameters usually carry 95 % of a gain (Fawcett &
/// Hoos, 2016).
const MOST_LINES: usize = 8;
/// Standard errors of a difference that can be told from nothing by a handful of blocks.
const DETECTED: f64 = 2.3;
/// Standard deviations of its doubt by which the model must hold a configuration for worse
/// to say so: 95 % of a normal distribution.
const PROVEN: f64 = 1.96;
/// The same for a gain that the blocks alone do not prove: 99.5 %.
const SURE: f64 = 2.8;
/// Of the gain that is expected, what values that the winner has by chance may be worth
/// together by the model: they go before the ablation.
const CHANCE: f64 = 0.02;
/// Of the gain that is expected, what unproven lines that go back may be worth together:
/// by the model, or as measured where they were taken back together.
const SPARED: f64 = 0.07;

/// What became of a line of the winner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Without it the winner is worse: it stays.
    Proven,
    /// Its own interval contains zero, but the gain is real and would not be the same
    /// without this and what has gone back.
    Carrying,
    /// Its interval contains zero, and the gain does not need it: it goes back to its default.
    Returned,
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
    /// Whether there is a gain: the interval lies above zero or, where the blocks speak for
    /// one, the model of all measurements is sure of it.
    pub is_gain: bool,
    /// The lines of the winner.
    pub lines: Vec<Line>,
    /// Complete blocks of the ablation.
    pub blocks: usize,
    /// Their scores.
    pub ablation: Ablation,
}

impl Searcher {
    /// Queues the ablation of the winner of the races.
    pub(super) fn begin_ablation(&mut self) {
        let model = self.model();
        let mut winner = self.winner(model.as_ref());
        if let Some(model) = &model {
            // What it has by chance would cost arms, and may hide what a value of the baseline
            // costs.
            let (_, expected) = self.ahead(model, &winner, &self.baseline);
            winner = self.simplified(model, &winner, |doubts, lost| {
                doubts < CLEAR && lost <= CHANCE * expected
            });
        }
        let lines = self.lines_of(model.as_ref(), &winner);
        let left = self.runs_left() as usize;
        let room = |blocks: u32| (left / blocks as usize).saturating_sub(FIXED_ARMS);
        // Few runs: fewer arms before fewer blocks, but at least one and two blocks.
        let most = match room(PROVING_BLOCKS) {
            0 => room(2).min(1),
            room => {
                let resolved = self.resolved_arms(model.as_ref(), &winner, left, lines.len());
                room.min(MOST_LINES).min(resolved)
            }
        };
        self.arms = vec![self.baseline.clone(), winner.clone()];
        self.lines.clear();
        for arm in grouped(lines, most) {
            let mut without = winner.clone();
            for line in &arm {
                without.insert(line.name.clone(), line.instead.clone());
            }
            self.arms.push(without);
            self.lines.push(arm);
        }
        let blocks = (left / self.arms.len()).min(MOST_BLOCKS as usize) as u32;
        for block in 0..blocks {
            let mut order: Vec<usize> = (0..self.arms.len()).collect();
            order.shuffle(&mut generator(self.options.seed ^ 0xAB1A, u64::from(block)));
            for arm in order {
                self.plan(Purpose::Ablate { arm, block }, self.arms[arm].clone());
            }
        }
    }

    /// An arm of the ablation in words.
    pub fn arm_name(&self, arm: usize) -> String {
        let lines = arm.checked_sub(FIXED_ARMS).and_then(|line| self.lines.get(line));
        match (arm, lines.map(Vec::as_slice)) {
            (BASELINE, _) => "baseline".to_owned(),
            (_, None) => "winner".to_owned(),
            (_, Some([one])) if one.is_harm => format!("winner with the baseline's {}", one.name),
            (_, Some([one])) => format!("winner without {}", one.name),
            (_, Some(many)) => format!("winner without {} of its values", many.len()),
        }
    }

    /// What won the races, else the best that is not the baseline: that nothing is gained
    /// needs to be measured too.
    fn winner(&self, model: Option<&Model>) -> Configuration {
        if self.race.incumbent != self.baseline && !self.race.incumbent.is_empty() {
            return self.race.incumbent.clone();
        }
        let by_model = model.and_then(|model| {
            let mut ranked = self.ranked(model).into_iter();
            ranked.find(|(configuration, _)| *configuration != self.baseline)
        });
        by_model.map_or_else(|| self.best_by_mean(), |(configuration, _)| configuration)
    }

    /// Arms of lines that leave enough blocks to tell half of the gain that is expected
    /// from noise. Where there is no room for any, the model tells the lines apart better.
    fn resolved_arms(
        &self,
        model: Option<&Model>,
        winner: &Configuration,
        left: usize,
        lines: usize,
    ) -> usize {
        let (Some(model), Some(sigma)) = (model, self.sigma()) else { return lines };
        let (_, expected) = self.ahead(model, winner, &self.baseline);
        let told = |arms: usize| {
            let blocks = (left / (FIXED_ARMS + arms)).min(MOST_BLOCKS as usize).max(1) as f64;
            DETECTED * sigma * (2.0 / blocks).sqrt() <= 0.5 * expected
        };
        (1..=lines).rev().find(|arms| told(*arms)).unwrap_or(0)
    }

    /// What can be taken back of a configuration, the most important first by the model:
    /// a value that is not the default goes to the default, also one that the baseline has;
    /// a baseline's value that is gone comes back, to say what it costs.
    fn lines_of(&self, model: Option<&Model>, winner: &Configuration) -> Vec<Taken> {
        let mut lines: Vec<(f64, Taken)> = Vec::new();
        for dimension in &self.space.dimensions {
            let (value, was) = (&winner[&dimension.name], &self.baseline[&dimension.name]);
            let mut add = |instead: &String, is_harm: bool| {
                let mut without = winner.clone();
                without.insert(dimension.name.clone(), instead.clone());
                let loss = model.map_or(0.0, |model| self.ahead(model, winner, &without).1);
                let (name, instead) = (dimension.name.clone(), instead.clone());
                lines.push((loss, Taken { name, instead, is_harm }));
            };
            if *value != dimension.home {
                add(&dimension.home, false);
            }
            if *was != dimension.home && was != value {
                add(was, true);
            }
        }
        lines.sort_by(|a, b| b.0.total_cmp(&a.0));
        lines.into_iter().map(|(_, line)| line).collect()
    }

    fn ablation_scores(&self) -> Ablation {
        let scores = (0..self.arms.len())
            .map(|wanted| {
                self.trials
                    .iter()
                    .filter(|trial| {
                        matches!(trial.purpose, Purpose::Ablate { arm, .. } if arm == wanted)
                    })
                    .map(Trial::score)
                    .collect()
            })
            .collect();
        Ablation { scores }
    }

    /// The arm that takes back several lines at once and leaves the rest.
    fn rest_arm(&self) -> Option<usize> {
        let together = |lines: &Vec<Taken>| lines.len() > 1 && lines.iter().all(|l| !l.is_harm);
        Some(self.lines.iter().position(together)? + FIXED_ARMS)
    }

    /// Says what may be said, and ends the search.
    pub(super) fn conclude(&mut self) {
        let ablation = self.ablation_scores();
        let noise = self.noise();
        let winner = self.arms.get(WINNER).unwrap_or(&self.baseline).clone();
        let model = self.model();
        let expected_of = |arm: &Configuration| {
            model.as_ref().map_or(0.0, |model| self.ahead(model, arm, &self.baseline).1)
        };
        // Of a gain that is larger than the model's floor under bad scores, only the blocks
        // know.
        let measured = ablation.effect(WINNER, BASELINE, noise);
        let measured = measured.estimate().map_or(0.0, |gain| gain.center.ln_1p());
        let spared = SPARED * expected_of(&winner).max(measured);
        // Where the winner does as well without all the rest, that simpler one is judged and
        // claimed: it was measured in the same blocks.
        let judged = self.rest_arm().filter(|rest| {
            let without = ablation.effect(*rest, WINNER, noise);
            let cost = without.estimate().map(|estimate| -estimate.center.ln_1p());
            !without.is_loss() && cost.is_some_and(|cost| cost <= spared)
        });
        let judged = judged.unwrap_or(WINNER);
        let whole = self.arms.get(judged).unwrap_or(&winner).clone();
        let gain = ablation.effect(judged, BASELINE, noise);
        // The model knows more than the blocks, and has chosen the winner: it must be surer.
        let doubts = model.as_ref().map(|model| self.ahead(model, &whole, &self.baseline).0);
        let rather = gain.estimate().is_some_and(|gain| gain.center > 0.0);
        let is_gain = self.arms.len() >= FIXED_ARMS
            && (gain.is_gain() || rather && doubts.is_some_and(|doubts| doubts > SURE));
        let needed = model
            .as_ref()
            .filter(|_| is_gain)
            .map(|model| self.simplified(model, &whole, |_, lost| lost <= spared));
        let mut lines: Vec<Line> = self
            .space
            .dimensions
            .iter()
            .map(|dimension| (dimension, &winner[&dimension.name]))
            .filter(|(d, value)| **value != d.home || self.baseline[&d.name] != d.home)
            .map(|(dimension, value)| {
                let of = |is_harm: bool| {
                    let these = |arm: &Vec<Taken>| {
                        arm.iter().any(|l| l.name == dimension.name && l.is_harm == is_harm)
                    };
                    let Some(arm) = self.lines.iter().position(these) else {
                        return (Effect::NotMeasured, 0);
                    };
                    let together = self.lines[arm].len() - 1;
                    (ablation.effect(arm + FIXED_ARMS, WINNER, noise), together)
                };
                let is_default = *value == dimension.home;
                let is_judged = whole[&dimension.name] == *value;
                let base = if is_judged { &whole } else { &winner };
                let with = |instead: &String| {
                    let mut other = base.clone();
                    other.insert(dimension.name.clone(), instead.clone());
                    other
                };
                let by_model = |instead: &String| {
                    model.as_ref().map(|model| self.contrast(model, &with(instead), base))
                };
                // Without its only line what is judged may be the baseline, or another arm.
                let without_it = with(&dimension.home);
                let is_it = |arm: &Configuration| is_judged && !is_default && *arm == without_it;
                let measured = self.arms.iter().position(is_it);
                let (mut without, mut together) = measured
                    .map_or_else(|| of(false), |arm| (ablation.effect(arm, judged, noise), 0));
                let (mut harm, _) = of(true);
                let was = &self.baseline[&dimension.name];
                if harm == Effect::NotMeasured && *was != dimension.home && was != value {
                    harm = by_model(was).unwrap_or(harm);
                }
                let went = is_gain && !is_judged;
                // What was measured of all of them at once tells more than the model of each.
                if !is_default
                    && !went
                    && let Some(modelled) = by_model(&dimension.home)
                    && (together > 0 || tells_more(&modelled, &without))
                {
                    (without, together) = (modelled, 0);
                }
                let stays = needed.as_ref().map(|needed| needed[&dimension.name] == *value);
                Line {
                    name: dimension.name.clone(),
                    value: value.clone(),
                    home: dimension.home.clone(),
                    was: was.clone(),
                    standing: match is_default {
                        true => undone(&harm),
                        false => kept(&without, stays),
                    },
                    without,
                    together,
                    harm,
                }
            })
            .collect();
        lines.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
        let mut configuration = self.baseline.clone();
        if is_gain {
            configuration = whole.clone();
            for line in lines.iter().filter(|line| line.standing == Standing::Returned) {
                configuration.insert(line.name.clone(), line.home.clone());
            }
        }
        self.conclusion = Some(Conclusion {
            configuration,
            winner: whole,
            gain,
            is_gain,
            lines,
            blocks: ablation.blocks(),
            ablation,
        });
        self.stage = Stage::Done;
    }

    /// The relative change from `base` to another configuration as the model has it after
    /// all measurements.
    fn contrast(&self, model: &Model, other: &Configuration, base: &Configuration) -> Effect {
        let change =
            model.process.difference(&self.space.features(other), &self.space.features(base));
        let half = PROVEN * change.deviation;
        let estimate =
            Estimate::symmetric(change.mean, half, Confidence::P95, Method::GaussianProcess);
        Effect::Measured(estimate.map(f64::exp_m1))
    }
}

/// Values that are taken back in one arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Taken {
    name: String,
    instead: String,
    /// Whether the baseline's value comes back, to say what it costs, and not the default.
    is_harm: bool,
}

/// The arms of so many lines: each alone where there is room for all. Otherwise the
/// values of the baseline come first, since each is to be named, then the most important
/// of the others, and the last arm takes back all the rest of those together.
fn grouped(lines: Vec<Taken>, most: usize) -> Vec<Vec<Taken>> {
    if lines.len() <= most {
        return lines.into_iter().map(|line| vec![line]).collect();
    }
    let (harms, others): (Vec<Taken>, Vec<Taken>) =
        lines.into_iter().partition(|line| line.is_harm);
    let rest_arm = usize::from(!others.is_empty());
    let harm_arms = harms.len().min(most.saturating_sub(rest_arm));
    let mut arms: Vec<Vec<Taken>> =
        harms.into_iter().take(harm_arms).map(|line| vec![line]).collect();
    let alone = most.saturating_sub(harm_arms + rest_arm);
    let mut others = others.into_iter();
    arms.extend(others.by_ref().take(alone).map(|line| vec![line]));
    if alone == 0 && harm_arms == 0 {
        // All of them together would be the baseline again: the most important one stays.
        others.next();
    }
    let rest: Vec<Taken> = others.collect();
    if !rest.is_empty() && arms.len() < most {
        arms.push(rest);
    }
    arms
}

fn hurts(effect: &Effect) -> bool {
    effect.is_loss() || *effect == Effect::Crashed
}

/// A default that undoes the baseline's value, which costs this.
fn undone(harm: &Effect) -> Standing {
    match harm {
        Effect::NotMeasured => Standing::NotMeasured,
        harm if hurts(harm) => Standing::HarmUndone,
        _ => Standing::HarmlessUndone,
    }
}

/// A value that is no default, without which this changes, and which the model would
/// have stay.
fn kept(without: &Effect, stays: Option<bool>) -> Standing {
    match (without, stays) {
        (without, _) if hurts(without) => Standing::Proven,
        (_, Some(true)) => Standing::Carrying,
        (Effect::NotMeasured, None) => Standing::NotMeasured,
        _ => Standing::Returned,
    }
}

/// Whether the first effect is known more closely than the second.
fn tells_more(first: &Effect, second: &Effect) -> bool {
    let width = |effect: &Effect| match effect {
        Effect::Crashed => Some(0.0),
        effect => effect.estimate().and_then(|e| e.interval).map(|ends| ends.half_width()),
    };
    width(first) < width(second) || width(second).is_none()
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
    use crate::{Dimension, Domain, Options, Space};

    fn taken(name: &str, is_harm: bool) -> Taken {
        Taken { name: name.to_owned(), instead: String::new(), is_harm }
    }

    fn names(arms: Vec<Vec<Taken>>) -> Vec<String> {
        let name =
            |arm: Vec<Taken>| arm.into_iter().map(|line| line.name).collect::<Vec<_>>().join("+");
        arms.into_iter().map(name).collect()
    }

    #[test]
    fn arms_name_what_harms_and_leave_the_rest_together() {
        let lines = || {
            vec![
                taken("a", false),
                taken("x", true),
                taken("b", false),
                taken("y", true),
                taken("c", false),
            ]
        };
        assert_eq!(names(grouped(lines(), 5)), ["a", "x", "b", "y", "c"]);
        assert_eq!(names(grouped(lines(), 4)), ["x", "y", "a", "b+c"]);
        assert_eq!(names(grouped(lines(), 3)), ["x", "y", "a+b+c"]);
        assert_eq!(names(grouped(lines(), 1)), ["b+c"]);
        let gains = || vec![taken("a", false), taken("b", false), taken("c", false)];
        assert_eq!(names(grouped(gains(), 2)), ["a", "b+c"]);
        // The first of them is what the winner has if the rest goes.
        assert_eq!(names(grouped(gains(), 1)), ["b+c"]);
        assert!(grouped(gains(), 0).is_empty());
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
        let options = Options { runs: 12, seed: 1, smallest_effect: 0.01, starts: Vec::new() };
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
        searcher.lines = vec![vec![taken("b", false), taken("c", false)]];
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
        assert!(end.is_gain);
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
        assert!(end.is_gain);
        assert_ne!(end.configuration, searcher.arms[2]);
        assert_eq!(end.gain, end.ablation.effect(1, 0, searcher.noise()));
    }
}
