//! What does not change during a run: target, host, workload, load and instrument.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Whether the server is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// A cluster that walwright made and started.
    Embedded,
    /// An attached server: one that walwright reached by connection string and did not start.
    Attached,
}

/// The server under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetFacts {
    /// Ours or someone's.
    pub kind: TargetKind,
    /// Address without secrets.
    pub address: String,
    /// `server_version`, as the server prints it.
    pub version: String,
    /// `server_version_num`: 180006.
    pub version_num: u32,
    /// `version()`, with compiler and platform.
    pub version_text: String,
    /// Where the binaries came from, for an embedded cluster.
    pub install: Option<String>,
    /// Database name.
    pub database: String,
    /// Role the tool connects as.
    pub role: String,
    /// Whether that role is a superuser.
    pub superuser: bool,
    /// Whether that role may read all statistics and settings (`pg_monitor`).
    pub monitor: bool,
    /// Whether the server runs on this machine and its processes can be seen.
    pub local: bool,
    /// PID of the postmaster, where it is local.
    pub postmaster_pid: Option<u32>,
    /// Processors that its processes may use, by affinity and by quota of their control group,
    /// where it is local.
    #[serde(default)]
    pub processors: Option<f64>,
    /// Limit of its control group's memory in bytes, where it has one.
    #[serde(default)]
    pub memory_limit_bytes: Option<u64>,
    /// `data_directory`, where this role may see it.
    pub data_directory: Option<String>,
    /// Extensions in the database, name to version.
    pub extensions: BTreeMap<String, String>,
    /// Whether `pg_stat_statements` answers.
    pub statements: bool,
    /// Size of the database in bytes when the load began.
    pub database_bytes: Option<u64>,
    /// Whether the server is a standby.
    pub in_recovery: bool,
    /// The tables of the workload or, for an attached server, the largest.
    pub tables: Vec<TableFacts>,
    /// What could not be seen, each a sentence.
    pub not_observable: Vec<String>,
}

/// One table of the target when the load began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableFacts {
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Estimated rows (`reltuples`); `None` where never analysed.
    pub rows: Option<u64>,
    /// Heap bytes.
    pub bytes: u64,
    /// Definitions of its indexes (`pg_get_indexdef`).
    pub indexes: Vec<String>,
    /// Storage options (`reloptions`).
    pub options: Vec<String>,
}

/// One row of `pg_settings`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Name.
    pub name: String,
    /// Value in `unit`.
    pub value: String,
    /// Unit: `8kB`, `ms`, …
    pub unit: Option<String>,
    /// Value as a person writes it (`current_setting`): `128MB`.
    pub shown: String,
    /// Compiled-in default, in `unit`.
    pub boot_value: Option<String>,
    /// Where the value comes from: `default`, `configuration file`, `command line`, …
    pub source: String,
    /// File and line, where this role may see them.
    pub source_file: Option<String>,
    /// When a change takes effect: `postmaster`, `sighup`, `superuser`, `user`, …
    pub context: String,
    /// Whether a change waits for a restart.
    pub pending_restart: bool,
}

/// The machine the server runs on, where it is this one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HostFacts {
    /// Kernel release.
    pub kernel: Option<String>,
    /// Distribution (`PRETTY_NAME` of os-release).
    pub system: Option<String>,
    /// Processor model.
    pub cpu_model: Option<String>,
    /// Processors online.
    pub processors: Option<u32>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Swap in bytes.
    pub swap_bytes: Option<u64>,
    /// Hypervisor or container runtime, where it shows.
    pub virtualisation: Option<String>,
    /// CPU quota of the cgroup in processors.
    pub cgroup_cpus: Option<f64>,
    /// Memory limit of the cgroup in bytes.
    pub cgroup_memory_bytes: Option<u64>,
    /// File system and device under the data directory.
    pub data_disk: Option<DiskFacts>,
    /// File system and device under the WAL; equal to `data_disk` where they share one.
    pub wal_disk: Option<DiskFacts>,
    /// Kernel settings that matter to a write path: sysctl names and `/sys` files, to value.
    pub kernel_settings: BTreeMap<String, String>,
    /// What could not be seen, each a sentence.
    pub not_observable: Vec<String>,
}

