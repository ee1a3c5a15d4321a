//! A challenger against the incumbent, in alternating order, for as long as it may win.

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

/// What comes after so many complete pairs, where the challenger is the better one with
/// this probability. The rounds make the order A B, B A, A B B A: steady drift cancels in
/// each pair of pairs.
pub fn next(pairs: usize, better: f64) -> Next {
    const FIRST: [bool; 2] = [false, true];
    const SECOND: [bool; 2] = [true, false];
    const THIRD: [bool; 4] = [false, true, true, false];
    match pairs {
        0 => Next::Run(&FIRST),
        _ if better < DROP_BELOW => Next::Lost,
        1 => Next::Run(&SECOND),
        2 | 3 => Next::Run(&THIRD),
        _ if better > 0.5 => Next::Won,
        _ => Next::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_race_takes_up_to_four_replicates() {
        let mut pairs = 0;
        let mut runs = Vec::new();
        while let Next::Run(order) = next(pairs, 0.6) {
            runs.extend_from_slice(order);
            pairs += order.len() / 2;
            assert!([1, 2, 4].contains(&pairs));
        }
        assert_eq!(next(pairs, 0.6), Next::Won);
        assert_eq!(runs, [false, true, true, false, false, true, true, false]);
    }

    #[test]
    fn a_hopeless_challenger_is_dropped_at_once() {
        assert_eq!(next(1, 0.05), Next::Lost);
        assert!(matches!(next(1, 0.3), Next::Run(_)));
        assert_eq!(next(4, 0.45), Next::Lost);
    }
}
