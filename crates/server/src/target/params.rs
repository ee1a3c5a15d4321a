//! Everything needed to open a connection, with every default filled in.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use walwright_wire::{
    ChannelBinding, Host, RequireAuth, RootCert, Secret, SslMode, SslNegotiation,
};

/// What connections call themselves unless told otherwise.
pub(crate) const APPLICATION_NAME: &str = "walwright";

/// How long connecting may take when nobody said. libpq would then wait without
/// limit, which for a program that runs unattended means for ever.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// How to reach a server, as whom, and which database.
///
/// `Debug` hides the password; [`ConnectParams::address`] is the form for
/// people, without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectParams {
    pub(crate) host: Host,
    pub(crate) hostaddr: Option<IpAddr>,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) dbname: String,
    pub(crate) password: Option<Secret>,
    pub(crate) require_auth: RequireAuth,
    pub(crate) ssl_mode: SslMode,
    pub(crate) ssl_negotiation: SslNegotiation,
    pub(crate) root_cert: RootCert,
    pub(crate) client_cert: Option<PathBuf>,
    pub(crate) client_key: Option<PathBuf>,
    pub(crate) channel_binding: ChannelBinding,
    pub(crate) application_name: String,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) options: Option<String>,
    pub(crate) warnings: Vec<String>,
}

impl ConnectParams {
    /// By unix socket, without a password.
    pub fn unix_socket(dir: &Path, port: u16, user: &str, dbname: &str) -> Self {
        Self::new(Host::Unix(dir.to_owned()), port, user, dbname)
    }

    /// By TCP, with TLS where the server offers it and without a password.
    pub fn tcp(host: &str, port: u16, user: &str, dbname: &str) -> Self {
        Self::new(Host::Tcp(host.to_owned()), port, user, dbname)
    }

    pub(crate) fn new(host: Host, port: u16, user: &str, dbname: &str) -> Self {
        Self {
            host,
            hostaddr: None,
            port,
            user: user.to_owned(),
            dbname: dbname.to_owned(),
            password: None,
            require_auth: RequireAuth::default(),
            ssl_mode: SslMode::default(),
            ssl_negotiation: SslNegotiation::default(),
            root_cert: RootCert::None,
            client_cert: None,
            client_key: None,
            channel_binding: ChannelBinding::default(),
            application_name: APPLICATION_NAME.to_owned(),
            connect_timeout: Some(CONNECT_TIMEOUT),
            options: None,
            warnings: Vec::new(),
        }
    }

    /// The same with a password.
    pub fn with_password(mut self, password: Secret) -> Self {
        self.password = Some(password);
        self
    }

    /// The same for another database.
    pub fn with_dbname(mut self, dbname: &str) -> Self {
        self.dbname = dbname.to_owned();
        self
    }

    /// The same for another user; the password stays.
    pub fn with_user(mut self, user: &str) -> Self {
        self.user = user.to_owned();
        self
    }

    /// The same under another application name, which `pg_stat_activity` shows.
    pub fn with_application_name(mut self, name: &str) -> Self {
        self.application_name = name.to_owned();
        self
    }

    /// The same with more command-line options for the backend, after those there
    /// are: `-c name=value`, with a backslash before spaces and backslashes in a
    /// value. Settings given so belong to the session from its start: a pooler
    /// that cannot honour them refuses the connection, and none is left behind in
    /// a session that it lends to others.
    pub fn with_options(mut self, options: &str) -> Self {
        self.options = Some(match self.options {
            Some(before) => format!("{before} {options}"),
            None => options.to_owned(),
        });
        self
    }

    /// Where the server listens.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The host's name, or the directory of the socket, as a connection string has it.
    pub fn host_keyword(&self) -> String {
        match &self.host {
            Host::Unix(directory) => directory.display().to_string(),
            Host::Tcp(name) => name.clone(),
        }
    }

    /// Host, port, role and database as a connection string of keywords and values, without the
    /// password.
    pub fn keywords(&self) -> String {
        format!(
            "host={} port={} user={} dbname={}",
            quoted(&self.host_keyword()),
            self.port,
            quoted(&self.user),
            quoted(&self.dbname)
        )
    }

    /// The address to use instead of looking up the host's name.
    pub fn hostaddr(&self) -> Option<IpAddr> {
        self.hostaddr
    }

    /// The port; for a unix socket it is part of the socket's name.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path of the unix socket, where there is one.
    pub fn socket_path(&self) -> Option<PathBuf> {
        match &self.host {
            Host::Unix(dir) => Some(dir.join(format!(".s.PGSQL.{}", self.port))),
            Host::Tcp(_) => None,
        }
    }

    /// The role.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The database.
    pub fn dbname(&self) -> &str {
        &self.dbname
    }

    /// The password, if there is one.
    pub fn password(&self) -> Option<&Secret> {
        self.password.as_ref()
    }

    /// The ways of authentication the server may ask for.
    pub fn require_auth(&self) -> &RequireAuth {
        &self.require_auth
    }

    /// When TLS is used; has no effect on a unix socket.
    pub fn ssl_mode(&self) -> SslMode {
        self.ssl_mode
    }

    /// How TLS begins.
    pub fn ssl_negotiation(&self) -> SslNegotiation {
        self.ssl_negotiation
    }

    /// Which certificates are trusted.
    pub fn root_cert(&self) -> &RootCert {
        &self.root_cert
    }

    /// The client's certificate, a PEM file.
    pub fn client_cert(&self) -> Option<&Path> {
        self.client_cert.as_deref()
    }

    /// The key of the client's certificate, a PEM file.
    pub fn client_key(&self) -> Option<&Path> {
        self.client_key.as_deref()
    }

    /// Whether SCRAM is tied to the TLS channel.
    pub fn channel_binding(&self) -> ChannelBinding {
        self.channel_binding
    }

    /// What the connection calls itself.
    pub fn application_name(&self) -> &str {
        &self.application_name
    }

    /// How long connecting may take; `None` is without limit (`connect_timeout=0`,
    /// as in libpq). 15 s where nobody said, where libpq has no limit.
    pub fn connect_timeout(&self) -> Option<Duration> {
        self.connect_timeout
    }

    /// Command-line options for the backend (`options`, `PGOPTIONS`).
    pub fn options(&self) -> Option<&str> {
        self.options.as_deref()
    }

    /// What was found odd while the parameters were put together, for people
    /// to read: a password file others can read, an option without effect.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The address for people: user, host, port and database, no password.
    pub fn address(&self) -> String {
        self.to_string()
    }
}

/// A value as a connection string of keywords and values has it (libpq, "Keyword/Value
/// Connection Strings").
pub fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

impl fmt::Display for ConnectParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "database {:?} as {:?} at ", self.dbname, self.user)?;
        match &self.host {
            Host::Unix(dir) => write!(f, "{}/.s.PGSQL.{}", dir.display(), self.port),
            Host::Tcp(name) if name.contains(':') => write!(f, "[{name}]:{}", self.port),
            Host::Tcp(name) => write!(f, "{name}:{}", self.port),
        }
    }
}
