//! What a tune is asked to do.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use walwright_experiment::{
    BenchPlan, Configuration, Length, LoadOptions, OVERHEAD, OnServer, Postgres, found_from,
};
use walwright_run::{ProbePlan, WarmUp, WorkloadPlan};
use walwright_search::WORTH;

use super::{Objective, TuneError};

/// Ticks of wait events a second: enough for the diagnosis, cheap enough for all.
const WAITS_HZ: u32 = 10;
/// Measurements that confirm the winner, at most and at least.
const CONFIRMING: (u32, u32) = (6, 10);
/// Pairs that the confirmation goes on to where it leaves a question open, unless another
/// number is asked for; never more than the search has measurements, so that a short tune
/// stays one.
const MOST_PAIRS: u32 = 40;
/// Blocks in which each client option runs once beside the load as it is.
pub(super) const OPTION_BLOCKS: u32 = 4;
/// Client options that are planned for, the load as it is counted: those of a load that sends
/// prepared statements.
pub(super) const MOST_OPTIONS: u32 = 7;

/// How long a tune may go on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// So many measurements, the confirmation not counted.
    Runs(u32),
    /// So long, the confirmation counted.
    Time(Length),
}

/// Everything a person can choose about a tune. Kept with its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TunePlan {
    /// What is to become better, as [`Objective::parse`] reads it.
    pub objective: String,
    /// A built-in workload or a directory.
    pub workload: Option<String>,
    /// Scripts in place of the workload's own.
    pub files: Vec<String>,
    /// pgbench's built-in scripts, on its tables.
    #[serde(default)]
    pub builtin: Vec<String>,
    /// Whether to leave out the VACUUM that the workload wants before a run.
    #[serde(default)]
    pub no_vacuum: bool,
    /// Scale factor.
    pub scale: Option<u32>,
    /// Options of the workload.
    pub options: Vec<(String, String)>,
    /// Script variables.
    pub define: Vec<(String, String)>,
    /// How the load is driven, where not as the workload has it.
    pub load: LoadOptions,
    /// The baseline's settings.
    pub settings: BTreeMap<String, String>,
    /// PostgreSQL.
    pub postgres: Option<Postgres>,
    /// Least time of every flush of clusters of our own.
    #[serde(default)]
    pub flush_latency: Option<Length>,
    /// Whether they are reached by TCP on the loopback address, not by their unix sockets.
    #[serde(default)]
    pub tcp: bool,
    /// Length of each measured window.
    pub window: Length,
    /// Load before each window.
    pub warm_up: Length,
    /// How long it may go on.
    pub budget: Budget,
    /// What may be changed beyond settings that lose nothing: settings that may lower
    /// durability, by name; values of the kernel, by name or as `kernel`; `schema`.
    pub consent: Vec<String>,
    /// Parameters to search and no others; empty for all that bear on writes.
    pub only: Vec<String>,
    /// Whether options of the client may be measured too.
    pub client: bool,
    /// Length of each window of the confirmation.
    pub confirm_window: Length,
    /// Pairs that the confirmation ends with at the latest; `None` is as many as planned
    /// where the budget is a time, and otherwise 40, or the measurements of a shorter search.
    #[serde(default)]
    pub most_pairs: Option<u32>,
    /// Relative gain that is worth a change: below it, configuration does not limit.
    #[serde(default = "worth")]
    pub worth: f64,
    /// Share of the baseline's throughput that an objective beside which it is kept may cost.
    #[serde(default)]
    pub allowed_loss: Option<f64>,
    /// The same seed and the same figures make the same tune.
    pub seed: u64,
    /// The command line, without secrets.
    pub command: String,
    /// The attached server that is tuned, with `settings` and `postgres` as it has them;
    /// `None` tunes clusters of our own.
    #[serde(default)]
    pub server: Option<OnServer>,
}

fn worth() -> f64 {
    WORTH
}

