//! Connections to servers, opened by threads of their own so that no event loop waits.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use mio::Waker;
use walwright_wire::{CancelKey, ConnectOptions, Connection, Connector, Stream, WireError, cancel};

use crate::levels::{Barriers, Cover, Level};
use crate::lookup::{Answers, look_up};
use crate::lookups::Names;
use crate::options::{Server, SessionAttributes};
use crate::users::Question;
use crate::{ClientId, SessionKind};

/// What a connection is for.
#[derive(Debug, Clone)]
pub enum Purpose {
    /// Statements of clients: the pool, the kind, and who logs in how.
    Session(usize, SessionKind, Box<Login>),
    /// Flushes.
    Barriers,
    /// The verifiers of users, for clients that claim to be them.
    Verifiers(Names, Box<Question>),
    /// Cancelling what a session runs at an address.
    Cancel(SessionId, Box<(ConnectOptions, CancelKey)>),
    /// Whether the server has ended what ran on sessions that were lost.
    Strays(Vec<Stray>),
    /// Whether what a session runs for a client waits for a lock, by the server's process.
    Waits(SessionId, ClientId, u32),
}

/// A relaxed transaction whose session was lost while it ran: the server may still commit it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stray {
    /// The server's process.
    pub process: u32,
    /// What is to cover it.
    pub covers: Cover,
}

/// A session, unique for the life of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionId {
    /// Its place among the sessions.
    pub place: usize,
    /// Tells it from others that had the place.
    pub serial: u32,
}

/// Who logs in where, in place of what the server's addresses say.
#[derive(Debug, Clone, Default)]
pub struct Login {
    /// User.
    pub user: String,
    /// Database.
    pub dbname: String,
    /// Password, where it is known.
    pub password: Option<walwright_wire::Secret>,
    /// Keys that take its place.
    pub keys: Option<walwright_wire::ScramKeys>,
    /// Startup parameters.
    pub parameters: Vec<(String, String)>,
}

/// Which life of which server answers: two connections with the same are to one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity(Vec<Option<String>>);

/// A connection that was opened.
#[derive(Debug)]
pub struct Opened {
    /// The stream, not blocking.
    pub stream: Stream,
    /// Settings as the server reported them.
    pub parameters: Vec<(String, String)>,
    /// What cancels on it.
    pub key: Option<CancelKey>,
    /// The process that serves it.
    pub process: u32,
    /// Where it leads to, without user or password.
    pub address: ConnectOptions,
    /// Which server it is.
    pub identity: Identity,
    /// `synchronous_commit` as it is for this user and database; `None` is `off`.
    pub level: Option<Level>,
    /// When the session read the server's configuration files, as [`barrier_statement`] tells it;
    /// of a barrier session alone.
    pub configured: Vec<u8>,
}

/// What was asked for.
#[derive(Debug)]
pub enum Reply {
    /// A session.
    Session(Box<Opened>),
    /// The sessions of all barriers of a life: one, one for each level, or none where the server
    /// is a standby, which flushes nothing for its clients.
    Barriers(Identity, Vec<Opened>),
    /// Verifiers.
    Verifiers(Answers),
    /// The server has taken the request.
    Cancelled,
    /// Those of the strays that still run on this server.
    Strays(Identity, Vec<Stray>),
    /// Whether it waits for a lock, or may.
    Waits(bool),
}

/// What became of an attempt.
#[derive(Debug)]
pub struct Dialled {
    /// The server.
    pub upstream: usize,
    /// What the connection was for.
    pub purpose: Purpose,
    /// The life of the server that it was opened for.
    pub life: u64,
    /// When it was asked for.
    pub since: Instant,
    /// What was asked for, or why it cannot be had.
    pub result: Result<Reply, WireError>,
}

/// What tells one server, and one life of it, from another; last, whether it is a standby. The
/// timeline is that of the WAL: a server that was promoted writes it to its control file later.
/// The time is a number, since sessions write dates as their clients' DateStyle and TimeZone have
/// it; functions are named in full, since sessions look for them where their clients say.
const IDENTITY: &str = "SELECT system_identifier, CASE WHEN NOT pg_catalog.pg_is_in_recovery() \
                        THEN pg_catalog.left(pg_catalog.pg_walfile_name(\
                            pg_catalog.pg_current_wal_insert_lsn()), 8) END, \
                        extract(epoch FROM pg_catalog.pg_postmaster_start_time()), \
                        pg_catalog.inet_server_addr(), pg_catalog.inet_server_port(), \
                        pg_catalog.pg_is_in_recovery() FROM pg_catalog.pg_control_system()";

/// Name under which the barrier statement is prepared.
pub const BARRIER_NAME: &str = "ww_barrier";

impl Identity {
    fn of(connection: &mut Connection) -> Result<Identity, WireError> {
        Ok(Identity(connection.query(IDENTITY)?.into_iter().next().unwrap_or_default()))
    }

