//! Correction for testing several arms at once.

/// Holm's adjusted p-values, in the order given: reject where they are at most
/// the level, and the chance of any false rejection stays at most the level
/// (Holm, Scandinavian Journal of Statistics 6, 1979).
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut largest = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        let factor = (p_values.len() - rank) as f64;
        largest = largest.max((factor * p_values[index]).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn adjusted_values_are_those_of_r() {
        // R: p.adjust(c(.01, .04, .03, .005), "holm")
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (a, b) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((a - b).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(holm(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn adjusting_keeps_order_and_never_lowers(p in prop::collection::vec(0.0..=1.0, 1..20)) {
            let adjusted = holm(&p);
            for i in 0..p.len() {
                prop_assert!(adjusted[i] >= p[i] && adjusted[i] <= 1.0);
                for j in 0..p.len() {
                    prop_assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}
