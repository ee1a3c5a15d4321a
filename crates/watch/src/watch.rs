//! Watching: the loop that takes what the samplers see, keeps it, judges it and tells of it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::mpsc;
use walwright_diagnose::Diagnosis;
use walwright_http::Endpoint;
use walwright_probe::{
    Clock, Connector, HostScope, Listening, LoadParts, Observation, Probe, ProbeError, ProbeSpec,
    Rates, ServerStart, Sink, TablesOfInterest, TargetDescription,
};
use walwright_record::{
    RunHeader, RunId, RunState, Setting, Source, TargetKind, Timestamp, Window as Stretch,
};
use walwright_server::{Client, ConnectError, ConnectParams, Stop};

use crate::alert::{AlertTo, Alerts};
use crate::event::{Event, EventKind};
use crate::exposition::{Exposition, Snapshot};
use crate::findings::{Seen, Tracker};
use crate::gather::{Gatherer, Histogram, Labelled, Samples};
use crate::metric::{self, Metric};
use crate::ring::{Entry, Keep, Ring, RingError, RingWriter};
use crate::slot::Slot;
use crate::window::{Facts, Window};

/// How long all may take that comes before the first sample.
const TO_BEGIN: Duration = Duration::from_secs(60);
/// How long the server may take to be described again.
const TO_DESCRIBE: Duration = Duration::from_secs(20);
/// Tables described.
const LARGEST_TABLES: u16 = 20;
/// Findings that are exposed.
const FINDINGS: usize = 30;
/// Events of the samplers that are kept of a stretch: autovacuum of a thousand tables tells more.
const SERVER_EVENTS: usize = 5;
/// How long all views of one tick take to be read.
const TICK: Duration = Duration::from_millis(300);
/// Stretches that must pass without a reading of the database before the server counts as lost.
const SILENT: u32 = 3;

/// What is watched, and how.
#[derive(Debug, Clone)]
pub struct WatchPlan {
    /// The server.
    pub params: ConnectParams,
    /// The directory of the ring.
    pub ring: PathBuf,
    /// How long what is kept.
    pub keep: Keep,
    /// How often is looked.
    pub rates: Rates,
    /// Length of the stretches that are kept.
    pub slot: Duration,
    /// Time between diagnoses.
    pub diagnose: Duration,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// Who is told of events.
    pub alerts: AlertTo,
    /// The command line, without secrets.
    pub command: String,
}

/// What is told while watching goes on.
#[derive(Debug, Clone)]
pub enum Told {
    /// Watching began; metrics are served there.
    Begun {
        /// The server, without secrets.
        server: String,
        /// Where metrics are served.
        metrics: Option<SocketAddr>,
    },
    /// A stretch has ended.
    Slot(Slot),
    /// Something happened.
    Event(Event),
    /// A diagnosis.
    Findings(Seen),
}

/// Takes what is told. Must return quickly.
pub type Listener = Arc<dyn Fn(Told) + Send + Sync>;

