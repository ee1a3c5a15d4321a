//! Doing a tune: phase by phase, measurement by measurement, and going on where it was.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use walwright_diagnose::Machine;
use walwright_search::{Ask, Configuration as Point, Options, Outcome, Purpose, Searcher, Space};

use super::confirm::Confirming;
use super::folder::{self, Folder};
use super::notice::Passed;
use super::space::{self, Surroundings};
use super::state::{Made, Phase};
use super::{
    Objective, TuneError, TuneNotice, TunePlan, TuneState, TuneWatcher, crash, entry, levers,
    probe, promote, starts, words,
};
use crate::experiment::{Bench, Configuration, ExperimentError, Measured};
use crate::{Lab, Observer, Stop};

/// Tries a measurement has: a machine hiccups, but a server that cannot start never will.
const TRIES: u32 = 2;

/// Begins a tune and goes on to its end.
///
/// # Errors
/// When what is asked for makes no sense, the baseline cannot be run, or files cannot be
/// written. [`TuneError::is_interruption`] tells a wish to stop, after which [`resume`]
/// goes on.
pub async fn begin(
    lab: &Lab,
    plan: TunePlan,
    stop: &Stop,
    watcher: &Arc<dyn TuneWatcher>,
) -> Result<TuneState, TuneError> {
    let state = TuneState::new(plan);
    let objective = state.plan.objective()?;
    // Refused before anything is made; the size of the machine decides nothing here.
    let any = Surroundings { major: major(&state.plan), memory: Some(1e12), free_disk: None };
    space::dimensions(&state.plan, &any, &state.hints)?;
    let folder = Folder::create(lab, &state.id)?;
    folder.save(&state)?;
    Conductor::new(lab, folder, state, objective, stop, watcher)?.go().await
}

/// Goes on with a tune that was stopped or killed: the one called `name`, or the latest.
///
/// # Errors
/// As [`begin`], and when there is none, or another process runs it.
pub async fn resume(
    lab: &Lab,
    name: &str,
    stop: &Stop,
    watcher: &Arc<dyn TuneWatcher>,
) -> Result<TuneState, TuneError> {
    let id = folder::find(lab, name)?;
    let folder = Folder::open(lab, &id)?;
    let state = folder::read(lab, &id)?;
    let objective = state.plan.objective()?;
    Conductor::new(lab, folder, state, objective, stop, watcher)?.go().await
}

/// The state of a tune as it was kept last.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn show(lab: &Lab, name: &str) -> Result<TuneState, TuneError> {
    folder::read(lab, &folder::find(lab, name)?)
}

/// Deletes a tune and the data at rest that it left. Its records and its entry in the
/// journal stay. Gives its name.
///
/// # Errors
/// When there is none, another process runs it, or it cannot be removed.
pub async fn delete(lab: &Lab, name: &str) -> Result<String, TuneError> {
    let id = folder::find(lab, name)?;
    let folder = Folder::open(lab, &id)?;
    for name in [bench_name(&id), confirming_name(&id)] {
        crate::experiment::discard_named(&name)?;
    }
    folder.remove()?;
    Ok(id)
}

/// What the data at rest of a tune are called.
fn bench_name(id: &str) -> String {
    format!("tune-{id}")
}

/// The same for those of its confirmation.
fn confirming_name(id: &str) -> String {
    format!("tune-{id}-confirm")
}

fn major(plan: &TunePlan) -> u32 {
    plan.install().0.parse().unwrap_or(18)
}

struct Conductor {
    lab: Lab,
    folder: Folder,
    state: TuneState,
    objective: Objective,
    bench: Bench,
    stop: Stop,
    watcher: Arc<dyn TuneWatcher>,
    observer: Arc<dyn Observer>,
}

/// A measurement: what it gave, or why it gave nothing.
type Tried = Result<Measured, String>;

impl Conductor {
    fn new(
        lab: &Lab,
        folder: Folder,
        state: TuneState,
        objective: Objective,
        stop: &Stop,
        watcher: &Arc<dyn TuneWatcher>,
    ) -> Result<Conductor, TuneError> {
        let plan = state.plan.bench(&objective, state.plan.window);
        let bench = Bench::new(lab, plan, &bench_name(&state.id))?;
        Ok(Conductor {
            lab: lab.clone(),
            folder,
            state,
            objective,
            bench,
            stop: stop.clone(),
            watcher: Arc::clone(watcher),
            observer: Arc::new(Passed(Arc::clone(watcher))),
        })
    }

