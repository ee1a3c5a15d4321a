//! Why a run could not be done.

use std::time::Duration;

use thiserror::Error;
use walwright_driver::{HttpServerError, LoadError};
use walwright_probe::ProbeError;
use walwright_server::{
    ClusterError, ConnectError, InstallError, PlacesError, PoolerError, QueryError, SnapshotError,
    TargetError,
};
use walwright_store::StoreError;
use walwright_workload::WorkloadError;

/// The SQLSTATE of a disk that is full.
const DISK_FULL: &str = "53100";
/// What a server writes to its log then, as the system words it.
const NO_SPACE: &str = "No space left on device";

/// A run that could not be begun, or not be ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The workload or one of its scripts is not right.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The workload's initial data cannot be made.
    #[error(transparent)]
    Generate(#[from] walwright_workload::generate::GenerateError),
    /// A `--file` argument is not right.
    #[error(transparent)]
    ScriptArgument(#[from] walwright_workload::script::ArgumentError),
    /// No PostgreSQL to run.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// No place for a cluster.
    #[error(transparent)]
    Places(#[from] PlacesError),
    /// The cluster could not be made or started.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The data could not be kept for other runs, or not be restored.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The connection string is not right.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The server could not be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A statement of the workload failed outside the load.
    #[error("{what}: {message}{}", hint.map(|h| format!(" ({h})")).unwrap_or_default())]
    Sql {
        /// Which statement, with file and line.
        what: String,
        /// What the server said.
        message: String,
        /// What to do.
        hint: Option<&'static str>,
    },
    /// A program of a study failed.
    #[error("the {who} {what}{}", if said.is_empty() { "; it printed nothing".to_owned() } else { format!("; its last lines are:{said}") })]
    Program {
        /// Which one it is.
        who: &'static str,
        /// What became of it.
        what: String,
        /// The last lines that it printed.
        said: String,
    },
    /// A command line names a value that there is none of.
    #[error("there is no value for {{{name}}}; those there are: {known}")]
    Placeholder {
        /// Its name.
        name: String,
        /// What could be meant.
        known: String,
    },
    /// What is read is at no address of a page.
    #[error("metrics of the application are read from http://HOST:PORT/PATH, not from '{0}'")]
    MetricsAddress(String),
    /// A parameter that no command line names.
    #[error("no command line has {{{name}}}, so the parameter {name} changes nothing")]
    ParameterUnused {
        /// Its name.
        name: String,
    },
    /// A file of a plan cannot be called so.
    #[error(
        "{name:?} is no name of a file: command lines find it as {{files}}/NAME, without directories"
    )]
    StudyFile {
        /// Its name.
        name: String,
    },
    /// The address of an application is none.
    #[error(transparent)]
    Http(#[from] HttpServerError),
    /// The load of others could not be recorded.
    #[error(transparent)]
    Record(Box<crate::RecordError>),
    /// The driver could not begin.
    #[error(transparent)]
    Driver(#[from] LoadError),
    /// Sampling could not begin.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The record could not be written.
    #[error("the record could not be written: {0}")]
    Store(#[from] StoreError),
    /// The workload's tables are not on the attached server.
    #[error(
        "the workload '{workload}' needs the table {table}, which {target} does not have; \
         --init lets walwright create and fill the workload's tables there"
    )]
    NotLoaded {
        /// The workload.
        workload: String,
        /// The first table that is missing.
        table: String,
        /// Where.
        target: String,
    },
    /// The workload's tables were never filled to their end.
    #[error(
        "the tables of '{workload}' on {target} were not filled to their end; \
         --init fills them anew"
    )]
    HalfLoaded {
        /// The workload.
        workload: String,
        /// Where.
        target: String,
    },
    /// A table is in the way that walwright did not make.
    #[error(
        "--init would replace a table that walwright did not make: {holds}; \
         rename it, use another schema or database, or add --replace {table} to have it dropped"
    )]
    WouldReplace {
        /// Its name, for the flag.
        table: String,
        /// What would go.
        holds: String,
    },
    /// A table of a built-in workload is a view or the like.
    #[error("{table} is not a table, and the built-in workloads run on tables only")]
    NoTable {
        /// The relation.
        table: String,
    },
    /// Rights beyond its tables would be lent to the owner of a table.
    #[error(
        "{table} belongs to the role {owner}, whose triggers and defaults would run with the \
         rights of this role, which may do more; connect as {owner}, or have a superuser own the table"
    )]
    LendsRights {
        /// The table.
        table: String,
        /// Its owner.
        owner: String,
    },
    /// No schema of the path is there, or none may be used.
    #[error(
        "no schema of the search path is there for role {role}: create one, or set search_path"
    )]
    NoSchema {
        /// Who asks.
        role: String,
    },
    /// The table that tells the scale holds a number of rows that is none.
    #[error(
        "the scale of the workload's tables is the number of rows of one, which holds {rows}; \
         --init fills them anew, --scale N says which part of them to use"
    )]
    NoScale {
        /// What was found.
        rows: i64,
    },
    /// The server does not flush in the way that can be lengthened.
    #[error(
        "--flush-latency lengthens fsync and fdatasync, which {value} does not use; \
         leave that setting out"
    )]
    FlushLatency {
        /// The setting in the way.
        value: String,
    },
    /// Lean mode with a protocol that has no place for it.
    #[error("--lean uses prepared statements; leave --protocol out, or choose prepared")]
    LeanNeedsPrepared,
    /// Something is to stand between that is started for embedded clusters alone.
    #[error(
        "--gateway and --pooler stand before an embedded cluster; before a server of yours start \
         `walwright gateway --server …` or your pooler, and name that with --dsn"
    )]
    PoolerBeforeAttached,
    /// Statements prepared on one session are not known to the next.
    #[error(
        "PgBouncer {version} does not carry prepared statements from session to session (1.21 \
         and newer do); add --protocol simple or --protocol extended, without --lean"
    )]
    StatementsNotTracked {
        /// Its version.
        version: String,
    },
    /// What stands between clients and server cannot be used.
    #[error(transparent)]
    Pooler(#[from] PoolerError),
    /// What stood between clients and server has ended.
    #[error("the {name} between clients and server was lost: {why}")]
    PoolerLost {
        /// Which it was.
        name: &'static str,
        /// How, with the end of its log.
        why: String,
    },
    /// The clients cannot all connect.
    #[error(
        "{wanted} clients and the probe need {needed} connections, and {limit} leaves {allowed} \
         on {target}; lower --clients or raise that limit"
    )]
    TooManyClients {
        /// Clients asked for.
        wanted: u32,
        /// Connections needed in all.
        needed: u32,
        /// What is left of the limit.
        allowed: u32,
        /// The limit that allows the fewest.
        limit: &'static str,
        /// Where.
        target: String,
    },
    /// A version this tool does not know.
    #[error("PostgreSQL {0} cannot be fetched; 14 to 18 can, and --pg-bin uses binaries of yours")]
    NoSuchMajor(String),
    /// The machine lacks something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The server went away under the load.
    #[error("the server was lost {} into the load: {reason}", clock(*.after))]
    ServerLost {
        /// Since the load began.
        after: Duration,
        /// What is known of it.
        reason: String,
    },
    /// The server was restarted under the load, or recovered from a crash.
    #[error("{what}")]
    ServerRestarted {
        /// What happened.
        what: &'static str,
    },
    /// Clients ran, and no transaction of theirs ended well in the measured window.
    #[error(
        "no transaction completed in the measured window of {}: {}",
        clock(*.window),
        hung(*.under_way, *.oldest, *.failed)
    )]
    NothingCompleted {
        /// Length of the window.
        window: Duration,
        /// Transactions under way when it ended.
        under_way: u64,
        /// The longest that any of them took, or had been under way when it was cut off.
        oldest: Option<Duration>,
        /// Transactions that failed in the window.
        failed: u64,
    },
    /// The embedded server ended outside the load.
    #[error("{reason}")]
    ServerDied {
        /// How, with the end of its log.
        reason: String,
    },
    /// All transactions fail, for a reason that time does not heal.
    #[error("no transaction succeeds: {text}{}", remedy(kind).map(|r| format!(" ({r})")).unwrap_or_default())]
    NothingSucceeds {
        /// SQLSTATE, or `script`.
        kind: String,
        /// What the server said, or the script's own fault.
        text: String,
    },
    /// A transaction failed, and that was to end the load.
    #[error("the load stopped at its first error, as --on-error stop asks: {text}")]
    StoppedByError {
        /// What the server said, or the script's own fault.
        text: String,
    },
    /// Each client ended at an error.
    #[error("every client ended at an error, as --on-error stop-client asks")]
    NoClientLeft,
    /// The user stopped it before anything was measured.
    #[error("stopped before the load began, so nothing is recorded")]
    Stopped,
    /// A part of the tool itself broke.
    #[error(
        "internal fault in {0}; please report it with the command line and the last lines above"
    )]
    Internal(&'static str),
}

