//! What pgbench prints (src/bin/pgbench/pgbench.c, printProgressReport and printResults):
//! with `-P`, `progress: 5.0 s, 1234.5 tps, lat 1.234 ms stddev 0.567, 0 failed` and, where
//! they apply, `, lag 0.1 ms, 3 skipped` and `, 4 retried, 9 retries`; at the end
//! `number of transactions actually processed: 1234` and `latency average = 3.2 ms`.

use walwright_record::{ClientUnit, OperationTotals, Timestamp};

use super::told::{FAILED, Report, Told};
use super::{Tool, milliseconds, whole};
use crate::collect::MOST_SECONDS;

#[derive(Debug, Default)]
pub(super) struct Pgbench {
    /// One for each test: a script may run pgbench more than once.
    tests: Vec<OperationTotals>,
    reports: Vec<Report>,
    clients: Option<u32>,
}

impl Tool for Pgbench {
    fn line(&mut self, line: &str, came: Option<Timestamp>) {
        if let Some(rest) = line.strip_prefix("progress: ") {
            if self.reports.len() <= MOST_SECONDS {
                self.reports.extend(report(rest, came));
            }
        } else if line.starts_with("transaction type: ") {
            self.begin();
        } else if let Some(rest) = line.strip_prefix("number of transactions actually processed: ")
        {
            // With -t: `900/1000`.
            let count = whole(rest.split('/').next());
            if self.tests.last().is_none_or(|test| test.count.is_some()) {
                self.begin();
            }
            self.test(|test| test.count = count);
        } else if let Some(rest) = line.strip_prefix("number of clients: ") {
            self.clients = rest.parse().ok();
        } else if let Some(rest) = line.strip_prefix("number of failed transactions: ") {
            self.test(|test| test.failed = whole(rest.split(' ').next()));
        } else if let Some(rest) = line.strip_prefix("latency average = ") {
            let mean = milliseconds(rest.split(' ').next());
            self.test(|test| test.mean = mean);
        } else if let Some(rest) = line.strip_prefix("tps = ") {
            let rate = rest.split(' ').next().and_then(|rate| rate.parse().ok());
            self.test(|test| test.throughput = rate.filter(|rate: &f64| rate.is_finite()));
        }
    }

    fn told(&self) -> Option<Told> {
        let mut told = Told::of(ClientUnit::Transaction);
        told.reports = self.reports.clone();
        told.reports.iter_mut().for_each(|report| report.clients = self.clients);
        let tests: Vec<&OperationTotals> =
            self.tests.iter().filter(|test| test.count.is_some()).collect();
        if let Some(last) = tests.last() {
            let mut totals = (*last).clone();
            let failed = totals.failed.unwrap_or(0);
            told.succeeded = totals.count;
            told.failed(FAILED, failed);
            // pgbench counts those that failed apart.
            totals.count = totals.count.map(|count| count.saturating_add(failed));
            told.totals.push(totals);
            told.notes.push(
                "its totals are of pgbench's whole test: no percentile can be known from them; \
                 -l tells every transaction"
                    .to_owned(),
            );
        }
        if tests.len() > 1 {
            told.notes.push(format!(
                "pgbench ran {} times: its totals are those of the last",
                tests.len()
            ));
        }
        told.tells().then_some(told)
    }
}

impl Pgbench {
    fn begin(&mut self) {
        let name = "transactions".to_owned();
        // A new one replaces one of which nothing came, and the memory stays small.
        self.tests.retain(|test| test.count.is_some());
        if self.tests.len() < 1_000 {
            self.tests.push(OperationTotals { name, ..OperationTotals::default() });
        }
    }

    fn test(&mut self, change: impl FnOnce(&mut OperationTotals)) {
        if let Some(test) = self.tests.last_mut() {
            change(test);
        }
    }
}

/// What follows `progress: `. Fields are found by their words, which versions add to.
fn report(text: &str, came: Option<Timestamp>) -> Option<Report> {
    let mut fields = text.split(", ");
    let end = number(fields.next()?.strip_suffix(" s")?)?;
    let rate = number(fields.next()?.strip_suffix(" tps")?)?;
    let mut report = Report { came, end, rate, ..Report::default() };
    for field in fields {
        let words: Vec<&str> = field.split_ascii_whitespace().collect();
        match words[..] {
            ["lat", mean, "ms", "stddev", deviation] => {
                report.mean = number(mean).map(|millis| millis / 1e3);
                report.deviation = number(deviation).map(|millis| millis / 1e3);
            }
            ["lag", _, "ms"] => report.due = true,
            [count, "failed"] => report.failed = whole(Some(count))?,
            [count, "skipped"] => report.skipped = whole(Some(count))?,
            [count, "retried"] => report.retried = whole(Some(count))?,
            [count, "retries"] => report.retries = whole(Some(count))?,
            _ => {}
        }
    }
    Some(report)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_all_versions_are_read() {
        let read = |text: &str| report(text, None).unwrap();
        // 14; 18 with all that it may add.
        let old = read("5.0 s, 1234.5 tps, lat 1.234 ms stddev 0.567");
        assert_eq!((old.end, old.rate, old.mean), (5.0, 1234.5, Some(0.001_234)));
        let new = read(
            "2.0 s, 199.0 tps, lat 4.9 ms stddev 1.0, 2 failed, lag 1.204 ms, 3 skipped, 4 retried, 9 retries",
        );
        assert_eq!((new.failed, new.skipped, new.retried, new.retries), (2, 3, 4, 9));
        assert!(new.due && !old.due);
        assert_eq!(read("1795132801.250 s, 9.0 tps, lat 4.9 ms stddev 1.0").end, 1_795_132_801.25);
        for wrong in ["", "5 s", "x s, 1 tps", "5.0 s, nan tps, lat 1 ms stddev 1", "50 % done"] {
            assert_eq!(report(wrong, None), None, "{wrong}");
        }
    }
}
