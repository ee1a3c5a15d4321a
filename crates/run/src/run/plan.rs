//! What a run is asked to do.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use walwright_driver::{HttpServer, Mode, Protocol};
use walwright_record::{ClientRules, LoadStage, Schedule};
use walwright_server::{PgBouncer, PoolerProgram, Snapshot};
use walwright_workload::script::{Definition, parse_script_argument};
use walwright_workload::{Plan, Settings, Workload};

use super::RunError;
use crate::{MemorySize, PoolWaitPlan, Pooler, ServerAddress};

/// Everything a person can choose about a run.
#[derive(Debug, Clone)]
pub struct RunPlan {
    /// Where it is run.
    pub target: TargetPlan,
    /// What is run.
    pub workload: WorkloadPlan,
    /// How it is driven.
    pub load: LoadChoice,
    /// Connections that copy the initial data; chosen from the processors where not given.
    pub load_jobs: Option<usize>,
    /// Directory to measure flush latency in; beside an embedded cluster where not given.
    pub storage_dir: Option<PathBuf>,
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
        major: String,
        /// Directory of binaries to use instead of a fetched install.
        pg_bin: Option<PathBuf>,
        /// Server settings.
        settings: Vec<(String, String)>,
        /// Keep its directory afterwards.
        keep: bool,
        /// Reach it by TCP on the loopback address, not by its unix socket.
        tcp: bool,
        /// Least time of every flush of the server.
        flush_latency: Option<Duration>,
        /// Processors that the server may use, where not all.
        processors: Option<NonZeroU32>,
        /// Memory that the server may use, where not all.
        memory: Option<MemorySize>,
        /// Data to begin with instead of loading the workload's.
        restored: Option<Restored>,
    },
    /// Someone's server.
    Attached {
        /// How it is reached.
        server: ServerAddress,
        /// Whether the workload may create and fill its tables there.
        init: bool,
        /// Tables that may be dropped for that though walwright did not make them.
        replace: Vec<String>,
        /// Where it is one of several runs that are compared.
        window: Option<Window>,
    },
    /// None that is known: an application is asked by HTTP, and what is behind it is not seen.
    Unseen,
}

/// A maintenance window of an attached server, in which runs are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Whether the workload's tables were filled for this very run. Otherwise it goes on
    /// with what the run before left.
    pub filled: bool,
}

/// A data directory at rest with the workload's data in it, and what is changed in it
/// before the load.
#[derive(Debug, Clone)]
pub struct Restored {
    /// The data directory.
    pub snapshot: Snapshot,
    /// Statements, each sent alone.
    pub changes: Vec<String>,
}

/// The workload to run.
#[derive(Debug, Clone, Default)]
pub struct WorkloadPlan {
    /// A built-in workload or a directory; without one, scripts run on what is there.
    pub name: Option<String>,
    /// Scripts in place of the workload's own, each `path` or `path@weight`.
    pub files: Vec<String>,
    /// Files of requests to an application in place of scripts, each `path` or `path@weight`.
    pub requests: Vec<String>,
    /// pgbench's built-in scripts, each `name` or `name@weight`, on its tables.
    pub builtin: Vec<String>,
    /// Whether to leave out the VACUUM that the workload wants before a run.
    pub no_vacuum: bool,
    /// Scale factor; the workload's own default where not given.
    pub scale: Option<u32>,
    /// Options of the workload.
    pub options: Vec<(String, String)>,
    /// Script variables.
    pub define: Vec<(String, String)>,
}

impl WorkloadPlan {
    /// The same, and `tpcb` where neither a workload nor scripts are named.
    #[must_use]
    pub fn or_tpcb(mut self) -> WorkloadPlan {
        let named = self.name.is_some();
        if !named && [&self.files, &self.requests, &self.builtin].iter().all(|of| of.is_empty()) {
            self.name = Some("tpcb".to_owned());
        }
        self
    }
}

/// How the load is driven.
#[derive(Debug, Clone)]
pub struct LoadChoice {
    /// Client connections; the workload's own default where not given.
    pub clients: Option<u32>,
    /// Driver threads; chosen from clients and processors where not given.
    pub threads: Option<u32>,
    /// Wire protocol; the workload's own default where not given.
    pub protocol: Option<walwright_driver::Protocol>,
    /// Faithful or lean.
    pub mode: walwright_driver::Mode,
    /// Closed or open loop.
    pub schedule: Schedule,
    /// Time over which clients start.
    pub ramp: Duration,
    /// Tries a transaction has; 0 is without limit.
    pub max_tries: u32,
    /// Seed; drawn where not given.
    pub seed: Option<u64>,
    /// Length of the measured window.
    pub duration: Duration,
    /// Fixed warm-up; found on the series where not given.
    pub warm_up: Option<Duration>,
    /// What clients do beside running their scripts.
    pub rules: ClientRules,
    /// Levels of load one after the other, which make up `duration`; none where it is the same
    /// throughout.
    pub stages: Vec<LoadStage>,
    /// Checkpoints that the measured window is to hold: it begins with a requested one, and later
    /// ones are requested where the server does not complete them by itself.
    pub checkpoints: u32,
    /// What stands between the clients and the server.
    pub pooler: Pooler,
    /// The application that is asked by HTTP in place of the server.
    pub http: Option<HttpServer>,
    /// Where that application tells how long requests wait for its pool.
    pub pool_wait: Option<PoolWaitPlan>,
}