impl RunError {
    /// Whether what was asked for is not right, whatever the state of servers and of the lab.
    pub fn is_usage(&self) -> bool {
        match self {
            RunError::Workload(error) => error.is_usage(),
            RunError::Record(error) => matches!(**error, crate::RecordError::NoProgram { .. }),
            RunError::ScriptArgument(_)
            | RunError::LeanNeedsPrepared
            | RunError::PoolerBeforeAttached
            | RunError::StatementsNotTracked { .. }
            | RunError::Pooler(PoolerError::NotInstalled | PoolerError::NotPgBouncer { .. })
            | RunError::NoSuchMajor(_)
            | RunError::Http(_)
            | RunError::Placeholder { .. }
            | RunError::MetricsAddress(_)
            | RunError::ParameterUnused { .. }
            | RunError::StudyFile { .. }
            | RunError::Cluster(ClusterError::Setting(_)) => true,
            _ => false,
        }
    }

    /// Whether something is wrong with the lab or its machine: another configuration would
    /// have met it too.
    pub fn is_of_the_lab(&self) -> bool {
        match self {
            Self::Cluster(error) | Self::Snapshot(SnapshotError::Cluster(error)) => match error {
                ClusterError::StartFailed { log, .. } => log.contains(NO_SPACE),
                ClusterError::Setting(_)
                | ClusterError::VersionMismatch { .. }
                | ClusterError::StartTimeout { .. } => false,
                _ => true,
            },
            Self::ServerLost { reason, .. } | Self::ServerDied { reason } => {
                reason.contains(NO_SPACE)
            }
            Self::NothingSucceeds { kind, .. } => kind == DISK_FULL,
            Self::Snapshot(_)
            | Self::Places(_)
            | Self::Install(_)
            | Self::Store(_)
            | Self::System { .. }
            | Self::Driver(LoadError::System { .. } | LoadError::Panicked)
            | Self::Internal(_) => true,
            _ => false,
        }
    }

