//! Doing an experiment: block by block, run by run, and going on where it was.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use walwright_figures::experiment::{Ending, Look, Looks, Outcome, blocks_to_prove};
use walwright_record::TargetFacts;
use walwright_run::Observer;
use walwright_server::Stop;
use walwright_stats::Confidence;
use walwright_store::Lab;

use super::bench::Fnv;
use super::event::Passed;
use super::folder::{self, Cell, Folder, Header};
use super::order::{self, AGAIN, BASELINE, FIRST_ARM};
use super::outcome::{Whole, going_on, is_given_up};
use super::profile::Profiles;
use super::visit::is_where;
use super::{
    AttachedServer, Bench, Configuration, Estimate, ExperimentError, ExperimentEvent,
    ExperimentObserver, PlanFile, Visit, arms,
};

/// What restoring, starting, probing and summing up take beside warm-up and window,
/// before a run has told.
pub const OVERHEAD: Duration = Duration::from_secs(7);
/// A warm-up that is found on the series, before one has told.
const FOUND_WARM_UP: Duration = Duration::from_secs(5);
/// Tries an arm's run has: a machine hiccups, but an arm that cannot start never will.
const TRIES: usize = 2;

/// What is chosen beside the plan.
#[derive(Debug, Clone, Default)]
pub struct Choices {
    /// Begin anew though the same plan has an unfinished experiment.
    pub new: bool,
    /// End at a planned look when it is clear.
    pub stop_when_clear: bool,
    /// Blocks instead of the plan's.
    pub blocks: Option<usize>,
    /// More settings that may lower durability.
    pub consent: Vec<String>,
    /// The command line, without secrets.
    pub command: String,
    /// What is agreed to for an attached server.
    pub visit: Visit,
    /// What the run of the finding that is to be proven was made on; an attached server must
    /// be that one.
    pub made_on: Option<TargetFacts>,
}

/// An experiment that has ended or was stopped.
#[derive(Debug)]
pub struct Conducted {
    /// The result so far.
    pub outcome: Outcome,
    /// Whether it was stopped and can go on.
    pub stopped: bool,
}

/// Checks a plan and says what it will take. Nothing is begun.
///
/// # Errors
/// When the plan is not right.
pub fn estimate(
    lab: &Lab,
    text: &str,
    origin: &Path,
    choices: &Choices,
) -> Result<Estimate, ExperimentError> {
    let (header, profiles) = new_header(text, origin, choices)?;
    let whole = Whole::new(lab, header, text, &profiles)?;
    let is_visit = choices.visit.dsn.is_some() || whole.plan.server.dsn.is_some();
    if is_visit {
        whole.plan.fits_an_attached_server().map_err(|error| error.with_line(text))?;
    }
    let mut estimate = estimated(&whole, &[])?;
    estimate.id.clear();
    if is_visit {
        estimate.data_sets = 0;
    }
    Ok(estimate)
}

/// Begins the experiment of a plan. Relative paths in it are seen from `origin`.
///
/// # Errors
/// When the plan is not right, the same plan has an unfinished experiment, someone's
/// server does not take an arm, the baseline cannot be run, or files cannot be written.
pub async fn begin(
    lab: &Lab,
    text: &str,
    origin: &Path,
    choices: &Choices,
    stop: &Stop,
    watcher: &Arc<ExperimentObserver>,
) -> Result<Conducted, ExperimentError> {
    if !choices.new {
        unfinished(lab, text)?;
    }
    let (mut header, profiles) = new_header(text, origin, choices)?;
    let plan = PlanFile::parse(text)?;
    let attached = match choices.visit.agreed(plan.server.dsn.as_deref())? {
        Some(agreed) => {
            plan.fits_an_attached_server().map_err(|error| error.with_line(text))?;
            let (attached, _) = AttachedServer::visit(lab, &agreed, &header.id).await?;
            choices.made_on.iter().try_for_each(|made_on| is_where(made_on, &attached))?;
            Some(attached)
        }
        None => None,
    };
    header.server = attached.as_ref().map(AttachedServer::kept);
    let mut whole = Whole::new(lab, header, text, &profiles)?.on(attached.map(Arc::new));
    whole.header.workload = workload_hash(&whole)?;
    // What the server does not take is found before there is an experiment.
    match whole.header.server {
        Some(_) => drop(prepare(&whole, stop, watcher).await?),
        None => check_settings(&whole, watcher).await?,
    }
    let folder = Folder::create(lab, &whole.header, text, &profiles)?;
    conduct(lab, whole, folder, stop, watcher).await
}

