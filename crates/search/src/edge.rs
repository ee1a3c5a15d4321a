//! An edge: a value of one feature beyond which scores lie higher or lower by a constant, as
//! where a server runs out of something. A smooth process takes one for a slope, and judges what
//! lies just before it by what lies beyond.

use nalgebra::{DMatrix, DVector};

use crate::solved::Solved;

/// Edges that are expected among all features, before anything is measured.
const EXPECTED: f64 = 1.0;
/// Variance of the step from one side to the other, in units of that of the scores.
const STEP: f64 = 4.0;

/// Where an edge lies: between two neighbouring values of what was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Edge {
    feature: usize,
    low: f64,
    high: f64,
    /// Where it is taken to lie, from `low` up to just below `high`.
    at: f64,
}

impl Edge {
    /// What it adds to the variance of a score.
    pub(crate) const VARIANCE: f64 = STEP / 4.0;

    /// Whether a configuration with these features lies above it.
    pub(crate) fn is_below(&self, features: &[f64]) -> bool {
        features.get(self.feature).is_some_and(|value| *value > self.at)
    }

    /// What it adds to the covariance of the scores of two configurations. The sides are plus
    /// and minus a half of the step, so that neither is special.
    pub(crate) fn covariance(&self, a: &[f64], b: &[f64]) -> f64 {
        if self.is_below(a) == self.is_below(b) { Edge::VARIANCE } else { -Edge::VARIANCE }
    }

    /// The same edge where all between the two values belongs to the worse side.
    pub(crate) fn cautious(self, is_worse_above: bool) -> Edge {
        Edge { at: if is_worse_above { self.low } else { self.high.next_down() }, ..self }
    }

    /// The same edge half-way between the two values.
    pub(crate) fn half_way(self) -> Edge {
        Edge { at: 0.5 * (self.low + self.high), ..self }
    }

