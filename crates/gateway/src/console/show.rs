//! What the console shows, in PgBouncer's columns.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::table::Type::{Big, Int, Numeric, Text};
use super::table::{Column, Table, Value};
use super::{LIKE, Wrong};
use crate::control::{Control, Paused, Silent, by_database};
use crate::options::{Database, PoolMode};
use crate::report::{ClientReport, PoolReport, Report, ServerReport, SessionReport};
use crate::stats::{BarrierStats, Stats};
use crate::{Histogram, Options, Pin};

macro_rules! shows {
    ($($(#[$doc:meta])* $variant:ident $name:literal $columns:expr,)*) => {
        /// What can be shown.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Show {
            $($(#[$doc])* $variant,)*
        }

        impl Show {
            /// All of it.
            pub const ALL: &[Show] = &[$(Show::$variant,)*];

            /// Its name after SHOW.
            pub fn name(self) -> &'static str {
                match self {
                    $(Show::$variant => $name,)*
                }
            }

            /// Its columns; `None` where it is told in a notice.
            pub fn columns(self) -> Option<&'static [Column]> {
                match self {
                    $(Show::$variant => $columns,)*
                }
            }
        }
    };
}

shows! {
    /// What commands there are.
    Help "HELP" None,
    /// Options.
    Config "CONFIG" Some(CONFIG),
    /// Databases.
    Databases "DATABASES" Some(DATABASES),
    /// Pools.
    Pools "POOLS" Some(POOLS),
    /// Clients.
    Clients "CLIENTS" Some(SOCKETS),
    /// Server sessions.
    Servers "SERVERS" Some(SOCKETS),
    /// Both.
    Sockets "SOCKETS" Some(SOCKETS),
    /// Those of both that do something.
    ActiveSockets "ACTIVE_SOCKETS" Some(SOCKETS),
    /// Users.
    Users "USERS" Some(USERS),
    /// The version.
    Version "VERSION" Some(&[("version", Text)]),
    /// How many there are of what.
    Lists "LISTS" Some(&[("list", Text), ("items", Int)]),
    /// Memory.
    Mem "MEM" Some(&[("name", Text), ("size", Int), ("used", Int), ("free", Int), ("memtotal", Int)]),
    /// Whether all is paused.
    State "STATE" Some(&[("key", Text), ("value", Text)]),
    /// What was counted, and averages.
    Stats "STATS" Some(STATS),
    /// What was counted.
    StatsTotals "STATS_TOTALS" Some(STATS_TOTALS),
    /// Averages.
    StatsAverages "STATS_AVERAGES" Some(STATS_AVERAGES),
    /// What was counted in all databases together.
    Totals "TOTALS" Some(&[("name", Text), ("value", Numeric)]),
    /// Barriers.
    Barriers "BARRIERS" Some(BARRIERS),
    /// Clients that keep their sessions.
    Pins "PINS" Some(PINS),
    /// How long statements and answers waited.
    Times "TIMES" Some(TIMES),
}

const CONFIG: &[Column] =
    &[("key", Text), ("value", Text), ("default", Text), ("changeable", Text)];

const DATABASES: &[Column] = &[
    ("name", Text),
    ("host", Text),
    ("port", Int),
    ("database", Text),
    ("force_user", Text),
    ("pool_size", Int),
    ("min_pool_size", Int),
    ("reserve_pool_size", Int),
    ("server_lifetime", Int),
    ("pool_mode", Text),
    ("load_balance_hosts", Text),
    ("max_connections", Int),
    ("current_connections", Int),
    ("max_client_connections", Int),
    ("current_client_connections", Int),
    ("paused", Int),
    ("disabled", Int),
];

const POOLS: &[Column] = &[
    ("database", Text),
    ("user", Text),
    ("cl_active", Int),
    ("cl_waiting", Int),
    ("cl_active_cancel_req", Int),
    ("cl_waiting_cancel_req", Int),
    ("sv_active", Int),
    ("sv_active_cancel", Int),
    ("sv_being_canceled", Int),
    ("sv_idle", Int),
    ("sv_used", Int),
    ("sv_tested", Int),
    ("sv_login", Int),
    ("maxwait", Int),
    ("maxwait_us", Int),
    ("pool_mode", Text),
    ("load_balance_hosts", Text),
];

const SOCKETS: &[Column] = &[
    ("type", Text),
    ("user", Text),
    ("database", Text),
    ("replication", Text),
    ("state", Text),
    ("addr", Text),
    ("port", Int),
    ("local_addr", Text),
    ("local_port", Int),
    ("connect_time", Text),
    ("request_time", Text),
    ("wait", Int),
    ("wait_us", Int),
    ("close_needed", Int),
    ("ptr", Text),
    ("link", Text),
    ("remote_pid", Int),
    ("tls", Text),
    ("application_name", Text),
    ("prepared_statements", Int),
    ("id", Big),
];

const USERS: &[Column] = &[
    ("name", Text),
    ("pool_size", Text),
    ("reserve_pool_size", Text),
    ("pool_mode", Text),
    ("max_user_connections", Int),
    ("current_connections", Int),
    ("max_user_client_connections", Int),
    ("current_client_connections", Int),
];

const STATS: &[Column] = &[
    ("database", Text),
    ("total_server_assignment_count", Numeric),
    ("total_xact_count", Numeric),
    ("total_query_count", Numeric),
    ("total_received", Numeric),
    ("total_sent", Numeric),
    ("total_xact_time", Numeric),
    ("total_query_time", Numeric),
    ("total_wait_time", Numeric),
    ("total_client_parse_count", Numeric),
    ("total_server_parse_count", Numeric),
    ("total_bind_count", Numeric),
    ("avg_server_assignment_count", Numeric),
    ("avg_xact_count", Numeric),
    ("avg_query_count", Numeric),
    ("avg_recv", Numeric),
    ("avg_sent", Numeric),
    ("avg_xact_time", Numeric),
    ("avg_query_time", Numeric),
    ("avg_wait_time", Numeric),
    ("avg_client_parse_count", Numeric),
    ("avg_server_parse_count", Numeric),
    ("avg_bind_count", Numeric),
];

const STATS_TOTALS: &[Column] = &[
    ("database", Text),
    ("server_assignment_count", Numeric),
    ("xact_count", Numeric),
    ("query_count", Numeric),
    ("bytes_received", Numeric),
    ("bytes_sent", Numeric),
    ("xact_time", Numeric),
    ("query_time", Numeric),
    ("wait_time", Numeric),
    ("client_parse_count", Numeric),
    ("server_parse_count", Numeric),
    ("bind_count", Numeric),
];

const STATS_AVERAGES: &[Column] = &[
    ("database", Text),
    ("server_assignment_count", Numeric),
    ("xact_count", Numeric),
    ("query_count", Numeric),
    ("bytes_received", Numeric),
    ("bytes_sent", Numeric),
    ("xact_time", Numeric),
    ("query_time", Numeric),
    ("wait_time", Numeric),
    ("avg_client_parse_count", Numeric),
    ("avg_server_parse_count", Numeric),
    ("avg_bind_count", Numeric),
];

const BARRIERS: &[Column] = &[
    ("server", Text),
    ("state", Text),
    ("sessions", Int),
    ("withheld", Int),
    ("exposed", Int),
    ("barriers", Big),
    ("lost", Big),
    ("clients", Big),
    ("clients_p50", Big),
    ("clients_p99", Big),
    ("time", Big),
    ("time_p50", Big),
    ("time_p99", Big),
    ("trouble", Text),
];

const PINS: &[Column] =
    &[("database", Text), ("user", Text), ("reason", Text), ("clients", Int), ("total", Big)];

const TIMES: &[Column] = &[
    ("database", Text),
    ("user", Text),
    ("what", Text),
    ("count", Big),
    ("time", Big),
    ("p50", Big),
    ("p90", Big),
    ("p99", Big),
    ("max", Big),
];

/// Names of what a [`Stats`] row has, for SHOW TOTALS.
const TOTALS: [&str; 11] = [
    "server_assignment_count",
    "xact_count",
    "query_count",
    "client_bytes",
    "server_bytes",
    "xact_time",
    "query_time",
    "wait_time",
    "ps_client_parse_count",
    "ps_server_parse_count",
    "ps_bind_count",
];

impl Show {
    /// What is shown under a name.
    ///
    /// # Errors
    /// When there is nothing of that name, or it is left out.
    pub fn by_name(name: &str) -> Result<Show, Wrong> {
        if let Some(show) = Show::ALL.iter().find(|show| show.name().eq_ignore_ascii_case(name)) {
            return Ok(*show);
        }
        let why = match name.to_ascii_uppercase().as_str() {
            "FDS" => "the console hands no sockets over",
            "PEERS" | "PEER_POOLS" => "a cancel request finds its client without peers",
            "DNS_HOSTS" | "DNS_ZONES" => "names are looked up for each connection",
            _ => {
                let what = format!("invalid command 'SHOW {name}'");
                return Err(Wrong::new("42601", what).hint("use SHOW HELP"));
            }
        };
        let what = format!("SHOW {} is not supported", name.to_ascii_uppercase());
        Err(Wrong::new("0A000", what).hint(why))
    }

    /// Whether it tells of single clients and sessions.
    pub fn needs_details(self) -> bool {
        matches!(self, Show::Clients | Show::Servers | Show::Sockets | Show::ActiveSockets)
    }
}

/// The gateway at one moment.
#[derive(Debug)]
pub struct Overview {
    /// What the workers say.
    pub reports: Vec<Report>,
    /// The options.
    pub options: Arc<Options>,
    /// What is paused.
    pub paused: Paused,
    before: (Instant, HashMap<String, Stats>),
}

impl Overview {
    /// Asks all workers.
    ///
    /// # Errors
    /// When one does not answer.
    pub fn of(control: &Control, details: bool) -> Result<Overview, Silent> {
        Ok(Overview {
            reports: control.reports(details)?,
            options: control.options(),
            paused: control.paused(),
            before: control.before(),
        })
    }

    /// The pools, those of all workers and startup parameters together.
    pub fn pools(&self) -> Vec<PoolReport> {
        let mut found: BTreeMap<(&str, &str), PoolReport> = BTreeMap::new();
        for pool in self.reports.iter().flat_map(|report| &report.pools) {
            match found.get_mut(&(pool.database.as_str(), pool.user.as_str())) {
                Some(of) => of.add(pool),
                None => drop(found.insert((&pool.database, &pool.user), pool.clone())),
            }
        }
        found.into_values().collect()
    }

    /// The servers, as all workers know them together.
    pub fn servers(&self) -> Vec<ServerReport> {
        let mut found: BTreeMap<usize, ServerReport> = BTreeMap::new();
        for server in self.reports.iter().flat_map(|report| &report.servers) {
            match found.get_mut(&server.place) {
                Some(of) => of.add(server),
                None => drop(found.insert(server.place, server.clone())),
            }
        }
        found.into_values().collect()
    }

    /// Clients that are not let in yet.
    pub fn logging_in(&self) -> usize {
        self.reports.iter().map(|report| report.logging_in).sum()
    }

    /// The rows of something.
    pub fn table(&self, show: Show) -> Table {
        let mut table = Table::new(show.columns().unwrap_or_default());
        let rows = match show {
            Show::Help => Vec::new(),
            Show::Config => self.config(),
            Show::Databases => self.databases(),
            Show::Pools => self.pools().iter().map(pool_row).collect(),
            Show::Clients => self.clients(|_| true),
            Show::Servers => self.sessions(|_| true),
            Show::Sockets => [self.clients(|_| true), self.sessions(|_| true)].concat(),
            Show::ActiveSockets => {
                let clients = self.clients(|of| of.state != "idle");
                [clients, self.sessions(|of| of.state != "idle")].concat()
            }
            Show::Users => self.users(),
            Show::Version => {
                let version = env!("CARGO_PKG_VERSION");
                let version = format!("walwright gateway {version}, commands as PgBouncer {LIKE}");
                vec![vec![version.into()]]
            }
            Show::Lists => self.lists(),
            Show::Mem => self.memory(),
            Show::State => {
                let word = |is: bool| if is { "yes" } else { "no" };
                let paused = self.paused.all;
                let of = [("active", !paused), ("paused", paused), ("suspended", false)];
                of.into_iter().map(|(key, is)| vec![key.into(), word(is).into()]).collect()
            }
            Show::Stats => self.stats(true, true),
            Show::StatsTotals => self.stats(true, false),
            Show::StatsAverages => self.stats(false, true),
            Show::Totals => self.totals(),
            Show::Barriers => self.servers().iter().map(server_row).collect(),
            Show::Pins => self.pins(),
            Show::Times => self.times(),
        };
        rows.into_iter().for_each(|row| table.push(row));
        table
    }

    fn averages(&self, name: &str, now: &Stats) -> [u64; 11] {
        let (since, before) = &self.before;
        average(now, before.get(name).unwrap_or(&Stats::default()), since.elapsed())
    }

    fn stats(&self, totals: bool, averages: bool) -> Vec<Vec<Value>> {
        let all: BTreeMap<String, Stats> = by_database(&self.reports).into_iter().collect();
        let row = |(name, stats): (&String, &Stats)| {
            let mut row = vec![name.as_str().into()];
            if totals {
                row.extend(counts(stats).map(Value::from));
            }
            if averages {
                row.extend(self.averages(name, stats).map(Value::from));
            }
            row
        };
        all.iter().map(row).collect()
    }

    fn totals(&self) -> Vec<Vec<Value>> {
        let sum = |of: &HashMap<String, Stats>| {
            let mut sum = Stats::default();
            of.values().for_each(|stats| sum.add(stats));
            sum
        };
        let (since, before) = &self.before;
        let (now, before) = (sum(&by_database(&self.reports)), sum(before));
        let averages = average(&now, &before, since.elapsed());
        let rows = |prefix: &'static str, values: [u64; 11]| {
            let names = TOTALS.iter().zip(values);
            names.map(move |(name, value)| vec![format!("{prefix}_{name}").into(), value.into()])
        };
        rows("total", counts(&now)).chain(rows("avg", averages)).collect()
    }

    fn pins(&self) -> Vec<Vec<Value>> {
        let mut rows = Vec::new();
        for pool in self.pools() {
            for pin in Pin::ALL {
                let (clients, total) = (pool.pinned[pin as usize], pool.stats.pins[pin as usize]);
                if total > 0 {
                    let (database, user) = (pool.database.as_str(), pool.user.as_str());
                    let row = [database.into(), user.into(), pin.name().into()];
                    let counts = [clients.into(), total.into()];
                    rows.push(row.into_iter().chain(counts).collect());
                }
            }
        }
        rows
    }

    fn times(&self) -> Vec<Vec<Value>> {
        let mut rows = Vec::new();
        for pool in self.pools() {
            let of = &pool.stats;
            for (what, times) in [
                ("queue_wait", &of.queue_wait),
                ("execution", &of.execution),
                ("withheld", &of.withheld),
            ] {
                let (database, user) = (pool.database.as_str(), pool.user.as_str());
                let mut row: Vec<Value> = vec![database.into(), user.into(), what.into()];
                row.extend([times.count().into(), times.sum().into()]);
                row.extend([0.5, 0.9, 0.99, 1.0].map(|share| times.quantile(share).into()));
                rows.push(row);
            }
        }
        rows
    }

    fn lists(&self) -> Vec<Vec<Value>> {
        let pools = self.pools();
        let users: HashSet<&str> = pools.iter().map(|pool| pool.user.as_str()).collect();
        let clients: usize = pools.iter().map(|pool| pool.active + pool.waiting).sum();
        let sessions: usize = pools.iter().map(PoolReport::sessions).sum();
        [
            ("databases", self.database_names().len()),
            ("users", users.len()),
            ("peers", 0),
            ("pools", pools.len()),
            ("peer_pools", 0),
            ("free_clients", 0),
            ("used_clients", clients),
            ("login_clients", self.logging_in()),
            ("free_servers", 0),
            ("used_servers", sessions),
            ("dns_names", 0),
            ("dns_zones", 0),
            ("dns_queries", 0),
            ("dns_pending", 0),
        ]
        .into_iter()
        .map(|(list, items)| vec![list.into(), items.into()])
        .collect()
    }

    fn memory(&self) -> Vec<Vec<Value>> {
        let pools = self.pools();
        let clients = pools.iter().map(|pool| pool.active + pool.waiting).sum::<usize>();
        let sessions = pools.iter().map(PoolReport::sessions).sum();
        let row = |name: &str, size: usize, used: usize| -> Vec<Value> {
            vec![name.into(), size.into(), used.into(), 0_u64.into(), (size * used).into()]
        };
        vec![
            row("client_cache", size_of::<crate::client::Client>(), clients + self.logging_in()),
            row("server_cache", size_of::<crate::session::Session>(), sessions),
            row("pool_cache", size_of::<PoolReport>(), pools.len()),
        ]
    }

    fn database_names(&self) -> Vec<String> {
        let named = self.options.databases.iter().filter_map(|database| database.name.clone());
        let seen = self.reports.iter().flat_map(|report| &report.pools);
        let mut names: Vec<String> = named.chain(seen.map(|pool| pool.database.clone())).collect();
        names.sort();
        names.dedup();
        names
    }

    fn databases(&self) -> Vec<Vec<Value>> {
        let console: Vec<Value> = vec![
            "pgbouncer".into(),
            Value::Null,
            u64::from(self.port()).into(),
            "pgbouncer".into(),
            "pgbouncer".into(),
            2_u64.into(),
            0_u64.into(),
            0_u64.into(),
            self.lifetime(),
            "statement".into(),
            Value::Null,
            0_u64.into(),
            0_u64.into(),
            0_u64.into(),
            0_u64.into(),
            false.into(),
            false.into(),
        ];
        let row = |name: String| Some(self.database_row(&name, self.options.database(&name)?));
        self.database_names().into_iter().filter_map(row).chain([console]).collect()
    }

    fn port(&self) -> u16 {
        let tcp = |place: &crate::Listen| match place {
            crate::Listen::Tcp(address) => Some(address.port()),
            crate::Listen::Unix(_) => None,
        };
        self.options.listen.iter().find_map(tcp).unwrap_or_default()
    }

    fn lifetime(&self) -> Value {
        self.options.limits.server_lifetime.map_or(0, |time| time.as_secs()).into()
    }

    fn database_row(&self, name: &str, database: &Database) -> Vec<Value> {
        let addresses = &database.server.addresses;
        let hosts = addresses.iter().map(|address| match &address.host {
            walwright_wire::Host::Unix(directory) => directory.display().to_string(),
            walwright_wire::Host::Tcp(host) => host.clone(),
        });
        let pooling = database.pooling.or(self.options.pooling);
        let pools = || self.pools().into_iter().filter(|pool| pool.database == name);
        let forced = addresses.first().filter(|_| database.forced_user);
        let limits = &self.options.limits;
        vec![
            name.into(),
            hosts.collect::<Vec<_>>().join(",").into(),
            u64::from(addresses.first().map_or(0, |address| address.port)).into(),
            database.dbname.as_deref().unwrap_or(name).into(),
            forced.map(|address| address.user.as_str()).into(),
            pooling.size.into(),
            0_u64.into(),
            0_u64.into(),
            self.lifetime(),
            database.pooling.mode.map(mode).into(),
            Value::Null,
            database.max_connections.or(limits.max_database_connections).unwrap_or(0).into(),
            pools().map(|pool| pool.sessions()).sum::<usize>().into(),
            database.max_clients.unwrap_or(0).into(),
            pools().map(|pool| pool.active + pool.waiting).sum::<usize>().into(),
            self.paused.holds(name).into(),
            self.paused.disables(name).into(),
        ]
    }

    fn users(&self) -> Vec<Vec<Value>> {
        let pools = self.pools();
        let named = self.options.users.keys().map(String::as_str);
        let mut names: Vec<&str> = named.chain(pools.iter().map(|of| of.user.as_str())).collect();
        names.sort_unstable();
        names.dedup();
        let row = |name: &str| -> Vec<Value> {
            let said = self.options.users.get(name);
            let size = said.and_then(|user| user.pooling.size);
            let most = said.and_then(|user| user.max_connections);
            let most = most.or(self.options.limits.max_user_connections);
            let of = || pools.iter().filter(|pool| pool.user == name);
            vec![
                name.into(),
                size.map(|size| size.to_string()).unwrap_or_default().into(),
                "".into(),
                said.and_then(|user| user.pooling.mode).map(mode).into(),
                most.unwrap_or(0).into(),
                of().map(PoolReport::sessions).sum::<usize>().into(),
                said.and_then(|user| user.max_clients).unwrap_or(0).into(),
                of().map(|pool| pool.active + pool.waiting).sum::<usize>().into(),
            ]
        };
        names.into_iter().map(row).collect()
    }

    fn clients(&self, wanted: impl Fn(&ClientReport) -> bool) -> Vec<Vec<Value>> {
        let clients = self.reports.iter().flat_map(|report| &report.clients);
        clients.filter(|client| wanted(client)).map(client_row).collect()
    }

    fn sessions(&self, wanted: impl Fn(&SessionReport) -> bool) -> Vec<Vec<Value>> {
        let sessions = self.reports.iter().flat_map(|report| &report.sessions);
        sessions.filter(|session| wanted(session)).map(session_row).collect()
    }

    fn config(&self) -> Vec<Vec<Value>> {
        let now = settings(&self.options);
        let address = self.options.databases.first();
        let address = address.and_then(|database| database.server.addresses.first());
        let default = address.map(|address| settings(&Options::new(address.clone())));
        let row = |(place, (key, value, reloads)): (usize, &(&'static str, String, bool))| {
            let default = default.as_ref().map(|default| default[place].1.clone());
            let reloads = if *reloads { "yes" } else { "no" };
            vec![(*key).into(), value.clone().into(), default.into(), reloads.into()]
        };
        now.iter().enumerate().map(row).collect()
    }
}

/// Options by PgBouncer's names where it has them, and whether RELOAD takes them.
fn settings(options: &Options) -> Vec<(&'static str, String, bool)> {
    let limits = &options.limits;
    let number = |most: Option<usize>| most.unwrap_or(0).to_string();
    let time = |time: Option<Duration>| time.map_or(0.0, |time| time.as_secs_f64()).to_string();
    let listen: Vec<String> = options.listen.iter().map(ToString::to_string).collect();
    let reads = match options.pooling.reads {
        crate::Reads::Off => "off",
        crate::Reads::Transaction => "transaction",
        crate::Reads::Strict => "strict",
    };
    let auth = match &options.authentication {
        crate::Authentication::Trust => "trust",
        crate::Authentication::Scram(_) => "scram-sha-256",
        crate::Authentication::Rules(..) => "hba",
    };
    vec![
        ("admin_users", options.admin_users.join(","), true),
        ("auth_type", auth.to_owned(), true),
        ("client_idle_timeout", time(limits.client_idle_timeout), true),
        ("client_login_timeout", time(limits.login_timeout), true),
        ("default_pool_size", options.pooling.size.to_string(), true),
        ("depth", options.depth.to_string(), true),
        ("idle_transaction_timeout", time(limits.idle_transaction_timeout), true),
        ("listen", listen.join(","), false),
        ("max_client_conn", limits.max_clients.to_string(), true),
        ("max_db_connections", number(limits.max_database_connections), true),
        ("max_user_connections", number(limits.max_user_connections), true),
        ("metrics", options.metrics.map(|to| to.to_string()).unwrap_or_default(), false),
        ("pool_mode", mode(options.pooling.mode).to_owned(), true),
        ("query_timeout", time(limits.query_timeout), true),
        ("query_wait_timeout", time(limits.query_wait_timeout), true),
        ("reads", reads.to_owned(), true),
        ("server_idle_timeout", time(limits.server_idle_timeout), true),
        ("server_lifetime", time(limits.server_lifetime), true),
        ("server_login_retry", time(Some(limits.server_login_retry)), true),
        ("spread", options.spread.to_string(), true),
        ("stats_users", options.stats_users.join(","), true),
        ("threads", options.workers.to_string(), false),
        ("transaction_timeout", time(limits.transaction_timeout), true),
    ]
}

fn mode(mode: PoolMode) -> &'static str {
    match mode {
        PoolMode::Session => "session",
        PoolMode::Transaction => "transaction",
        PoolMode::Statement => "statement",
    }
}

