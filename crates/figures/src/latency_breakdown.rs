//! The latency breakdown: the client's mean latency, closed line by line, and what counters
//! say against what was sampled.

use std::time::Duration;

use serde::Serialize;
use walwright_record::{Record, Row, Source, Window};
use walwright_stats::Estimate;

use crate::{GatewayTime, Summary, TimeSplit, WaitClass, WorkUnit, difference, work_counted};

/// Sampled and counted time may differ by this factor before the instrument is
/// said to disagree with the server: both have a start-up of a call in them, and
/// sampling errs by a few points.
const FACTOR: f64 = 1.5;
/// Share of the latency below which a disagreement changes no conclusion.
const NEGLIGIBLE: f64 = 0.02;

/// The client's latency in lines that sum up to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyBreakdown {
    /// What the seconds are per.
    pub unit: WorkUnit,
    /// Mean latency that the clients saw; `None` for a load whose clients are not
    /// in the record. Then the lines sum up to the time on the server, and what a gateway kept
    /// back.
    #[serde(with = "crate::seconds::option")]
    pub latency: Option<Duration>,
    /// The lines, largest first; the residual last.
    pub lines: Vec<BookLine>,
    /// Times that the kernel counted and that lie inside the lines, where these are samples
    /// alone: a session that waits for a processor shows the wait it has just been woken from.
    pub memo: Vec<BookLine>,
    /// Figures that two instruments measured.
    pub checks: Vec<CrossCheck>,
    /// Reasons to trust the latency breakdown less.
    pub warnings: Vec<String>,
}

/// One line of the latency breakdown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BookLine {
    /// For display.
    pub name: String,
    /// Wait class, where it is one.
    pub class: Option<WaitClass>,
    /// Seconds of a transaction.
    pub per_transaction: Estimate,
    /// Share of the latency.
    pub share: f64,
}

/// One figure measured twice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CrossCheck {
    /// What was measured.
    pub what: String,
    /// Seconds of a transaction by samples of wait events.
    pub sampled: Estimate,
    /// Seconds of a transaction by counters.
    pub counted: f64,
    /// The counters.
    pub source: String,
    /// Whether they agree as well as they should.
    pub agrees: bool,
}

impl LatencyBreakdown {
    /// Closes the latency breakdown of a summary; `None` without samples of wait events.
    pub fn close(record: &Record, window: Window, summary: &Summary) -> Option<LatencyBreakdown> {
        let time = summary.time.as_ref()?;
        let whole = time.whole();
        if whole <= 0.0 {
            return None;
        }
        let line = |name: &str, class: Option<WaitClass>, per_transaction: Estimate| BookLine {
            name: name.to_owned(),
            class,
            share: per_transaction.center / whole,
            per_transaction,
        };
        let exact = |of: Duration, like: &Estimate| Estimate {
            center: of.as_secs_f64(),
            interval: None,
            ..like.clone()
        };
        let mut lines: Vec<BookLine> = time
            .parts
            .iter()
            .map(|part| {
                line(time.label(part.class), Some(part.class), part.per_transaction.clone())
            })
            .collect();
        if let Some(queue) = time.queue.filter(|queue| !queue.is_zero()) {
            lines.push(line("queue in the client", None, exact(queue, &time.on_server)));
        }
        if let Some(driver) = time.driver {
            let like = &time.on_server;
            for (name, time) in driver.labels().into_iter().zip([driver.cpu, driver.run_delay]) {
                lines.push(line(name, None, exact(time, like)));
            }
        }
        if let Some(pooler) = time.pooler {
            let times = [("pooler CPU", pooler.cpu), ("pooler waiting for CPU", pooler.run_delay)];
            for (name, time_of) in times {
                lines.push(line(name, None, exact(time_of, &time.on_server)));
            }
        }
        for (name, time_of) in time.gateway.into_iter().flat_map(GatewayTime::lines) {
            lines.push(line(name, None, exact(time_of, &time.on_server)));
        }
        for (name, time_of) in time.application.into_iter().flat_map(|of| of.lines()) {
            lines.push(line(name, None, exact(time_of, &time.on_server)));
        }
        lines.sort_by(|a, b| b.share.total_cmp(&a.share));
        if let Some(residual) = &time.residual {
            let name = match (time.is_withheld, time.asks_http) {
                (true, _) => "residual: withheld until durable, network",
                (_, true) => "residual: network, queues of the application",
                _ => "residual: network, client",
            };
            lines.push(line(name, None, residual.clone()));
        }
        // Where the kernel's count makes the lines it is no memo beside them.
        let memo = [
            ("CPU of the backends, by the kernel", time.counted_cpu),
            ("backends waiting for a processor", time.counted_run_delay),
        ]
        .into_iter()
        .filter(|_| time.sampled_because.is_some())
        .filter_map(|(name, counted)| Some(line(name, None, exact(counted?, &time.on_server))))
        .collect();
        let mut warnings = time.warnings.clone();
        let checks = cross_checks(record, window, time);
        warnings.extend(checks.iter().filter(|check| !check.agrees).map(|check| {
            format!(
                "{}: {:.3} ms a transaction by samples and {:.3} ms by {}: trust neither on its own",
                check.what,
                check.sampled.center * 1e3,
                check.counted * 1e3,
                check.source
            )
        }));
        Some(LatencyBreakdown {
            unit: time.unit,
            latency: time.latency,
            lines,
            memo,
            checks,
            warnings,
        })
    }
}