/// Goes on with an experiment that was stopped or killed.
///
/// # Errors
/// As [`begin`], and when there is none of this name, another process runs it, or its
/// workload or its server is another.
pub async fn resume(
    lab: &Lab,
    name: &str,
    visit: &Visit,
    stop: &Stop,
    watcher: &Arc<ExperimentObserver>,
) -> Result<Conducted, ExperimentError> {
    let header = folder::find(lab, name)?;
    let folder = Folder::open(lab, &header.id)?;
    // The process that held it until now may have ended it.
    let header = folder::header(lab, &header.id)?;
    let text = folder::plan(lab, &header.id)?;
    let planned = PlanFile::parse(&text)?.server.dsn;
    let began = header.server.as_ref();
    let attached = match header.ending {
        Ending::Unfinished => visit.again(lab, &header.id, began, planned.as_deref()).await?,
        _ => None,
    };
    let whole = Whole::kept(lab, header, &text)?.on(attached);
    if workload_hash(&whole)? != whole.header.workload {
        return Err(ExperimentError::WorkloadChanged(whole.header.id));
    }
    conduct(lab, whole, folder, stop, watcher).await
}

/// What an experiment of a plan begins with: a header, and the profiles read now.
fn new_header(
    text: &str,
    origin: &Path,
    choices: &Choices,
) -> Result<(Header, Profiles), ExperimentError> {
    let plan = PlanFile::parse(text)?;
    let consent = plan.consent.iter().chain(&choices.consent).collect();
    let profiles = Profiles::read(plan.profiles(), origin, &consent);
    let profiles = profiles.map_err(|error| error.with_line(text))?;
    let arms = arms(&plan, origin, &profiles).map_err(|error| error.with_line(text))?;
    let names: Vec<String> = arms.names().cloned().collect();
    let blocks = choices.blocks.unwrap_or_else(|| plan.blocks(names.len()));
    let entropy = (walwright_record::Timestamp::now().0 as u32).rotate_left(9) ^ std::process::id();
    let header = Header {
        command: choices.command.clone(),
        origin: std::path::absolute(origin).map_err(ExperimentError::file("find", origin))?,
        consent: choices.consent.clone(),
        stop_when_clear: choices.stop_when_clear,
        ..Header::new(plan.title(), names, blocks, entropy)
    };
    Ok((header, profiles))
}

/// An unfinished experiment of the same plan is rather gone on with.
fn unfinished(lab: &Lab, text: &str) -> Result<(), ExperimentError> {
    for listed in folder::list(lab)? {
        let id = &listed.header.id;
        let is_this = || folder::plan(lab, id).is_ok_and(|plan| plan == text);
        if listed.header.ending == Ending::Unfinished && is_this() {
            let (done, of) = (listed.done, listed.planned);
            return Err(ExperimentError::Unfinished { id: id.clone(), done, of });
        }
    }
    Ok(())
}

/// What the workloads of all arms are made of.
fn workload_hash(whole: &Whole) -> Result<String, ExperimentError> {
    let mut hash = Fnv::default();
    for configuration in configurations(whole) {
        for (name, text) in whole.bench.texts(configuration)? {
            hash.text(&name);
            hash.text(&text);
        }
    }
    Ok(format!("{:016x}", hash.0))
}

/// The baseline's configuration and those of the arms.
fn configurations(whole: &Whole) -> impl Iterator<Item = &Configuration> {
    let arms = whole.arms.arms.iter().map(|arm| &arm.configuration);
    std::iter::once(&whole.arms.baseline).chain(arms)
}

