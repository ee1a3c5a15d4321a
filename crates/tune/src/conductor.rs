//! Doing a tune: phase by phase, measurement by measurement.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use walwright_diagnose::Machine;
use walwright_experiment::{
    AttachedServer, Bench, Configuration, ExperimentError, Kernel, free_bytes,
};
use walwright_record::RunId;
use walwright_run::Observer;
use walwright_search::ablation::Noise;
use walwright_search::{
    Ask, Configuration as Point, LEAST_SIGMA, Options, Outcome, Purpose, Searcher, Space,
};
use walwright_server::Stop;
use walwright_store::Lab;

use super::confirm::{CHECKPOINTS, Confirming};
use super::event::Passed;
use super::folder::Folder;
use super::layer::Layer;
use super::made::{Made, Tried};
use super::space::{self, Surroundings};
use super::state::{Cause, Phase};
use super::{
    Account, Objective, TuneError, TuneEvent, TuneObserver, TunePlan, TuneState, account,
    client_options, crash, embedded, kernel, on_server, probe, promote, schema, schema_file,
    starts, words,
};

/// Tries a measurement has: a machine hiccups, but a server that cannot start never will.
const TRIES: u32 = 2;

/// The promoted configuration, in the tune's directory.
const CONFIGURATION: &str = "config.env";

/// A tune that is being done.
pub(super) struct Conductor {
    pub(super) lab: Lab,
    pub(super) folder: Folder,
    pub(super) state: TuneState,
    pub(super) objective: Objective,
    pub(super) bench: Bench,
    /// The attached server that is tuned.
    pub(super) attached: Option<Arc<AttachedServer>>,
    pub(super) stop: Stop,
    pub(super) watcher: Arc<TuneObserver>,
    pub(super) observer: Arc<Observer>,
    pub(super) account: Account,
}

impl Conductor {
    pub(super) fn new(
        lab: &Lab,
        folder: Folder,
        state: TuneState,
        objective: Objective,
        stop: &Stop,
        watcher: &Arc<TuneObserver>,
        account: Account,
    ) -> Result<Conductor, TuneError> {
        let plan = state.plan.bench(&objective, state.plan.window);
        let bench = Bench::new(lab, plan, &bench_name(&state.id))?;
        Ok(Conductor {
            lab: lab.clone(),
            folder,
            state,
            objective,
            bench,
            attached: None,
            stop: stop.clone(),
            watcher: Arc::clone(watcher),
            observer: Arc::new(Passed(Arc::clone(watcher))),
            account,
        })
    }

    /// Has all measurements made on an attached server.
    pub(super) fn on(self, attached: Option<Arc<AttachedServer>>) -> Conductor {
        Conductor { bench: self.bench.on(attached.clone()), attached, ..self }
    }

    pub(super) async fn go(mut self) -> Result<TuneState, TuneError> {
        // What a killed process left changed.
        self.bench.recover().await?;
        Kernel::of(&self.lab, &confirming_name(&self.state.id)).recover().await?;
        self.watcher.event(TuneEvent::Begins {
            id: &self.state.id,
            runs: self.state.plan.runs(),
            confirming: self.state.confirming(),
            done: self.state.made.len() as u32,
            left: self.state.time_left(),
            unit: self.objective.metric.kind().unit,
        });
        self.watcher.event(TuneEvent::SoFar(&self.state));
        while self.state.phase != Phase::Done {
            if self.stop.is_requested() {
                return Err(TuneError::Stopped);
            }
            match self.state.phase {
                Phase::Baseline => self.baseline().await?,
                Phase::Probe => self.probe().await?,
                Phase::Search => self.search().await?,
                Phase::ClientOptions => self.client_options().await?,
                Phase::Confirm => self.confirm().await?,
                Phase::Crash => self.crash().await?,
                Phase::Promote => self.promote()?,
                Phase::Done => {}
            }
        }
        self.bench.discard().await?;
        Ok(self.state)
    }

