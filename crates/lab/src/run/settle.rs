//! Where the measured window begins, and when there is enough of it.

use std::time::Duration;

use walwright_record::LoadInterval;
use walwright_stats::{SteadyRule, SteadyState, Truncation, mser5, steady_state};

/// Longest warm-up that is waited for, beyond a window as long again.
const LONGEST_WARM_UP: Duration = Duration::from_secs(60);
/// Shortest warm-up: connecting, first plans and cold caches always fall into it.
const SHORTEST_WARM_UP: Duration = Duration::from_secs(2);

/// Decides on the window as the intervals come in.
pub(super) struct Settling {
    wanted: Duration,
    fixed: Option<Duration>,
    rates: Vec<f64>,
    lengths: Vec<Duration>,
    /// Where MSER-5 last saw the warm-up end.
    settled: Option<usize>,
}

/// How the load stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Standing {
    /// Index of the first interval of the window as it looks now, once it has begun.
    pub from: Option<usize>,
    /// Length of the window so far.
    pub measured: Duration,
    /// Whether there is enough.
    pub done: bool,
}

impl Settling {
    /// `fixed` is a warm-up that the person chose; otherwise it is found.
    pub fn new(wanted: Duration, fixed: Option<Duration>) -> Settling {
        Settling { wanted, fixed, rates: Vec::new(), lengths: Vec::new(), settled: None }
    }

    /// Takes the next interval in.
    pub fn push(&mut self, interval: &LoadInterval) -> Standing {
        let transactions: u64 = interval.scripts.iter().map(|s| s.transactions).sum();
        self.rates.push(transactions as f64 / interval.length.as_secs_f64().max(1e-3));
        self.lengths.push(interval.length);
        let Some(from) = self.begin() else {
            return Standing { from: None, measured: Duration::ZERO, done: false };
        };
        let measured = self.length_from(from);
        let done = match self.fixed {
            Some(_) => measured >= self.wanted,
            None => self.enough(measured),
        };
        Standing { from: Some(from), measured: measured.min(self.wanted), done }
    }

    /// The first interval of the window, by a cheap rule that can be asked each second.
    ///
    /// MSER-5 changes its mind on noisy series; where it sees no settled part now, its
    /// last answer stands, and the full test decides in the end.
    fn begin(&mut self) -> Option<usize> {
        let earliest = self.first_after(self.fixed.unwrap_or(SHORTEST_WARM_UP))?;
        if self.fixed.is_some() {
            return Some(earliest);
        }
        if let Truncation::At { from } = mser5(&self.rates) {
            self.settled = Some(from);
        }
        self.settled.map(|from| from.max(earliest))
    }

    fn enough(&self, measured: Duration) -> bool {
        let all: Duration = self.lengths.iter().sum();
        if all >= self.wanted + LONGEST_WARM_UP.min(self.wanted.max(SHORTEST_WARM_UP)) {
            return true;
        }
        measured >= self.wanted && self.verdict().is_some()
    }

    /// Index of the first interval that begins `warm_up` after the start or later.
    fn first_after(&self, warm_up: Duration) -> Option<usize> {
        let mut begun = Duration::ZERO;
        for (index, length) in self.lengths.iter().enumerate() {
            if begun >= warm_up {
                return Some(index);
            }
            begun += *length;
        }
        None
    }

    fn length_from(&self, from: usize) -> Duration {
        self.lengths[from..].iter().sum()
    }

    /// Where the load is steady from, by the full test.
    fn verdict(&self) -> Option<usize> {
        let wanted = self.wanted.as_secs() as usize;
        let rule = SteadyRule { shortest: wanted.clamp(3, 10), ..SteadyRule::default() };
        match steady_state(&self.rates, &rule) {
            SteadyState::Steady { from } => Some(from),
            SteadyState::NotSteady { .. } => None,
        }
    }

    /// The window in the end, as (first interval, whether the load was steady in it).
    /// `None` when no interval lies after the warm-up.
    pub fn window(&self) -> Option<(usize, bool)> {
        if self.lengths.is_empty() {
            return None;
        }
        if let Some(fixed) = self.fixed {
            let from = self.first_after(fixed)?;
            return Some((from, self.steady_from(from)));
        }
        let earliest = self.first_after(SHORTEST_WARM_UP)?;
        if let Some(from) = self.verdict() {
            return Some((from.max(earliest), true));
        }
        // Never settled: the last stretch of the wanted length is the best there is.
        let mut from = self.lengths.len();
        while from > earliest && self.length_from(from) < self.wanted {
            from -= 1;
        }
        Some((from.min(self.lengths.len() - 1), false))
    }

    fn steady_from(&self, from: usize) -> bool {
        let rest = &self.rates[from..];
        let rule = SteadyRule { shortest: rest.len().clamp(1, 10), ..SteadyRule::default() };
        matches!(steady_state(rest, &rule), SteadyState::Steady { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walwright_record::{ScriptInterval, SparseHistogram, Timestamp};

    fn second(transactions: u64) -> LoadInterval {
        LoadInterval {
            start: Timestamp(0),
            length: Duration::from_secs(1),
            scripts: vec![ScriptInterval { transactions, ..ScriptInterval::default() }],
            clients: 1,
            due: 0,
            skipped: 0,
            late: 0,
            lag: SparseHistogram::default(),
            driver_cpu: Duration::ZERO,
            busiest_thread_cpu: Duration::ZERO,
        }
    }

    /// A rate around 1000 a second that wobbles in a fixed pattern.
    fn wobbling(second_number: u64) -> u64 {
        1_000 + [0, 13, 7, -11, 4, -6, 9, -14, 2, -4][second_number as usize % 10].max(0) as u64
    }

    fn drive(settling: &mut Settling, rate: impl Fn(u64) -> u64) -> u64 {
        for n in 0..1_000 {
            if settling.push(&second(rate(n))).done {
                return n + 1;
            }
        }
        panic!("the load never ends");
    }

    #[test]
    fn a_fixed_warm_up_is_left_out_and_the_window_is_as_long_as_asked() {
        let mut settling = Settling::new(Duration::from_secs(30), Some(Duration::from_secs(5)));
        assert_eq!(drive(&mut settling, wobbling), 35);
        assert_eq!(settling.window().unwrap().0, 5);
    }

    #[test]
    fn a_slow_start_is_found_and_left_out() {
        let mut settling = Settling::new(Duration::from_secs(60), None);
        let seconds = drive(&mut settling, |n| if n < 12 { 400 + 40 * n } else { wobbling(n) });
        let (from, steady) = settling.window().unwrap();
        assert!((10..=20).contains(&from), "{from}");
        assert!(steady);
        assert!(seconds - from as u64 >= 60, "{seconds} seconds, window from {from}");
    }

    #[test]
    fn a_load_that_never_settles_ends_and_says_so() {
        let mut settling = Settling::new(Duration::from_secs(30), None);
        // Falls by half in the middle of whatever window is taken.
        let seconds = drive(&mut settling, |n| if n % 40 < 20 { 1_000 } else { 400 });
        assert!(seconds <= 60, "{seconds}");
        let (from, steady) = settling.window().unwrap();
        assert!(!steady);
        assert!(seconds - from as u64 >= 30);
    }

    #[test]
    fn a_load_cut_short_inside_its_warm_up_has_no_window() {
        let mut settling = Settling::new(Duration::from_secs(30), None);
        settling.push(&second(1_000));
        assert_eq!(settling.window(), None);
    }
}
