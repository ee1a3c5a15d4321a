//! When the next reading is due, and how a costly one is slowed down.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A schedule on a fixed grid. Ticks that could not be served in time are skipped
/// and counted, never caught up in a burst; a reading that costs more than its
/// budget is taken at every second, third, … grid point instead.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    nominal: Duration,
    /// Processor time it may take of a second of wall time.
    budget: f64,
    stretch: u32,
    /// Least stretch until enough readings are judged: what was expected beforehand.
    expected: u32,
    costs: VecDeque<Duration>,
    due: Instant,
    /// Grid points passed over because the reading before was still under way.
    pub(crate) skipped: u64,
    /// Readings taken.
    pub(crate) taken: u64,
}

/// The cheapest of so many readings decides: what is costly stays costly, while
/// the first reading pays for cold caches and any may be unlucky.
const JUDGED: usize = 3;

/// So many times a reading's usual cost the first may have, and the cheaper of the first
/// two. Beyond that a reading is slowed down before the third is taken.
const EARLY: [u32; JUDGED] = [10, 2, 1];

impl Pace {
    /// First due at `start`, then each `nominal`, within `budget` processor seconds a second.
    pub(crate) fn new(nominal: Duration, budget: f64, start: Instant) -> Self {
        let nominal = nominal.max(Duration::from_millis(1));
        Pace {
            nominal,
            budget,
            stretch: 1,
            expected: 1,
            costs: VecDeque::new(),
            due: start,
            skipped: 0,
            taken: 0,
        }
    }

    /// Says what a reading is likely to cost, before any was taken.
    pub(crate) fn expect(&mut self, cost: Duration) {
        self.expected = self.needed_stretch(cost);
        if self.costs.len() < JUDGED {
            self.stretch = self.stretch.max(self.expected);
        }
    }

    /// When the next reading is due.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// The interval in force.
    pub(crate) fn interval(&self) -> Duration {
        self.nominal * self.stretch
    }

    /// The interval asked for.
    pub(crate) fn nominal(&self) -> Duration {
        self.nominal
    }

    /// Plans the next reading after one that ended at `now` and cost `cost`
    /// (`None` where the cost is unknown: then nothing is slowed down).
    pub(crate) fn taken(&mut self, now: Instant, cost: Option<Duration>) {
        self.taken += 1;
        if let Some(cost) = cost {
            self.costs.push_back(cost);
            if self.costs.len() > JUDGED {
                self.costs.pop_front();
            }
            if let Some(cheapest) = self.costs.iter().min()
                && let Some(unusual) = EARLY.get(self.costs.len() - 1)
            {
                let judged = self.needed_stretch(*cheapest / *unusual);
                let least = if self.costs.len() < JUDGED { self.expected } else { 1 };
                self.stretch = judged.max(least);
            }
        }
        self.skip_to(now);
    }

    /// Plans the next reading after one that was not answered.
    pub(crate) fn missed(&mut self, now: Instant) {
        self.skipped += 1;
        self.skip_to(now);
    }