    /// Whether the run was cut short from outside, by its user or by the end of its
    /// server, rather than by something wrong with it.
    pub fn is_interruption(&self) -> bool {
        matches!(
            self,
            Self::Stopped
                | Self::ServerLost { .. }
                | Self::ServerRestarted { .. }
                | Self::ServerDied { .. }
                | Self::PoolerLost { .. }
        )
    }
}

/// What helps against an error of the server, by SQLSTATE.
pub(super) fn remedy(sqlstate: &str) -> Option<&'static str> {
    match sqlstate {
        DISK_FULL => Some("the server's disk is full: free some space or lower --scale"),
        "53300" => Some(
            "the server is out of connections: lower --clients, or raise max_connections or the role's or database's limit",
        ),
        "42501" => Some("the role lacks a privilege: grant it, or connect as another role"),
        "25006" => Some(
            "the session is read-only: the server is a standby, so connect to its primary; or role or database set default_transaction_read_only",
        ),
        "42P01" => Some(
            "the script's tables are not there: --workload NAME brings those of a workload, with --dsn only together with --init",
        ),
        _ => None,
    }
}

/// What there was in place of transactions that complete.
fn hung(under_way: u64, oldest: Option<Duration>, failed: u64) -> String {
    let mut said = match oldest {
        Some(oldest) if under_way > 0 => format!(
            "{under_way} {} under way when it ended, the oldest for {} at least",
            if under_way == 1 { "was" } else { "were" },
            clock(oldest)
        ),
        _ => "none was under way when it ended".to_owned(),
    };
    if failed > 0 {
        said.push_str(&format!(", and {failed} failed"));
    }
    said
}

fn clock(after: Duration) -> String {
    format!("{:.1} s", after.as_secs_f64())
}

/// Turns an error of the server into a sentence about `what`.
pub(crate) fn failed(what: &str) -> impl FnOnce(QueryError) -> RunError + use<> {
    let what = what.to_owned();
    move |error| {
        let Some(said) = error.as_db_error() else {
            return RunError::Sql { what, message: error.to_string(), hint: None };
        };
        // The remedy replaces the server's own hint.
        let message = format!("{}: {} ({})", said.severity(), said.message(), said.code().code());
        RunError::Sql { what, message, hint: remedy(said.code().code()) }
    }
}

impl From<crate::RecordError> for RunError {
    fn from(error: crate::RecordError) -> RunError {
        RunError::Record(Box::new(error))
    }
}
