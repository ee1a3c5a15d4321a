//! The server of a run: made and started for it, or someone's own.

use std::io::Read;
use std::num::NonZeroU32;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use walwright_record::{TargetKind, Warning, WarningCode};
use walwright_server::{
    Cluster, ClusterSpec, ConnectParams, FetchEvent, FileSystem, Install, Installs, Major, Places,
    RunningCluster, Secret, Snapshot, Swept, TcpAccess, check_settings,
};

use super::RunError;
use super::kept::Kept;
use super::plan::TargetPlan;
use super::statements::Statements;
use crate::{MemorySize, Observer, Progress};

/// Connections beyond the clients that an embedded server allows: the probe, the
/// control connection, reserved ones, and a person with psql.
const SPARE_CONNECTIONS: u32 = 20;
/// PostgreSQL's own default of `max_connections`; fewer are never configured.
const DEFAULT_CONNECTIONS: u32 = 100;
/// Lines of its log that are read when a server has ended: one for each session, at worst.
const LOG_LINES: usize = 200;
/// Lines of them that are told.
const SHOWN_LINES: usize = 3;

/// A server that can be reached.
pub(super) struct Target {
    /// Whose it is.
    pub kind: TargetKind,
    /// How it is reached.
    pub params: ConnectParams,
    /// What the record calls it. The socket of a cluster of ours is gone with it.
    pub address: String,
    /// Warnings about it.
    pub warnings: Vec<Warning>,
    /// Where its binaries come from, if it is ours.
    pub install: Option<String>,
    /// Least time of its flushes, where that was chosen.
    pub flush_latency: Option<Duration>,
    pub(super) embedded: Option<Embedded>,
    pub(super) statements: Statements,
}

/// A cluster of ours; stops when dropped.
pub(super) struct Embedded {
    pub(super) server: RunningCluster,
    pub(super) keep: bool,
}

impl Target {
    /// How statements of the workload reach it.
    pub fn statements(&self) -> &Statements {
        &self.statements
    }

    /// Makes and starts a cluster, or reads a connection string. Blocks.
    pub fn prepare(
        plan: &TargetPlan,
        clients: u32,
        observer: &Observer,
    ) -> Result<Target, RunError> {
        match plan {
            TargetPlan::Attached { server, .. } => Target::attached(server.params()?),
            TargetPlan::Unseen => Err(RunError::Internal("a server that is not seen")),
            TargetPlan::Embedded {
                major,
                pg_bin,
                settings,
                keep,
                tcp,
                flush_latency,
                processors,
                memory,
                restored,
            } => {
                let places = Places::open(None)?;
                let install = install(&places, major, pg_bin.as_deref(), observer)?;
                let mut spec = ClusterSpec::new(&places, install);
                spec.settings = with_connections(settings, clients);
                check_settings(&spec.install, &spec.settings)?;
                spec.dir = keep.then(|| kept_directory(&places));
                spec.flush_latency = *flush_latency;
                spec.processors = *processors;
                spec.memory = memory.map(|size| size.0);
                spec.tcp = tcp.then(tcp_access).transpose()?;
                let snapshot = restored.as_ref().map(|restored| &restored.snapshot);
                Target::embedded(&places, spec, snapshot, observer)
            }
        }
    }

    /// Checks the settings of a cluster before it is made. Blocks.
    pub fn check_settings(plan: &TargetPlan, observer: &Observer) -> Result<(), RunError> {
        let TargetPlan::Embedded { major, pg_bin, settings, .. } = plan else { return Ok(()) };
        let install = install(&Places::open(None)?, major, pg_bin.as_deref(), observer)?;
        Ok(check_settings(&install, settings)?)
    }

    fn attached(params: ConnectParams) -> Result<Target, RunError> {
        let warnings = params
            .warnings()
            .iter()
            .map(|text| Warning::new(WarningCode::NotObservable, text.clone()))
            .collect();
        Ok(Target {
            kind: TargetKind::Attached,
            address: params.address(),
            statements: Statements::as_they_are(&params),
            params,
            warnings,
            install: None,
            flush_latency: None,
            embedded: None,
        })
    }

