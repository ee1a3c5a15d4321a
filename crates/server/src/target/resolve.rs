//! Putting connection parameters together as libpq does: the connection
//! string, then the service, then the environment, then the defaults.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{Uid, User};
use walwright_wire::{Host, RequireAuthError, RootCert, Secret, SslMode, SslNegotiation};

use super::conninfo::{self, ConninfoError, Pairs};
use super::params::{APPLICATION_NAME, ConnectParams};
use super::{passfile, service};

/// Connection parameters that cannot be used. Never holds a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The connection string cannot be read.
    #[error(transparent)]
    Conninfo(#[from] ConninfoError),
    /// A parameter libpq does not have either; without its name where a
    /// password is given too, since a password with a space and a "=" looks
    /// like one.
    #[error("there is no connection parameter {}: see the list in PostgreSQL's manual under \"Parameter Key Words\"", shown(.0))]
    Unknown(Option<String>),
    /// A parameter that would not be honoured.
    #[error("the connection parameter {name} is not supported: {advice}")]
    Unsupported {
        /// Its name.
        name: String,
        /// What to do.
        advice: &'static str,
    },
    /// A value that makes no sense.
    #[error("{value:?} is no value for {name}: {expected}")]
    Value {
        /// The parameter.
        name: &'static str,
        /// What was given.
        value: String,
        /// What would do.
        expected: &'static str,
    },
    /// A list of authentication methods that makes no sense.
    #[error(
        "{value:?} is no value for require_auth: {source}; give names out of password, md5, gss, sspi, scram-sha-256, oauth and none with commas between, all or none of them with \"!\" before"
    )]
    RequireAuth {
        /// What was given.
        value: String,
        /// What is wrong with it.
        source: RequireAuthError,
    },
    /// A mode of TLS that another parameter does not allow; the sentence is libpq's.
    #[error("weak sslmode {mode:?} may not be used with {with} (use {instead})")]
    WeakSslMode {
        /// The mode.
        mode: String,
        /// The other parameter.
        with: &'static str,
        /// The modes that will do.
        instead: &'static str,
    },
    /// More than one host.
    #[error(
        "the connection parameters name several hosts: name the one server that is to be measured"
    )]
    SeveralHosts,
    /// Lists that do not fit each other.
    #[error("{name} names {given} where {wanted} hosts are named: give one for each")]
    HostCount {
        /// The parameter.
        name: &'static str,
        /// How many it names.
        given: usize,
        /// How many hosts there are.
        wanted: usize,
    },
    /// The service is not defined.
    #[error("the service {name:?} is not defined in {}", places(searched))]
    NoService {
        /// The service.
        name: String,
        /// The files looked at.
        searched: Vec<PathBuf>,
    },
    /// Nobody to connect as.
    #[error("no user is named, and the current user id has no name: give user=… or PGUSER")]
    NoUser,
}

fn shown(name: &Option<String>) -> String {
    match name {
        Some(name) => format!("{name:?}"),
        None => "of the name given (a password with spaces must be in single quotes)".to_owned(),
    }
}

fn places(searched: &[PathBuf]) -> String {
    let shown: Vec<String> = searched.iter().map(|path| path.display().to_string()).collect();
    if shown.is_empty() {
        "any file, since neither HOME nor PGSERVICEFILE is set".to_owned()
    } else {
        shown.join(" or ")
    }
}

/// What parameters are taken from besides the connection string.
/// It has no `Debug`: `PGPASSWORD` is among the environment.
#[derive(Clone, Default)]
pub(crate) struct Surroundings {
    /// The environment.
    pub(crate) env: Pairs,
    /// The home directory.
    pub(crate) home: Option<PathBuf>,
    /// The name of the current user.
    pub(crate) os_user: Option<String>,
    /// Directories a local server's socket may be in.
    pub(crate) socket_dirs: Vec<PathBuf>,
}

impl Surroundings {
    /// Those of this process.
    fn current() -> Self {
        Self {
            env: std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .filter(|(name, _)| name.starts_with("PG"))
                .collect(),
            home: std::env::home_dir().filter(|home| !home.as_os_str().is_empty()),
            os_user: User::from_uid(Uid::effective()).ok().flatten().map(|user| user.name),
            socket_dirs: default_socket_dirs(),
        }
    }

