//! What the probe itself takes from the machine and the server.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use walwright_record::{Row, Warning, WarningCode};

use crate::pace::Pace;

/// Running totals, written by the probe's threads.
#[derive(Debug, Default)]
pub(crate) struct Cost {
    queries: AtomicU64,
    commits: AtomicU64,
    query_nanos: AtomicU64,
    bytes: AtomicU64,
    sql_thread_nanos: AtomicU64,
    host_thread_nanos: AtomicU64,
    /// 0 while no backend's processor time could be read.
    backend_nanos: AtomicU64,
    skipped: AtomicU64,
    reconnects: AtomicU64,
}

/// Which of the probe's threads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ProbeThread {
    Sql,
    Host,
}

impl Cost {
    pub(crate) fn queries(&self, number: u64, took: Duration) {
        self.queries.fetch_add(number, Relaxed);
        self.query_nanos.fetch_add(nanos(took), Relaxed);
    }

    /// Of the queries, those that `pg_stat_database` has as commits by now.
    pub(crate) fn commits(&self, number: u64) {
        self.commits.fetch_add(number, Relaxed);
    }

    pub(crate) fn bytes(&self, received: usize) {
        self.bytes.fetch_add(received as u64, Relaxed);
    }

    pub(crate) fn skipped(&self, ticks: u64) {
        self.skipped.fetch_add(ticks, Relaxed);
    }

    pub(crate) fn reconnected(&self) {
        self.reconnects.fetch_add(1, Relaxed);
    }

    pub(crate) fn backend(&self, more: Duration) {
        self.backend_nanos.fetch_add(nanos(more), Relaxed);
    }

    /// Stores the calling thread's processor time so far.
    pub(crate) fn measure_thread(&self, which: ProbeThread) {
        let Some(now) = thread_cpu() else { return };
        match which {
            ProbeThread::Sql => self.sql_thread_nanos.store(nanos(now), Relaxed),
            ProbeThread::Host => self.host_thread_nanos.store(nanos(now), Relaxed),
        }
    }

    fn own_cpu(&self) -> Duration {
        Duration::from_nanos(
            self.sql_thread_nanos.load(Relaxed) + self.host_thread_nanos.load(Relaxed),
        )
    }

    fn backend_cpu(&self) -> Option<Duration> {
        match self.backend_nanos.load(Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// The totals as a row of [`walwright_record::Source::ProbeCost`].
    pub(crate) fn row(&self) -> Row {
        let mut row = Row::new();
        row.set("queries", self.queries.load(Relaxed))
            .set("commits", self.commits.load(Relaxed))
            .set("query_ms", self.query_nanos.load(Relaxed) as f64 / 1e6)
            .set("bytes", self.bytes.load(Relaxed))
            .set("cpu_seconds", self.own_cpu().as_secs_f64())
            .set("backend_cpu_seconds", self.backend_cpu().map(|cpu| cpu.as_secs_f64()))
            .set("skipped", self.skipped.load(Relaxed));
        row
    }

    pub(crate) fn report(&self, duration: Duration, processors: Option<u32>) -> ProbeReport {
        ProbeReport {
            duration,
            queries: self.queries.load(Relaxed),
            query_time: Duration::from_nanos(self.query_nanos.load(Relaxed)),
            bytes: self.bytes.load(Relaxed),
            own_cpu: self.own_cpu(),
            backend_cpu: self.backend_cpu(),
            processors,
            reconnects: self.reconnects.load(Relaxed),
            slowed: Vec::new(),
            not_observable: Vec::new(),
        }
    }
}

/// Processor time of the calling thread.
pub(crate) fn thread_cpu() -> Option<Duration> {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).ok().map(Duration::from)
}

fn nanos(of: Duration) -> u64 {
    u64::try_from(of.as_nanos()).unwrap_or(u64::MAX)
}

/// What the probe cost over its life, and what it could not do.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeReport {
    /// From start to stop.
    pub duration: Duration,
    /// Queries sent to the server.
    pub queries: u64,
    /// Time spent waiting for their answers, summed over both connections.
    pub query_time: Duration,
    /// Bytes of row data received.
    pub bytes: u64,
    /// Processor time of the probe's own threads.
    pub own_cpu: Duration,
    /// Processor time of the backends that served it; `None` where the server's
    /// processes cannot be seen.
    pub backend_cpu: Option<Duration>,
    /// Processors of the machine; `None` where it is not this one.
    pub processors: Option<u32>,
    /// Connections that were lost and opened again.
    pub reconnects: u64,
    /// Readings that were taken less often than asked, or missed.
    pub slowed: Vec<SlowedSource>,
    /// What could not be seen while sampling, each a sentence.
    pub not_observable: Vec<String>,
}