fn cross_checks(record: &Record, window: Window, time: &TimeSplit) -> Vec<CrossCheck> {
    let latency = time.whole();
    let Some((counted, source)) = backend_flush(record, window, time) else { return Vec::new() };
    let sampled = sampled_flush(time);
    let low = sampled.low().unwrap_or(sampled.center);
    let high = sampled.high().unwrap_or(sampled.center);
    let apart = (counted - sampled.center).abs() > NEGLIGIBLE * latency;
    let agrees = !apart || (counted >= low / FACTOR && counted <= high * FACTOR);
    let what = "WAL flush".to_owned();
    vec![CrossCheck { what, sampled, counted, source: source.to_owned(), agrees }]
}

/// Sampled time in the sync alone: the counters leave the write out.
fn sampled_flush(time: &TimeSplit) -> Estimate {
    let Some(part) = time.part(WaitClass::Flush) else {
        return time.on_server.clone().map(|_| 0.0);
    };
    let of = |name: &str| -> f64 {
        let named = part.events.iter().filter(|e| e.event.to_ascii_lowercase().ends_with(name));
        named.map(|e| e.per_transaction).sum()
    };
    let (sync, write) = (of("walsync"), of("walwrite"));
    let share = if sync + write > 0.0 { sync / (sync + write) } else { 1.0 };
    part.per_transaction.clone().map(|t| t * share)
}

/// Flush time of client backends a transaction by counters. Up to 17 the counter
/// has the WAL writer's flushes in it; where that matters the samples are lower. Behind a gateway
/// it is the barrier that flushes, which is no client's.
fn backend_flush(record: &Record, window: Window, time: &TimeSplit) -> Option<(f64, &'static str)> {
    if time.gateway.is_some() {
        return None;
    }
    let by_backends = difference(record, Source::Io, window).ok().and_then(|io| {
        let of = |row: &Row| {
            row.text("object") == Some("wal")
                && row.text("context") == Some("normal")
                && row.text("backend_type") == Some("client backend")
        };
        let milliseconds = io.sum_where("fsync_time", of).ok().filter(|ms| *ms > 0.0)?;
        let work = work_counted(record, &io).ok()?;
        Some((milliseconds / 1e3 / work.count, "pg_stat_io"))
    });
    by_backends.or_else(|| {
        let counted = time.counted_flush.filter(|counted| !counted.is_zero())?;
        Some((counted.as_secs_f64(), "pg_stat_wal"))
    })
}
