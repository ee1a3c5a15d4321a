//! `walwright gateway`: what can be typed to serve.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use walwright_wire::Secret;

use super::limits::GatewayLimitArgs;
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
told so (SQLSTATE 57P01), the others after their transaction; then it exits with 0. SIGHUP reads the
configuration and the files that it names again, as the console's RELOAD does.

A rolling restart refuses nobody: start the same command once more with the same --handover PATH.
The new gateway accepts from then on; the old one serves its clients until they leave, for
--drain-timeout at most, ends as by SIGTERM then, and exits. Cancel requests reach both.

systemd hands down sockets (a unit with ListenStream=, in place of --listen; one that is named by
FileDescriptorName=metrics is for metrics) and is told when it serves, reloads and stops:
  [Service]
  Type=notify-reload
  ExecStart=/usr/bin/walwright gateway --config /etc/walwright/gateway.toml
  WatchdogSec=30s";

/// How to serve.
#[derive(Debug, Clone, Args)]
pub struct GatewayRunArgs {
    /// Connection string of the server; several hosts and target_session_attrs as libpq has them.
    #[arg(long, value_name = "DSN", required_unless_present = "config")]
    pub server: Option<Secret>,
    /// Configuration; `walwright gateway check --example` prints one. What is typed wins.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Addresses and ports, or paths of unix sockets, which libpq looks for as DIR/.s.PGSQL.PORT. The
    /// default is 127.0.0.1:6432.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub listen: Vec<String>,
    /// How clients prove who they are. The default is scram.
    #[arg(long, value_enum, conflicts_with = "hba_file")]
    pub auth: Option<AuthChoice>,
    /// File of rules in the syntax of pg_hba.conf.
    #[arg(long, value_name = "FILE")]
    pub hba_file: Option<PathBuf>,
    /// File of users and passwords or SCRAM verifiers, as PgBouncer's userlist.txt.
    #[arg(long, value_name = "FILE")]
    pub userlist: Option<PathBuf>,
    /// What the server is asked for passwords, with $1 for the user: names with their schema.
    #[arg(long, value_name = "SQL")]
    pub auth_query: Option<String>,
    /// PEM file with the certificate for TLS, and those that lead to its authority.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the certificate's key.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Let nobody in on TCP without TLS.
    #[arg(long)]
    pub tls_required: bool,
    /// PEM file with the authorities of clients' certificates.
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
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
    /// Unix socket at which the next gateway takes over: started with the same path, it gets the
    /// listening sockets of the one that is there. See --help.
    #[arg(long, value_name = "PATH")]
    pub handover: Option<PathBuf>,
    /// Pooling and limits.
    #[command(flatten)]
    pub limits: GatewayLimitArgs,
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
    /// By certificates whose common name is the user, with --tls-client-ca.
    Cert,
    /// By the user of the system, on unix sockets.
    Peer,
}