/// A reading that was taken less often than asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowedSource {
    /// What was read.
    pub what: String,
    /// The interval asked for.
    pub asked: Duration,
    /// The interval at the end, lengthened to stay within the probe's budget.
    pub interval: Duration,
    /// Readings taken.
    pub taken: u64,
    /// Readings missed because the one before was still under way.
    pub missed: u64,
}

impl SlowedSource {
    /// What `pace` has to confess, if anything.
    pub(crate) fn of(what: &str, pace: &Pace) -> Option<SlowedSource> {
        (pace.skipped > 0 || pace.interval() > pace.nominal()).then(|| SlowedSource {
            what: what.to_owned(),
            asked: pace.nominal(),
            interval: pace.interval(),
            taken: pace.taken,
            missed: pace.skipped,
        })
    }

    /// One sentence about it.
    pub fn sentence(&self) -> String {
        let mut parts = Vec::new();
        if self.interval > self.asked {
            parts.push(format!(
                "slowed from every {:?} to every {:?} to keep the probe cheap",
                self.asked, self.interval
            ));
        }
        if self.missed > 0 {
            let readings = if self.missed == 1 { "reading" } else { "readings" };
            parts.push(format!(
                "{} {readings} missed because the server or the machine was slow, {} taken",
                self.missed, self.taken
            ));
        }
        format!("{}: {}", self.what, parts.join("; "))
    }
}

/// The share of a machine above which the probe's cost is a warning about the run.
const ACCEPTABLE_SHARE: f64 = 0.01;

impl ProbeReport {
    /// Processor time of threads and backends as a share of what the machine
    /// had to give, 0 to 1.
    pub fn machine_share(&self) -> Option<f64> {
        let capacity = self.duration.as_secs_f64() * f64::from(self.processors?);
        let used = (self.own_cpu + self.backend_cpu.unwrap_or_default()).as_secs_f64();
        (capacity > 0.0).then(|| used / capacity)
    }

    /// A warning to put on the record, where the probe took more than 1 % of the machine.
    pub fn warning(&self) -> Option<Warning> {
        let share = self.machine_share().filter(|share| *share > ACCEPTABLE_SHARE)?;
        Some(
            Warning::new(
                WarningCode::ProbeCost,
                format!(
                    "the probe took {:.1} % of the machine's processor time ({:.1} s of its own, {:.1} s in the server)",
                    share * 100.0,
                    self.own_cpu.as_secs_f64(),
                    self.backend_cpu.unwrap_or_default().as_secs_f64(),
                ),
            )
            .hint("lower the sampling rates"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_counts_threads_and_backends_over_all_processors() {
        let cost = Cost::default();
        cost.backend(Duration::from_millis(300));
        let mut report = cost.report(Duration::from_secs(10), Some(2));
        report.own_cpu = Duration::from_millis(100);
        assert_eq!(report.machine_share(), Some(0.02));
        assert_eq!(report.warning().map(|w| w.code), Some(WarningCode::ProbeCost));
        report.processors = Some(8);
        assert_eq!(report.warning(), None);
        report.processors = None;
        assert_eq!(report.machine_share(), None);
    }

    #[test]
    fn a_backend_that_cannot_be_seen_is_unknown() {
        let row = Cost::default().row();
        assert_eq!(row.number("backend_cpu_seconds"), None);
        assert_eq!(row.number("queries"), Some(0.0));
    }

    #[test]
    fn the_threads_own_clock_moves_when_it_computes() {
        let cost = Cost::default();
        cost.measure_thread(ProbeThread::Sql);
        let before = cost.own_cpu();
        let mut sum = 0_u64;
        while cost.own_cpu() == before {
            sum = sum.wrapping_mul(31).wrapping_add(7);
            cost.measure_thread(ProbeThread::Sql);
        }
        assert!(std::hint::black_box(sum) < u64::MAX);
    }
}