/// What PgBouncer counts, in its order.
fn counts(of: &Stats) -> [u64; 11] {
    [
        of.assignments,
        of.xacts,
        of.queries,
        of.received,
        of.sent,
        of.xact_time,
        of.execution.sum(),
        of.queue_wait.sum(),
        of.client_parses,
        of.server_parses,
        of.binds,
    ]
}

/// Per second, and times for each of what they are the time of, as PgBouncer reckons them.
fn average(now: &Stats, before: &Stats, time: Duration) -> [u64; 11] {
    let (now, before) = (counts(now), counts(before));
    let more: Vec<u64> = now.iter().zip(before).map(|(now, old)| now.saturating_sub(old)).collect();
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
    let rate = |place: usize| {
        u64::try_from(u128::from(more[place]) * 1_000_000 / u128::from(micros)).unwrap_or(u64::MAX)
    };
    let each = |time: usize, count: usize| more[time].checked_div(more[count]).unwrap_or(0);
    [
        rate(0),
        rate(1),
        rate(2),
        rate(3),
        rate(4),
        each(5, 1),
        each(6, 2),
        each(7, 0),
        rate(8),
        rate(9),
        rate(10),
    ]
}

fn pool_row(pool: &PoolReport) -> Vec<Value> {
    vec![
        pool.database.as_str().into(),
        pool.user.as_str().into(),
        pool.active.into(),
        pool.waiting.into(),
        0_u64.into(),
        0_u64.into(),
        pool.used.into(),
        0_u64.into(),
        pool.cancelling.into(),
        pool.idle.into(),
        0_u64.into(),
        0_u64.into(),
        pool.opening.into(),
        pool.longest.as_secs().into(),
        u64::from(pool.longest.subsec_micros()).into(),
        mode(pool.mode).into(),
        Value::Null,
    ]
}

