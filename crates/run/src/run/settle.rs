//! Where the measured window begins, and when there is enough of it.

use std::time::Duration;

use walwright_record::{LatencyHistogram, LoadInterval};
use walwright_stats::{SteadyRule, SteadyState, Truncation, mser5, steady_state};

/// Longest warm-up that is waited for, beyond a window as long again.
const LONGEST_WARM_UP: Duration = Duration::from_secs(60);
/// Shortest warm-up: connecting, first plans and cold caches always fall into it.
const SHORTEST_WARM_UP: Duration = Duration::from_secs(2);

/// Decides on the window as the intervals come in.
pub(super) struct Settling {
    wanted: Duration,
    fixed: Option<Duration>,
    ramp: Duration,
    open_loop: bool,
    /// What is to settle: throughput or, in an open loop, where the rate is given, the
    /// median latency.
    levels: Vec<f64>,
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
    /// How much longer the load goes on at most for it to settle, where it has gone on for as
    /// long as was asked and that alone is waited for.
    pub until: Option<Duration>,
}

impl Settling {
    /// `fixed` is a warm-up that the person chose; otherwise it is found. Either begins
    /// when the `ramp` is over.
    pub fn new(
        wanted: Duration,
        fixed: Option<Duration>,
        ramp: Duration,
        open_loop: bool,
    ) -> Settling {
        let levels = Vec::new();
        Settling { wanted, fixed, ramp, open_loop, levels, lengths: Vec::new(), settled: None }
    }

    /// Takes the next interval in.
    pub fn push(&mut self, interval: &LoadInterval) -> Standing {
        self.levels.push(self.level(interval));
        self.lengths.push(interval.length);
        let from = self.begin();
        let measured = from.map_or(Duration::ZERO, |from| self.length_from(from));
        let all: Duration = self.lengths.iter().sum();
        let left = self.longest().saturating_sub(all);
        let done = match self.fixed {
            Some(_) => measured >= self.wanted,
            None => left.is_zero() || self.enough(measured),
        };
        let long_enough = all >= self.ramp.saturating_add(self.wanted);
        let waits = self.fixed.is_none() && long_enough && !done;
        let only_that = from.is_none() || measured >= self.wanted;
        let until = (waits && only_that).then_some(left);
        Standing { from, measured: measured.min(self.wanted), done, until }
    }

    /// The first interval of the window, by a cheap rule that can be asked each second.
    ///
    /// MSER-5 changes its mind on noisy series; where it sees no settled part now, its
    /// last answer stands, and the full test decides in the end.
    fn begin(&mut self) -> Option<usize> {
        let earliest = self.earliest()?;
        if self.fixed.is_some() {
            return Some(earliest);
        }
        if let Truncation::At { from } = mser5(&self.levels) {
            self.settled = Some(from);
        }
        self.settled.map(|from| from.max(earliest))
    }