impl TunePlan {
    /// With paths as seen from `origin`, so that it goes on the same from any directory.
    #[must_use]
    pub(super) fn seen_from(mut self, origin: &Path) -> TunePlan {
        self.workload = self.workload.map(|name| found_from(origin, name));
        self.files = self.files.into_iter().map(|file| found_from(origin, file)).collect();
        if let Some(Postgres::BinDir(directory)) = &mut self.postgres {
            *directory = origin.join(&*directory);
        }
        self
    }

    /// Checks what no part shows alone.
    ///
    /// # Errors
    /// When the objective is none or lengths make no sense.
    pub fn objective(&self) -> Result<Objective, TuneError> {
        let mut objective = Objective::parse(&self.objective)?;
        if let Some(loss) = self.allowed_loss {
            objective = objective.allowing(loss)?;
        }
        if self.window.0.is_zero() {
            return Err(TuneError::Asked("a measured window needs a length".to_owned()));
        }
        Ok(objective)
    }

    /// Measurements of the search.
    pub fn runs(&self) -> u32 {
        match self.budget {
            Budget::Runs(runs) => runs.max(walwright_search::Budget::LEAST),
            Budget::Time(length) => {
                let confirming = self.confirm_window.0 + self.warm_up.0 + OVERHEAD;
                let outside = self.per_run() * self.client_option_runs();
                let left = length.0.saturating_sub(confirming * CONFIRMING.1 + outside);
                let runs = left.as_secs_f64() / self.per_run().as_secs_f64();
                (runs as u32).max(walwright_search::Budget::LEAST)
            }
        }
    }

    /// What one measurement takes, before any has told.
    pub fn per_run(&self) -> Duration {
        self.warm_up.0 + self.window.0 + OVERHEAD
    }

    /// Measurements of options of the client, at most.
    pub fn client_option_runs(&self) -> u32 {
        if self.client { MOST_OPTIONS * OPTION_BLOCKS } else { 0 }
    }

    /// Pairs of measurements that confirm the winner, where they settle what is asked.
    pub fn planned_pairs(&self) -> u32 {
        let planned = (self.runs() / 6).clamp(CONFIRMING.0, CONFIRMING.1) / 2;
        planned.min(self.most_pairs.unwrap_or(planned))
    }

    /// Pairs that the confirmation ends with at the latest.
    pub fn most_pairs(&self) -> u32 {
        let planned = self.planned_pairs();
        let most = match self.budget {
            Budget::Runs(_) => MOST_PAIRS.min(self.runs()),
            Budget::Time(_) => planned,
        };
        self.most_pairs.unwrap_or(most).max(planned)
    }

    /// What is run, in words.
    pub fn workload_in_words(&self) -> String {
        match &self.workload {
            Some(name) => name.clone(),
            None if self.files.is_empty() => self.builtin.join(", "),
            None => "own scripts".to_owned(),
        }
    }

    /// What is measured on, with windows of this length.
    pub(super) fn bench(&self, objective: &Objective, window: Length) -> BenchPlan {
        let load = LoadOptions { rate: objective.rate, ..LoadOptions::default() };
        BenchPlan {
            workload: WorkloadPlan {
                name: self.workload.clone(),
                files: self.files.clone(),
                requests: Vec::new(),
                builtin: self.builtin.clone(),
                no_vacuum: self.no_vacuum,
                scale: self.scale,
                options: self.options.clone(),
                define: self.define.clone(),
            },
            load: LoadOptions {
                duration: Some(window),
                warmup: Some(WarmUp::Fixed(self.warm_up)),
                ..LoadOptions::default()
            }
            .choice(),
            base: Configuration {
                // The attached server has them already.
                settings: if self.server.is_some() {
                    BTreeMap::new()
                } else {
                    self.settings.clone()
                },
                load: load.over(&self.load),
                postgres: self.postgres.clone(),
                ..self.surroundings()
            },
            probe: Some(ProbePlan { waits_hz: WAITS_HZ }),
            load_jobs: None,
            percentiles: objective.metric.percentiles(),
            command: self.command.clone(),
            server: self.server.as_ref().map(|on| on.identity.address.clone()),
            application: None,
            files: BTreeMap::new(),
            is_study: false,
        }
    }