    /// Plans the next reading after one that was answered with an error, which is told
    /// apart from what was missed.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.skip_to(now);
    }

    /// Counts what a reading that the stop cut short had already missed: a server that does
    /// not answer must not look like one that was not asked.
    pub(crate) fn stopped(&mut self, now: Instant) {
        if now >= self.due + self.interval() {
            self.missed(now);
        }
    }

    fn needed_stretch(&self, cost: Duration) -> u32 {
        let needed = cost.as_secs_f64() / (self.budget * self.nominal.as_secs_f64());
        // At least one reading in ten minutes, whatever it costs.
        let most = (600.0 / self.nominal.as_secs_f64()).max(1.0);
        needed.ceil().clamp(1.0, most) as u32
    }

    fn skip_to(&mut self, now: Instant) {
        self.due += self.interval();
        let late = now.saturating_duration_since(self.due);
        if !late.is_zero() {
            let passed = late.as_nanos() / self.nominal.as_nanos() + 1;
            let passed = u32::try_from(passed).unwrap_or(u32::MAX);
            self.skipped += u64::from(passed.div_ceil(self.stretch));
            self.due += self.nominal.saturating_mul(passed);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_late_reading_skips_the_ticks_it_missed() {
        let start = Instant::now();
        let mut pace = Pace::new(100 * MS, 1.0, start);
        pace.taken(start + 350 * MS, None);
        assert_eq!(pace.due(), start + 400 * MS);
        assert_eq!(pace.skipped, 3);
        pace.taken(start + 410 * MS, None);
        assert_eq!(pace.due(), start + 500 * MS);
        assert_eq!(pace.skipped, 3);
    }

    #[test]
    fn a_reading_cut_short_is_missed_only_where_it_was_late() {
        let start = Instant::now();
        let mut pace = Pace::new(100 * MS, 1.0, start);
        pace.stopped(start + 90 * MS);
        assert_eq!(pace.skipped, 0);
        pace.stopped(start + 350 * MS);
        assert_eq!(pace.skipped, 4);
    }

    #[test]
    fn a_costly_reading_is_taken_less_often_and_recovers() {
        let start = Instant::now();
        let mut pace = Pace::new(1000 * MS, 0.01, start);
        for _ in 0..2 {
            let due = pace.due();
            pace.taken(due, Some(18 * MS));
            assert_eq!(pace.interval(), 1000 * MS, "judged too early");
        }
        let due = pace.due();
        pace.taken(due, Some(18 * MS));
        assert_eq!(pace.interval(), 2000 * MS);
        assert_eq!(pace.due(), start + 4000 * MS);
        let due = pace.due();
        pace.taken(due, Some(MS));
        assert_eq!(pace.interval(), 1000 * MS);
        assert_eq!(pace.skipped, 0);
    }

    #[test]
    fn a_reading_far_beyond_its_budget_is_slowed_before_the_next() {
        let start = Instant::now();
        let mut pace = Pace::new(1000 * MS, 0.01, start);
        pace.taken(start, Some(400 * MS));
        assert_eq!(pace.due(), start + 4000 * MS);
        pace.taken(pace.due(), Some(400 * MS));
        assert_eq!(pace.interval(), 20_000 * MS);
        pace.taken(pace.due(), Some(400 * MS));
        assert_eq!(pace.interval(), 40_000 * MS);
        // Only the first was dear.
        let mut pace = Pace::new(1000 * MS, 0.01, start);
        pace.taken(start, Some(400 * MS));
        pace.taken(pace.due(), Some(MS));
        assert_eq!(pace.interval(), 1000 * MS);
    }

    #[test]
    fn what_is_expected_holds_until_readings_tell() {
        let start = Instant::now();
        let mut pace = Pace::new(1000 * MS, 0.01, start);
        pace.expect(50 * MS);
        assert_eq!(pace.due(), start, "the first is due at once all the same");
        for taken in 1..=2 {
            pace.taken(pace.due(), Some(MS));
            assert_eq!(pace.due(), start + 5000 * MS * taken);
        }
        pace.taken(pace.due(), Some(MS));
        assert_eq!(pace.interval(), 1000 * MS);
        pace.expect(50 * MS);
        assert_eq!(pace.interval(), 1000 * MS, "readings know better");
    }

    proptest! {
        #[test]
        fn a_steady_cost_stays_within_its_budget_but_for_the_first_readings(
            cost in 0_u64..5_000,
        ) {
            let start = Instant::now();
            let mut pace = Pace::new(1000 * MS, 0.01, start);
            let cost = Duration::from_millis(cost);
            let mut spent = Duration::ZERO;
            while pace.due() < start + Duration::from_secs(3600) {
                spent += cost;
                pace.taken(pace.due(), Some(cost));
            }
            let budget = Duration::from_secs(36);
            prop_assert!(spent <= budget + 3 * cost, "{spent:?} at {cost:?}");
        }

        #[test]
        fn the_next_reading_is_on_the_grid_and_not_in_the_past(
            delays in proptest::collection::vec((0_u64..5_000, 0_u64..200), 1..50),
        ) {
            let start = Instant::now();
            let mut pace = Pace::new(100 * MS, 0.05, start);
            let mut now = start;
            for (delay, cost) in delays {
                now = now.max(pace.due()) + Duration::from_millis(delay);
                pace.taken(now, Some(Duration::from_millis(cost)));
                prop_assert!(pace.due() >= now);
                prop_assert!(pace.due() <= now + pace.interval());
                prop_assert_eq!((pace.due() - start).as_nanos() % (100 * MS).as_nanos(), 0);
            }
        }
    }
}
