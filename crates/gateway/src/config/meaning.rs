//! From what is written to what is done.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use walwright_wire::Secret;

use super::error::line_of;
use super::{AuthType, ConfigError, DatabaseTable, Dsn, File, Said, Time};
use crate::rules::{ClientCertificate, Method, Rules, UserMaps};
use crate::users::Question;
use crate::{
    Authentication, Database, Limits, Listen, Options, PoolMode, Pooling, PoolingChoice, Reads,
    Server, Stored, Tls, User, Users, parse_userlist,
};

/// A connection string that was read.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The server.
    pub server: Server,
    /// The database, where one is named.
    pub dbname: Option<String>,
    /// What is odd.
    pub warnings: Vec<String>,
}

/// Reads a connection string, with a user in place of the one in it.
pub type Resolve<'a> = &'a dyn Fn(&str, Option<&str>) -> Result<Resolved, String>;

/// What a configuration means.
#[derive(Debug, Clone)]
pub struct Config {
    /// What the gateway is to do.
    pub options: Options,
    /// What is odd about it, for people to read.
    pub warnings: Vec<String>,
}

impl File {
    /// Reads a file, and gives its text too, which tells lines of errors.
    ///
    /// # Errors
    /// When it cannot be read, or something in it is not known.
    pub fn read(path: &Path) -> Result<(File, String), ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::of_file(path, error.to_string()))?;
        Ok((File::parse(path, &text)?, text))
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// When something in it is not known.
    pub fn parse(path: &Path, text: &str) -> Result<File, ConfigError> {
        toml::from_str(text).map_err(|error| ConfigError::of_toml(path, text, &error))
    }

    /// What it means. `source` is the file that it was read from and its text: paths in it are
    /// relative to its directory.
    ///
    /// # Errors
    /// For the first thing that cannot be done.
    pub fn config(
        &self,
        source: Option<(&Path, &str)>,
        resolve: Resolve<'_>,
    ) -> Result<Config, ConfigError> {
        Meaning { file: self, source, resolve, warnings: Vec::new() }.config()
    }
}

struct Meaning<'a> {
    file: &'a File,
    source: Option<(&'a Path, &'a str)>,
    resolve: Resolve<'a>,
    warnings: Vec<String>,
}