    async fn go(mut self) -> Result<TuneState, TuneError> {
        self.watcher.notice(TuneNotice::Begins {
            id: &self.state.id,
            runs: (self.state.plan.runs(), 2 * self.state.plan.confirming_pairs()),
            done: self.state.made.len() as u32,
            left: self.left(),
        });
        while self.state.phase != Phase::Done {
            if self.stop.is_requested() {
                return Err(TuneError::Stopped);
            }
            match self.state.phase {
                Phase::Baseline => self.baseline().await?,
                Phase::Probe => self.probe().await?,
                Phase::Search => self.search().await?,
                Phase::Levers => self.levers().await?,
                Phase::Confirm => self.confirm().await?,
                Phase::Crash => self.crash().await?,
                Phase::Promote => self.promote()?,
                Phase::Done => {}
            }
        }
        self.bench.discard().await?;
        Ok(self.state)
    }

    fn enter(&mut self, phase: Phase) -> Result<(), TuneError> {
        self.state.phase = phase;
        self.folder.save(&self.state)
    }

    fn stage(&self, text: &str) {
        self.watcher.notice(TuneNotice::Stage(text));
    }

    fn say(&self, text: &str) {
        self.watcher.notice(TuneNotice::Said(text));
    }

    /// Runs the baseline and diagnoses it.
    async fn baseline(&mut self) -> Result<(), TuneError> {
        self.stage("loading the data");
        self.bench.prepare(&Configuration::default(), &self.stop, &self.observer).await?;
        self.stage("the baseline, to be diagnosed");
        self.measuring("baseline", &[]);
        let seed = self.state.plan.seed;
        let measured = match self.measure(&Configuration::default(), seed, "baseline").await? {
            Ok(measured) => measured,
            Err(reason) => {
                return Err(TuneError::Measurement(ExperimentError::Baseline { reason }));
            }
        };
        let made = self.made(&Ok(measured.clone()));
        let Some(value) = made.value else {
            return Err(TuneError::NoFigure { run: measured.run.0, metric: self.objective.name() });
        };
        let record = self.lab.store()?.load(&measured.run)?;
        let summary = walwright_diagnose::summary(&record);
        let diagnosis = walwright_diagnose::findings(&record);
        self.state.cause = starts::cause(&diagnosis, &summary);
        self.state.server_version = summary.server_version.clone();
        self.state.diagnosed = starts::diagnosed(&diagnosis);
        self.state.hints = starts::advised(&record, &summary);
        self.state.hints.extend(self.state.diagnosed.clone());
        if let Some(host) = &record.host {
            self.state.machine = words::machine(host);
        }
        self.state.made = vec![made];
        self.watcher.notice(TuneNotice::Measured {
            value: Some(value),
            change: None,
            crashed: None,
            left: self.left(),
        });
        self.say(&self.state.cause.verdict);
        self.enter(Phase::Probe)
    }

