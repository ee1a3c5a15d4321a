//! A plan file: read, checked, written.

use std::collections::BTreeMap;
use std::iter;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use walwright_figures::experiment::blocks_to_prove;
use walwright_run::{Length, ProbePlan, WarmUp, WorkloadPlan};
use walwright_server::holds_password;
use walwright_stats::Confidence;

use super::origin::{found_from, postgres};
use super::plan_tables::{
    ApplicationTable, ArmTable, ClaimTable, ClaimedChange, JournalEntries, PredictionTable,
    ServerTable, StudyTable, Values, WorkloadTable,
};
use super::profile::{FromFile, Profiles};
use super::{BenchPlan, Configuration, Design, LoadOptions, Metric, PlanError};

/// A plan that can be edited and run, as `walwright experiment --example` prints it.
pub const EXAMPLE: &str = include_str!("example.toml");

/// Plans that walwright has with it, by name.
pub const SHIPPED: [(&str, &str); 6] = [
    ("ingest", include_str!("../../../plans/ingest.toml")),
    ("ingest-cost", include_str!("../../../plans/ingest-cost.toml")),
    ("diary", include_str!("../../../plans/diary.toml")),
    ("pool-study", include_str!("../../../plans/pool-study.toml")),
    ("pool-study-locust", include_str!("../../../plans/pool-study-locust.toml")),
    ("index-study", include_str!("../../../plans/index-study.toml")),
];

/// Blocks of a quick experiment, and the window and warm-up of its runs.
const QUICK_BLOCKS: usize = 3;
const QUICK_WINDOW: Length = Length(Duration::from_secs(5));
const QUICK_WARM_UP: Length = Length(Duration::from_secs(2));

/// Changes up to this do not matter unless the plan says otherwise.
const NEGLIGIBLE: f64 = 0.02;
/// Ticks of wait events a second.
const WAITS_HZ: u32 = 10;
/// Most blocks: with more, one experiment takes weeks and the interval hardly narrows.
pub(super) const MOST_BLOCKS: usize = 200;
/// What is an attached server's own, by the key of a plan, and what to do about it.
const AN_ATTACHED_SERVERS_OWN: [(&str, &str); 7] = [
    ("postgres", "its version is the server's own: leave it out"),
    ("pg_bin", "its binaries are the server's own: leave it out"),
    ("flush_latency", "only flushes of a cluster of our own can be lengthened"),
    (
        "processors",
        "only a cluster of our own can be held to some: start the server so, and leave it out",
    ),
    (
        "memory",
        "only a cluster of our own can be held to some: start the server so, and leave it out",
    ),
    ("tcp", "the connection string says how it is reached: leave it out"),
    ("pooler", "a pooler is put before a cluster of our own alone"),
];

/// What a person writes to have an experiment done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// A few words, for lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// How arms are combined.
    #[serde(default)]
    pub design: Design,
    /// Blocks; where not given, the fewest that can prove every arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<usize>,
    /// Seed of the order of runs and of the load.
    #[serde(default = "one")]
    pub seed: u64,
    /// What is measured; the first is judged.
    #[serde(default)]
    pub metric: Metrics,
    /// The expression of the metric `cost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// Relative changes up to this do not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_effect: Option<f64>,
    /// Settings that may lower durability, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consent: Vec<String>,
    /// What is run.
    #[serde(default)]
    pub workload: WorkloadTable,
    /// How it is driven.
    #[serde(default)]
    pub load: LoadOptions,
    /// What stands between the load and the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationTable>,
    /// Values of the baseline that the command lines of application and load leave open.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: Values,
    /// Files that command lines name as `{files}/NAME`: their texts by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// What the baseline runs on.
    #[serde(default)]
    pub server: ServerTable,
    /// What its tables are to show, where it is a study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<StudyTable>,
    /// What of it the journal keeps.
    #[serde(default, skip_serializing_if = "JournalEntries::is_the_experiment")]
    pub journal: JournalEntries,
    /// What was predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<PredictionTable>,
    /// What is compared with the baseline.
    #[serde(rename = "arm")]
    pub arms: Vec<ArmTable>,
}