    /// What writes the kernel's values outside of the bench's own runs.
    pub(super) fn kernel(&self) -> Kernel {
        Kernel::of(&self.lab, &bench_name(&self.state.id))
    }

    pub(super) fn enter(&mut self, phase: Phase) -> Result<(), TuneError> {
        self.state.phase = phase;
        self.folder.save(&self.state)?;
        self.watcher.event(TuneEvent::SoFar(&self.state));
        Ok(())
    }

    pub(super) fn stage(&self, text: &str) {
        self.watcher.event(TuneEvent::Stage(text));
    }

    pub(super) fn say(&self, text: &str) {
        self.watcher.event(TuneEvent::Said(text));
    }

    /// Runs the baseline and diagnoses it.
    async fn baseline(&mut self) -> Result<(), TuneError> {
        self.stage(if self.attached.is_some() { "asking the server" } else { "loading the data" });
        self.bench.prepare(&Configuration::default(), &self.stop, &self.observer).await?;
        if let Some(space) = self.bench.space().await {
            self.watcher.event(TuneEvent::Loaded(&space));
        }
        self.stage("measuring and diagnosing the baseline");
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
        let summary = walwright_figures::summary(&record);
        let diagnosis = walwright_diagnose::findings_with(&record, &summary);
        self.state.diagnosed_run = Some(measured.run.clone());
        self.state.cause = starts::cause(&diagnosis, &summary);
        self.state.server_version = summary.server_version.clone();
        self.state.diagnosed = starts::diagnosed(&diagnosis);
        self.state.hints = starts::advised(&record, &summary);
        self.state.hints.extend(self.state.diagnosed.clone());
        if let Some(host) = &record.host {
            self.state.machine = words::machine(host);
        }
        self.state.made = vec![made];
        self.measured(Some(value), None);
        self.say(&self.state.cause.verdict);
        self.enter(Phase::Probe)
    }

    /// This machine, on which clusters of our own run.
    async fn surroundings(&self) -> Result<Surroundings, TuneError> {
        let host = walwright_probe::host_facts(None, None);
        let places = walwright_server::Places::open(None).map_err(walwright_run::RunError::from)?;
        Ok(Surroundings {
            major: major_of(&self.state.plan).await?,
            memory: Machine::of(&host).memory,
            free_disk: free_bytes(places.root()).map(|free| free as f64),
        })
    }