/// What is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbePlan {
    /// Ticks of wait events a second.
    pub waits_hz: u32,
}

impl RunPlan {
    /// The workload, read.
    pub fn workload(&self) -> Result<Workload, RunError> {
        let read = |argument: &String| {
            let (path, weight) = parse_script_argument(argument)?;
            Ok((PathBuf::from(path), weight))
        };
        let all = |of: &[String]| of.iter().map(read).collect::<Result<Vec<_>, RunError>>();
        let files = all(&self.workload.files)?;
        let requests = all(&self.workload.requests)?;
        if !requests.is_empty() {
            return Ok(Workload::from_requests(&requests)?);
        }
        if !self.workload.builtin.is_empty() {
            let builtin = self.workload.builtin.iter().map(|a| parse_script_argument(a));
            let builtin = builtin.collect::<Result<Vec<_>, _>>()?;
            return Ok(Workload::from_builtin_scripts(&builtin, &files)?);
        }
        match &self.workload.name {
            Some(name) if files.is_empty() => Ok(Workload::find(name)?),
            Some(name) => Ok(Workload::find(name)?.with_scripts(&files)?),
            None => Ok(Workload::from_scripts(&files)?),
        }
    }

    /// What is to be done with the workload.
    pub fn job(&self, workload: &Workload) -> Result<Plan, RunError> {
        let mut settings = Settings::of(workload);
        if let Some(scale) = self.workload.scale {
            settings.scale = scale;
        }
        settings.options = self.workload.options.iter().cloned().collect();
        settings.definitions = self
            .workload
            .define
            .iter()
            .map(|(name, value)| Definition { name: name.clone(), value: value.clone() })
            .collect();
        let mut job = workload.plan(&settings)?;
        if self.workload.no_vacuum {
            job.before_run.retain(|step| !is_vacuum(&step.sql));
        }
        Ok(job)
    }

    /// What no part of the plan shows alone.
    pub fn check(&self) -> Result<(), RunError> {
        match (self.load.mode, self.load.protocol) {
            (Mode::Lean, Some(Protocol::Simple | Protocol::Extended)) => {
                Err(RunError::LeanNeedsPrepared)
            }
            _ => self.pooler().map(drop),
        }
    }

    /// The program that stands between clients and server; `None` where nothing does.
    pub(super) fn pooler(&self) -> Result<Option<PoolerProgram>, RunError> {
        let embedded = matches!(self.target, TargetPlan::Embedded { .. });
        if self.load.pooler != Pooler::None && !embedded {
            return Err(RunError::PoolerBeforeAttached);
        }
        match &self.load.pooler {
            Pooler::None => Ok(None),
            Pooler::Gateway => {
                let own = std::env::current_exe().map_err(|source| RunError::System {
                    what: "finding walwright's own program file",
                    source,
                })?;
                Ok(Some(PoolerProgram::Gateway(own)))
            }
            Pooler::PgBouncer(program) => {
                let pgbouncer = PgBouncer::find(program.as_deref())?;
                let protocol = match self.load.protocol {
                    Some(protocol) => protocol,
                    None if self.load.mode == Mode::Lean => Protocol::Prepared,
                    None => self.workload()?.defaults.protocol,
                };
                if protocol == Protocol::Prepared && !pgbouncer.tracks_prepared_statements() {
                    let version = pgbouncer.version().to_owned();
                    return Err(RunError::StatementsNotTracked { version });
                }
                Ok(Some(PoolerProgram::PgBouncer(pgbouncer)))
            }
        }
    }

    /// Whether only tables that are already there can tell the scale.
    pub(super) fn scale_is_open(&self) -> bool {
        self.workload.scale.is_none() && !self.initialises()
    }

    /// What stands in place of loading the workload's data.
    pub(super) fn restored(&self) -> Option<&Restored> {
        match &self.target {
            TargetPlan::Embedded { restored, .. } => restored.as_ref(),
            TargetPlan::Attached { .. } | TargetPlan::Unseen => None,
        }
    }

    /// Whether the workload's tables are its own to create and fill, by this run or before it.
    pub(super) fn initialises(&self) -> bool {
        match &self.target {
            TargetPlan::Attached { init, .. } => *init || self.is_filled(),
            TargetPlan::Embedded { .. } => true,
            TargetPlan::Unseen => false,
        }
    }

    /// The maintenance window it is part of.
    pub(super) fn window(&self) -> Option<Window> {
        match &self.target {
            TargetPlan::Attached { window, .. } => *window,
            TargetPlan::Embedded { .. } | TargetPlan::Unseen => None,
        }
    }

    /// Whether someone else's tables were filled for this run by who asks for it.
    pub(super) fn is_filled(&self) -> bool {
        self.window().is_some_and(|window| window.filled)
    }
}

impl TargetPlan {
    /// What the record says until the server's address is known.
    pub(super) fn name(&self) -> String {
        match self {
            TargetPlan::Attached { .. } => "attached".to_owned(),
            TargetPlan::Unseen => "an application".to_owned(),
            TargetPlan::Embedded { pg_bin: Some(directory), .. } => shown(directory),
            TargetPlan::Embedded { major, .. } => format!("embedded PostgreSQL {major}"),
        }
    }
}

fn is_vacuum(sql: &str) -> bool {
    sql.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("vacuum"))
}

fn shown(directory: &Path) -> String {
    format!("embedded PostgreSQL of {}", directory.display())
}
