//! Change points of a series of independent results, such as a journal's runs.

use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::resampling::generator;

/// How to search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangePointSearch {
    /// Level of the permutation test of each further change point.
    pub alpha: f64,
    /// Permutations a test draws.
    pub permutations: usize,
    /// Fewest observations between two change points, at least 2.
    pub shortest: usize,
    /// Seed of the permutations.
    pub seed: u64,
}

impl Default for ChangePointSearch {
    fn default() -> Self {
        ChangePointSearch { alpha: 0.05, permutations: 199, shortest: 3, seed: 0x00ed_1f15 }
    }
}

/// A change of distribution between two stretches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangePoint {
    /// Index of the first observation after the change.
    pub at: usize,
    /// Mean from the previous change point (or the start).
    pub before: f64,
    /// Mean to the next change point (or the end).
    pub after: f64,
    /// p-value of the permutation test that accepted it.
    pub p_value: f64,
}

/// Change points by E-divisive (means), in order: the split with the largest
/// energy distance between its two sides is accepted while permuting the
/// observations inside the present stretches rarely gives one as large.
///
/// Matteson and James, JASA 109 (2014), with α = 1; used for benchmark histories
/// by Hunter (arXiv 2301.03034). The test takes observations to be independent:
/// right for runs, wrong for the seconds of one run ([`crate::cliffs`] is for those).
pub fn change_points(series: &[f64], search: &ChangePointSearch) -> Vec<ChangePoint> {
    if series.iter().any(|v| !v.is_finite()) {
        return Vec::new();
    }
    let shortest = search.shortest.max(2);
    let mut rng = generator(search.seed);
    // Ends of stretches with the p-value of the change that begins each.
    let mut edges: Vec<(usize, f64)> = vec![(0, 0.0)];
    loop {
        let stretches = stretches(&edges, series.len());
        let best = stretches
            .iter()
            .filter_map(|(from, to)| {
                best_split(&series[*from..*to], shortest).map(|(at, energy)| (from + at, energy))
            })
            .max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((at, energy)) = best.filter(|(_, energy)| *energy > 0.0) else { break };
        let total = (search.permutations + 1) as f64;
        let mut as_large = 1_usize;
        let mut shuffled = series.to_vec();
        for _ in 0..search.permutations {
            // The verdict is settled once p can no longer fall to alpha.
            if as_large as f64 / total > search.alpha {
                break;
            }
            let largest = stretches
                .iter()
                .filter_map(|(from, to)| {
                    let stretch = &mut shuffled[*from..*to];
                    stretch.shuffle(&mut rng);
                    best_split(stretch, shortest).map(|(_, energy)| energy)
                })
                .fold(0.0, f64::max);
            // Equal up to rounding counts as equal.
            if largest >= energy * (1.0 - 1e-9) {
                as_large += 1;
            }
        }
        let p_value = as_large as f64 / total;
        if p_value > search.alpha {
            break;
        }
        edges.push((at, p_value));
        edges.sort_by_key(|(at, _)| *at);
    }
    let stretches = stretches(&edges, series.len());
    let mean = |(from, to): (usize, usize)| crate::mean(&series[from..to]).unwrap_or(f64::NAN);
    (1..edges.len())
        .map(|i| ChangePoint {
            at: edges[i].0,
            before: mean(stretches[i - 1]),
            after: mean(stretches[i]),
            p_value: edges[i].1,
        })
        .collect()
}

fn stretches(edges: &[(usize, f64)], len: usize) -> Vec<(usize, usize)> {
    (0..edges.len()).map(|i| (edges[i].0, edges.get(i + 1).map_or(len, |next| next.0))).collect()
}

/// The split with the largest scaled energy distance, and that distance.
fn best_split(values: &[f64], shortest: usize) -> Option<(usize, f64)> {
    let len = values.len();
    if len < 2 * shortest {
        return None;
    }
    let distances = |i: usize, range: std::ops::Range<usize>| -> f64 {
        values[range].iter().map(|v| (v - values[i]).abs()).sum()
    };
    let mut left = 0.0;
    let mut right: f64 = (0..len).map(|i| distances(i, i + 1..len)).sum();
    let mut between = 0.0;
    let mut best: Option<(usize, f64)> = None;
    for moved in 0..len - shortest {
        let (to_left, to_right) = (distances(moved, 0..moved), distances(moved, moved + 1..len));
        left += to_left;
        right -= to_right;
        between += to_right - to_left;
        let at = moved + 1;
        if at < shortest {
            continue;
        }
        let (m, n) = (at as f64, (len - at) as f64);
        let energy = m * n / (m + n)
            * (2.0 * between / (m * n)
                - left / (m * (m - 1.0) / 2.0)
                - right / (n * (n - 1.0) / 2.0));
        if best.is_none_or(|(_, e)| energy > e) {
            best = Some((at, energy));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    #[test]
    fn known_changes_are_found_where_they_are() {
        let mut synthetic = Synthetic::new(11);
        let mut series = synthetic.noise(30, 100.0, 3.0);
        series.extend(synthetic.noise(25, 90.0, 3.0));
        series.extend(synthetic.noise(30, 110.0, 3.0));
        let found = change_points(&series, &ChangePointSearch::default());
        let at: Vec<usize> = found.iter().map(|c| c.at).collect();
        assert_eq!(at.len(), 2, "{found:?}");
        assert!(at[0].abs_diff(30) <= 1 && at[1].abs_diff(55) <= 1, "{at:?}");
        assert!((found[0].before - 100.0).abs() < 2.0 && (found[1].after - 110.0).abs() < 2.0);
        assert!(found.iter().all(|c| c.p_value <= 0.05));
    }

    #[test]
    fn under_the_null_the_level_holds() {
        let wrong = (0..200_u64)
            .filter(|seed| {
                let series = Synthetic::new(*seed).noise(30, 100.0, 5.0);
                let search = ChangePointSearch { seed: *seed, ..Default::default() };
                !change_points(&series, &search).is_empty()
            })
            .count();
        // 10 expected; 18 is the 99 % point of a binomial with 200 and 0.05.
        assert!(wrong <= 18, "{wrong} of 200");
    }

    #[test]
    fn the_same_seed_gives_the_same_answer() {
        let series = Synthetic::new(12).noise(40, 0.0, 1.0);
        let search = ChangePointSearch { alpha: 0.5, ..Default::default() };
        assert_eq!(change_points(&series, &search), change_points(&series, &search));
    }

    #[test]
    fn the_energy_of_a_split_is_that_of_the_definition() {
        let values = [1.0, 2.0, 4.0, 9.0, 7.0];
        let (at, energy) = best_split(&values, 2).unwrap();
        let of = |at: usize| {
            let (x, y) = values.split_at(at);
            let pairs = |a: &[f64], b: &[f64]| -> f64 {
                a.iter().flat_map(|p| b.iter().map(move |q| (p - q).abs())).sum()
            };
            let (m, n) = (x.len() as f64, y.len() as f64);
            m * n / (m + n)
                * (2.0 / (m * n) * pairs(x, y)
                    - pairs(x, x) / (m * (m - 1.0))
                    - pairs(y, y) / (n * (n - 1.0)))
        };
        assert!(of(3) > of(2));
        assert_eq!(at, 3);
        assert!((energy - of(3)).abs() < 1e-12);
    }

    #[test]
    fn flat_or_short_series_have_none() {
        assert!(change_points(&[5.0; 40], &ChangePointSearch::default()).is_empty());
        assert!(change_points(&[1.0, 2.0, 9.0], &ChangePointSearch::default()).is_empty());
    }
}
