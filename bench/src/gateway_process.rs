//! A gateway in a process of its own, which can be killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use walwright_gateway::{Authentication, Gateway, Listen, Options, Reads};
use walwright_server::RunningCluster;
use walwright_wire::{ConnectOptions, Host};

/// First argument of a process that is a gateway.
const ROLE: &str = "--be-the-gateway";
const PORT: u16 = 6432;

/// How the gateway of a test is set.
#[derive(Debug, Clone, Copy, Parser)]
pub struct GatewaySettings {
    /// Worker threads.
    #[arg(long, default_value_t = 1)]
    pub workers: usize,
    /// Server sessions of each kind and worker.
    #[arg(long, default_value_t = 4)]
    pub pool_size: usize,
    /// Which reads wait.
    #[arg(long, default_value = "transaction")]
    pub reads: ReadsWait,
    /// Milliseconds that a statement waits for a session.
    #[arg(long, default_value_t = 10_000)]
    pub query_wait: u64,
}

/// Which reads wait for a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReadsWait {
    /// None.
    Off,
    /// As is usual.
    Transaction,
}

#[derive(Debug, Parser)]
struct Role {
    #[arg(long)]
    server: PathBuf,
    #[arg(long)]
    server_port: u16,
    #[arg(long)]
    listen: PathBuf,
    #[command(flatten)]
    settings: GatewaySettings,
}

/// A gateway's process. It ends when it is dropped, and with the process that started it.
#[derive(Debug)]
pub struct GatewayProcess {
    child: Child,
    directory: PathBuf,
}

impl GatewayProcess {
    /// Makes this process a gateway where it was started as one; it does not return then.
    ///
    /// # Errors
    /// When the gateway cannot start.
    pub fn become_one() -> anyhow::Result<()> {
        if std::env::args().nth(1).as_deref() != Some(ROLE) {
            return Ok(());
        }
        let role = Role::parse_from(std::env::args().skip(1));
        let host = Host::Unix(role.server);
        let to = ConnectOptions::new(host, role.server_port, "postgres", "postgres");
        let mut options = Options::new(to);
        options.authentication = Authentication::Trust;
        options.listen = vec![Listen::Unix(role.listen)];
        options.workers = role.settings.workers;
        options.pooling.size = role.settings.pool_size;
        options.limits.query_wait_timeout = Some(Duration::from_millis(role.settings.query_wait));
        // Servers of tests come back soon.
        options.limits.server_login_retry = Duration::from_millis(50);
        if role.settings.reads == ReadsWait::Off {
            options.pooling.reads = Reads::Off;
        }
        let gateway = Gateway::start(options)?;
        println!("ready");
        std::io::stdout().flush()?;
        // It ends when who started it has gone.
        let _ = std::io::stdin().read(&mut [0]);
        drop(gateway);
        std::process::exit(0);
    }

    /// Starts one before a server; its socket is in this directory.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(
        server: &RunningCluster,
        directory: &Path,
        settings: GatewaySettings,
    ) -> anyhow::Result<GatewayProcess> {
        let reads = settings.reads.to_possible_value().context("a value")?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg(ROLE)
            .arg("--server")
            .arg(server.socket_dir())
            .args(["--server-port", &server.port().to_string()])
            .arg("--listen")
            .arg(directory.join(format!(".s.PGSQL.{PORT}")))
            .args(["--workers", &settings.workers.to_string()])
            .args(["--pool-size", &settings.pool_size.to_string()])
            .args(["--query-wait", &settings.query_wait.to_string()])
            .args(["--reads", reads.get_name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting a gateway")?;
        let output = child.stdout.take().context("its output")?;
        let mut said = String::new();
        BufReader::new(output).read_line(&mut said)?;
        anyhow::ensure!(said == "ready\n", "the gateway did not start");
        Ok(GatewayProcess { child, directory: directory.to_owned() })
    }

    /// Directory and port of its socket.
    pub fn place(&self) -> (&Path, u16) {
        (&self.directory, PORT)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills it (SIGKILL).
    pub fn kill(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
