//! Climbing a smooth function of a few variables whose gradient is known.

/// First step in each variable.
const FIRST_STEP: f64 = 0.3;
/// Steps grow by this while the slope keeps its sign, and shrink when it turns.
const GROW: f64 = 1.3;
const SHRINK: f64 = 0.5;
const LARGEST_STEP: f64 = 1.5;
/// Steps below this in all variables end the climb.
const SMALLEST_STEP: f64 = 3e-3;

/// The best point seen on the way up from `start` by resilient steps (Rprop, Riedmiller &
/// Braun 1993): the sign of each slope decides, its size does not, so that variables of
/// unlike scales need no line search. `f` gives value and gradient, `None` where it is
/// not defined.
pub(crate) fn climb(
    start: Vec<f64>,
    steps: usize,
    limit: f64,
    f: impl Fn(&[f64]) -> Option<(f64, Vec<f64>)>,
) -> Option<(f64, Vec<f64>)> {
    let mut at = start;
    let mut step = vec![FIRST_STEP; at.len()];
    let mut last = vec![0.0; at.len()];
    let mut best: Option<(f64, Vec<f64>)> = None;
    for _ in 0..=steps {
        let Some((value, slope)) = f(&at).filter(|(value, _)| value.is_finite()) else { break };
        if best.as_ref().is_none_or(|(highest, _)| value > *highest) {
            best = Some((value, at.clone()));
        }
        for i in 0..at.len() {
            let agreement = slope[i] * last[i];
            if agreement > 0.0 {
                step[i] = (step[i] * GROW).min(LARGEST_STEP);
            } else if agreement < 0.0 {
                step[i] *= SHRINK;
            }
            last[i] = slope[i];
            if slope[i] != 0.0 {
                at[i] = (at[i] + step[i] * slope[i].signum()).clamp(-limit, limit);
            }
        }
        if step.iter().all(|step| *step < SMALLEST_STEP) {
            break;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_the_top_of_a_narrow_ridge_and_stays_inside() {
        let f = |x: &[f64]| {
            let (a, b) = (x[0] - 2.0, x[1] + 1.0);
            Some((-(a * a + 100.0 * b * b), vec![-2.0 * a, -200.0 * b]))
        };
        let (value, top) = climb(vec![-3.0, 3.0], 200, 9.0, f).unwrap();
        assert!((top[0] - 2.0).abs() < 0.02 && (top[1] + 1.0).abs() < 0.02, "{value} {top:?}");
        let (_, top) = climb(vec![0.0, 0.0], 200, 1.0, f).unwrap();
        assert!((top[0] - 1.0).abs() < 1e-9, "{top:?}");
    }
}
