//! Which parameters matter: groups of them, moved together in a designed experiment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use walwright_stats::{Confidence, Estimate, Method, t_quantile};

use crate::ablation::Noise;
use crate::{Configuration, Design, Runs, Space};

/// Share of the half width of its interval that a gain must reach to be taken for one.
const LIKELY: f64 = 0.3;

/// How far towards the opposite level the high rows of a factor lie, one after the other. Most
/// are far, where a straight effect shows best; those between show a top or an edge on
/// the way, beyond which the far level says only that it is too far.
const LEVELS: [f64; 6] = [1.0, 0.4, 0.7, 1.0, 0.55, 0.85];

/// Parameters that are moved together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// What they have in common: their layer, or the one parameter.
    pub name: String,
    /// Indexes of the dimensions.
    pub members: Vec<usize>,
}

/// A screening: what is moved, in which runs, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Screening {
    /// The factors.
    pub groups: Vec<Group>,
    /// Which are moved in which run.
    pub design: Design,
    /// Rows of the design in the order they are run.
    pub order: Vec<usize>,
    /// Where every group stands when it is not moved.
    pub reference: Configuration,
    /// The change by moving each group, in the mean over the levels it was moved to, once
    /// measured; `None` where it could not be.
    pub effects: Vec<Option<Estimate>>,
}

impl Screening {
    /// A screening around `reference`: every dimension against its opposite level.
    /// `None` for a space without dimensions.
    pub fn plan(space: &Space, reference: &Configuration, runs: Runs) -> Option<Screening> {
        let most = runs.count() - 1;
        let groups = grouped(space, most);
        let design = Design::plackett_burman(runs, groups.len()).filter(|_| !groups.is_empty())?;
        let costly: Vec<usize> = groups
            .iter()
            .enumerate()
            .filter(|(_, group)| {
                group.members.iter().any(|m| space.dimensions.get(*m).is_some_and(|d| d.restart))
            })
            .map(|(index, _)| index)
            .collect();
        let order = design.cheap_order(&costly);
        Some(Screening { groups, design, order, reference: reference.clone(), effects: Vec::new() })
    }

    /// The configuration of a row.
    pub fn configuration(&self, space: &Space, row: usize) -> Configuration {
        let rows = &self.design.rows;
        let earlier = &rows[..row.min(rows.len())];
        let columns = rows.get(row).into_iter().flatten().zip(&self.groups).enumerate();
        columns.filter(|(_, (high, _))| **high).fold(
            self.reference.clone(),
            |at, (column, (_, group))| {
                let before = earlier.iter().filter(|row| row[column]).count();
                self.moved(space, at, group, LEVELS[(before + column) % LEVELS.len()])
            },
        )
    }

    /// `at` with one group moved, this share of the way to its opposite levels.
    fn moved(
        &self,
        space: &Space,
        mut at: Configuration,
        group: &Group,
        share: f64,
    ) -> Configuration {
        for dimension in group.members.iter().filter_map(|m| space.dimensions.get(*m)) {
            let value = self.reference.get(&dimension.name).unwrap_or(&dimension.home);
            at.insert(dimension.name.clone(), dimension.towards_opposite(value, share));
        }
        at
    }

    /// Takes the scores, one a row, `None` for a row without.
    pub fn conclude(&mut self, scores: &[Option<f64>], noise: Noise) {
        let error = self.design.effect_error(noise.variance.sqrt());
        let half = t_quantile(Confidence::P95, noise.freedom).unwrap_or(f64::INFINITY) * error;
        self.effects = self
            .design
            .effects(scores)
            .into_iter()
            .map(|effect| {
                let method = Method::Student;
                Some(Estimate::symmetric(effect?, half, Confidence::P95, method).map(f64::exp_m1))
            })
            .collect();
    }

    /// The reference with every group moved that rather gains by it; `None` where none
    /// does. What was moved by luck is taken back by the ablation, what was not moved
    /// for want of proof is lost.
    pub fn predicted_best(&self, space: &Space) -> Option<Configuration> {
        let gains = |effect: &Option<Estimate>| {
            let log = |value: f64| value.ln_1p();
            effect.as_ref().is_some_and(|e| {
                let half = e.interval.map_or(f64::INFINITY, |ends| log(ends.high) - log(e.center));
                log(e.center) > LIKELY * half
            })
        };
        let moved: Vec<&Group> = self
            .effects
            .iter()
            .zip(&self.groups)
            .filter(|(effect, _)| gains(effect))
            .map(|(_, group)| group)
            .collect();
        if moved.is_empty() {
            return None;
        }
        let start = self.reference.clone();
        Some(moved.into_iter().fold(start, |at, group| self.moved(space, at, group, 1.0)))
    }
}

