//! Opening a control connection, and saying in one sentence why it failed.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio_postgres::{NoTls, SimpleQueryMessage};
use walwright_wire::{Connector, Host, WireError};

use super::client::{Client, Names};
use super::params::ConnectParams;
use super::query_error::{QueryError, deepest};
use super::relay::Relay;
use crate::version::PgVersion;

/// Why a connection was not made, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectFailure {
    /// No server listens there.
    Refused,
    /// The unix socket does not exist.
    NoSocket,
    /// The unix socket may not be opened.
    Forbidden,
    /// The host's name is unknown.
    UnknownHost,
    /// No answer in time.
    Timeout,
    /// It let us in and answers no query.
    Silent,
    /// The network or the host cannot be reached.
    Unreachable,
    /// The password is wrong.
    WrongPassword,
    /// The server asks for a password and there is none.
    PasswordMissing,
    /// The server does not let this user in from here.
    NotAuthorized,
    /// The database does not exist.
    NoSuchDatabase,
    /// All connections are taken.
    TooManyConnections,
    /// The server is starting up or shutting down.
    NotReady,
    /// The server is older than PostgreSQL 14.
    TooOld,
    /// TLS could not be set up or agreed on.
    Tls,
    /// The server asks for a way of logging in that was ruled out.
    NotAsRequired,
    /// Anything else.
    Other,
}

/// No connection: where, why, and what to do, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not connect to {address}: {detail}; {hint}")]
pub struct ConnectError {
    failure: ConnectFailure,
    address: String,
    detail: String,
    hint: &'static str,
}

impl ConnectError {
    /// Which kind of failure it is.
    pub fn failure(&self) -> ConnectFailure {
        self.failure
    }

    /// What the person can do.
    pub fn hint(&self) -> &'static str {
        self.hint
    }

    fn new(params: &ConnectParams, failure: ConnectFailure, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { failure, address: params.address(), hint: hint(failure), detail }
    }
}

/// How long a control query may take.
const QUERY_LIMIT: Duration = Duration::from_secs(15);

/// How long a request to cancel may take.
const CANCEL_LIMIT: Duration = Duration::from_secs(2);

/// Settings of walwright's own sessions, as options of the connection: unlike what `SET`
/// leaves in a session, these cannot reach the application that a pooler lends the
/// session to next. Names are those of `pg_catalog`; text is written and read as this
/// program does it, whatever the role or the database have set; a server that lost its
/// client ends what it runs for it; nothing waits long for a lock; no session is ended for
/// its silence; and who has logged in is who it is, though the database set another role,
/// whose code could take the rights of the first back.
const SETTINGS: &str = "-c search_path=pg_catalog,pg_temp -c standard_conforming_strings=on \
    -c DateStyle=ISO -c IntervalStyle=postgres -c quote_all_identifiers=off \
    -c client_connection_check_interval=2s -c lock_timeout=2s -c statement_timeout=15s \
    -c idle_session_timeout=0 -c idle_in_transaction_session_timeout=0 -c role=none";

/// One of them that nobody else sets so, and what shows that it was taken.
const SIGN: (&str, &str) = ("client_connection_check_interval", "2s");

/// The same for a superuser: no trigger or rule of a table and no event trigger runs in
/// these sessions unless it is made to fire always.
const AS_SUPERUSER: &str = "-c session_replication_role=replica";

/// The same from version 17: no event trigger, made to fire always or not.
const NO_EVENT_TRIGGERS: &str = "-c event_triggers=off";

/// From the same version: no transaction is ended for its length.
const ANY_LENGTH: &str = "-c transaction_timeout=0";

/// The role that is a superuser nearly everywhere.
const SUPERUSER: &str = "postgres";

/// Settings of sessions for the statements of a workload, which keep what role and
/// database set: a server that has lost its client ends what it runs for it.
pub const FOR_WORKLOAD: &str = "-c client_connection_check_interval=2s";

/// Further settings of a session, as options of the connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionSettings<'a> {
    /// What any role may set.
    pub all: &'a str,
    /// What only a superuser may set, and is left out for others.
    pub superuser: &'a str,
}

/// Opens a session of walwright's own. Needs a tokio runtime.
///
/// Its names are those of `pg_catalog`, and each query has a time limit: see [`Client`].
pub async fn connect(params: &ConnectParams) -> Result<Client, ConnectError> {
    connect_with(params, SessionSettings::default()).await
}