impl Meaning<'_> {
    fn config(mut self) -> Result<Config, ConfigError> {
        let file = self.file;
        let databases = self.databases()?;
        let Some(first) = databases.first() else {
            return Err(self.whole(
                "no server is named: write server = \"postgres://user@host\", or a table [databases.NAME] with one",
            ));
        };
        let Some(address) = first.server.addresses.first() else {
            return Err(self.whole("a server has no address"));
        };
        let mut options = Options::new(address.clone());
        options.databases = databases;
        options.listen = self.listen()?;
        if let Some(workers) = &file.workers {
            options.workers = self.number(workers, "workers", 1..=64)?;
        }
        options.pooling = Pooling {
            mode: file.pooling.mode.unwrap_or_default(),
            size: match &file.pooling.size {
                Some(size) => self.number(size, "size", 1..=10_000)?,
                None => Pooling::default().size,
            },
            reads: file.pooling.reads.unwrap_or_default(),
        };
        if let Some(spread) = &file.pooling.spread {
            options.spread = self.number(spread, "spread", 1..=10_000)?;
        }
        if let Some(depth) = &file.pooling.depth {
            options.depth = self.number(depth, "depth", 1..=1_000)?;
        }
        options.limits = self.limits()?;
        options.users = self.users()?;
        options.tls = self.tls()?;
        options.authentication = self.authentication(&options.listen)?;
        if !file.admin_users.is_empty() {
            options.admin_users.clone_from(&file.admin_users);
        }
        options.stats_users.clone_from(&file.stats_users);
        options.metrics = match &file.metrics.listen {
            None => None,
            Some(said) => Some(said.value.parse().map_err(|_| {
                self.at(said, format!(
                    "\"{}\" is no address: write an address with its port, such as 127.0.0.1:9187",
                    said.value
                ))
            })?),
        };
        self.look_for_oddities(&options);
        Ok(Config { options, warnings: self.warnings })
    }

    fn whole(&self, what: impl Into<String>) -> ConfigError {
        ConfigError {
            file: self.source.map(|(path, _)| path.to_owned()),
            line: None,
            what: what.into(),
        }
    }

    fn at<T>(&self, said: &Said<T>, what: impl Into<String>) -> ConfigError {
        match (self.source, &said.at) {
            (Some((path, text)), Some(at)) => ConfigError::in_line(path, line_of(text, at), what),
            _ => ConfigError { file: None, line: None, what: what.into() },
        }
    }

    /// A path, relative to the file's directory where it stands there.
    fn path(&self, said: &Said<PathBuf>) -> PathBuf {
        let directory =
            self.source.and_then(|(path, _)| path.parent()).filter(|_| said.at.is_some());
        directory.map_or_else(|| said.value.clone(), |directory| directory.join(&said.value))
    }

    fn text_of(&self, said: &Said<PathBuf>) -> Result<(PathBuf, String), ConfigError> {
        let path = self.path(said);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok((path, text)),
            Err(error) => Err(self.at(said, format!("cannot read {}: {error}", path.display()))),
        }
    }

    fn number(
        &self,
        said: &Said<usize>,
        name: &str,
        range: std::ops::RangeInclusive<usize>,
    ) -> Result<usize, ConfigError> {
        if range.contains(&said.value) {
            return Ok(said.value);
        }
        let (low, high) = (range.start(), range.end());
        Err(self.at(said, format!("{name} is from {low} to {high}, not {}", said.value)))
    }

    fn listen(&self) -> Result<Vec<Listen>, ConfigError> {
        if self.file.listen.is_empty() {
            return Ok(vec![Listen::Tcp(([127, 0, 0, 1], 6432).into())]);
        }
        let place =
            |said: &Said<String>| said.value.parse().map_err(|what: String| self.at(said, what));
        self.file.listen.iter().map(place).collect()
    }

    fn databases(&mut self) -> Result<Vec<Database>, ConfigError> {
        let file = self.file;
        let mut databases = Vec::new();
        if let Some(dsn) = &file.server
            && !file.databases.contains_key("*")
        {
            databases.push(self.database("*", &DatabaseTable::default(), dsn)?);
        }
        for (name, table) in &file.databases {
            let Some(dsn) = table.server.as_ref().or(file.server.as_ref()) else {
                return Err(self.whole(format!(
                    "the database \"{name}\" has no server: write server = \"postgres://user@host\" in its table, or before all tables for every database"
                )));
            };
            databases.push(self.database(name, table, dsn)?);
        }
        // Who flushes and asks for verifiers logs in as the first database of a server has it:
        // rather as the connection string's own user.
        databases.sort_by_key(|database| database.forced_user);
        Ok(databases)
    }

    fn database(
        &mut self,
        name: &str,
        table: &DatabaseTable,
        dsn: &Said<Dsn>,
    ) -> Result<Database, ConfigError> {
        let user = table.user.as_ref().map(|user| user.value.as_str());
        let found = (self.resolve)(&dsn.value.0, user).map_err(|what| self.at(dsn, what))?;
        for warning in found.warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        let mut server = found.server;
        if let Some(password) = self.password(table)? {
            for address in &mut server.addresses {
                address.password = Some(password.clone());
            }
        }
        // What a connection string says for all databases is where the gateway itself logs in.
        let own = found.dbname.filter(|_| table.server.is_some() && name != "*");
        Ok(Database {
            name: Some(name.to_owned()).filter(|name| name != "*"),
            server: Arc::new(server),
            dbname: table.dbname.clone().or(own),
            forced_user: table.user.is_some(),
            pooling: self.choice(table.pool_mode, table.pool_size.as_ref(), table.reads)?,
            max_connections: table.max_connections.filter(is_limit),
            max_clients: table.max_clients.filter(is_limit),
        })
    }

    fn password(&self, table: &DatabaseTable) -> Result<Option<Secret>, ConfigError> {
        let unused = "goes with user, whose password it is";
        match (&table.password_file, &table.password_env) {
            (None, None) => Ok(None),
            (Some(file), Some(_)) => {
                Err(self.at(file, "give password_file or password_env, not both"))
            }
            (Some(file), None) if table.user.is_none() => {
                Err(self.at(file, format!("password_file {unused}")))
            }
            (None, Some(name)) if table.user.is_none() => {
                Err(self.at(name, format!("password_env {unused}")))
            }
            (Some(file), None) => {
                let (_, text) = self.text_of(file)?;
                Ok(Some(Secret::new(text.trim_end_matches(['\r', '\n']))))
            }
            (None, Some(name)) => match std::env::var(&name.value) {
                Ok(password) => Ok(Some(Secret::new(password))),
                Err(_) => Err(self.at(
                    name,
                    format!("the environment has no variable {} with a password", name.value),
                )),
            },
        }
    }

    fn choice(
        &self,
        mode: Option<PoolMode>,
        size: Option<&Said<usize>>,
        reads: Option<Reads>,
    ) -> Result<PoolingChoice, ConfigError> {
        let size = size.map(|size| self.number(size, "pool_size", 1..=10_000)).transpose()?;
        Ok(PoolingChoice { mode, size, reads })
    }

    fn users(&self) -> Result<HashMap<String, User>, ConfigError> {
        let mut users = HashMap::new();
        for (name, table) in &self.file.users {
            let pooling = self.choice(table.pool_mode, table.pool_size.as_ref(), table.reads)?;
            let user = User {
                pooling,
                max_connections: table.max_connections.filter(is_limit),
                max_clients: table.max_clients.filter(is_limit),
            };
            users.insert(name.clone(), user);
        }
        Ok(users)
    }

    fn limits(&self) -> Result<Limits, ConfigError> {
        let (table, mut limits) = (&self.file.limits, Limits::default());
        if let Some(most) = &table.max_clients {
            limits.max_clients = self.number(most, "max_clients", 1..=10_000_000)?;
        }
        limits.max_database_connections = table.max_database_connections.filter(is_limit);
        limits.max_user_connections = table.max_user_connections.filter(is_limit);
        for (said, limit) in [
            (table.login_timeout, &mut limits.login_timeout),
            (table.query_wait_timeout, &mut limits.query_wait_timeout),
            (table.query_timeout, &mut limits.query_timeout),
            (table.transaction_timeout, &mut limits.transaction_timeout),
            (table.idle_transaction_timeout, &mut limits.idle_transaction_timeout),
            (table.client_idle_timeout, &mut limits.client_idle_timeout),
            (table.server_idle_timeout, &mut limits.server_idle_timeout),
            (table.server_lifetime, &mut limits.server_lifetime),
        ] {
            if let Some(Time(time)) = said {
                *limit = time;
            }
        }
        if let Some(said) = &table.server_login_retry {
            limits.server_login_retry = said.value.0.ok_or_else(|| {
                self.at(said, "server_login_retry cannot be 0: a server that is away would be asked without end")
            })?;
        }
        Ok(limits)
    }

    fn tls(&self) -> Result<Option<Tls>, ConfigError> {
        let table = &self.file.tls;
        let (certificate, key) = match (&table.certificate, &table.key) {
            (Some(certificate), Some(key)) => (certificate, key),
            (Some(one), None) | (None, Some(one)) => {
                return Err(self.at(one, "TLS needs both certificate and key"));
            }
            (None, None) => {
                let needs = "needs a certificate: write certificate and key too";
                if let Some(said) = table.required.as_ref().filter(|said| said.value) {
                    return Err(self.at(said, format!("required {needs}")));
                }
                if let Some(said) = &table.client_ca {
                    return Err(self.at(said, format!("client_ca {needs}")));
                }
                return Ok(None);
            }
        };
        let required = table.required.as_ref().is_some_and(|said| said.value);
        let unfit = |error: crate::TlsError| self.at(certificate, error.to_string());
        let wants = table.client_certificate.as_ref();
        let Some(authorities) = &table.client_ca else {
            if let Some(said) = wants.filter(|said| said.value != ClientCertificate::Unneeded) {
                return Err(self.at(
                    said,
                    "client_certificate needs client_ca, a file of the authorities that sign them",
                ));
            }
            let tls = Tls::from_files(&self.path(certificate), &self.path(key), required);
            return tls.map(Some).map_err(unfit);
        };
        let wants = wants.map_or(ClientCertificate::Unneeded, |said| said.value);
        let tls = Tls::with_client_authorities(
            (&self.path(certificate), &self.path(key)),
            required,
            &self.path(authorities),
            wants,
        );
        tls.map(Some).map_err(unfit)
    }

    fn authentication(&mut self, listen: &[Listen]) -> Result<Authentication, ConfigError> {
        let table = &self.file.authentication;
        let users = Arc::new(self.known_users()?);
        let kind = table.kind.as_ref();
        let rules = match (&table.hba_file, &table.rules, kind) {
            (Some(said), Some(_), _) => {
                return Err(self.at(said, "give hba_file or rules, not both"));
            }
            (Some(_), None, Some(kind)) | (None, Some(_), Some(kind)) => {
                return Err(self.at(
                    kind,
                    "rules say how clients prove who they are: leave type out, or the rules",
                ));
            }
            (Some(said), None, None) => {
                let (path, text) = self.text_of(said)?;
                let wrong =
                    |error: crate::RuleError| ConfigError::in_line(&path, error.line, error.what);
                Rules::parse(&text).map_err(wrong)?
            }
            (None, Some(said), None) => Rules::parse(&said.value.join("\n"))
                .map_err(|error| self.at(said, format!("rule {}: {}", error.line, error.what)))?,
            (None, None, kind) => match kind.map_or(AuthType::Scram, |kind| kind.value) {
                AuthType::Scram => return Ok(Authentication::Scram(users)),
                AuthType::Trust => {
                    refuse_open_trust(listen).map_err(|what| match kind {
                        Some(kind) => self.at(kind, what),
                        None => self.whole(what),
                    })?;
                    return Ok(Authentication::Trust);
                }
                AuthType::Cert => Rules::only(Method::Cert),
                AuthType::Peer => Rules::only(Method::Peer),
            },
        };
        let maps = match &table.ident_file {
            None => UserMaps::default(),
            Some(said) => {
                let (path, text) = self.text_of(said)?;
                UserMaps::parse(&text)
                    .map_err(|error| ConfigError::in_line(&path, error.line, error.what))?
            }
        };
        let rules = rules.with_maps(maps);
        if let Some(map) = rules.missing_maps().next() {
            return Err(self.whole(format!(
                "a rule names the map \"{map}\", which no line of an ident_file begins with"
            )));
        }
        if rules.need_certificates() && self.file.tls.client_ca.is_none() {
            return Err(self.whole(
                "clients are to prove who they are by certificates: write client_ca, certificate and key in [tls]",
            ));
        }
        Ok(Authentication::Rules(Arc::new(rules), users))
    }

    fn known_users(&mut self) -> Result<Users, ConfigError> {
        let table = &self.file.authentication;
        let mut users = Users {
            ask_server: table.userlist.is_none() || table.auth_query.is_some(),
            ..Users::default()
        };
        if let Some(said) = &table.userlist {
            let (path, text) = self.text_of(said)?;
            users.known = parse_userlist(&text)
                .map_err(|(line, what)| ConfigError::in_line(&path, line, what))?;
            let hashed = users.known.iter().filter(|(_, stored)| matches!(stored, Stored::Md5));
            let mut hashed: Vec<&str> = hashed.map(|(name, _)| name.as_str()).collect();
            hashed.sort_unstable();
            if !hashed.is_empty() {
                self.warnings.push(format!(
                    "{}: MD5 hashes let nobody in, store passwords or SCRAM verifiers: {}",
                    path.display(),
                    hashed.join(", ")
                ));
            }
        }
        let query = table.auth_query.as_ref().filter(|said| said.value != "default");
        if let Some(said) = query.filter(|said| !said.value.contains("$1")) {
            return Err(self.at(said, "auth_query has no $1, which stands for the user's name"));
        }
        let user = table.auth_user.as_ref();
        let password = match user.map(|user| (user, users.known.get(&user.value))) {
            Some((_, Some(Stored::Password(password)))) => Some(password.clone()),
            Some((user, Some(_))) => {
                return Err(self.at(user, "the userlist has no password of auth_user, with which the gateway could log in"));
            }
            Some((_, None)) | None => None,
        };
        users.question = Question {
            query: query.map(|said| said.value.clone()),
            user: user.map(|user| user.value.clone()),
            password,
            dbname: table.auth_dbname.clone(),
        };
        Ok(users)
    }

    fn look_for_oddities(&mut self, options: &Options) {
        let Authentication::Rules(rules, _) = &options.authentication else { return };
        if rules.is_empty() {
            self.warnings.push("there is no rule, so nobody is let in".to_owned());
        }
        let open =
            |place: &Listen| matches!(place, Listen::Tcp(address) if !address.ip().is_loopback());
        if rules.methods().any(|method| method == Method::Trust) && options.listen.iter().any(open)
        {
            self.warnings.push(
                "a rule says trust and the gateway listens beyond this machine: who fits that rule is let in under any name"
                    .to_owned(),
            );
        }
    }
}

