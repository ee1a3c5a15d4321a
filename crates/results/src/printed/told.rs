//! What a tool told in what it printed, and how that becomes results.

use std::collections::BTreeMap;
use std::time::Duration;

use walwright_record::{
    ClientDetail, ClientUnit, LatencySums, LoadInterval, OperationTotals, ScriptInterval, Timestamp,
};

use crate::Results;
use crate::collect::MOST_SECONDS;
use crate::line::Source;
use crate::results::empty_log;

/// Longest stretch between two reports: more is a mistake in them.
const LONGEST: f64 = 86_400.0;
/// Most operations that one report may tell.
const MOST: f64 = 1e12;

/// What a tool told so far.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub unit: ClientUnit,
    /// Totals of the whole test; the first are of all operations.
    pub totals: Vec<OperationTotals>,
    pub succeeded: Option<u64>,
    pub failures: BTreeMap<String, u64>,
    pub reports: Vec<Report>,
    /// What a reader should know, each a sentence.
    pub notes: Vec<String>,
}

/// What a tool reported of the time since its last report.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Report {
    /// When it came, where somebody looked on.
    pub came: Option<Timestamp>,
    /// Its end: seconds from the start of the test, or since 1970.
    pub end: f64,
    /// Operations a second that ended well.
    pub rate: f64,
    /// Failures and skipped ones: counts of this report.
    pub failed: u64,
    pub skipped: u64,
    pub retried: u64,
    pub retries: u64,
    /// Mean latency and its standard deviation in seconds, where told.
    pub mean: Option<f64>,
    pub deviation: Option<f64>,
    /// Whether the tool keeps to a rate, so that operations are due.
    pub due: bool,
    pub clients: Option<u32>,
}