    fn var(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// Where servers put their sockets: Debian's and Fedora's place, and the one
/// PostgreSQL is built with by default. libpq's file formats call a connection
/// there "localhost".
fn default_socket_dirs() -> Vec<PathBuf> {
    vec![PathBuf::from("/var/run/postgresql"), PathBuf::from("/tmp")]
}

/// Parameters read from the environment: libpq's name of the variable, and the
/// keyword.
const VARIABLES: [(&str, &str); 27] = [
    ("PGHOST", "host"),
    ("PGHOSTADDR", "hostaddr"),
    ("PGPORT", "port"),
    ("PGDATABASE", "dbname"),
    ("PGUSER", "user"),
    ("PGPASSWORD", "password"),
    ("PGPASSFILE", "passfile"),
    ("PGSSLMODE", "sslmode"),
    ("PGSSLNEGOTIATION", "sslnegotiation"),
    ("PGSSLROOTCERT", "sslrootcert"),
    ("PGSSLCERT", "sslcert"),
    ("PGSSLKEY", "sslkey"),
    ("PGSSLCERTMODE", "sslcertmode"),
    ("PGSSLCRL", "sslcrl"),
    ("PGSSLCRLDIR", "sslcrldir"),
    ("PGSSLMINPROTOCOLVERSION", "ssl_min_protocol_version"),
    ("PGSSLMAXPROTOCOLVERSION", "ssl_max_protocol_version"),
    ("PGMINPROTOCOLVERSION", "min_protocol_version"),
    ("PGMAXPROTOCOLVERSION", "max_protocol_version"),
    ("PGREQUIREPEER", "requirepeer"),
    ("PGCHANNELBINDING", "channel_binding"),
    ("PGAPPNAME", "application_name"),
    ("PGCONNECT_TIMEOUT", "connect_timeout"),
    ("PGOPTIONS", "options"),
    ("PGREQUIREAUTH", "require_auth"),
    ("PGGSSENCMODE", "gssencmode"),
    ("PGTARGETSESSIONATTRS", "target_session_attrs"),
];

/// Keywords that change how bytes travel and nothing that is measured or
/// trusted: taken, and left to the system's defaults.
const WITHOUT_EFFECT: [&str; 13] = [
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "tcp_user_timeout",
    "sslcompression",
    "sslkeylogfile",
    "sslsni",
    "krbsrvname",
    "gsslib",
    "gssdelegation",
    "load_balance_hosts",
    "client_encoding",
];

/// Keywords that promise something this program would not keep.
const REFUSED: [(&str, &str); 11] = [
    ("sslcrl", "revocation lists are not read, so leave it out"),
    ("sslcrldir", "revocation lists are not read, so leave it out"),
    ("sslpassword", "encrypted keys are not read, so name an unencrypted key in sslkey"),
    ("requirepeer", "leave it out, or connect by TCP with TLS"),
    ("replication", "leave it out, since an ordinary session is needed"),
    ("scram_client_key", "give the password instead"),
    ("scram_server_key", "give the password instead"),
    ("oauth_issuer", "OAuth is not built in"),
    ("oauth_client_id", "OAuth is not built in"),
    ("oauth_client_secret", "OAuth is not built in"),
    ("oauth_scope", "OAuth is not built in"),
];

/// Keywords with a meaning below.
const KEYWORDS: [&str; 23] = [
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "passfile",
    "require_auth",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslcertmode",
    "channel_binding",
    "application_name",
    "fallback_application_name",
    "connect_timeout",
    "options",
    "service",
    "servicefile",
    "gssencmode",
    "target_session_attrs",
];

impl ConnectParams {
    /// From a connection string (URI or keywords; may be absent), the `PG*`
    /// variables, the service file and the password file.
    ///
    /// Differences from libpq: one host only; without a host, the sockets in
    /// `/var/run/postgresql` and `/tmp` are looked for, and failing these
    /// `localhost` is used; without a `connect_timeout`, 15 s instead of no limit
    /// (0 is no limit here too); what libpq would honour and this program would
    /// not is an error, never silently dropped.
    pub fn resolve(dsn: Option<&str>) -> Result<Self, TargetError> {
        Self::resolve_in(dsn, &Surroundings::current())
    }

    /// The same for a connection string that may name several hosts, and say which of their
    /// servers will do (`target_session_attrs`), and for a user in place of the one in it.
    pub fn resolve_hosts(dsn: &str, user: Option<&str>) -> Result<Hosts, TargetError> {
        Hosts::resolve_in(dsn, user, &Surroundings::current())
    }

    pub(crate) fn resolve_in(
        dsn: Option<&str>,
        around: &Surroundings,
    ) -> Result<Self, TargetError> {
        let pairs = match dsn {
            Some(text) => conninfo::parse(text)?,
            None => Pairs::new(),
        };
        let pairs = completed(pairs, around)?;
        let mut warnings = Vec::new();
        check_names(&pairs, &mut warnings)?;
        build(&pairs, around, warnings)
    }
}

/// With what the service and the environment say.
fn completed(mut pairs: Pairs, around: &Surroundings) -> Result<Pairs, TargetError> {
    add_service(&mut pairs, around)?;
    for (variable, name) in VARIABLES {
        if let Some(value) = around.var(variable) {
            pairs.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
    }
    pairs.retain(|_, value| !value.is_empty());
    Ok(pairs)
}

/// The hosts of a connection string, in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    /// One for each host.
    pub params: Vec<ConnectParams>,
    /// `target_session_attrs`, as it is written.
    pub session_attributes: Option<String>,
    /// The database, where one is named.
    pub dbname: Option<String>,
}

impl Hosts {
    pub(crate) fn resolve_in(
        dsn: &str,
        user: Option<&str>,
        around: &Surroundings,
    ) -> Result<Hosts, TargetError> {
        let mut pairs = completed(conninfo::parse(dsn)?, around)?;
        if let Some(user) = user {
            pairs.insert("user".to_owned(), user.to_owned());
        }
        let session_attributes = pairs.remove("target_session_attrs");
        let mut warnings = Vec::new();
        check_names(&pairs, &mut warnings)?;
        let list = |name: &str| -> Vec<&str> {
            pairs.get(name).map(|text| text.split(',').collect()).unwrap_or_default()
        };
        let (names, addresses, ports) = (list("host"), list("hostaddr"), list("port"));
        let count = names.len().max(addresses.len()).max(1);
        for (name, list) in [("host", &names), ("hostaddr", &addresses)] {
            if !list.is_empty() && list.len() != count {
                return Err(TargetError::HostCount { name, given: list.len(), wanted: count });
            }
        }
        if ports.len() > 1 && ports.len() != count {
            return Err(TargetError::HostCount { name: "port", given: ports.len(), wanted: count });
        }
        let params = (0..count).map(|at| {
            let mut pairs = pairs.clone();
            for (name, list) in [("host", &names), ("hostaddr", &addresses), ("port", &ports)] {
                // A single port is that of all hosts.
                let value = list.get(at).or(list.first().filter(|_| list.len() == 1));
                match value.filter(|value| !value.is_empty()) {
                    Some(value) => pairs.insert(name.to_owned(), (*value).to_owned()),
                    None => pairs.remove(name),
                };
            }
            build(&pairs, around, warnings.clone())
        });
        let params = params.collect::<Result<_, _>>()?;
        Ok(Hosts { params, session_attributes, dbname: pairs.get("dbname").cloned() })
    }
}

fn add_service(pairs: &mut Pairs, around: &Surroundings) -> Result<(), TargetError> {
    let named = pairs.get("service").map(String::as_str);
    let Some(name) = named.or(around.var("PGSERVICE")).map(str::to_owned) else {
        return Ok(());
    };
    let mut searched = Vec::new();
    let given = pairs.get("servicefile").map(String::as_str);
    if let Some(file) = given.or(around.var("PGSERVICEFILE")) {
        searched.push(PathBuf::from(file));
    } else if let Some(home) = &around.home {
        searched.push(home.join(".pg_service.conf"));
    }
    if let Some(dir) = around.var("PGSYSCONFDIR") {
        searched.push(Path::new(dir).join("pg_service.conf"));
    }
    let found = searched
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .find_map(|text| service::section(&text, &name));
    let Some(found) = found else {
        return Err(TargetError::NoService { name, searched });
    };
    for (key, value) in found {
        pairs.entry(key).or_insert(value);
    }
    Ok(())
}

fn check_names(pairs: &Pairs, warnings: &mut Vec<String>) -> Result<(), TargetError> {
    for (name, value) in pairs {
        if let Some((_, advice)) = REFUSED.iter().find(|(refused, _)| refused == name) {
            return Err(TargetError::Unsupported { name: name.clone(), advice });
        }
        let harmless = match (name.as_str(), value.as_str()) {
            ("gssencmode", "disable" | "prefer") => true,
            ("target_session_attrs", "any") => true,
            ("client_encoding", "auto" | "utf8" | "UTF8" | "UTF-8" | "utf-8") => true,
            // TLS 1.2 and 1.3 and protocol 3.0 are used.
            ("ssl_min_protocol_version", "TLSv1" | "TLSv1.1" | "TLSv1.2") => true,
            ("ssl_max_protocol_version", "TLSv1.3") => true,
            ("min_protocol_version", "3.0") => true,
            ("max_protocol_version", "3.0" | "3.2" | "latest") => true,
            ("sslcertmode", "require") => {
                return Err(unsupported(
                    name,
                    "leave it out: whether the server asked for the certificate is not checked",
                ));
            }
            ("ssl_min_protocol_version" | "ssl_max_protocol_version", _) => {
                return Err(unsupported(name, "leave it out: TLS 1.2 and 1.3 are used"));
            }
            ("min_protocol_version" | "max_protocol_version", _) => {
                return Err(unsupported(name, "leave it out: protocol 3.0 is used"));
            }
            ("gssencmode", _) => {
                return Err(unsupported(name, "connections are encrypted by TLS: use sslmode"));
            }
            ("target_session_attrs", _) => {
                return Err(unsupported(name, "name the server that is meant"));
            }
            ("client_encoding", _) => return Err(unsupported(name, "leave it out: UTF-8 is used")),
            _ => false,
        };
        if harmless || KEYWORDS.contains(&name.as_str()) {
            continue;
        }
        if WITHOUT_EFFECT.contains(&name.as_str()) {
            warnings.push(format!("the connection parameter {name} has no effect"));
        } else {
            let has_password = pairs.contains_key("password");
            return Err(TargetError::Unknown((!has_password).then(|| name.clone())));
        }
    }
    Ok(())
}

fn unsupported(name: &str, advice: &'static str) -> TargetError {
    TargetError::Unsupported { name: name.to_owned(), advice }
}

fn build(
    pairs: &Pairs,
    around: &Surroundings,
    mut warnings: Vec<String>,
) -> Result<ConnectParams, TargetError> {
    let get = |name: &str| pairs.get(name).map(String::as_str);
    let several = ["host", "hostaddr", "port"]
        .into_iter()
        // A comma in a directory's name is no list; libpq makes it one.
        .any(|name| get(name).is_some_and(|value| value.contains(',')));
    if several {
        return Err(TargetError::SeveralHosts);
    }
    let port = match get("port") {
        None => 5432,
        Some(text) => text
            .trim()
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| value("port", text, "a number from 1 to 65535"))?,
    };
    let hostaddr: Option<IpAddr> = match get("hostaddr") {
        None => None,
        Some(text) => Some(
            text.parse()
                .map_err(|_| value("hostaddr", text, "an IP address; a name belongs in host"))?,
        ),
    };
    let host = match (get("host"), hostaddr) {
        (Some(dir), None) if dir.starts_with('/') => Host::Unix(PathBuf::from(dir)),
        (Some(dir), Some(addr)) if dir.starts_with('/') => Host::Tcp(addr.to_string()),
        (Some(name), _) if name.starts_with('@') => {
            return Err(value("host", name, "sockets in the abstract namespace are not supported"));
        }
        (Some(name), _) => Host::Tcp(name.to_owned()),
        (None, Some(addr)) => Host::Tcp(addr.to_string()),
        (None, None) => default_host(port, around),
    };
    let user = match get("user").or(around.os_user.as_deref()) {
        Some(user) => user.to_owned(),
        None => return Err(TargetError::NoUser),
    };
    let dbname = get("dbname").unwrap_or(&user).to_owned();
    if conninfo::looks_like_conninfo(&dbname) {
        return Err(TargetError::Value {
            name: "dbname",
            value: "(a connection string)".to_owned(),
            expected: "give a connection string with --dsn, and a plain name here",
        });
    }
    let mut params = ConnectParams::new(host, port, &user, &dbname);
    params.hostaddr = hostaddr;
    if let Some(text) = get("sslmode") {
        params.ssl_mode = text.parse().map_err(|()| {
            value("sslmode", text, "one of disable, allow, prefer, require, verify-ca, verify-full")
        })?;
    }
    if let Some(text) = get("sslnegotiation") {
        params.ssl_negotiation =
            text.parse().map_err(|()| value("sslnegotiation", text, "one of postgres, direct"))?;
    }
    if let Some(text) = get("require_auth") {
        params.require_auth = text
            .parse()
            .map_err(|source| TargetError::RequireAuth { value: text.to_owned(), source })?;
    }
    if let Some(text) = get("channel_binding") {
        params.channel_binding = text
            .parse()
            .map_err(|()| value("channel_binding", text, "one of disable, prefer, require"))?;
    }
    if let Some(text) = get("connect_timeout") {
        params.connect_timeout = connect_timeout(text)?;
    }
    params.application_name = get("application_name")
        .or(get("fallback_application_name"))
        .unwrap_or(APPLICATION_NAME)
        .to_owned();
    params.options = get("options").map(str::to_owned);
    add_certificates(&mut params, pairs, around)?;
    if params.ssl_negotiation == SslNegotiation::Direct
        && matches!(params.ssl_mode, SslMode::Disable | SslMode::Allow | SslMode::Prefer)
    {
        return Err(TargetError::WeakSslMode {
            mode: get("sslmode").unwrap_or("prefer").to_owned(),
            with: "sslnegotiation=direct",
            instead: "require, verify-ca or verify-full",
        });
    }
    params.password = match get("password") {
        Some(password) => Some(Secret::new(password)),
        None => password_from_file(&params, pairs, around, &mut warnings),
    };
    params.warnings = warnings;
    Ok(params)
}

fn value(name: &'static str, given: &str, expected: &'static str) -> TargetError {
    TargetError::Value { name, value: given.to_owned(), expected }
}

/// Seconds; zero and less mean no limit, as in libpq.
fn connect_timeout(text: &str) -> Result<Option<Duration>, TargetError> {
    let seconds: i64 =
        text.trim().parse().map_err(|_| value("connect_timeout", text, "a number of seconds"))?;
    Ok(u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs))
}