/// 0 is no limit, as PgBouncer has it.
fn is_limit(most: &usize) -> bool {
    *most > 0
}

/// Whoever reaches a place where all are trusted is let in.
fn refuse_open_trust(listen: &[Listen]) -> Result<(), String> {
    let open = listen.iter().find_map(|place| match place {
        Listen::Tcp(address) if !address.ip().is_loopback() => Some(address),
        Listen::Tcp(_) | Listen::Unix(_) => None,
    });
    open.map_or(Ok(()), |address| {
        Err(format!(
            "trust lets anybody in who reaches {address}: it goes with loopback addresses and unix sockets alone"
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use walwright_wire::{ConnectOptions, Host};

    use super::super::EXAMPLE;
    use super::*;

    /// Reads `user@host/database`.
    fn resolve(dsn: &str, user: Option<&str>) -> Result<Resolved, String> {
        let (own, rest) = dsn.split_once('@').ok_or("it has no user")?;
        let (host, dbname) = rest.split_once('/').map_or((rest, None), |(h, d)| (h, Some(d)));
        let host = Host::Tcp(host.to_owned());
        let address = ConnectOptions::new(host, 5432, user.unwrap_or(own), dbname.unwrap_or(own));
        let dbname = dbname.map(str::to_owned);
        Ok(Resolved { server: Server::new(address), dbname, warnings: Vec::new() })
    }

    fn config(text: &str) -> Result<Config, ConfigError> {
        let path = Path::new("/nowhere/gateway.toml");
        File::parse(path, text)?.config(Some((path, text)), &resolve)
    }

    #[test]
    fn the_example_says_the_defaults_and_every_key() {
        let mut whole = String::new();
        for line in EXAMPLE.lines() {
            let key = line.strip_prefix("# ").filter(|rest| {
                rest.starts_with('[')
                    || rest.split(" = ").next().is_some_and(|key| {
                        rest.contains(" = ")
                            && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
                    })
            });
            whole.push_str(key.unwrap_or(line));
            whole.push('\n');
        }
        let all = File::parse(Path::new("x"), &whole).unwrap();
        assert!(all.users.contains_key("reports") && all.databases.contains_key("orders"));
        assert!(all.tls.client_certificate.is_some() && all.authentication.rules.is_some());
        let text = EXAMPLE.replace("postgres://postgres@127.0.0.1:5432/postgres", "postgres@h");
        let read = config(&text).unwrap().options;
        let plain = config("server = \"postgres@h\"").unwrap().options;
        assert_eq!(format!("{read:?}"), format!("{plain:?}"));
    }

    #[test]
    fn what_is_written_is_what_is_done() {
        let text = r#"
            listen = ["127.0.0.1:7000", "/run/gw/.s.PGSQL.6432"]
            server = "me@main/where"
            workers = 3
            [pooling]
            mode = "session"
            size = 5
            reads = "strict"
            [limits]
            max_clients = 7
            query_wait_timeout = "5min"
            login_timeout = 0
            [databases.a]
            dbname = "b"
            pool_mode = "statement"
            max_connections = 3
            [databases.c]
            server = "me@other/d"
            user = "one"
            [databases."*"]
            [users.u]
            reads = "off"
            max_clients = 2
        "#;
        let options = config(text).unwrap().options;
        assert_eq!(options.listen.len(), 2);
        assert_eq!((options.workers, options.limits.max_clients), (3, 7));
        assert_eq!(options.limits.query_wait_timeout, Some(Duration::from_secs(300)));
        assert_eq!(options.limits.login_timeout, None);
        let a = options.database("a").unwrap();
        assert_eq!((a.dbname.as_deref(), a.max_connections), (Some("b"), Some(3)));
        let pooling = options.pooling_of(a, "u");
        let wanted = Pooling { mode: PoolMode::Statement, size: 5, reads: Reads::Off };
        assert_eq!(pooling, wanted);
        let c = options.database("c").unwrap();
        assert_eq!((c.dbname.as_deref(), c.forced_user), (Some("d"), true));
        assert_eq!(c.server.addresses[0].user, "one");
        let any = options.database("x").unwrap();
        assert_eq!((any.dbname.as_deref(), any.forced_user), (None, false));
        assert!(options.databases.last().unwrap().forced_user);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let server = "server = \"me@h\"\n";
        for (text, line, what) in [
            ("[limits]\nquery_wait_timout = 3", Some(3), "write query_wait_timeout"),
            ("[pooling]\nmode = \"transactoin\"", Some(3), "write transaction"),
            ("[pooling]\nmode = \"none at all\"", Some(3), "session, transaction, statement"),
            ("[limits]\nlogin_timeout = 60", Some(3), "60 has no unit"),
            ("[limits]\nlogin_timeout = \"5 m\"", Some(3), "us, ms, s, min, h or d"),
            ("[limits]\nserver_login_retry = 0", Some(3), "cannot be 0"),
            ("[pooling]\nsize = 0", Some(3), "from 1 to 10000"),
            ("listen = [\"localhost\"]", Some(2), "no place to listen"),
            ("[tls]\nrequired = true", Some(3), "needs a certificate"),
            ("[tls]\nkey = \"k\"", Some(3), "both certificate and key"),
            ("[authentication]\ntype = \"md5\"", Some(3), "scram-sha-256, trust"),
            ("[authentication]\nuserlist = \"no\"", Some(3), "cannot read /nowhere/no"),
            ("[authentication]\nauth_query = \"SELECT 1\"", Some(3), "no $1"),
            ("[authentication]\nrules = [\"host all all all md5\"]", Some(3), "rule 1: md5"),
            ("[authentication]\ntype = \"cert\"", None, "client_ca"),
            ("[authentication]\nrules = [\"local all all peer map=m\"]", None, "the map \"m\""),
            ("[databases.x]\nserver = \"hunter2\"", Some(3), "it has no user"),
            ("[databases.x]\npassword_env = \"X\"", Some(3), "goes with user"),
            ("[databases.x]\nuser = \"u\"\npassword_env = \"NO_X\"", Some(4), "no variable NO_X"),
            ("[[databases]]\nname = \"x\"", Some(2), ""),
            ("x y", Some(2), ""),
        ] {
            let error = config(&format!("{server}{text}")).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.what.contains(what), "{text}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        assert!(config("").unwrap_err().what.contains("no server is named"));
        let open =
            "server = \"me@h\"\nlisten = [\"0.0.0.0:1\"]\n[authentication]\ntype = \"trust\"";
        assert_eq!(config(open).unwrap_err().line, Some(4));
    }

    #[test]
    fn a_limit_of_nothing_is_none() {
        let text = "server = \"me@h\"\n[limits]\nmax_database_connections = 0\n\
                    max_user_connections = 3\n[databases.a]\nmax_connections = 0\n\
                    max_clients = 0\n[users.b]\nmax_connections = 0\nmax_clients = 2";
        let options = config(text).unwrap().options;
        assert_eq!(options.limits.max_database_connections, None);
        assert_eq!(options.limits.max_user_connections, Some(3));
        let database = options.database("a").unwrap();
        assert_eq!((database.max_connections, database.max_clients), (None, None));
        let user = &options.users["b"];
        assert_eq!((user.max_connections, user.max_clients), (None, Some(2)));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", lines in prop::collection::vec(
            "(\\[(limits|pooling|users.\"\\PC\"|databases.x)\\]|(server|size|mode|listen|dbname|query_timeout) = (\"[a-z@0-9]{0,9}\"|[0-9-]{1,5}|\\[\"1\"\\]|\\{\\}))", 0..6,
        )) {
            let _ = config(&text);
            let _ = config(&lines.join("\n"));
        }
    }
}