    /// The most probable edge of the feature that most probably has one, and the logarithm of the
    /// odds that this feature has one, wherever it lies, against a process that has none.
    /// `rows` are features, of which `scales` may have edges, and `solved` the process without.
    /// `None` where nothing differs.
    pub(crate) fn most_probable(
        rows: &[Vec<f64>],
        scales: &[usize],
        solved: &Solved,
    ) -> Option<(Edge, f64)> {
        let inverse = solved.cholesky.inverse();
        let of_feature = |feature: &usize| {
            let edges: Vec<(Edge, f64)> = between(rows, *feature)
                .into_iter()
                .map(|(edge, share)| {
                    let chance = EXPECTED * share / scales.len() as f64;
                    (edge, edge.gain(rows, solved, &inverse) + chance.ln())
                })
                .collect();
            let (edge, highest) = *edges.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
            let all: f64 = edges.iter().map(|(_, odds)| (odds - highest).exp()).sum();
            Some((edge, highest + all.ln()))
        };
        scales.iter().filter_map(of_feature).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// By how much a step at this edge raises the logarithm of the likelihood, all else as it
    /// is: a covariance that grows by a variance times u uᵀ, whose inverse and determinant follow
    /// from those without (Sherman & Morrison; Harville, Matrix Algebra, 18.2).
    fn gain(&self, rows: &[Vec<f64>], solved: &Solved, inverse: &DMatrix<f64>) -> f64 {
        let above: Vec<usize> = (0..rows.len()).filter(|row| self.is_below(&rows[*row])).collect();
        let sum = |of: &DVector<f64>| above.iter().map(|row| of[*row]).sum::<f64>();
        let (residual, shared) = (sum(&solved.weights), sum(&solved.ones));
        // With u one above the edge and zero below: what the constant, which is fitted too, leaves
        // is the same as with plus and minus a half.
        let whole: f64 = above.iter().flat_map(|i| above.iter().map(|j| inverse[(*i, *j)])).sum();
        let beside = whole - shared * shared / solved.ones_total;
        let halves = whole - shared + 0.25 * solved.ones_total;
        0.5 * STEP * residual * residual / (1.0 + STEP * beside) - 0.5 * (STEP * halves).ln_1p()
    }
}

#[cfg(test)]
impl Edge {
    /// An edge of a feature between two values, the worse side above.
    pub(crate) fn test_between(feature: usize, low: f64, high: f64) -> Edge {
        Edge { feature, low, high, at: low }
    }
}

/// The edges that may lie between neighbouring values of a feature, and the share that each has
/// of the range that was measured, or of the feature's where that is longer.
fn between(rows: &[Vec<f64>], feature: usize) -> Vec<(Edge, f64)> {
    let mut values: Vec<f64> = rows.iter().filter_map(|row| row.get(feature).copied()).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let Some((first, last)) = values.first().zip(values.last()) else { return Vec::new() };
    let range = (last - first).max(1.0);
    let edge = |pair: &[f64]| {
        let edge = Edge { feature, low: pair[0], high: pair[1], at: pair[0] };
        (edge, (pair[1] - pair[0]) / range)
    };
    values.windows(2).map(edge).collect()
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::ablation::Noise;
    use crate::likelihood::{Data, Prior};
    use crate::random::generator;

    /// Sixty random rows of four features, with scores that rise with the first and fall
    /// by this beyond 0.65 of it, standardised.
    fn cliff(fall: f64) -> Data {
        let mut rng = generator(3, 0);
        let rows: Vec<Vec<f64>> =
            (0..60).map(|_| (0..4).map(|_| rng.random::<f64>()).collect()).collect();
        let score = |row: &Vec<f64>| {
            let fallen = if row[0] > 0.65 { fall } else { 0.0 };
            0.5 * row[0] - fallen + 0.2 * rng.random::<f64>()
        };
        let scores: Vec<f64> = rows.iter().map(score).collect();
        let middle = walwright_stats::mean(&scores).unwrap();
        let spread = walwright_stats::variance(&scores).unwrap().sqrt();
        let standard = scores.iter().map(|score| (score - middle) / spread).collect::<Vec<_>>();
        Data::new(rows, vec![0; 60], DVector::from_vec(standard))
    }

    fn start() -> Vec<f64> {
        Prior::new(4, Some(Noise { variance: 0.1, freedom: 5.0 })).start()
    }

    #[test]
    fn the_gain_is_that_of_the_likelihood() {
        let data = cliff(0.5);
        let before = data.log_likelihood(&start()).unwrap();
        let solved = data.solve(&crate::Hyper::from_flat(&start())).unwrap();
        let inverse = solved.cholesky.inverse();
        let edges = between(&data.rows, 1).into_iter().chain(between(&data.rows, 0));
        for (edge, _) in edges.step_by(7) {
            let after = data.with_edge(edge).log_likelihood(&start()).unwrap();
            let gain = edge.gain(&data.rows, &solved, &inverse);
            assert!((gain - (after - before)).abs() < 1e-6, "{gain} and {}", after - before);
        }
    }

    #[test]
    fn an_edge_is_found_where_there_is_one() {
        let found = |data: &Data| {
            let solved = data.solve(&crate::Hyper::from_flat(&start())).unwrap();
            Edge::most_probable(&data.rows, &[0, 1, 2, 3], &solved).unwrap()
        };
        let (edge, gain) = found(&cliff(0.5));
        assert_eq!(edge.feature, 0);
        assert!(edge.low <= 0.65 && 0.65 < edge.high && gain > 3.0, "{edge:?} {gain}");
        assert!(found(&cliff(0.0)).1 < 0.0);
        // What is not known belongs to the worse side.
        let middle = [0.5 * (edge.low + edge.high)];
        assert!(edge.cautious(true).is_below(&middle));
        assert!(!edge.cautious(false).is_below(&middle));
        let at_ends = |edge: Edge| [edge.low, edge.high].map(|at| edge.is_below(&[at]));
        for one in [edge.cautious(true), edge.cautious(false), edge.half_way()] {
            assert_eq!(at_ends(one), [false, true]);
        }
        let solved = cliff(0.5).solve(&crate::Hyper::from_flat(&start())).unwrap();
        let elsewhere = Edge::most_probable(&cliff(0.5).rows, &[1, 2, 3], &solved).unwrap();
        assert!(elsewhere.1 < 0.0, "{elsewhere:?}");
    }

    #[test]
    fn shares_of_a_range_add_up_to_one_at_most() {
        let share = |values: &[f64]| -> f64 {
            let rows: Vec<Vec<f64>> = values.iter().map(|value| vec![*value]).collect();
            between(&rows, 0).iter().map(|(_, share)| share).sum()
        };
        assert_eq!(share(&[0.0, 0.4, 0.4, 0.5]), 0.5);
        assert_eq!(share(&[-2.0, 0.4, 3.0]), 1.0);
        assert_eq!((share(&[0.3, 0.3]), share(&[])), (0.0, 0.0));
    }
}