fn default_host(port: u16, around: &Surroundings) -> Host {
    let socket = format!(".s.PGSQL.{port}");
    around
        .socket_dirs
        .iter()
        .find(|dir| dir.join(&socket).exists())
        .map_or_else(|| Host::Tcp("localhost".to_owned()), |dir| Host::Unix(dir.clone()))
}

fn add_certificates(
    params: &mut ConnectParams,
    pairs: &Pairs,
    around: &Surroundings,
) -> Result<(), TargetError> {
    let get = |name: &str| pairs.get(name).map(String::as_str);
    let in_home = |name: &str| {
        let path = around.home.as_ref()?.join(".postgresql").join(name);
        path.is_file().then_some(path)
    };
    params.root_cert = match get("sslrootcert") {
        Some("system") => {
            // libpq: anybody can get a certificate of a public authority, so
            // the name must be checked as well.
            if let Some(mode) = get("sslmode").filter(|mode| *mode != "verify-full") {
                return Err(TargetError::WeakSslMode {
                    mode: mode.to_owned(),
                    with: "sslrootcert=system",
                    instead: "verify-full",
                });
            }
            params.ssl_mode = SslMode::VerifyFull;
            RootCert::System
        }
        Some(path) => RootCert::File(PathBuf::from(path)),
        None => in_home("root.crt").map_or(RootCert::None, RootCert::File),
    };
    params.client_cert = match get("sslcertmode") {
        Some("disable") => None,
        None | Some("allow") => {
            get("sslcert").map(PathBuf::from).or_else(|| in_home("postgresql.crt"))
        }
        Some(mode) => return Err(value("sslcertmode", mode, "one of disable, allow")),
    };
    params.client_key = get("sslkey").map(PathBuf::from).or_else(|| in_home("postgresql.key"));
    Ok(())
}

fn password_from_file(
    params: &ConnectParams,
    pairs: &Pairs,
    around: &Surroundings,
    warnings: &mut Vec<String>,
) -> Option<Secret> {
    let path = match pairs.get("passfile") {
        Some(path) => PathBuf::from(path),
        None => around.home.as_ref()?.join(".pgpass"),
    };
    let hosts = match &params.host {
        Host::Tcp(name) => vec![name.clone()],
        Host::Unix(dir) => {
            let mut names = vec![dir.to_string_lossy().into_owned()];
            if around.socket_dirs.contains(dir) {
                names.push("localhost".to_owned());
            }
            names
        }
    };
    let wanted = passfile::Wanted {
        hosts: &hosts,
        port: params.port,
        dbname: &params.dbname,
        user: &params.user,
    };
    passfile::look_up(&path, wanted, warnings)
}

#[cfg(test)]
mod tests;
