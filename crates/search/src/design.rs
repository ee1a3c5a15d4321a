//! Plackett–Burman designs: the main effects of up to N − 1 factors in N runs.

use serde::{Deserialize, Serialize};

/// First row of the cyclic design (Plackett & Burman, Biometrika 33, 1946).
const ROW_12: &str = "++-+++---+-";

/// How many runs a design has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Runs {
    /// 12: up to 11 factors; an effect's error is 0.58 times that of a run. More factors are
    /// moved in groups: larger designs leave too few runs to search with.
    Twelve,
}

impl Runs {
    /// The number.
    pub fn count(self) -> usize {
        match self {
            Runs::Twelve => 12,
        }
    }

    fn first_row(self) -> &'static str {
        match self {
            Runs::Twelve => ROW_12,
        }
    }
}

/// Which factors are at their high level in each run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Design {
    /// A row a run, a column a factor; `true` is the high level.
    pub rows: Vec<Vec<bool>>,
}

impl Design {
    /// The design for `factors` factors, which is of no use beyond `runs` − 1 of them:
    /// `None` then.
    pub fn plackett_burman(runs: Runs, factors: usize) -> Option<Design> {
        let first: Vec<bool> = runs.first_row().bytes().map(|sign| sign == b'+').collect();
        if factors > first.len() {
            return None;
        }
        let columns = first.len();
        let mut rows: Vec<Vec<bool>> = (0..columns)
            .map(|shift| (0..factors).map(|f| first[(f + columns - shift) % columns]).collect())
            .collect();
        rows.push(vec![false; factors]);
        Some(Design { rows })
    }

    /// An order of the runs in which neighbours seldom differ in the `costly` factors:
    /// each next run is the one nearest to the last in them, and in all factors where
    /// several are as near. Indexes of rows.
    pub fn cheap_order(&self, costly: &[usize]) -> Vec<usize> {
        let distance = |a: &[bool], b: &[bool]| {
            let changed = costly.iter().any(|factor| a.get(*factor) != b.get(*factor));
            let all = a.iter().zip(b).filter(|(a, b)| a != b).count();
            (changed, all)
        };
        let mut left: Vec<usize> = (0..self.rows.len()).collect();
        // The last row has every factor low: what runs already.
        let mut at = self.rows.len().saturating_sub(1);
        let mut order = Vec::with_capacity(self.rows.len());
        while !left.is_empty() {
            let nearest = left
                .iter()
                .enumerate()
                .min_by_key(|(_, row)| (distance(&self.rows[at], &self.rows[**row]), **row))
                .map_or(0, |(place, _)| place);
            at = left.remove(nearest);
            order.push(at);
        }
        order
    }

    /// The effect of each factor: mean score at its high level minus that at its low one.
    /// Runs without a score are left out. `None` where a level has no score.
    pub fn effects(&self, scores: &[Option<f64>]) -> Vec<Option<f64>> {
        let factors = self.rows.first().map_or(0, Vec::len);
        (0..factors)
            .map(|factor| {
                let level = |high: bool| {
                    let at: Vec<f64> = self
                        .rows
                        .iter()
                        .zip(scores)
                        .filter(|(row, _)| row[factor] == high)
                        .filter_map(|(_, score)| *score)
                        .collect();
                    walwright_stats::mean(&at)
                };
                Some(level(true)? - level(false)?)
            })
            .collect()
    }

    /// Standard error of an effect, where one run has the standard deviation `sigma`.
    pub fn effect_error(&self, sigma: f64) -> f64 {
        2.0 * sigma / (self.rows.len().max(1) as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign(high: bool) -> i32 {
        if high { 1 } else { -1 }
    }

    #[test]
    fn columns_are_balanced_and_orthogonal() {
        let design = Design::plackett_burman(Runs::Twelve, 11).unwrap();
        assert_eq!(design.rows.len(), 12);
        for a in 0..11 {
            assert_eq!(design.rows.iter().map(|row| sign(row[a])).sum::<i32>(), 0);
            for b in 0..a {
                let dot: i32 = design.rows.iter().map(|r| sign(r[a]) * sign(r[b])).sum();
                assert_eq!(dot, 0, "{a} {b}");
            }
        }
        assert_eq!(Design::plackett_burman(Runs::Twelve, 12), None);
    }

    #[test]
    fn main_effects_are_recovered_and_interactions_leak_into_them() {
        let design = Design::plackett_burman(Runs::Twelve, 11).unwrap();
        let main = |row: &[bool]| 0.3 * f64::from(sign(row[2])) - 0.1 * f64::from(sign(row[7]));
        let scores: Vec<_> = design.rows.iter().map(|row| Some(main(row))).collect();
        let effects = design.effects(&scores);
        assert!((effects[2].unwrap() - 0.6).abs() < 1e-12);
        assert!((effects[7].unwrap() + 0.2).abs() < 1e-12);
        assert!(effects[0].unwrap().abs() < 1e-12);

        let both = |row: &[bool]| main(row) + 0.4 * f64::from(sign(row[0]) * sign(row[1]));
        let scores: Vec<_> = design.rows.iter().map(|row| Some(both(row))).collect();
        assert!((design.effects(&scores)[2].unwrap() - 0.6).abs() > 0.1, "aliased");
    }

    #[test]
    fn the_error_of_an_effect_is_that_of_the_tables() {
        let design = Design::plackett_burman(Runs::Twelve, 5).unwrap();
        assert!((design.effect_error(1.0) - 0.577).abs() < 1e-3);
    }

    #[test]
    fn a_cheap_order_visits_all_runs_with_few_changes_of_costly_factors() {
        let design = Design::plackett_burman(Runs::Twelve, 11).unwrap();
        let costly = [0, 1];
        let changes = |order: &[usize]| {
            order
                .windows(2)
                .filter(|pair| {
                    costly.iter().any(|f| design.rows[pair[0]][*f] != design.rows[pair[1]][*f])
                })
                .count()
        };
        let order = design.cheap_order(&costly);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..12).collect::<Vec<_>>());
        // Two factors have four combinations: three changes are the least.
        assert_eq!(changes(&order), 3);
        assert!(changes(&(0..12).collect::<Vec<_>>()) > 3);
    }
}