/// A file system and the block device under it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DiskFacts {
    /// Mount point.
    pub mount: String,
    /// File-system type: `ext4`, `xfs`, `tmpfs`.
    pub file_system: String,
    /// Mount options.
    pub options: String,
    /// Block device as in `/proc/diskstats`; `None` for file systems without one.
    pub device: Option<String>,
    /// Attributes of its queue: `scheduler`, `write_cache`, `rotational`, …
    pub queue: BTreeMap<String, String>,
    /// Free bytes.
    pub free_bytes: Option<u64>,
}

/// The workload as it was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadFacts {
    /// Name.
    pub name: String,
    /// Scale factor.
    pub scale: u64,
    /// Options chosen, name to value.
    pub options: BTreeMap<String, String>,
    /// Scripts in order.
    pub scripts: Vec<ScriptFacts>,
    /// Latency a single transaction should stay under, where the workload sets one.
    pub pass_mark: Option<Duration>,
}

/// A script as it was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScriptFacts {
    /// Name.
    pub name: String,
    /// Relative weight.
    pub weight: u32,
    /// Its source text.
    pub text: String,
    /// A short label for each SQL command, in order.
    pub statements: Vec<String>,
    /// What each of its transactions writes, where rows are its unit of work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchFacts>,
}

/// Rows that are sent together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchFacts {
    /// How: the word that the script has for it.
    pub form: String,
    /// Rows a transaction.
    pub rows: u32,
}

/// When transactions begin.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "loop")]
pub enum Schedule {
    /// Each client begins the next transaction when the last one ended, after a think time.
    Closed {
        /// Mean think time.
        think: Option<Duration>,
        /// Transactions that take longer are counted as late.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        latency_limit: Option<Duration>,
    },
    /// Transactions are due at a rate, whatever the server does. Latency counts from the due time.
    Open {
        /// Transactions a second, over all clients.
        rate: f64,
        /// Exponential gaps (Poisson arrivals) rather than even ones.
        poisson: bool,
        /// Transactions later than this are skipped.
        latency_limit: Option<Duration>,
    },
}

impl Schedule {
    /// A closed loop whose clients wait for nothing.
    pub const CLOSED: Schedule = Schedule::Closed { think: None, latency_limit: None };

    /// The latency above which a transaction is late.
    pub fn latency_limit(&self) -> Option<Duration> {
        match self {
            Schedule::Closed { latency_limit, .. } | Schedule::Open { latency_limit, .. } => {
                *latency_limit
            }
        }
    }
}

/// What a client does beside running its scripts one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientRules {
    /// Transactions after which a client has done its work; without end where not given.
    pub transactions: Option<u64>,
    /// Whether each transaction runs on a connection opened for it.
    pub reconnect: bool,
    /// What follows an error.
    pub on_error: OnError,
}

/// What follows a transaction that failed for good, other than by a serialization failure
/// or a deadlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnError {
    /// It is counted, and the client goes on.
    #[default]
    Continue,
    /// The client ends, as pgbench's do.
    StopClient,
    /// The load ends.
    Stop,
}

impl OnError {
    /// As a command line and a plan write it.
    pub fn name(self) -> &'static str {
        match self {
            OnError::Continue => "continue",
            OnError::StopClient => "stop-client",
            OnError::Stop => "stop",
        }
    }
}

/// A stretch of a load that is driven at one level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoadStage {
    /// Its length.
    pub length: Duration,
    /// How much load.
    pub level: LoadLevel,
}

/// How much load a stage is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadLevel {
    /// Open loop: transactions due each second.
    Rate(f64),
    /// Closed loop: clients that run transactions; the others stay connected and idle.
    Clients(u32),
}

