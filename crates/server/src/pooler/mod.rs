//! A pooler between the clients of a load and an embedded server: walwright's own gateway, or
//! PgBouncer.
//!
//! Either is a process of its own, so that its CPU is told from the load generator's. It dies
//! with this process, in whatever way that ends, and when its [`RunningPooler`] is dropped.

mod pgbouncer;

use std::fs;
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

pub use pgbouncer::PgBouncer;

use crate::cluster::{Cluster, free_port, tail};
use crate::guard::Guard;
use crate::target::{ConnectParams, Host, quoted};

/// Port of a pooler without TCP: part of the name of its socket, which lies beside the server's.
const SOCKET_PORT: u16 = 6432;
/// Server sessions for a database and user at most, of each kind: PgBouncer's default and the
/// gateway's.
pub const POOL_SIZE: u32 = 20;
/// How long it may take until it listens.
const START: Duration = Duration::from_secs(20);
/// How often that is looked at.
const POLL: Duration = Duration::from_millis(5);
/// How long a killed process may take to end.
const END: Duration = Duration::from_secs(5);
/// Tries with another free port when someone took the one just picked.
const PORT_ATTEMPTS: usize = 3;
/// What the gateway says before the address of its metrics.
const METRICS: &str = "metrics at ";
/// Lines of its log that are told.
const LOG_LINES: usize = 5;
/// Its log, in the directory of the cluster.
const LOG: &str = "pooler.log";

/// What stands in between.
#[derive(Debug, Clone)]
pub enum PoolerProgram {
    /// `walwright gateway`, by the program file of walwright.
    Gateway(PathBuf),
    /// PgBouncer in transaction mode.
    PgBouncer(PgBouncer),
}

impl PoolerProgram {
    /// For display.
    pub fn name(&self) -> &'static str {
        match self {
            PoolerProgram::Gateway(_) => "gateway",
            PoolerProgram::PgBouncer(_) => "PgBouncer",
        }
    }
}

/// A pooler that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolerError {
    /// There is no PgBouncer.
    #[error(
        "PgBouncer is not installed here: `apt-get install pgbouncer` or `dnf install pgbouncer` brings it, and --pooler pgbouncer=/path/to/pgbouncer names one that lies elsewhere"
    )]
    NotInstalled,
    /// The program is something else.
    #[error("{} is no PgBouncer that runs here: {said}", program.display())]
    NotPgBouncer {
        /// The program.
        program: PathBuf,
        /// What it said, or the system of it.
        said: String,
    },
    /// Its files cannot be written.
    #[error("could not write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be started.
    #[error("the {name} could not be started: {why}")]
    Start {
        /// Which pooler.
        name: &'static str,
        /// What the system or its log says.
        why: String,
    },
}

/// A pooler that runs; ends when dropped.
#[derive(Debug)]
pub struct RunningPooler {
    guard: Guard,
    name: &'static str,
    params: ConnectParams,
    metrics: Option<String>,
    log: PathBuf,
}

/// A pooler to be started.
#[derive(Debug, Clone)]
pub struct PoolerSpec {
    /// What it is.
    pub program: PoolerProgram,
    /// The cluster it stands before; its files lie in that directory.
    pub cluster: Cluster,
    /// How the running server is reached.
    pub server: ConnectParams,
    /// What its sessions with the server call themselves.
    pub application: String,
    /// Clients that may come.
    pub clients: u32,
}

impl RunningPooler {
    /// Starts one and waits until it listens. Clients reach it as it reaches the server: by TCP
    /// on the loopback address and with the same password, or by a unix socket beside the server's.
    ///
    /// Blocks.
    ///
    /// # Errors
    /// When it does not begin to listen, with the end of its log.
    pub fn start(spec: &PoolerSpec) -> Result<RunningPooler, PoolerError> {
        if spec.server.socket_path().is_some() {
            return RunningPooler::start_on(spec, SOCKET_PORT);
        }
        let mut left = PORT_ATTEMPTS;
        loop {
            left -= 1;
            match RunningPooler::start_on(spec, free_port().map_err(|e| spec.failed(&e))?) {
                Err(PoolerError::Start { why, .. }) if left > 0 && why.contains("in use") => {}
                started => return started,
            }
        }
    }