/// What is left of an experiment that was begun, by what its runs have taken so far.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn remaining(lab: &Lab, name: &str) -> Result<Estimate, ExperimentError> {
    let header = folder::find(lab, name)?;
    let id = header.id.clone();
    let whole = Whole::kept(lab, header, &folder::plan(lab, &id)?)?;
    estimated(&whole, &folder::cells(lab, &id)?)
}

fn estimated(whole: &Whole, cells: &[Cell]) -> Result<Estimate, ExperimentError> {
    let header = &whole.header;
    let given_up = cells.iter().filter(|cell| cell.failed.is_some()).count();
    Ok(Estimate {
        id: header.id.clone(),
        name: header.name.clone(),
        blocks: header.blocks,
        arms: header.arms.len(),
        runs: header.planned(),
        done: cells.len() - given_up,
        per_run: per_run(whole, cells),
        left: time_left(whole, cells),
        blocks_to_prove: blocks_to_prove(header.arms.len(), Confidence::P95),
        data_sets: whole.bench.data_sets(configurations(whole))?,
        looks: whole.looks.after.clone(),
        blocks_to_look: (header.stop_when_clear && whole.looks.after.len() == 1)
            .then(|| Looks::least_blocks(header.arms.len(), Confidence::P95)),
        left_out: whole.left_out.clone(),
    })
}

/// What a run takes, by those that were made.
fn per_run(whole: &Whole, cells: &[Cell]) -> Duration {
    let load = &whole.bench.plan().load;
    let expected = load.warm_up.unwrap_or(FOUND_WARM_UP) + load.duration + OVERHEAD;
    let made = cells.iter().filter(|cell| cell.failed.is_none());
    let taken: Vec<f64> = made.map(|cell| cell.seconds).collect();
    let mean = walwright_stats::mean(&taken);
    mean.and_then(|mean| Duration::try_from_secs_f64(mean).ok()).unwrap_or(expected)
}

/// What the runs that are still to be made take.
fn time_left(whole: &Whole, cells: &[Cell]) -> Duration {
    per_run(whole, cells) * u32::try_from(left(whole, cells)).unwrap_or(u32::MAX)
}

/// Runs that are still to be made.
fn left(whole: &Whole, cells: &[Cell]) -> usize {
    let done = |block, place| cells.iter().any(|c| (c.block, c.place) == (block, place));
    let places = FIRST_ARM + whole.arms.arms.len();
    (0..whole.header.blocks)
        .flat_map(|block| (0..places).map(move |place| (block, place)))
        .filter(|(block, place)| !is_given_up(cells, *place) && !done(*block, *place))
        .count()
}

/// Does what is left, and sums up.
async fn conduct(
    lab: &Lab,
    mut whole: Whole,
    folder: Folder,
    stop: &Stop,
    watcher: &Arc<ExperimentObserver>,
) -> Result<Conducted, ExperimentError> {
    whole.bench.recover().await?;
    let mut cells = folder::cells(lab, &whole.header.id)?;
    let mut stopped = false;
    if whole.header.ending == Ending::Unfinished {
        let passed = passed(watcher);
        let session = Session { whole: &whole, folder: &folder, stop, watcher, passed };
        match session.blocks(&mut cells).await {
            Ok(ending) => {
                whole.header.ending = ending;
                whole.bench.discard().await?;
                folder.end(&whole.header)?;
            }
            Err(error) if error.is_interruption() => stopped = true,
            Err(error) => return Err(error),
        }
    }
    let store = lab.existing_store()?;
    // Whoever stopped it does not wait for records to be read.
    let outcome = whole.outcome(&cells, store.as_ref().filter(|_| !stopped))?;
    if !stopped {
        folder.write_outcome(&outcome)?;
    }
    Ok(Conducted { outcome, stopped })
}

