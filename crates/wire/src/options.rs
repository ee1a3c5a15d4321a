//! How and to whom to connect.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// The directory of its unix socket.
    Unix(PathBuf),
    /// A host name or address, by TCP.
    Tcp(String),
}

/// A password. It never shows in `Debug` output and has no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a password.
    pub fn new(password: impl Into<String>) -> Self {
        Secret(password.into())
    }

    /// The password itself, for authentication only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// When TLS is used and what is verified, as libpq's `sslmode`. TLS is never
/// used on a unix socket, whatever the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// Never.
    Disable,
    /// If the server offers it, without verification; libpq's default.
    #[default]
    Prefer,
    /// Always; verified against the root certificates only when a file is given.
    Require,
    /// Always, and the certificate must be signed by a trusted authority.
    VerifyCa,
    /// As `VerifyCa`, and it must be made out to the host.
    VerifyFull,
}

/// Which certificate authorities are trusted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RootCertificates {
    /// Those of the system (libpq: `sslrootcert=system`).
    #[default]
    System,
    /// Those of a PEM file.
    File(PathBuf),
}

/// Whether SCRAM is bound to the TLS channel, as libpq's `channel_binding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChannelBinding {
    /// Never.
    Disable,
    /// When TLS is used and the server offers it; libpq's default.
    #[default]
    Prefer,
    /// Refuse a server that does not.
    Require,
}

/// The TLS part of [`ConnectOptions`].
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// When and how strictly.
    pub mode: TlsMode,
    /// A configuration made elsewhere, whose judgement of certificates counts
    /// instead of `mode`'s; `roots`, `certificate` and `key` are not read then.
    pub config: Option<Arc<ClientConfig>>,
    /// Whom to trust.
    pub roots: RootCertificates,
    /// PEM file with the client's certificate chain, together with `key`.
    pub certificate: Option<PathBuf>,
    /// PEM file with the client's private key.
    pub key: Option<PathBuf>,
    /// Binding of SCRAM to the channel.
    pub channel_binding: ChannelBinding,
}

/// How and to whom to connect.
#[derive(Debug, Clone)]
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
    /// TLS.
    pub tls: TlsOptions,
    /// Shown in `pg_stat_activity`.
    pub application_name: String,
    /// Limit for socket, TLS and authentication together; `None` waits for ever.
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
