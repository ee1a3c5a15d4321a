//! The metrics, each once: what is exposed, alerted on and drawn is named from here.

use prometheus_client::metrics::MetricType;

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Grows, but for a new beginning.
    Counter,
    /// As it is now.
    Gauge,
    /// Counts in buckets.
    Histogram,
}

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name in the ring; exposed it begins with `walwright_`, and a counter ends in `_total`.
    pub name: &'static str,
    /// What it is.
    pub kind: MetricKind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it is, in a sentence whose end is missing.
    pub help: &'static str,
}

/// What names begin with.
pub const PREFIX: &str = "walwright";

impl Metric {
    /// The name that is asked for: `walwright_commits_total`.
    pub fn exposed(&self) -> String {
        let total = if self.kind == MetricKind::Counter { "_total" } else { "" };
        format!("{PREFIX}_{}{total}", self.name)
    }

    pub(crate) fn metric_type(&self) -> MetricType {
        match self.kind {
            MetricKind::Counter => MetricType::Counter,
            MetricKind::Gauge => MetricType::Gauge,
            MetricKind::Histogram => MetricType::Histogram,
        }
    }
}

macro_rules! metrics {
    ($(#[$doc:meta])* $all:ident: $($constant:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Metric = Metric {
                name: $name,
                kind: MetricKind::$kind,
                labels: &[$($label),*],
                help: $help,
            };
        )*

        $(#[$doc])*
        pub const $all: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    /// Of a run's own load, in the order in which they are exposed.
    LOAD:
    LOAD_TRANSACTIONS = Counter "load_transactions" [] "Transactions of the load that ended well";
    LOAD_FAILURES = Counter "load_failures" [] "Transactions of the load that failed for good";
    LOAD_CLIENTS = Gauge "load_clients" [] "Clients of the load that are connected and running";
    LOAD_LATENCY_SECONDS = Histogram "load_latency_seconds" [] "Latency of its transactions that ended well, in an open loop from when they were due";
}

metrics! {
    /// Every metric of a server that is watched, in the order in which they are exposed.
    ALL:
    UP = Gauge "up" [] "Whether the server answers";
    SERVER = Gauge "server_info" ["version", "database"] "The server that is watched";
    COMMITS = Counter "commits" [] "Transactions of the database that committed, without those of watching";
    ROLLBACKS = Counter "rollbacks" [] "Transactions of the database that rolled back";
    DEADLOCKS = Counter "deadlocks" [] "Deadlocks found";
    TEMPORARY_BYTES = Counter "temporary_bytes" [] "Bytes spilled to temporary files";
    WAL_BYTES = Counter "wal_bytes" [] "Bytes of WAL written by the whole server";
    WAL_RECORDS = Counter "wal_records" [] "Records of WAL";
    WAL_FULL_PAGE_IMAGES = Counter "wal_full_page_images" [] "Full-page images in the WAL";
    WAL_BUFFERS_FULL = Counter "wal_buffers_full" [] "Times that WAL was written because its buffers were full";
    WAL_FLUSH_SECONDS = Histogram "wal_flush_seconds" [] "Time of WAL flushes, where track_wal_io_timing is on: sum and count are exact, a bucket holds the flushes of readings whose mean lies in it";
    WAL_FLUSHES = Counter "wal_flushes" [] "WAL flushes";
    WAIT_SECONDS = Counter "wait_seconds" ["class"] "Time of sessions in a transaction by what they waited for, from samples";
    SESSIONS = Gauge "sessions" ["state"] "Sessions of clients by state";
    LOCK_WAITING_SESSIONS = Gauge "lock_waiting_sessions" [] "Sessions that wait for a lock";
    LOCK_WAIT_LONGEST_SECONDS = Gauge "lock_wait_longest_seconds" [] "How long the longest wait for a lock has lasted";
    OLDEST_TRANSACTION_SECONDS = Gauge "oldest_transaction_seconds" [] "Age of the oldest transaction of a client";
    CHECKPOINTS = Counter "checkpoints" ["cause"] "Checkpoints by what asked for them";
    CHECKPOINT_WRITE_SECONDS = Counter "checkpoint_write_seconds" [] "Time in which checkpoints wrote";
    CHECKPOINT_SYNC_SECONDS = Counter "checkpoint_sync_seconds" [] "Time in which checkpoints synced";
    CHECKPOINT_BUFFERS = Counter "checkpoint_buffers" [] "Buffers that checkpoints wrote";
    CHECKPOINT_PRESSURE_RATIO = Gauge "checkpoint_pressure_ratio" [] "WAL since the last checkpoint began over max_wal_size";
    DEAD_ROWS = Gauge "dead_rows" [] "Dead rows of all tables";
    VACUUM_DEBT_RATIO = Gauge "vacuum_debt_ratio" ["table"] "Dead rows over those at which autovacuum comes, of the tables with most";
    XID_AGE = Gauge "xid_age" [] "Transactions since the oldest that is not frozen; at 2^31 the server stops";
    MULTIXACT_AGE = Gauge "multixact_age" [] "The same of multixacts";
    REPLICATION_LAG_SECONDS = Gauge "replication_lag_seconds" ["standby"] "Time until a standby had replayed what was written";
    REPLICATION_LAG_BYTES = Gauge "replication_lag_bytes" ["standby"] "WAL that a standby has not replayed";
    SLOT_RETAINED_BYTES = Gauge "slot_retained_bytes" ["slot"] "WAL that a replication slot holds back";
    STATEMENT_CALLS = Counter "statement_calls" ["statement", "query"] "Executions of the statements that matter most, and of all others";
    STATEMENT_SECONDS = Counter "statement_seconds" ["statement", "query"] "Time of their executions";
    STATEMENT_WAL_BYTES = Counter "statement_wal_bytes" ["statement", "query"] "WAL that they wrote";
    FINDING = Gauge "finding" ["id", "kind", "subject", "title"] "1 for each finding of the last diagnosis";
    FINDING_COST_RATIO = Gauge "finding_cost_ratio" ["id", "subject"] "What a finding costs: its share of the latency, where that is known";
    DIAGNOSIS_TIMESTAMP_SECONDS = Gauge "diagnosis_timestamp_seconds" [] "End of the window of the last diagnosis, since 1970";
    EVENTS = Counter "events" ["kind"] "Events by kind";
    ALERTS = Counter "alerts" ["outcome"] "Alerts handed to the webhook and the command, by what became of them";
    WATCH_CPU_SECONDS = Counter "watch_cpu_seconds" ["where"] "Processor time of sampling, here and in the server, where its processes can be seen";
    WATCH_READINGS_SKIPPED = Counter "watch_readings_skipped" [] "Readings not taken because the one before was late, or too dear";
    WATCH_RESIDENT_BYTES = Gauge "watch_resident_bytes" [] "Memory of this process";
    WATCH_STORE_BYTES = Gauge "watch_store_bytes" [] "Size of what is kept of this server";
    WATCH_DIAGNOSIS_SECONDS = Histogram "watch_diagnosis_seconds" [] "Time that diagnoses took";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_by_convention_and_stand_once() {
        let mut names = BTreeSet::new();
        for metric in ALL {
            let name = metric.name;
            assert!(names.insert(metric.exposed()), "{name} twice");
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(name.chars().all(plain) && !name.ends_with("_total"), "{name}");
            assert!(!metric.help.ends_with('.'), "{name}");
            assert!(metric.labels.iter().all(|label| label.chars().all(plain)), "{name}");
            // Base units.
            assert!(!name.contains("_ms") && !name.contains("milli"), "{name}");
        }
    }
}
