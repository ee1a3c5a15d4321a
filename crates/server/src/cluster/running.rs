//! A cluster whose server is up.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::sync::watch;

use super::error::{ClusterError, start_hint};
use super::init::{SUPERUSER, server_command};
use super::memory_group::MemoryGroup;
use super::power_cut::{self, PowerCut, Unflushed};
use super::socket::SOCKET_PORT;
use super::{Cluster, flush_latency, preload, processors, sweep};
use crate::guard::{Guard, ServerExit};
use crate::target::ConnectParams;

/// How often readiness is looked at while the server starts.
const POLL: Duration = Duration::from_millis(5);

/// How long a fast shutdown may take: its checkpoint writes all dirty buffers.
const FAST_SHUTDOWN: Duration = Duration::from_secs(120);

/// How long an immediate shutdown may take: the postmaster kills its children
/// after five seconds.
const IMMEDIATE_SHUTDOWN: Duration = Duration::from_secs(8);

/// Tries with another free port when someone took the one just picked.
const PORT_ATTEMPTS: usize = 3;

/// How the server was, or is to be, stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Sessions are ended and a checkpoint is written: the next start needs no
    /// recovery.
    Fast,
    /// Everything ends at once; the next start recovers from the WAL.
    Immediate,
    /// The processes were killed; the next start recovers from the WAL.
    Kill,
}

/// A running server we own. Dropping it stops the server at once (immediate
/// shutdown).
#[derive(Debug)]
pub struct RunningCluster {
    cluster: Cluster,
    guard: Guard,
    port: u16,
    /// Whether it keeps a journal of what it has not flushed.
    is_watched: bool,
    /// Where its memory is limited; goes after its processes.
    _memory: Option<MemoryGroup>,
}

impl Cluster {
    /// Starts the server and waits until it accepts connections.
    ///
    /// The server stops when this process ends, in whatever way.
    ///
    /// Blocks: a fraction of a second, or as long as crash recovery takes.
    pub fn start(&self) -> Result<RunningCluster, ClusterError> {
        self.start_as(false)
    }

    /// The same of a server whose power [can be cut](RunningCluster::cut_power): it keeps a
    /// journal of what it has not flushed, which costs it CPU and disk. What was written
    /// before the start counts as flushed.
    ///
    /// # Errors
    /// Also where the settings say `io_method = io_uring`, whose writes cannot be seen.
    pub fn start_watched(&self) -> Result<RunningCluster, ClusterError> {
        if self.writes_by_io_uring() {
            return Err(ClusterError::UnseenWrites);
        }
        self.start_as(true)
    }

    fn start_as(&self, is_watched: bool) -> Result<RunningCluster, ClusterError> {
        if self.inner.running.swap(true, Ordering::AcqRel) {
            return Err(ClusterError::Running { dir: self.inner.dir.clone() });
        }
        let started = self.start_on_some_port(is_watched);
        if started.is_err() {
            self.inner.running.store(false, Ordering::Release);
        }
        started
    }

