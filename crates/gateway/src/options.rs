//! What a gateway is to do.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use walwright_wire::ConnectOptions;

use crate::{Authentication, Listen, Tls, Users};

/// What a gateway is to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens.
    pub listen: Vec<Listen>,
    /// Databases as clients name them.
    pub databases: Vec<Database>,
    /// What is said of single users, by name.
    pub users: HashMap<String, User>,
    /// How clients prove who they are.
    pub authentication: Authentication,
    /// TLS for clients on TCP.
    pub tls: Option<Tls>,
    /// How sessions are pooled where neither a database nor a user says otherwise.
    pub pooling: Pooling,
    /// Limits of number and time.
    pub limits: Limits,
    /// Users that may use the console, and its commands.
    pub admin_users: Vec<String>,
    /// Users that may use the console to look.
    pub stats_users: Vec<String>,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// Worker threads.
    pub workers: usize,
    /// Sessions that are used before any is given a second statement.
    pub spread: usize,
    /// Statements that are sent on a session before the first has answered.
    pub depth: usize,
}

impl Options {
    /// The defaults for a server, whose databases have the names that they have there.
    pub fn new(server: ConnectOptions) -> Options {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Options {
            admin_users: vec![server.user.clone()],
            stats_users: Vec::new(),
            metrics: None,
            listen: Vec::new(),
            databases: vec![Database::any(Server::new(server))],
            users: HashMap::new(),
            authentication: Authentication::Scram(Arc::new(Users {
                ask_server: true,
                ..Users::default()
            })),
            tls: None,
            pooling: Pooling::default(),
            limits: Limits::default(),
            workers: (processors / 4).max(1),
            spread: 2 * processors,
            depth: 16,
        }
    }

    /// What a client means by the name of a database: the database of that name, else the one
    /// that stands for any.
    pub fn database(&self, name: &str) -> Option<&Database> {
        let named = self.databases.iter().find(|database| database.name.as_deref() == Some(name));
        named.or_else(|| self.databases.iter().find(|database| database.name.is_none()))
    }

    /// The same by the name of an entry; `None` is that of the one that stands for any.
    pub(crate) fn named(&self, name: Option<&str>) -> Option<&Database> {
        match name {
            Some(name) => self.database(name),
            None => self.databases.iter().find(|database| database.name.is_none()),
        }
    }

    /// How sessions of a user in a database are pooled: as is said of the user, else of the
    /// database, else of all.
    pub fn pooling_of(&self, database: &Database, user: &str) -> Pooling {
        let own = self.users.get(user).map(|user| user.pooling).unwrap_or_default();
        own.over(database.pooling).or(self.pooling)
    }
}

/// A database as clients name it.
#[derive(Debug, Clone)]
pub struct Database {
    /// Its name at the gateway; `None` for every name that no other entry has.
    pub name: Option<String>,
    /// Where it is.
    pub server: Arc<Server>,
    /// Its name at the server, where that is another.
    pub dbname: Option<String>,
    /// The user of all its server sessions, where that is not the client's own: the one of the
    /// server's connection options, with its password.
    pub forced_user: bool,
    /// How its sessions are pooled.
    pub pooling: PoolingChoice,
    /// Server sessions of all users together, at most.
    pub max_connections: Option<usize>,
    /// Clients, at most.
    pub max_clients: Option<usize>,
}

impl Database {
    /// Whether sessions of both log in as the same user, to the same database and alike.
    pub fn logs_in_as(&self, other: &Database) -> bool {
        self.dbname == other.dbname
            && self.forced_user == other.forced_user
            && self.server.addresses == other.server.addresses
    }

    /// Every database of a server.
    pub fn any(server: Server) -> Database {
        Database {
            name: None,
            server: Arc::new(server),
            dbname: None,
            forced_user: false,
            pooling: PoolingChoice::default(),
            max_connections: None,
            max_clients: None,
        }
    }
}

/// A server, which may be at one of several addresses.
#[derive(Debug, Clone)]
pub struct Server {
    /// Addresses in the order in which they are tried, each with user, password and TLS. All
    /// databases whose addresses are the same share one barrier.
    pub addresses: Vec<ConnectOptions>,
    /// Which of them will do.
    pub attributes: SessionAttributes,
}

impl Server {
    /// A server at one address.
    pub fn new(address: ConnectOptions) -> Server {
        Server { addresses: vec![address], attributes: SessionAttributes::Any }
    }

    /// Whether another is the same one, so that both have one barrier.
    pub fn is_same(&self, other: &Server) -> bool {
        let places = |server: &Server| {
            let places = server.addresses.iter();
            places.map(|of| (of.host.clone(), of.hostaddr, of.port)).collect::<Vec<_>>()
        };
        self.attributes == other.attributes && places(self) == places(other)
    }
}