fn passed(watcher: &Arc<ExperimentObserver>) -> Arc<Observer> {
    Arc::new(Passed(Arc::clone(watcher)))
}

/// Checks the settings of every arm before anything is loaded.
async fn check_settings(
    whole: &Whole,
    watcher: &Arc<ExperimentObserver>,
) -> Result<(), ExperimentError> {
    let passed = passed(watcher);
    for configuration in configurations(whole) {
        whole.bench.check_settings(configuration, &passed).await?;
    }
    Ok(())
}

/// Loads all data before the first run, so that a mistake in an arm's workload shows before
/// hours are spent; and asks an attached server what it would not take. Gives the places whose
/// runs restart that server.
async fn prepare(
    whole: &Whole,
    stop: &Stop,
    watcher: &Arc<ExperimentObserver>,
) -> Result<Vec<usize>, ExperimentError> {
    let passed = passed(watcher);
    let mut restarting = Vec::new();
    let names = std::iter::once("baseline").chain(whole.header.arms.iter().map(|arm| &**arm));
    for (index, (arm, configuration)) in names.zip(configurations(whole)).enumerate() {
        watcher.event(ExperimentEvent::Loading { arm });
        let prepared = whole.bench.prepare(configuration, stop, &passed).await;
        let restarts = prepared.map_err(|error| match (error, &whole.header.server) {
            (ExperimentError::Server(why), Some(on)) => ExperimentError::ArmRefused {
                arm: if arm == "baseline" { arm.to_owned() } else { format!("arm '{arm}'") },
                server: on.identity.address.clone(),
                why,
            },
            (error, _) => error,
        })?;
        match index.checked_sub(1) {
            _ if !restarts => {}
            None => restarting.extend([BASELINE, AGAIN]),
            Some(arm) => restarting.push(FIRST_ARM + arm),
        }
    }
    if let Some(space) = whole.bench.space().await {
        watcher.event(ExperimentEvent::Loaded(&space));
    }
    Ok(restarting)
}

/// One process's work on an experiment.
struct Session<'a> {
    whole: &'a Whole,
    folder: &'a Folder,
    stop: &'a Stop,
    watcher: &'a Arc<ExperimentObserver>,
    passed: Arc<Observer>,
}

