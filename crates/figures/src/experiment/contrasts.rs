//! Main effects and interactions of a factorial design.

use super::Arm;
use super::judge::geometric_mean;

/// The contrasts of `factors` switched on and off in every combination, as pairs of an
/// arm and its baseline that [`super::judge()`] takes.
///
/// `cells` holds the value of every combination in every block; bit `i` of its place
/// says whether factor `i` is on, so place 0 is the baseline. A main effect is the geometric mean
/// of all combinations with the factor over that of all without it. An interaction of
/// two factors is the ratio of the effect of one where the other is on to its effect
/// where the other is off: +5 % means that both together give 5 % more than the
/// product of what each gives alone. A block in which any combination is missing
/// counts for none; one in which any is not above zero has no ratio.
///
/// Returns name, baseline and arm of each.
pub fn contrasts(factors: &[String], cells: &[Vec<Option<f64>>]) -> Vec<(Arm, Vec<Option<f64>>)> {
    let blocks = cells.iter().map(Vec::len).max().unwrap_or(0);
    let mut all = Vec::new();
    let mut push = |name: String, is_high: &dyn Fn(usize) -> bool, power: f64| {
        let side = |block: usize, high: bool| {
            let chosen: Option<Vec<f64>> = cells
                .iter()
                .enumerate()
                .map(|(place, values)| {
                    let value = values.get(block).copied().flatten();
                    value.map(|value| (is_high(place) == high).then_some(value))
                })
                .collect::<Option<Vec<_>>>()
                .map(|sides| sides.into_iter().flatten().collect());
            // One value of zero makes the mean of all zero, which has no ratio. Without it the block
            // would only be left out.
            chosen.map(|values| geometric_mean(&values).map_or(0.0, |mean| mean.powf(power)))
        };
        let values = (0..blocks).map(|block| side(block, true)).collect();
        let base = (0..blocks).map(|block| side(block, false)).collect();
        all.push((Arm { name, values }, base));
    };
    let on = |place: usize, factor: usize| place >> factor & 1 == 1;
    for (factor, name) in factors.iter().enumerate() {
        push(name.clone(), &|place| on(place, factor), 1.0);
    }
    for (first, one) in factors.iter().enumerate() {
        for (second, other) in factors.iter().enumerate().skip(first + 1) {
            // The mean over half of the combinations holds half of the ratio of ratios.
            push(format!("{one} × {other}"), &|place| on(place, first) == on(place, second), 2.0);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> Vec<String> {
        of.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn main_effects_and_interactions_are_those_planted() {
        // a gives 20 %, b takes 10 %, both together 5 % more than their product, and c nothing.
        let value = |place: usize| {
            let (a, b) = (place & 1 == 1, place >> 1 & 1 == 1);
            let factor = |on: bool, by: f64| if on { by } else { 1.0 };
            500.0 * factor(a, 1.2) * factor(b, 0.9) * factor(a && b, 1.05)
        };
        let cells: Vec<Vec<Option<f64>>> = (0..8).map(|place| vec![Some(value(place))]).collect();
        let found = contrasts(&names(&["a", "b", "c"]), &cells);
        let ratio = |name: &str| {
            let (arm, base) = found.iter().find(|(arm, _)| arm.name == name).unwrap();
            arm.values[0].unwrap() / base[0].unwrap()
        };
        // Half of the combinations of a have b, too.
        assert!((ratio("a") - 1.2 * 1.05_f64.sqrt()).abs() < 1e-9);
        assert!((ratio("b") - 0.9 * 1.05_f64.sqrt()).abs() < 1e-9);
        assert!((ratio("c") - 1.0).abs() < 1e-9);
        assert!((ratio("a × b") - 1.05).abs() < 1e-9);
        assert!((ratio("a × c") - 1.0).abs() < 1e-9);
        assert_eq!(found.len(), 6);
    }

    #[test]
    fn a_block_with_a_hole_counts_for_none() {
        let cells = vec![vec![Some(1.0), Some(1.0)], vec![Some(2.0), None]];
        let found = contrasts(&names(&["a"]), &cells);
        assert_eq!(found[0].0.values, [Some(2.0), None]);
        assert_eq!(found[0].1, [Some(1.0), None]);
    }

    #[test]
    fn a_block_with_a_zero_has_no_ratio() {
        let cells = [1.0, 2.0, 0.0, 4.0].map(|value| vec![Some(value)]).to_vec();
        let found = contrasts(&names(&["a", "b"]), &cells);
        assert!(found[0].0.values[0].unwrap() > 2.8);
        assert_eq!(found[0].1, [Some(0.0)]);
    }
}