    /// Whether the server is a standby.
    pub fn is_standby(&self) -> bool {
        self.0.last().is_some_and(|recovers| recovers.as_deref() == Some("t"))
    }
}

/// Does in a thread of its own what a worker must not wait for; the result goes to `done`.
pub fn dial(
    (upstream, life): (usize, u64),
    server: Arc<Server>,
    purpose: Purpose,
    done: Sender<Dialled>,
    waker: Arc<Waker>,
) {
    let (wanted, since) = (purpose.clone(), Instant::now());
    let tell = move |result, purpose| {
        // A worker that has ended wants no connection.
        if done.send(Dialled { upstream, purpose, life, since, result }).is_ok() {
            let _ = waker.wake();
        }
    };
    let tells = tell.clone();
    let thread = std::thread::Builder::new().name("gateway-dial".to_owned());
    let spawned = thread.spawn(move || tells(perform(&server, &purpose), purpose));
    if let Err(error) = spawned {
        tell(Err(WireError::Io(error)), wanted);
    }
}

fn perform(server: &Server, purpose: &Purpose) -> Result<Reply, WireError> {
    match purpose {
        Purpose::Session(_, kind, login) => {
            let adjust = |options: &mut ConnectOptions| {
                options.user.clone_from(&login.user);
                options.dbname.clone_from(&login.dbname);
                if login.password.is_some() || login.keys.is_some() {
                    options.password.clone_from(&login.password);
                }
                options.scram_keys.clone_from(&login.keys);
                options.parameters.extend(login.parameters.iter().cloned());
                if *kind == SessionKind::Relaxed {
                    set(options, "synchronous_commit", "off");
                }
            };
            Ok(Reply::Session(Box::new(Opened::of(reach(server, adjust)?)?)))
        }
        Purpose::Barriers => barriers(server),
        Purpose::Verifiers(names, question) => {
            let users = names.iter().map(|(user, _)| user.as_str());
            Ok(Reply::Verifiers(look_up(server, users, question)?))
        }
        Purpose::Cancel(_, request) => {
            let (address, key) = &**request;
            cancel(&Connector::new(address.clone())?, key)?;
            Ok(Reply::Cancelled)
        }
        Purpose::Strays(strays) => still_running(server, strays),
        Purpose::Waits(_, _, process) => waits(server, *process),
    }
}

/// Those of the strays whose processes are there: they leave `pg_stat_activity` when they end,
/// which is after their transactions have.
fn still_running(server: &Server, strays: &[Stray]) -> Result<Reply, WireError> {
    let Reached { mut connection, identity, .. } = reach(server, |_| {})?;
    let running = connection.query("SELECT pid FROM pg_catalog.pg_stat_activity")?;
    let running = running.into_iter().flatten().flatten();
    let running: HashSet<u32> = running.filter_map(|pid| pid.parse().ok()).collect();
    let runs = |stray: &&Stray| running.contains(&stray.process);
    Ok(Reply::Strays(identity, strays.iter().filter(runs).copied().collect()))
}

/// Whether a process waits for a lock that a transaction of another holds, or may: what others do
/// is not shown to every role.
fn waits(server: &Server, process: u32) -> Result<Reply, WireError> {
    let mut connection = reach(server, |_| {})?.into_connection();
    let found = connection.query(&format!(
        "SELECT state IS NULL OR wait_event_type IS NOT DISTINCT FROM 'Lock' \
         FROM pg_catalog.pg_stat_activity WHERE pid = {process}"
    ))?;
    Ok(Reply::Waits(found.into_iter().flatten().flatten().any(|waits| waits == "t")))
}

/// Sets a parameter of a session.
pub fn set(options: &mut ConnectOptions, name: &str, value: &str) {
    options.parameters.push((name.to_owned(), value.to_owned()));
}

/// A connection with the address that it was made to.
pub struct Reached {
    connection: Connection,
    identity: Identity,
    address: ConnectOptions,
}

/// A connection to the first address where a server with the attributes wanted answers.
///
/// # Errors
/// When there is none: why the last one would not do.
pub fn reach(server: &Server, adjust: impl Fn(&mut ConnectOptions)) -> Result<Reached, WireError> {
    let mut second = None;
    let mut failed = WireError::Options("a server without an address".to_owned());
    for address in &server.addresses {
        let mut options = address.clone();
        adjust(&mut options);
        let connected = Connector::new(options).and_then(|connector| {
            let mut connection = connector.connect()?;
            let identity = Identity::of(&mut connection)?;
            Ok(Reached { connection, identity, address: address.clone() })
        });
        match connected.and_then(|mut of| Ok((of.has(server.attributes)?, of))) {
            Ok((true, reached)) => return Ok(reached),
            Ok((false, reached)) => {
                failed = WireError::Refused(format!(
                    "{UNWANTED}: that at {} is a {}",
                    place(address),
                    if reached.identity.is_standby() { "standby" } else { "primary" },
                ));
                if server.attributes == SessionAttributes::PreferStandby && second.is_none() {
                    second = Some(reached);
                }
            }
            Err(error) => failed = error,
        }
    }
    second.ok_or(failed)
}

