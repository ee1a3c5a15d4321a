//! The bench: one configuration at a time, each from the same data; on an attached server
//! each on the data that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use walwright_figures::compare::{latency_percentile, run_figures};
use walwright_figures::experiment::study_figures;
use walwright_figures::rows_each;
use walwright_record::{OperationTotals, Record, RunId, RunState, Warning};
use walwright_run::{
    ApplicationPlan, CommandPlan, Finished, LoadChoice, LoadOptions, Observer, ProbePlan, Restored,
    RunError, RunPlan, StudyLoad, StudyPlan, TargetPlan, WorkloadPlan, snapshot,
};
use walwright_server::{Snapshot, Stop};
use walwright_store::Lab;
use walwright_workload::Workload;

use super::at_rest::{AtRest, DataOnDisk};
use super::attached_server::{AttachedServer, left_by};
use super::kernel::Kernel;
use super::units::{Units, per_unit};
use super::{Configuration, ExperimentError, Postgres};

/// What all runs of a bench have in common.
#[derive(Debug, Clone)]
pub struct BenchPlan {
    /// The workload.
    pub workload: WorkloadPlan,
    /// The load; its seed is given with each measurement.
    pub load: LoadChoice,
    /// Settings, schema and the rest that every run has, below its own configuration.
    pub base: Configuration,
    /// What is sampled.
    pub probe: Option<ProbePlan>,
    /// Connections that copy the initial data.
    pub load_jobs: Option<usize>,
    /// Keys of the latency percentiles to know of each run besides the usual figures.
    pub percentiles: Vec<String>,
    /// The command line that records keep.
    pub command: String,
    /// The attached server that it runs on, for people.
    pub server: Option<String>,
    /// What is started between the load and the server.
    pub application: Option<ApplicationPlan>,
    /// Files that the command lines name, their texts by name.
    pub files: BTreeMap<String, String>,
    /// Whether the figures of a study's tables are to be known of each run.
    pub is_study: bool,
}

/// Runs configurations on embedded clusters, each restored from the same snapshot; or all
/// on one attached server ([`Bench::on`]).
///
/// Data are loaded once for each PostgreSQL version and each choice of workload options
/// that is measured, and kept until [`Bench::discard`].
#[derive(Debug)]
pub struct Bench {
    lab: Lab,
    plan: BenchPlan,
    at_rest: AtRest,
    kernel: Kernel,
    attached: Option<Arc<AttachedServer>>,
    taken: Mutex<BTreeMap<String, Snapshot>>,
}

/// What one run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Its record.
    pub run: RunId,
    /// Its figures by key (see [`walwright_figures::compare::figure_kinds`]), what is
    /// not known being absent. [`super::Metric::value`] reads a metric from them.
    pub figures: BTreeMap<String, f64>,
    /// The warnings of its record.
    pub warnings: Vec<Warning>,
    /// How long it took, restoring and all.
    pub elapsed: Duration,
}

impl Bench {
    /// A bench whose data at rest lie under `name`, which is its own in this cache: the
    /// name of an experiment or of a search.
    ///
    /// # Errors
    /// When there is no place for clusters.
    pub fn new(lab: &Lab, plan: BenchPlan, name: &str) -> Result<Bench, ExperimentError> {
        let at_rest = AtRest::of(lab, name)?;
        let kernel = Kernel::of(lab, name);
        let (lab, taken) = (lab.clone(), Mutex::default());
        Ok(Bench { lab, plan, at_rest, kernel, attached: None, taken })
    }

    /// Has every run made on an attached server.
    #[must_use]
    pub fn on(self, attached: Option<Arc<AttachedServer>>) -> Bench {
        Bench { attached, ..self }
    }

    /// What all runs have in common.
    pub fn plan(&self) -> &BenchPlan {
        &self.plan
    }

    /// Checks that a configuration can be run as far as that shows without a server of our
    /// own, and loads its data unless they are there. On an attached server nothing is
    /// loaded or changed. Gives whether each run of it restarts that server for its changes.
    ///
    /// # Errors
    /// When its workload, options or load are wrong, its data cannot be loaded, or
    /// an attached server does not take it.
    pub async fn prepare(
        &self,
        configuration: &Configuration,
        stop: &Stop,
        observer: &Arc<Observer>,
    ) -> Result<bool, ExperimentError> {
        let plan = self.run_plan(configuration, 0, None);
        plan.check()?;
        let whole = self.plan.base.with(configuration);
        self.kernel.intent(&whole.kernel)?;
        if let Some(study) = self.study_plan(&whole)? {
            study.check()?;
        }
        match &self.attached {
            Some(attached) => attached.check(&whole).await,
            None => self.snapshot(&plan, stop, observer).await.map(|_| false),
        }
    }

