//! Doing a tune: phase by phase, measurement by measurement, and going on where it was.

use std::path::Path;
use std::sync::Arc;

use walwright_diagnose::Machine;
use walwright_experiment::{
    AttachedServer, Bench, Configuration, ExperimentError, Kernel, Visit, free_bytes,
};
use walwright_run::Observer;
use walwright_search::ablation::Noise;
use walwright_search::{Ask, LEAST_SIGMA, Options, Outcome, Purpose, Searcher, Space};
use walwright_server::Stop;
use walwright_store::Lab;

use super::event::Passed;
use super::folder::{self, Folder};
use super::measure::Tried;
use super::space::{self, Surroundings};
use super::state::Phase;
use super::{
    Objective, TuneError, TuneEvent, TunePlan, TuneState, TuneWatcher, embedded, kernel, on_server,
    probe, schema, starts, words,
};

/// Begins a tune and goes on to its end.
///
/// # Errors
/// When what is asked for makes no sense, the baseline cannot be run, or files cannot be
/// written. On the server that `visit` names, when it does not allow it.
/// [`TuneError::is_interruption`] tells a wish to stop, after which [`resume`]
/// goes on.
pub async fn begin(
    lab: &Lab,
    plan: TunePlan,
    visit: &Visit,
    stop: &Stop,
    watcher: &Arc<dyn TuneWatcher>,
) -> Result<TuneState, TuneError> {
    let here = std::env::current_dir().map_err(TuneError::file("find", Path::new(".")))?;
    let mut state = TuneState::new(plan.seen_from(&here));
    let objective = state.plan.objective()?;
    // Refused before anything is made; the size of the machine decides nothing here.
    let major = major_of(&state.plan).await?;
    let any = Surroundings { major, memory: Some(1e12), free_disk: None };
    space::dimensions(&state.plan, &any, &state.hints)?;
    let name = bench_name(&state.id);
    let attached = on_server::meet(lab, &name, &mut state.plan, visit).await?;
    let folder = Folder::create(lab, &state.id)?;
    folder.save(&state)?;
    Conductor::new(lab, folder, state, objective, stop, watcher)?.on(attached).go().await
}

/// Goes on with a tune that was stopped or killed: the one called `name`, or the latest.
///
/// # Errors
/// As [`begin`], and when there is none, another process runs it, or its server is not
/// named again.
pub async fn resume(
    lab: &Lab,
    name: &str,
    visit: &Visit,
    stop: &Stop,
    watcher: &Arc<dyn TuneWatcher>,
) -> Result<TuneState, TuneError> {
    let id = folder::find(lab, name)?;
    let folder = Folder::open(lab, &id)?;
    let state = folder::read(lab, &id)?;
    let objective = state.plan.objective()?;
    let attached = match state.phase {
        Phase::Done => None,
        _ => on_server::again(lab, &bench_name(&id), &state, visit).await?,
    };
    Conductor::new(lab, folder, state, objective, stop, watcher)?.on(attached).go().await
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
        Kernel::of(lab, &name).recover().await?;
        walwright_experiment::discard_named(lab, &name)?;
    }
    folder.remove()?;
    Ok(id)
}

/// What the data at rest of a tune are called.
fn bench_name(id: &str) -> String {
    format!("tune-{id}")
}

/// The same for those of its confirmation.
pub(super) fn confirming_name(id: &str) -> String {
    format!("tune-{id}-confirm")
}

async fn major_of(plan: &TunePlan) -> Result<u32, TuneError> {
    let plan = plan.clone();
    embedded::aside(move || embedded::major(&plan)).await
}

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
    pub(super) watcher: Arc<dyn TuneWatcher>,
    pub(super) observer: Arc<dyn Observer>,
}

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
            attached: None,
            stop: stop.clone(),
            watcher: Arc::clone(watcher),
            observer: Arc::new(Passed(Arc::clone(watcher))),
        })
    }

    /// Has all measurements made on an attached server.
    fn on(self, attached: Option<Arc<AttachedServer>>) -> Conductor {
        Conductor { bench: self.bench.on(attached.clone()), attached, ..self }
    }

    async fn go(mut self) -> Result<TuneState, TuneError> {
        // What a killed process left changed.
        self.bench.recover().await?;
        Kernel::of(&self.lab, &confirming_name(&self.state.id)).recover().await?;
        self.watcher.event(TuneEvent::Begins {
            id: &self.state.id,
            runs: self.state.plan.runs(),
            confirming: self.confirming(),
            done: self.state.made.len() as u32,
            left: self.left(),
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

    /// Measurements of the confirmation that are to come, at least and at most.
    pub(super) fn confirming(&self) -> (u32, u32) {
        let (asked, of) = (self.state.questions(), &self.state.confirmation);
        let not_proposed = self.conclusion().is_some_and(|end| !end.is_proposed);
        if not_proposed || self.state.phase > Phase::Confirm || of.failure().is_some() {
            return (0, 0);
        }
        let least = of.wanted(&asked);
        let is_sized = of.pairs() >= asked.planned as usize
            && (least == asked.planned || of.needed(&asked).is_some());
        let most = if is_sized { least } else { asked.most };
        let made = of.made.len() as u32;
        ((2 * least).saturating_sub(made), (2 * most).saturating_sub(made))
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
        if schema::rewrites(&self.state.schema) {
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
            left: self.left(),
        });
        self.watcher.event(TuneEvent::SoFar(&self.state));
        Ok(())
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
