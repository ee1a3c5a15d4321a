//! One run of a sweep, and the runs of one client count together: throughput, and the
//! latency split by the resource that sessions were in or waited for.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use walwright_record::{Record, RunId, RunState};
use walwright_stats::{Confidence, Estimate, Interval, Method, mean, t_quantile, variance};

use super::SweptRun;
use crate::{TimeSplit, WaitClass, WorkUnit};

/// What a transaction uses or waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ScalingResource {
    /// On a processor, or ready and waiting for one.
    Processors,
    /// Writing or flushing WAL, or waiting while another session does.
    WalFlush,
    /// Row locks and other heavyweight locks.
    Locks,
    /// Lightweight locks other than the WAL write lock.
    Lwlocks,
    /// Reading and writing data.
    DataIo,
    /// A standby's confirmation.
    Replication,
    /// Waiting for the client, the network, and the client's own work.
    Clients,
    /// The load generator, where it is near what it can do.
    Generator,
    /// Any other wait.
    Other,
}

impl ScalingResource {
    /// Those that the latency breakdown has lines for, in the order they are shown.
    pub const ALL: [ScalingResource; 8] = [
        ScalingResource::Processors,
        ScalingResource::WalFlush,
        ScalingResource::Locks,
        ScalingResource::Lwlocks,
        ScalingResource::DataIo,
        ScalingResource::Replication,
        ScalingResource::Clients,
        ScalingResource::Other,
    ];

    /// For display.
    pub fn label(self) -> &'static str {
        match self {
            ScalingResource::Processors => "processors",
            ScalingResource::WalFlush => "WAL flush",
            ScalingResource::Locks => "locks",
            ScalingResource::Lwlocks => "LWLocks",
            ScalingResource::DataIo => "data I/O",
            ScalingResource::Replication => "replication",
            ScalingResource::Clients => "clients, network",
            ScalingResource::Generator => "load generator",
            ScalingResource::Other => "other",
        }
    }

    fn of(class: WaitClass) -> ScalingResource {
        match class {
            WaitClass::Cpu | WaitClass::RunQueue => ScalingResource::Processors,
            WaitClass::Flush | WaitClass::FlushQueue => ScalingResource::WalFlush,
            WaitClass::Replication => ScalingResource::Replication,
            WaitClass::Io => ScalingResource::DataIo,
            WaitClass::Lock => ScalingResource::Locks,
            WaitClass::Lwlock => ScalingResource::Lwlocks,
            WaitClass::Client => ScalingResource::Clients,
            WaitClass::Other => ScalingResource::Other,
        }
    }
}

/// Time of a transaction in one resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResourceTime {
    /// Which.
    pub resource: ScalingResource,
    /// Seconds of a transaction.
    pub seconds: Estimate,
    /// Share of its latency.
    pub share: Estimate,
}

/// The first problem that a run's diagnosis names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PointFinding {
    /// Which diagnosis, by its code (D15).
    pub id: String,
    /// The cause in one sentence.
    pub cause: String,
    /// Share of the latency that it costs, where the run can tell.
    pub share: Option<f64>,
}

/// One run of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScalingPoint {
    /// The run.
    pub run: RunId,
    /// Client connections.
    pub clients: u32,
    /// What throughput counts.
    pub unit: WorkUnit,
    /// Work a second, with the precision inside the run.
    pub throughput: Estimate,
    /// Length of the measured window.
    #[serde(with = "crate::seconds")]
    pub window: Duration,
    /// Mean latency; `None` where it is not known.
    #[serde(with = "crate::seconds::option")]
    pub latency: Option<Duration>,
    /// 99th percentile of latency.
    #[serde(with = "crate::seconds::option")]
    pub p99: Option<Duration>,
    /// The latency by resource; empty without samples of wait events.
    pub times: Vec<ResourceTime>,
    /// Share of the machine's processors that were busy, where they can be seen.
    pub busy: Option<f64>,
    /// Share of its own ceiling that the load generator ran at: its busiest thread's part
    /// of a processor, or its rate over what it can do here, whichever is more.
    pub generator: Option<f64>,
    /// What the run's diagnosis names first.
    pub finding: Option<PointFinding>,
}

