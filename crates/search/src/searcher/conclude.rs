//! The ablation of the winner, and what may be said after it.

use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use super::{Searcher, Stage};
use crate::budget::{MOST_BLOCKS, PROVING_BLOCKS};
use crate::random::generator;
use crate::{Ablation, Configuration, Effect, Purpose, Trial};

/// Arms beyond the lines: the baseline and the winner.
const FIXED_ARMS: usize = 2;
/// Lines ablated at most: one to four parameters usually carry 95 % of a gain (Fawcett &
/// Hoos, 2016).
const MOST_LINES: usize = 8;
/// Standard errors of a difference that can be told from nothing by a handful of blocks.
const DETECTED: f64 = 2.3;
/// Where no single line stands out of the noise, those are kept that make up this share
/// of the gain.
const CARRIED: f64 = 0.95;

/// What became of a line of the winner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Without it the winner is worse: it stays.
    Proven,
    /// Its own interval contains zero, but the gain is real and needs the larger lines.
    Carrying,
    /// Its interval contains zero: it goes back to its default.
    Returned,
    /// It is the default; what the baseline had does harm.
    HarmUndone,
    /// It is the default; what the baseline had makes no difference that could be seen.
    HarmlessUndone,
    /// It was not ablated.
    NotMeasured,
}

/// One parameter in which the winner differs from the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The parameter.
    pub name: String,
    /// The winner's value.
    pub value: String,
    /// The value it was measured against, all else being the winner's.
    pub instead: String,
    /// The baseline's value.
    pub was: String,
    /// The change by taking it back.
    pub without: Effect,
    /// How many others were taken back with it in the same measurements.
    pub together: usize,
    /// What became of it.
    pub standing: Standing,
}

