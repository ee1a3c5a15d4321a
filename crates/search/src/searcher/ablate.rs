//! The ablation of the winner: which arms it has, and what they showed.

use rand::seq::SliceRandom;
use walwright_stats::{Confidence, t_quantile};

use super::Searcher;
use super::favourite::CLEAR;
use super::model::Model;
use super::taken::Taken;
use crate::budget::{MOST_BLOCKS, PLANNED_BLOCKS};
use crate::random::generator;
use crate::{Ablation, Configuration, Purpose, Trial};

/// Arms beyond the lines.
pub(super) const FIXED_ARMS: usize = 2;
/// The first of them,
pub(super) const BASELINE: usize = 0;
/// and the second.
pub(super) const WINNER: usize = 1;
/// Arms of lines at most: one to four parameters usually carry 95 % of a gain (Fawcett &
/// Hoos, 2016).
const MOST_LINES: usize = 8;
/// Blocks that an arm takes at least.
const LEAST_BLOCKS: usize = 2;
/// Of the gain that is expected, what values that the winner has by chance may be worth
/// together by the model: they go before the ablation.
const CHANCE: f64 = 0.02;

/// What the noise hides of a difference between two of so many arms in so many blocks: half its
/// interval at 95 %. `None` where one block tells nothing of the noise.
fn hidden(sigma: f64, arms: usize, blocks: u32) -> Option<f64> {
    let freedom = (arms - 1) as f64 * (f64::from(blocks) - 1.0);
    let error = sigma * (2.0 / f64::from(blocks)).sqrt();
    Some(error * t_quantile(Confidence::P95, freedom)?)
}