/// Why watching cannot begin, or ended.
#[derive(Debug, Error)]
pub enum WatchError {
    /// The server cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// It cannot be sampled.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// What is seen cannot be kept.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// Metrics cannot be served.
    #[error("metrics cannot be served at {address}: {source}; name another address with --metrics")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The server takes too long.
    #[error("the server did not answer all questions before sampling within {} s", TO_BEGIN.as_secs())]
    Slow,
    /// It was stopped before it began.
    #[error("it was stopped before it began")]
    Stopped,
    /// A part of it died.
    #[error("{0} ended by a fault of walwright's own")]
    Internal(&'static str),
}

/// Watches until it is asked to stop.
///
/// # Errors
/// What keeps it from beginning, or what is seen from being kept.
pub async fn watch(plan: WatchPlan, stop: Stop, listener: Listener) -> Result<(), WatchError> {
    let writer = RingWriter::open(&plan.ring, plan.keep, Timestamp::now())?;
    let described = tokio::time::timeout(TO_BEGIN, describe(&plan.params, &plan.command));
    let described = tokio::select! {
        described = described => described.map_err(|_| WatchError::Slow)??,
        () = stop.requested() => return Err(WatchError::Stopped),
    };
    let exposition = Exposition::default();
    let up = Arc::new(AtomicBool::new(true));
    let mut serving = None;
    if let Some(address) = plan.metrics {
        let health = Arc::clone(&up);
        let health = Arc::new(move || {
            (!health.load(Ordering::Relaxed)).then(|| "the server does not answer".to_owned())
        });
        let told = exposition.clone();
        let metrics = Arc::new(move |form| told.text(form).map_err(|error| error.to_string()));
        let stop = stop.clone();
        let ends = move || {
            let stop = stop.clone();
            async move { stop.requested().await }
        };
        let refused = |source| WatchError::Listen { address, source };
        let endpoint = Endpoint::bind(address, metrics, health).await;
        let endpoint = endpoint.map_err(refused)?;
        let place = endpoint.address().map_err(refused)?;
        serving = Some((place, tokio::spawn(endpoint.serve(ends))));
    }
    let (sent, seen) = mpsc::unbounded_channel();
    let sink: Sink = Arc::new(move |observation| {
        // Nobody listens once watching has ended.
        let _ = sent.send(observation);
    });
    let clock = Clock::start();
    let spec = ProbeSpec {
        connector: Connector::to(&plan.params),
        rates: plan.rates,
        host: described.host.clone(),
        clock,
    };
    let probe = Probe::start(spec, sink).await?;
    let address = serving.as_ref().map(|(place, _)| *place);
    let server = described.facts.header.target.clone();
    listener(Told::Begun { server: server.clone(), metrics: address });
    let mut watcher = Watcher::new(&plan, described, writer, clock.now(), listener);
    let start = clock.now();
    watcher.tell(Event::new(start, EventKind::Watching, format!("watching {server} began")))?;
    let ended = attend(&mut watcher, &plan, clock, seen, &stop, &exposition, &up).await;
    let at = clock.now();
    let reported = probe.stop().await;
    ended?;
    watcher.close(at)?;
    let text = match reported {
        Ok(report) => match report.machine_share() {
            Some(_) => {
                let spent = report.own_cpu + report.backend_cpu.unwrap_or_default();
                let share = spent.as_secs_f64() / report.duration.as_secs_f64().max(1e-9);
                format!("watching ended; sampling took {:.2} % of a processor", share * 100.0)
            }
            None => "watching ended".to_owned(),
        },
        Err(error) => format!("watching ended: {error}"),
    };
    watcher.tell(Event::new(at, EventKind::Watching, text))?;
    watcher.end()?;
    if let Some((_, serving)) = serving {
        let _ = serving.await;
    }
    Ok(())
}

/// Takes what is seen until it is to end.
async fn attend(
    watcher: &mut Watcher,
    plan: &WatchPlan,
    clock: Clock,
    mut seen: mpsc::UnboundedReceiver<Observation>,
    stop: &Stop,
    exposition: &Exposition,
    up: &AtomicBool,
) -> Result<(), WatchError> {
    // Counters are read as often as stretches end: what is read then is of the one that ends.
    let mut next = Instant::now() + plan.slot + TICK;
    let mut next_diagnosis = Instant::now() + plan.diagnose;
    // A stretch ends with a reading of the database: what was done is known up to there.
    let (mut is_due, mut diagnosis) = (false, None);
    exposition.put(watcher.snapshot());
    loop {
        tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            observation = seen.recv() => match observation {
                Some(observation) => {
                    let read = watcher.read;
                    watcher.take(observation)?;
                    if is_due && watcher.read != read {
                        (is_due, diagnosis) = (false, Some(Instant::now() + TICK));
                    }
                }
                None => return Err(WatchError::Internal("sampling")),
            },
            () = tokio::time::sleep_until(next.into()) => {
                // One that came late is not made up for.
                next = (next + plan.slot).max(Instant::now());
                let at = clock.now();
                watcher.close(at)?;
                if watcher.came_back {
                    watcher.came_back = false;
                    watcher.look_again(&plan.params, at).await?;
                }
                if Instant::now() >= next_diagnosis {
                    next_diagnosis = (next_diagnosis + plan.diagnose).max(Instant::now());
                    match (watcher.is_up, at.since(watcher.read) <= 2 * TICK) {
                        (false, _) => watcher.diagnose(at).await?,
                        (true, true) => diagnosis = Some(Instant::now()),
                        (true, false) => is_due = true,
                    }
                }
                up.store(watcher.is_up, Ordering::Relaxed);
                exposition.put(watcher.snapshot());
            }
            () = after(diagnosis) => {
                diagnosis = None;
                let at = clock.now();
                watcher.look_again(&plan.params, at).await?;
                watcher.diagnose(at).await?;
                exposition.put(watcher.snapshot());
            }
        }
    }
}

