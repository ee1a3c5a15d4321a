//! Alert rules for Prometheus, made of the metrics that there are.

use std::fmt::Write as _;

use crate::metric::{self, Metric};

/// One rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// What has to hold, in PromQL.
    pub expression: String,
    /// For how long, as Prometheus writes it.
    pub lasting: &'static str,
    /// `warning` or `critical`.
    pub severity: &'static str,
    /// What it says.
    pub summary: &'static str,
    /// What to do.
    pub what_to_do: &'static str,
}

/// Metrics of the gateway and of ingest that rules and dashboard name.
pub const GATEWAY_UP: &str = "walwright_gateway_server_up";
/// Time of a barrier of the gateway.
pub const GATEWAY_BARRIER: &str = "walwright_gateway_barrier_seconds";
/// Clients of the gateway by state.
pub const GATEWAY_CLIENTS: &str = "walwright_gateway_clients";
/// Wait of a statement of the gateway for a session.
pub const GATEWAY_QUEUE: &str = "walwright_gateway_queue_wait_seconds";
/// From a row's coming to ingest to its answer.
pub const INGEST_ACKNOWLEDGEMENT: &str = "walwright_ingest_acknowledgement_seconds";
/// From sending a batch of ingest to its answer.
pub const INGEST_FLUSH: &str = "walwright_ingest_flush_seconds";
/// Rows that ingest kept as dead letters.
pub const INGEST_DEAD_LETTERS: &str = "walwright_ingest_dead_letters_total";
/// Rows of ingest that wait.
pub const INGEST_WAITING: &str = "walwright_ingest_waiting_rows";

/// The rate of a counter over five minutes.
fn rate(metric: Metric) -> String {
    format!("rate({}[5m])", metric.exposed())
}

/// The 99th percentile of a histogram over five minutes.
pub(crate) fn p99(name: &str) -> String {
    format!("histogram_quantile(0.99, sum by (le, instance) (rate({name}_bucket[5m])))")
}

/// The mean of a flush.
pub(crate) fn mean_flush() -> String {
    let name = metric::WAL_FLUSH_SECONDS.exposed();
    format!("rate({name}_sum[5m]) / rate({name}_count[5m])")
}