    /// Finds the space and makes the search.
    async fn probe(&mut self) -> Result<(), TuneError> {
        self.stage("checking that each value can be set");
        let surroundings = match &self.attached {
            Some(attached) => on_server::surroundings(&attached.view().await?),
            None => self.surroundings().await?,
        };
        let (dimensions, mut dropped) =
            space::dimensions(&self.state.plan, &surroundings, &self.state.hints)?;
        let (mut dimensions, mut without_effect) = match &self.attached {
            Some(attached) => {
                on_server::probe(attached, &self.state.plan, dimensions, &self.stop).await?
            }
            None => probe::probe(&self.state.plan, dimensions).await?,
        };
        let (values, not_here) = kernel::dimensions(&self.state.plan, Path::new("/"));
        let writer = self.kernel();
        let (values, not_written) = kernel::probe(&writer, values, &self.stop).await?;
        let found = schema::find(&self.state.plan, self.diagnosed().as_ref());
        dimensions.extend(values.into_iter().chain(found.dimensions));
        self.state.schema = found.parts;
        self.state.diagnosed.extend(found.advised);
        without_effect.extend(not_here.into_iter().chain(not_written).chain(found.dropped));
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
            worth: self.objective.score_gain(self.state.plan.worth),
            allowed_loss: self.objective.allowed_loss,
            starts: starts::starts(&space, &baseline, &self.state.diagnosed, &self.state.hints),
        };
        let count = space.dimensions.len();
        let mut searcher = Searcher::new(space, &baseline, options)?;
        // The run that was diagnosed is the first of the baseline against itself, unless
        // those that follow begin by rewriting tables.
        if self.state.rewrites_tables() {
            self.state.made.clear();
        }
        if let Some(of_baseline) = self.state.made.first()
            && let outcome @ Outcome::Measured { .. } = self.objective.outcome(of_baseline)
        {
            searcher.tell(0, outcome)?;
        }
        let budget = searcher.budget();
        let screening = budget.screening.map_or(0, |design| design.count());
        let further = [
            (screening, "to screen"),
            (budget.search as usize, "to search"),
            (budget.ablation as usize, "to ablate"),
        ];
        let further = further.iter().filter(|(runs, _)| *runs > 0);
        let further: String = further.map(|(runs, what)| format!(", {runs} {what}")).collect();
        self.say(&format!(
            "{count} parameters; {} runs: {} of the baseline and {} start points{further}",
            budget.runs, budget.baseline, budget.starts,
        ));
        self.state.searcher = Some(searcher);
        self.enter(Phase::Search)
    }

    /// Asks, measures, tells.
    async fn search(&mut self) -> Result<(), TuneError> {
        let mut stage = 0;
        loop {
            let Some(searcher) = &self.state.searcher else { return self.enter(Phase::Probe) };
            let Some(ask) = searcher.ask() else { break };
            let (name, now, _) = searcher.stage();
            if now != stage {
                // What the opening measured.
                if stage == 1
                    && let Some(noise) = searcher.noise()
                {
                    self.say(&varies(noise));
                }
                stage = now;
                self.stage(name);
            }
            let changes = self.changes(&ask.configuration);
            let why = why(&ask.purpose, searcher);
            self.measuring(&why, &changes);
            let seed = self.state.plan.seed.wrapping_add(u64::from(ask.trial));
            let label = format!("trial {}", ask.trial);
            let configuration = self.configuration(&ask.configuration);
            let tried = self.measure(&configuration, seed, &label).await?;
            self.tell(&ask, &tried)?;
        }
        self.enter(Phase::ClientOptions)
    }

    fn tell(&mut self, ask: &Ask, tried: &Tried) -> Result<(), TuneError> {
        let made = self.made(tried);
        let outcome = self.objective.outcome(&made);
        let (value, crashed) = (made.value, made.crashed.clone());
        if let Some(searcher) = &mut self.state.searcher
            && let Err(error) = searcher.tell(ask.trial, outcome)
        {
            crashed.iter().for_each(|why| self.say(why));
            return Err(error.into());
        }
        self.state.made.push(made);
        self.folder.save(&self.state)?;
        let change = self.state.baseline_value().zip(value).map(|(then, now)| now / then - 1.0);
        self.watcher.event(TuneEvent::Measured {
            value,
            change: change.filter(|_| ask.purpose != Purpose::Baseline),
            crashed: crashed.as_deref(),
            left: self.state.time_left(),
        });
        self.watcher.event(TuneEvent::SoFar(&self.state));
        Ok(())
    }

    /// Measures what lies outside the configuration, with the one found where blocks prove it a
    /// gain, and the baseline else: what was proposed to be looked at more closely may not stay.
    pub(super) async fn client_options(&mut self) -> Result<(), TuneError> {
        if self.state.plan.client {
            self.choose_client_options()?;
            self.stage("options of the client");
            let proven = self.state.conclusion().is_some_and(|end| end.gain.is_gain());
            let beside = if proven {
                self.configuration(&self.found())
            } else {
                self.baseline_configuration()
            };
            while let Some((index, block)) = client_options::next(&self.state.client_options) {
                let client_option = self.state.client_options[index].clone();
                let mut configuration = beside.clone();
                configuration.load = client_option.load.clone();
                configuration.files = client_option.files.clone();
                configuration.units = Some(client_option.units);
                self.measuring(&format!("{}, block {}", client_option.name, block + 1), &[]);
                let seed = self.state.plan.seed.wrapping_add(10_000 + u64::from(block));
                let tried = self.measure(&configuration, seed, &client_option.name).await?;
                let value = tried.as_ref().ok().and_then(|m| self.objective.value(&m.figures));
                let score = value.map(|value| self.objective.score(value));
                self.state.client_options[index].scores.push(score);
                self.folder.save(&self.state)?;
                self.measured(value, tried.as_ref().err());
            }
        }
        let gain = self.state.conclusion().is_some_and(|end| end.is_proposed);
        self.enter(if gain { Phase::Confirm } else { Phase::Promote })
    }

    /// The client options of this load, found once; what they need on disk is there again after it.
    fn choose_client_options(&mut self) -> Result<(), TuneError> {
        let record = self.diagnosed();
        let (found, left_out) = client_options::client_options(
            &self.state.plan,
            &self.objective,
            record.as_ref(),
            self.folder.path(),
        )?;
        if self.state.client_options.is_empty() {
            for one in &left_out {
                self.say(&format!("{} is not measured: {}", one.name, one.why));
            }
            (self.state.client_options, self.state.client_options_left_out) = (found, left_out);
        }
        Ok(())
    }

    /// The winner against the baseline on fresh data with another seed.
    pub(super) async fn confirm(&mut self) -> Result<(), TuneError> {
        let mut plan = self.state.plan.bench(&self.objective, self.state.plan.confirm_window);
        plan.load.checkpoints = CHECKPOINTS;
        let bench = Bench::new(&self.lab, plan, &confirming_name(&self.state.id))?;
        let bench = bench.on(self.attached.clone());
        self.stage(&format!("confirmation {}", words::again_on(&self.state)));
        bench.prepare(&Configuration::default(), &self.stop, &self.observer).await?;
        let mut pairs = self.state.confirming_pairs();
        while let Some((is_winner, pair)) = self.state.confirmation.next(pairs) {
            let configuration = match is_winner {
                true => self.configuration(&self.found()),
                false => self.baseline_configuration(),
            };
            let changes = if is_winner { self.changes(&self.found()) } else { Vec::new() };
            self.measuring(&format!("confirmation, pair {} of {pairs}", pair + 1), &changes);
            // Both of a pair see the same transactions, which no earlier run saw.
            let seed =
                self.state.plan.seed.wrapping_mul(31).wrapping_add(1_000_003 + u64::from(pair));
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
                throughput: figures.and_then(|figures| figures.get("throughput").copied()),
                checkpoints: figures.and_then(|figures| figures.get("checkpoints").copied()),
                crashed: tried.as_ref().err().cloned(),
            });
            self.folder.save(&self.state)?;
            self.measured(value, tried.as_ref().err());
            let wanted = self.state.confirming_pairs();
            if wanted > pairs {
                self.say(&words::more_pairs(&self.state, &self.objective, wanted - pairs));
                pairs = wanted;
            }
        }
        bench.discard().await?;
        self.state.next_cause = self.cause_of_winner();
        // What is not promoted needs no audit, and may not even start.
        let is_gain = self.state.confirmed().is_gain();
        self.enter(if is_gain { Phase::Crash } else { Phase::Promote })
    }

    /// What holds the winner back, by its last run; `None` where there is no record of it.
    fn cause_of_winner(&self) -> Option<Cause> {
        let last = self.state.confirmation.made.iter().rev().find(|made| made.is_winner)?;
        let record = self.record(last.run.as_ref()?)?;
        let summary = walwright_figures::summary(&record);
        Some(starts::cause(&walwright_diagnose::findings_with(&record, &summary), &summary))
    }

    /// Cuts the power of the winner's server and audits it.
    pub(super) async fn crash(&mut self) -> Result<(), TuneError> {
        self.stage(match &self.attached {
            Some(_) => {
                "crash test: cutting the power of a test cluster with these settings under load"
            }
            None => "crash test: cutting the server's power under load",
        });
        let mut settings = self.state.plan.settings.clone();
        let found = self.configuration(&self.found());
        settings.extend(found.settings);
        let settings = settings.into_iter().collect();
        let kernel = self.kernel();
        let set = kernel.set(&found.kernel, &self.stop).await?;
        let audit = tokio::select! {
            audit = crash::crash(&self.state.plan, settings) => audit,
            () = self.stop.requested() => Err(TuneError::Stopped),
        };
        kernel.bring_back(set).await?;
        self.state.crash = match audit {
            Err(TuneError::Stopped) => return Err(TuneError::Stopped),
            // Its settings may be of another machine than this one.
            Err(error) if self.attached.is_some() => {
                self.say(&format!("not audited: {error}"));
                None
            }
            audit => Some(audit?),
        };
        if let Some(told) = words::crash(&self.state) {
            self.say(&told);
        }
        self.enter(Phase::Promote)
    }

    /// Writes configuration and account.
    pub(super) fn promote(&mut self) -> Result<(), TuneError> {
        match promote::text(&self.state, &self.objective) {
            Ok(text) => self.keep(&text)?,
            Err(TuneError::NothingToPromote { why, .. }) => {
                self.state.not_promoted = Some(why).filter(|_| self.state.confirmed().is_gain());
            }
            Err(error) => return Err(error),
        }
        if self.state.entry.is_none() {
            self.state.entry =
                Some(account::append(&self.lab, &self.state, &self.objective, self.account)?);
        }
        self.enter(Phase::Done)
    }

    /// Writes the promoted configuration beside the state, and its schema.
    fn keep(&mut self, text: &str) -> Result<(), TuneError> {
        self.folder.write(CONFIGURATION, text.as_bytes())?;
        let path: PathBuf = self.folder.path().join(CONFIGURATION);
        if let Some(sql) = schema_file::text(&self.state, &self.objective) {
            let beside = schema_file::path(Path::new(CONFIGURATION));
            self.folder.write(&beside.display().to_string(), sql.as_bytes())?;
            let beside = schema_file::path(&path);
            self.state.promoted_schema = Some(beside.display().to_string());
        }
        self.state.promoted = Some(path.display().to_string());
        Ok(())
    }

    /// What the search recommends; the baseline before the end.
    pub(super) fn found(&self) -> Point {
        let baseline = self.state.searcher.as_ref().map(|s| s.baseline().clone());
        self.state
            .conclusion()
            .map(|end| end.configuration.clone())
            .or(baseline)
            .unwrap_or_default()
    }

    /// What a measurement of a point has: settings and values of the kernel that are no
    /// default, settings that the baseline sets otherwise, and the schema's statements.
    pub(super) fn configuration(&self, point: &Point) -> Configuration {
        let Some(searcher) = &self.state.searcher else { return Configuration::default() };
        let set = |name: &str| self.state.plan.settings.contains_key(name);
        let mut configuration = Configuration {
            ddl: schema::statements(&self.state.schema, point),
            ..Configuration::default()
        };
        for dimension in &searcher.space().dimensions {
            let Some(value) = point.get(&dimension.name) else { continue };
            let (name, differs) = (dimension.name.clone(), *value != dimension.home);
            match Layer::of(&name) {
                Layer::Setting if differs || set(&name) => {
                    configuration.settings.insert(name, value.clone());
                }
                Layer::Kernel if differs => {
                    configuration.kernel.insert(name, value.clone());
                }
                _ => {}
            }
        }
        configuration
    }

    /// The baseline as the search measures it.
    pub(super) fn baseline_configuration(&self) -> Configuration {
        let baseline = self.state.searcher.as_ref().map(|s| s.baseline().clone());
        self.configuration(&baseline.unwrap_or_default())
    }

    /// The record of the run that was diagnosed, as long as it is kept.
    pub(super) fn diagnosed(&self) -> Option<walwright_record::Record> {
        let first = || self.state.made.first()?.run.as_ref();
        self.record(self.state.diagnosed_run.as_ref().or_else(first)?)
    }

    /// The record of a run, as long as it is kept.
    pub(super) fn record(&self, run: &RunId) -> Option<walwright_record::Record> {
        self.lab.store().ok()?.load(run).ok()
    }

    /// What differs from the baseline, in words.
    pub(super) fn changes(&self, point: &Point) -> Vec<String> {
        let Some(searcher) = &self.state.searcher else { return Vec::new() };
        let changes = searcher.space().changes(point, searcher.baseline());
        changes.map(|(dimension, value)| format!("{} = {value}", dimension.name)).collect()
    }

    pub(super) fn label(&self, what: &str) -> Option<String> {
        Some(format!("tune {}: {what}", self.state.id))
    }

    pub(super) async fn measure(
        &self,
        configuration: &Configuration,
        seed: u64,
        what: &str,
    ) -> Result<Tried, TuneError> {
        self.measure_on(&self.bench, configuration, seed, self.label(what)).await
    }

    /// One measurement. What is wrong with the configuration is a result; what is wrong
    /// with the lab, or a wish to stop, is an error.
    pub(super) async fn measure_on(
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
                Err(ExperimentError::Kernel(why)) => return Ok(Err(words::reason(&why))),
                // A full disk says nothing of a configuration.
                Err(error) if error.is_of_the_lab() => return Err(error.into()),
                Err(ExperimentError::Run(error)) => reason = error.to_string(),
                Err(ExperimentError::Server(why)) => reason = why,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Err(words::reason(&reason)))
    }

    pub(super) fn made(&self, tried: &Tried) -> Made {
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

    pub(super) fn measuring(&self, why: &str, changes: &[String]) {
        self.watcher.event(TuneEvent::Measuring {
            run: (self.state.phase <= Phase::Search)
                .then(|| (self.state.made.len() as u32 + 1, self.state.plan.runs())),
            why,
            changes,
        });
    }

    pub(super) fn measured(&self, value: Option<f64>, crashed: Option<&String>) {
        self.watcher.event(TuneEvent::Measured {
            value,
            change: None,
            crashed: crashed.map(String::as_str),
            left: self.state.time_left(),
        });
        self.watcher.event(TuneEvent::SoFar(&self.state));
    }
}