    /// Finds the space and makes the search.
    async fn probe(&mut self) -> Result<(), TuneError> {
        self.stage("writing each value and reading it back");
        let host = walwright_probe::host_facts(None, None);
        let places = walwright_server::Places::open(None).map_err(crate::RunError::from)?;
        let surroundings = Surroundings {
            major: major(&self.state.plan),
            memory: Machine::of(&host).memory,
            free_disk: words::free_bytes(places.root()),
        };
        let (dimensions, mut dropped) =
            space::dimensions(&self.state.plan, &surroundings, &self.state.hints)?;
        let (dimensions, without_effect) = probe::probe(&self.state.plan, dimensions).await?;
        for one in &without_effect {
            self.say(&format!("{} is not searched: {}", one.name, one.why));
        }
        dropped.extend(without_effect);
        self.state.dropped = dropped;
        let space = Space { dimensions };
        let settings = self.state.plan.settings.iter();
        let baseline = space
            .configuration(settings.map(|(name, value)| (name.as_str(), value.as_str())))
            .map_err(walwright_search::SearchError::from)?;
        let options = Options {
            runs: self.state.plan.runs(),
            seed: self.state.plan.seed,
            smallest_effect: self.state.plan.smallest_effect,
            starts: starts::starts(&space, &baseline, &self.state.diagnosed, &self.state.hints),
        };
        let count = space.dimensions.len();
        let mut searcher = Searcher::new(space, &baseline, options)?;
        // The run that was diagnosed is the first of the baseline against itself.
        if let Some(value) = self.state.made.first().and_then(|made| made.value) {
            searcher.tell(0, Outcome::score(self.objective.score(value)))?;
        }
        let budget = searcher.budget();
        self.say(&format!(
            "{count} parameters; {} runs: {} of the baseline and {} start points, {} to screen, {} to search, {} to race, {} to ablate",
            budget.runs,
            budget.baseline,
            budget.starts,
            budget.screening.map_or(0, |design| design.count()),
            budget.search,
            budget.race,
            budget.ablation
        ));
        self.state.searcher = Some(searcher);
        self.enter(Phase::Search)
    }

    /// Asks, measures, tells.
    async fn search(&mut self) -> Result<(), TuneError> {
        let mut stage = "";
        loop {
            let Some(searcher) = &self.state.searcher else { return self.enter(Phase::Probe) };
            let Some(ask) = searcher.ask() else { break };
            let now = searcher.stage().0;
            if now != stage {
                stage = now;
                self.stage(now);
            }
            let changes = self.changes(&ask.configuration);
            self.measuring(&why(&ask.purpose), &changes);
            let seed = self.state.plan.seed + u64::from(ask.trial);
            let label = format!("trial {}", ask.trial);
            let configuration = self.settings(&ask.configuration);
            let tried = self.measure(&configuration, seed, &label).await?;
            self.tell(&ask, &tried)?;
        }
        self.enter(Phase::Levers)
    }

    fn tell(&mut self, ask: &Ask, tried: &Tried) -> Result<(), TuneError> {
        let made = self.made(tried);
        let outcome = tried
            .as_ref()
            .ok()
            .and_then(|m| self.objective.outcome(&m.figures, self.state.baseline_throughput()))
            .unwrap_or(Outcome::Crashed);
        let (value, crashed) = (made.value, made.crashed.clone());
        self.state.made.push(made);
        if let Some(searcher) = &mut self.state.searcher {
            searcher.tell(ask.trial, outcome)?;
        }
        self.folder.save(&self.state)?;
        let change = self.state.baseline_value().zip(value).map(|(then, now)| now / then - 1.0);
        self.watcher.notice(TuneNotice::Measured {
            value,
            change: change.filter(|_| ask.purpose != Purpose::Baseline),
            crashed: crashed.as_deref(),
            left: self.left(),
        });
        Ok(())
    }

    /// Measures what lies outside the configuration, with the configuration found.
    async fn levers(&mut self) -> Result<(), TuneError> {
        if self.state.plan.client {
            if self.state.levers.is_empty() {
                self.state.levers = levers::levers(&self.bench.plan().base.load);
            }
            self.stage("options of the client");
            while let Some((index, block)) = levers::next(&self.state.levers) {
                let lever = self.state.levers[index].clone();
                let mut configuration = self.settings(&self.found());
                configuration.load = lever.load.clone();
                self.measuring(&format!("{}, block {}", lever.name, block + 1), &[]);
                let seed = self.state.plan.seed + 10_000 + u64::from(block);
                let tried = self.measure(&configuration, seed, &lever.name).await?;
                let value = tried.as_ref().ok().and_then(|m| self.objective.value(&m.figures));
                let score = value.map(|value| self.objective.score(value));
                self.state.levers[index].scores.push(score);
                self.folder.save(&self.state)?;
                self.measured(value, tried.as_ref().err());
            }
        }
        let gain = self.conclusion().is_some_and(|end| end.is_gain);
        self.enter(if gain { Phase::Confirm } else { Phase::Promote })
    }