/// All rules.
pub fn rules() -> Vec<Rule> {
    let of = |metric: Metric, rest: &str| format!("{} {rest}", metric.exposed());
    let rule = |name, expression, lasting, severity, summary, what_to_do| Rule {
        name,
        expression,
        lasting,
        severity,
        summary,
        what_to_do,
    };
    vec![
        rule(
            "WalwrightServerDown",
            of(metric::UP, "== 0"),
            "1m",
            "critical",
            "The server does not answer",
            "Look at its log and at whether it runs; walwright watch goes on when it is back",
        ),
        rule(
            "WalwrightReplicationLag",
            of(metric::REPLICATION_LAG_SECONDS, "> 10"),
            "2m",
            "warning",
            "Standby {{ $labels.standby }} is {{ $value | humanizeDuration }} behind",
            "Look at its disk, at the network, and for conflicts with queries on it",
        ),
        rule(
            "WalwrightLockWaits",
            of(metric::LOCK_WAIT_LONGEST_SECONDS, "> 0.1"),
            "1m",
            "warning",
            "Sessions wait for locks, one of them for {{ $value | humanizeDuration }}",
            "walwright watch shows who waits; pg_blocking_pids() tells for whom",
        ),
        rule(
            "WalwrightWalRateJump",
            format!(
                "{} > 3 * avg_over_time({}[1d:5m]) and {} > 1048576",
                rate(metric::WAL_BYTES),
                rate(metric::WAL_BYTES),
                rate(metric::WAL_BYTES)
            ),
            "10m",
            "warning",
            "WAL is written at three times the rate of the last day: {{ $value | humanize1024 }}B/s",
            "walwright watch report tells which statements write it and since when",
        ),
        rule(
            "WalwrightSlowFlushes",
            format!("{} > 0.02", mean_flush()),
            "10m",
            "warning",
            "A WAL flush takes {{ $value | humanizeDuration }} on average",
            "walwright storage measures what the disk can do; look at what else writes to it",
        ),
        rule(
            "WalwrightCheckpointsForced",
            format!("increase({}{{cause=\"requested\"}}[1h]) > 6", metric::CHECKPOINTS.exposed()),
            "5m",
            "warning",
            "{{ $value | printf \"%.0f\" }} checkpoints were forced by WAL volume in an hour",
            "Raise max_wal_size",
        ),
        rule(
            "WalwrightVacuumDebt",
            of(metric::VACUUM_DEBT_RATIO, "> 3"),
            "30m",
            "warning",
            "{{ $labels.table }} has {{ $value | printf \"%.1f\" }} times the dead rows at which autovacuum comes",
            "Look for old transactions and slots that hold vacuum back, and at autovacuum's cost limits",
        ),
        rule(
            "WalwrightTransactionIdAge",
            of(metric::XID_AGE, "> 1e9"),
            "10m",
            "critical",
            "The oldest transaction id is {{ $value | humanize }} transactions old; the server stops at 2.1 billion",
            "VACUUM the tables with the oldest relfrozenxid; end old transactions and unused slots",
        ),
        rule(
            "WalwrightOldTransaction",
            of(metric::OLDEST_TRANSACTION_SECONDS, "> 3600"),
            "5m",
            "warning",
            "A transaction has been open for {{ $value | humanizeDuration }}",
            "End it, and set idle_in_transaction_session_timeout",
        ),
        rule(
            "WalwrightSlotRetainsWal",
            of(metric::SLOT_RETAINED_BYTES, "> 10737418240"),
            "15m",
            "warning",
            "Slot {{ $labels.slot }} holds back {{ $value | humanize1024 }}B of WAL",
            "Drop it where nobody reads it, or set max_slot_wal_keep_size",
        ),
        rule(
            "WalwrightFinding",
            format!("{}{{kind=\"problem\"}} == 1", metric::FINDING.exposed()),
            "15m",
            "warning",
            "{{ $labels.id }} {{ $labels.title }} {{ $labels.subject }}",
            "walwright diagnose --explain {{ $labels.id }} tells what it is and what to do",
        ),
        rule(
            "WalwrightDiagnosisStale",
            format!("time() - {} > 3600", metric::DIAGNOSIS_TIMESTAMP_SECONDS.exposed()),
            "5m",
            "warning",
            "No diagnosis for an hour",
            "Look at the log of walwright watch",
        ),
        rule(
            "WalwrightGatewayServerDown",
            format!("{GATEWAY_UP} == 0"),
            "1m",
            "critical",
            "The gateway cannot use the server at {{ $labels.server }}",
            "SHOW SERVERS on its console tells why",
        ),
        rule(
            "WalwrightGatewayBarrierSlow",
            format!("{} > 0.1", p99(GATEWAY_BARRIER)),
            "10m",
            "warning",
            "One barrier in a hundred takes {{ $value | humanizeDuration }}",
            "Flushes of the server are slow: look at WalwrightSlowFlushes and at its disk",
        ),
        rule(
            "WalwrightGatewayClientsWait",
            format!("{} > 1", p99(GATEWAY_QUEUE)),
            "10m",
            "warning",
            "One statement in a hundred waits {{ $value | humanizeDuration }} for a session",
            "Raise default_pool_size where the server has processors to spare",
        ),
        rule(
            "WalwrightIngestBatchSlow",
            format!("{} > 0.1", p99(INGEST_FLUSH)),
            "10m",
            "warning",
            "One batch in a hundred takes {{ $value | humanizeDuration }} to be written",
            "Look at the server's flushes, locks and checkpoints; smaller batches answer sooner",
        ),
        rule(
            "WalwrightIngestDeadLetters",
            format!("increase({INGEST_DEAD_LETTERS}[15m]) > 0"),
            "0m",
            "warning",
            "{{ $value | printf \"%.0f\" }} rows were refused and kept as dead letters",
            "The file of dead letters tells why each was refused",
        ),
    ]
}

/// The rules as a file for Prometheus.
pub fn rules_yaml() -> String {
    // Text in JSON is text in YAML.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut out = String::from("groups:\n  - name: walwright\n    rules:\n");
    for rule in rules() {
        let lines = [
            format!("      - alert: {}", rule.name),
            format!("        expr: {}", quoted(&rule.expression)),
            format!("        for: {}", rule.lasting),
            "        labels:".to_owned(),
            format!("          severity: {}", rule.severity),
            "        annotations:".to_owned(),
            format!("          summary: {}", quoted(rule.summary)),
            format!("          description: {}", quoted(rule.what_to_do)),
        ];
        // Text takes whatever is written to it.
        let _ = writeln!(out, "{}", lines.join("\n"));
    }
    out
}
