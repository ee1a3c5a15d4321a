//! The sign-flip test: is the mean of paired differences zero?

use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::resampling::generator;

/// Up to this many differences all sign patterns are tried (about a million).
const EXACT_UP_TO: usize = 20;
/// Patterns drawn beyond that.
const DRAWN: u32 = 99_999;

/// The outcome of a sign-flip test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SignFlip {
    /// Two-sided p-value.
    pub p_value: f64,
    /// The smallest p-value that so many differences can give.
    pub smallest_p: f64,
    /// Whether all patterns were tried (else a sample of them was drawn).
    pub exact: bool,
}

/// The smallest two-sided p-value of a sign-flip test with `blocks` differences,
/// 2 / 2^blocks: 0.25 for 3, 0.0625 for 5, 0.03125 for 6.
pub fn smallest_sign_flip_p(blocks: usize) -> f64 {
    i32::try_from(blocks).map_or(0.0, |n| 2.0_f64.powi(1 - n)).min(1.0)
}

/// Two-sided test that the differences are symmetric around zero (Fisher's
/// randomisation test): the share of sign patterns whose |sum| is at least the
/// observed one. In a randomised block experiment it assumes nothing else.
///
/// Exact up to 20 differences, otherwise by 99,999 random patterns from `seed`
/// with the observed one counted in, so that p is never 0. `None` when empty or
/// when a difference is not finite.
pub fn sign_flip_test(differences: &[f64], seed: u64) -> Option<SignFlip> {
    let n = differences.len();
    if n == 0 || differences.iter().any(|d| !d.is_finite()) {
        return None;
    }
    let size: f64 = differences.iter().map(|d| d.abs()).sum();
    // Sums that are equal but for rounding count as equal.
    let observed = differences.iter().sum::<f64>().abs() - 1e-9 * size;
    let smallest_p = smallest_sign_flip_p(n);
    if n > EXACT_UP_TO {
        let mut rng = generator(seed);
        let as_large = (0..DRAWN)
            .filter(|_| {
                let sum: f64 =
                    differences.iter().map(|d| if rng.random::<bool>() { *d } else { -d }).sum();
                sum.abs() >= observed
            })
            .count();
        let p_value = (as_large + 1) as f64 / f64::from(DRAWN + 1);
        let smallest_p = smallest_p.max(1.0 / f64::from(DRAWN + 1));
        return Some(SignFlip { p_value, smallest_p, exact: false });
    }
    // Gray code: each pattern differs from the last in one sign. The pattern and
    // its mirror give the same |sum|, so the last sign stays.
    let patterns = 1_u32 << (n - 1);
    let mut signs = vec![1.0; n];
    let mut sum: f64 = differences.iter().sum();
    let mut as_large = 0_u32;
    for pattern in 1..=patterns {
        if sum.abs() >= observed {
            as_large += 1;
        }
        let flipped = pattern.trailing_zeros() as usize;
        sum -= 2.0 * signs[flipped] * differences[flipped];
        signs[flipped] = -signs[flipped];
    }
    Some(SignFlip { p_value: f64::from(as_large) / f64::from(patterns), smallest_p, exact: true })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::synthetic::Synthetic;

    #[test]
    fn the_smallest_p_values_are_known() {
        for (blocks, p) in [(1, 1.0), (3, 0.25), (5, 0.0625), (6, 0.03125)] {
            let same_sign: Vec<f64> = (1..=blocks).map(|i| 0.1 * f64::from(i)).collect();
            let test = sign_flip_test(&same_sign, 0).unwrap();
            assert_eq!((test.p_value, test.smallest_p, test.exact), (p, p, true), "{blocks}");
        }
        assert_eq!(smallest_sign_flip_p(0), 1.0);
    }

    #[test]
    fn no_difference_has_p_one() {
        assert_eq!(sign_flip_test(&[0.0; 6], 0).unwrap().p_value, 1.0);
        assert_eq!(sign_flip_test(&[1.0, -1.0, 2.0, -2.0], 0).unwrap().p_value, 1.0);
    }

    #[test]
    fn a_worked_case() {
        // Sums of ±1 ±2 ±3 at least |1 + 2 − 3| = 0 in size: all of them;
        // at least |−1 + 2 + 3| = 4: ±6 and ±4, 4 of 8.
        assert_eq!(sign_flip_test(&[1.0, 2.0, -3.0], 0).unwrap().p_value, 1.0);
        assert_eq!(sign_flip_test(&[-1.0, 2.0, 3.0], 0).unwrap().p_value, 0.5);
    }

    #[test]
    fn false_positives_stay_at_the_level() {
        let rejected = (0..2_000_u64)
            .filter(|seed| {
                let noise = Synthetic::new(*seed).noise(8, 0.0, 0.03);
                sign_flip_test(&noise, 0).unwrap().p_value <= 0.05
            })
            .count();
        // The level attained is 12/256 = 4.7 %; 2.5 standard deviations of 2000 draws.
        assert!((70..=118).contains(&rejected), "{rejected} of 2000");
    }

    #[test]
    fn drawn_patterns_agree_with_all_patterns() {
        let differences = Synthetic::new(5).noise(20, 0.4, 1.0);
        let exact = sign_flip_test(&differences, 0).unwrap();
        let mut more = differences.clone();
        more.push(0.0);
        let drawn = sign_flip_test(&more, 1).unwrap();
        assert!(exact.exact && !drawn.exact);
        assert!((exact.p_value - drawn.p_value).abs() < 0.006, "{exact:?} {drawn:?}");
        let clear = sign_flip_test(&[1.0; 40], 1).unwrap();
        assert!(clear.p_value > 0.0 && clear.p_value < 2e-5);
    }

    proptest! {
        #[test]
        fn gray_code_tries_every_pattern_once(d in prop::collection::vec(-1.0..1.0, 1..9)) {
            let observed = d.iter().sum::<f64>().abs() - 1e-9;
            let patterns = 1_u32 << d.len();
            let by_hand = (0..patterns)
                .filter(|p| {
                    let sum: f64 = d
                        .iter()
                        .enumerate()
                        .map(|(i, x)| if p >> i & 1 == 1 { *x } else { -x })
                        .sum();
                    sum.abs() >= observed
                })
                .count();
            let p = sign_flip_test(&d, 0).unwrap().p_value;
            prop_assert!((p - by_hand as f64 / f64::from(patterns)).abs() < 1e-12);
        }
    }
}