    /// The winner against the baseline on fresh data with another seed.
    async fn confirm(&mut self) -> Result<(), TuneError> {
        let pairs = self.state.plan.confirming_pairs();
        let plan = self.state.plan.bench(&self.objective, self.state.plan.confirm_window);
        let bench = Bench::new(&self.lab, plan, &confirming_name(&self.state.id))?;
        self.stage("confirmation on fresh data");
        bench.prepare(&Configuration::default(), &self.stop, &self.observer).await?;
        while let Some((is_winner, pair)) = self.state.confirmation.next(pairs) {
            let configuration = match is_winner {
                true => self.settings(&self.found()),
                false => Configuration::default(),
            };
            let changes = if is_winner { self.changes(&self.found()) } else { Vec::new() };
            self.measuring(&format!("confirmation, pair {} of {pairs}", pair + 1), &changes);
            // Both of a pair see the same transactions, which no earlier run saw.
            let seed = self.state.plan.seed.wrapping_mul(31) + 1_000_003 + u64::from(pair);
            let arm = if is_winner { "confirmed" } else { "baseline" };
            let label = self.label(arm);
            let tried = self.measure_on(&bench, &configuration, seed, label).await?;
            let figures = tried.as_ref().ok().map(|m| &m.figures);
            let value = figures.and_then(|figures| self.objective.value(figures));
            self.state.confirmation.made.push(Confirming {
                is_winner,
                pair,
                run: tried.as_ref().ok().map(|m| m.run.clone()),
                score: value.map(|value| self.objective.score(value)),
                value,
                checkpoints: figures.and_then(|figures| figures.get("checkpoints").copied()),
            });
            self.folder.save(&self.state)?;
            self.measured(value, tried.as_ref().err());
        }
        bench.discard().await?;
        self.enter(Phase::Crash)
    }

    /// Kills the winner's server and audits it.
    async fn crash(&mut self) -> Result<(), TuneError> {
        self.stage("killing the server under load");
        let mut settings = self.state.plan.settings.clone();
        settings.extend(self.settings(&self.found()).settings);
        let stretch = crash::stretch(&self.state.plan);
        let settings = settings.into_iter().collect();
        let audit = crash::crash(&self.state.plan, settings, stretch);
        let audit = tokio::select! {
            audit = audit => audit?,
            () = self.stop.requested() => return Err(TuneError::Stopped),
        };
        self.say(&words::crash(&audit));
        self.state.crash = Some(audit);
        self.enter(Phase::Promote)
    }

    /// Writes configuration and account.
    fn promote(&mut self) -> Result<(), TuneError> {
        if let Ok(text) = promote::text(&self.state, &self.objective) {
            self.folder.replace("config.env.new", "config.env", text.as_bytes())?;
            let path: PathBuf = self.folder.path().join("config.env");
            self.state.promoted = Some(path.display().to_string());
        }
        if self.state.entry.is_none() {
            self.state.entry = Some(entry::append(&self.lab, &self.state, &self.objective)?);
        }
        self.enter(Phase::Done)
    }

    fn conclusion(&self) -> Option<&walwright_search::Conclusion> {
        self.state.searcher.as_ref().and_then(Searcher::conclusion)
    }

    /// What the search recommends; the baseline before the end.
    fn found(&self) -> Point {
        let baseline = self.state.searcher.as_ref().map(|s| s.baseline().clone());
        self.conclusion().map(|end| end.configuration.clone()).or(baseline).unwrap_or_default()
    }

    /// The settings of a point: those that are no default, and those that the baseline
    /// sets otherwise.
    fn settings(&self, point: &Point) -> Configuration {
        let Some(searcher) = &self.state.searcher else { return Configuration::default() };
        let set = |name: &str| self.state.plan.settings.contains_key(name);
        Configuration::of_settings(
            searcher
                .space()
                .dimensions
                .iter()
                .filter_map(|d| Some((d, point.get(&d.name)?)))
                .filter(|(d, value)| **value != d.home || set(&d.name))
                .map(|(d, value)| (d.name.clone(), value.clone())),
        )
    }

    /// What differs from the baseline, in words.
    fn changes(&self, point: &Point) -> Vec<String> {
        let Some(searcher) = &self.state.searcher else { return Vec::new() };
        let changes = searcher.space().changes(point, searcher.baseline());
        changes.map(|(dimension, value)| format!("{} = {value}", dimension.name)).collect()
    }