/// The same with further settings.
pub async fn connect_with(
    params: &ConnectParams,
    settings: SessionSettings<'_>,
) -> Result<Client, ConnectError> {
    let login = own_session(params, settings).await?;
    supported(params, &login)?;
    Ok(login.client)
}

/// The same for what may take as long as it wants: checkpoints, counting rows.
pub async fn connect_without_limit(params: &ConnectParams) -> Result<Client, ConnectError> {
    let all = "-c statement_timeout=0 -c lock_timeout=0";
    let settings = SessionSettings { all, superuser: "" };
    Ok(connect_with(params, settings).await?.with_limit(None))
}

/// Opens a session of walwright's own and tells the server's version. A server older than
/// PostgreSQL 14 is an error.
pub async fn connect_versioned(
    params: &ConnectParams,
) -> Result<(Client, PgVersion), ConnectError> {
    let login = own_session(params, SessionSettings::default()).await?;
    let version = supported(params, &login)?;
    Ok((login.client, version))
}

/// Opens a session for the statements of a workload: names are looked for where role and
/// database say, and statements may take as long as they want. What walwright itself
/// asks does not belong here.
pub async fn connect_for_workload(params: &ConnectParams) -> Result<Client, ConnectError> {
    let set = params.clone().with_options(FOR_WORKLOAD);
    let login = match log_in(&set, Names::AsTheyAre).await {
        Err(error) if is_refusal(&error) => log_in(params, Names::AsTheyAre).await?,
        done => done?,
    };
    supported(params, &login)?;
    Ok(login.client.with_limit(None))
}

/// Who has logged in is who it is, whatever role the database sets.
pub const OWN_ROLE: &str = "-c role=none";

/// Opens a session as any client of this role and database has it: walwright sets nothing
/// in it, but that no event trigger runs and that no other role is set. What is asked there
/// must name all that it calls with its schema, operators and types included.
pub async fn connect_unchanged(params: &ConnectParams) -> Result<Client, ConnectError> {
    let set = match knowing(params).await? {
        Known::Pooler => params.clone(),
        Known::SuperuserFrom17 => {
            params.clone().with_options(OWN_ROLE).with_options(NO_EVENT_TRIGGERS)
        }
        Known::Plain | Known::Superuser => params.clone().with_options(OWN_ROLE),
    };
    let login = log_in(&set, Names::AsTheyAre).await?;
    supported(params, &login)?;
    Ok(login.client)
}

/// Opens a session for statements about the schema, which may take as long as they want.
/// Names are looked for in `pg_catalog` first, whatever the database says, and then where
/// role and database say: a definition that was read from the catalog means what it meant.
pub async fn connect_for_definitions(params: &ConnectParams) -> Result<Client, ConnectError> {
    let unchanged = connect_unchanged(params).await?;
    let sql = "SELECT pg_catalog.current_schemas(false)::pg_catalog.text[]";
    let schemas = unchanged.query_one(sql, &[]).await.and_then(|row| row.get::<Vec<String>>(0));
    let schemas = schemas.map_err(|error| {
        ConnectError::new(params, ConnectFailure::Other, format!("its search_path: {error}"))
    })?;
    drop(unchanged);
    // Where it is not named it comes first, and new tables go to the first that is.
    let named: Vec<String> = schemas
        .iter()
        .filter(|schema| *schema != "pg_catalog")
        .map(|schema| format!("\"{}\"", schema.replace('"', "\"\"")))
        .collect();
    let path = setting_option("search_path", &named.join(","));
    let set = params.clone().with_options(&format!("{FOR_WORKLOAD} {OWN_ROLE} {path}"));
    // Without its path it would mean something else, so there is no second way.
    let login = log_in(&set, Names::AsTheyAre).await?;
    supported(params, &login)?;
    Ok(login.client.with_limit(None))
}