fn one() -> u64 {
    1
}

/// One metric or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Metrics {
    /// One.
    One(String),
    /// Several; the first is judged.
    Several(Vec<String>),
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::One("throughput".to_owned())
    }
}

impl PlanFile {
    /// Reads a plan.
    ///
    /// # Errors
    /// When it is no TOML, a key is unknown or of the wrong type (with line and column),
    /// or what no key shows alone is wrong.
    pub fn parse(text: &str) -> Result<PlanFile, PlanError> {
        let plan: PlanFile =
            toml::from_str(text).map_err(|error| PlanError::Toml(error.to_string()))?;
        plan.check().map_err(|error| error.with_line(text))?;
        Ok(plan)
    }

    /// The plan as a file.
    ///
    /// # Errors
    /// When it cannot be written as TOML, which no plan that was read can't.
    pub fn to_toml(&self) -> Result<String, PlanError> {
        toml::to_string(self).map_err(|error| PlanError::Toml(error.to_string()))
    }

    fn check(&self) -> Result<(), PlanError> {
        if self.server.dsn.as_deref().is_some_and(holds_password) {
            let what = "the plan is kept in the lab, so it may hold no password: take it from ~/.pgpass or PGPASSWORD, or give the whole with --dsn";
            return Err(PlanError::value("", "dsn", what));
        }
        if self.arms.is_empty() {
            return Err(PlanError::value("", "arm", "there is no arm; add one with [[arm]]"));
        }
        for (place, arm) in self.arms.iter().enumerate() {
            if arm.name.trim().is_empty() || ["baseline", "A/A"].contains(&arm.name.as_str()) {
                let what = "an arm needs a name of its own; baseline and A/A are taken";
                return Err(PlanError::value(&arm.name, "name", what));
            }
            if self.arms[..place].iter().any(|other| other.name == arm.name) {
                return Err(PlanError::value(&arm.name, "name", "two arms have this name"));
            }
        }
        let of_arms = self.arms.iter().map(|arm| (arm.name.as_str(), arm.load.problem()));
        for (arm, problem) in iter::once(("", self.load.problem())).chain(of_arms) {
            if let Some((key, what)) = problem {
                return Err(PlanError::value(arm, key, what));
            }
        }
        let nothing = LoadOptions::default();
        if let Some((key, what)) = self.load.without_effect(&nothing) {
            return Err(PlanError::value("", key, what));
        }
        let blocks = self.blocks.unwrap_or(1);
        if blocks == 0 || blocks > MOST_BLOCKS {
            let what = format!("{blocks} blocks cannot be run; write 1 to {MOST_BLOCKS}");
            return Err(PlanError::value("", "blocks", what));
        }
        if !self.negligible().is_finite() || !(0.0..1.0).contains(&self.negligible()) {
            let what = "a relative change from 0 to 1: 0.02 is 2 %";
            return Err(PlanError::value("", "smallest_effect", what));
        }
        for arm in &self.arms {
            let window = arm.load.duration.map(|_| "duration");
            if let Some(key) = window.or(arm.load.warmup.map(|_| "warmup")) {
                let what = "all arms have the same window: write it under [load]";
                return Err(PlanError::value(&arm.name, key, what));
            }
        }
        for arm in &self.arms {
            arm.claims.iter().try_for_each(|claim| self.check_claim(&arm.name, claim))?;
        }
        self.check_programs()?;
        self.metrics().map(drop)
    }

