//! What the views show, built from the events of a run.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use walwright_figures::WaitClass;
use walwright_record::{LatencyHistogram, LoadInterval, PhaseName, Sample, Source, Timestamp};
use walwright_report::terminal::printable;
use walwright_run::Progress;

use super::messages::Messages;

/// Points kept for the plots: beyond them every second one goes, so that they still span the
/// run.
const HISTORY: usize = 600;
/// Ticks of wait events that the shown shares are taken over: about five seconds.
const WAIT_TICKS: usize = 50;

/// One second of load as the views need it.
#[derive(Debug, Clone, Copy)]
pub struct Second {
    /// When it ended, since the load began.
    pub at: Duration,
    /// Transactions a second that ended well.
    pub rate: f64,
    /// Median, 95th and 99th percentile.
    pub percentiles: Option<[Duration; 3]>,
    /// Failed transactions in this second.
    pub failures: u64,
    /// Clients running.
    pub clients: u32,
    /// 99th percentile of lag, in an open loop.
    pub lag: Option<Duration>,
}

/// Everything a view shows.
#[derive(Debug)]
pub struct State {
    /// When the run began.
    pub started: Instant,
    /// The stage.
    pub phase: Option<PhaseName>,
    /// The step inside it.
    pub step: String,
    /// Done and to do, of rows or clients.
    pub amount: Option<(u64, u64)>,
    /// Seconds so far.
    pub seconds: VecDeque<Second>,
    /// Settled load so far and wanted, and how much longer it is given to settle.
    pub measured: Option<(Duration, Duration, Option<Duration>)>,
    /// Whether the load is someone else's, of which commits are counted.
    pub observed: bool,
    /// How long that has been watched, and for how long it will be, where that is known.
    pub watched: Option<(Duration, Option<Duration>)>,
    /// Failures so far.
    pub failures: u64,
    /// WAL bytes a second.
    pub wal_rate: Option<f64>,
    /// Events and warnings.
    pub messages: Messages,
    waits: VecDeque<BTreeMap<WaitClass, f64>>,
    wal_before: Option<(Timestamp, f64)>,
    /// Length of the load so far.
    loaded: Duration,
}

impl State {
    /// Nothing yet.
    pub fn new() -> State {
        State {
            started: Instant::now(),
            phase: None,
            step: String::new(),
            amount: None,
            seconds: VecDeque::new(),
            measured: None,
            observed: false,
            watched: None,
            failures: 0,
            wal_rate: None,
            messages: Messages::default(),
            waits: VecDeque::new(),
            wal_before: None,
            loaded: Duration::ZERO,
        }
    }

    /// Takes an event in.
    pub fn update(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Phase(name) => {
                self.phase = Some(*name);
                self.step.clear();
                self.amount = None;
            }
            Progress::Step(text) => {
                self.step = printable(text).into_owned();
                self.amount = None;
            }
            Progress::Rows { done, total } => self.amount = Some((*done, *total)),
            Progress::Connected { done, total } => {
                self.amount = Some(((*done).into(), (*total).into()));
            }
            Progress::Interval { interval, measured, wanted, until } => {
                self.measured = Some((*measured, *wanted, *until));
                self.loaded += interval.length;
                let second = second(interval, self.loaded);
                self.failures += second.failures;
                self.plot(second);
            }
            Progress::Commits { per_second } => {
                self.observed = true;
                let second = Second {
                    at: self.watched.map_or(self.loaded, |(elapsed, _)| elapsed),
                    rate: *per_second,
                    percentiles: None,
                    failures: 0,
                    clients: 0,
                    lag: None,
                };
                self.plot(second);
            }
            Progress::Watched { elapsed, wanted } => self.watched = Some((*elapsed, *wanted)),
            Progress::Sample(sample) => self.sample(sample),
            Progress::Event(event) => self.messages.push(&event.text),
            Progress::Warning(warning) => self.messages.push(&warning.to_string()),
        }
    }

    fn plot(&mut self, second: Second) {
        if self.seconds.len() >= HISTORY {
            let mut keep = false;
            self.seconds.retain(|_| {
                keep = !keep;
                keep
            });
        }
        self.seconds.push_back(second);
    }

    /// How long the load will have lasted when it ends, as far as that is known.
    pub fn span(&self) -> Duration {
        let so_far = self.seconds.back().map_or(Duration::ZERO, |second| second.at);
        let end = match (self.watched, self.measured) {
            (Some((_, wanted)), _) => wanted.unwrap_or_default(),
            (_, Some((measured, wanted, until))) => {
                so_far + until.unwrap_or(wanted.saturating_sub(measured))
            }
            _ => Duration::ZERO,
        };
        end.max(so_far).max(Duration::from_secs(10))
    }

    /// Mean sessions in each class of wait over the last seconds, idle ones left out.
    pub fn waits(&self) -> Vec<(WaitClass, f64)> {
        let ticks = self.waits.len().max(1) as f64;
        let mut sums: BTreeMap<WaitClass, f64> = BTreeMap::new();
        for tick in &self.waits {
            for (class, sessions) in tick {
                *sums.entry(*class).or_default() += sessions / ticks;
            }
        }
        sums.into_iter().collect()
    }

    fn sample(&mut self, sample: &Sample) {
        match sample.source {
            Source::Waits => {
                let mut tick = BTreeMap::new();
                for row in &sample.rows {
                    if let Some(class) = WaitClass::of(row) {
                        *tick.entry(class).or_default() += row.number("sessions").unwrap_or(0.0);
                    }
                }
                push(&mut self.waits, tick, WAIT_TICKS);
            }
            Source::Wal => {
                let now = sample.rows.first().and_then(|row| row.number("wal_bytes"));
                if let (Some((then, before)), Some(now)) = (self.wal_before, now) {
                    let seconds = sample.at.since(then).as_secs_f64();
                    self.wal_rate =
                        (seconds > 0.0 && now >= before).then(|| (now - before) / seconds);
                }
                self.wal_before = now.map(|bytes| (sample.at, bytes));
            }
            _ => {}
        }
    }
}

fn second(interval: &LoadInterval, at: Duration) -> Second {
    let mut latency = LatencyHistogram::new();
    for script in &interval.scripts {
        script.latency.add_to(&mut latency);
    }
    let transactions: u64 = interval.scripts.iter().map(|s| s.transactions).sum();
    let percentile = |percent| latency.percentile(percent);
    Second {
        at,
        rate: transactions as f64 / interval.length.as_secs_f64().max(1e-3),
        percentiles: percentile(50.0)
            .zip(percentile(95.0))
            .zip(percentile(99.0))
            .map(|((a, b), c)| [a, b, c]),
        failures: interval.scripts.iter().flat_map(|s| s.failures.values()).sum(),
        clients: interval.clients,
        lag: interval.lag.percentile(99.0),
    }
}

fn push<T>(queue: &mut VecDeque<T>, item: T, most: usize) {
    if queue.len() == most {
        queue.pop_front();
    }
    queue.push_back(item);
}
