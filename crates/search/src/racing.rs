//! A challenger against the incumbent, in alternating order, for as long as it may win.

use walwright_stats::mean;

use crate::acquisition::normal_cdf;

/// Replicates of each after each round.
pub const ROUNDS: [u32; 3] = [1, 2, 4];
/// Below this probability of being better a challenger is dropped.
pub const DROP_BELOW: f64 = 0.1;

/// What comes next in a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// These runs in this order, `true` for the challenger.
    Run(&'static [bool]),
    /// The challenger lost.
    Lost,
    /// All rounds are run and the challenger is the likelier one to be better.
    Won,
}

/// What comes after so many complete pairs with these differences, challenger minus
/// incumbent, where one measurement has the standard deviation `sigma`. The rounds make
/// the order A B, B A, A B B A: steady drift cancels in each pair of pairs.
pub fn next(differences: &[f64], sigma: f64) -> Next {
    const FIRST: [bool; 2] = [false, true];
    const SECOND: [bool; 2] = [true, false];
    const THIRD: [bool; 4] = [false, true, true, false];
    let better = probability_better(differences, sigma);
    match differences.len() {
        0 => Next::Run(&FIRST),
        _ if better < DROP_BELOW => Next::Lost,
        1 => Next::Run(&SECOND),
        2 | 3 => Next::Run(&THIRD),
        _ if better > 0.5 => Next::Won,
        _ => Next::Lost,
    }
}

/// Probability that the challenger is better, given paired differences: normal, with a
/// deviation of each difference of sqrt(2) sigma. A half where nothing is known.
pub fn probability_better(differences: &[f64], sigma: f64) -> f64 {
    let Some(center) = mean(differences) else { return 0.5 };
    let error = sigma * (2.0 / differences.len() as f64).sqrt();
    if error <= 0.0 {
        return if center > 0.0 { 1.0 } else { 0.0 };
    }
    normal_cdf(center / error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_race_takes_up_to_four_replicates() {
        let mut differences = Vec::new();
        let mut runs = Vec::new();
        while let Next::Run(order) = next(&differences, 0.05) {
            runs.extend_from_slice(order);
            let challengers = order.iter().filter(|c| **c).count();
            differences.extend(std::iter::repeat_n(0.02, challengers));
            assert!(ROUNDS.contains(&(differences.len() as u32)));
        }
        assert_eq!(next(&differences, 0.05), Next::Won);
        assert_eq!(runs, [false, true, true, false, false, true, true, false]);
    }

    #[test]
    fn a_hopeless_challenger_is_dropped_at_once() {
        assert_eq!(next(&[-0.2], 0.05), Next::Lost);
        assert!(matches!(next(&[-0.02], 0.05), Next::Run(_)));
        assert_eq!(next(&[0.1, -0.1, 0.05, -0.06], 0.05), Next::Lost);
    }

    #[test]
    fn probability_follows_from_the_noise() {
        assert!((probability_better(&[0.0, 0.0], 0.1) - 0.5).abs() < 1e-9);
        // 1.2816 standard errors below.
        let low = -1.2816 * 0.1 * std::f64::consts::SQRT_2;
        assert!((probability_better(&[low], 0.1) - 0.1).abs() < 1e-4);
        assert_eq!(probability_better(&[], 0.1), 0.5);
        assert_eq!(probability_better(&[1.0], 0.0), 1.0);
    }
}