/// The dimensions in at most `most` groups: each alone where that fits, otherwise by what
/// they belong to, those that a rule has a value for standing alone first.
fn grouped(space: &Space, most: usize) -> Vec<Group> {
    let alone =
        |index: usize| Group { name: space.dimensions[index].name.clone(), members: vec![index] };
    if space.dimensions.len() <= most {
        return (0..space.dimensions.len()).map(alone).collect();
    }
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, dimension) in space.dimensions.iter().enumerate() {
        by_name.entry(&dimension.group).or_default().push(index);
    }
    let mut groups: Vec<Group> = by_name
        .into_iter()
        .map(|(name, members)| Group { name: name.to_owned(), members })
        .collect();
    while groups.len() > most {
        groups.sort_by_key(|group| std::cmp::Reverse(group.members.len()));
        let (Some(last), Some(other)) = (groups.pop(), groups.pop()) else { break };
        let mut members = other.members;
        members.extend(last.members);
        groups.push(Group { name: format!("{} and {}", other.name, last.name), members });
    }
    while groups.len() < most {
        let hinted = |index: &usize| space.dimensions[*index].trial.is_some();
        let splittable = groups.iter_mut().filter(|group| group.members.len() > 1);
        let Some(largest) =
            splittable.max_by_key(|group| (group.members.iter().any(hinted), group.members.len()))
        else {
            break;
        };
        let place = largest.members.iter().position(hinted).unwrap_or(0);
        let member = largest.members.remove(place);
        if let [only] = largest.members[..] {
            largest.name = space.dimensions[only].name.clone();
        }
        groups.push(alone(member));
    }
    groups.sort_by(|a, b| a.members.cmp(&b.members));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dimension, Domain, Range};

    fn space(count: usize) -> Space {
        let dimensions = (0..count)
            .map(|i| Dimension {
                name: format!("p{i:02}"),
                group: format!("layer {}", i % 4),
                domain: Domain::Range(Range {
                    low: 0.0,
                    high: 100.0,
                    log: false,
                    whole: true,
                    unit: None,
                    special: Vec::new(),
                }),
                home: "20".to_owned(),
                trial: (i == 7).then(|| "60".to_owned()),
                restart: i == 3,
            })
            .collect();
        Space { dimensions }
    }

    #[test]
    fn many_dimensions_are_grouped_and_none_is_lost() {
        for count in [3, 11, 12, 20, 40] {
            let space = space(count);
            let groups = grouped(&space, 11);
            assert_eq!(groups.len(), count.min(11), "{count}");
            let mut members: Vec<usize> =
                groups.iter().flat_map(|group| group.members.clone()).collect();
            members.sort_unstable();
            assert_eq!(members, (0..count).collect::<Vec<_>>());
        }
        let groups = grouped(&space(20), 11);
        assert!(groups.iter().any(|group| group.members == [7]), "hinted ones stand alone");
    }

    #[test]
    fn the_factors_that_matter_are_found_with_intervals() {
        let space = space(10);
        let mut screening = Screening::plan(&space, &space.home(), Runs::Twelve).unwrap();
        let score = |c: &Configuration| {
            let at = |name: &str| c[name].parse::<f64>().unwrap();
            0.002 * at("p07") - 0.001 * at("p03")
        };
        let scores: Vec<_> =
            (0..12).map(|row| Some(score(&screening.configuration(&space, row)))).collect();
        let noise = Noise { variance: 1e-4, freedom: 4.0 };
        screening.conclude(&scores, noise);
        let effect = screening.effects[7].as_ref().unwrap();
        // The levels of the other factor are not quite balanced; alone it is seen exactly.
        assert!((effect.center - f64::exp_m1(0.08)).abs() < 0.01, "{effect:?}");
        let mut alone = screening.clone();
        let of_it = |row| 0.002 * alone.configuration(&space, row)["p07"].parse::<f64>().unwrap();
        let scores_alone: Vec<_> = (0..12).map(|row| Some(of_it(row))).collect();
        alone.conclude(&scores_alone, noise);
        let exact = alone.effects[7].as_ref().unwrap().center;
        assert!((exact - f64::exp_m1(0.08)).abs() < 1e-9, "{exact}");
        assert!(effect.excludes(0.0));
        assert!(!screening.effects[0].as_ref().unwrap().excludes(0.0));
        let best = screening.predicted_best(&space).unwrap();
        assert_eq!((best["p07"].as_str(), best["p03"].as_str()), ("60", "20"));
    }

    #[test]
    fn a_factor_is_seen_at_several_levels_and_a_rules_value_at_one() {
        let space = space(10);
        let screening = Screening::plan(&space, &space.home(), Runs::Twelve).unwrap();
        let levels = |name: &str| {
            let rows = (0..12).map(|row| screening.configuration(&space, row)[name].clone());
            rows.collect::<std::collections::BTreeSet<String>>()
        };
        for number in (0..10).filter(|number| *number != 7) {
            let seen = levels(&format!("p{number:02}"));
            assert!(seen.contains("20") && seen.contains("70"), "{seen:?}");
            assert!((5..=6).contains(&seen.len()), "{seen:?}");
        }
        assert_eq!(levels("p07"), ["20".to_owned(), "60".to_owned()].into());
    }

    #[test]
    fn the_run_with_nothing_moved_is_the_reference() {
        let space = space(20);
        let screening = Screening::plan(&space, &space.home(), Runs::Twelve).unwrap();
        assert_eq!(screening.configuration(&space, 11), space.home());
        assert_eq!(screening.order[0], 11);
        assert!(Screening::plan(&Space::default(), &Configuration::new(), Runs::Twelve).is_none());
    }
}