    fn embedded(
        places: &Places,
        spec: ClusterSpec,
        snapshot: Option<&Snapshot>,
        observer: &Observer,
    ) -> Result<Target, RunError> {
        let install = spec.install.clone();
        let mut warnings = Vec::new();
        if let Some(reason) = install.fallback_reason() {
            warnings.push(
                Warning::new(WarningCode::FallbackInstall, reason.to_owned())
                    .hint("`walwright pg doctor` names the packages that bring what is missing"),
            );
        }
        let swept = walwright_server::sweep(places)?;
        if !swept.stopped.is_empty() || !swept.removed.is_empty() {
            observer.event(Progress::Step(&swept_in_words(&swept)));
        }
        let from = format!("{install}");
        let address = format!("embedded PostgreSQL {}", install.version());
        let making = if snapshot.is_some() { "restoring" } else { "making" };
        observer.event(Progress::Step(&format!("{making} a cluster with {from}")));
        let keep = spec.dir.is_some();
        let flush_latency = spec.flush_latency;
        warnings.extend(flush_latency.map(lengthened_flushes));
        warnings.extend(spec.processors.map(limited_processors));
        warnings.extend(spec.memory.map(|bytes| limited_memory(MemorySize(bytes))));
        let cluster = match snapshot {
            None => Cluster::create(spec)?,
            Some(snapshot) => snapshot.create_cluster(spec)?.0,
        };
        if let Ok(file_system) = cluster.file_system() {
            warnings.extend(memory_warning(&file_system, cluster.dir()));
        }
        let server = match cluster.start() {
            Ok(server) => server,
            Err(error) => {
                let unused = keep.then(|| cluster.dir().to_owned());
                drop(cluster);
                unused.as_deref().map_or(Ok(()), remove)?;
                return Err(error.into());
            }
        };
        let by_socket = || server.connect_params("postgres");
        let params = server.tcp_connect_params("postgres").unwrap_or_else(by_socket);
        Ok(Target {
            kind: TargetKind::Embedded,
            address,
            statements: Statements::as_they_are(&params),
            params,
            warnings,
            install: Some(from),
            flush_latency,
            embedded: Some(Embedded { server, keep }),
        })
    }

    /// The embedded server, if it is one.
    pub fn server(&self) -> Option<&RunningCluster> {
        self.embedded.as_ref().map(|e| &e.server)
    }

    /// How an embedded server ended, with the end of its log, if it has.
    pub fn death(&self) -> Option<String> {
        let server = self.server()?;
        let exit = server.try_exit()?;
        let causes: Vec<String> =
            server.log_tail(LOG_LINES).into_iter().filter(|line| tells_why(line)).collect();
        let last = &causes[causes.len().saturating_sub(SHOWN_LINES)..];
        let said = if last.is_empty() {
            String::new()
        } else {
            format!("; its log says: {}", last.join(" | "))
        };
        Some(format!("the server {exit}{said}"))
    }

    /// Stops the embedded server in order and gives its cluster, whose data are then at
    /// rest; `None` where the server is not ours. Blocks.
    pub fn rest(self) -> Result<Option<Cluster>, RunError> {
        let Some(Embedded { server, .. }) = self.embedded else { return Ok(None) };
        let cluster = server.cluster().clone();
        server.stop()?;
        Ok(Some(cluster))
    }

    /// Stops the embedded server. Says what is kept, if something is: only what is
    /// `worth_keeping`. Blocks.
    pub fn close(self, worth_keeping: bool) -> Result<Option<Kept>, RunError> {
        let Some(Embedded { server, keep }) = self.embedded else { return Ok(None) };
        if keep && worth_keeping {
            let kept = Kept::of(&server);
            if server.try_exit().is_none() {
                server.stop()?;
            }
            return Ok(Some(kept));
        }
        let unused = keep.then(|| server.cluster().dir().to_owned());
        // Its data are thrown away, so the shutdown checkpoint would be too.
        server.stop_immediately()?;
        unused.as_deref().map_or(Ok(()), remove)?;
        Ok(None)
    }
}