    /// What clusters of our own have around them, beside their settings.
    fn surroundings(&self) -> Configuration {
        Configuration {
            flush_latency: self.flush_latency,
            tcp: self.tcp.then_some(true),
            ..Configuration::default()
        }
    }

    /// The same in words, each after a comma; empty for a disk and a socket as they are.
    pub fn surroundings_in_words(&self) -> String {
        self.surroundings().words().iter().map(|words| format!(", {words}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::plan;

    #[test]
    fn what_is_around_the_server_is_measured_with_and_told() {
        assert_eq!(plan().surroundings_in_words(), "");
        let slow = Some(Length(Duration::from_millis(2)));
        let far = TunePlan { flush_latency: slow, tcp: true, ..plan() };
        assert_eq!(far.surroundings_in_words(), ", flushes of at least 2ms, reached by TCP");
        let objective = far.objective().unwrap();
        let base = far.bench(&objective, far.window).base;
        assert_eq!((base.flush_latency, base.tcp), (slow, Some(true)));
        // A plan of before there was either.
        let mut kept = serde_json::to_value(plan()).unwrap();
        for field in ["flush_latency", "tcp"] {
            kept.as_object_mut().unwrap().remove(field).unwrap();
        }
        assert_eq!(serde_json::from_value::<TunePlan>(kept).unwrap(), plan());
    }

    #[test]
    fn paths_are_the_same_from_any_directory_and_built_in_names_are_no_paths() {
        let origin = tempfile::tempdir().unwrap();
        for name in ["mine", "tpcb"] {
            std::fs::create_dir(origin.path().join(name)).unwrap();
        }
        std::fs::write(origin.path().join("a.sql"), "SELECT 1;").unwrap();
        let at = |name: &str| origin.path().join(name).display().to_string();
        let asked = TunePlan {
            workload: Some("mine".to_owned()),
            files: vec!["a.sql@3".to_owned(), "none.sql".to_owned()],
            postgres: Some(Postgres::BinDir("bin".into())),
            ..plan()
        };
        let seen = asked.seen_from(origin.path());
        assert_eq!(seen.workload, Some(at("mine")));
        assert_eq!(seen.files, [at("a.sql@3"), "none.sql".to_owned()]);
        assert_eq!(seen.postgres, Some(Postgres::BinDir(origin.path().join("bin"))));
        assert_eq!(plan().seen_from(origin.path()).workload.as_deref(), Some("tpcb"));
    }

    #[test]
    fn a_time_becomes_a_number_of_measurements() {
        let hour = TunePlan { budget: Budget::Time(Length(Duration::from_secs(3_600))), ..plan() };
        // 19 s each, and ten of 29 s to confirm.
        assert_eq!(hour.runs(), 174);
        assert_eq!(TunePlan { client: true, ..hour }.runs(), 174 - 28);
        let short = TunePlan { budget: Budget::Time(Length(Duration::from_secs(5))), ..plan() };
        assert_eq!(short.runs(), walwright_search::Budget::LEAST);
        let pairs = |plan: &TunePlan| (plan.planned_pairs(), plan.most_pairs());
        assert_eq!((pairs(&plan()), pairs(&short)), ((5, 40), (3, 3)), "a time is kept to");
        let eight = TunePlan { budget: Budget::Runs(8), ..plan() };
        assert_eq!(pairs(&eight), (3, 8), "a short search is not confirmed for hours");
        assert_eq!(pairs(&TunePlan { most_pairs: Some(4), ..plan() }), (4, 4));
        assert_eq!(pairs(&TunePlan { most_pairs: Some(20), ..short }), (3, 20));
    }
}