/// Waits until a moment; for ever where there is none.
async fn after(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

/// What is known of a server before it is watched.
struct Described {
    facts: Facts,
    host: HostScope,
    start: Option<ServerStart>,
}

async fn describe(params: &ConnectParams, command: &str) -> Result<Described, WatchError> {
    let params = params.clone().with_application_name("walwright watch");
    let client = walwright_server::connect(&params).await?;
    let description = TargetDescription {
        kind: TargetKind::Attached,
        address: params.address(),
        install: None,
        tables: TablesOfInterest::Largest(LARGEST_TABLES),
    };
    let target = walwright_probe::target_facts(&client, &description).await?;
    let settings = walwright_probe::settings(&params).await?;
    let schema = walwright_probe::schema_facts(&client).await;
    let start = walwright_probe::server_start(&client).await.ok();
    let mut host = HostScope::of(&target);
    host.parts = LoadParts::default();
    host.listening = Listening::of(settings.iter().map(|s| (s.name.as_str(), s.value.as_str())));
    let (data, wal) = (host.data_directory.clone(), host.wal_directory.clone());
    let machine = tokio::task::spawn_blocking(move || {
        walwright_probe::host_facts(data.as_deref(), wal.as_deref())
    });
    let machine = machine.await.map_err(|_| WatchError::Internal("describing the machine"))?;
    let now = Timestamp::now();
    let header = RunHeader {
        id: RunId::new(now, (now.0 as u32).rotate_left(7) ^ std::process::id()),
        started: now,
        ended: None,
        state: RunState::Running,
        walwright_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command.to_owned(),
        label: None,
        workload: "watched load".to_owned(),
        target: params.address(),
        error: None,
    };
    let facts = Facts { header, target, settings, schema, host: machine };
    Ok(Described { facts, host, start })
}

/// What is known of the server that may have changed.
async fn describe_again(
    params: &ConnectParams,
) -> Result<(Vec<Setting>, Option<ServerStart>), WatchError> {
    let params = params.clone().with_application_name("walwright watch");
    let client: Client = walwright_server::connect(&params).await?;
    let start = walwright_probe::server_start(&client).await.ok();
    drop(client);
    Ok((walwright_probe::settings(&params).await?, start))
}

/// What watching knows: figures, ring, window, findings.
struct Watcher {
    facts: Facts,
    start: Option<ServerStart>,
    gatherer: Gatherer,
    window: Window,
    writer: RingWriter,
    tracker: Tracker,
    seen: Option<Seen>,
    diagnoses: Histogram,
    events: Vec<(EventKind, u64)>,
    server_events: usize,
    alerts: Alerts,
    listener: Listener,
    is_up: bool,
    came_back: bool,
    /// Words of a loss since the database was read.
    lost: u32,
    read: Timestamp,
    silent: Duration,
    /// What could not be kept, which is told once.
    refused: bool,
}

impl Watcher {
    fn new(
        plan: &WatchPlan,
        described: Described,
        writer: RingWriter,
        now: Timestamp,
        listener: Listener,
    ) -> Watcher {
        let Described { facts, start, .. } = described;
        let mut gatherer = Gatherer::new(plan.rates.waits);
        gatherer.settings(&facts.settings);
        gatherer.close(now);
        Watcher {
            facts,
            start,
            gatherer,
            window: Window::default(),
            writer,
            tracker: Tracker::default(),
            seen: None,
            diagnoses: Histogram::default(),
            events: EventKind::ALL.map(|kind| (kind, 0)).to_vec(),
            server_events: 0,
            alerts: Alerts::start(&plan.alerts),
            listener,
            is_up: true,
            came_back: false,
            lost: 0,
            read: now,
            silent: SILENT * plan.slot.max(plan.rates.counters),
            refused: false,
        }
    }

    fn take(&mut self, observation: Observation) -> Result<(), WatchError> {
        match observation {
            Observation::Sample(sample) => {
                self.gatherer.take(&sample);
                if sample.source == Source::Database {
                    (self.read, self.lost) = (sample.at, 0);
                    if !self.is_up {
                        (self.is_up, self.came_back) = (true, true);
                        let text = "the server answers again";
                        self.tell(Event::new(sample.at, EventKind::ServerBack, text))?;
                    }
                }
                self.window.take(sample);
            }
            Observation::Event(event) => {
                if event.kind == walwright_probe::LOST {
                    self.lost += 1;
                    // One connection may have been ended by itself; two, or one that cannot be
                    // opened again, are the server's.
                    if self.lost >= 2 && self.is_up {
                        self.gone(
                            event.at,
                            "the server does not answer: its connections are lost",
                        )?;
                    }
                }
                self.server_events += 1;
                if self.server_events <= SERVER_EVENTS {
                    let kept = Event::new(event.at, EventKind::Server, event.text.clone());
                    self.tell(kept)?;
                }
                self.window.event(event);
            }
        }
        Ok(())
    }

    fn gone(&mut self, at: Timestamp, text: &str) -> Result<(), WatchError> {
        self.is_up = false;
        self.tell(Event::new(at, EventKind::ServerLost, text))
    }

    /// Ends a stretch: it is kept.
    fn close(&mut self, at: Timestamp) -> Result<(), WatchError> {
        if self.is_up && at.since(self.read) > self.silent {
            let seconds = at.since(self.read).as_secs();
            self.gone(at, &format!("the server has not answered for {seconds} s"))?;
        }
        self.gatherer.up(self.is_up);
        self.server_events = 0;
        if let Some(slot) = self.gatherer.close(at) {
            self.keep(Entry::Slot(slot.clone()))?;
            (self.listener)(Told::Slot(slot));
        }
        Ok(())
    }

    /// Keeps something. A full disk ends no watch: metrics and alerts go on.
    fn keep(&mut self, entry: Entry) -> Result<(), WatchError> {
        match self.writer.append(entry) {
            Ok(()) => self.refused = false,
            Err(error) if !self.refused => {
                self.refused = true;
                tracing::error!(%error, "what is seen is not kept until it can be again");
            }
            Err(_) => {}
        }
        Ok(())
    }

    fn tell(&mut self, event: Event) -> Result<(), WatchError> {
        if let Some((_, count)) = self.events.iter_mut().find(|(kind, _)| *kind == event.kind) {
            *count += 1;
        }
        if event.kind.alerts() {
            self.alerts.send(&event, &self.facts.header.target);
        }
        (self.listener)(Told::Event(event.clone()));
        self.keep(Entry::Event(event))
    }

    /// Looks at what may have changed: settings, and whether the server is the one it was.
    async fn look_again(
        &mut self,
        params: &ConnectParams,
        at: Timestamp,
    ) -> Result<(), WatchError> {
        let looked = tokio::time::timeout(TO_DESCRIBE, describe_again(params)).await;
        let Ok(Ok((settings, start))) = looked else {
            tracing::debug!("the server could not be described again");
            return Ok(());
        };
        if let Some((restart, when)) =
            start.as_ref().zip(self.start.as_ref()).and_then(|(now, before)| now.since(before))
        {
            let text = match restart {
                walwright_probe::Restart::Restarted => "the server was restarted",
                walwright_probe::Restart::Recovered => {
                    "one of the server's processes crashed, and it recovered"
                }
            };
            self.tell(Event::new(when.min(at), EventKind::ServerRestarted, text))?;
        }
        self.start = start.or(self.start.take());
        for text in changes(&self.facts.settings, &settings) {
            self.tell(Event::new(at, EventKind::SettingChanged, text))?;
        }
        self.gatherer.settings(&settings);
        self.facts.settings = settings;
        Ok(())
    }

    /// Judges the stretch since the last diagnosis.
    async fn diagnose(&mut self, at: Timestamp) -> Result<(), WatchError> {
        let Some(record) = self.window.turn(&self.facts, at) else { return Ok(()) };
        let begun = Instant::now();
        let judged = tokio::task::spawn_blocking(move || walwright_diagnose::findings(&record));
        let judged: Diagnosis = judged.await.map_err(|_| WatchError::Internal("diagnosing"))?;
        self.diagnoses.add(1, begun.elapsed().as_secs_f64());
        let Some(window) = judged.window else { return Ok(()) };
        let seen = Seen {
            window: Stretch { start: at.minus(window), end: at },
            verdict: judged.verdict.clone(),
            findings: judged.findings.iter().map(Into::into).collect(),
        };
        for event in self.tracker.take(&seen) {
            self.tell(event)?;
        }
        self.keep(Entry::Findings(seen.clone()))?;
        (self.listener)(Told::Findings(seen.clone()));
        self.seen = Some(seen);
        Ok(())
    }

    /// All metrics as they are now.
    fn snapshot(&self) -> Snapshot {
        let mut all: Snapshot =
            metric::ALL.iter().map(|metric| (metric.name, self.gatherer.samples(metric))).collect();
        let mut put = |metric: Metric, values: Vec<(Vec<String>, f64)>| {
            let values = values.into_iter().map(|(labels, value)| Labelled { labels, value });
            all.insert(metric.name, Samples::Values(values.collect()));
        };
        let target = &self.facts.target;
        put(metric::UP, vec![(Vec::new(), f64::from(u8::from(self.is_up)))]);
        put(metric::SERVER, vec![(vec![target.version.clone(), target.database.clone()], 1.0)]);
        let events = self.events.iter();
        put(
            metric::EVENTS,
            events.map(|(kind, n)| (vec![kind.name().into()], *n as f64)).collect(),
        );
        let outcomes = self.alerts.outcomes().map(|(name, n)| (vec![name.into()], n as f64));
        put(metric::ALERTS, outcomes.to_vec());
        put(
            metric::WATCH_RESIDENT_BYTES,
            resident().map(|of| (Vec::new(), of)).into_iter().collect(),
        );
        let stored = self.writer.ring().bytes().ok();
        put(
            metric::WATCH_STORE_BYTES,
            stored.map(|of| (Vec::new(), of as f64)).into_iter().collect(),
        );
        if let Some(seen) = &self.seen {
            let (mut present, mut costs) = (Vec::new(), Vec::new());
            for of in seen.findings.iter().take(FINDINGS) {
                let subject = of.subject.clone().unwrap_or_default();
                let kind = match of.kind {
                    walwright_diagnose::Kind::Problem => "problem",
                    walwright_diagnose::Kind::Symptom => "symptom",
                    walwright_diagnose::Kind::Information => "information",
                };
                costs.extend(of.cost.map(|cost| (vec![of.id.clone(), subject.clone()], cost)));
                let labels = vec![of.id.clone(), kind.to_owned(), subject, of.title.clone()];
                present.push((labels, 1.0));
            }
            put(metric::FINDING, unique(present));
            put(metric::FINDING_COST_RATIO, unique(costs));
            let end = seen.window.end.0 as f64 / 1e6;
            put(metric::DIAGNOSIS_TIMESTAMP_SECONDS, vec![(Vec::new(), end)]);
        }
        let diagnoses = Samples::Histogram(self.diagnoses.clone());
        all.insert(metric::WATCH_DIAGNOSIS_SECONDS.name, diagnoses);
        all
    }

    fn end(self) -> Result<(), WatchError> {
        self.alerts.finish();
        Ok(self.writer.finish()?)
    }
}

/// A series stands once in an exposition.
fn unique(mut values: Vec<(Vec<String>, f64)>) -> Vec<(Vec<String>, f64)> {
    let mut seen = std::collections::BTreeSet::new();
    values.retain(|(labels, _)| seen.insert(labels.clone()));
    values
}

/// Settings that have another value, each a sentence.
fn changes(before: &[Setting], now: &[Setting]) -> Vec<String> {
    let mut told = Vec::new();
    for setting in now {
        let Some(was) = before.iter().find(|of| of.name == setting.name) else { continue };
        if was.value != setting.value {
            told.push(format!("{} was {} and is {}", setting.name, was.shown, setting.shown));
        }
        if setting.pending_restart && !was.pending_restart {
            told.push(format!("{} has a new value that waits for a restart", setting.name));
        }
    }
    told
}

/// Memory of this process in bytes.
fn resident() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: f64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as f64)
}

/// The directory of a server's ring in a lab.
pub fn ring_directory(lab: &Path, server: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = server.chars().map(plain).collect();
    let name: String =
        name.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    lab.join("watch").join(name.trim_start_matches('.'))
}

/// The rings of a lab, the one written last first.
///
/// # Errors
/// When the directory cannot be read.
pub fn rings_of(lab: &Path) -> std::io::Result<Vec<Ring>> {
    let entries = match lab.join("watch").read_dir() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let newest = |directory: &Path| {
        let files = directory.read_dir().ok()?.flatten();
        files.filter_map(|file| file.metadata().ok()?.modified().ok()).max()
    };
    let mut rings: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((newest(&entry.path())?, entry.path())))
        .collect();
    rings.sort();
    Ok(rings.into_iter().rev().map(|(_, path)| Ring::at(path)).collect())
}
