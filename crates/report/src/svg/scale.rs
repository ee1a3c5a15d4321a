//! From values to places on paper, and where ticks stand.

/// How values spread over a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    Linear,
    Log,
}

/// Maps values between `from` and `to` to places between `start` and `end`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    spread: Spread,
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// An even scale. An empty range is widened, so that it has a place for its value.
    pub(crate) fn linear(from: f64, to: f64, start: f64, end: f64) -> Scale {
        let to = if to > from { to } else { from + 1.0 };
        Scale { spread: Spread::Linear, from, to, start, end }
    }

    /// A logarithmic scale. Ends that are not above zero are moved there.
    pub(crate) fn log(from: f64, to: f64, start: f64, end: f64) -> Scale {
        let from = if from > 0.0 { from } else { f64::MIN_POSITIVE };
        let to = if to > from { to } else { from * 10.0 };
        Scale { spread: Spread::Log, from, to, start, end }
    }

    pub(crate) fn spread(&self) -> Spread {
        self.spread
    }

    pub(crate) fn to(&self) -> f64 {
        self.to
    }

    /// The place of `value`; values outside the range are put at its nearer end.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.from, self.to);
        let share = match self.spread {
            Spread::Linear => (value - self.from) / (self.to - self.from),
            Spread::Log => (value / self.from).ln() / (self.to / self.from).ln(),
        };
        self.start + share * (self.end - self.start)
    }

    /// Whether `value` lies in the range.
    pub(crate) fn holds(&self, value: f64) -> bool {
        self.from <= value && value <= self.to
    }

    /// Round values inside the range, about `wanted` of them. `unit` is the size
    /// of the unit they are written in, so that they are round in that unit.
    pub(crate) fn ticks(&self, wanted: usize, unit: f64) -> Vec<f64> {
        match self.spread {
            Spread::Linear => {
                let step = round_step((self.to - self.from) / unit / wanted.max(1) as f64) * unit;
                multiples(self.from, self.to, step)
            }
            Spread::Log => self.log_ticks(wanted),
        }
    }

    fn log_ticks(&self, wanted: usize) -> Vec<f64> {
        // An infinite end would make a tick of every integer.
        let decade = |value: f64| value.log10().clamp(-308.0, 308.0);
        let (low, high) = (decade(self.from), decade(self.to));
        let inside = |steps: &[f64]| -> Vec<f64> {
            (low.floor() as i32..=high.ceil() as i32)
                .flat_map(|e| steps.iter().map(move |m| m * 10f64.powi(e)))
                .filter(|v| *v >= self.from * (1.0 - 1e-9) && *v <= self.to * (1.0 + 1e-9))
                .collect()
        };
        let every = [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]];
        let choices = every.map(inside);
        let fits = choices.iter().find(|t| t.len() <= wanted.max(2) + 1);
        match fits {
            Some(ticks) => ticks.clone(),
            None => {
                let decades = &choices[2];
                let skip = decades.len().div_ceil(wanted.max(1));
                decades.iter().copied().step_by(skip.max(1)).collect()
            }
        }
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `least`.
pub(crate) fn round_step(least: f64) -> f64 {
    if !(least.is_finite() && least > 0.0) {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].into_iter().find(|m| m * power >= least * (1.0 - 1e-9));
    round.unwrap_or(10.0) * power
}

/// The upper end of an axis from zero that holds `most`: a round number of
/// `unit`, not much above it.
pub(crate) fn round_top(most: f64, wanted: usize, unit: f64) -> f64 {
    if !(most.is_finite() && most > 0.0) {
        return unit;
    }
    let step = round_step(most / unit / wanted.max(1) as f64);
    let half = step / 2.0;
    (most / unit / half * (1.0 - 1e-9)).ceil() * half * unit
}

/// Steps of a clock, in seconds.
const CLOCK_STEPS: [f64; 16] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
    14400.0, 43200.0,
];

/// Ticks of a time axis in seconds, at most about `wanted`.
pub(crate) fn time_ticks(from: f64, to: f64, wanted: usize) -> Vec<f64> {
    let least = (to - from) / wanted.max(1) as f64;
    let step = CLOCK_STEPS.into_iter().find(|s| *s >= least).unwrap_or_else(|| {
        let days = (least / 86_400.0).ceil().max(1.0);
        days * 86_400.0
    });
    multiples(from, to, step)
}

fn multiples(from: f64, to: f64, step: f64) -> Vec<f64> {
    let first = (from / step - 1e-9).ceil() as i64;
    let last = (to / step + 1e-9).floor() as i64;
    (first..=last.min(first + 100)).map(|i| i as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_even_or_logarithmic() {
        let even = Scale::linear(0.0, 10.0, 100.0, 0.0);
        assert_eq!(even.at(2.5), 75.0);
        assert_eq!(even.at(99.0), 0.0);
        let log = Scale::log(1e-3, 1.0, 0.0, 300.0);
        assert!((log.at(1e-2) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn ticks_are_round_in_their_unit() {
        let bytes = Scale::linear(0.0, 5.0 * 1048576.0, 0.0, 100.0);
        assert_eq!(bytes.ticks(5, 1048576.0)[1], 1048576.0);
        let log = Scale::log(0.4e-3, 0.2, 0.0, 100.0).ticks(4, 1.0);
        let shown: Vec<String> = log.iter().map(|t| format!("{t:.3}")).collect();
        assert_eq!(shown, ["0.001", "0.003", "0.010", "0.030", "0.100"]);
    }

    #[test]
    fn the_top_is_just_above() {
        assert_eq!(round_top(5312.0, 4, 1.0), 6000.0);
        assert_eq!(round_top(1.0, 4, 1.0), 1.0);
        assert_eq!(round_top(0.0, 4, 1.0), 1.0);
        assert_eq!(round_top(f64::NAN, 4, 1.0), 1.0);
    }

    #[test]
    fn clocks_tick_in_minutes_not_in_hundreds() {
        assert_eq!(time_ticks(-7.0, 70.0, 8), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0]);
        assert_eq!(time_ticks(0.0, 600.0, 8)[1], 120.0);
        assert!(time_ticks(0.0, 1e9, 8).len() < 20);
    }

    #[test]
    fn a_degenerate_range_still_has_places() {
        assert_eq!(Scale::linear(3.0, 3.0, 0.0, 10.0).at(3.0), 0.0);
        assert!(Scale::log(0.0, 0.0, 0.0, 10.0).at(1.0).is_finite());
    }
}
