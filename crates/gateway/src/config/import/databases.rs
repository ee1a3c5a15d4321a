//! `[databases]`, `[users]` and `[peers]`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::super::ConfigError;
use super::convert::{Conversion, unknown};
use super::ini::{Entry, Place, Section, pairs};
use super::settings::{POOL_MODES, number};
use super::toml_text::{Table, basic};

/// Databases, and what goes with them.
pub struct Databases {
    /// Their tables.
    pub text: String,
    /// Files of passwords.
    pub passwords: Vec<(PathBuf, String)>,
    /// A server for all, where no database is named.
    pub server: Option<String>,
}

/// Keys of a database.
const OF_DATABASES: [&str; 23] = [
    "dbname",
    "host",
    "port",
    "user",
    "password",
    "auth_user",
    "auth_dbname",
    "auth_query",
    "client_encoding",
    "datestyle",
    "timezone",
    "pool_size",
    "min_pool_size",
    "reserve_pool",
    "reserve_pool_size",
    "query_wait_timeout",
    "max_db_connections",
    "max_db_client_connections",
    "server_lifetime",
    "load_balance_hosts",
    "pool_mode",
    "connect_query",
    "application_name",
];

/// Keys of a user.
const OF_USERS: [&str; 10] = [
    "pool_mode",
    "pool_size",
    "reserve_pool_size",
    "max_user_connections",
    "transaction_timeout",
    "idle_transaction_timeout",
    "query_timeout",
    "query_wait_timeout",
    "client_idle_timeout",
    "max_user_client_connections",
];

/// What a key that has no counterpart in a database or for a user means.
fn lost(key: &str) -> Option<&'static str> {
    Some(match key {
        "client_encoding" | "datestyle" | "timezone" | "application_name" => {
            "is not set for a database here: ALTER DATABASE … SET, or the clients, can"
        }
        "min_pool_size" => "server sessions are opened when they are needed",
        "reserve_pool" | "reserve_pool_size" => {
            "no session is kept in reserve: make the pool as large as both together"
        }
        "query_wait_timeout"
        | "server_lifetime"
        | "transaction_timeout"
        | "idle_transaction_timeout"
        | "query_timeout"
        | "client_idle_timeout" => {
            "one for all stands in [limits]; ALTER ROLE … SET has the server's own timeouts"
        }
        "connect_query" => {
            "no statement is sent when a session begins: ALTER DATABASE … SET, or ALTER ROLE, can take its place"
        }
        "auth_user" | "auth_dbname" | "auth_query" => {
            "one for all databases stands in [authentication]"
        }
        _ => return None,
    })
}

/// The pairs of an entry, each a key that there is, the last of a name counting.
fn known(
    conversion: &mut Conversion<'_>,
    entry: &Entry,
    keys: &[&str],
) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut found = BTreeMap::new();
    for (key, value) in pairs(&entry.value).map_err(|what| entry.place.error(what))? {
        if !keys.contains(&key.as_str()) {
            return Err(entry.place.error(unknown("parameter", &key, &mut keys.iter().copied())));
        }
        if let Some(what) = lost(&key) {
            let is_global = conversion.text(&key) == Some(value.as_str());
            if !is_global {
                conversion.note(&entry.place, &format!("{} of {}", key, entry.key), what);
            }
        }
        found.insert(key, value);
    }
    Ok(found)
}

/// A pool's mode, size and limits.
fn pooling(
    conversion: &mut Conversion<'_>,
    entry: &Entry,
    of: &BTreeMap<String, String>,
    table: &mut Table,
    limits: [(&str, &str); 2],
) -> Result<(), ConfigError> {
    if let Some(mode) = of.get("pool_mode") {
        let mode = mode.to_ascii_lowercase();
        if !POOL_MODES.contains(&mode.as_str()) {
            let what = format!("pool_mode is one of {}", POOL_MODES.join(", "));
            return Err(entry.place.error(what));
        }
        table.text("pool_mode", &mode);
    }
    match of.get("pool_size").map(|size| whole(&entry.place, "pool_size", size)).transpose()? {
        Some(size @ 1..=10_000) => table.raw("pool_size", &size.to_string()),
        Some(0) | Some(10_001..) => {
            let what = "a pool has from 1 to 10000 sessions of a kind: 10000 are written";
            conversion.note(&entry.place, &format!("pool_size of {}", entry.key), what);
            table.raw("pool_size", "10000");
        }
        Some(_) | None => {}
    }
    for (key, name) in limits {
        let own = of.get(name).map(|limit| whole(&entry.place, name, limit)).transpose()?;
        // Those for all databases stand in [limits], but those of clients.
        let all = conversion.limit(name).filter(|_| key == "max_clients");
        match own.filter(|limit| *limit >= 0).or(all) {
            Some(limit) if limit > 0 => table.raw(key, &limit.to_string()),
            Some(_) | None => {}
        }
    }
    Ok(())
}

