//! What a run is asked to do.

use std::path::PathBuf;
use std::time::Duration;

use walwright_record::Schedule;

/// Everything a person can choose about a run.
#[derive(Debug, Clone)]
pub struct RunPlan {
    /// Where it is run.
    pub target: TargetPlan,
    /// What is run.
    pub workload: WorkloadPlan,
    /// How it is driven.
    pub load: LoadChoice,
    /// What is sampled; `None` samples nothing.
    pub probe: Option<ProbePlan>,
    /// The user's own words.
    pub label: Option<String>,
    /// The command line, without secrets.
    pub command: String,
}

/// The server to run against.
#[derive(Debug, Clone)]
pub enum TargetPlan {
    /// A cluster made for this run.
    Embedded {
        /// Major version, where no directory is given.
        major: u32,
        /// Directory of binaries to use instead of a fetched install.
        pg_bin: Option<PathBuf>,
        /// Server settings.
        settings: Vec<(String, String)>,
        /// Keep its directory afterwards.
        keep: bool,
    },
    /// Someone's server.
    Attached {
        /// Connection string.
        dsn: String,
        /// Whether the workload may create and fill its tables there.
        init: bool,
    },
}

/// The workload to run.
#[derive(Debug, Clone)]
pub struct WorkloadPlan {
    /// Where it comes from.
    pub from: WorkloadFrom,
    /// Scale factor; the workload's own default where not given.
    pub scale: Option<u64>,
    /// Options of the workload.
    pub options: Vec<(String, String)>,
    /// Script variables.
    pub define: Vec<(String, String)>,
}

/// Where a workload comes from.
#[derive(Debug, Clone)]
pub enum WorkloadFrom {
    /// A built-in one, or a directory.
    Name(String),
    /// Scripts, each `path` or `path@weight`.
    Files(Vec<String>),
}

/// How the load is driven.
#[derive(Debug, Clone)]
pub struct LoadChoice {
    /// Client connections.
    pub clients: u32,
    /// Driver threads; chosen from clients and processors where not given.
    pub threads: Option<u32>,
    /// Wire protocol.
    pub protocol: walwright_driver::Protocol,
    /// Faithful or lean.
    pub mode: walwright_driver::Mode,
    /// Closed or open loop.
    pub schedule: Schedule,
    /// Time over which clients start.
    pub ramp: Duration,
    /// Tries a transaction has.
    pub max_tries: u32,
    /// Seed; drawn where not given.
    pub seed: Option<u64>,
    /// Length of the measured window.
    pub duration: Duration,
    /// Fixed warm-up; found on the series where not given.
    pub warm_up: Option<Duration>,
}

/// What is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbePlan {
    /// Ticks of wait events a second.
    pub waits_hz: u32,
}
