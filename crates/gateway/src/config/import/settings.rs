//! The settings of PgBouncer's `[pgbouncer]`, and what becomes of each.

/// What a value has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number, hexadecimal after `0x` and octal after `0`.
    Number,
    /// Seconds, with a fraction or without.
    Seconds,
    /// Any text.
    Text,
    /// One of these, in capitals or not.
    OneOf(&'static [&'static str]),
}

/// What becomes of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is converted.
    Converted,
    /// It has no counterpart: what that means, where it is not at its default.
    None(&'static str),
}

/// A setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// What its value has to be.
    pub kind: Kind,
    /// Its default in PgBouncer 1.25.
    pub default: &'static str,
    /// What becomes of it.
    pub fate: Fate,
}

/// The modes of pooling.
pub const POOL_MODES: &[&str] = &["session", "transaction", "statement"];
const AUTH_TYPES: &[&str] =
    &["any", "trust", "plain", "md5", "cert", "hba", "ldap", "pam", "scram-sha-256"];
const SSL_MODES: &[&str] = &["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

const LOG: &str = "events go to standard error, for systemd or a redirection to keep";
const LOG_OF_CLIENTS: &str = "clients that come, go and fail are told with -v alone";
const SUITES: &str = "the cipher suites and curves of TLS 1.2 and 1.3 are not chosen";
const CACHE: &str = "names are looked up for each connection to the server, as the system does it";
const CHECK: &str = "sessions are not asked before they are used: one that breaks is replaced";
const RESERVE: &str = "no session is kept in reserve: make the pool as large as both together";
const TCP: &str = "connections of clients have the system's settings of TCP";

/// All settings of 1.25, in the order of their names.
pub const SETTINGS: &[Setting] = &[
    taken("admin_users", Kind::Text, ""),
    lost(
        "application_name_add_host",
        Kind::Number,
        "0",
        "application_name stays as the client sends it; SHOW CLIENTS has the address",
    ),
    taken("auth_dbname", Kind::Text, ""),
    taken("auth_file", Kind::Text, ""),
    taken("auth_hba_file", Kind::Text, ""),
    taken("auth_ident_file", Kind::Text, ""),
    lost("auth_ldap_options", Kind::Text, "", "LDAP is not asked"),
    taken("auth_query", Kind::Text, ""),
    taken("auth_type", Kind::OneOf(AUTH_TYPES), "md5"),
    taken("auth_user", Kind::Text, ""),
    lost("autodb_idle_timeout", Kind::Seconds, "3600", "pools are kept with their statistics"),
    lost("cancel_wait_timeout", Kind::Seconds, "10", "a request to cancel waits for no session"),
    taken("client_idle_timeout", Kind::Seconds, "0"),
    taken("client_login_timeout", Kind::Seconds, "60"),
    lost("client_tls13_ciphers", Kind::Text, "", SUITES),
    taken("client_tls_ca_file", Kind::Text, ""),
    taken("client_tls_cert_file", Kind::Text, ""),
    lost("client_tls_ciphers", Kind::Text, "default", SUITES),
    lost("client_tls_dheparams", Kind::Text, "auto", SUITES),
    lost("client_tls_ecdhcurve", Kind::Text, "auto", SUITES),
    taken("client_tls_key_file", Kind::Text, ""),
    lost(
        "client_tls_protocols",
        Kind::Text,
        "secure",
        "TLS 1.2 and 1.3 are spoken, nothing older, and neither is turned off",
    ),
    taken("client_tls_sslmode", Kind::OneOf(SSL_MODES), "disable"),
    lost("conffile", Kind::Text, "", "RELOAD reads the file of --config"),
    taken("default_pool_size", Kind::Number, "20"),
    lost(
        "disable_pqexec",
        Kind::Number,
        "0",
        "clients may use the simple protocol, with several statements in a message",
    ),
    lost("dns_max_ttl", Kind::Seconds, "15", CACHE),
    lost("dns_nxdomain_ttl", Kind::Seconds, "15", CACHE),
    lost(
        "dns_zone_check_period",
        Kind::Seconds,
        "0",
        "where a name leads elsewhere, RECONNECT renews the sessions",
    ),
    taken("idle_transaction_timeout", Kind::Seconds, "0"),
    lost(
        "ignore_startup_parameters",
        Kind::Text,
        "",
        "it needs none: startup parameters are passed on to the server",
    ),
    lost("job_name", Kind::Text, "pgbouncer", "there are no services of Windows"),
    taken("listen_addr", Kind::Text, ""),
    lost(
        "listen_backlog",
        Kind::Number,
        "128",
        "the queue of new connections has the length that the system gives it",
    ),
    taken("listen_port", Kind::Number, "6432"),
    lost("log_connections", Kind::Number, "1", LOG_OF_CLIENTS),
    lost("log_disconnections", Kind::Number, "1", LOG_OF_CLIENTS),
    lost("log_pooler_errors", Kind::Number, "1", LOG_OF_CLIENTS),
    lost(
        "log_stats",
        Kind::Number,
        "1",
        "statistics are in SHOW STATS and the metrics, not in the log",
    ),
    lost("logfile", Kind::Text, "", LOG),
    lost("login_notify_message", Kind::Text, "", "clients are not greeted"),
    taken("max_client_conn", Kind::Number, "100"),
    taken("max_db_client_connections", Kind::Number, "0"),
    taken("max_db_connections", Kind::Number, "0"),
    lost("max_packet_size", Kind::Number, "2147483647", "messages have no limit of their own"),
    lost(
        "max_prepared_statements",
        Kind::Number,
        "200",
        "a server session keeps 200 prepared statements",
    ),
    taken("max_user_client_connections", Kind::Number, "0"),
    taken("max_user_connections", Kind::Number, "0"),
    lost("min_pool_size", Kind::Number, "0", "server sessions are opened when they are needed"),
    lost(
        "peer_id",
        Kind::Number,
        "0",
        "several threads of one process serve (workers), so on one machine it needs no peers",
    ),
    lost("pidfile", Kind::Text, "", "it writes no file with its process id: systemd knows it"),
    lost("pkt_buf", Kind::Number, "4096", "buffers grow as they need"),
    lost("pool_idle_timeout", Kind::Seconds, "0", "pools are kept with their statistics"),
    taken("pool_mode", Kind::OneOf(POOL_MODES), "session"),
    taken("query_timeout", Kind::Seconds, "0"),
    lost("query_wait_notify", Kind::Number, "5", "clients are not told that they wait"),
    taken("query_wait_timeout", Kind::Seconds, "120"),
    lost("reserve_pool_size", Kind::Number, "0", RESERVE),
    lost("reserve_pool_timeout", Kind::Seconds, "5", RESERVE),
    lost("resolv_conf", Kind::Text, "", CACHE),
    lost(
        "sbuf_loopcnt",
        Kind::Number,
        "5",
        "how long one client is served before the next is not set",
    ),
    lost(
        "scram_iterations",
        Kind::Number,
        "4096",
        "plain passwords of the userlist are checked with 4096 iterations",
    ),
    lost("server_check_delay", Kind::Seconds, "30", CHECK),
    lost("server_check_query", Kind::Text, "<empty>", CHECK),
    taken("server_connect_timeout", Kind::Seconds, "15"),
    lost(
        "server_fast_close",
        Kind::Number,
        "0",
        "RECONNECT lets a client of session pooling keep its session until it leaves",
    ),
    taken("server_idle_timeout", Kind::Seconds, "600"),
    taken("server_lifetime", Kind::Seconds, "3600"),
    taken("server_login_retry", Kind::Seconds, "15"),
    lost(
        "server_reset_query",
        Kind::Text,
        "DISCARD ALL",
        "a session that a client kept for itself is reset by DISCARD ALL",
    ),
    lost(
        "server_reset_query_always",
        Kind::Number,
        "0",
        "settings and prepared statements follow their client, so there is nothing to reset after a transaction",
    ),
    lost("server_round_robin", Kind::Number, "0", "the session with the least to do is used first"),
    lost("server_tls13_ciphers", Kind::Text, "", SUITES),
    taken("server_tls_ca_file", Kind::Text, ""),
    taken("server_tls_cert_file", Kind::Text, ""),
    lost("server_tls_ciphers", Kind::Text, "default", SUITES),
    taken("server_tls_key_file", Kind::Text, ""),
    lost(
        "server_tls_protocols",
        Kind::Text,
        "secure",
        "TLS 1.2 and 1.3 are spoken, nothing older, and neither is turned off",
    ),
    taken("server_tls_sslmode", Kind::OneOf(SSL_MODES), "prefer"),
    lost("service_name", Kind::Text, "pgbouncer", "there are no services of Windows"),
    lost(
        "so_reuseport",
        Kind::Number,
        "0",
        "several threads of one process serve: write workers = N for more than a quarter of the processors",
    ),
    lost("stats_period", Kind::Number, "60", "averages are those of a minute"),
    taken("stats_users", Kind::Text, ""),
    lost("suspend_timeout", Kind::Seconds, "10", "SUSPEND is refused"),
    lost("syslog", Kind::Number, "0", LOG),
    lost("syslog_facility", Kind::Text, "daemon", LOG),
    lost("syslog_ident", Kind::Text, "pgbouncer", LOG),
    lost("tcp_defer_accept", Kind::Number, "1", TCP),
    lost("tcp_keepalive", Kind::Number, "1", TCP),
    lost("tcp_keepcnt", Kind::Number, "0", TCP),
    lost("tcp_keepidle", Kind::Number, "0", TCP),
    lost("tcp_keepintvl", Kind::Number, "0", TCP),
    lost("tcp_socket_buffer", Kind::Number, "0", TCP),
    lost("tcp_user_timeout", Kind::Number, "0", TCP),
    lost(
        "track_extra_parameters",
        Kind::Text,
        "IntervalStyle",
        "it needs none: every setting that a client makes with SET follows it",
    ),
    taken("transaction_timeout", Kind::Seconds, "0"),
    taken("unix_socket_dir", Kind::Text, "/tmp"),
    lost(
        "unix_socket_group",
        Kind::Text,
        "",
        "the socket has the process's group: let the permissions of its directory say who may come",
    ),
    lost(
        "unix_socket_mode",
        Kind::Number,
        "0777",
        "the socket has the mode 0777: let the permissions of its directory say who may come",
    ),
    lost("user", Kind::Text, "", "start it as that user: User= of systemd"),
    lost("verbose", Kind::Number, "0", "-v tells more"),
];

const fn taken(name: &'static str, kind: Kind, default: &'static str) -> Setting {
    Setting { name, kind, default, fate: Fate::Converted }
}

const fn lost(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    what: &'static str,
) -> Setting {
    Setting { name, kind, default, fate: Fate::None(what) }
}

impl Setting {
    /// The setting of a name.
    pub fn named(name: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// Whether a value is one for it.
    ///
    /// # Errors
    /// With what would be.
    pub fn check(&self, value: &str) -> Result<(), String> {
        let name = self.name;
        match self.kind {
            Kind::Text => Ok(()),
            Kind::Number if number(value).is_some() => Ok(()),
            Kind::Seconds if seconds(value).is_some() => Ok(()),
            Kind::OneOf(all) if all.iter().any(|one| one.eq_ignore_ascii_case(value)) => Ok(()),
            Kind::Number => Err(format!("{name} is a number")),
            Kind::Seconds => Err(format!("{name} is a number of seconds")),
            Kind::OneOf(all) => Err(format!("{name} is one of {}", all.join(", "))),
        }
    }

    /// Whether a value is the default.
    pub fn is_default(&self, value: &str) -> bool {
        match self.kind {
            Kind::Number => number(value) == number(self.default),
            Kind::Seconds => seconds(value) == seconds(self.default),
            Kind::Text => value == self.default,
            Kind::OneOf(_) => value.eq_ignore_ascii_case(self.default),
        }
    }
}

/// A whole number as C's `strtol` reads it.
pub fn number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(digits) => (16, digits),
        None if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        None => (10, digits),
    };
    let is_digits = digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let found = i64::from_str_radix(digits, radix).ok().filter(|_| is_digits)?;
    Some(if negative { -found } else { found })
}

/// A number of seconds, none below zero.
pub fn seconds(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b".+eE-".contains(&byte));
    text.parse().ok().filter(|seconds: &f64| is_plain && *seconds >= 0.0 && seconds.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value() {
        for setting in SETTINGS {
            assert_eq!(setting.check(setting.default), Ok(()), "{}", setting.name);
            assert!(setting.is_default(setting.default), "{}", setting.name);
        }
    }

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        assert_eq!(["0777", "0x10", "-1", "+7", "0"].map(number), [511, 16, -1, 7, 0].map(Some));
        assert_eq!(["", "1.5", "08", "--1", "5 ", "0x"].map(number), [None; 6]);
        assert_eq!(
            ["1.5", "0", "-1", "inf", "1s"].map(seconds),
            [Some(1.5), Some(0.0), None, None, None]
        );
    }
}
