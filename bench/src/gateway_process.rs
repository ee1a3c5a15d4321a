//! A gateway in a process of its own, which can be killed.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use walwright_gateway::{
    Authentication, Database, Gateway, Listen, Options, Reads, Server, Tls, Users,
};
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

impl GatewaySettings {
    /// For programs that others wrote, which are to find what they find directly.
    pub const FOR_PROGRAMS: GatewaySettings = GatewaySettings {
        workers: 1,
        pool_size: 10,
        reads: ReadsWait::Transaction,
        query_wait: 60_000,
    };
}

/// Which reads wait for a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReadsWait {
    /// None.
    Off,
    /// As is usual.
    Transaction,
}

/// What a gateway's process is started with beyond its settings.
#[derive(Debug, Clone, Parser)]
pub struct GatewayPlaces {
    /// Directory of the server's socket.
    #[arg(long)]
    pub server: PathBuf,
    /// Its port.
    #[arg(long)]
    pub server_port: u16,
    /// Directory of its own socket.
    #[arg(long)]
    pub directory: PathBuf,
    /// Directory of another server's socket with the same port, for the database [`OTHER`].
    #[arg(long)]
    pub other: Option<PathBuf>,
    /// Whether clients on TCP have to prove who they are.
    #[arg(long)]
    pub asks: bool,
    /// Certificate and key in PEM for TLS on TCP; clients have to prove who they are then too.
    #[arg(long)]
    pub identity: Option<PathBuf>,
    /// Where what it says on standard error goes.
    #[arg(long)]
    pub said: Option<PathBuf>,
}

/// The database that stands for `postgres` on [another](GatewayPlaces::other) server.
pub const OTHER: &str = "other";

impl GatewayPlaces {
    /// Before a server, with its socket in this directory.
    pub fn new(server: &RunningCluster, directory: &Path) -> GatewayPlaces {
        GatewayPlaces {
            server: server.socket_dir().to_owned(),
            server_port: server.port(),
            directory: directory.to_owned(),
            other: None,
            asks: false,
            identity: None,
            said: None,
        }
    }

    fn socket(&self) -> PathBuf {
        self.directory.join(format!(".s.PGSQL.{PORT}"))
    }
}

#[derive(Debug, Parser)]
struct Role {
    #[command(flatten)]
    places: GatewayPlaces,
    #[command(flatten)]
    settings: GatewaySettings,
}

impl Role {
    fn options(self) -> anyhow::Result<Options> {
        let Role { places, settings } = self;
        let to = |directory: PathBuf| {
            ConnectOptions::new(Host::Unix(directory), places.server_port, "postgres", "postgres")
        };
        let tcp = Listen::Tcp(([127, 0, 0, 1], 0).into());
        let listen = vec![Listen::Unix(places.socket()), tcp];
        let mut options = Options::new(to(places.server));
        options.authentication = Authentication::Trust;
        if places.asks || places.identity.is_some() {
            options.authentication =
                Authentication::Scram(Arc::new(Users { ask_server: true, ..Users::default() }));
        }
        if let Some(identity) = &places.identity {
            options.tls = Some(Tls::from_files(identity, identity, false)?);
        }
        if let Some(other) = places.other {
            let mut database = Database::any(Server::new(to(other)));
            (database.name, database.dbname) =
                (Some(OTHER.to_owned()), Some("postgres".to_owned()));
            options.databases.push(database);
        }
        options.listen = listen;
        options.workers = settings.workers;
        options.pooling.size = settings.pool_size;
        options.limits.query_wait_timeout = Some(Duration::from_millis(settings.query_wait));
        // Servers of tests come back soon.
        options.limits.server_login_retry = Duration::from_millis(50);
        if settings.reads == ReadsWait::Off {
            options.pooling.reads = Reads::Off;
        }
        Ok(options)
    }
}

/// A gateway's process. It ends when it is dropped, and with the process that started it.
#[derive(Debug)]
pub struct GatewayProcess {
    child: Child,
    directory: PathBuf,
    tcp_port: u16,
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
        let gateway = Gateway::start(role.options()?)?;
        let port = gateway.places().find_map(|place| match place {
            Listen::Tcp(address) => Some(address.port()),
            Listen::Unix(_) => None,
        });
        println!("{}", port.unwrap_or_default());
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
        GatewayProcess::start_in(&GatewayPlaces::new(server, directory), settings)
    }

    /// The same where more is said of its places.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_in(
        places: &GatewayPlaces,
        settings: GatewaySettings,
    ) -> anyhow::Result<GatewayProcess> {
        let reads = settings.reads.to_possible_value().context("a value")?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg(ROLE)
            .arg("--server")
            .arg(&places.server)
            .args(["--server-port", &places.server_port.to_string()])
            .arg("--directory")
            .arg(&places.directory)
            .args(["--workers", &settings.workers.to_string()])
            .args(["--pool-size", &settings.pool_size.to_string()])
            .args(["--query-wait", &settings.query_wait.to_string()])
            .args(["--reads", reads.get_name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if places.asks {
            command.arg("--asks");
        }
        for (name, path) in [("--other", &places.other), ("--identity", &places.identity)] {
            if let Some(path) = path {
                command.arg(name).arg(path);
            }
        }
        if let Some(said) = &places.said {
            command.stderr(File::options().create(true).append(true).open(said)?);
        }
        let mut child = command.spawn().context("starting a gateway")?;
        let output = child.stdout.take().context("its output")?;
        let mut said = String::new();
        BufReader::new(output).read_line(&mut said)?;
        let tcp_port = said.trim().parse().context("the gateway did not start")?;
        Ok(GatewayProcess { child, directory: places.directory.clone(), tcp_port })
    }

    /// Directory and port of its socket.
    pub fn place(&self) -> (&Path, u16) {
        (&self.directory, PORT)
    }

    /// Its port on TCP.
    pub fn tcp_port(&self) -> u16 {
        self.tcp_port
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Has it end in order: it closes what is open.
    pub fn end(&mut self) {
        drop(self.child.stdin.take());
        // It may have ended.
        let _ = self.child.wait();
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