    /// What an application and a command that makes the load need.
    fn check_programs(&self) -> Result<(), PlanError> {
        let fault = |key: &str, what: &str| Err(PlanError::value("", key, what.to_owned()));
        let has_load = self.load.is_from_outside();
        if self.application.as_ref().is_some_and(|of| of.command.is_empty()) {
            return fault("command", "the application has no command: its program and arguments");
        }
        if self.application.is_some() && !has_load {
            return fault(
                "application",
                "an application needs load from outside: give [load] a command, a list of a program and its arguments, or http and requests",
            );
        }
        if has_load && self.server.dsn.is_some() {
            return fault(
                "command",
                "programs are started before a cluster of our own alone; `walwright record` measures yours",
            );
        }
        let of = self.application.as_ref();
        if let Some(of) = of.filter(|of| of.metrics.is_some() != of.pool_wait.is_some()) {
            let (there, what) = match &of.metrics {
                Some(_) => {
                    ("metrics", "say what to read there: pool_wait = \"the name of a histogram\"")
                }
                None => ("pool_wait", "say where it is told: metrics = \"http://…/metrics\""),
            };
            return fault(there, what);
        }
        let compared = self.study.as_ref().and_then(|of| of.compare.as_ref());
        if let Some(name) = compared.filter(|name| !self.parameters.contains_key(*name)) {
            let known: Vec<&str> = self.parameters.keys().map(String::as_str).collect();
            let what =
                format!("'{name}' is none of the baseline's [parameters]: {}", known.join(", "));
            return fault("compare", &what);
        }
        if self.load.http.is_some() == self.load.requests.is_empty() {
            return fault(
                "requests",
                "http names the application, requests the files of what is asked",
            );
        }
        if self.load.http.is_some() && !self.load.command.is_empty() {
            return fault("command", "the load is made by a command or by requests: leave one out");
        }
        self.check_results()?;
        let other =
            |arm: &&ArmTable| (arm.load.is_from_outside() && !has_load) || arm.load.http.is_some();
        if let Some(arm) = self.arms.iter().find(other) {
            let what = "the baseline says what makes the load: a command, or http";
            return Err(PlanError::value(&arm.name, "command", what));
        }
        Ok(())
    }

    /// That files of results are those of a command and of one run: what another run left would be
    /// read as this one's.
    fn check_results(&self) -> Result<(), PlanError> {
        let of_arms = self.arms.iter().map(|arm| (arm.name.as_str(), &arm.load.results));
        for (arm, results) in iter::once(("", &self.load.results)).chain(of_arms) {
            if !results.is_empty() && self.load.command.is_empty() {
                let what = "files of results are written by a command: give [load] one";
                return Err(PlanError::value(arm, "results", what));
            }
            if let Some(file) = results.iter().find(|file| !file.starts_with("{files}/")) {
                let what = format!(
                    "'{file}' outlives its run: let the command write it to {{files}}, a directory of each run, and name it {{files}}/NAME"
                );
                return Err(PlanError::value(arm, "results", what));
            }
        }
        Ok(())
    }

    fn check_claim(&self, arm: &str, claim: &ClaimTable) -> Result<(), PlanError> {
        let fault = |key: &str, what: String| Err(PlanError::value(arm, key, what));
        if claim.metric.is_none() && claim.change.is_some() {
            let what =
                "a change of what? Say it by metric, such as throughput: -0.5 is half as much";
            return fault("claim", what.to_owned());
        }
        let sound = |change: ClaimedChange| {
            let (low, high) = change.ends();
            low.is_finite() && high.is_finite() && low > -1.0
        };
        if !claim.change.is_none_or(sound) {
            return fault("change", "a relative change above -1: 0.05 is 5 % more".to_owned());
        }
        if let Some(than) = &claim.than
            && !self.arms.iter().any(|other| other.name == *than)
        {
            return fault("than", format!("there is no arm '{than}'"));
        }
        match &claim.metric {
            Some(name) => match Metric::named(name, self.cost.as_deref()) {
                Ok(_) => Ok(()),
                Err(error) => fault("metric", error.to_string()),
            },
            None => Ok(()),
        }
    }

    /// The same plan to be had in minutes: few blocks of short runs, which screen and prove
    /// nothing.
    #[must_use]
    pub fn quick(mut self) -> PlanFile {
        self.blocks = Some(QUICK_BLOCKS);
        self.load.duration = Some(QUICK_WINDOW);
        self.load.warmup = Some(WarmUp::Fixed(QUICK_WARM_UP));
        self
    }