fn whole(place: &Place, name: &str, text: &str) -> Result<i64, ConfigError> {
    number(text).ok_or_else(|| place.error(format!("{name} is a number")))
}

/// The name of a database at its server.
pub fn real_name(conversion: &Conversion<'_>, name: &str) -> String {
    let entries = conversion.entries.iter().rev();
    let mut of = entries.filter(|entry| entry.section == Section::Databases && entry.key == name);
    let found =
        of.next().and_then(|entry| pairs(&entry.value).ok()).unwrap_or_default().into_iter();
    let mut found = found.rev();
    found.find(|(key, _)| key == "dbname").map_or(name.to_owned(), |(_, name)| name)
}

/// `[databases]`.
pub fn convert(
    conversion: &mut Conversion<'_>,
    directory: Option<&Path>,
    stem: &str,
) -> Result<Databases, ConfigError> {
    let mut tables: BTreeMap<String, Table> = BTreeMap::new();
    let mut files: Vec<(PathBuf, String)> = Vec::new();
    let mut own_passwords: BTreeSet<String> = BTreeSet::new();
    let (mut secret_at, mut locals) = (None, BTreeSet::new());
    let entries = std::mem::take(&mut conversion.entries);
    // Names of databases are looked for among them.
    conversion.entries.clone_from(&entries);
    for entry in entries.iter().filter(|entry| entry.section == Section::Databases) {
        let (name, place) = (entry.key.as_str(), &entry.place);
        if name == "pgbouncer" {
            return Err(place.error("the database pgbouncer is the console: give it another name"));
        }
        if name == "walwright" {
            let what = "the database walwright is the console: clients do not reach this one";
            conversion.note(place, name, what);
        }
        let of = known(conversion, entry, &OF_DATABASES)?;
        let mut table = Table::default();
        let mut dsn = Dsn::default();
        let host = of.get("host").map(String::as_str);
        let sockets = conversion.text("unix_socket_dir").filter(|text| text.starts_with('/'));
        if let Some(host) = host.or(sockets) {
            if host.starts_with('@') {
                let what = "sockets in the abstract namespace are not there: name a directory or an address";
                return Err(place.error(format!("host: {what}")));
            }
            dsn.add("host", host);
        }
        let port = match of.get("port") {
            None => 5432,
            Some(port) => whole(place, "port", port)?,
        };
        if !(1..=65_535).contains(&port) {
            return Err(place.error("port is from 1 to 65535"));
        }
        dsn.add("port", &port.to_string());
        if host.is_some_and(|host| host.contains(',')) {
            let what = "hosts are tried in this order, not in turn: with target_session_attrs=read-write the primary is found";
            conversion.note(place, &format!("host of {name}"), what);
        }
        if host.is_none_or(|host| {
            host.starts_with('/') || ["localhost", "127.0.0.1", "::1"].contains(&host)
        }) {
            locals.insert((port, host.unwrap_or_default().to_owned()));
        }
        let dbname = of.get("dbname").map(String::as_str);
        if let Some(dbname) = dbname {
            table.text("dbname", dbname);
        }
        dsn.add("dbname", dbname.unwrap_or(if name == "*" { "postgres" } else { name }));
        if let Some(user) = of.get("user") {
            table.text("user", user);
            let password = of.get("password").map(String::as_str);
            match password.or(conversion.people.password(user)) {
                Some(password) => {
                    let safe = |c: char| {
                        if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' }
                    };
                    let base: String = name.chars().map(safe).collect();
                    let mut file = format!("{stem}.{base}.password");
                    if files.iter().any(|(path, _)| path.ends_with(&file)) {
                        file = format!("{stem}.{base}.{}.password", files.len());
                    }
                    table.text("password_file", &file);
                    files.push((
                        directory.unwrap_or(Path::new("")).join(file),
                        format!("{password}\n"),
                    ));
                    secret_at.get_or_insert(place.clone());
                }
                None if conversion.people.known.contains_key(user) => {
                    let what = format!(
                        "the list does not have the password of {user} as it is: put it into a file and name that in password_file"
                    );
                    conversion.note(place, &format!("user of {name}"), &what);
                }
                None => {}
            }
        } else {
            let own = of.get("auth_user").map(String::as_str).or(conversion.text("auth_user"));
            let admins =
                conversion.text("admin_users").unwrap_or_default().split(',').map(str::trim);
            let mut admins = admins.filter(|user| conversion.people.password(user).is_some());
            let own = own.or(admins.next());
            let login = own.unwrap_or("postgres").to_owned();
            dsn.add("user", &login);
            match conversion.people.password(&login) {
                Some(password) => {
                    let escaped = |text: &str| text.replace('\\', "\\\\").replace(':', "\\:");
                    own_passwords.insert(format!(
                        "*:{port}:*:{}:{}\n",
                        escaped(&login),
                        escaped(password)
                    ));
                    let file = directory.unwrap_or(Path::new("")).join(format!("{stem}.pgpass"));
                    dsn.add("passfile", &file.display().to_string());
                    secret_at.get_or_insert(place.clone());
                }
                None => {
                    let what = format!(
                        "the gateway itself logs in as {login}, to flush: let it in by ~/.pgpass, or name another user in server"
                    );
                    conversion.note(place, name, &what);
                }
            }
        }
        encryption(conversion, &mut dsn)?;
        if let Some((_, timeout)) = conversion.said("server_connect_timeout") {
            let seconds = super::settings::seconds(timeout).unwrap_or_default();
            dsn.add("connect_timeout", &format!("{}", seconds.ceil().min(86_400.0) as u64));
        }
        table.text("server", &dsn.0);
        let limits = [
            ("max_connections", "max_db_connections"),
            ("max_clients", "max_db_client_connections"),
        ];
        pooling(conversion, entry, &of, &mut table, limits)?;
        tables.insert(entry.key.clone(), table);
    }
    if let (Some(place), None) = (secret_at, directory) {
        return Err(place.error(
            "passwords are needed to log in at the server, which are not printed: give --output, and they are written to files beside it",
        ));
    }
    if let Some(directory) = directory.filter(|_| !own_passwords.is_empty()) {
        let text = own_passwords.into_iter().collect();
        files.push((directory.join(format!("{stem}.pgpass")), text));
    }
    let ports: BTreeSet<i64> = locals.iter().map(|(port, _)| *port).collect();
    if ports.len() < locals.len() {
        conversion.notes.push("databases name this machine in several ways (localhost, 127.0.0.1, ::1, a socket): where that is one server, write one of them, so that it has one barrier".to_owned());
    }
    let mut server = None;
    if tables.is_empty() {
        conversion
            .notes
            .push("no database is named: server is an example, write your own".to_owned());
        server = Some("postgres://postgres@127.0.0.1:5432/postgres".to_owned());
    }
    let titled =
        tables.iter().map(|(name, table)| table.titled(&format!("databases.{}", basic(name))));
    Ok(Databases { text: titled.collect(), passwords: files, server })
}

