//! Mean, variance, quantiles.

/// Mean and variance in one pass, by Welford's recurrence (Technometrics 4, 1962),
/// which does not cancel when the mean is large against the spread.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    count: usize,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// No observation yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one observation.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
    }

    /// Adds all observations of `other` (Chan, Golub and LeVeque, 1979).
    pub fn merge(&mut self, other: &Moments) {
        if other.count == 0 {
            return;
        }
        let (n, m) = (self.count as f64, other.count as f64);
        let delta = other.mean - self.mean;
        self.mean += delta * m / (n + m);
        self.squares += other.squares + delta * delta * n * m / (n + m);
        self.count += other.count;
    }

    /// Number of observations.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Arithmetic mean; `None` without observations.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// Sample variance with n − 1 below the line; `None` below two observations.
    pub fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| self.squares / (self.count - 1) as f64)
    }

    /// Square root of [`variance`](Self::variance).
    pub fn standard_deviation(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }
}

impl FromIterator<f64> for Moments {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut moments = Moments::new();
        values.into_iter().for_each(|v| moments.add(v));
        moments
    }
}

/// Arithmetic mean; `None` when empty.
pub fn mean(values: &[f64]) -> Option<f64> {
    values.iter().copied().collect::<Moments>().mean()
}

/// Sample variance (n − 1); `None` below two values.
pub fn variance(values: &[f64]) -> Option<f64> {
    values.iter().copied().collect::<Moments>().variance()
}

/// Standard deviation over mean; `None` below two values or at a mean of zero.
pub fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let moments: Moments = values.iter().copied().collect();
    let mean = moments.mean().filter(|m| *m != 0.0)?;
    Some(moments.standard_deviation()? / mean.abs())
}

/// The quantile `q` (0 to 1) by linear interpolation between order statistics at
/// position (n − 1)·q: type 7 of Hyndman and Fan (1996), the default of R and NumPy.
/// `None` when empty, when `q` is outside 0 to 1, or when a value is not a number.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    if values.is_empty() || !(0.0..=1.0).contains(&q) || values.iter().any(|v| v.is_nan()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(quantile_of_sorted(&sorted, q))
}

/// [`quantile`] of values already ascending and not empty, with `q` in 0 to 1.
pub(crate) fn quantile_of_sorted(sorted: &[f64], q: f64) -> f64 {
    let position = (sorted.len() - 1) as f64 * q;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64)
}

/// The middle value, or the mean of the middle two; `None` when empty.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantiles_are_those_of_r_type_7() {
        // R: quantile(c(1, 2, 4, 8), c(.25, .5, .9))
        let values = [8.0, 1.0, 4.0, 2.0];
        assert_eq!(quantile(&values, 0.25), Some(1.75));
        assert_eq!(quantile(&values, 0.5), Some(3.0));
        assert!((quantile(&values, 0.9).unwrap() - 6.8).abs() < 1e-12);
        assert_eq!(quantile(&values, 1.0), Some(8.0));
    }

    #[test]
    fn nothing_has_no_statistic() {
        assert_eq!(mean(&[]), None);
        assert_eq!(variance(&[1.0]), None);
        assert_eq!(median(&[]), None);
        assert_eq!(quantile(&[1.0], 1.1), None);
        assert_eq!(median(&[1.0, f64::NAN]), None);
        assert_eq!(coefficient_of_variation(&[-1.0, 1.0]), None);
    }

    #[test]
    fn a_large_mean_does_not_eat_the_variance() {
        let values: Vec<f64> = [4.0, 7.0, 13.0, 16.0].iter().map(|v| v + 1e9).collect();
        assert_eq!(variance(&values), Some(30.0));
    }

    proptest! {
        #[test]
        fn merging_moments_equals_adding_all(
            a in prop::collection::vec(-1e3..1e3, 0..40),
            b in prop::collection::vec(-1e3..1e3, 2..40),
        ) {
            let mut merged: Moments = a.iter().copied().collect();
            merged.merge(&b.iter().copied().collect());
            let all: Moments = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(merged.count(), all.count());
            prop_assert!((merged.mean().unwrap() - all.mean().unwrap()).abs() < 1e-9);
            prop_assert!((merged.variance().unwrap() - all.variance().unwrap()).abs() < 1e-6);
        }

        #[test]
        fn a_quantile_lies_between_its_neighbours(
            values in prop::collection::vec(-1e3..1e3, 1..50), q in 0.0..=1.0,
        ) {
            let at = quantile(&values, q).unwrap();
            let below = values.iter().filter(|v| **v <= at + 1e-9).count() as f64;
            prop_assert!(below >= ((values.len() - 1) as f64 * q).floor() + 1.0);
        }
    }
}
