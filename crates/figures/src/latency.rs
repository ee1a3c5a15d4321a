//! Latency from merged histograms.

use std::time::Duration;

use serde::Serialize;
use walwright_record::{LatencyHistogram, Record, SparseHistogram, UnderWay, Window};

use crate::window::intervals_inside;

/// Latency of one kind of operation, from merged histograms. In JSON all times
/// are seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// Operations that ended well in the window, and those that were under way when it
    /// ended.
    pub count: u64,
    /// Arithmetic mean.
    #[serde(with = "crate::seconds")]
    pub mean: Duration,
    /// Median.
    #[serde(with = "crate::seconds")]
    pub p50: Duration,
    /// 95th percentile.
    #[serde(with = "crate::seconds")]
    pub p95: Duration,
    /// 99th percentile.
    #[serde(with = "crate::seconds")]
    pub p99: Duration,
    /// 99.9th percentile.
    #[serde(with = "crate::seconds")]
    pub p99_9: Duration,
    /// Longest.
    #[serde(with = "crate::seconds")]
    pub max: Duration,
    /// The shortest age of an operation that had not ended when it was cut off; `None`
    /// where all ended. From here up these figures are lower bounds.
    #[serde(with = "crate::seconds::option")]
    pub unended_from: Option<Duration>,
}

impl Latency {
    /// The figures of a histogram; `None` when it is empty.
    pub fn of(histogram: &LatencyHistogram) -> Option<Self> {
        Latency::with_unended(histogram, None)
    }

    /// The same where some in the histogram had not ended, the youngest of them at this age.
    pub(crate) fn with_unended(
        histogram: &LatencyHistogram,
        unended_from: Option<Duration>,
    ) -> Option<Self> {
        Some(Latency {
            unended_from,
            count: histogram.count(),
            mean: histogram.mean()?,
            p50: histogram.percentile(50.0)?,
            p95: histogram.percentile(95.0)?,
            p99: histogram.percentile(99.0)?,
            p99_9: histogram.percentile(99.9)?,
            max: histogram.max()?,
        })
    }

    /// Whether a percentile of these, or their maximum, may be longer than this.
    pub fn is_lower_bound(&self, figure: Duration) -> bool {
        self.unended_from.is_some_and(|from| from <= figure)
    }
}

/// What was under way when the measured window ended; `None` for any other window.
pub(crate) fn under_way(record: &Record, window: Window) -> Option<&UnderWay> {
    let measured = record.window().filter(|measured| measured.end == window.end);
    measured.and(record.under_way.as_ref())
}

pub(crate) fn shortest<'a>(of: impl Iterator<Item = &'a SparseHistogram>) -> Option<Duration> {
    of.filter_map(|histogram| histogram.percentile(0.0)).min()
}

/// All latencies that belong to a window: of operations that ended well inside it, and of
/// those under way when it ended, where they had not ended at least their age.
pub fn latencies(record: &Record, window: Window) -> LatencyHistogram {
    let inside = intervals_inside(record, window).flat_map(|i| &i.scripts).map(|s| &s.latency);
    let later = under_way(record, window).into_iter();
    merge(inside.chain(later.flat_map(|of| of.ended().chain(of.at_least()))))
}

/// The same of how long after its due time each operation of an open loop began.
pub fn lags(record: &Record, window: Window) -> LatencyHistogram {
    let later = under_way(record, window).into_iter();
    let inside = intervals_inside(record, window).map(|i| &i.lag);
    merge(inside.chain(later.flat_map(|of| [&of.lag, &of.not_begun])))
}

/// Mean of all latencies that belong to a window, from single ones or from sums; `None`
/// without any.
pub fn mean_latency(record: &Record, window: Window) -> Option<Duration> {
    let scripts = intervals_inside(record, window).flat_map(|interval| &interval.scripts);
    let inside = scripts.map(|script| script.latency_sum());
    let later = under_way(record, window).into_iter();
    let later = later.flat_map(|of| of.ended().chain(of.at_least())).map(|histogram| {
        let mean = histogram.mean().unwrap_or_default().as_secs_f64();
        (histogram.count(), mean * histogram.count() as f64)
    });
    let (count, seconds) = inside
        .chain(later)
        .fold((0, 0.0), |(count, seconds), (more, longer)| (count + more, seconds + longer));
    if count == 0 { None } else { crate::seconds::duration(seconds / count as f64) }
}

pub(crate) fn merge<'a>(histograms: impl Iterator<Item = &'a SparseHistogram>) -> LatencyHistogram {
    let mut merged = LatencyHistogram::new();
    histograms.for_each(|h| h.add_to(&mut merged));
    merged
}