/// The binaries of this directory, or of this major version, fetched where they are not here.
pub fn install(
    places: &Places,
    major: &str,
    pg_bin: Option<&Path>,
    observer: &Observer,
) -> Result<Install, RunError> {
    if let Some(directory) = pg_bin {
        return Ok(Install::from_bin_dir(directory)?);
    }
    let major = Major::from_str(major).map_err(|unknown| RunError::NoSuchMajor(unknown.0))?;
    let mut told = |event: &FetchEvent| observer.event(Progress::Step(&event.to_string()));
    Ok(Installs::within(places.clone()).ensure(major, &mut told)?)
}

/// Removes a cluster that was to be kept but has nothing in it worth that.
fn remove(directory: &Path) -> Result<(), RunError> {
    std::fs::remove_dir_all(directory)
        .map_err(|source| RunError::System { what: "removing an unused cluster", source })
}

/// Whether a line of a server's log can be the reason of its end. That its sessions
/// end with it is none.
fn tells_why(line: &str) -> bool {
    let grave = ["PANIC:  ", "FATAL:  ", "terminated by signal", "exited with exit code"];
    let echoes =
        ["unexpected postmaster exit", "in recovery mode", "not yet accepting connections"];
    let holds = |words: &[&str]| words.iter().any(|word| line.contains(word));
    holds(&grave) && !holds(&echoes)
}

fn swept_in_words(swept: &Swept) -> String {
    let some = |count: usize, one: &str, many: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        _ => Some(format!("{count} {many}")),
    };
    let left = [
        some(swept.stopped.len(), "server process", "server processes"),
        some(swept.removed.len(), "cluster", "clusters"),
    ];
    let left: Vec<String> = left.into_iter().flatten().collect();
    format!("removed what an earlier crash left: {}", left.join(", "))
}

/// Adds `max_connections` where the clients need more than the default and the
/// person did not set it.
pub fn with_connections(settings: &[(String, String)], clients: u32) -> Vec<(String, String)> {
    let mut settings = settings.to_vec();
    let needed = clients + SPARE_CONNECTIONS;
    let given = settings.iter().any(|(name, _)| name.eq_ignore_ascii_case("max_connections"));
    if !given && needed > DEFAULT_CONNECTIONS {
        settings.push(("max_connections".to_owned(), needed.to_string()));
    }
    settings
}

fn lengthened_flushes(least: Duration) -> Warning {
    Warning::new(
        WarningCode::LengthenedFlushes,
        format!(
            "every flush of the server was made to take at least {:.3} ms: this is storage of that latency, not this disk",
            least.as_secs_f64() * 1e3
        ),
    )
}

fn limited_processors(count: NonZeroU32) -> Warning {
    Warning::new(
        WarningCode::LimitedProcessors,
        format!(
            "the server was held to {count} of the machine's processors: how busy the machine is \
             counts those too that only the load could use"
        ),
    )
}

fn limited_memory(size: MemorySize) -> Warning {
    Warning::new(
        WarningCode::LimitedMemory,
        format!("the memory of the server, its page cache included, was held to {size}"),
    )
}

fn memory_warning(file_system: &FileSystem, directory: &Path) -> Option<Warning> {
    file_system.in_memory.then(|| {
        Warning::new(
            WarningCode::MemoryFileSystem,
            format!(
                "the cluster lies in memory ({}), where flushes cost nothing: commit latency is not that of a disk",
                directory.display()
            ),
        )
        .hint("set WALWRIGHT_CACHE to a directory on a real disk")
    })
}

/// Access by TCP at a free port, with a password that nobody needs to know.
fn tcp_access() -> Result<TcpAccess, RunError> {
    let mut bytes = [0_u8; 24];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|source| RunError::System { what: "drawing a password for TCP", source })?;
    let password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(TcpAccess { port: None, password: Secret::new(password) })
}

fn kept_directory(places: &Places) -> std::path::PathBuf {
    let now = walwright_record::Timestamp::now();
    places.root().join("kept").join(format!("pg-{}", now.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn connections_are_raised_only_where_needed_and_not_chosen() {
        assert_eq!(with_connections(&[], 16), []);
        assert_eq!(with_connections(&[], 2_000), [pair("max_connections", "2020")]);
        let chosen = [pair("Max_Connections", "50")];
        assert_eq!(with_connections(&chosen, 2_000), chosen);
    }
}
