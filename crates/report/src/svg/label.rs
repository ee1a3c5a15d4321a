//! Labels beside lines: near what they name, never on each other.

/// Moves places apart until neighbours are `gap` from each other, all between
/// `top` and `bottom`, each as near to where it wanted to be as order allows.
/// The result is in the order of the input.
pub(crate) fn spread(wanted: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let mut placed = vec![0.0; wanted.len()];
    let mut free = top;
    for &i in &order {
        placed[i] = wanted[i].max(free);
        free = placed[i] + gap;
    }
    let mut limit = bottom;
    for &i in order.iter().rev() {
        placed[i] = placed[i].min(limit);
        limit = placed[i] - gap;
    }
    placed
}

/// A name of at most `most` letters; a longer one ends in an ellipsis.
pub(crate) fn shortened(name: &str, most: usize) -> String {
    match name.char_indices().nth(most) {
        None => name.to_owned(),
        Some(_) => name.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_end_in_an_ellipsis() {
        assert_eq!(shortened("walwriter", 9), "walwriter");
        assert_eq!(shortened("ä longer name", 9), "ä longer…");
    }

    #[test]
    fn labels_keep_their_order_and_distance() {
        let placed = spread(&[50.0, 10.0, 11.0, 99.0, 98.0], 15.0, 5.0, 100.0);
        assert_eq!(placed, [50.0, 10.0, 25.0, 100.0, 85.0]);
    }
}
