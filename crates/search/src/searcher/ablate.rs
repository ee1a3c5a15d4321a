//! The ablation of the winner: which arms it has, and what they showed.

use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use super::Searcher;
use super::model::Model;
use super::race::CLEAR;
use crate::budget::{MOST_BLOCKS, PROVING_BLOCKS};
use crate::random::generator;
use crate::{Ablation, Configuration, Purpose, Trial};

/// Arms beyond the lines.
pub(super) const FIXED_ARMS: usize = 2;
/// The first of them,
pub(super) const BASELINE: usize = 0;
/// and the second.
pub(super) const WINNER: usize = 1;
/// Lines ablated at most: one to four parameters usually carry 95 % of a gain (Fawcett &
/// Hoos, 2016).
const MOST_LINES: usize = 8;
/// Standard errors of a difference that can be told from nothing by a handful of blocks.
const DETECTED: f64 = 2.3;
/// Of the gain that is expected, what values that the winner has by chance may be worth
/// together by the model: they go before the ablation.
const CHANCE: f64 = 0.02;

impl Searcher {
    /// Queues the ablation of the winner of the races.
    pub(super) fn begin_ablation(&mut self) {
        let model = self.model();
        let mut winner = self.winner(model.as_ref());
        if let Some(model) = &model {
            // What it has by chance would cost arms, and may hide what a value of the baseline
            // costs.
            let expected = self.ahead(model, &winner, &self.baseline).mean;
            winner = self.simplified(model, &winner, |lost| {
                lost.doubts() < CLEAR && lost.mean <= CHANCE * expected
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
        let expected = self.ahead(model, winner, &self.baseline).mean;
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
                let loss = model.map_or(0.0, |model| self.ahead(model, winner, &without).mean);
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

    /// What the arms scored so far.
    pub(super) fn ablation_scores(&self) -> Ablation {
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
    pub(super) fn rest_arm(&self) -> Option<usize> {
        let together = |lines: &Vec<Taken>| lines.len() > 1 && lines.iter().all(|l| !l.is_harm);
        Some(self.lines.iter().position(together)? + FIXED_ARMS)
    }
}

/// Values that are taken back in one arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Taken {
    /// The parameter.
    pub name: String,
    /// What it goes back to.
    pub instead: String,
    /// Whether the baseline's value comes back, to say what it costs, and not the default.
    pub is_harm: bool,
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
