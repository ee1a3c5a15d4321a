//! `walwright gateway`: what can be typed to serve.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use walwright_wire::Secret;

use crate::args::values::duration;

/// Shown under `walwright gateway --help`.
pub const HELP: &str = "\
Examples:
  walwright gateway --server postgres://postgres@127.0.0.1 --listen 127.0.0.1:6432
  psql -h 127.0.0.1 -p 6432 …                        the same user and password as directly

Statements run on a few server sessions that commit without waiting for a flush; an answer leaves
when a flush that began after it has returned. An acknowledgement means durable, as it does
directly. A client that connects directly may see a commit up to one flush before it is durable.

Clients prove who they are with the passwords that the server has: the user of --server must be
able to read pg_authid, or --userlist names them. Beyond this machine give it a certificate.

The database named pgbouncer is the console, with PgBouncer's commands:
  psql -h 127.0.0.1 -p 6432 pgbouncer -c 'SHOW POOLS'

SIGTERM and SIGINT (Ctrl-C) let clients finish: no connection is taken any more, idle clients are
told so (SQLSTATE 57P01), the others after their transaction; then it exits with 0.";

/// How to serve.
#[derive(Debug, Clone, Args)]
pub struct GatewayRunArgs {
    /// Connection string of the server.
    #[arg(long, value_name = "DSN", required = true)]
    pub server: Option<Secret>,
    /// Addresses and ports, or paths of unix sockets.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6432", value_delimiter = ',')]
    pub listen: Vec<String>,
    /// How clients prove who they are.
    #[arg(long, value_enum, default_value = "scram")]
    pub auth: AuthChoice,
    /// File of users and passwords or SCRAM verifiers, as PgBouncer's userlist.txt.
    #[arg(long, value_name = "FILE")]
    pub userlist: Option<PathBuf>,
    /// PEM file with the certificate for TLS, and those that lead to its authority.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the certificate's key.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Let nobody in on TCP without TLS.
    #[arg(long, requires = "tls_cert")]
    pub tls_required: bool,
    /// Server sessions of each kind (relaxed and not), for a user and database, at most.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    pub pool_size: u16,
    /// Threads that serve clients. The default is a quarter of the processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
    /// Address and port at which metrics for Prometheus (/metrics) and /healthz are served.
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<SocketAddr>,
    /// Users that may use the console, the database named pgbouncer or walwright. The default is
    /// the user of --server.
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    pub admin_users: Vec<String>,
    /// Users that may use the console to look.
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    pub stats_users: Vec<String>,
    /// How events are written on standard error: those of servers, and with -v of clients.
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
    /// Longest that clients may take to finish their transactions after SIGTERM or Ctrl-C.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub drain_timeout: Duration,
}

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line of text.
    Text,
    /// A line of JSON.
    Json,
}

/// How clients prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuthChoice {
    /// By their passwords, with SCRAM-SHA-256.
    Scram,
    /// Not at all: for tests, on a loopback address or a unix socket.
    Trust,
}
