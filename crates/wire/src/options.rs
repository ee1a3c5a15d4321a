//! How and to whom to connect.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::{RequireAuth, ScramKeys, Secret};

/// Where the server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// The directory of its unix socket.
    Unix(PathBuf),
    /// A host name or address.
    Tcp(String),
}

/// When TLS is used and what is checked; the meanings are libpq's `sslmode`. TLS is
/// never used on a unix socket, whatever the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SslMode {
    /// Never.
    Disable,
    /// Only if the server insists.
    Allow,
    /// If the server offers it; the default.
    #[default]
    Prefer,
    /// Always; the certificate is checked only if a root certificate is given.
    Require,
    /// Always, and the certificate must be signed by a trusted root.
    VerifyCa,
    /// As `verify-ca`, and the certificate must name the host.
    VerifyFull,
}

impl FromStr for SslMode {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "disable" => Self::Disable,
            "allow" => Self::Allow,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => return Err(()),
        })
    }
}

/// How TLS begins; libpq's `sslnegotiation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SslNegotiation {
    /// The client asks for it in PostgreSQL's protocol first; the default.
    #[default]
    Postgres,
    /// At once, as PostgreSQL 17 and later understand; saves a round trip.
    Direct,
}

impl FromStr for SslNegotiation {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "postgres" => Self::Postgres,
            "direct" => Self::Direct,
            _ => return Err(()),
        })
    }
}

/// Which certificates are trusted; libpq's `sslrootcert`. Where there are any, they
/// are checked in every mode that uses TLS, as libpq does: `require` and less then
/// verify the chain as `verify-ca` does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RootCert {
    /// None: none was named and `~/.postgresql/root.crt` does not exist.
    #[default]
    None,
    /// Those of the operating system (`sslrootcert=system`).
    System,
    /// Those in a PEM file.
    File(PathBuf),
}

/// Whether SCRAM is tied to the TLS channel; libpq's `channel_binding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChannelBinding {
    /// Never.
    Disable,
    /// Where possible; the default.
    #[default]
    Prefer,
    /// Always: a server that cannot is refused.
    Require,
}

impl FromStr for ChannelBinding {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "disable" => Self::Disable,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            _ => return Err(()),
        })
    }
}

/// The TLS part of [`ConnectOptions`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// When and how strictly.
    pub mode: SslMode,
    /// How it begins.
    pub negotiation: SslNegotiation,
    /// Whom to trust.
    pub roots: RootCert,
    /// PEM file with the client's certificate chain, together with `key`.
    pub certificate: Option<PathBuf>,
    /// PEM file with the client's private key; has no effect without `certificate`.
    pub key: Option<PathBuf>,
    /// Binding of SCRAM to the channel.
    pub channel_binding: ChannelBinding,
}

/// How and to whom to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Where the server listens.
    pub host: Host,
    /// The address to connect to by TCP instead of looking up the host, which
    /// is still the name its certificate must bear.
    pub hostaddr: Option<IpAddr>,
    /// Its port; also part of the name of a unix socket.
    pub port: u16,
    /// User to log in as.
    pub user: String,
    /// Database to use.
    pub dbname: String,
    /// Password, if one is known.
    pub password: Option<Secret>,
    /// Keys that take the password's place where the server asks for SCRAM.
    pub scram_keys: Option<ScramKeys>,
    /// Ways of authentication the server may ask for.
    pub require_auth: RequireAuth,
    /// TLS.
    pub tls: TlsOptions,
    /// Shown in `pg_stat_activity`.
    pub application_name: String,
    /// Limit for socket, TLS and authentication together; `None` waits for ever.
    /// Looking up a host's name is outside it: the system's resolver has its own.
    pub connect_timeout: Option<Duration>,
    /// Further run-time parameters of the startup message, such as `options`.
    pub parameters: Vec<(String, String)>,
}

impl ConnectOptions {
    /// Options with libpq's defaults for everything not named, and a connect
    /// timeout of 10 s (libpq has none).
    pub fn new(host: Host, port: u16, user: impl Into<String>, dbname: impl Into<String>) -> Self {
        ConnectOptions {
            host,
            hostaddr: None,
            port,
            user: user.into(),
            dbname: dbname.into(),
            password: None,
            scram_keys: None,
            require_auth: RequireAuth::default(),
            tls: TlsOptions::default(),
            application_name: "walwright".into(),
            connect_timeout: Some(Duration::from_secs(10)),
            parameters: Vec::new(),
        }
    }

    /// The socket path, or host and port: for messages to people.
    pub fn target(&self) -> String {
        match &self.host {
            Host::Unix(_) => self.socket_path().display().to_string(),
            Host::Tcp(host) if host.contains(':') => format!("[{host}]:{}", self.port),
            Host::Tcp(host) => format!("{host}:{}", self.port),
        }
    }

    /// `DIR/.s.PGSQL.PORT`; of no meaning for TCP, where it is relative to nothing.
    pub(crate) fn socket_path(&self) -> PathBuf {
        let directory = match &self.host {
            Host::Unix(directory) => directory.clone(),
            Host::Tcp(_) => PathBuf::new(),
        };
        directory.join(format!(".s.PGSQL.{}", self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_never_shows_in_debug_output() {
        let mut options = ConnectOptions::new(Host::Tcp("db".into()), 5432, "alice", "app");
        options.password = Some(Secret::new("open sesame"));
        assert!(!format!("{options:#?}").contains("sesame"));
    }

    #[test]
    fn targets_read_as_people_write_them() {
        let tcp = |host: &str| ConnectOptions::new(Host::Tcp(host.into()), 5432, "u", "d").target();
        assert_eq!(tcp("db.example"), "db.example:5432");
        assert_eq!(tcp("::1"), "[::1]:5432");
        let unix = ConnectOptions::new(Host::Unix("/run/pg".into()), 5433, "u", "d");
        assert_eq!(unix.target(), "/run/pg/.s.PGSQL.5433");
    }
}
