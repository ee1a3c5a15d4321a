//! An edge: a value of one feature beyond which scores lie higher or lower by a constant, as
//! where a server runs out of something. A smooth process takes one for a slope, and judges what
//! lies just before it by what lies beyond.

use nalgebra::{DMatrix, DVector};

use crate::likelihood::Solved;

/// Edges that are expected among all features, before anything is measured.
const EXPECTED: f64 = 1.0;
/// Variance of what it is worth, in units of that of the scores.
pub(crate) const STEP: f64 = 4.0;
/// Distinct values from which a feature is a scale on which something can lie beyond: marks
/// have two.
const SCALE: usize = 3;

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
    /// Whether a configuration with these features lies above it.
    pub(crate) fn lies_below(&self, features: &[f64]) -> bool {
        features.get(self.feature).is_some_and(|value| *value > self.at)
    }

    /// The same edge where all between the two values belongs to the worse side. `above` is
    /// what lying above it is worth.
    pub(crate) fn cautious(self, above: f64) -> Edge {
        Edge { at: if above < 0.0 { self.low } else { self.high.next_down() }, ..self }
    }

    /// The same edge half-way between the two values.
    pub(crate) fn half_way(self) -> Edge {
        Edge { at: 0.5 * (self.low + self.high), ..self }
    }

    /// The logarithm of the chance that the edge is this one, before anything is measured: each
    /// of so many features may have it, and anywhere.
    fn log_chance(&self, features: usize) -> f64 {
        (EXPECTED * (self.high - self.low) / features as f64).ln()
    }

    /// The edge that explains most of what a process without one leaves, and by how much the
    /// logarithm of the likelihood is higher with an edge, wherever it lies: the mean over all,
    /// each weighted with its chance. `rows` are features, `solved` the process without. `None`
    /// where nothing is a scale.
    pub(crate) fn most_probable(rows: &[Vec<f64>], solved: &Solved) -> Option<(Edge, f64)> {
        let features = rows.first()?.len();
        let inverse = solved.cholesky.inverse();
        let edges: Vec<(Edge, f64)> = (0..features)
            .flat_map(|feature| between(rows, feature))
            .map(|edge| (edge, edge.gain(rows, solved, &inverse) + edge.log_chance(features)))
            .collect();
        let (edge, highest) = edges.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let all: f64 = edges.iter().map(|(_, gain)| (gain - highest).exp()).sum();
        Some((*edge, highest + all.ln()))
    }

    /// By how much a step at this edge raises the logarithm of the likelihood, all else as it
    /// is: a covariance that grows by s² u uᵀ, whose inverse and determinant follow from those
    /// without (Sherman & Morrison; Harville, Matrix Algebra, 18.2).
    fn gain(&self, rows: &[Vec<f64>], solved: &Solved, inverse: &DMatrix<f64>) -> f64 {
        let above: Vec<usize> =
            (0..rows.len()).filter(|row| self.lies_below(&rows[*row])).collect();
        let sum = |of: &DVector<f64>| above.iter().map(|row| of[*row]).sum::<f64>();
        let own: f64 = above.iter().flat_map(|i| above.iter().map(|j| inverse[(*i, *j)])).sum();
        // The constant is fitted too, and may explain some of it.
        let (residual, shared) = (sum(&solved.weights), sum(&solved.ones));
        let beside = own - shared * shared / solved.ones_total;
        0.5 * STEP * residual * residual / (1.0 + STEP * beside) - 0.5 * (STEP * own).ln_1p()
    }
}

/// The edges that may lie between neighbouring values of a feature.
fn between(rows: &[Vec<f64>], feature: usize) -> Vec<Edge> {
    let mut values: Vec<f64> = rows.iter().map(|row| row[feature]).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    if values.len() < SCALE {
        return Vec::new();
    }
    let edge = |pair: &[f64]| Edge { feature, low: pair[0], high: pair[1], at: pair[0] };
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
        for edge in between(&data.rows, 1).into_iter().chain(between(&data.rows, 0)).step_by(7) {
            let after = data.with_edge(edge).log_likelihood(&start()).unwrap();
            let gain = edge.gain(&data.rows, &solved, &inverse);
            assert!((gain - (after - before)).abs() < 1e-6, "{gain} and {}", after - before);
        }
    }

    #[test]
    fn an_edge_is_found_where_there_is_one() {
        let found = |data: &Data| {
            let solved = data.solve(&crate::Hyper::from_flat(&start())).unwrap();
            Edge::most_probable(&data.rows, &solved).unwrap()
        };
        let (edge, gain) = found(&cliff(0.5));
        assert_eq!(edge.feature, 0);
        assert!(edge.low <= 0.65 && 0.65 < edge.high && gain > 3.0, "{edge:?} {gain}");
        assert!(found(&cliff(0.0)).1 < 0.0);
        // What is not known belongs to the worse side.
        let middle = [0.5 * (edge.low + edge.high)];
        assert!(edge.cautious(-1.0).lies_below(&middle));
        assert!(!edge.cautious(1.0).lies_below(&middle));
        let at_ends = |edge: Edge| [edge.low, edge.high].map(|at| edge.lies_below(&[at]));
        for one in [edge.cautious(-1.0), edge.cautious(1.0), edge.half_way()] {
            assert_eq!(at_ends(one), [false, true]);
        }
    }

    #[test]
    fn marks_have_no_edge() {
        assert!(between(&[vec![0.0], vec![1.0], vec![1.0]], 0).is_empty());
        assert_eq!(between(&[vec![0.0], vec![0.4], vec![1.0]], 0).len(), 2);
    }
}