    fn label(&self, what: &str) -> Option<String> {
        Some(format!("tune {}: {what}", self.state.id))
    }

    async fn measure(
        &self,
        configuration: &Configuration,
        seed: u64,
        what: &str,
    ) -> Result<Tried, TuneError> {
        self.measure_on(&self.bench, configuration, seed, self.label(what)).await
    }

    /// One measurement. What is wrong with the configuration is a result; what is wrong
    /// with the lab, or a wish to stop, is an error.
    async fn measure_on(
        &self,
        bench: &Bench,
        configuration: &Configuration,
        seed: u64,
        label: Option<String>,
    ) -> Result<Tried, TuneError> {
        let mut reason = String::new();
        for _ in 0..TRIES {
            let measured =
                bench.measure(configuration, seed, label.clone(), &self.stop, &self.observer);
            match measured.await {
                Ok(measured) => return Ok(Ok(measured)),
                Err(_) if self.stop.is_requested() => return Err(TuneError::Stopped),
                Err(ExperimentError::RunFailed { reason: why, .. }) => reason = why,
                Err(ExperimentError::Run(error)) => {
                    return Ok(Err(words::reason(&error.to_string())));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Err(words::reason(&reason)))
    }

    fn made(&self, tried: &Tried) -> Made {
        match tried {
            Ok(measured) => Made {
                run: Some(measured.run.clone()),
                value: self.objective.value(&measured.figures),
                throughput: measured.figures.get("throughput").copied(),
                checkpoints: measured.figures.get("checkpoints").copied(),
                crashed: None,
                seconds: measured.elapsed.as_secs_f64(),
            },
            Err(reason) => Made {
                run: None,
                value: None,
                throughput: None,
                checkpoints: None,
                crashed: Some(reason.clone()),
                seconds: 0.0,
            },
        }
    }

    fn measuring(&self, why: &str, changes: &[String]) {
        self.watcher.notice(TuneNotice::Measuring {
            run: (self.state.phase <= Phase::Search)
                .then(|| (self.state.made.len() as u32 + 1, self.state.plan.runs())),
            why,
            changes,
        });
    }

    fn measured(&self, value: Option<f64>, crashed: Option<&String>) {
        self.watcher.notice(TuneNotice::Measured {
            value,
            change: None,
            crashed: crashed.map(String::as_str),
            left: self.left(),
        });
    }

    /// About how long the rest takes: by the measurements so far.
    fn left(&self) -> Duration {
        let plan = &self.state.plan;
        let per_run = self.state.mean_seconds().map_or(plan.per_run(), Duration::from_secs_f64);
        let beyond = plan.confirm_window.0.saturating_sub(plan.window.0);
        let searching = plan.runs().saturating_sub(self.state.made.len() as u32);
        let confirming =
            (2 * plan.confirming_pairs()).saturating_sub(self.state.confirmation.made.len() as u32);
        let decided = self.conclusion().is_some_and(|end| !end.is_gain);
        let confirming = if decided { 0 } else { confirming };
        let searching = if self.conclusion().is_some() { 0 } else { searching };
        per_run * searching + (per_run + beyond) * confirming
    }
}

/// Why a configuration is measured, in words.
fn why(purpose: &Purpose) -> String {
    match purpose {
        Purpose::Baseline => "baseline".to_owned(),
        Purpose::Start { name } => format!("start: {name}"),
        Purpose::Screen { row } => format!("screening, row {}", row + 1),
        Purpose::Search => "search".to_owned(),
        Purpose::Again => "the best again".to_owned(),
        Purpose::Race { is_challenger: true, .. } => "race: challenger".to_owned(),
        Purpose::Race { .. } => "race: the best".to_owned(),
        Purpose::Ablate { arm: 0, block } => format!("ablation, block {}: baseline", block + 1),
        Purpose::Ablate { arm: 1, block } => format!("ablation, block {}: winner", block + 1),
        Purpose::Ablate { block, .. } => format!("ablation, block {}: minus one", block + 1),
    }
}