impl ScalingPoint {
    /// A run as a point; `None` where it did not end as planned, or has no clients or no
    /// throughput.
    pub(super) fn of(run: &SweptRun<'_>) -> Option<ScalingPoint> {
        let SweptRun { record, summary, problem } = run;
        if record.header.state != RunState::Complete {
            return None;
        }
        let load = summary.load.as_ref()?;
        let throughput = load.throughput.clone().filter(|t| t.center > 0.0)?;
        Some(ScalingPoint {
            run: record.header.id.clone(),
            clients: summary.clients?,
            unit: load.unit,
            window: summary.window?,
            latency: load.latency.as_ref().map(|latency| latency.mean),
            p99: load.latency.as_ref().map(|latency| latency.p99),
            times: summary.time.as_ref().map(times).unwrap_or_default(),
            busy: summary.cpu.as_ref().and_then(|cpu| cpu.busy),
            generator: generator(record, throughput.center),
            throughput,
            finding: problem.clone(),
        })
    }
}

/// How near the load generator came to what it can do.
fn generator(record: &Record, rate: f64) -> Option<f64> {
    let instrument = record.instrument.as_ref()?;
    let of_ceiling = instrument.ceiling.filter(|c| *c > 0.0).map(|ceiling| rate / ceiling);
    of_ceiling.into_iter().chain(instrument.busiest_thread).max_by(f64::total_cmp)
}

/// The latency breakdown, summed by resource. Ends of intervals add up at worst, since parts of one
/// run come from the same ticks.
fn times(split: &TimeSplit) -> Vec<ResourceTime> {
    let whole = split.whole();
    let mut sums: BTreeMap<ScalingResource, Estimate> = BTreeMap::new();
    let outside = split.outside();
    // What the gateway withholds waits for the flush that covers it, known or not.
    let waits_for = match split.is_withheld {
        true => ScalingResource::WalFlush,
        false => ScalingResource::Clients,
    };
    let kept_back = split.gateway.map(|of| {
        let exact = |time: Duration| Estimate {
            center: time.as_secs_f64(),
            interval: None,
            ..split.on_server.clone()
        };
        let (flush, queue) = (exact(of.withheld), exact(of.queue));
        [(ScalingResource::WalFlush, flush), (ScalingResource::Other, queue)]
    });
    let kept_back = kept_back.iter().flatten().map(|(resource, seconds)| (*resource, seconds));
    let parts = split
        .parts
        .iter()
        .map(|part| (ScalingResource::of(part.class), &part.per_transaction))
        .chain(outside.iter().map(|outside| (waits_for, outside)))
        .chain(kept_back);
    for (resource, seconds) in parts {
        let sum = match sums.remove(&resource) {
            Some(before) => sum_of(&before, seconds),
            None => seconds.clone(),
        };
        sums.insert(resource, sum);
    }
    sums.into_iter()
        .filter(|_| whole > 0.0)
        .map(|(resource, seconds)| ResourceTime {
            share: seconds.clone().map(|s| s / whole),
            resource,
            seconds,
        })
        .collect()
}

/// Two times of the same ticks: their ends add up at worst.
fn sum_of(a: &Estimate, b: &Estimate) -> Estimate {
    let both = a.interval.zip(b.interval);
    Estimate {
        center: a.center + b.center,
        interval: both.map(|(a, b)| Interval { low: a.low + b.low, high: a.high + b.high }),
        ..a.clone()
    }
}