/// Which server will do, as libpq's `target_session_attrs` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionAttributes {
    /// Any.
    #[default]
    Any,
    /// One that takes writes.
    ReadWrite,
    /// One that takes none.
    ReadOnly,
    /// One that is not in recovery.
    Primary,
    /// One that is.
    Standby,
    /// One in recovery, else any.
    PreferStandby,
}

impl FromStr for SessionAttributes {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "any" => Self::Any,
            "read-write" => Self::ReadWrite,
            "read-only" => Self::ReadOnly,
            "primary" => Self::Primary,
            "standby" => Self::Standby,
            "prefer-standby" => Self::PreferStandby,
            _ => return Err(()),
        })
    }
}

/// What is said of one user.
#[derive(Debug, Clone, Default)]
pub struct User {
    /// How its sessions are pooled.
    pub pooling: PoolingChoice,
    /// Its server sessions in all databases together, at most.
    pub max_connections: Option<usize>,
    /// Its clients, at most.
    pub max_clients: Option<usize>,
}

/// When a server session is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PoolMode {
    /// When the client leaves.
    Session,
    /// At the end of each transaction.
    #[default]
    Transaction,
    /// After each statement: transactions of several are refused.
    Statement,
}

/// Which answers wait for a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reads {
    /// Those of writes alone: a read may tell of what a crash takes back.
    Off,
    /// Those of statements outside a transaction and of every COMMIT.
    #[default]
    Transaction,
    /// Those within transactions too.
    Strict,
}

/// How sessions are pooled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pooling {
    /// When a server session is given back.
    pub mode: PoolMode,
    /// Server sessions of each kind, for a user, a database and a worker.
    pub size: usize,
    /// Which answers wait.
    pub reads: Reads,
}

impl Default for Pooling {
    fn default() -> Pooling {
        Pooling { mode: PoolMode::default(), size: 20, reads: Reads::default() }
    }
}

/// What is said of pooling in one place; what is not said is said elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolingChoice {
    /// When a server session is given back.
    pub mode: Option<PoolMode>,
    /// Server sessions of each kind.
    pub size: Option<usize>,
    /// Which answers wait.
    pub reads: Option<Reads>,
}

impl PoolingChoice {
    /// This, and where it says nothing, another.
    #[must_use]
    pub fn over(self, other: PoolingChoice) -> PoolingChoice {
        PoolingChoice {
            mode: self.mode.or(other.mode),
            size: self.size.or(other.size),
            reads: self.reads.or(other.reads),
        }
    }

    /// This, and where it says nothing, the given.
    pub fn or(self, other: Pooling) -> Pooling {
        Pooling {
            mode: self.mode.unwrap_or(other.mode),
            size: self.size.unwrap_or(other.size),
            reads: self.reads.unwrap_or(other.reads),
        }
    }
}

/// Limits of number and time. `None` is without a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Clients in all.
    pub max_clients: usize,
    /// Server sessions in one database.
    pub max_database_connections: Option<usize>,
    /// Server sessions of one user.
    pub max_user_connections: Option<usize>,
    /// Time from connecting to being let in.
    pub login_timeout: Option<Duration>,
    /// Longest wait of a statement for a server session, from when its client begins to wait.
    pub query_wait_timeout: Option<Duration>,
    /// Longest run of a statement, its wait not counted.
    pub query_timeout: Option<Duration>,
    /// Longest a transaction may go on.
    pub transaction_timeout: Option<Duration>,
    /// Longest a transaction may wait for its client.
    pub idle_transaction_timeout: Option<Duration>,
    /// Longest a client may be idle outside a transaction.
    pub client_idle_timeout: Option<Duration>,
    /// A server session that nobody needed for so long is closed.
    pub server_idle_timeout: Option<Duration>,
    /// A server session is not used any more when it is so old.
    pub server_lifetime: Option<Duration>,
    /// After a server refused a session, none is asked for that long.
    pub server_login_retry: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        let seconds = Duration::from_secs;
        Limits {
            max_clients: 10_000,
            max_database_connections: None,
            max_user_connections: None,
            login_timeout: Some(seconds(60)),
            query_wait_timeout: Some(seconds(120)),
            query_timeout: None,
            transaction_timeout: None,
            idle_transaction_timeout: None,
            client_idle_timeout: None,
            server_idle_timeout: Some(seconds(600)),
            server_lifetime: Some(seconds(3600)),
            server_login_retry: seconds(1),
        }
    }
}
