//! Due times of an open loop, and pauses of a closed one.

use std::time::Duration;

use walwright_record::{LoadLevel, LoadStage};
use walwright_workload::script::Rng;

use crate::clock::Moment;
use crate::plan::{Gaps, ThinkTime};

/// The due times of one thread's share of an open loop.
///
/// They follow from seed and rate alone, so two copies yield the same times:
/// one hands out transactions, the other counts what was due.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    source: Source,
    /// The next due time, in nanoseconds. Kept with its fraction, so that
    /// rounding does not add up.
    next: f64,
    /// Where the rate changes; empty where it does not.
    legs: Vec<Leg>,
}

/// A stretch of one rate. The source counts time at the mean rate; what is due then comes
/// sooner where the rate is above it, and later where it is below.
#[derive(Debug, Clone, Copy)]
struct Leg {
    /// Its start in the time of the source, and in that of the load, in nanoseconds.
    source: f64,
    load: f64,
    /// Its rate over that of the source.
    pace: f64,
}

/// A thread's part of a load: client `n` belongs to the thread whose number is the
/// remainder of `n` by `threads`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) thread: u32,
    pub(crate) threads: u32,
    /// Of all threads together.
    pub(crate) clients: u32,
}

impl Share {
    /// Clients of this thread.
    fn own(self) -> u32 {
        self.clients.saturating_sub(self.thread).div_ceil(self.threads.max(1))
    }
}

#[derive(Debug, Clone)]
enum Source {
    /// Exponential gaps of a mean in nanoseconds.
    Poisson { mean: f64, rng: Rng },
    /// All transactions of the load are `gap` nanoseconds apart and are dealt to the
    /// clients in turn; `number` is this thread's next.
    Even { gap: f64, share: Share, number: u64 },
}

impl Schedule {
    /// A thread's share of `rate` transactions a second, in proportion to its clients.
    ///
    /// Poisson processes add up to one of the sum of their rates; even gaps are
    /// interleaved.
    pub(crate) fn new(rate: f64, gaps: Gaps, share: Share, rng: Rng) -> Self {
        let gap = 1e9 / rate;
        match gaps {
            Gaps::Poisson => {
                let mean = gap * f64::from(share.clients) / f64::from(share.own().max(1));
                let mut schedule =
                    Schedule { source: Source::Poisson { mean, rng }, next: 0.0, legs: Vec::new() };
                schedule.advance();
                schedule
            }
            Gaps::Even => {
                let number = u64::from(share.thread);
                Schedule {
                    source: Source::Even { gap, share, number },
                    next: gap * number as f64,
                    legs: Vec::new(),
                }
            }
        }
    }

    /// The next due time.
    #[inline]
    pub(crate) fn next(&self) -> Moment {
        let Some(leg) = self.legs.iter().rev().find(|leg| leg.source <= self.next) else {
            return Moment(self.next as u64);
        };
        Moment((leg.load + (self.next - leg.source) / leg.pace) as u64)
    }

    /// The same due times at the rates of these stages, of which `rate` is the mean.
    pub(crate) fn in_stages(mut self, stages: &[LoadStage], rate: f64) -> Self {
        let (mut source, mut load) = (0.0, 0.0);
        for stage in stages {
            if let LoadLevel::Rate(level) = stage.level {
                let (pace, length) = (level / rate, stage.length.as_nanos() as f64);
                self.legs.push(Leg { source, load, pace });
                source += length * pace;
                load += length;
            }
        }
        self
    }

    /// Goes on to the one after.
    #[inline]
    pub(crate) fn advance(&mut self) {
        match &mut self.source {
            Source::Poisson { mean, rng } => self.next += exponential(rng, *mean),
            Source::Even { gap, share, number } => {
                let clients = u64::from(share.clients.max(1));
                let (round, client) = (*number / clients, *number % clients);
                let client = client + u64::from(share.threads);
                *number = match client < clients {
                    true => round * clients + client,
                    false => (round + 1) * clients + u64::from(share.thread),
                };
                self.next = *gap * *number as f64;
            }
        }
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

    fn share(thread: u32, threads: u32, clients: u32) -> Share {
        Share { thread, threads, clients }
    }

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
        let schedule = Schedule::new(5000.0, Gaps::Poisson, share(0, 1, 8), Rng::from_seed(3));
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
                let share = share(thread, 3, 7);
                let count = 100 * share.own() as usize;
                times(Schedule::new(300.0, Gaps::Even, share, Rng::from_seed(1)), count)
            })
            .collect();
        all.sort_by(f64::total_cmp);
        for pair in all.windows(2) {
            assert!((pair[1] - pair[0] - 1e9 / 300.0).abs() < 1.0);
        }
    }

    #[test]
    fn stages_have_their_rates_and_a_copy_counts_them_too() {
        let stage = |seconds, rate| LoadStage {
            length: Duration::from_secs(seconds),
            level: LoadLevel::Rate(rate),
        };
        let stages = [stage(10, 100.0), stage(5, 2000.0), stage(20, 50.0)];
        let mean = (1000.0 + 10_000.0 + 1000.0) / 35.0;
        for gaps in [Gaps::Even, Gaps::Poisson] {
            let schedule = Schedule::new(mean, gaps, share(0, 1, 3), Rng::from_seed(2));
            let mut schedule = schedule.in_stages(&stages, mean);
            for (end, wanted) in [(10, 1000.0), (15, 10_000.0), (35, 1000.0), (45, 500.0)] {
                let due = schedule.count_until(Moment(end * 1_000_000_000)) as f64;
                let near = if gaps == Gaps::Even { 1.0 } else { 5.0 * f64::sqrt(wanted) };
                assert!((due - wanted).abs() <= near, "{gaps:?} until {end}: {due}");
            }
        }
    }

    #[test]
    fn a_copy_counts_what_the_other_hands_out() {
        let schedule = Schedule::new(1000.0, Gaps::Poisson, share(0, 2, 4), Rng::from_seed(9));
        let end = Moment(2_000_000_000);
        let counted = schedule.clone().count_until(end);
        let handed_out = times(schedule, 2000).iter().filter(|time| **time < end.0 as f64).count();
        assert_eq!(counted, handed_out as u64);
        assert!((900..1100).contains(&counted), "{counted}");
    }

    #[test]
    fn threads_get_transactions_in_proportion_to_their_clients() {
        for gaps in [Gaps::Poisson, Gaps::Even] {
            let counts = [0, 1].map(|thread| {
                let mut schedule =
                    Schedule::new(1000.0, gaps, share(thread, 2, 3), Rng::from_seed(4));
                schedule.count_until(Moment(30_000_000_000)) as f64
            });
            assert!((counts[0] / counts[1] / 2.0 - 1.0).abs() < 0.05, "{gaps:?}: {counts:?}");
            assert!(((counts[0] + counts[1]) / 30_000.0 - 1.0).abs() < 0.02, "{counts:?}");
        }
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