fn encryption(conversion: &Conversion<'_>, dsn: &mut Dsn) -> Result<(), ConfigError> {
    let mode = conversion.word("server_tls_sslmode");
    let authorities = conversion.file("server_tls_ca_file")?;
    match (mode.as_str(), &authorities) {
        ("verify-ca" | "verify-full", Some(path)) => {
            dsn.add("sslmode", &mode);
            dsn.add("sslrootcert", &path.display().to_string());
        }
        ("verify-ca" | "verify-full", None) => {
            dsn.add("sslmode", "verify-full");
            dsn.add("sslrootcert", "system");
        }
        ("prefer", _) if conversion.said("server_tls_sslmode").is_none() => {}
        _ => dsn.add("sslmode", &mode),
    }
    for (key, name) in [("sslcert", "server_tls_cert_file"), ("sslkey", "server_tls_key_file")] {
        if let Some(path) = conversion.file(name)? {
            dsn.add(key, &path.display().to_string());
        }
    }
    Ok(())
}

/// `[users]` and `[peers]`.
pub fn users(conversion: &mut Conversion<'_>) -> Result<String, ConfigError> {
    let mut tables: BTreeMap<String, Table> = BTreeMap::new();
    let entries = std::mem::take(&mut conversion.entries);
    for entry in &entries {
        match entry.section {
            Section::Users => {
                let of = known(conversion, entry, &OF_USERS)?;
                let limits = [
                    ("max_connections", "max_user_connections"),
                    ("max_clients", "max_user_client_connections"),
                ];
                let mut table = Table::default();
                pooling(conversion, entry, &of, &mut table, limits)?;
                tables.insert(entry.key.clone(), table);
            }
            Section::Peers => {
                known(conversion, entry, &["host", "port", "pool_size"])?;
                let what = "several threads of one process serve (workers); a request to cancel has to reach the gateway that it is for";
                conversion.note(&entry.place, "[peers]", what);
            }
            Section::Main | Section::Databases => {}
        }
    }
    Ok(tables.iter().map(|(name, table)| table.titled(&format!("users.{}", basic(name)))).collect())
}

/// A connection string as it is put together.
#[derive(Default)]
struct Dsn(String);

impl Dsn {
    fn add(&mut self, key: &str, value: &str) {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,".contains(c);
        let space = if self.0.is_empty() { "" } else { " " };
        let value = match value.chars().all(is_plain) && !value.is_empty() {
            true => value.to_owned(),
            false => format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'")),
        };
        self.0.push_str(&format!("{space}{key}={value}"));
    }
}