/// Why a configuration is measured, in words.
fn why(purpose: &Purpose, searcher: &Searcher) -> String {
    match purpose {
        Purpose::Baseline => "baseline".to_owned(),
        Purpose::Start { name } => format!("start: {name}"),
        Purpose::Screen { row } => format!("screening, row {}", row + 1),
        Purpose::Search => "search".to_owned(),
        Purpose::Again => "search, once more".to_owned(),
        Purpose::Ablate { arm, block } => {
            format!("ablation, block {}: {}", block + 1, searcher.arm_name(*arm))
        }
    }
}

/// The noise of one measurement in words, with how far that is known.
fn varies(noise: Noise) -> String {
    let measured = noise.freedom + 1.0;
    let deviation = noise.variance.sqrt();
    let by = match noise.deviations() {
        // What is believed at least is no estimate, and has no interval.
        _ if deviation <= LEAST_SIGMA => format!("less than {:.1} %", 100.0 * LEAST_SIGMA),
        None => format!("{:.1} %", 100.0 * deviation),
        Some((low, high)) => format!(
            "{:.1} % ({:.1} to {:.1} %, if it stays as it is)",
            100.0 * deviation,
            100.0 * low,
            100.0 * high
        ),
    };
    format!(
        "one measurement varies by {by}: the standard deviation of {measured} measurements of the baseline"
    )
}

/// What the data at rest of a tune are called.
pub(super) fn bench_name(id: &str) -> String {
    format!("tune-{id}")
}

/// The same for those of its confirmation.
pub(super) fn confirming_name(id: &str) -> String {
    format!("tune-{id}-confirm")
}

pub(super) async fn major_of(plan: &TunePlan) -> Result<u32, TuneError> {
    let plan = plan.clone();
    embedded::aside(move || embedded::major(&plan)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_told_with_how_far_it_is_known() {
        let told = |sigma: f64| varies(Noise { variance: sigma * sigma, freedom: 2.0 });
        assert!(told(0.01).contains("1.0 % (0.5 to 6.3 %, if it stays as it is)"));
        assert!(told(0.01).ends_with("of 3 measurements of the baseline"));
        assert!(told(LEAST_SIGMA).contains("by less than 0.2 %:"));
    }
}
