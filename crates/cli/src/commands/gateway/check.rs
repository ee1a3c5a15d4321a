//! `walwright gateway check`: what a configuration says, without serving.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use serde::Serialize;
use walwright_gateway::config::{Config, EXAMPLE, File};
use walwright_gateway::{Authentication, Options, Pooling};
use walwright_wire::{ConnectOptions, Connector};

use super::configuration::{meaning, places};
use crate::args::GatewayCheckArgs;
use crate::output::{Output, exit, print, usage};

/// What a configuration says.
#[derive(Debug, Serialize)]
struct Checked {
    listen: Vec<String>,
    workers: usize,
    authentication: String,
    tls: &'static str,
    databases: Vec<DatabaseSaid>,
    users: BTreeMap<String, String>,
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    servers: Option<Vec<ServerSaid>>,
}

#[derive(Debug, Serialize)]
struct DatabaseSaid {
    name: String,
    server: String,
    dbname: Option<String>,
    user: Option<String>,
    pooling: String,
}

/// A login at one address.
#[derive(Debug, Serialize)]
struct ServerSaid {
    server: String,
    user: String,
    version: Option<String>,
    error: Option<String>,
}

/// Checks.
pub fn execute(args: &GatewayCheckArgs, output: &Output) -> anyhow::Result<ExitCode> {
    if args.example {
        print(EXAMPLE)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (file, text) = File::read(&args.file).map_err(|error| usage(error.to_string()))?;
    let config = meaning(&file, Some((&args.file, &text)))?;
    let checked = Checked::new(config, args.connect);
    output.result(&checked, || checked.text(&args.file.display().to_string()))?;
    let servers = checked.servers.iter().flatten();
    let failed = servers.into_iter().any(|server| server.error.is_some());
    Ok(if failed { ExitCode::from(exit::FAILED) } else { ExitCode::SUCCESS })
}

impl Checked {
    fn new(config: Config, connects: bool) -> Checked {
        let Config { options, warnings, .. } = config;
        let databases = options.databases.iter().map(|database| {
            let first = database.server.addresses.first();
            DatabaseSaid {
                name: database.name.clone().unwrap_or_else(|| "*".to_owned()),
                server: places(&database.server),
                dbname: database.dbname.clone(),
                user: first.filter(|_| database.forced_user).map(|of| of.user.clone()),
                pooling: pooling(database.pooling.or(options.pooling)),
            }
        });
        let users = options.users.iter().map(|(name, user)| {
            let mut said = pooling(user.pooling.or(options.pooling));
            let mut limit = |what: &str, most: Option<usize>| {
                if let Some(most) = most {
                    let _ = write!(said, ", {most} {what} at most");
                }
            };
            limit("server sessions", user.max_connections);
            limit("clients", user.max_clients);
            (name.clone(), said)
        });
        Checked {
            listen: options.listen.iter().map(ToString::to_string).collect(),
            workers: options.workers,
            authentication: authentication(&options.authentication),
            tls: match &options.tls {
                None => "not offered",
                Some(tls) if tls.is_required() => "required on TCP",
                Some(_) => "offered",
            },
            databases: databases.collect(),
            users: users.collect(),
            warnings,
            servers: connects.then(|| log_in(&options)),
        }
    }

    fn text(&self, file: &str) -> String {
        let mut out = format!("{file} can be served\n");
        let mut line = |name: &str, what: &str| {
            let _ = writeln!(out, "  {name:<16}{what}");
        };
        line("listens on", &self.listen.join(", "));
        line("threads", &self.workers.to_string());
        line("clients prove", &self.authentication);
        line("TLS", self.tls);
        for DatabaseSaid { name, server, dbname, user, pooling } in &self.databases {
            let dbname = dbname.as_ref().map(|name| format!(" as {name}")).unwrap_or_default();
            let user = user.as_ref().map(|user| format!(", all as {user}")).unwrap_or_default();
            line("database", &format!("{name}: at {server}{dbname}{user}; {pooling}"));
        }
        for (name, what) in &self.users {
            line("user", &format!("{name}: {what}"));
        }
        for ServerSaid { server, user, version, error } in self.servers.iter().flatten() {
            let what = match (version, error) {
                (_, Some(error)) => format!("{server} as {user}: {error}"),
                (version, None) => {
                    format!("{server} as {user}: version {}", version.as_deref().unwrap_or("?"))
                }
            };
            line("login", &what);
        }
        for warning in &self.warnings {
            line("warning", warning);
        }
        out
    }
}

fn pooling(of: Pooling) -> String {
    let words = format!("{:?} pooling, {} sessions, reads {:?}", of.mode, of.size, of.reads);
    words.to_lowercase()
}

fn authentication(of: &Authentication) -> String {
    let asked = match of.users() {
        None => return "nothing: whoever reaches it is let in".to_owned(),
        Some(users) if users.question.query.is_some() => "auth_query",
        Some(users) if users.ask_server => "the server's verifiers",
        Some(_) => "nobody else",
    };
    let known = of.users().map_or(0, |users| users.known.len());
    let who = format!("{known} users of a list, then {asked}");
    match of {
        Authentication::Rules(rules, _) => format!("what {} rules say; {who}", rules.len()),
        _ => format!("their password (SCRAM-SHA-256); {who}"),
    }
}

/// Logs in at every address as the gateway itself does.
fn log_in(options: &Options) -> Vec<ServerSaid> {
    let mut tried: Vec<ServerSaid> = Vec::new();
    let all = options.databases.iter().map(|database| &database.server);
    for address in all.flat_map(|server| &server.addresses) {
        let (server, user) = (address.target(), address.user.clone());
        if tried.iter().any(|one| one.server == server && one.user == user) {
            continue;
        }
        let (version, error) = match version(address.clone()) {
            Ok(version) => (version, None),
            Err(error) => (None, Some(error.to_string())),
        };
        tried.push(ServerSaid { server, user, version, error });
    }
    tried
}

fn version(address: ConnectOptions) -> Result<Option<String>, walwright_wire::WireError> {
    let mut connection = Connector::new(address)?.connect()?;
    let found = connection.query("SHOW server_version")?;
    Ok(found.into_iter().flatten().flatten().next())
}