    /// What is to settle.
    pub fn watched(&self) -> &'static str {
        if self.open_loop { "median latency" } else { "throughput" }
    }

    fn level(&self, interval: &LoadInterval) -> f64 {
        if !self.open_loop {
            let transactions = walwright_figures::transactions(interval) as f64;
            return transactions / interval.length.as_secs_f64().max(1e-3);
        }
        let mut latency = LatencyHistogram::new();
        for script in &interval.scripts {
            script.latency.add_to(&mut latency);
        }
        latency.percentile(50.0).map_or(0.0, |median| median.as_secs_f64())
    }

    fn enough(&self, measured: Duration) -> bool {
        let settled = || self.verdict().map(|from| self.length_from(from));
        measured >= self.wanted && settled().is_some_and(|length| length >= self.wanted)
    }

    /// How long the load goes on at most, settled or not.
    fn longest(&self) -> Duration {
        let patience = LONGEST_WARM_UP.min(self.wanted.max(SHORTEST_WARM_UP));
        self.ramp.saturating_add(self.wanted).saturating_add(patience)
    }

    /// The first interval that may belong to the window.
    fn earliest(&self) -> Option<usize> {
        self.first_after(self.ramp.saturating_add(self.fixed.unwrap_or(SHORTEST_WARM_UP)))
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
        match steady_state(&self.levels, &rule) {
            SteadyState::Steady { from } => Some(from.max(self.earliest()?)),
            SteadyState::NotSteady { .. } => None,
        }
    }

    /// The window in the end, as (first interval, whether the load was steady in it).
    /// `None` when no interval lies after the warm-up.
    pub fn window(&self) -> Option<(usize, bool)> {
        let earliest = self.earliest()?;
        if self.fixed.is_some() {
            return Some((earliest, self.steady_from(earliest)));
        }
        // A steady stretch much shorter than asked for is not what was asked for.
        if let Some(from) = self.verdict()
            && self.length_from(from) >= self.wanted / 2
        {
            return Some((from, true));
        }
        // Never settled: the last stretch of the wanted length is the best there is.
        let mut from = self.lengths.len();
        while from > earliest && self.length_from(from) < self.wanted {
            from -= 1;
        }
        Some((from.min(self.lengths.len() - 1), false))
    }

    fn steady_from(&self, from: usize) -> bool {
        let rest = &self.levels[from..];
        let rule = SteadyRule { shortest: rest.len().clamp(1, 10), ..SteadyRule::default() };
        matches!(steady_state(rest, &rule), SteadyState::Steady { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walwright_record::{ScriptInterval, Timestamp};

    fn second(transactions: u64) -> LoadInterval {
        LoadInterval {
            start: Timestamp(0),
            length: Duration::from_secs(1),
            scripts: vec![ScriptInterval { transactions, ..ScriptInterval::default() }],
            clients: 1,
            ..LoadInterval::default()
        }
    }

    fn settling(wanted: u64, fixed: Option<Duration>) -> Settling {
        Settling::new(Duration::from_secs(wanted), fixed, Duration::ZERO, false)
    }

    /// A rate around 1000 a second that wobbles in a fixed pattern.
    fn wobbling(second_number: u64) -> u64 {
        1_000 + [0, 13, 7, -11, 4, -6, 9, -14, 2, -4][second_number as usize % 10].max(0) as u64
    }

    #[test]
    fn a_load_that_never_settles_says_how_long_it_is_waited_for() {
        let mut settling = settling(10, None);
        let waits: Vec<Duration> = (0..)
            .map(|n| settling.push(&second(1_000 + 300 * n)))
            .take_while(|standing| !standing.done)
            .filter_map(|standing| standing.until)
            .collect();
        // A second after the other, until the load has gone on for twice the window.
        let seconds: Vec<u64> = waits.iter().map(Duration::as_secs).collect();
        assert_eq!(seconds, (1..=10).rev().collect::<Vec<u64>>());
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
        let mut settling = settling(30, Some(Duration::from_secs(5)));
        assert_eq!(drive(&mut settling, wobbling), 35);
        assert_eq!(settling.window().unwrap().0, 5);
    }

    #[test]
    fn a_slow_start_is_found_and_left_out() {
        let mut settling = settling(60, None);
        let seconds = drive(&mut settling, |n| if n < 12 { 400 + 40 * n } else { wobbling(n) });
        let (from, steady) = settling.window().unwrap();
        assert!((10..=20).contains(&from), "{from}");
        assert!(steady);
        assert!(seconds - from as u64 >= 60, "{seconds} seconds, window from {from}");
    }

    #[test]
    fn a_load_that_never_settles_ends_and_says_so() {
        let mut settling = settling(30, None);
        // Falls by half in the middle of whatever window is taken.
        let seconds = drive(&mut settling, |n| if n % 40 < 20 { 1_000 } else { 400 });
        assert!(seconds <= 60, "{seconds}");
        let (from, steady) = settling.window().unwrap();
        assert!(!steady);
        assert!(seconds - from as u64 >= 30);
    }

    #[test]
    fn a_ramp_is_left_out() {
        let ramp = Duration::from_secs(20);
        let fixed = Some(Duration::from_secs(5));
        let mut settling = Settling::new(Duration::from_secs(30), fixed, ramp, false);
        assert_eq!(drive(&mut settling, wobbling), 55);
        assert_eq!(settling.window().unwrap().0, 25);
    }

    #[test]
    fn a_level_that_changes_late_makes_no_short_window() {
        let mut settling = settling(60, None);
        let seconds = drive(&mut settling, |n| if n < 40 { wobbling(n) } else { wobbling(n) / 2 });
        let (from, steady) = settling.window().unwrap();
        assert!(seconds - from as u64 >= 60 || (!steady && seconds - from as u64 >= 30));
        assert!(from >= 40 || !steady, "window from {from} of {seconds}, steady {steady}");
    }

    #[test]
    fn a_load_cut_short_inside_its_warm_up_has_no_window() {
        let mut settling = settling(30, None);
        settling.push(&second(1_000));
        assert_eq!(settling.window(), None);
    }
}