/// The runs of one client count.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScalingLoad {
    /// Client connections.
    pub clients: u32,
    /// Its runs, in the order of time.
    pub runs: Vec<RunId>,
    /// Work a second: of one run with the precision inside it, of several their mean with
    /// the interval between them.
    pub throughput: Estimate,
    /// Mean latency in seconds over the runs.
    pub latency: Option<f64>,
    /// 99th percentile in seconds, mean over the runs.
    pub p99: Option<f64>,
    /// The latency by resource, mean over the runs.
    pub times: Vec<ResourceTime>,
    /// Share of the machine's processors that were busy, mean over the runs.
    pub busy: Option<f64>,
    /// Share of its own ceiling that the load generator ran at, the most of the runs.
    pub generator: Option<f64>,
    /// What the diagnosis of the last run names first.
    pub finding: Option<PointFinding>,
}

impl ScalingLoad {
    /// Points, sorted by clients, put together by their clients.
    pub(super) fn all(points: &[ScalingPoint]) -> Vec<ScalingLoad> {
        points.chunk_by(|a, b| a.clients == b.clients).filter_map(ScalingLoad::of).collect()
    }

    /// The resource's time, where it was seen.
    pub fn time(&self, resource: ScalingResource) -> Option<&ResourceTime> {
        self.times.iter().find(|time| time.resource == resource)
    }

    fn of(points: &[ScalingPoint]) -> Option<ScalingLoad> {
        let last = points.last()?;
        let mean_of = |of: &dyn Fn(&ScalingPoint) -> Option<f64>| -> Option<f64> {
            mean(&points.iter().filter_map(of).collect::<Vec<f64>>())
        };
        let seconds = |of: Option<Duration>| of.map(|d| d.as_secs_f64());
        let throughputs: Vec<f64> = points.iter().map(|p| p.throughput.center).collect();
        let throughput = between_runs(&throughputs).unwrap_or_else(|| last.throughput.clone());
        Some(ScalingLoad {
            clients: last.clients,
            runs: points.iter().map(|p| p.run.clone()).collect(),
            throughput,
            latency: mean_of(&|p| seconds(p.latency)),
            p99: mean_of(&|p| seconds(p.p99)),
            times: together(points),
            busy: mean_of(&|p| p.busy),
            generator: points.iter().filter_map(|p| p.generator).max_by(f64::total_cmp),
            finding: last.finding.clone(),
        })
    }
}

/// The mean of independent runs with Student's interval; `None` of fewer than two.
fn between_runs(values: &[f64]) -> Option<Estimate> {
    let count = values.len() as f64;
    let error = (variance(values)? / count).sqrt();
    let half_width = t_quantile(Confidence::P95, count - 1.0)? * error;
    Some(Estimate::symmetric(mean(values)?, half_width, Confidence::P95, Method::Student))
}

/// Times of several runs: means, with the precision of a mean of independent estimates.
/// What a run was not seen in is zero there, since its ticks show all resources.
fn together(points: &[ScalingPoint]) -> Vec<ResourceTime> {
    let sampled: Vec<&ScalingPoint> = points.iter().filter(|p| !p.times.is_empty()).collect();
    if sampled.is_empty() {
        return Vec::new();
    }
    let count = sampled.len() as f64;
    let of = |resource: ScalingResource, which: fn(&ResourceTime) -> &Estimate| -> Estimate {
        let found: Vec<&Estimate> = sampled
            .iter()
            .filter_map(|p| p.times.iter().find(|time| time.resource == resource))
            .map(which)
            .collect();
        let center = found.iter().map(|e| e.center).sum::<f64>() / count;
        let squares: f64 =
            found.iter().filter_map(|e| e.interval).map(|i| i.half_width().powi(2)).sum();
        Estimate::symmetric(center, squares.sqrt() / count, Confidence::P95, Method::BlockBootstrap)
    };
    ScalingResource::ALL
        .into_iter()
        .map(|resource| ResourceTime {
            resource,
            seconds: of(resource, |time| &time.seconds),
            share: of(resource, |time| &time.share),
        })
        .filter(|time| time.seconds.center != 0.0)
        .collect()
}
