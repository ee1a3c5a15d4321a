//! What runs say a server can do.

use std::time::Duration;

use serde::Serialize;
use thiserror::Error;
use walwright_figures::{Summary, WorkUnit};
use walwright_record::{Record, Schedule};
use walwright_stats::{Confidence, Interval, Moments, t_quantile};

/// What a server can do by one or several runs of one configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capacity {
    /// What the runs are called together.
    pub name: String,
    /// The runs.
    pub runs: Vec<String>,
    /// What the rate counts.
    pub unit: WorkUnit,
    /// A second.
    pub rate: f64,
    /// Where the rate lies in 95 of 100 cases: between runs where there are several, else with
    /// the precision inside the one run; `None` where neither can be told.
    pub interval: Option<Interval>,
    /// Whether the rate was offered, and not the most that the server could do.
    pub is_offered: bool,
    /// The largest p99 of the runs; `None` where single latencies are not known.
    #[serde(with = "walwright_figures::seconds::option")]
    pub p99: Option<Duration>,
    /// WAL bytes a transaction; `None` where it was not observed in all runs.
    pub wal_bytes: Option<f64>,
    /// Rows inserted, updated or deleted a transaction; `None` where not observed in all.
    pub writes: Option<f64>,
    /// Processors that the server might use: those of the machine, or fewer where it was held to
    /// some.
    pub processors: Option<f64>,
    /// Processors of the machine that was measured.
    pub machine_processors: Option<u32>,
    /// Memory that the server might use, in bytes.
    pub memory_bytes: Option<u64>,
    /// Reasons to trust it less, each a sentence.
    pub warnings: Vec<String>,
}

/// The machine of a run, and how much of it the server might use.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Machine {
    /// Its processors.
    pub processors: Option<u32>,
    /// Those that the server might use, where that was seen.
    pub usable: Option<f64>,
    /// Its memory in bytes.
    pub memory_bytes: Option<u64>,
    /// The limit of the server's memory, where it had one.
    pub memory_limit_bytes: Option<u64>,
}

impl Machine {
    /// The machine of a recorded run.
    pub fn of(record: &Record) -> Machine {
        let (host, target) = (record.host.as_ref(), record.target.as_ref());
        Machine {
            processors: host.and_then(|host| host.processors),
            usable: target.and_then(|target| target.processors),
            memory_bytes: host.and_then(|host| host.memory_bytes),
            memory_limit_bytes: target.and_then(|target| target.memory_limit_bytes),
        }
    }

    fn server_processors(&self) -> Option<f64> {
        self.usable.or(self.processors.map(f64::from))
    }

    fn memory(&self) -> Option<u64> {
        self.memory_limit_bytes.into_iter().chain(self.memory_bytes).min()
    }
}

/// Why runs tell no capacity.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum CapacityError {
    /// Nothing was measured.
    #[error("run {0} has no throughput: it ended before anything was measured")]
    NoThroughput(String),
    /// The runs count different things.
    #[error("the runs of '{0}' do not count the same: {1} and {2}")]
    Units(String, &'static str, &'static str),
    /// The server had different means.
    #[error(
        "the runs of '{0}' had {1} and {2} processors for the server: name them apart, by their ids"
    )]
    Processors(String, f64, f64),
    /// Slower than asked for.
    #[error(
        "at the rate of run {run} p99 is {p99:.1?}, above the {limit:?} asked for: measure a lower \
         rate with --rate"
    )]
    Slow {
        /// The run.
        run: String,
        /// Its p99.
        p99: Duration,
        /// What was asked for.
        limit: Duration,
    },
    /// Whether it is slower cannot be told.
    #[error("run {0} knows no single latencies, so its p99 cannot be held against a limit")]
    NoLatency(String),
}

impl Capacity {
    /// What `runs` on `machines` say together, each of them within `limit` at its p99 where one is
    /// given.
    ///
    /// # Errors
    /// When a run measured nothing, is slower than the limit, or the runs count different things
    /// or had different numbers of processors.
    pub fn of(
        name: String,
        runs: &[Summary],
        limit: Option<Duration>,
        machines: &[Machine],
    ) -> Result<Capacity, CapacityError> {
        let mut processors = machines.iter().filter_map(|of| of.server_processors());
        let had = processors.next();
        if let Some((one, other)) = had.zip(processors.find(|other| Some(*other) != had)) {
            return Err(CapacityError::Processors(name, one, other));
        }
        let mut rates = Moments::new();
        let mut inside = None;
        let mut p99 = Some(Duration::ZERO);
        let mut unit: Option<WorkUnit> = None;
        for run in runs {
            let id = run.run.id.to_string();
            let none = || CapacityError::NoThroughput(id.clone());
            let load = run.load.as_ref().ok_or_else(none)?;
            let throughput = load.throughput.as_ref().ok_or_else(none)?;
            if let Some(before) = unit.replace(load.unit).filter(|before| *before != load.unit) {
                return Err(CapacityError::Units(name, before.name(), load.unit.name()));
            }
            let its = load.latency.as_ref().map(|latency| latency.p99);
            match (limit, its) {
                (Some(limit), Some(p99)) if p99 > limit => {
                    return Err(CapacityError::Slow { run: id, p99, limit });
                }
                (Some(_), None) => return Err(CapacityError::NoLatency(id)),
                _ => {}
            }
            p99 = p99.zip(its).map(|(one, other)| one.max(other));
            rates.add(throughput.center);
            inside = throughput.interval;
        }
        let (Some(unit), Some(rate)) = (unit, rates.mean()) else {
            return Err(CapacityError::NoThroughput(name));
        };
        let interval = if runs.len() == 1 { inside } else { between(&rates) };
        let of_all = |figure: fn(&Summary) -> Option<f64>| {
            runs.iter().map(figure).collect::<Option<Moments>>()?.mean()
        };
        let mut warnings = Vec::new();
        if runs.len() == 1 {
            warnings.push(format!(
                "there is one run of {name}: its interval is the precision inside it, and how much \
                 runs differ is not in it"
            ));
        }
        let mut told: Vec<&str> =
            runs.iter().flat_map(|run| &run.warnings).map(|w| w.text.as_str()).collect();
        told.sort_unstable();
        told.dedup();
        warnings.extend(told.into_iter().map(str::to_owned));
        Ok(Capacity {
            runs: runs.iter().map(|run| run.run.id.to_string()).collect(),
            name,
            unit,
            rate,
            interval,
            is_offered: runs.iter().any(|run| matches!(run.schedule, Some(Schedule::Open { .. }))),
            p99,
            wal_bytes: of_all(|run| run.wal.as_ref()?.bytes_per_transaction),
            writes: of_all(|run| {
                let rows = run.rows.as_ref()?;
                Some(rows.inserted? + rows.updated? + rows.deleted?)
            }),
            processors: had,
            machine_processors: machines.iter().find_map(|of| of.processors),
            memory_bytes: machines.iter().filter_map(Machine::memory).max(),
            warnings,
        })
    }
}

/// Student's interval of the mean, which never reaches nothing.
fn between(rates: &Moments) -> Option<Interval> {
    let (mean, deviation) = (rates.mean()?, rates.standard_deviation()?);
    let count = rates.count() as f64;
    let half = t_quantile(Confidence::P95, count - 1.0)? * deviation / count.sqrt();
    (half < mean).then(|| Interval::between(mean - half, mean + half))
}