    fn start_on_some_port(&self, is_watched: bool) -> Result<RunningCluster, ClusterError> {
        let wanted = match &self.inner.tcp {
            None => return self.start_on(SOCKET_PORT, is_watched),
            Some(tcp) => tcp.port,
        };
        if let Some(port) = wanted {
            return self.start_on(port, is_watched);
        }
        let mut attempt = 1;
        loop {
            let port = free_port().map_err(ClusterError::io("find a free port for", self.dir()))?;
            match self.start_on(port, is_watched) {
                Err(ClusterError::StartFailed { log, .. })
                    if attempt < PORT_ATTEMPTS && log.contains("Address already in use") =>
                {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    fn start_on(&self, port: u16, is_watched: bool) -> Result<RunningCluster, ClusterError> {
        let inner = &self.inner;
        // Also after a first try that failed, whose end has cleared it.
        inner.running.store(true, Ordering::Release);
        self.write_settings()?;
        let log_start = file_len(&self.log_file());
        let log = fs::File::options()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.log_file())
            .map_err(ClusterError::io("open", &self.log_file()))?;
        let also_log = log.try_clone().map_err(ClusterError::io("open", &self.log_file()))?;
        let listen = if inner.tcp.is_some() { "127.0.0.1" } else { "" };
        let mut command = server_command(&inner.install, "postgres", &inner.user, &inner.dir);
        command.arg("-D").arg(self.data_dir());
        for (name, value) in [
            ("unix_socket_directories", socket_directories(&inner.socket_dir).as_str()),
            ("listen_addresses", listen),
            ("port", port.to_string().as_str()),
            ("logging_collector", "off"),
            ("log_destination", "stderr"),
        ] {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        let mut libraries = Vec::new();
        if is_watched {
            power_cut::watch(&mut command, &inner.dir, &self.data_dir(), &inner.user)
                .map_err(ClusterError::io("make a journal in", &inner.dir))?;
            // Before the other: a flush counts once it has taken its time.
            libraries.push(power_cut::LIBRARY);
        }
        if let Some(least) = inner.flush_latency {
            flush_latency::lengthen(&mut command, least);
            libraries.push(flush_latency::LIBRARY);
        }
        preload::preload(&mut command, &inner.dir, &libraries)
            .map_err(ClusterError::io("write a library to", &inner.dir))?;
        command.stdout(log).stderr(also_log);
        // SIGQUIT is an immediate shutdown: the postmaster takes its backends
        // with it, which SIGKILL would leave behind.
        let processors = inner.processors.map(processors::first).transpose()?;
        let memory = inner.memory.map(MemoryGroup::make).transpose()?;
        let guard = Guard::spawn(command, Signal::SIGQUIT, processors).map_err(|source| {
            ClusterError::Spawn {
                program: inner.install.program("postgres"),
                user: inner.user.name().to_owned(),
                source,
            }
        })?;
        let admitted = memory.as_ref().map_or(Ok(()), |group| group.admit(guard.pid()));
        let running =
            RunningCluster { cluster: self.clone(), guard, port, is_watched, _memory: memory };
        admitted.map_err(ClusterError::io("limit the memory of the server in", &inner.dir))?;
        running.wait_until_ready(log_start)?;
        Ok(running)
    }

    /// Whether the settings say so; a name and a word of an enum have no case.
    fn writes_by_io_uring(&self) -> bool {
        let last = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("io_method");
        let settings = self.settings();
        settings.iter().rev().find(last).is_some_and(|(_, v)| v.eq_ignore_ascii_case("io_uring"))
    }

    /// The last `lines` lines of the server's log; empty when there is none.
    pub fn log_tail(&self, lines: usize) -> Vec<String> {
        tail(&self.log_file(), 0, lines)
    }
}

impl RunningCluster {
    fn wait_until_ready(&self, log_start: u64) -> Result<(), ClusterError> {
        let inner = &self.cluster.inner;
        let log = || tail(&self.cluster.log_file(), log_start, 15).join("\n");
        let deadline = Instant::now() + inner.start_timeout;
        let pid_file = self.data_dir().join("postmaster.pid");
        loop {
            if let Some(exit) = self.guard.wait(POLL) {
                let log = log();
                return Err(ClusterError::StartFailed {
                    dir: inner.dir.clone(),
                    exit,
                    hint: start_hint(&log),
                    log,
                });
            }
            if is_ready(&pid_file, self.guard.pid()) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(ClusterError::StartTimeout {
                    dir: inner.dir.clone(),
                    timeout: inner.start_timeout,
                    log: log(),
                });
            }
        }
    }

    /// The cluster this server runs.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// How to connect as the superuser to the database `dbname`, by the unix
    /// socket.
    pub fn connect_params(&self, dbname: &str) -> ConnectParams {
        ConnectParams::unix_socket(&self.cluster.inner.socket_dir, self.port, SUPERUSER, dbname)
    }

    /// How to connect by TCP, where that was asked for.
    pub fn tcp_connect_params(&self, dbname: &str) -> Option<ConnectParams> {
        let tcp = self.cluster.inner.tcp.as_ref()?;
        Some(
            ConnectParams::tcp(&Ipv4Addr::LOCALHOST.to_string(), self.port, SUPERUSER, dbname)
                .with_password(tcp.password.clone()),
        )
    }

    /// The directory of the unix socket.
    pub fn socket_dir(&self) -> &Path {
        &self.cluster.inner.socket_dir
    }

    /// The port, which is part of the socket's name also without TCP.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The data directory (`PGDATA`).
    pub fn data_dir(&self) -> PathBuf {
        self.cluster.data_dir()
    }

    /// The process id of the postmaster.
    pub fn postmaster_pid(&self) -> u32 {
        self.guard.pid()
    }

    /// The last `lines` lines of the server's log.
    pub fn log_tail(&self, lines: usize) -> Vec<String> {
        self.cluster.log_tail(lines)
    }

    /// How the server ended, if it has.
    pub fn try_exit(&self) -> Option<ServerExit> {
        self.guard.exit()
    }

    /// A channel that changes once, from `None`, when the server has ended.
    pub fn exit_watch(&self) -> watch::Receiver<Option<ServerExit>> {
        self.guard.watch()
    }

    /// Replaces the settings and has the server read them (SIGHUP). Those that
    /// need a restart wait for one; `pg_settings.pending_restart` tells.
    ///
    /// Does not wait until every session has seen them.
    pub fn reload(&self, settings: Vec<(String, String)>) -> Result<(), ClusterError> {
        self.cluster.set_settings(settings)?;
        self.cluster.write_settings()?;
        self.guard.signal(Signal::SIGHUP);
        Ok(())
    }

    /// Stops the server: fast, then immediate, then by killing it, each when
    /// the one before takes too long. Says which it took.
    ///
    /// Blocks until no process of the server is left.
    pub fn stop(self) -> Result<StopMode, ClusterError> {
        self.stop_from(StopMode::Fast)
    }

    /// Stops the server at once; its next start recovers from the WAL.
    ///
    /// Blocks until no process of the server is left.
    pub fn stop_immediately(self) -> Result<StopMode, ClusterError> {
        self.stop_from(StopMode::Immediate)
    }

    /// Cuts the power: kills every process of the server at once, and takes from the disk
    /// what was not flushed. The next start recovers from what is left.
    ///
    /// Blocks until no process of the server is left.
    ///
    /// # Errors
    /// When it was not [started for it](Cluster::start_watched), a process does not end, or the
    /// disk cannot be put back.
    pub fn cut_power(self, cut: PowerCut) -> Result<Unflushed, ClusterError> {
        let inner = &self.cluster.inner;
        if !self.is_watched {
            let reason = "it was started without a journal".to_owned();
            return Err(ClusterError::Unknowable { dir: self.data_dir(), reason });
        }
        // The postmaster first, so that it does not restart what dies.
        self.guard.signal(Signal::SIGKILL);
        sweep::kill_servers_in(&inner.dir)?;
        // A postmaster that is dead and not yet reaped keeps the next from its directory.
        self.guard.wait(IMMEDIATE_SHUTDOWN);
        let unflushed = power_cut::put_back(&inner.dir, &self.data_dir(), &inner.user, cut);
        inner.running.store(false, Ordering::Release);
        unflushed
    }

    fn stop_from(&self, first: StopMode) -> Result<StopMode, ClusterError> {
        let mut taken = StopMode::Kill;
        for (mode, signal, patience) in [
            (StopMode::Fast, Signal::SIGINT, FAST_SHUTDOWN),
            (StopMode::Immediate, Signal::SIGQUIT, IMMEDIATE_SHUTDOWN),
        ] {
            if mode == StopMode::Fast && first != StopMode::Fast {
                continue;
            }
            self.guard.signal(signal);
            if self.guard.wait(patience).is_some() {
                taken = mode;
                break;
            }
        }
        // Also after an orderly end: a postmaster that was killed by someone
        // leaves backends that notice only later.
        sweep::stop_servers_in(&self.cluster.inner.dir)?;
        if self.is_watched {
            power_cut::remove(&self.cluster.inner.dir)
                .map_err(ClusterError::io("remove the journal in", &self.cluster.inner.dir))?;
        }
        self.cluster.inner.running.store(false, Ordering::Release);
        Ok(taken)
    }
}

impl Drop for RunningCluster {
    fn drop(&mut self) {
        if !self.cluster.inner.running.load(Ordering::Acquire) {
            return;
        }
        if let Err(error) = self.stop_from(StopMode::Immediate) {
            tracing::error!(%error, "could not stop a server");
        }
    }
}

/// Whether `postmaster.pid` says that the server with `pid` accepts
/// connections: line 1 is the pid, line 8 the status (`miscadmin.h`,
/// `LOCK_FILE_LINE_PM_STATUS`).
fn is_ready(pid_file: &Path, pid: u32) -> bool {
    let Ok(text) = fs::read_to_string(pid_file) else {
        return false;
    };
    let mut lines = text.lines();
    lines.next().and_then(|line| line.trim().parse().ok()) == Some(pid)
        && lines.nth(6).is_some_and(|status| status.trim() == "ready")
}

/// The value of `unix_socket_directories` for one directory: quoted where the
/// list syntax would take it apart.
fn socket_directories(dir: &Path) -> String {
    let dir = dir.to_string_lossy();
    if dir.contains([',', '"', ' ', '\t']) {
        format!("\"{}\"", dir.replace('"', "\"\""))
    } else {
        dir.into_owned()
    }
}

/// A port that nobody listens at now.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn file_len(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

/// The last lines of a file, looking at most at its last 64 kB and at nothing
/// before `from`.
pub(crate) fn tail(path: &Path, from: u64, lines: usize) -> Vec<String> {
    const WINDOW: u64 = 64 * 1024;
    let read = || -> io::Result<Vec<u8>> {
        let mut file = fs::File::open(path)?;
        let start = file.metadata()?.len().saturating_sub(WINDOW).max(from);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].iter().map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_needs_the_right_pid_and_status() {
        let dir = tempfile::tempdir().expect("temp dir");
        let file = dir.path().join("postmaster.pid");
        assert!(!is_ready(&file, 7));
        let written = "7\n/data\n1700000000\n5432\n/sock\n\n  1234   5\nready   \n";
        fs::write(&file, written).expect("write");
        assert!(is_ready(&file, 7));
        assert!(!is_ready(&file, 8));
        fs::write(&file, written.replace("ready   ", "starting")).expect("write");
        assert!(!is_ready(&file, 7));
    }

    #[test]
    fn the_tail_starts_where_it_is_told() {
        let dir = tempfile::tempdir().expect("temp dir");
        let file = dir.path().join("log");
        assert!(tail(&file, 0, 3).is_empty());
        fs::write(&file, "old\na\nb\nc\n").expect("write");
        assert_eq!(tail(&file, 0, 2), ["b", "c"]);
        assert_eq!(tail(&file, 4, 10), ["a", "b", "c"]);
    }

    #[test]
    fn directories_with_list_characters_are_quoted() {
        assert_eq!(socket_directories(Path::new("/a/b")), "/a/b");
        assert_eq!(socket_directories(Path::new("/a, \"b\"")), "\"/a, \"\"b\"\"\"");
    }
}