    /// Refuses what an attached server cannot have.
    ///
    /// # Errors
    /// When the plan names a version, binaries, a flush latency or a way to reach it.
    pub(super) fn fits_an_attached_server(&self) -> Result<(), PlanError> {
        let of = &self.server;
        let baseline = (
            "",
            [
                of.postgres.is_some(),
                of.pg_bin.is_some(),
                of.flush_latency.is_some(),
                of.processors.is_some(),
                of.memory.is_some(),
                of.tcp.is_some(),
                self.load.pooler.is_some(),
            ],
        );
        let arms = self.arms.iter().map(|of| {
            (
                &*of.name,
                [
                    of.postgres.is_some(),
                    of.pg_bin.is_some(),
                    of.flush_latency.is_some(),
                    of.processors.is_some(),
                    of.memory.is_some(),
                    of.tcp.is_some(),
                    of.load.pooler.is_some(),
                ],
            )
        });
        for (arm, named) in iter::once(baseline).chain(arms) {
            if let Some((_, (key, what))) =
                named.iter().zip(AN_ATTACHED_SERVERS_OWN).find(|(named, _)| **named)
            {
                return Err(PlanError::value(arm, key, what));
            }
        }
        Ok(())
    }

    /// What is measured; the first is judged.
    ///
    /// # Errors
    /// When a metric is not known or the cost expression is wrong.
    pub fn metrics(&self) -> Result<Vec<Metric>, PlanError> {
        let names = match &self.metric {
            Metrics::One(name) => std::slice::from_ref(name),
            Metrics::Several(names) => names,
        };
        if names.is_empty() {
            return Err(PlanError::value("", "metric", "at least one metric is needed"));
        }
        let named = |name: &String| Metric::named(name, self.cost.as_deref());
        let metrics = names.iter().map(named).collect::<Result<Vec<_>, _>>();
        metrics.map_err(|error| PlanError::value("", "metric", error.to_string()))
    }

    /// Whether it is a study: it says so, or programs of others make its load.
    pub fn is_study(&self) -> bool {
        self.study.is_some() || self.load.is_from_outside()
    }

    /// Relative changes up to this do not matter.
    pub fn negligible(&self) -> f64 {
        self.smallest_effect.unwrap_or(NEGLIGIBLE)
    }

    /// Blocks for `arms` arms.
    pub fn blocks(&self, arms: usize) -> usize {
        self.blocks.unwrap_or_else(|| blocks_to_prove(arms, Confidence::P95))
    }

