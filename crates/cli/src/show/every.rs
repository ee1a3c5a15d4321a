//! A line of progress every so many seconds of load, as of pgbench's `-P`.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use walwright_record::{LatencyHistogram, LoadInterval};
use walwright_report::format;
use walwright_run::{Observe, Progress};

use super::plain::Plain;
use crate::output::say;

/// Prints what happened since its last line; all but the load as [`Plain`] does.
pub struct Every {
    every: Duration,
    plain: Plain,
    since: Mutex<Since>,
}

/// The load since the last line.
struct Since {
    /// Seconds since the load began, and since the last line.
    begun: Duration,
    length: Duration,
    transactions: u64,
    failures: u64,
    latency: LatencyHistogram,
}

impl Every {
    /// Nothing printed yet.
    pub fn new(every: Duration) -> Every {
        let since = Since {
            begun: Duration::ZERO,
            length: Duration::ZERO,
            transactions: 0,
            failures: 0,
            latency: LatencyHistogram::new(),
        };
        Every { every, plain: Plain::new(), since: Mutex::new(since) }
    }
}

impl Observe<Progress<'_>> for Every {
    fn event(&self, progress: Progress<'_>) {
        let Progress::Interval { interval, measured, .. } = progress else {
            return self.plain.event(progress);
        };
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.add(interval);
        if since.length >= self.every {
            say(&since.line(measured.is_zero()));
        }
    }
}

impl Since {
    fn add(&mut self, interval: &LoadInterval) {
        self.begun += interval.length;
        self.length += interval.length;
        self.transactions += walwright_figures::transactions(interval);
        self.failures += walwright_figures::failures(interval);
        interval.scripts.iter().for_each(|script| script.latency.add_to(&mut self.latency));
    }

    /// The line, after which nothing has happened.
    fn line(&mut self, warming_up: bool) -> String {
        let rate = self.transactions as f64 / self.length.as_secs_f64();
        let mut line = format!("progress: {:.0} s, {rate:.1} tps", self.begun.as_secs_f64());
        for (name, percent) in [("p50", 50.0), ("p99", 99.0)] {
            if let Some(latency) = self.latency.percentile(percent) {
                line.push_str(&format!(", {name} {}", format::latency(latency)));
            }
        }
        line.push_str(&format!(", {} failed", self.failures));
        if warming_up {
            line.push_str(" (warming up)");
        }
        (self.length, self.transactions, self.failures) = (Duration::ZERO, 0, 0);
        self.latency.clear();
        line
    }
}