fn server_row(server: &ServerReport) -> Vec<Value> {
    let state = match (server.barriers, &server.trouble) {
        (_, Some(_)) => "away",
        (Some(0), None) => "standby",
        (Some(_), None) if server.retiring => "retiring",
        (Some(_), None) => "up",
        (None, None) => "unused",
    };
    let BarrierStats { clients, time, lost } = &server.stats;
    let of = |histogram: &Histogram| -> [Value; 3] {
        let quantile = |share| histogram.quantile(share).into();
        [histogram.sum().into(), quantile(0.5), quantile(0.99)]
    };
    let mut row: Vec<Value> = vec![
        server.address.as_str().into(),
        state.into(),
        server.barriers.unwrap_or(0).into(),
        server.withheld.into(),
        server.exposed.into(),
        time.count().into(),
        (*lost).into(),
    ];
    row.extend(of(clients).into_iter().chain(of(time)));
    row.push(server.trouble.clone().into());
    row
}

fn client_row(client: &ClientReport) -> Vec<Value> {
    let address = |of: Option<std::net::SocketAddr>| {
        of.map_or_else(|| "unix".to_owned(), |of| of.ip().to_string())
    };
    let port = |of: Option<std::net::SocketAddr>| of.map_or(0, |of| u64::from(of.port()));
    vec![
        "C".into(),
        client.user.as_str().into(),
        client.database.as_str().into(),
        "none".into(),
        client.state.into(),
        address(client.address).into(),
        port(client.address).into(),
        address(client.local).into(),
        port(client.local).into(),
        ago(client.age).into(),
        ago(client.request.min(client.age)).into(),
        client.wait.as_secs().into(),
        u64::from(client.wait.subsec_micros()).into(),
        false.into(),
        format!("c{:x}", client.id).into(),
        client.link.map(|link| format!("s{link:x}")).unwrap_or_default().into(),
        0_u64.into(),
        client.tls.as_str().into(),
        client.application_name.as_str().into(),
        client.prepared.into(),
        client.id.into(),
    ]
}

