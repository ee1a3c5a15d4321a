//! The tables of a plan file.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use walwright_run::{ApplicationPlan, Length, LoadOptions, MemorySize, WorkloadPlan};

/// A value of a setting or option: text, or a bare number or truth value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SettingValue {
    /// `on` or `off`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A fraction.
    Float(f64),
    /// Text, with its unit.
    Text(String),
}

impl SettingValue {
    /// As a configuration file has it.
    pub fn text(&self) -> String {
        match self {
            SettingValue::Bool(true) => "on".to_owned(),
            SettingValue::Bool(false) => "off".to_owned(),
            SettingValue::Integer(number) => number.to_string(),
            SettingValue::Float(number) => number.to_string(),
            SettingValue::Text(text) => text.clone(),
        }
    }
}

/// Values by name.
pub type Values = BTreeMap<String, SettingValue>;

/// Values as they are typed, by name.
pub fn typed(pairs: &[(String, String)]) -> Values {
    pairs.iter().map(|(name, value)| (name.clone(), SettingValue::Text(value.clone()))).collect()
}

/// Values as text.
pub(super) fn texts(of: &Values) -> BTreeMap<String, String> {
    of.iter().map(|(name, value)| (name.clone(), value.text())).collect()
}

/// Settings of the server with their values as text. Case does not matter in their names, so that
/// an arm's value takes the place of the baseline's however each is written.
pub(super) fn settings(of: &Values) -> BTreeMap<String, String> {
    of.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.text())).collect()
}

/// A change of the schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Ddl {
    /// The statement alone: restoring the data undoes it.
    Statement(String),
    /// The statement and what undoes it where data are not restored.
    Undoable {
        /// The statement.
        sql: String,
        /// What undoes it.
        undo: String,
    },
}

impl Ddl {
    /// The statement.
    pub fn sql(&self) -> &str {
        match self {
            Ddl::Statement(sql) | Ddl::Undoable { sql, .. } => sql,
        }
    }
}

/// Statements, and what undoes those that have it.
pub(super) fn statements(of: &[Ddl]) -> (Vec<String>, BTreeMap<String, String>) {
    let undo = |ddl: &Ddl| match ddl {
        Ddl::Undoable { sql, undo } if !undo.trim().is_empty() => Some((sql.clone(), undo.clone())),
        _ => None,
    };
    (of.iter().map(|ddl| ddl.sql().to_owned()).collect(), of.iter().filter_map(undo).collect())
}

/// `[workload]`: what is run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkloadTable {
    /// A built-in workload or a directory; `tpcb` where no scripts are given either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Scale factor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<u32>,
    /// pgbench scripts, each `path` or `path@weight`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// pgbench's built-in scripts, each `name` or `name@weight`, on its tables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub builtin: Vec<String>,
    /// Whether to leave out the VACUUM that the workload wants before a run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_vacuum: bool,
    /// Options of the workload.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: Values,
    /// Script variables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub define: Values,
}

impl WorkloadTable {
    /// What is run, its paths as the plan has them.
    pub fn plan(&self) -> WorkloadPlan {
        let pairs = |values: &Values| {
            values.iter().map(|(name, value)| (name.clone(), value.text())).collect()
        };
        WorkloadPlan {
            name: self.name.clone(),
            files: self.files.clone(),
            requests: Vec::new(),
            builtin: self.builtin.clone(),
            no_vacuum: self.no_vacuum,
            scale: self.scale,
            options: pairs(&self.options),
            define: pairs(&self.define),
        }
    }
}

impl From<WorkloadPlan> for WorkloadTable {
    fn from(of: WorkloadPlan) -> WorkloadTable {
        WorkloadTable {
            name: of.name,
            scale: of.scale,
            files: of.files,
            builtin: of.builtin,
            no_vacuum: of.no_vacuum,
            options: typed(&of.options),
            define: typed(&of.define),
        }
    }
}

/// `[server]`: what the baseline runs on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerTable {
    /// Major version: 14 to 18.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub postgres: Option<SettingValue>,
    /// Directory of binaries to use instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pg_bin: Option<PathBuf>,
    /// Connection string of an attached server; a plan holds none with a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dsn: Option<String>,
    /// Least time of every flush.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush_latency: Option<Length>,
    /// Processors that the server may use, where not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processors: Option<NonZeroU32>,
    /// Memory that the server may use, where not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemorySize>,
    /// Whether it is reached by TCP on the loopback address, not by its unix socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<bool>,
    /// A file with the baseline's settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<PathBuf>,
    /// Settings of the baseline.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: Values,
    /// Changes of the schema that the baseline has too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ddl: Vec<Ddl>,
}

