//! Opening a control connection, and saying in one sentence why it failed.

use std::io;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::params::{ChannelBinding, ConnectParams, Host, SslMode};
use super::tls::tls_client_config;
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
        Self { failure, address: params.address(), hint: hint(failure, &detail), detail }
    }
}

/// Opens a connection and spawns the task that serves it, which ends with the
/// client. Needs a tokio runtime.
pub async fn connect(params: &ConnectParams) -> Result<Client, ConnectError> {
    connect_versioned(params).await.map(|(client, _)| client)
}

/// Opens a connection and tells the server's version. A server older than
/// PostgreSQL 14 is an error.
pub async fn connect_versioned(
    params: &ConnectParams,
) -> Result<(Client, PgVersion), ConnectError> {
    let (client, said) = match params.connect_timeout {
        None => attempts(params).await?,
        Some(limit) => tokio::time::timeout(limit, attempts(params)).await.map_err(|_| {
            let detail = format!("no answer within {} s", limit.as_secs());
            ConnectError::new(params, ConnectFailure::Timeout, detail)
        })??,
    };
    let version = match said.as_deref().and_then(PgVersion::parse) {
        Some(version) => version,
        None => {
            let detail = format!("it calls its version {:?}", said.unwrap_or_default());
            return Err(ConnectError::new(params, ConnectFailure::Other, detail));
        }
    };
    if version < PgVersion::OLDEST_SUPPORTED {
        let detail = format!("it is PostgreSQL {version}");
        return Err(ConnectError::new(params, ConnectFailure::TooOld, detail));
    }
    Ok((client, version))
}

/// One way to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    /// TLS, or plain if the server says it has none.
    TlsIfOffered,
    Tls,
}

async fn attempts(params: &ConnectParams) -> Result<(Client, Option<String>), ConnectError> {
    // As libpq: "allow" and "prefer" have a second way after a failed
    // handshake or a refusal by pg_hba.conf.
    let (first, second) = match (&params.host, params.ssl_mode) {
        (Host::Unix(_), _) | (_, SslMode::Disable) => (Way::Plain, None),
        (_, SslMode::Allow) => (Way::Plain, Some(Way::Tls)),
        (_, SslMode::Prefer) => (Way::TlsIfOffered, Some(Way::Plain)),
        (_, SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull) => (Way::Tls, None),
    };
    let error = match attempt(params, first).await {
        Ok(connected) => return Ok(connected),
        Err(error) => error,
    };
    let worth_another =
        matches!(error.failure, ConnectFailure::Tls | ConnectFailure::NotAuthorized);
    match second {
        // The second failure would hide the cause that matters, the first.
        Some(way) if worth_another => attempt(params, way).await.map_err(|_| error),
        _ => Err(error),
    }
}

async fn attempt(
    params: &ConnectParams,
    way: Way,
) -> Result<(Client, Option<String>), ConnectError> {
    let mut config = config(params);
    let tls = match way {
        Way::Plain => {
            config.ssl_mode(tokio_postgres::config::SslMode::Disable);
            None
        }
        Way::TlsIfOffered => {
            config.ssl_mode(tokio_postgres::config::SslMode::Prefer);
            tls_client_config(params).map_err(|error| tls_error(params, &error))?
        }
        Way::Tls => {
            config.ssl_mode(tokio_postgres::config::SslMode::Require);
            tls_client_config(params).map_err(|error| tls_error(params, &error))?
        }
    };
    let failed = |error| explain(params, &error);
    match tls {
        None => {
            let (client, connection) = config.connect(NoTls).await.map_err(failed)?;
            let version = connection.parameter("server_version").map(str::to_owned);
            serve(connection);
            Ok((client, version))
        }
        Some(tls) => {
            let tls = MakeRustlsConnect::new(tls.as_ref().clone());
            let (client, connection) = config.connect(tls).await.map_err(failed)?;
            let version = connection.parameter("server_version").map(str::to_owned);
            serve(connection);
            Ok((client, version))
        }
    }
}

fn serve(connection: impl Future<Output = Result<(), tokio_postgres::Error>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            // Whoever uses the client is told by their own call.
            tracing::debug!(%error, "a control connection ended");
        }
    });
}