fn session_row(session: &SessionReport) -> Vec<Value> {
    vec![
        "S".into(),
        session.user.as_str().into(),
        session.database.as_str().into(),
        "none".into(),
        session.state.into(),
        session.host.as_str().into(),
        u64::from(session.port).into(),
        "".into(),
        0_u64.into(),
        ago(session.age).into(),
        ago(session.request).into(),
        0_u64.into(),
        0_u64.into(),
        session.retires.into(),
        format!("s{:x}", session.id).into(),
        session.link.map(|link| format!("c{link:x}")).unwrap_or_default().into(),
        u64::from(session.process).into(),
        "".into(),
        session.application_name().into(),
        session.prepared.into(),
        session.id.into(),
    ]
}

/// A moment as PgBouncer writes it, in UTC.
fn ago(time: Duration) -> String {
    let at = SystemTime::now().checked_sub(time).unwrap_or(SystemTime::UNIX_EPOCH);
    let at = jiff::Timestamp::try_from(at).unwrap_or_default();
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_per_second_and_for_each() {
        let mut now = Stats { assignments: 10, xacts: 10, ..Stats::default() };
        for _ in 0..10 {
            now.answered(Duration::from_micros(300), None);
            now.queue_wait.record(50);
        }
        let of = average(&now, &Stats::default(), Duration::from_secs(2));
        assert_eq!((of[0], of[2], of[6], of[7]), (5, 5, 300, 50));
    }
}