impl Searcher {
    /// Queues the ablation of what the model holds for best.
    pub(super) fn begin_ablation(&mut self) {
        let favourite = self.favourite();
        let model = self.model();
        let mut winner = self.winner(favourite, model.as_ref());
        if let Some(model) = &model {
            // What it has by chance would cost arms, and may hide what a value of the baseline
            // costs.
            let expected = self.ahead(model, &winner, &self.baseline).mean;
            winner = self.simplified(model, &winner, |lost| {
                lost.deviations() < CLEAR && lost.mean <= CHANCE * expected
            });
        }
        let left = self.runs_left() as usize;
        let lines = self.lines_of(model.as_ref(), &winner);
        let gain = model.as_ref().map_or(0.0, |m| self.ahead(m, &winner, &self.baseline).mean);
        // All that was measured says more of the noise than the baseline's few, unless the
        // model goes through every point.
        let fitted = model.as_ref().map_or(0.0, |model| model.process.noise());
        let sigma = fitted.max(self.sigma().unwrap_or(0.0));
        let arms = self.told_apart(&lines, gain, sigma, &winner, left);
        self.arms = vec![self.baseline.clone(), winner.clone()];
        self.arms.extend(arms.iter().map(|arm| without(&winner, arm)));
        let taken = |arm: Vec<Expected>| arm.into_iter().map(|line| line.taken).collect();
        self.lines = arms.into_iter().map(taken).collect();
        for block in 0..blocks_of(left, self.lines.len()) {
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

    /// The favourite, else the best that is not the baseline: that nothing is gained needs to be
    /// measured too.
    fn winner(&self, favourite: Configuration, model: Option<&Model>) -> Configuration {
        if favourite != self.baseline {
            return favourite;
        }
        let by_model = model.and_then(|model| {
            let mut ranked = self.ranked(model).into_iter();
            ranked.find(|(configuration, _)| *configuration != self.baseline)
        });
        by_model.map_or_else(|| self.best_by_mean(), |(configuration, _)| configuration)
    }

    /// The arms of lines: as many as can be told apart in so many runs, since each takes
    /// blocks from all. A line has an arm of its own where the model expects more of it than
    /// the noise of its blocks hides, and of the gain too; where that holds of none, the model
    /// tells them apart better. What a value of the baseline costs is to be named: there the
    /// blocks that are planned for will do. `sigma` is the deviation of one measurement.
    fn told_apart(
        &self,
        lines: &[Expected],
        gain: f64,
        sigma: f64,
        winner: &Configuration,
        left: usize,
    ) -> Vec<Vec<Expected>> {
        let room = (left / LEAST_BLOCKS).saturating_sub(FIXED_ARMS);
        for arms in (1..=room.min(MOST_LINES).min(lines.len())).rev() {
            let mut arms = grouped(lines.to_vec(), arms);
            // The baseline has an arm.
            arms.retain(|arm| without(winner, arm) != self.baseline);
            let blocks = blocks_of(left, arms.len());
            let Some(hidden) = hidden(sigma, FIXED_ARMS + arms.len(), blocks) else { continue };
            let told = |line: &Expected| {
                line.loss >= hidden || line.taken.is_harm && blocks >= PLANNED_BLOCKS
            };
            let mut alone = arms.iter().filter(|arm| arm.len() == 1).flatten().peekable();
            // Where all but one go together, that one is told by them.
            let all_told = match alone.peek() {
                None => lines.iter().find(|line| !line.taken.is_harm).is_some_and(told),
                Some(_) => alone.all(told),
            };
            if all_told && gain >= hidden {
                return arms;
            }
        }
        Vec::new()
    }

    /// What can be taken back of a configuration, the most important first by the model:
    /// a value that is not the default goes to the default, also one that the baseline has;
    /// a baseline's value that is gone comes back, to say what it costs. Not what leaves the
    /// baseline, which has an arm.
    fn lines_of(&self, model: Option<&Model>, winner: &Configuration) -> Vec<Expected> {
        let mut lines = Vec::new();
        for dimension in &self.space.dimensions {
            let (value, was) = (&winner[&dimension.name], &self.baseline[&dimension.name]);
            let mut add = |instead: &String, is_harm: bool| {
                let mut without = winner.clone();
                without.insert(dimension.name.clone(), instead.clone());
                if without == self.baseline {
                    return;
                }
                let loss = model.map_or(0.0, |model| self.ahead(model, winner, &without).mean);
                let (name, instead) = (dimension.name.clone(), instead.clone());
                lines.push(Expected { taken: Taken { name, instead, is_harm }, loss });
            };
            if *value != dimension.home {
                add(&dimension.home, false);
            }
            if *was != dimension.home && was != value {
                add(was, true);
            }
        }
        lines.sort_by(|a: &Expected, b| b.loss.total_cmp(&a.loss));
        lines
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

/// The same, with what the model expects to lose by it.
#[derive(Debug, Clone)]
struct Expected {
    taken: Taken,
    /// Of the logarithm of the score.
    loss: f64,
}

/// A winner with some lines taken back.
fn without(winner: &Configuration, lines: &[Expected]) -> Configuration {
    let mut without = winner.clone();
    for line in lines {
        without.insert(line.taken.name.clone(), line.taken.instead.clone());
    }
    without
}

/// Blocks of an ablation with so many arms of lines.
fn blocks_of(left: usize, lines: usize) -> u32 {
    ((left / (FIXED_ARMS + lines)) as u32).min(MOST_BLOCKS)
}

/// The arms of so many lines: each alone where there is room for all. Otherwise the
/// values of the baseline come first, since each is to be named, then the most important
/// of the others, and the last arm takes back all the rest of those together. Lines come with
/// the most important one first.
fn grouped(lines: Vec<Expected>, most: usize) -> Vec<Vec<Expected>> {
    if lines.len() <= most {
        return lines.into_iter().map(|line| vec![line]).collect();
    }
    let most_important = lines.first().cloned();
    let (harms, others): (Vec<Expected>, Vec<Expected>) =
        lines.into_iter().partition(|line| line.taken.is_harm);
    let rest_arm = usize::from(!others.is_empty());
    let harm_arms = harms.len().min(most.saturating_sub(rest_arm));
    let mut arms: Vec<Vec<Expected>> =
        harms.into_iter().take(harm_arms).map(|line| vec![line]).collect();
    let alone = most.saturating_sub(harm_arms + rest_arm);
    let mut others = others.into_iter();
    arms.extend(others.by_ref().take(alone).map(|line| vec![line]));
    if alone == 0 && harm_arms == 0 {
        // All of them together would be the baseline again: the most important one stays.
        others.next();
        if others.len() < 2 {
            return most_important.into_iter().take(most).map(|line| vec![line]).collect();
        }
    }
    let rest: Vec<Expected> = others.collect();
    if !rest.is_empty() && arms.len() < most {
        arms.push(rest);
    }
    arms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(name: &str, is_harm: bool) -> Expected {
        Expected {
            taken: Taken { name: name.to_owned(), instead: String::new(), is_harm },
            loss: 0.0,
        }
    }

    #[test]
    fn noise_hides_half_an_interval_of_the_blocks_to_come() {
        // t for 6 degrees of freedom is 2.447.
        assert!((hidden(1.0, 3, 4).unwrap() - 2.447 * 0.5_f64.sqrt()).abs() < 1e-3);
        assert_eq!(hidden(1.0, 3, 1), None);
    }

    fn names(arms: Vec<Vec<Expected>>) -> Vec<String> {
        let name = |arm: Vec<Expected>| {
            arm.into_iter().map(|line| line.taken.name).collect::<Vec<_>>().join("+")
        };
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
        // Of too few to go together, the most important one goes alone.
        assert_eq!(names(grouped(gains()[..2].to_vec(), 1)), ["a"]);
        assert_eq!(names(grouped(vec![taken("x", true), taken("a", false)], 1)), ["x"]);
        assert!(grouped(gains()[..2].to_vec(), 0).is_empty());
    }
}
