//! A configuration as it is written.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer};

use super::Time;
use crate::rules::ClientCertificate;
use crate::{PoolMode, Reads};

/// A value and where it stands in the file; nowhere, where it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said<T> {
    /// The value.
    pub value: T,
    /// Where it stands, in bytes.
    pub at: Option<Range<usize>>,
}

impl<T> From<T> for Said<T> {
    fn from(value: T) -> Said<T> {
        Said { value, at: None }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Said<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Said<T>, D::Error> {
        let spanned = toml::Spanned::<T>::deserialize(from)?;
        let at = Some(spanned.span());
        Ok(Said { value: spanned.into_inner(), at })
    }
}

/// A connection string, which may hold a password.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Dsn(pub String);

impl fmt::Debug for Dsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dsn")
    }
}

/// A configuration as it is written: what is absent has its default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    /// Addresses with ports, or paths of unix sockets.
    pub listen: Vec<Said<String>>,
    /// Connection string of the server, of databases that have none of their own.
    pub server: Option<Said<Dsn>>,
    /// Threads that serve clients.
    pub workers: Option<Said<usize>>,
    /// Who may do anything in the console.
    pub admin_users: Vec<String>,
    /// Who may only look.
    pub stats_users: Vec<String>,
    /// How clients prove who they are.
    pub authentication: AuthenticationTable,
    /// TLS for clients.
    pub tls: TlsTable,
    /// How sessions are pooled.
    pub pooling: PoolingTable,
    /// Limits of number and time.
    pub limits: LimitsTable,
    /// Databases as clients name them, `*` for every other.
    pub databases: BTreeMap<String, DatabaseTable>,
    /// What is said of single users.
    pub users: BTreeMap<String, UserTable>,
    /// Metrics.
    pub metrics: MetricsTable,
}

/// How clients prove who they are where no rules say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum AuthType {
    /// By their passwords.
    #[serde(rename = "scram-sha-256")]
    Scram,
    /// Not at all.
    #[serde(rename = "trust")]
    Trust,
    /// By certificates.
    #[serde(rename = "cert")]
    Cert,
    /// By the user of the system at the other end of a unix socket.
    #[serde(rename = "peer")]
    Peer,
}

/// `[authentication]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthenticationTable {
    /// How clients prove who they are.
    #[serde(rename = "type")]
    pub kind: Option<Said<AuthType>>,
    /// File of users with passwords or verifiers.
    pub userlist: Option<Said<PathBuf>>,
    /// What the server is asked for other users, `default` for the gateway's own question.
    pub auth_query: Option<Said<String>>,
    /// Who asks it.
    pub auth_user: Option<Said<String>>,
    /// In which database.
    pub auth_dbname: Option<String>,
    /// File of rules.
    pub hba_file: Option<Said<PathBuf>>,
    /// Rules, one a line.
    pub rules: Option<Said<Vec<String>>>,
    /// File of maps of user names.
    pub ident_file: Option<Said<PathBuf>>,
}

/// `[tls]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsTable {
    /// The certificate, and those that lead to its authority.
    pub certificate: Option<Said<PathBuf>>,
    /// Its key.
    pub key: Option<Said<PathBuf>>,
    /// Whether nobody is let in on TCP without TLS.
    pub required: Option<Said<bool>>,
    /// Authorities of clients' certificates.
    pub client_ca: Option<Said<PathBuf>>,
    /// What clients' certificates must be.
    pub client_certificate: Option<Said<ClientCertificate>>,
}

/// `[pooling]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolingTable {
    /// When a server session is given back.
    pub mode: Option<PoolMode>,
    /// Server sessions of each kind, for a user, a database and a worker.
    pub size: Option<Said<usize>>,
    /// Which answers wait.
    pub reads: Option<Reads>,
    /// Sessions that are used before any is given a second statement.
    pub spread: Option<Said<usize>>,
    /// Statements that are sent on a session before the first has answered.
    pub depth: Option<Said<usize>>,
}

/// `[limits]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each is the field of the same name in Limits")]
pub struct LimitsTable {
    pub max_clients: Option<Said<usize>>,
    pub max_database_connections: Option<usize>,
    pub max_user_connections: Option<usize>,
    pub login_timeout: Option<Time>,
    pub query_wait_timeout: Option<Time>,
    pub query_timeout: Option<Time>,
    pub transaction_timeout: Option<Time>,
    pub idle_transaction_timeout: Option<Time>,
    pub client_idle_timeout: Option<Time>,
    pub server_idle_timeout: Option<Time>,
    pub server_lifetime: Option<Time>,
    pub server_login_retry: Option<Said<Time>>,
}

/// `[databases.NAME]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseTable {
    /// Connection string of its server.
    pub server: Option<Said<Dsn>>,
    /// Its name there.
    pub dbname: Option<String>,
    /// The user of all its server sessions.
    pub user: Option<Said<String>>,
    /// File that holds this user's password and nothing else.
    pub password_file: Option<Said<PathBuf>>,
    /// Variable of the environment that does.
    pub password_env: Option<Said<String>>,
    /// When a server session is given back.
    pub pool_mode: Option<PoolMode>,
    /// Server sessions of each kind, for a user and a worker.
    pub pool_size: Option<Said<usize>>,
    /// Which answers wait.
    pub reads: Option<Reads>,
    /// Server sessions of all users together, at most.
    pub max_connections: Option<usize>,
    /// Clients, at most.
    pub max_clients: Option<usize>,
}

/// `[users.NAME]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserTable {
    /// When a server session is given back.
    pub pool_mode: Option<PoolMode>,
    /// Server sessions of each kind, for a database and a worker.
    pub pool_size: Option<Said<usize>>,
    /// Which answers wait.
    pub reads: Option<Reads>,
    /// Its server sessions, at most.
    pub max_connections: Option<usize>,
    /// Its clients, at most.
    pub max_clients: Option<usize>,
}

/// `[metrics]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsTable {
    /// Address and port of `/metrics` and `/healthz`.
    pub listen: Option<Said<String>>,
}
