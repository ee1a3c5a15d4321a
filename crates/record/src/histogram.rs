//! Latency histograms: bounded memory, known precision, mergeable.

use std::io::Read;
use std::time::Duration;

use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{self, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Width of the narrowest buckets in nanoseconds, a power of two as hdrhistogram
/// wants it: the resolution near zero.
const LOWEST_NS: u64 = 32;
/// Longest latency kept, in nanoseconds: one hour. Longer ones count as this.
const HIGHEST_NS: u64 = 3_600_000_000_000;
/// Significant decimal digits: a bucket is at most 0.1 % of its values wide, or
/// one unit where that is more.
const DIGITS: u8 = 3;
/// hdrhistogram splits the values of each power of two into 1024 buckets to keep
/// three digits, and those up to 2048 units into buckets of one unit.
const FINE_UNITS: u64 = 2_048;
/// How a stored histogram begins, and what it is packed from: the cookies of HdrHistogram V2.
const PACKED: [u8; 4] = [0x1c, 0x84, 0x93, 0x14];
const PLAIN: [u8; 4] = [0x1c, 0x84, 0x93, 0x13];
/// Bytes of the largest one, unpacked: nine for each of its buckets are fewer.
const LARGEST: u64 = 1 << 20;
/// Latencies that no bucket counts more of.
const MOST: u64 = 1_000_000_000_000_000;

/// An HDR histogram of latencies up to 1 h. A latency is off by less than 32 ns or
/// 0.1 %, whichever is more: 0.1 % from 33 µs upwards.
///
/// Percentiles of several runs or intervals come from merged histograms, never
/// from averaged percentiles.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyHistogram(Histogram<u64>);

/// A stored histogram that cannot be read back.
#[derive(Debug, Error)]
#[error("a stored histogram is damaged: {0}")]
pub struct HistogramError(String);

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// An empty histogram.
    ///
    /// # Panics
    /// Never: the bounds are constants that hdrhistogram accepts, as the tests show.
    pub fn new() -> Self {
        LatencyHistogram(
            Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, DIGITS)
                .expect("constant bounds are valid"),
        )
    }

    /// Counts one latency.
    #[inline]
    pub fn record(&mut self, latency: Duration) {
        self.record_nanos(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts one latency given in nanoseconds.
    #[inline]
    pub fn record_nanos(&mut self, nanos: u64) {
        self.0.saturating_record(nanos.min(HIGHEST_NS));
    }

    /// Counts one latency `times` times.
    pub fn record_n(&mut self, latency: Duration, times: u64) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record_n(nanos.min(HIGHEST_NS), times);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &LatencyHistogram) {
        // Both have the same bounds, so adding cannot fail.
        let _ = self.0.add(&other.0);
    }

    /// Forgets all counts, keeps the memory.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// How many latencies were counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The latency that `percent` (0 to 100) of all are at or below; `None` when empty.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        (!self.is_empty()).then(|| Duration::from_nanos(self.0.value_at_percentile(percent)))
    }

    /// Arithmetic mean; `None` when empty.
    pub fn mean(&self) -> Option<Duration> {
        (!self.is_empty()).then(|| Duration::from_nanos(self.0.mean() as u64))
    }

    /// Largest latency; `None` when empty.
    pub fn max(&self) -> Option<Duration> {
        (!self.is_empty()).then(|| Duration::from_nanos(self.0.max()))
    }

    /// Smallest latency; `None` when empty.
    pub fn min(&self) -> Option<Duration> {
        (!self.is_empty()).then(|| Duration::from_nanos(self.0.min()))
    }

    /// Standard deviation; `None` when empty.
    pub fn standard_deviation(&self) -> Option<Duration> {
        (!self.is_empty()).then(|| Duration::from_nanos(self.0.stdev() as u64))
    }

    /// (upper edge of bucket, count) of every bucket that has a count, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.0
            .iter_recorded()
            .map(|step| (Duration::from_nanos(step.value_iterated_to()), step.count_at_value()))
    }

    /// The histogram in HdrHistogram's V2 format, deflated; other tools read it too.
    ///
    /// # Errors
    /// When the serializer fails, which for counts that fit in memory it does not.
    pub fn to_bytes(&self) -> Result<Vec<u8>, HistogramError> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.0, &mut bytes)
            .map_err(|e| HistogramError(e.to_string()))?;
        Ok(bytes)
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    /// When the bytes are not a histogram.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HistogramError> {
        let plain = unpacked(bytes)?;
        let stored: Histogram<u64> = serialization::Deserializer::new()
            .deserialize(&mut plain.as_slice())
            .map_err(|e| HistogramError(format!("{e:?}")))?;
        let mut histogram = Self::new();
        // Buckets of other bounds count as their middle, which shifts no mean.
        for step in stored.iter_recorded() {
            let middle = stored.median_equivalent(step.value_iterated_to());
            histogram.0.saturating_record_n(middle, step.count_at_value());
        }
        Ok(histogram)
    }
}