    /// What lists call it.
    pub fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            let arms: Vec<&str> = self.arms.iter().map(|arm| arm.name.as_str()).collect();
            arms.join(", ")
        })
    }

    /// What all runs have in common. Relative paths are seen from `origin`, the
    /// plan's own directory.
    ///
    /// # Errors
    /// When the baseline's profile is not among `profiles`.
    pub fn bench(
        &self,
        origin: &Path,
        profiles: &Profiles,
        command: &str,
    ) -> Result<BenchPlan, PlanError> {
        let workload = self.workload.plan().or_tpcb();
        Ok(BenchPlan {
            workload: WorkloadPlan {
                name: workload.name.map(|name| found_from(origin, name)),
                files: workload.files.into_iter().map(|file| found_from(origin, file)).collect(),
                ..workload
            },
            load: self.load.choice(),
            base: self.baseline(origin, profiles)?,
            probe: Some(ProbePlan { waits_hz: WAITS_HZ }),
            load_jobs: None,
            percentiles: self.metrics()?.iter().flat_map(Metric::percentiles).collect(),
            command: command.to_owned(),
            server: None,
            application: self.application.as_ref().map(ApplicationTable::plan),
            files: self.files.clone(),
            is_study: self.is_study(),
        })
    }

    /// The baseline's own settings and schema.
    fn baseline(&self, origin: &Path, profiles: &Profiles) -> Result<Configuration, PlanError> {
        let server = &self.server;
        let (ddl, undo) = super::plan_tables::statements(&server.ddl);
        let own = Configuration {
            settings: super::plan_tables::settings(&server.settings),
            ddl,
            undo,
            postgres: postgres(origin, server.postgres.as_ref(), server.pg_bin.as_ref()),
            flush_latency: server.flush_latency,
            processors: server.processors,
            memory: server.memory,
            tcp: server.tcp,
            parameters: super::plan_tables::texts(&self.parameters),
            load: LoadOptions {
                command: self.load.command.clone(),
                results: self.load.results.clone(),
                http: self.load.http.clone(),
                requests: self
                    .load
                    .requests
                    .iter()
                    .map(|file| found_from(origin, file.clone()))
                    .collect(),
                ..LoadOptions::default()
            },
            ..Configuration::default()
        };
        match &server.profile {
            Some(profile) => Ok(profiles.of("", profile)?.configuration.with(&own)),
            None => Ok(own),
        }
    }

    /// The profiles that baseline and arms name, each with the arm's name; the baseline has none.
    pub(super) fn profiles(&self) -> impl Iterator<Item = (&str, &Path)> {
        let of_arms = self.arms.iter().map(|arm| (arm.name.as_str(), arm.profile.as_deref()));
        let all = iter::once(("", self.server.profile.as_deref())).chain(of_arms);
        all.filter_map(|(arm, path)| Some((arm, path?)))
    }

    /// What the profiles of the plan hold that no run has, a sentence each.
    ///
    /// # Errors
    /// When one is not among `profiles`.
    pub fn left_out(&self, profiles: &Profiles) -> Result<Vec<String>, PlanError> {
        let mut sentences = Vec::new();
        for (arm, profile) in self.profiles() {
            let FromFile { left_out, without_consent, .. } = profiles.of(arm, profile)?;
            if !left_out.is_empty() {
                sentences.push(format!(
                    "{} of {} cannot be applied to an embedded cluster and are in no figure: {}",
                    left_out.len(),
                    profile.display(),
                    left_out.join(", ")
                ));
            }
            if !without_consent.is_empty() {
                sentences.push(format!(
                    "{} of {} are values of the kernel and are in no figure, for lack of consent (consent = [\"kernel\"] in the plan, or --consent kernel): {}",
                    without_consent.len(),
                    profile.display(),
                    without_consent.join(", ")
                ));
            }
        }
        Ok(sentences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "[[arm]]\nname = \"small\"\nsettings = { max_wal_size = \"64MB\" }\n";

    fn error(text: &str) -> String {
        PlanFile::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn little_needs_to_be_said() {
        let plan = PlanFile::parse(LEAST).unwrap();
        assert_eq!(plan.blocks(1), 6);
        assert_eq!(plan.title(), "small");
        let bench = plan.bench(Path::new("/nowhere"), &Profiles::default(), "").unwrap();
        assert_eq!(bench.workload.name.as_deref(), Some("tpcb"));
        assert_eq!(bench.load.duration.as_secs(), 60);
        assert!(bench.base.is_empty());
    }

    #[test]
    fn the_example_is_a_plan_and_what_is_written_reads_as_the_same() {
        let plan = PlanFile::parse(EXAMPLE).unwrap();
        assert!(plan.arms.len() >= 3);
        let again = PlanFile::parse(&plan.to_toml().unwrap()).unwrap();
        assert_eq!(again, plan);
    }

    #[test]
    fn shipped_plans_can_be_run_whole_and_quick() {
        for (name, text) in SHIPPED {
            let plan = PlanFile::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            let arms = crate::arms(&plan, Path::new("."), &Profiles::default()).unwrap();
            assert_eq!(arms.arms.len(), plan.arms.len(), "{name}");
            assert!(plan.arms.iter().all(|arm| !arm.claims.is_empty()), "{name}");
            let quick = PlanFile::parse(&plan.clone().quick().to_toml().unwrap()).unwrap();
            assert_eq!((quick.blocks, quick.arms), (Some(QUICK_BLOCKS), plan.arms));
        }
    }

    #[test]
    fn claims_are_checked() {
        let of =
            |claim: &str| error(&format!("{LEAST}[[arm.claim]]\ntext = \"faster\"\n{claim}\n"));
        assert!(of("change = -0.5").contains("a change of what?"));
        assert!(of("metric = \"p99\"\nchange = -0.5").contains("latency_p99"));
        assert!(of("metric = \"throughput\"\nchange = -1.5").contains("above -1"));
        assert!(of("than = \"large\"").contains("no arm 'large'"));
        let ends = "change = [0.5, 0.2]\nmetric = \"throughput\"";
        let plan = PlanFile::parse(&format!("{LEAST}[[arm.claim]]\ntext = \"faster\"\n{ends}\n"));
        assert_eq!(plan.unwrap().arms[0].claims[0].change.unwrap().ends(), (0.2, 0.5));
    }

    #[test]
    fn errors_name_line_and_remedy() {
        let unknown = error("blocks = 3\nblokcs = 4\n[[arm]]\nname = \"a\"\n");
        assert!(unknown.contains("line 2") && unknown.contains("blokcs"), "{unknown}");
        let twice = error(&format!("{LEAST}\n{LEAST}"));
        assert!(twice.contains("line 2") && twice.contains("two arms"), "{twice}");
        let metric = error(&format!("seed = 3\nmetric = \"p99\"\n{LEAST}"));
        assert!(metric.contains("line 2") && metric.contains("latency_p99"), "{metric}");
        assert!(error("arm = []").contains("[[arm]]"));
        let clients = error(&format!("[load]\nclients = 0\n{LEAST}"));
        assert!(clients.contains("line 2") && clients.contains("at least one"), "{clients}");
        let think = error(&format!("[load]\nrate = 100\nthink = \"1ms\"\n{LEAST}"));
        assert!(think.contains("line 3") && think.contains("think"), "{think}");
        let rate = error(&format!("{LEAST}load = {{ rate = -1.5 }}\n"));
        assert!(rate.contains("rate") && rate.contains("-1.5 is not"), "{rate}");
        let blocks = error(&format!("\n\nblocks = 0\n{LEAST}"));
        assert!(blocks.contains("line 3"), "{blocks}");
        for secret in ["host=db password=x", "postgres://me:x@db/app", "postgres://db?password=x"] {
            let told = error(&format!("[server]\ndsn = \"{secret}\"\n{LEAST}"));
            assert!(told.contains("line 2") && told.contains(".pgpass"), "{told}");
        }
        let kept = format!("[load]\ncommand = [\"k6\"]\nresults = [\"k6.csv\"]\n{LEAST}");
        assert!(error(&kept).contains("line 3") && error(&kept).contains("{files}/NAME"));
        let unwritten = error(&format!("{LEAST}load = {{ results = [\"{{files}}/k6.csv\"] }}\n"));
        assert!(unwritten.contains("small") && unwritten.contains("by a command"), "{unwritten}");
        let time = error(&format!("[load]\nduration = \"5\"\n{LEAST}"));
        assert!(time.contains("line 2") && time.contains("30s"), "{time}");
    }

    #[test]
    fn an_attached_server_has_its_own_version() {
        let plan = |text: &str| PlanFile::parse(text).unwrap().fits_an_attached_server();
        assert!(plan(&format!("[server]\ndsn = \"postgres://me@db:5433/app\"\n{LEAST}")).is_ok());
        assert!(plan(&format!("[server]\npostgres = \"17\"\n{LEAST}")).is_err());
        let arm = plan(&format!("{LEAST}flush_latency = \"1ms\"\n")).unwrap_err().to_string();
        assert!(arm.contains("arm 'small'") && arm.contains("flush_latency"), "{arm}");
        assert!(plan(&format!("{LEAST}tcp = false\n")).is_err());
        let tcp = plan(&format!("[server]\ntcp = true\n{LEAST}")).unwrap_err().to_string();
        assert!(tcp.contains("tcp") && tcp.contains("connection string"), "{tcp}");
    }

    #[test]
    fn paths_are_seen_from_the_plan() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.sql"), "SELECT 1;").unwrap();
        let text = format!("[workload]\nfiles = [\"a.sql@3\"]\n{LEAST}");
        let plan = PlanFile::parse(&text).unwrap();
        let bench = plan.bench(dir.path(), &Profiles::default(), "").unwrap();
        assert_eq!(bench.workload.files, [dir.path().join("a.sql@3").display().to_string()]);
        assert_eq!(bench.workload.name, None);
    }
}
