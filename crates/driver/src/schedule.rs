//! Due times of an open loop, and pauses of a closed one.

use std::time::Duration;

use walwright_workload::script::Rng;

use crate::clock::Moment;
use crate::plan::{Gaps, ThinkTime};

/// The due times of one thread's share of an open loop.
///
/// They follow from seed and rate alone, so two copies yield the same times:
/// one hands out transactions, the other counts what was due.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    rng: Rng,
    gaps: Gaps,
    /// Mean gap, in nanoseconds.
    mean: f64,
    /// The next due time, in nanoseconds. Kept with its fraction, so that
    /// rounding does not add up.
    next: f64,
}

impl Schedule {
    /// The share of thread `thread` of `threads` in `rate` transactions a second.
    ///
    /// Poisson processes add up to one of the sum of their rates; even gaps are
    /// interleaved.
    pub(crate) fn new(rate: f64, gaps: Gaps, thread: u32, threads: u32, rng: Rng) -> Self {
        let gap = 1e9 / rate;
        let mean = gap * f64::from(threads);
        let mut schedule = Schedule { rng, gaps, mean, next: gap * f64::from(thread) };
        if gaps == Gaps::Poisson {
            schedule.next = 0.0;
            schedule.advance();
        }
        schedule
    }

    /// The next due time.
    #[inline]
    pub(crate) fn next(&self) -> Moment {
        Moment(self.next as u64)
    }

    /// Goes on to the one after.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.next += match self.gaps {
            Gaps::Even => self.mean,
            Gaps::Poisson => exponential(&mut self.rng, self.mean),
        };
    }

    /// Goes past every due time before `end` and counts them.
    pub(crate) fn count_until(&mut self, end: Moment) -> u64 {
        let mut count = 0;
        while self.next() < end {
            self.advance();
            count += 1;
        }
        count
    }
}

/// An exponentially distributed number by inversion.
fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    // 1 - [0, 1) is (0, 1], whose logarithm is finite.
    -(1.0 - rng.next_f64()).ln() * mean
}

/// How long a client thinks.
pub(crate) fn think(time: ThinkTime, rng: &mut Rng) -> Duration {
    match time {
        ThinkTime::Fixed(time) => time,
        ThinkTime::Uniform(low, high) => low + high.saturating_sub(low).mul_f64(rng.next_f64()),
        ThinkTime::Exponential(mean) => {
            Duration::from_secs_f64(exponential(rng, mean.as_secs_f64()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(mut schedule: Schedule, count: usize) -> Vec<f64> {
        (0..count)
            .map(|_| {
                let next = schedule.next;
                schedule.advance();
                next
            })
            .collect()
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_spread_of_the_exponential() {
        let schedule = Schedule::new(5000.0, Gaps::Poisson, 0, 1, Rng::from_seed(3));
        let times = times(schedule, 100_000);
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 200_000.0 - 1.0).abs() < 0.02, "mean {mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "coefficient of variation");
    }

    #[test]
    fn even_shares_of_threads_interleave() {
        let mut all: Vec<f64> = (0..3)
            .flat_map(|thread| {
                times(Schedule::new(300.0, Gaps::Even, thread, 3, Rng::from_seed(1)), 100)
            })
            .collect();
        all.sort_by(f64::total_cmp);
        for pair in all.windows(2) {
            assert!((pair[1] - pair[0] - 1e9 / 300.0).abs() < 1.0);
        }
    }

    #[test]
    fn a_copy_counts_what_the_other_hands_out() {
        let schedule = Schedule::new(1000.0, Gaps::Poisson, 0, 2, Rng::from_seed(9));
        let end = Moment(2_000_000_000);
        let counted = schedule.clone().count_until(end);
        let handed_out = times(schedule, 2000).iter().filter(|time| **time < end.0 as f64).count();
        assert_eq!(counted, handed_out as u64);
        assert!((900..1100).contains(&counted), "{counted}");
    }

    #[test]
    fn thinking_keeps_to_its_bounds_and_mean() {
        let mut rng = Rng::from_seed(5);
        let ms = Duration::from_millis;
        assert_eq!(think(ThinkTime::Fixed(ms(3)), &mut rng), ms(3));
        let mut sum = Duration::ZERO;
        for _ in 0..10_000 {
            let uniform = think(ThinkTime::Uniform(ms(2), ms(4)), &mut rng);
            assert!((ms(2)..=ms(4)).contains(&uniform));
            sum += think(ThinkTime::Exponential(ms(10)), &mut rng);
        }
        assert!((sum.as_secs_f64() / 100.0 - 1.0).abs() < 0.05);
    }
}