/// The stored form without its packing, checked: the library takes the lengths and bounds
/// in it as they are, and the memory for them.
fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, HistogramError> {
    let wrong = |what: &str| HistogramError(what.to_owned());
    let packed = bytes.strip_prefix(&PACKED).and_then(|rest| rest.get(4..));
    let packed = packed.ok_or_else(|| wrong("it does not begin as one"))?;
    let mut plain = Vec::new();
    ZlibDecoder::new(packed)
        .take(LARGEST + 1)
        .read_to_end(&mut plain)
        .map_err(|error| HistogramError(error.to_string()))?;
    if plain.len() as u64 > LARGEST {
        return Err(wrong("it is too large"));
    }
    let header = plain.strip_prefix(&PLAIN).and_then(|rest| rest.split_at_checked(36));
    let (header, counts) = header.ok_or_else(|| wrong("it is cut off"))?;
    let small = |at: usize| header[at..at + 4].iter().fold(0, |n, b| n << 8 | u64::from(*b));
    let large = |at: usize| small(at) << 32 | small(at + 4);
    let (length, digits, lowest, highest) = (small(0), small(8), large(12), large(20));
    if length != counts.len() as u64 {
        return Err(wrong("it is cut off"));
    }
    if !(1..=u64::from(DIGITS)).contains(&digits)
        || !(1..=LOWEST_NS * LOWEST_NS).contains(&lowest)
        || !(2 * lowest..=2 * HIGHEST_NS).contains(&highest)
    {
        return Err(wrong("its bounds are none of a latency"));
    }
    if varints(counts).any(|count| count >> 1 > MOST) {
        return Err(wrong("its counts are too large"));
    }
    Ok(plain)
}

/// The numbers in the counts: seven bits a byte, the lowest first, of nine bytes the last whole.
fn varints(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let mut bytes = bytes.iter();
    std::iter::from_fn(move || {
        let mut number = 0;
        for place in 0..9 {
            let byte = u64::from(*bytes.next()?);
            if place == 8 {
                return Some(number | byte << 56);
            }
            number |= (byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                break;
            }
        }
        Some(number)
    })
}

/// The same counts without the empty buckets, for keeping many at once: an
/// interval's worth takes a few kilobytes where the dense form takes two hundred.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SparseHistogram {
    /// (highest value of the bucket in nanoseconds, count), ascending.
    buckets: Vec<(u64, u64)>,
}

impl From<&LatencyHistogram> for SparseHistogram {
    fn from(dense: &LatencyHistogram) -> Self {
        let buckets =
            dense.0.iter_recorded().map(|s| (s.value_iterated_to(), s.count_at_value())).collect();
        SparseHistogram { buckets }
    }
}

impl SparseHistogram {
    /// How many latencies were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, (_, n)| n.saturating_add(sum))
    }

    /// How many sizes of latency are told apart: what it takes in memory.
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The latency that `percent` (0 to 100) of all are at or below; `None` when empty.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        let total = self.count();
        let rank = ((percent.clamp(0.0, 100.0) / 100.0 * total as f64).ceil() as u64).max(1);
        let mut seen = 0_u64;
        let bucket = self.buckets.iter().find(|(_, n)| {
            seen = n.saturating_add(seen);
            seen >= rank
        })?;
        Some(Duration::from_nanos(bucket.0))
    }

    /// Arithmetic mean; `None` when empty.
    pub fn mean(&self) -> Option<Duration> {
        let total = self.count();
        let sum: f64 = self.buckets.iter().map(|(top, n)| middle(*top) as f64 * *n as f64).sum();
        (total > 0).then(|| Duration::from_nanos((sum / total as f64) as u64))
    }

    /// Largest latency; `None` when empty.
    pub fn max(&self) -> Option<Duration> {
        self.buckets.last().map(|(value, _)| Duration::from_nanos(*value))
    }

    /// Adds the counts to `total`.
    pub fn add_to(&self, total: &mut LatencyHistogram) {
        for (value, count) in &self.buckets {
            total.0.saturating_record_n(*value, *count);
        }
    }

    /// The stored form: see [`LatencyHistogram::to_bytes`].
    ///
    /// # Errors
    /// As there.
    pub fn to_bytes(&self) -> Result<Vec<u8>, HistogramError> {
        let mut dense = LatencyHistogram::new();
        self.add_to(&mut dense);
        dense.to_bytes()
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    /// When the bytes are not a histogram.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HistogramError> {
        Ok(SparseHistogram::from(&LatencyHistogram::from_bytes(bytes)?))
    }
}