    /// Checks that a cluster of this configuration would take its settings.
    ///
    /// # Errors
    /// With those that it would not.
    pub async fn check_settings(
        &self,
        configuration: &Configuration,
        observer: &Arc<Observer>,
    ) -> Result<(), ExperimentError> {
        let plan = self.run_plan(configuration, 0, None);
        Ok(walwright_run::check_settings(&plan, observer).await?)
    }

    /// How many sets of data runs of these configurations begin with: none on an attached server.
    ///
    /// # Errors
    /// When a workload or its options are wrong.
    pub fn data_sets<'a>(
        &self,
        configurations: impl Iterator<Item = &'a Configuration>,
    ) -> Result<usize, ExperimentError> {
        if self.attached.is_some() {
            return Ok(0);
        }
        let named = configurations.map(|of| data_name(&self.run_plan(of, 0, None)));
        Ok(named.collect::<Result<BTreeSet<String>, _>>()?.len())
    }

    /// What the data loaded so far take on disk; `None` without any.
    pub async fn space(&self) -> Option<DataOnDisk> {
        let sizes: Vec<u64> = self.taken.lock().await.values().map(Snapshot::bytes).collect();
        (!sizes.is_empty()).then(|| self.at_rest.space(&sizes))
    }

    /// Does one run of a configuration, from restored data, with this seed, and keeps
    /// its record under `label`.
    ///
    /// # Errors
    /// When it cannot be run, fails or is stopped. The record of a run that was stopped is
    /// deleted, that of one that failed stays.
    pub async fn measure(
        &self,
        configuration: &Configuration,
        seed: u64,
        label: Option<String>,
        stop: &Stop,
        observer: &Arc<Observer>,
    ) -> Result<Measured, ExperimentError> {
        let begun = Instant::now();
        let whole = self.plan.base.with(configuration);
        let mut plan = self.run_plan(configuration, seed, label);
        let finished = match &self.attached {
            Some(attached) => self.visit(attached, &whole, plan, stop, observer).await?,
            None => {
                let snapshot = self.snapshot(&plan, stop, observer).await?;
                if let TargetPlan::Embedded { restored, .. } = &mut plan.target {
                    *restored = Some(Restored { snapshot, changes: whole.ddl.clone() });
                }
                self.run(&whole, plan, stop, observer).await?
            }
        };
        let measured = self.read(finished, whole.units, stop)?;
        Ok(Measured { elapsed: begun.elapsed(), ..measured })
    }

    /// A run with the configuration's values of the kernel, by our own clients or by its programs.
    async fn run(
        &self,
        whole: &Configuration,
        plan: RunPlan,
        stop: &Stop,
        observer: &Arc<Observer>,
    ) -> Result<Finished, ExperimentError> {
        let study = self.study_plan(whole)?;
        let set = self.kernel.set(&whole.kernel, stop).await?;
        let (lab, stop, observer) = (&self.lab, stop.clone(), Arc::clone(observer));
        let finished = match study {
            Some(study) => walwright_run::study(lab, plan, study, stop, observer).await,
            None => walwright_run::run(lab, plan, stop, observer).await,
        };
        self.kernel.bring_back(set).await?;
        Ok(finished?)
    }

    /// What is started for a run whose load is made by programs of others.
    fn study_plan(&self, whole: &Configuration) -> Result<Option<StudyPlan>, ExperimentError> {
        let load = match &whole.load {
            LoadOptions { http: Some(server), requests, .. } => {
                StudyLoad::Http { server: server.clone(), requests: requests.clone() }
            }
            LoadOptions { command, results, .. } if !command.is_empty() => {
                StudyLoad::Tool { command: command.clone(), results: results.clone() }
            }
            _ => return Ok(None),
        };
        let guard = CommandPlan::own_guard().map_err(|source| RunError::System {
            what: "finding walwright's own program file",
            source,
        })?;
        Ok(Some(StudyPlan {
            application: self.plan.application.clone(),
            load,
            parameters: whole.parameters.clone(),
            files: self.plan.files.clone(),
            guard,
        }))
    }

    /// A run on an attached server, which is afterwards as it was before, however it ended.
    async fn visit(
        &self,
        attached: &AttachedServer,
        whole: &Configuration,
        plan: RunPlan,
        stop: &Stop,
        observer: &Arc<Observer>,
    ) -> Result<Finished, ExperimentError> {
        let made = async {
            attached.fill(&plan, stop, observer).await?;
            attached.set(whole, stop).await
        };
        let set = match made.await {
            Ok(set) => set,
            Err(error @ ExperimentError::ServerLeft { .. }) => return Err(error),
            Err(_) if stop.is_requested() => return Err(ExperimentError::Stopped),
            Err(error) => return attached.wait().await.and(Err(error)),
        };
        let started = attached.started().await;
        let finished = self.run(whole, plan, stop, observer).await;
        let ours = attached.is_ours().await;
        // Clients come back to a server that was away for a while; that is no measurement.
        let stayed = started.is_some() && attached.started().await == started;
        let notes = attached.bring_back(set).await?;
        if let (Some(note), false) = (notes.first(), stop.is_requested()) {
            return Err(ExperimentError::Server(format!("not measured as planned: {note}")));
        }
        let failed = !matches!(&finished, Ok(finished) if finished.state == RunState::Complete);
        if failed && !stop.is_requested() {
            attached.wait().await?;
        }
        let restarted =
            |finished: &Finished| matches!(finished.error, Some(RunError::ServerRestarted { .. }));
        let restarted = finished.as_ref().is_ok_and(restarted);
        let disturbed = match ours {
            _ if !stayed => Err("the server was restarted during the run".to_owned()),
            ours => ours,
        };
        if let (Err(why), true) = (disturbed, (!failed || restarted) && !stop.is_requested()) {
            return Err(ExperimentError::Server(format!("not measured as planned: {why}")));
        }
        match finished {
            // Whoever ended it, its user did not: it is tried again.
            Err(ExperimentError::Run(error)) if error.is_interruption() && !stop.is_requested() => {
                Err(ExperimentError::Server(error.to_string()))
            }
            finished => finished,
        }
    }

    fn read(
        &self,
        finished: Finished,
        units: Option<u32>,
        stop: &Stop,
    ) -> Result<Measured, ExperimentError> {
        if finished.state != RunState::Complete {
            if stop.is_requested() {
                self.lab.store()?.delete(&finished.id)?;
                return Err(ExperimentError::Stopped);
            }
            return Err(match finished.error {
                Some(error) if error.is_of_the_lab() => ExperimentError::Run(error),
                error => ExperimentError::RunFailed {
                    run: finished.id,
                    reason: error.map_or_else(String::new, |error| error.to_string()),
                },
            });
        }
        let Finished { record, summary, .. } = finished;
        let mut figures = run_figures(&record, &summary);
        for key in &self.plan.percentiles {
            if !figures.contains_key(key)
                && let Some(value) = latency_percentile(&record, key)
            {
                figures.insert(key.clone(), value);
            }
        }
        for (key, value) in told(&record) {
            figures.entry(key).or_insert(value);
        }
        if self.plan.is_study {
            for (key, value) in study_figures(&record, &summary, &figures) {
                figures.entry(key).or_insert(value);
            }
        }
        let units = match units {
            Some(units) => Units::Transactions(units),
            None => Units::Rows(rows_each(&record).unwrap_or(1)),
        };
        Ok(Measured {
            run: finished.id,
            figures: per_unit(figures, units),
            warnings: record.warnings,
            elapsed: Duration::ZERO,
        })
    }

    /// Brings back what a killed process of this bench left changed: values of the kernel,
    /// and an attached server.
    ///
    /// # Errors
    /// When that fails; `walwright config rollback` tries again.
    pub async fn recover(&self) -> Result<(), ExperimentError> {
        self.kernel.recover().await?;
        match &self.attached {
            Some(attached) => attached.recover().await,
            None => Ok(()),
        }
    }

    /// Removes the data at rest. Measuring again loads them again.
    ///
    /// # Errors
    /// When they cannot be removed.
    pub async fn discard(&self) -> Result<(), ExperimentError> {
        self.taken.lock().await.clear();
        self.at_rest.discard()
    }

    /// What the workload of a configuration is made of: names and texts of its files.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn texts(
        &self,
        configuration: &Configuration,
    ) -> Result<Vec<(String, String)>, ExperimentError> {
        Ok(texts(&self.run_plan(configuration, 0, None).workload()?))
    }

    /// The run of a configuration, its data still to be restored.
    fn run_plan(&self, configuration: &Configuration, seed: u64, label: Option<String>) -> RunPlan {
        let whole = self.plan.base.with(configuration);
        let mut workload = self.plan.workload.clone();
        workload.options.extend(whole.options);
        workload.define.extend(whole.define);
        workload.files = whole.files.unwrap_or(workload.files);
        let mut load = self.plan.load.clone();
        whole.load.apply(&mut load);
        load.seed = Some(seed);
        let (major, pg_bin) = Postgres::parts(whole.postgres);
        let target = match &self.attached {
            Some(attached) => attached.target(),
            None => TargetPlan::Embedded {
                major,
                pg_bin,
                settings: whole.settings.into_iter().collect(),
                keep: false,
                tcp: whole.tcp.unwrap_or(false),
                flush_latency: whole.flush_latency.map(|least| least.0),
                processors: whole.processors,
                memory: whole.memory,
                restored: None,
            },
        };
        RunPlan {
            target,
            workload,
            load,
            load_jobs: self.plan.load_jobs,
            storage_dir: None,
            probe: self.plan.probe,
            label,
            command: self.plan.command.clone(),
        }
    }

    /// The data that a run begins with, loaded now if they are not there.
    async fn snapshot(
        &self,
        plan: &RunPlan,
        stop: &Stop,
        observer: &Arc<Observer>,
    ) -> Result<Snapshot, ExperimentError> {
        let name = data_name(plan)?;
        let mut taken = self.taken.lock().await;
        if let Some(snapshot) = taken.get(&name) {
            return Ok(snapshot.clone());
        }
        let directory = self.at_rest.place(&name);
        let found = match Snapshot::open(&directory) {
            Ok(found) => found,
            Err(_) => {
                // What cannot be opened was damaged from outside: taking one is all or nothing.
                self.at_rest.clear(&directory)?;
                snapshot(plan, directory, stop, observer).await?
            }
        };
        taken.insert(name, found.clone());
        Ok(found)
    }
}