/// `[application]`: what stands between the load and the server, started for each run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplicationTable {
    /// Program and arguments; `{name}` in them is a parameter, `{url}` the server, `{port}` a
    /// free port.
    pub command: Vec<String>,
    /// Variables of its environment, beside `DATABASE_URL` and libpq's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: Values,
    /// The address that answers once it is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// How long that may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_within: Option<Length>,
    /// The address of its metrics, in the text format of Prometheus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// The histogram or summary there of how long requests wait for the pool, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_wait: Option<String>,
}

impl ApplicationTable {
    /// As a run has it.
    pub fn plan(&self) -> ApplicationPlan {
        ApplicationPlan {
            command: self.command.clone(),
            environment: texts(&self.environment),
            ready: self.ready.clone(),
            ready_within: self.ready_within.map_or(READY_WITHIN, |length| length.0),
            pool_wait: self
                .metrics
                .clone()
                .zip(self.pool_wait.clone())
                .map(|(metrics, name)| (metrics, name.trim_end_matches("_sum").to_owned())),
        }
    }
}

/// `[study]`: that the tables of a study are wanted, and what stands beside what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyTable {
    /// A parameter: each cell is compared with the one that has the baseline's value of it and
    /// the same of all others. Without it each arm stands beside the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare: Option<String>,
}

/// How long an application may take to be ready where the plan does not say.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// `[[arm]]`: what is different from the baseline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmTable {
    /// Its name, in tables and plots.
    pub name: String,
    /// Server settings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: Values,
    /// Changes of the schema.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ddl: Vec<Ddl>,
    /// Values of the kernel, for the arm's runs alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kernel: Values,
    /// Options of the load.
    #[serde(default, skip_serializing_if = "is_default")]
    pub load: LoadOptions,
    /// Options of the workload.
    #[serde(default, skip_serializing_if = "is_default")]
    pub workload: ArmWorkload,
    /// Values that the command lines of application and load leave open.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: Values,
    /// Major version of PostgreSQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<SettingValue>,
    /// Directory of PostgreSQL binaries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pg_bin: Option<PathBuf>,
    /// Least time of every flush.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_latency: Option<Length>,
    /// Processors that the server may use, where not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<NonZeroU32>,
    /// Memory that the server may use, where not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemorySize>,
    /// Whether the server is reached by TCP on the loopback address, not by its unix socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<bool>,
    /// A file whose settings are all applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<PathBuf>,
    /// What others claim of it, to be laid beside what is measured.
    #[serde(default, rename = "claim", skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ClaimTable>,
}

/// What of an experiment is an entry of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalEntries {
    /// The whole.
    #[default]
    Experiment,
    /// Each arm of which a change is claimed: against what its claims compare it with.
    Arms,
}

impl JournalEntries {
    pub(super) fn is_the_experiment(&self) -> bool {
        *self == JournalEntries::Experiment
    }
}

/// `[[arm.claim]]`: what someone says that the arm does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimTable {
    /// In words.
    pub text: String,
    /// The metric it is about, where it has a figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// The relative change that is claimed, or its two ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<ClaimedChange>,
    /// The arm that it is compared with, where that is not the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub than: Option<String>,
}

/// A relative change that is claimed: 0.05 is 5 % more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ClaimedChange {
    /// One figure.
    Of(f64),
    /// From one to another.
    Between([f64; 2]),
}

impl ClaimedChange {
    /// Both ends.
    pub fn ends(self) -> (f64, f64) {
        match self {
            ClaimedChange::Of(change) => (change, change),
            ClaimedChange::Between([one, other]) => (one.min(other), one.max(other)),
        }
    }
}

/// What an arm changes of the workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArmWorkload {
    /// Options of the workload.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: Values,
    /// Script variables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub define: Values,
    /// Scripts in place of the baseline's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Transactions of the baseline whose work one of these scripts does, such as a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<std::num::NonZeroU32>,
}

/// `[prediction]`: what was derived before, to be laid beside what is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictionTable {
    /// The run it was derived from.
    pub run: String,
    /// The finding.
    pub finding: String,
    /// The action, in words.
    pub action: String,
    /// Relative change that is expected at least.
    pub low: f64,
    /// And at most.
    pub high: f64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