/// The middle of the bucket whose highest value is `top`, as hdrhistogram's mean
/// takes it: the top of each would make the mean too long by half a bucket.
fn middle(top: u64) -> u64 {
    let mut width = LOWEST_NS;
    while top >= width * FINE_UNITS {
        width *= 2;
    }
    top - width / 2 + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_latency_is_kept_to_32_ns_or_a_thousandth(bits in 0_u32..41, low in any::<u64>()) {
            let nanos = ((1 << bits) + low % (1 << bits)).min(HIGHEST_NS);
            let mut dense = LatencyHistogram::new();
            dense.record_nanos(nanos);
            let kept = dense.max().unwrap().as_nanos() as u64;
            let floor = LOWEST_NS.max(nanos / 1_000);
            prop_assert!(kept >= nanos && kept - nanos < floor, "{nanos} {kept}");
            prop_assert_eq!(middle(kept), dense.0.median_equivalent(nanos));
            prop_assert_eq!(SparseHistogram::from(&dense).mean(), dense.mean());
        }
    }

    #[test]
    fn histograms_of_other_bounds_are_read() {
        let mut old = Histogram::<u64>::new_with_bounds(1_000, HIGHEST_NS, DIGITS).unwrap();
        for micros in 1..=10_000_u64 {
            old.record(micros * 1_000).unwrap();
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&old, &mut bytes).unwrap();
        let read = LatencyHistogram::from_bytes(&bytes).unwrap();
        assert_eq!(read.count(), 10_000);
        let ratio = read.0.mean() / old.mean();
        assert!((ratio - 1.0).abs() < 1e-4, "{ratio}");
        let p50 = read.percentile(50.0).unwrap().as_secs_f64();
        assert!((p50 / 5e-3 - 1.0).abs() < 2e-3, "{p50}");
    }

    #[test]
    fn values_keep_three_digits_and_survive_storage() {
        let mut histogram = LatencyHistogram::new();
        for micros in 1..=10_000_u64 {
            histogram.record(Duration::from_micros(micros));
        }
        let back = LatencyHistogram::from_bytes(&histogram.to_bytes().unwrap()).unwrap();
        assert_eq!(back, histogram);
        let p50 = back.percentile(50.0).unwrap().as_secs_f64();
        assert!((p50 / 5e-3 - 1.0).abs() < 2e-3, "p50 {p50}");
        assert_eq!(back.count(), 10_000);
    }

    #[test]
    fn merging_equals_recording_into_one() {
        let (mut a, mut b, mut both) =
            (LatencyHistogram::new(), LatencyHistogram::new(), LatencyHistogram::new());
        for i in 1..1_000_u64 {
            let latency = Duration::from_micros(i * i);
            if i % 3 == 0 {
                a.record(latency)
            } else {
                b.record(latency)
            }
            both.record(latency);
        }
        a.merge(&b);
        assert_eq!(a, both);
    }

    #[test]
    fn the_sparse_form_says_the_same() {
        let mut dense = LatencyHistogram::new();
        for i in 1..5_000_u64 {
            dense.record(Duration::from_nanos(i * i * 31));
        }
        let sparse = SparseHistogram::from(&dense);
        let mut again = LatencyHistogram::new();
        sparse.add_to(&mut again);
        assert_eq!(again.count(), dense.count());
        assert_eq!(SparseHistogram::from_bytes(&sparse.to_bytes().unwrap()).unwrap(), sparse);
        for percent in [1.0, 50.0, 95.0, 99.9, 100.0] {
            assert_eq!(sparse.percentile(percent), dense.percentile(percent), "{percent}");
        }
        let ratio = sparse.mean().unwrap().as_secs_f64() / dense.mean().unwrap().as_secs_f64();
        assert!((ratio - 1.0).abs() < 1e-6, "{ratio}");
    }

    proptest! {
        #[test]
        fn no_bytes_bring_it_down(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            header in prop::collection::vec(any::<u8>(), 36),
            known in any::<[bool; 4]>(),
        ) {
            use std::io::Write;
            let mut header = header;
            // A header that is right but for one or another of its fields.
            let right = [
                (0, (bytes.len() as u32).to_be_bytes().to_vec()),
                (4, vec![0; 7].into_iter().chain([3]).collect()),
                (12, 32_u64.to_be_bytes().into_iter().chain(HIGHEST_NS.to_be_bytes()).collect()),
                (28, 1.0_f64.to_be_bytes().to_vec()),
            ];
            for ((at, field), known) in right.into_iter().zip(known) {
                if known {
                    header[at..at + field.len()].copy_from_slice(&field);
                }
            }
            let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            packed.write_all(&PLAIN).unwrap();
            packed.write_all(&header).unwrap();
            packed.write_all(&bytes).unwrap();
            let mut stored = PACKED.to_vec();
            stored.extend([0; 4]);
            stored.extend(packed.finish().unwrap());
            let _ = LatencyHistogram::from_bytes(&stored);
            let _ = LatencyHistogram::from_bytes(&bytes);
        }
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        assert!(LatencyHistogram::from_bytes(b"not a histogram").is_err());
        assert!(LatencyHistogram::from_bytes(&[]).is_err());
    }

    #[test]
    fn an_empty_histogram_has_no_percentile() {
        assert_eq!(LatencyHistogram::new().percentile(99.0), None);
    }

    #[test]
    fn latencies_beyond_the_bound_count_as_the_bound() {
        let mut histogram = LatencyHistogram::new();
        histogram.record(Duration::from_secs(100_000));
        assert_eq!(histogram.count(), 1);
        assert!(histogram.max().unwrap() >= Duration::from_secs(3_600));
    }
}
