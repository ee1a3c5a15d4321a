//! How latencies spread, moment by moment: what a heat map shows and any percentile is read from.

use serde::Serialize;
use walwright_record::{LatencyHistogram, Record};

/// Rows in a power of ten: each holds latencies within 10 % of each other.
pub const ROWS_PER_DECADE: u32 = 24;
/// Lower edge of the lowest row, in seconds; what is shorter counts there.
pub const LOWEST: f64 = 1e-6;

/// Counts of latencies over time, columns of equal length and rows of equal ratio.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyMap {
    /// Where the first column begins, in seconds since the run began.
    pub from: f64,
    /// Length of a column in seconds.
    pub column: f64,
    /// Columns without gaps; one in which nothing ended is empty.
    pub columns: Vec<Counts>,
}

/// Counts of one column.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// The row of the first count, from [`LOWEST`] up.
    pub first: u32,
    /// Counts from that row on; neither the first nor the last is zero.
    pub counts: Vec<u64>,
}

/// The latencies of all that ended well, in at most `columns` columns; `None` where no single
/// latency is known.
pub fn latency_map(record: &Record, columns: usize) -> Option<LatencyMap> {
    let moment = |at: walwright_record::Timestamp| at.seconds_from(record.header.started);
    let first = record.intervals.first()?;
    let from = moment(first.start);
    let length = first.length.as_secs_f64();
    let last = record.intervals.iter().map(|i| moment(i.start)).fold(from, f64::max);
    if length <= 0.0 || !(last - from).is_finite() {
        return None;
    }
    // Whole intervals to a column, so that each holds as many as the next.
    let intervals = ((last - from) / length).round() as usize + 1;
    let together = intervals.div_ceil(columns.max(1));
    let column = length * together as f64;
    // One dense histogram for all columns: a new one costs more than a merge.
    let mut merged = LatencyHistogram::new();
    let mut map = LatencyMap { from, column, columns: Vec::new() };
    let place = |at: f64| ((at - from + length / 2.0) / column).max(0.0) as usize;
    let mut begin = 0;
    while begin < record.intervals.len() {
        let at = place(moment(record.intervals[begin].start));
        let same = record.intervals[begin..]
            .iter()
            .take_while(|interval| place(moment(interval.start)) == at)
            .count();
        merged.clear();
        let inside = &record.intervals[begin..begin + same.max(1)];
        inside
            .iter()
            .flat_map(|interval| &interval.scripts)
            .for_each(|script| script.latency.add_to(&mut merged));
        // A clock that went back leaves no place for what came after.
        if at >= map.columns.len() && at < columns.max(1) {
            map.columns.resize(at, Counts::default());
            map.columns.push(counts(&merged));
        }
        begin += same.max(1);
    }
    map.columns.iter().any(|column| !column.counts.is_empty()).then_some(map)
}

fn counts(of: &LatencyHistogram) -> Counts {
    let mut found = Counts::default();
    for (latency, count) in of.buckets() {
        let decades = (latency.as_secs_f64() / LOWEST).log10();
        let row = (decades * f64::from(ROWS_PER_DECADE)).max(0.0) as u32;
        if found.counts.is_empty() {
            found.first = row;
        }
        let at = row.saturating_sub(found.first) as usize;
        if at >= found.counts.len() {
            found.counts.resize(at + 1, 0);
        }
        found.counts[at] += count;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use walwright_testing::Build;

    #[test]
    fn nothing_is_lost_between_the_columns() {
        let mut build = Build::new();
        build.load(5, 26, 100);
        let all: u64 = build
            .record
            .intervals
            .iter()
            .flat_map(|interval| &interval.scripts)
            .map(|script| script.latency.count())
            .sum();
        for (columns, expected) in [(100, 21), (10, 7), (1, 1)] {
            let map = latency_map(&build.record, columns).unwrap();
            assert_eq!(map.columns.len(), expected);
            let counted: u64 = map.columns.iter().flat_map(|column| &column.counts).sum();
            assert_eq!((counted, map.from), (all, 5.0));
        }
        build.record.intervals.drain(3..6);
        let gap = latency_map(&build.record, 100).unwrap();
        assert_eq!((gap.columns.len(), gap.columns[4].counts.len()), (21, 0));
        build.record.intervals.clear();
        assert_eq!(latency_map(&build.record, 100), None);
    }

    #[test]
    fn a_row_is_a_tenth_wide() {
        let mut histogram = LatencyHistogram::new();
        for micros in [1_000, 1_050, 2_000] {
            histogram.record(std::time::Duration::from_micros(micros));
        }
        let found = counts(&histogram);
        assert_eq!((found.first, found.counts[0]), (3 * ROWS_PER_DECADE, 2));
        assert_eq!((found.counts.len(), found.counts[7]), (8, 1));
    }
}