/// What load tools computed of their whole tests: the figures of a run whose clients tell no more.
fn told(record: &Record) -> BTreeMap<String, f64> {
    let logs = record.client.iter().flat_map(|client| &client.logs);
    let totals: Vec<&OperationTotals> = logs.flat_map(|log| &log.totals).collect();
    let mut told = BTreeMap::new();
    let rates: Option<Vec<f64>> = totals.iter().map(|of| of.throughput).collect();
    if let Some(rates) = rates.filter(|rates| !rates.is_empty()) {
        told.insert("throughput".to_owned(), rates.iter().sum());
    }
    // Percentiles of several operations are none of all of them.
    if let [of] = totals[..] {
        told.extend(of.mean.map(|mean| ("latency_mean".to_owned(), mean.as_secs_f64())));
        told.extend(of.percentiles.iter().map(|(percent, latency)| {
            let key = format!("latency_p{percent}").replace('.', "_");
            (key, latency.as_secs_f64())
        }));
    }
    told
}

/// A name that changes with all that shapes the data.
fn data_name(plan: &RunPlan) -> Result<String, ExperimentError> {
    let workload = plan.workload()?;
    let job = plan.job(&workload)?;
    let mut hash = Fnv::default();
    let postgres = match &plan.target {
        TargetPlan::Embedded { major, pg_bin, .. } => {
            hash.text(&pg_bin.as_ref().map_or_else(String::new, |bin| bin.display().to_string()));
            if pg_bin.is_some() { "own".to_owned() } else { major.clone() }
        }
        TargetPlan::Attached { .. } | TargetPlan::Unseen => "attached".to_owned(),
    };
    for (name, text) in workload.files() {
        hash.text(name);
        hash.text(text);
    }
    for (name, value) in job.options.iter().chain(plan.workload.define.iter().map(|(n, v)| (n, v)))
    {
        hash.text(name);
        hash.text(value);
    }
    let called = workload.name.replace(['/', ' '], "_");
    Ok(format!("pg{postgres}-{called}-{}-{:016x}", job.scale, hash.0))
}

fn texts(workload: &Workload) -> Vec<(String, String)> {
    workload.files().map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

/// FNV-1a, 64 bits: the same on every platform and in every version, which the
/// hashes of the standard library do not promise.
pub(super) struct Fnv(pub u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Takes a text in, and that it ends here.
    pub(super) fn text(&mut self, text: &str) {
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Removes what a bench of this name left, for an experiment that is deleted.
///
/// # Errors
/// When it cannot be removed, or an attached server is not as it was.
pub fn discard_named(lab: &Lab, name: &str) -> Result<(), ExperimentError> {
    if let Some(id) = left_by(lab, name)? {
        return Err(ExperimentError::StillChanged { name: name.to_owned(), id });
    }
    AtRest::of(lab, name)?.discard()
}

impl From<walwright_workload::WorkloadError> for ExperimentError {
    fn from(error: walwright_workload::WorkloadError) -> Self {
        ExperimentError::Run(RunError::from(error))
    }
}