impl Reached {
    /// The connection alone.
    pub fn into_connection(self) -> Connection {
        self.connection
    }

    fn has(&mut self, attributes: SessionAttributes) -> Result<bool, WireError> {
        let standby = self.identity.is_standby();
        let mut read_only = || -> Result<bool, WireError> {
            let value = self.connection.query("SHOW transaction_read_only")?;
            Ok(standby || value.into_iter().flatten().flatten().any(|value| value == "on"))
        };
        Ok(match attributes {
            SessionAttributes::Any => true,
            SessionAttributes::ReadWrite => !read_only()?,
            SessionAttributes::ReadOnly => read_only()?,
            SessionAttributes::Primary => !standby,
            SessionAttributes::Standby | SessionAttributes::PreferStandby => standby,
        })
    }
}

/// Where an address leads, for messages.
pub fn place(address: &ConnectOptions) -> String {
    match &address.host {
        walwright_wire::Host::Unix(directory) => {
            format!("{}/.s.PGSQL.{}", directory.display(), address.port)
        }
        walwright_wire::Host::Tcp(host) => format!("{host}:{}", address.port),
    }
}

impl Opened {
    fn of(reached: Reached) -> Result<Opened, WireError> {
        let Reached { mut connection, identity, address } = reached;
        let level = connection.query("SHOW synchronous_commit")?;
        let level = level.into_iter().flatten().flatten().next().unwrap_or_default();
        let parameters = connection.parameters();
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let parameters = parameters.collect();
        let key = connection.cancel_key();
        let process = connection.backend_process().unwrap_or_default();
        let (stream, _) = connection.into_nonblocking()?;
        let (level, configured) = (Level::of(&level), Vec::new());
        Ok(Opened { stream, parameters, key, process, address, identity, level, configured })
    }
}

/// The barrier sessions of a server.
fn barriers(server: &Server) -> Result<Reply, WireError> {
    let open = |level: Level| {
        reach(server, |options| {
            options.application_name = "walwright barrier".to_owned();
            set(options, "default_transaction_read_only", "off");
            set(options, "statement_timeout", "0");
            set(options, "idle_session_timeout", "0");
            // Whatever the role has, no object of somebody else's stands in for a function.
            set(options, "search_path", "pg_catalog");
            set(options, "synchronous_commit", level.name());
            // That a wait for standbys was cancelled is a warning.
            set(options, "client_min_messages", "warning");
        })
    };
    let mut first = open(Level::Local)?;
    let identity = first.identity.clone();
    if identity.is_standby() {
        return Ok(Reply::Barriers(identity, Vec::new()));
    }
    let mut ask = |sql: &str| -> Result<String, WireError> {
        let found = first.connection.query(sql)?;
        Ok(found.into_iter().flatten().flatten().next().unwrap_or_default())
    };
    let version: u32 = ask("SHOW server_version_num")?.parse().unwrap_or_default();
    let standbys = !ask("SHOW synchronous_standby_names")?.is_empty();
    let mut all = vec![first];
    for level in Level::ALL.into_iter().take(Barriers::count(standbys)).skip(1) {
        all.push(open(level)?);
    }
    let mut opened = Vec::new();
    for mut reached in all {
        if reached.identity != identity {
            return Err(WireError::Refused(DIFFERENT.to_owned()));
        }
        let flush = barrier_statement(version, standbys);
        reached.connection.query(&format!("PREPARE {BARRIER_NAME} AS {flush}"))?;
        let configured = reached.connection.query(&format!("SELECT {CONFIGURED}"))?;
        let configured = configured.into_iter().flatten().flatten().next().unwrap_or_default();
        opened.push(Opened { configured: configured.into_bytes(), ..Opened::of(reached)? });
    }
    Ok(Reply::Barriers(identity, opened))
}

/// How the reason begins why a server is refused that may be replaced by another.
pub const UNWANTED: &str = "no server is as target_session_attrs wants it";

/// Why connections that belong together are refused.
pub const DIFFERENT: &str = "two connections to the server did not reach one and the same server";

/// When a session has read the configuration files last.
const CONFIGURED: &str = "extract(epoch FROM pg_conf_load_time())";

/// What flushes the WAL, and tells whether synchronous standbys are named by now where there
/// were none, and when the session read the configuration files. From 17 a message that belongs
/// to no transaction can be flushed; before, and where standbys have to confirm, a transaction
/// that wrote one commits.
fn barrier_statement(version: u32, standbys: bool) -> String {
    let message = if version >= 170_000 && !standbys {
        "pg_logical_emit_message(false, 'walwright', '', true)"
    } else {
        "pg_logical_emit_message(true, 'walwright', '')"
    };
    let news =
        if standbys { "false" } else { "current_setting('synchronous_standby_names') <> ''" };
    format!("SELECT {news}, {CONFIGURED}, {message}")
}
