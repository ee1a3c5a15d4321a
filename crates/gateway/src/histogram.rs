//! How often what was how large.

/// Buckets for each doubling.
const STEPS: usize = 4;
/// Values beyond this many bits are counted in the last bucket: 134 s in microseconds.
const BITS: usize = 27;
const BUCKETS: usize = (BITS - 1) * STEPS;

/// Counts of values in buckets, four to each doubling. It belongs to one thread; histograms of
/// several are [added](Histogram::add).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    sum: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: [0; BUCKETS], sum: 0 }
    }
}

impl Histogram {
    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// Counts what another one counted.
    pub fn add(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The value that a share of them is not above, exact to a quarter; `None` without values.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let count = self.count();
        let wanted = (count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reaches = |(_, count): &(usize, &u64)| {
            seen += **count;
            seen >= wanted
        };
        self.counts.iter().enumerate().find(reaches).map(|(bucket, _)| highest(bucket))
    }

    /// How many values were below each power of two, from the first to the last that has any
    /// above the one before it.
    pub fn powers(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut seen = 0;
        (0..BUCKETS).filter_map(move |bucket| {
            seen += self.counts[bucket];
            let next = highest(bucket) + 1;
            next.is_power_of_two().then_some((next, seen))
        })
    }
}

fn bucket(value: u64) -> usize {
    if value < STEPS as u64 {
        return value as usize;
    }
    let power = value.ilog2() as usize;
    let step = (value >> (power - 2)) as usize & (STEPS - 1);
    ((power - 1) * STEPS + step).min(BUCKETS - 1)
}

/// The highest value of a bucket.
fn highest(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let (power, step) = (bucket / STEPS + 1, bucket % STEPS);
    (((STEPS + step + 1) as u64) << (power - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_the_bucket_whose_bounds_it_is_between() {
        for value in (0..10_000).chain([1 << 20, (1 << 26) + 17]) {
            let bucket = bucket(value);
            assert!(value <= highest(bucket), "{value}");
            assert!(bucket == 0 || value > highest(bucket - 1), "{value}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_and_powers_are_those_of_the_values() {
        let mut half = Histogram::default();
        (0..500).for_each(|value| half.record(value));
        let mut whole = Histogram::default();
        (500..1000).for_each(|value| whole.record(value));
        whole.add(&half);
        assert_eq!((whole.count(), whole.sum()), (1000, 499_500));
        let median = whole.quantile(0.5).unwrap();
        assert!((499..=625).contains(&median), "{median}");
        assert_eq!(Histogram::default().quantile(0.5), None);
        let below: Vec<_> = whole.powers().collect();
        assert!(below.contains(&(256, 256)) && below.contains(&(1024, 1000)), "{below:?}");
    }
}