/// Which pooler stood between clients and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolerKind {
    /// walwright's gateway, whose answers wait for the flush that covers them.
    Gateway,
    /// PgBouncer, in transaction mode.
    PgBouncer,
}

/// What stood between the clients and the server, started for the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolerFacts {
    /// Which it was.
    pub kind: PoolerKind,
    /// Its version.
    pub version: String,
    /// Server sessions that it may have, of each kind.
    pub pool_size: u32,
}

impl PoolerFacts {
    /// For display: `walwright gateway`, `PgBouncer 1.25.1`.
    pub fn name(&self) -> String {
        match self.kind {
            PoolerKind::Gateway => "walwright gateway".to_owned(),
            PoolerKind::PgBouncer => format!("PgBouncer {}", self.version),
        }
    }
}

/// How the load was driven.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadFacts {
    /// Client connections.
    pub clients: u32,
    /// Driver threads.
    pub threads: u32,
    /// `simple`, `extended` or `prepared`.
    pub protocol: String,
    /// `faithful` or `lean`.
    pub mode: String,
    /// Closed or open loop.
    pub schedule: Schedule,
    /// Time over which clients were started.
    pub ramp: Duration,
    /// Tries a transaction has on serialization failure or deadlock.
    pub max_tries: u32,
    /// Seed of the random numbers.
    pub seed: u64,
    /// What clients do beside running their scripts.
    #[serde(default)]
    pub rules: ClientRules,
    /// Its stages one after the other; none where it is the same throughout. `schedule` has
    /// their mean rate then, and `clients` the most clients.
    #[serde(default)]
    pub stages: Vec<LoadStage>,
    /// What stood between the clients and the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooler: Option<PoolerFacts>,
}

impl LoadFacts {
    /// The protocol of a load that asks an application.
    pub const HTTP: &str = "HTTP/1.1";

    /// Whether an application was asked, which is what has sessions with the server.
    pub fn asks_http(&self) -> bool {
        self.protocol == LoadFacts::HTTP
    }

    /// Whether walwright's gateway stood in between.
    pub fn is_behind_gateway(&self) -> bool {
        self.pooler.as_ref().is_some_and(|pooler| pooler.kind == PoolerKind::Gateway)
    }
}

/// What the instrument knows of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InstrumentFacts {
    /// Driver CPU a transaction in the measured window.
    pub cpu_per_transaction: Option<Duration>,
    /// Transactions a second that the driver could reach on this machine with this
    /// script and thread count if the server answered at once.
    pub ceiling: Option<f64>,
    /// The busiest driver thread's share of one processor in the measured window, 0 to 1.
    pub busiest_thread: Option<f64>,
}

/// Flush latency where the WAL lies, measured before the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageProbe {
    /// Directory it was measured in.
    pub path: String,
    /// The `wal_sync_method` imitated: `fdatasync`, `open_datasync`, …
    pub method: String,
    /// Bytes written before each flush.
    pub block_bytes: u32,
    /// Flushes measured.
    pub flushes: u64,
    /// Median of a write and flush.
    pub p50: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// Longest.
    pub max: Duration,
    /// Mean.
    pub mean: Duration,
}

/// What a list of runs says of one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    /// Transactions a second over the measured window.
    pub throughput: f64,
    /// Median latency in seconds.
    pub p50: f64,
    /// 99th percentile in seconds.
    pub p99: f64,
}

/// The short probes before a run, as far as they were taken.
#[derive(Debug, Clone, Default)]
pub struct Probes {
    /// Flush latency.
    pub storage: Option<StorageProbe>,
    /// Processor speed.
    pub cpu: Option<CpuProbe>,
}

/// A short measure of one processor's speed before the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuProbe {
    /// What is computed, so that only like is compared with like.
    pub method: String,
    /// Rounds a second, median over repeats.
    pub rounds_per_second: f64,
    /// Spread of the repeats: (max − min) / median.
    pub spread: f64,
}