impl Told {
    pub fn of(unit: ClientUnit) -> Told {
        Told {
            unit,
            totals: Vec::new(),
            succeeded: None,
            failures: BTreeMap::new(),
            reports: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Totals of a whole test that count failed operations without saying why, with what a
    /// reader should know.
    pub fn of_whole(unit: ClientUnit, totals: OperationTotals, note: &str) -> Told {
        let failed = totals.failed.unwrap_or(0);
        let mut told = Told::of(unit);
        told.succeeded = totals.count.map(|count| count.saturating_sub(failed));
        told.failed(FAILED, failed);
        told.totals.push(totals);
        told.notes.push(note.to_owned());
        told
    }

    /// Counts failures of a kind, where there are some.
    pub fn failed(&mut self, kind: &str, count: u64) {
        if count > 0 {
            crate::collect::count_kind(&mut self.failures, kind, count);
        }
    }

    /// Whether it holds a figure.
    pub fn tells(&self) -> bool {
        let total = |of: &OperationTotals| of.count.is_some() || of.throughput.is_some();
        self.totals.iter().any(total) || !intervals(&self.reports).is_empty()
    }

    pub fn results(self, source: Source<'_>) -> Results {
        let intervals = intervals(&self.reports);
        let detail =
            if intervals.is_empty() { ClientDetail::Totals } else { ClientDetail::Intervals };
        let mut log = empty_log(source, detail);
        log.first = intervals.first().map(|interval| interval.start);
        log.last = intervals.last().map(|interval| interval.start.plus(interval.length));
        let told = || intervals.iter().flat_map(|interval| &interval.scripts);
        let counted = (!intervals.is_empty())
            .then(|| told().fold(0_u64, |sum, script| sum.saturating_add(script.transactions)));
        log.succeeded = self.succeeded.or(counted);
        log.failures = self.failures;
        if log.failures.is_empty() {
            let failed = told().flat_map(|script| script.failures.values());
            let failed = failed.fold(0_u64, |sum, count| sum.saturating_add(*count));
            log.failures.extend((failed > 0).then(|| (FAILED.to_owned(), failed)));
        }
        log.totals = self.totals;
        log.notes = self.notes;
        if !intervals.is_empty() {
            log.notes.insert(
                0,
                "its reports tell rates and means: percentiles of the measured window are not known"
                    .to_owned(),
            );
        }
        let operations = if intervals.is_empty() {
            Vec::new()
        } else {
            vec![format!("all {}s", self.unit.name())]
        };
        Results { log, unit: self.unit, operations, intervals }
    }
}

/// The one kind of failures that tools count without saying of what.
pub(crate) const FAILED: &str = "failed";

/// Reports laid on the clock. None where they do not say when they were made and nobody
/// looked on.
fn intervals(reports: &[Report]) -> Vec<LoadInterval> {
    // A test that begins counts anew.
    let tests = reports.chunk_by(|before, after| after.end > before.end);
    let mut intervals: Vec<LoadInterval> = tests.flat_map(of_test).collect();
    intervals.sort_by_key(|interval| interval.start);
    intervals.truncate(MOST_SECONDS);
    intervals
}

fn of_test(reports: &[Report]) -> Vec<LoadInterval> {
    let absolute = reports.first().is_some_and(|first| first.end > 1e8);
    // A line comes when it is printed or later, never earlier.
    let begin = match absolute {
        true => Some(0.0),
        false => reports
            .iter()
            .filter_map(|report| Some(report.came?.0 as f64 / 1e6 - report.end))
            .min_by(f64::total_cmp),
    };
    let Some(begin) = begin else { return Vec::new() };
    // Where moments are told, the first report does not say when it began.
    let first = match reports {
        [one, two, ..] if absolute => one.end - (two.end - one.end),
        [one] if absolute => one.end,
        _ => 0.0,
    };
    let ends = reports.iter().map(|report| report.end);
    let starts = std::iter::once(first).chain(ends);
    let pairs = starts.zip(reports);
    pairs.filter_map(|(start, report)| of_report(begin, start, report)).collect()
}

fn of_report(begin: f64, start: f64, report: &Report) -> Option<LoadInterval> {
    let seconds = report.end - start;
    let at = ((begin + start) * 1e6).round();
    let count = (report.rate * seconds).round();
    let sane = (1e-3..LONGEST).contains(&seconds)
        && (0.0..MOST).contains(&count)
        && (0.0..9e18).contains(&at);
    if !sane {
        return None;
    }
    let mean = report.mean.filter(|mean| (0.0..LONGEST).contains(mean));
    let squares = mean.zip(report.deviation).map(|(m, d)| count * (m * m + d * d));
    let sums = mean.map(|mean| LatencySums {
        seconds: mean * count,
        squares: squares.filter(|squares| squares.is_finite()),
        min: None,
        max: None,
    });
    let flying = mean.map_or(0.0, |mean| mean * report.rate).ceil() as u32;
    let retries = (report.retries > 0).then(|| ("40001 or 40P01".to_owned(), report.retries));
    let count = count as u64;
    Some(LoadInterval {
        start: Timestamp(at as i64),
        length: Duration::from_secs_f64(seconds),
        scripts: vec![ScriptInterval {
            transactions: count,
            failures: (report.failed > 0)
                .then(|| (FAILED.to_owned(), report.failed))
                .into_iter()
                .collect(),
            retried: report.retried,
            retries: retries.into_iter().collect(),
            sums,
            ..ScriptInterval::default()
        }],
        clients: report.clients.unwrap_or(flying),
        due: if report.due {
            count.saturating_add(report.skipped).saturating_add(report.failed)
        } else {
            0
        },
        skipped: report.skipped,
        ..LoadInterval::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(end: f64, came: Option<i64>) -> Report {
        let came = came.map(|millis| Timestamp(1_795_132_800_000_000 + millis * 1_000));
        Report { came, end, rate: 100.0, mean: Some(0.01), ..Report::default() }
    }

    #[test]
    fn reports_lie_where_the_earliest_line_puts_them() {
        let reports =
            [report(1.0, Some(1_250)), report(2.0, Some(2_040)), report(3.0, Some(3_100))];
        let laid = intervals(&reports);
        let starts: Vec<i64> = laid.iter().map(|i| i.start.0 - 1_795_132_800_000_000).collect();
        assert_eq!(starts, [40_000, 1_040_000, 2_040_000]);
        assert!(laid.iter().all(|i| i.scripts[0].transactions == 100));
        assert_eq!(laid[0].scripts[0].latency_sum(), (100, 1.0));
    }

    #[test]
    fn without_a_moment_there_is_no_timeline() {
        assert!(intervals(&[report(1.0, None), report(2.0, None)]).is_empty());
        let absolute = [report(1_795_132_801.0, None), report(1_795_132_803.0, None)];
        let laid = intervals(&absolute);
        assert_eq!(laid[0].start, Timestamp(1_795_132_799_000_000));
        assert_eq!(laid[1].length, Duration::from_secs(2));
    }

    #[test]
    fn a_second_test_counts_anew() {
        let reports =
            [report(1.0, Some(1_000)), report(2.0, Some(2_000)), report(1.0, Some(9_000))];
        let laid = intervals(&reports);
        assert_eq!(laid[2].start, Timestamp(1_795_132_808_000_000));
    }
}