    fn start_on(spec: &PoolerSpec, port: u16) -> Result<RunningPooler, PoolerError> {
        let params = spec.params(port);
        let log = spec.cluster.dir().join(LOG);
        let unwritten = |source| PoolerError::Write { path: log.clone(), source };
        let mut command = match &spec.program {
            PoolerProgram::Gateway(walwright) => gateway(walwright, spec, &params),
            PoolerProgram::PgBouncer(pgbouncer) => pgbouncer.command(spec, port)?,
        };
        let file =
            fs::File::options().create(true).write(true).truncate(true).mode(0o600).open(&log);
        let file = file.map_err(unwritten)?;
        let also = file.try_clone().map_err(unwritten)?;
        command.stdin(Stdio::null()).stdout(file).stderr(also);
        let guard = Guard::spawn(command, Signal::SIGKILL, None);
        let guard = guard.map_err(|error| spec.failed(&error))?;
        let name = spec.program.name();
        let mut running = RunningPooler { guard, name, params, metrics: None, log };
        let listens = |of: &RunningPooler| is_taken(&of.params).then_some(());
        running.wait_until(listens)?;
        if let PoolerProgram::Gateway(_) = spec.program {
            running.metrics = Some(running.wait_until(RunningPooler::told_metrics)?);
        }
        Ok(running)
    }

    fn wait_until<T>(&self, what: impl Fn(&Self) -> Option<T>) -> Result<T, PoolerError> {
        let deadline = Instant::now() + START;
        let name = self.name;
        loop {
            // Whoever else has the port keeps it from this one, which then ends.
            let there = what(self);
            if let Some(why) = self.end() {
                return Err(PoolerError::Start { name, why });
            }
            if let Some(there) = there {
                return Ok(there);
            }
            if Instant::now() > deadline {
                let why = format!("it does not listen after {} s{}", START.as_secs(), self.said());
                return Err(PoolerError::Start { name, why });
            }
            self.guard.wait(POLL);
        }
    }

    /// The line of its log that says where it shows metrics.
    fn told_metrics(&self) -> Option<String> {
        let log = fs::read_to_string(&self.log).ok()?;
        let (told, _) = log.split_once(METRICS)?.1.split_once('\n')?;
        Some(told.to_owned())
    }

    /// Where it shows metrics, if it does: `http://…`.
    pub fn metrics(&self) -> Option<&str> {
        self.metrics.as_deref()
    }

    /// How clients connect to the database `postgres` through it.
    pub fn connect_params(&self) -> &ConnectParams {
        &self.params
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.guard.pid()
    }

    /// How it ended, with the end of its log, if it has.
    pub fn end(&self) -> Option<String> {
        let exit = self.guard.exit()?;
        Some(format!("it {exit}{}", self.said()))
    }

    fn said(&self) -> String {
        match tail(&self.log, 0, LOG_LINES) {
            lines if lines.is_empty() => String::new(),
            lines => format!("; its log says: {}", lines.join(" | ")),
        }
    }
}

impl Drop for RunningPooler {
    fn drop(&mut self) {
        // Nothing is lost: what clients were told is the server's.
        self.guard.signal(Signal::SIGKILL);
        self.guard.wait(END);
        if let Some(socket) = self.params.socket_path() {
            // It goes with the cluster where it stays.
            let _ = fs::remove_file(socket);
        }
    }
}

impl PoolerSpec {
    /// How clients connect where it listens at this port.
    fn params(&self, port: u16) -> ConnectParams {
        let of = &self.server;
        match of.host() {
            Host::Unix(dir) => ConnectParams::unix_socket(dir, port, of.user(), of.dbname()),
            Host::Tcp(name) => {
                let params = ConnectParams::tcp(name, port, of.user(), of.dbname());
                of.password().into_iter().fold(params, |of, word| of.with_password(word.clone()))
            }
        }
    }

    fn failed(&self, source: &io::Error) -> PoolerError {
        PoolerError::Start { name: self.program.name(), why: source.to_string() }
    }
}

/// Whether somebody listens there.
fn is_taken(params: &ConnectParams) -> bool {
    match (params.socket_path(), params.host()) {
        (None, Host::Tcp(name)) => TcpStream::connect((name.as_str(), params.port())).is_ok(),
        (path, _) => path.is_some_and(|path| UnixStream::connect(path).is_ok()),
    }
}

/// `walwright gateway` with its defaults.
fn gateway(walwright: &Path, spec: &PoolerSpec, listens: &ConnectParams) -> Command {
    let server = &spec.server;
    let application = quoted(&spec.application);
    let dsn = format!("{} application_name={application}", server.keywords());
    // Who may enter the directory of the socket is whom the server trusts there.
    let (listen, auth) = match listens.socket_path() {
        Some(path) => (path.into_os_string(), "trust"),
        None => (format!("{}:{}", server.host_keyword(), listens.port()).into(), "scram"),
    };
    let mut command = plain(walwright);
    command.args(["gateway", "--server", &dsn, "--auth", auth, "--listen"]).arg(listen);
    command.args(["--pool-size", &POOL_SIZE.to_string(), "--metrics", "127.0.0.1:0"]);
    if let Some(password) = server.password() {
        command.env("PGPASSWORD", password.expose());
    }
    command
}

/// A program with nothing of what the caller's environment says of servers.
fn plain(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    command
}