/// A setting as an option of a connection, where blanks and backslashes of its value are
/// written with a backslash before them.
pub fn setting_option(name: &str, value: &str) -> String {
    let mut text = format!("-c {name}=");
    for c in value.chars() {
        if c.is_whitespace() || c == '\\' {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

/// The options of a connection in which a superuser runs no event trigger and, where `of_tables`
/// says so, no trigger or rule of a table; none for any other role. Also whether triggers of
/// tables are among what does not run.
pub async fn without_triggers(
    params: &ConnectParams,
    of_tables: bool,
) -> Result<(String, bool), ConnectError> {
    let tables = if of_tables { AS_SUPERUSER } else { "" };
    Ok(match knowing(params).await? {
        Known::Superuser => (tables.to_owned(), of_tables),
        Known::SuperuserFrom17 => (format!("{tables} {NO_EVENT_TRIGGERS}"), of_tables),
        Known::Plain | Known::Pooler => (String::new(), false),
    })
}

/// What is known of whom a session is with, found out where it is not. Event triggers for
/// logins run before anything could be asked.
async fn knowing(params: &ConnectParams) -> Result<Known, ConnectError> {
    let address = params.address();
    if let Some(known) = known(&address) {
        return Ok(known);
    }
    own_session(params, SessionSettings::default()).await?;
    Ok(known(&address).unwrap_or(Known::Plain))
}

/// A session and what the server said of itself at login.
struct Login {
    client: Client,
    said: Vec<(String, String)>,
}

impl Login {
    fn said(&self, name: &str) -> Option<&str> {
        self.said.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The version, where it can be worked with.
fn supported(params: &ConnectParams, login: &Login) -> Result<PgVersion, ConnectError> {
    let said = login.said("server_version");
    let Some(version) = said.and_then(PgVersion::parse) else {
        let detail = format!("it calls its version {:?}", said.unwrap_or_default());
        return Err(ConnectError::new(params, ConnectFailure::Other, detail));
    };
    if version < PgVersion::OLDEST_SUPPORTED {
        let detail = format!("it is PostgreSQL {version}");
        return Err(ConnectError::new(params, ConnectFailure::TooOld, detail));
    }
    Ok(version)
}

/// What is known of whom a session is with, so that finding out costs only the first
/// connection more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// A role that is no superuser.
    Plain,
    Superuser,
    /// A superuser of a server that can be told not to run event triggers.
    SuperuserFrom17,
    /// Something in between does not take settings.
    Pooler,
}

static KNOWN: Mutex<BTreeMap<String, Known>> = Mutex::new(BTreeMap::new());

fn all_known() -> MutexGuard<'static, BTreeMap<String, Known>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn known(address: &str) -> Option<Known> {
    all_known().get(address).copied()
}

/// Opens a session with as many settings as are taken.
async fn own_session(
    params: &ConnectParams,
    settings: SessionSettings<'_>,
) -> Result<Login, ConnectError> {
    let address = params.address();
    if let Some(before) = known(&address) {
        match session_as(params, settings, before).await {
            // It is not what it was.
            Err(error) if is_refusal(&error) => all_known().remove(&address),
            done => return done,
        };
    }
    let (login, found) = first_session(params, settings).await?;
    all_known().insert(address, found);
    Ok(login)
}

async fn session_as(
    params: &ConnectParams,
    settings: SessionSettings<'_>,
    known: Known,
) -> Result<Login, ConnectError> {
    let set = |more: &[&str]| {
        let all = [&[SETTINGS, settings.all], more].concat().join(" ");
        params.clone().with_options(&all)
    };
    match known {
        Known::Pooler => log_in(params, Names::PinnedByTransaction).await,
        Known::Plain => log_in(&set(&[]), Names::Pinned).await,
        Known::Superuser => log_in(&set(&[settings.superuser, AS_SUPERUSER]), Names::Pinned).await,
        Known::SuperuserFrom17 => {
            let more = [settings.superuser, AS_SUPERUSER, NO_EVENT_TRIGGERS, ANY_LENGTH];
            log_in(&set(&more), Names::Pinned).await
        }
    }
}

/// Opens a session and finds out what settings it can have.
async fn first_session(
    params: &ConnectParams,
    settings: SessionSettings<'_>,
) -> Result<(Login, Known), ConnectError> {
    // Who is a superuser shows at login only, where event triggers may run already.
    let likely = params.user() == SUPERUSER;
    let mut first = Err(ConnectError::new(params, ConnectFailure::Other, ""));
    if likely {
        first = session_as(params, settings, Known::Superuser).await;
    }
    if first.as_ref().is_err_and(is_refusal) {
        first = session_as(params, settings, Known::Plain).await;
    }
    let settings_taken = match &first {
        Ok(login) => has_settings(params, &login.client).await?,
        Err(_) => false,
    };
    let login = match first {
        Ok(login) if settings_taken => login,
        // Poolers have no common SQLSTATE for options that they do not take, but none of
        // those with a meaning of their own.
        Err(error) if !is_refusal(&error) => return Err(error),
        _ => {
            let login = session_as(params, settings, Known::Pooler).await?;
            return Ok((login, Known::Pooler));
        }
    };
    const EVENT_TRIGGERS_FROM: u32 = 17;
    let version = login.said("server_version").and_then(PgVersion::parse);
    let known = match login.said("is_superuser") {
        Some("on") if version.is_some_and(|v| v.major() >= EVENT_TRIGGERS_FROM) => {
            Known::SuperuserFrom17
        }
        Some("on") if likely => return Ok((login, Known::Superuser)),
        Some("on") => Known::Superuser,
        _ => return Ok((login, Known::Plain)),
    };
    drop(login);
    Ok((session_as(params, settings, known).await?, known))
}

/// Whether settings of the session may be what it was refused for.
fn is_refusal(error: &ConnectError) -> bool {
    error.failure() == ConnectFailure::Other
}

/// Whether the session took its settings, which some poolers drop without a word. A server
/// that does not answer is no pooler, and is not asked once more in another way.
async fn has_settings(params: &ConnectParams, client: &Client) -> Result<bool, ConnectError> {
    let (name, value) = SIGN;
    match client.simple_query(&format!("SHOW {name}")).await {
        Ok(shown) => Ok(shown.iter().any(|message| match message {
            SimpleQueryMessage::Row(row) => row.try_get(0).is_ok_and(|shown| shown == Some(value)),
            _ => false,
        })),
        Err(late @ QueryError::Late { .. }) => {
            Err(ConnectError::new(params, ConnectFailure::Silent, late.to_string()))
        }
        Err(_) => Ok(false),
    }
}

async fn log_in(params: &ConnectParams, names: Names) -> Result<Login, ConnectError> {
    let mut options = params.wire_options();
    let failed = |error: &WireError| explain(params, error);
    let connector = Connector::new(options.clone()).map_err(|error| failed(&error))?;
    options.connect_timeout = Some(CANCEL_LIMIT);
    let canceller = Connector::new(options).map_err(|error| failed(&error))?;
    let connection = in_thread(params, move || connector.connect()).await?;
    let connection = connection.map_err(|error| failed(&error))?;
    let said =
        connection.parameters().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let cancel = connection.cancel_key().map(|key| (canceller, key));
    let broken = |error: &dyn std::error::Error| {
        ConnectError::new(params, ConnectFailure::Other, deepest(error))
    };
    let relay = Relay::new(connection).map_err(|error| broken(&error))?;
    let mut config = tokio_postgres::Config::new();
    // The server has had these at the login proper.
    config.user(params.user()).ssl_mode(tokio_postgres::config::SslMode::Disable);
    let (client, connection) =
        config.connect_raw(relay, NoTls).await.map_err(|error| broken(&error))?;
    let ended = Arc::new(OnceLock::new());
    let told = Arc::clone(&ended);
    let serving = tokio::spawn(async move {
        if let Err(error) = connection.await
            && !error.is_closed()
        {
            let _ = told.set(deepest(&error));
        }
    });
    let client =
        Client::new(client, names, Some(QUERY_LIMIT), ended, serving.abort_handle(), cancel);
    let login = Login { client, said };
    if names == Names::Pinned && login.said("server_encoding") == Some("SQL_ASCII") {
        // Names there may be of any bytes, which the server would refuse to call UTF-8.
        let as_they_are = login.client.batch_execute("SET client_encoding = 'SQL_ASCII'").await;
        as_they_are.map_err(|error| broken(&error))?;
    }
    Ok(login)
}

/// Runs what blocks in a thread of its own, which nobody waits for longer than the time
/// for connecting: looking up a name has no limit.
async fn in_thread<T: Send + 'static>(
    params: &ConnectParams,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ConnectError> {
    const MORE: Duration = Duration::from_millis(500);
    let (done, doing) = tokio::sync::oneshot::channel();
    let started = std::thread::Builder::new().name("connect".to_owned()).spawn(move || {
        // Nobody may be left to take it.
        let _ = done.send(work());
    });
    if let Err(error) = started {
        return Err(ConnectError::new(params, ConnectFailure::Other, error.to_string()));
    }
    let late = |limit: Duration| {
        let detail = format!("no answer within {} s", limit.as_secs());
        ConnectError::new(params, ConnectFailure::Timeout, detail)
    };
    let lost = |_| ConnectError::new(params, ConnectFailure::Other, "its thread ended");
    match params.connect_timeout() {
        None => doing.await.map_err(lost),
        Some(limit) => match tokio::time::timeout(limit + MORE, doing).await {
            Err(_) => Err(late(limit)),
            Ok(done) => done.map_err(lost),
        },
    }
}

/// Sorts an error of login.
fn explain(params: &ConnectParams, error: &WireError) -> ConnectError {
    use ConnectFailure as F;
    let by_kind = |kind: io::ErrorKind| match kind {
        io::ErrorKind::ConnectionRefused => F::Refused,
        io::ErrorKind::NotFound if matches!(params.host(), Host::Unix(_)) => F::NoSocket,
        io::ErrorKind::PermissionDenied => F::Forbidden,
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => F::Timeout,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => F::Unreachable,
        _ => F::Other,
    };
    let (failure, detail) = match error {
        WireError::Server(said) => {
            let failure = match said.code.as_str() {
                "28P01" => F::WrongPassword,
                "28000" => F::NotAuthorized,
                "3D000" => F::NoSuchDatabase,
                "53300" => F::TooManyConnections,
                "57P03" => F::NotReady,
                _ => F::Other,
            };
            (failure, format!("{} ({})", said.message, said.code))
        }
        WireError::Connect { source, .. } => (by_kind(source.kind()), source.to_string()),
        WireError::UnknownHost { source, .. } => (F::UnknownHost, source.to_string()),
        WireError::Timeout { limit, .. } => {
            (F::Timeout, format!("no answer within {} s", limit.as_secs()))
        }
        WireError::Io(source) => (by_kind(source.kind()), source.to_string()),
        WireError::PasswordNeeded { .. } => (F::PasswordMissing, "password missing".to_owned()),
        WireError::Tls(why) => {
            let (failure, detail) = (F::Tls, why.to_string());
            return ConnectError { failure, address: params.address(), detail, hint: why.hint() };
        }
        WireError::Refused(why) => (F::NotAsRequired, why.clone()),
        other => (F::Other, other.to_string()),
    };
    ConnectError::new(params, failure, detail)
}

fn hint(failure: ConnectFailure) -> &'static str {
    match failure {
        ConnectFailure::Refused => "check that the server runs, and listens on this host and port",
        ConnectFailure::NoSocket => {
            "check that the server runs, and that host names the directory of its socket (unix_socket_directories)"
        }
        ConnectFailure::Forbidden => {
            "the socket belongs to another user: connect by host name, or run as a user who may use it"
        }
        ConnectFailure::UnknownHost => "check the host's name",
        ConnectFailure::Timeout => {
            "check host and port, and that no firewall is between; connect_timeout sets the patience"
        }
        ConnectFailure::Silent => "see what the server, or the pooler before it, is busy with",
        ConnectFailure::Unreachable => "check the network",
        ConnectFailure::WrongPassword => {
            "check the password in the connection string, PGPASSWORD or ~/.pgpass"
        }
        ConnectFailure::PasswordMissing => {
            "the server asks for a password: give it in PGPASSWORD or ~/.pgpass"
        }
        ConnectFailure::NotAuthorized => {
            "check that the role exists and that pg_hba.conf lets it in from here"
        }
        ConnectFailure::NoSuchDatabase => "create the database, or name another one",
        ConnectFailure::TooManyConnections => {
            "end some sessions, or raise max_connections or the CONNECTION LIMIT of the role or database"
        }
        ConnectFailure::NotReady => "wait until it is up, and try again",
        ConnectFailure::TooOld => "walwright needs PostgreSQL 14 or later",
        ConnectFailure::Tls => {
            "check sslmode, sslrootcert, sslcert and sslkey, and the server's ssl settings"
        }
        ConnectFailure::NotAsRequired => {
            "nothing was sent to it: check require_auth, channel_binding and sslmode"
        }
        ConnectFailure::Other => "see the server's log",
    }
}