fn config(params: &ConnectParams) -> Config {
    let mut config = Config::new();
    match &params.host {
        Host::Unix(dir) => config.host_path(dir),
        Host::Tcp(name) => config.host(name),
    };
    if let Some(addr) = params.hostaddr {
        config.hostaddr(addr);
    }
    config
        .port(params.port)
        .user(&params.user)
        .dbname(&params.dbname)
        .application_name(&params.application_name)
        .channel_binding(match params.channel_binding {
            ChannelBinding::Disable => tokio_postgres::config::ChannelBinding::Disable,
            ChannelBinding::Prefer => tokio_postgres::config::ChannelBinding::Prefer,
            ChannelBinding::Require => tokio_postgres::config::ChannelBinding::Require,
        });
    if let Some(password) = &params.password {
        config.password(password.expose());
    }
    if let Some(options) = &params.options {
        config.options(options);
    }
    config
}

fn tls_error(params: &ConnectParams, error: &super::tls::TlsError) -> ConnectError {
    ConnectError::new(params, ConnectFailure::Tls, error.to_string())
}

/// Sorts an error of the client library.
fn explain(params: &ConnectParams, error: &tokio_postgres::Error) -> ConnectError {
    use ConnectFailure as F;
    if let Some(db) = error.as_db_error() {
        let code = db.code();
        let failure = if *code == SqlState::INVALID_PASSWORD {
            F::WrongPassword
        } else if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION {
            F::NotAuthorized
        } else if *code == SqlState::INVALID_CATALOG_NAME {
            F::NoSuchDatabase
        } else if *code == SqlState::TOO_MANY_CONNECTIONS {
            F::TooManyConnections
        } else if *code == SqlState::CANNOT_CONNECT_NOW {
            F::NotReady
        } else {
            F::Other
        };
        return ConnectError::new(params, failure, format!("{} ({})", db.message(), code.code()));
    }
    // The library has no public kinds, so its causes and words must do.
    let mut cause: &dyn std::error::Error = error;
    let mut io_kind = None;
    let mut tls = error.to_string().contains("TLS");
    while let Some(next) = cause.source() {
        cause = next;
        tls |= cause.is::<rustls::Error>();
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            io_kind = Some(error.kind());
            tls |= error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
        }
    }
    let detail = cause.to_string();
    let failure = if tls {
        F::Tls
    } else if detail == "password missing" {
        F::PasswordMissing
    } else if detail.contains("failed to lookup address") {
        F::UnknownHost
    } else {
        match io_kind {
            Some(io::ErrorKind::ConnectionRefused) => F::Refused,
            Some(io::ErrorKind::NotFound) => F::NoSocket,
            Some(io::ErrorKind::PermissionDenied) => F::Forbidden,
            Some(io::ErrorKind::TimedOut) => F::Timeout,
            Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => {
                F::Unreachable
            }
            _ => F::Other,
        }
    };
    ConnectError::new(params, failure, detail)
}

fn hint(failure: ConnectFailure, detail: &str) -> &'static str {
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
            "raise max_connections, or end some of the server's sessions"
        }
        ConnectFailure::NotReady => "wait until it is up, and try again",
        ConnectFailure::TooOld => "walwright needs PostgreSQL 14 or later",
        ConnectFailure::Tls => tls_hint(detail),
        ConnectFailure::Other => "see the server's log",
    }
}

fn tls_hint(detail: &str) -> &'static str {
    let any = |needles: &[&str]| needles.iter().any(|needle| detail.contains(needle));
    if any(&["server does not support TLS"]) {
        "turn on ssl on the server, or use sslmode=prefer or disable"
    } else if any(&["UnknownIssuer", "BadSignature"]) {
        // A bad signature is what a root of the same name with another key gives.
        "the server's certificate is not signed by a trusted root: name the right one in sslrootcert"
    } else if any(&["not valid for name", "NotValidForName"]) {
        "the certificate is for another host: connect by the name in its subjectAltName, or use sslmode=verify-ca"
    } else if any(&["expired", "Expired"]) {
        "the server's certificate has expired: renew it"
    } else if any(&["UnsupportedCertVersion"]) {
        "the server's certificate is of X.509 version 1: make it anew with a subjectAltName"
    } else {
        "check sslmode, sslrootcert, sslcert and sslkey, and the server's ssl settings"
    }
}
