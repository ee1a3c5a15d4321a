//! What is written in `[pgbouncer]`, and the whole.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use strsim::damerau_levenshtein;
use walwright_wire::Secret;

use super::super::{ConfigError, Time};
use super::databases::{self, Databases};
use super::ini::{Entries, Entry, Place, Section};
use super::people::{self, People};
use super::settings::{Fate, SETTINGS, Setting, number, seconds};
use super::toml_text::{Table, comment};
use super::{Import, Surroundings};

/// Letters that a name may differ in to be told as the one that was meant.
const NEAR: usize = 3;
/// Longest time that a limit may have.
const LONGEST: f64 = 366.0 * 86_400.0;

/// A configuration that is being converted.
pub struct Conversion<'a> {
    /// Where it stands.
    pub path: &'a Path,
    /// What it is read from.
    pub around: &'a dyn Surroundings,
    settings: HashMap<&'static str, (Place, String)>,
    /// Lines of other sections.
    pub entries: Vec<Entry>,
    /// What is to be told.
    pub notes: Vec<String>,
    /// Who is known.
    pub people: People,
}

impl<'a> Conversion<'a> {
    /// Reads all.
    pub fn read(
        path: &'a Path,
        users: Option<&Path>,
        around: &'a dyn Surroundings,
    ) -> Result<Conversion<'a>, ConfigError> {
        let Entries { entries, again, .. } = Entries::read(path, around)?;
        let mut conversion = Conversion {
            path,
            around,
            settings: HashMap::new(),
            entries: Vec::new(),
            notes: Vec::new(),
            people: People::default(),
        };
        for entry in entries {
            if entry.section != Section::Main {
                conversion.entries.push(entry);
                continue;
            }
            let Some(setting) = Setting::named(&entry.key) else {
                return Err(entry.place.error(unknown("setting", &entry.key, &mut names())));
            };
            setting.check(&entry.value).map_err(|what| entry.place.error(what))?;
            conversion.settings.insert(setting.name, (entry.place, entry.value));
        }
        for place in again {
            conversion.note(&place, "[pgbouncer]", "begins once more: PgBouncer forgets there what was set before, here all of it counts");
        }
        conversion.people = people::read(&conversion, users)?;
        Ok(conversion)
    }

    /// Tells what has no counterpart.
    pub fn note(&mut self, place: &Place, name: &str, what: &str) {
        let file = place.file.file_name().unwrap_or(place.file.as_os_str()).to_string_lossy();
        let line = if place.line > 0 { format!(", line {}", place.line) } else { String::new() };
        let note = format!("{file}{line}: {name}: {what}");
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// What is said, where it is not the default.
    pub fn said(&self, name: &str) -> Option<(&Place, &str)> {
        let (place, value) = self.settings.get(name)?;
        let setting = Setting::named(name)?;
        (!setting.is_default(value)).then_some((place, value.as_str()))
    }

    /// A text that is said and not empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Where a setting stands.
    pub fn place_of(&self, name: &str) -> Place {
        let place = self.settings.get(name).map(|(place, _)| place.clone());
        place.unwrap_or_else(|| Place { file: self.path.to_owned(), line: 0 })
    }

    /// A setting that is one of several words, or its default.
    pub fn word(&self, name: &str) -> String {
        let default = Setting::named(name).map_or("", |setting| setting.default);
        self.text(name).unwrap_or(default).to_ascii_lowercase()
    }

    fn whole(&self, name: &str) -> i64 {
        let default = Setting::named(name).map_or("0", |setting| setting.default);
        number(self.text(name).unwrap_or(default)).unwrap_or_default()
    }

    /// A limit, where there is one.
    pub fn limit(&self, name: &str) -> Option<i64> {
        Some(self.whole(name)).filter(|limit| *limit > 0)
    }

    /// The path of a file that is named and can be read.
    pub fn file(&self, name: &str) -> Result<Option<PathBuf>, ConfigError> {
        let Some(given) = self.text(name) else { return Ok(None) };
        let path = self.around.place(self.path, given);
        match self.around.text(&path) {
            Ok(_) => Ok(Some(path)),
            Err(error) => Err(self
                .place_of(name)
                .error(format!("{name}: cannot read {}: {error}", path.display()))),
        }
    }

    /// Puts all together.
    pub fn finish(mut self, directory: Option<&Path>, stem: &str) -> Result<Import, ConfigError> {
        let mut lost: Vec<(Place, &str, &str)> = Vec::new();
        for setting in SETTINGS {
            if let (Fate::None(what), Some((place, _))) = (setting.fate, self.said(setting.name)) {
                lost.push((place.clone(), setting.name, what));
            }
        }
        lost.sort_by_key(|(place, ..)| place.line);
        for (place, name, what) in lost {
            self.note(&place, name, what);
        }
        let listen = self.listen()?;
        let Databases { text: databases, passwords, server } =
            databases::convert(&mut self, directory, stem)?;
        let authentication = people::authentication(&mut self, &listen)?;
        let tls = self.tls()?;
        let users = databases::users(&mut self)?;
        let mut head = Table::default();
        head.list("listen", listen.iter().map(String::as_str));
        if let Some(server) = server {
            head.text("server", &server);
        }
        for name in ["admin_users", "stats_users"] {
            if let Some(list) = self.text(name) {
                let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
                head.list(name, names);
            }
        }
        let pooling = self.pooling();
        let limits = self.limits();
        let mut text = comment(&format!("From {}.", self.path.display()));
        text.push_str("# A pool has as many sessions for each of its kinds (relaxed and not) and each worker;\n# max_connections bounds them all.\n");
        for note in &self.notes {
            text.push_str(&comment(note));
        }
        text.push('\n');
        text.push_str(head.lines());
        text.push_str(&authentication.titled("authentication"));
        text.push_str(&tls.titled("tls"));
        text.push_str(&pooling.titled("pooling"));
        text.push_str(&limits.titled("limits"));
        text.push_str(&databases);
        text.push_str(&users);
        let passwords =
            passwords.into_iter().map(|(path, text)| (path, Secret::new(text))).collect();
        Ok(Import { text, notes: self.notes, passwords })
    }

    fn listen(&mut self) -> Result<Vec<String>, ConfigError> {
        let place = self.place_of("listen_port");
        let port = u16::try_from(self.whole("listen_port")).ok().filter(|port| *port > 0);
        let port = port.ok_or_else(|| place.error("listen_port is from 1 to 65535"))?;
        let place = self.place_of("listen_addr");
        let mut listen = Vec::new();
        let mut add = |address: std::net::IpAddr| {
            let address = std::net::SocketAddr::new(address, port).to_string();
            if !listen.contains(&address) {
                listen.push(address);
            }
        };
        let list = self.text("listen_addr").unwrap_or_default().to_owned();
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match (name, name.parse()) {
                // By Linux's default it takes IPv4 too.
                ("*", _) => add(std::net::Ipv6Addr::UNSPECIFIED.into()),
                ("localhost", _) => add(std::net::Ipv4Addr::LOCALHOST.into()),
                (_, Ok(address)) => add(address),
                (name, Err(_)) => match self.around.addresses(name) {
                    found if found.is_empty() => {
                        return Err(place.error(format!(
                            "listen_addr: \"{}\" has no address on this machine: write the address",
                            name.escape_debug()
                        )));
                    }
                    found => found.into_iter().for_each(&mut add),
                },
            }
        }
        let directory = match self.settings.get("unix_socket_dir") {
            Some((_, directory)) => directory.clone(),
            None => "/tmp".to_owned(),
        };
        if directory.starts_with('@') {
            let what = "sockets in the abstract namespace are not there: name a directory";
            self.note(&self.place_of("unix_socket_dir"), "unix_socket_dir", what);
        } else if !directory.is_empty() {
            let path = self.around.place(self.path, &directory);
            listen.push(format!(
                "{}/.s.PGSQL.{port}",
                path.display().to_string().trim_end_matches('/')
            ));
        }
        Ok(listen)
    }

    fn tls(&mut self) -> Result<Table, ConfigError> {
        let mut table = Table::default();
        let mode = self.word("client_tls_sslmode");
        if mode == "disable" {
            return Ok(table);
        }
        let place = self.place_of("client_tls_sslmode");
        for (key, name) in [("certificate", "client_tls_cert_file"), ("key", "client_tls_key_file")]
        {
            let Some(path) = self.file(name)? else {
                return Err(place.error(format!("client_tls_sslmode = {mode} needs {name}")));
            };
            table.text(key, &path.display().to_string());
        }
        let verifies = mode.starts_with("verify");
        if verifies || mode == "require" {
            table.raw("required", "true");
        }
        match self.file("client_tls_ca_file")? {
            Some(path) => table.text("client_ca", &path.display().to_string()),
            None if verifies => {
                return Err(place.error(format!(
                    "client_tls_sslmode = {mode} needs client_tls_ca_file, the authorities of clients' certificates"
                )));
            }
            None => {}
        }
        if verifies {
            table.text("client_certificate", "verify-ca");
        }
        Ok(table)
    }

    fn pooling(&mut self) -> Table {
        let mut table = Table::default();
        let mode = self.word("pool_mode");
        if self.said("pool_mode").is_none() {
            let what = "session, PgBouncer's default: many clients share few sessions with transaction alone, where the gateway gains most";
            self.note(&self.place_of("pool_mode"), "pool_mode", what);
        }
        table.text("mode", &mode);
        match self.whole("default_pool_size") {
            size @ 1..=10_000 => table.raw("size", &size.to_string()),
            _ => {
                let what = "a pool has from 1 to 10000 sessions of a kind: 10000 are written";
                self.note(&self.place_of("default_pool_size"), "default_pool_size", what);
                table.raw("size", "10000");
            }
        }
        table
    }

    fn limits(&mut self) -> Table {
        let mut table = Table::default();
        let most = self.whole("max_client_conn").clamp(1, 10_000_000);
        table.raw("max_clients", &most.to_string());
        for (key, name) in [
            ("max_database_connections", "max_db_connections"),
            ("max_user_connections", "max_user_connections"),
        ] {
            if let Some(limit) = self.limit(name) {
                table.raw(key, &limit.to_string());
            }
        }
        for (key, name) in [
            ("login_timeout", "client_login_timeout"),
            ("query_wait_timeout", "query_wait_timeout"),
            ("query_timeout", "query_timeout"),
            ("transaction_timeout", "transaction_timeout"),
            ("idle_transaction_timeout", "idle_transaction_timeout"),
            ("client_idle_timeout", "client_idle_timeout"),
            ("server_idle_timeout", "server_idle_timeout"),
            ("server_lifetime", "server_lifetime"),
            ("server_login_retry", "server_login_retry"),
        ] {
            let Some((_, value)) = self.said(name) else { continue };
            let zero = seconds(value) == Some(0.0);
            let time = match name {
                // 0 is no limit here.
                "server_lifetime" if zero => "1s".to_owned(),
                "server_login_retry" if zero => "1ms".to_owned(),
                _ => time(value),
            };
            if zero && time != "0" {
                let what = format!("0 means at once, which is not there: {time} is written");
                self.note(&self.place_of(name), name, &what);
            }
            if time == "0" { table.raw(key, "0") } else { table.text(key, &time) }
        }
        if self.limit("max_user_client_connections").is_some() {
            let what =
                "holds for users that have a table of their own: max_clients in [users.NAME]";
            let name = "max_user_client_connections";
            self.note(&self.place_of(name), name, what);
        }
        table
    }
}

/// Seconds as a time is written here.
fn time(value: &str) -> String {
    match seconds(value) {
        Some(seconds) if seconds <= LONGEST => {
            let micros = (seconds * 1e6).round() as u64;
            Time(Some(Duration::from_micros(micros)).filter(|time| !time.is_zero())).to_string()
        }
        _ => "0".to_owned(),
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.name)
}

/// That there is nothing of a name, with the one that was meant.
pub fn unknown(what: &str, given: &str, known: &mut dyn Iterator<Item = &str>) -> String {
    // A password may stand where a name should.
    let is_name = given.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let near = known.map(|name| (damerau_levenshtein(name, given), name)).min();
    match near {
        Some((distance, near)) if distance <= NEAR => {
            format!("PgBouncer has no {what} \"{given}\": write {near}")
        }
        _ if is_name => format!("PgBouncer 1.25 has no {what} \"{given}\": leave it out"),
        _ => format!("PgBouncer 1.25 has no {what} of this name: leave it out"),
    }
}