/// What may be said at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conclusion {
    /// What to use: the winner without what it does not need, or the baseline.
    pub configuration: Configuration,
    /// What was ablated.
    pub winner: Configuration,
    /// The winner against the baseline, in measurements that played no part in choosing it.
    pub gain: Effect,
    /// Whether there is a gain: the interval lies above zero.
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
        let winner = self.winner();
        let lines = self.lines_of(&winner);
        let left = self.runs_left() as usize;
        let room = |blocks: u32| (left / blocks as usize).saturating_sub(FIXED_ARMS);
        // Few runs: fewer arms before fewer blocks, but at least one and two blocks.
        let most = match room(PROVING_BLOCKS) {
            0 => room(2).min(1),
            room => room.min(MOST_LINES).min(self.resolved_arms(&winner, left, lines.len())),
        };
        let arms = grouped(lines, most);
        self.arms = vec![self.baseline.clone(), winner.clone()];
        self.lines.clear();
        for arm in arms {
            let mut without = winner.clone();
            let mut names = Vec::new();
            for line in arm {
                without.insert(line.name.clone(), line.instead);
                names.push(line.name);
            }
            self.arms.push(without);
            self.lines.push(names);
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

    /// What won the races, else the best that is not the baseline: that nothing is gained
    /// needs to be measured too.
    fn winner(&self) -> Configuration {
        if self.race.incumbent != self.baseline && !self.race.incumbent.is_empty() {
            return self.race.incumbent.clone();
        }
        let by_model = self.model().and_then(|model| {
            let mut ranked = self.ranked(&model).into_iter();
            ranked.find(|(configuration, _)| *configuration != self.baseline)
        });
        by_model.map_or_else(|| self.best_by_mean(), |(configuration, _)| configuration)
    }

    /// Arms of lines that leave enough blocks to tell half of the gain that is expected
    /// from noise: lines that cannot be told apart are better left together.
    fn resolved_arms(&self, winner: &Configuration, left: usize, lines: usize) -> usize {
        let (Some(model), Some(sigma)) = (self.model(), self.sigma()) else { return lines };
        let features = |c: &Configuration| self.space.features(c, &self.active);
        let expected = match (self.mean_of(winner), self.baseline_score()) {
            // The baseline may stand outside of what the model sees.
            (Some(winner), Some(baseline)) if !self.differs_only_in_active(&self.baseline) => {
                winner - baseline
            }
            _ => model.process.difference(&features(winner), &features(&self.baseline)).mean,
        };
        let told = |arms: usize| {
            let blocks = (left / (FIXED_ARMS + arms)).min(MOST_BLOCKS as usize).max(1) as f64;
            DETECTED * sigma * (2.0 / blocks).sqrt() <= 0.5 * expected
        };
        (1..=lines).rev().find(|arms| told(*arms)).unwrap_or(1)
    }

    /// What can be taken back of a configuration, the most important first by the model:
    /// a value that is not the default goes to the default, a default that undoes the
    /// baseline's value goes to that.
    fn lines_of(&self, winner: &Configuration) -> Vec<Taken> {
        let model = self.model();
        let mut lines: Vec<Taken> = self
            .space
            .changes(winner, &self.baseline)
            .map(|(dimension, value)| {
                let undoes = value == dimension.home;
                let instead = match undoes {
                    true => self.baseline[&dimension.name].clone(),
                    false => dimension.home.clone(),
                };
                let mut without = winner.clone();
                without.insert(dimension.name.clone(), instead.clone());
                let loss = model.as_ref().map_or(0.0, |model| {
                    let features = |c: &Configuration| self.space.features(c, &self.active);
                    model.process.difference(&features(winner), &features(&without)).mean
                });
                Taken { name: dimension.name.clone(), instead, undoes, loss }
            })
            .collect();
        lines.sort_by(|a, b| b.loss.total_cmp(&a.loss));
        lines
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

    /// Says what may be said, and ends the search.
    pub(super) fn conclude(&mut self) {
        let ablation = self.ablation_scores();
        let noise = self.noise();
        let gain = ablation.effect(1, 0, noise);
        let is_gain = gain.is_gain() && self.arms.len() >= FIXED_ARMS;
        let winner = self.arms.get(1).unwrap_or(&self.baseline).clone();
        let mut lines: Vec<Line> = self
            .space
            .changes(&winner, &self.baseline)
            .map(|(dimension, value)| {
                let arm = self.lines.iter().position(|names| names.contains(&dimension.name));
                let without = arm.map_or(Effect::NotMeasured, |line| {
                    ablation.effect(line + FIXED_ARMS, 1, noise)
                });
                let is_home = value == dimension.home;
                let was = self.baseline[&dimension.name].clone();
                let together = arm.map_or(0, |line| self.lines[line].len() - 1);
                Line {
                    name: dimension.name.clone(),
                    together,
                    value: value.to_owned(),
                    instead: if is_home { was.clone() } else { dimension.home.clone() },
                    was,
                    standing: standing(&without, is_home),
                    without,
                }
            })
            .collect();
        lines.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
        if is_gain {
            keep_what_carries(&mut lines, &gain);
        }
        let mut configuration = self.baseline.clone();
        if is_gain {
            configuration = winner.clone();
            for line in lines.iter().filter(|line| line.standing == Standing::Returned) {
                configuration.insert(line.name.clone(), line.instead.clone());
            }
        }
        self.conclusion = Some(Conclusion {
            configuration,
            winner,
            gain,
            is_gain,
            lines,
            blocks: ablation.blocks(),
            ablation,
        });
        self.stage = Stage::Done;
    }
}

/// A line that can be taken back.
struct Taken {
    name: String,
    instead: String,
    /// Whether it is a default that undoes a value of the baseline.
    undoes: bool,
    /// What the model expects to lose.
    loss: f64,
}

/// The arms of so many lines: each alone where there is room for all. Otherwise the
/// values that were undone come first, since each is to be named, then the most important
/// others, and the last arm takes back all the rest of them together.
fn grouped(lines: Vec<Taken>, most: usize) -> Vec<Vec<Taken>> {
    if lines.len() <= most {
        return lines.into_iter().map(|line| vec![line]).collect();
    }
    let (undone, others): (Vec<Taken>, Vec<Taken>) =
        lines.into_iter().partition(|line| line.undoes);
    let rest_arm = usize::from(!others.is_empty());
    let undone_arms = undone.len().min(most.saturating_sub(rest_arm));
    let mut arms: Vec<Vec<Taken>> =
        undone.into_iter().take(undone_arms).map(|line| vec![line]).collect();
    let alone = most.saturating_sub(undone_arms + rest_arm);
    let mut others = others.into_iter();
    arms.extend(others.by_ref().take(alone).map(|line| vec![line]));
    if alone == 0 && undone_arms == 0 {
        // All of them together would be the baseline again: the most important one stays.
        others.next();
    }
    let rest: Vec<Taken> = others.collect();
    if !rest.is_empty() && arms.len() < most {
        arms.push(rest);
    }
    arms
}

fn standing(without: &Effect, is_home: bool) -> Standing {
    let hurts = without.is_loss() || *without == Effect::Crashed;
    match (without, is_home) {
        (Effect::NotMeasured, _) => Standing::NotMeasured,
        (_, true) if hurts => Standing::HarmUndone,
        (_, true) => Standing::HarmlessUndone,
        (_, false) if hurts => Standing::Proven,
        (_, false) => Standing::Returned,
    }
}

/// The logarithm of what a line is worth, an equal share of what was taken back with it;
/// 0 where that is not known.
fn worth(line: &Line) -> f64 {
    let whole = line.without.estimate().map_or(0.0, |without| -without.center.ln_1p());
    whole / (line.together + 1) as f64
}

/// A gain that is real must come from somewhere: lines that are worth something stay,
/// largest first, until they and the proven ones make up most of it.
fn keep_what_carries(lines: &mut [Line], gain: &Effect) {
    let wanted = CARRIED * gain.estimate().map_or(0.0, |gain| gain.center.ln_1p());
    let mut carried: f64 = lines
        .iter()
        .filter(|line| !matches!(line.standing, Standing::Returned | Standing::NotMeasured))
        .map(worth)
        .sum();
    for line in lines.iter_mut().filter(|line| line.standing == Standing::Returned) {
        let worth = worth(line);
        if carried >= wanted || worth <= 0.0 {
            break;
        }
        line.standing = Standing::Carrying;
        carried += worth;
    }
}