impl Session<'_> {
    async fn blocks(&self, cells: &mut Vec<Cell>) -> Result<Ending, ExperimentError> {
        let whole = self.whole;
        self.watcher.event(ExperimentEvent::Estimate(&estimated(whole, cells)?));
        self.watcher.event(ExperimentEvent::SoFar(&whole.outcome(cells, None)?));
        // It may have been killed just after the last arm was given up.
        if self.is_without_arms(cells) {
            return Ok(Ending::NoArmLeft);
        }
        let restarting = prepare(whole, self.stop, self.watcher).await?;
        for block in 0..whole.header.blocks {
            let before = left(whole, cells);
            for place in order::of_block(whole.plan.seed, block, whole.arms.arms.len(), &restarting)
            {
                let done = cells.iter().any(|c| (c.block, c.place) == (block, place));
                if is_given_up(cells, place) || done {
                    continue;
                }
                if self.stop.is_requested() {
                    return Err(ExperimentError::Stopped);
                }
                self.announce(cells, block, place);
                let cell = self.cell(block, place).await?;
                self.folder.append(&cell)?;
                cells.push(cell);
                self.tell(cells);
                self.watcher.event(ExperimentEvent::SoFar(&whole.outcome(cells, None)?));
                if self.is_without_arms(cells) {
                    return Ok(Ending::NoArmLeft);
                }
            }
            // What was looked at before it was killed is looked at again: the same runs
            // give the same answer.
            let so_far: Vec<Cell> =
                cells.iter().filter(|cell| cell.block <= block).cloned().collect();
            let judged = whole.judged(&so_far, &whole.metrics[0]);
            if left(whole, cells) != before {
                let names = judged.arms.iter().map(|arm| arm.name.clone());
                let arms: Vec<_> = names.zip(whole.outlooks(&judged, &so_far)).collect();
                let (done, of) = (block + 1, whole.header.blocks);
                let negligible = whole.plan.negligible();
                self.watcher.event(ExperimentEvent::Block { done, of, negligible, arms: &arms });
            }
            if block + 1 == whole.header.blocks {
                break;
            }
            let judged = going_on(&judged, &so_far);
            let look = whole.looks.look(block + 1, &judged, whole.plan.negligible());
            if let Some(look) = look {
                self.watcher.event(ExperimentEvent::Look(look));
                match look {
                    Look::Clear => return Ok(Ending::Clear),
                    Look::Hopeless => return Ok(Ending::Hopeless),
                    Look::Open => {}
                }
            }
        }
        Ok(Ending::AllBlocks)
    }

    /// Whether every arm is given up, which is told.
    fn is_without_arms(&self, cells: &[Cell]) -> bool {
        let without = !self.whole.is_an_arm_left(cells);
        if without {
            self.watcher.event(ExperimentEvent::NoArmLeft);
        }
        without
    }

    fn bench(&self) -> &Bench {
        &self.whole.bench
    }

    fn name(&self, place: usize) -> &str {
        match place {
            BASELINE => "baseline",
            AGAIN => "baseline again (A/A)",
            _ => &self.whole.arms.arms[place - FIRST_ARM].name,
        }
    }

    fn announce(&self, cells: &[Cell], block: usize, place: usize) {
        let of = self.whole.header.planned();
        self.watcher.event(ExperimentEvent::Begins {
            run: of - left(self.whole, cells) + 1,
            of,
            block: block + 1,
            blocks: self.whole.header.blocks,
            arm: self.name(place),
        });
    }

    /// Tells how the last run went.
    fn tell(&self, cells: &[Cell]) {
        let Some(cell) = cells.last() else { return };
        let arm = self.name(cell.place);
        if let Some(why) = &cell.failed {
            self.watcher.event(ExperimentEvent::GivenUp { arm, why });
            return;
        }
        let metric = &self.whole.metrics[0];
        self.watcher.event(ExperimentEvent::Done {
            arm,
            metric: &metric.kind(),
            value: metric.value(&cell.figures),
            left: time_left(self.whole, cells),
        });
    }

    /// One run. An arm that cannot be run is given up; a baseline that cannot ends the
    /// experiment, and so does what no configuration is to blame for.
    async fn cell(&self, block: usize, place: usize) -> Result<Cell, ExperimentError> {
        let whole = self.whole;
        let configuration = match place.checked_sub(FIRST_ARM) {
            None => &whole.arms.baseline,
            Some(arm) => &whole.arms.arms[arm].configuration,
        };
        let name = self.name(place);
        let label = format!("{} block {} {name}", whole.header.id, block + 1);
        let seed = order::load_seed(whole.plan.seed, block);
        let mut failed = String::new();
        for attempt in 1..=TRIES {
            let label = Some(label.clone());
            let measured =
                self.bench().measure(configuration, seed, label, self.stop, &self.passed).await;
            let why = match measured {
                Ok(measured) => {
                    return Ok(Cell {
                        block,
                        place,
                        run: Some(measured.run),
                        figures: measured.figures,
                        warnings: measured.warnings,
                        failed: None,
                        seconds: measured.elapsed.as_secs_f64(),
                    });
                }
                Err(error) if error.is_of_the_lab() => return Err(error),
                Err(error) if self.stop.is_requested() || error.is_interruption() => {
                    return Err(ExperimentError::Stopped);
                }
                Err(error) => error.to_string(),
            };
            if attempt < TRIES {
                self.watcher.event(ExperimentEvent::Again { arm: name, why: &why });
            }
            failed = why;
        }
        if place < FIRST_ARM {
            return Err(ExperimentError::Baseline { reason: failed });
        }
        Ok(Cell {
            block,
            place,
            run: None,
            figures: Default::default(),
            warnings: Vec::new(),
            failed: Some(failed),
            seconds: 0.0,
        })
    }
}
