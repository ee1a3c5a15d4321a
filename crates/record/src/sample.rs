//! Timed observations of the server and its host.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Name, Timestamp};

/// One observation: the rows a source showed at one moment.
///
/// Counters are stored as read (cumulative, never differenced), under the names
/// PostgreSQL or the kernel gives them, so that a reader decides on the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When the source was read.
    pub at: Timestamp,
    /// What was read.
    pub source: Source,
    /// The rows. For [`Source::is_sparse`] sources the first sample of a run is
    /// complete and later ones hold only rows that changed since the one before.
    pub rows: Vec<Row>,
}

/// Where a sample comes from. The string form (`Source::name`) is stored and is
/// the name used on the command line to export a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `pg_stat_database`, one row for the target database.
    Database,
    /// `pg_stat_wal`, plus `wal_lsn` (bytes since 0/0).
    Wal,
    /// `pg_stat_io` (16+), keyed by backend_type, object, context.
    Io,
    /// `pg_stat_checkpointer` (17+) or the checkpoint columns of `pg_stat_bgwriter`, under the names of 17.
    Checkpointer,
    /// `pg_stat_bgwriter` without its checkpoint columns.
    BackgroundWriter,
    /// `pg_stat_slru`, keyed by name.
    Slru,
    /// `pg_stat_user_tables` joined with `pg_statio_user_tables` and size; keyed by relid.
    Tables,
    /// `pg_stat_user_indexes` joined with `pg_statio_user_indexes` and size; keyed by indexrelid.
    Indexes,
    /// Rows written to the system catalogs that tables are made in (`pg_class`, `pg_attribute`,
    /// `pg_type`, `pg_depend`, …), under the names of `pg_stat_sys_tables`; keyed by relname.
    Catalog,
    /// `pg_stat_user_functions`, where `track_functions` is on; keyed by funcid.
    Functions,
    /// `pg_stat_statements`, keyed by userid, dbid, queryid, toplevel.
    Statements,
    /// `pg_replication_slots`, keyed by slot_name.
    ReplicationSlots,
    /// `pg_stat_replication`, keyed by pid.
    Replication,
    /// All `pg_stat_progress_*` views, keyed by command and pid.
    Progress,
    /// One tick of wait events: rows of backend_type, state, wait_event_type,
    /// wait_event (as the server prints it; older records have it in lower case), query_id, ours (of the load this tool drives) and `sessions`, the number of sessions seen so.
    Waits,
    /// Sessions by state, the oldest transaction and locks not granted.
    Sessions,
    /// `/proc/stat`: CPU seconds by kind over all processors, context switches.
    Cpu,
    /// `/proc/pressure/*`: stall totals, keyed by resource and kind.
    Pressure,
    /// `/proc/meminfo` and swap and writeback counters of `/proc/vmstat`.
    Memory,
    /// `/proc/diskstats` of the devices under data and WAL, keyed by device.
    Disk,
    /// `/proc/net/dev` and TCP retransmits, keyed by interface.
    Network,
    /// Processes: the server's by role, and walwright itself; keyed by group.
    Processes,
    /// Processes that belong to neither, those that take CPU; keyed by group, read less often.
    Neighbours,
    /// cgroup usage and throttling.
    Cgroup,
    /// What an application tells of its pool: seconds that requests waited for a session
    /// (`pool_wait_seconds`), and how many had one (`pool_leases`).
    Application,
    /// What walwright's gateway tells of all its pools: seconds that answers waited for the flush
    /// that covers them (`withheld_seconds`) and statements for a session (`queue_wait_seconds`),
    /// how many did (`withheld`, `queue_waits`), `execution_seconds`, `transactions` with
    /// `transaction_seconds`, `barriers` with `barrier_seconds`.
    Gateway,
    /// What the probe itself cost: queries, their time, its own CPU.
    ProbeCost,
}

impl Source {
    /// Every source.
    pub const ALL: [Source; 27] = [
        Source::Database,
        Source::Wal,
        Source::Io,
        Source::Checkpointer,
        Source::BackgroundWriter,
        Source::Slru,
        Source::Tables,
        Source::Indexes,
        Source::Catalog,
        Source::Functions,
        Source::Statements,
        Source::ReplicationSlots,
        Source::Replication,
        Source::Progress,
        Source::Waits,
        Source::Sessions,
        Source::Cpu,
        Source::Pressure,
        Source::Memory,
        Source::Disk,
        Source::Network,
        Source::Processes,
        Source::Neighbours,
        Source::Cgroup,
        Source::Application,
        Source::Gateway,
        Source::ProbeCost,
    ];

    /// The stored name.
    pub fn name(self) -> &'static str {
        match self {
            Source::Database => "database",
            Source::Wal => "wal",
            Source::Io => "io",
            Source::Checkpointer => "checkpointer",
            Source::BackgroundWriter => "background_writer",
            Source::Slru => "slru",
            Source::Tables => "tables",
            Source::Indexes => "indexes",
            Source::Catalog => "catalog",
            Source::Functions => "functions",
            Source::Statements => "statements",
            Source::ReplicationSlots => "replication_slots",
            Source::Replication => "replication",
            Source::Progress => "progress",
            Source::Waits => "waits",
            Source::Sessions => "sessions",
            Source::Cpu => "cpu",
            Source::Pressure => "pressure",
            Source::Memory => "memory",
            Source::Disk => "disk",
            Source::Network => "network",
            Source::Processes => "processes",
            Source::Neighbours => "neighbours",
            Source::Cgroup => "cgroup",
            Source::Application => "application",
            Source::Gateway => "gateway",
            Source::ProbeCost => "probe_cost",
        }
    }

    /// The source stored under `name`.
    pub fn from_name(name: &str) -> Option<Source> {
        Source::ALL.into_iter().find(|s| s.name() == name)
    }

    /// Columns that tell one row of a sample from another.
    pub fn key(self) -> &'static [&'static str] {
        match self {
            Source::Io => &["backend_type", "object", "context"],
            Source::Slru => &["name"],
            Source::Tables => &["relid"],
            Source::Indexes => &["indexrelid"],
            Source::Catalog => &["relname"],
            Source::Functions => &["funcid"],
            Source::Statements => &["userid", "dbid", "queryid", "toplevel"],
            Source::ReplicationSlots => &["slot_name"],
            Source::Replication => &["pid"],
            Source::Progress => &["command", "pid"],
            Source::Waits => &[
                "backend_type",
                "state",
                "wait_event_type",
                "wait_event",
                "query_id",
                "ours",
                "barrier",
            ],
            Source::Pressure => &["resource", "kind"],
            Source::Disk => &["device"],
            Source::Network => &["interface"],
            Source::Processes | Source::Neighbours => &["process_group"],
            Source::Database
            | Source::Wal
            | Source::Checkpointer
            | Source::BackgroundWriter
            | Source::Sessions
            | Source::Cpu
            | Source::Memory
            | Source::Cgroup
            | Source::Application
            | Source::Gateway
            | Source::ProbeCost => &[],
        }
    }

    /// Whether later samples hold only rows that changed.
    pub fn is_sparse(self) -> bool {
        self.lists_what_exists() || matches!(self, Source::Io | Source::Slru | Source::Catalog)
    }

    /// Whether sessions add to it what they counted at the end of a transaction and about
    /// once a second: pgstat.c of PostgreSQL, not shared memory that is always up to date.
    pub fn is_added_late(self) -> bool {
        matches!(
            self,
            Source::Database
                | Source::Wal
                | Source::Io
                | Source::Slru
                | Source::Tables
                | Source::Indexes
        )
    }

    /// Whether a row that was not there before began at zero.
    pub fn lists_what_exists(self) -> bool {
        matches!(self, Source::Tables | Source::Indexes | Source::Functions | Source::Statements)
    }
}

/// A row: column name to value. A column that the source does not have is
/// absent; one it has but cannot tell is [`Scalar::Null`]. Neither means zero.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Row(pub BTreeMap<Name, Scalar>);

impl Row {
    /// An empty row.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column.
    pub fn set(&mut self, column: impl AsRef<str>, value: impl Into<Scalar>) -> &mut Self {
        self.0.insert(Name::new(column.as_ref()), value.into());
        self
    }

    /// Takes the values of a newer reading over; columns that it does not have stay.
    pub fn update(&mut self, newer: Row) {
        if self.0.is_empty() {
            *self = newer;
            return;
        }
        // Both are in order and nearly always have the same columns, so nothing is searched for;
        // what is new here is put in after all others.
        let mut here = self.0.iter_mut();
        let mut added = Vec::new();
        for (name, value) in newer.0 {
            match here.find(|(known, _)| **known == name) {
                Some((_, known)) => *known = value,
                None => added.push((name, value)),
            }
        }
        self.0.extend(added);
    }

    /// A column as a truth value.
    pub fn flag(&self, column: &str) -> Option<bool> {
        match self.0.get(column)? {
            Scalar::Bool(v) => Some(*v),
            _ => None,
        }
    }

    /// The number in `column`, if it is there and is a number.
    pub fn number(&self, column: &str) -> Option<f64> {
        match self.0.get(column)? {
            Scalar::Int(v) => Some(*v as f64),
            Scalar::Float(v) => Some(*v),
            Scalar::Bool(_) | Scalar::Text(_) | Scalar::Null => None,
        }
    }

    /// The text in `column`, if it is there and is text.
    pub fn text(&self, column: &str) -> Option<&str> {
        match self.0.get(column)? {
            Scalar::Text(v) => Some(v),
            _ => None,
        }
    }

    /// The values of the key columns of `source`, as one comparable string.
    pub fn key(&self, source: Source) -> String {
        let parts: Vec<String> = source
            .key()
            .iter()
            .map(|column| self.0.get(*column).map_or_else(String::new, Scalar::to_string))
            .collect();
        parts.join("|")
    }
}

/// A value in a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// Known to be unknown.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number; counters are these.
    Int(i64),
    /// A fraction; times in milliseconds as PostgreSQL gives them, seconds where the column says so.
    Float(f64),
    /// Text.
    Text(String),
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scalar::Null => Ok(()),
            Scalar::Bool(v) => write!(f, "{v}"),
            Scalar::Int(v) => write!(f, "{v}"),
            Scalar::Float(v) => write!(f, "{v}"),
            Scalar::Text(v) => f.write_str(v),
        }
    }
}

impl From<bool> for Scalar {
    fn from(v: bool) -> Self {
        Scalar::Bool(v)
    }
}

impl From<i64> for Scalar {
    fn from(v: i64) -> Self {
        Scalar::Int(v)
    }
}

impl From<i32> for Scalar {
    fn from(v: i32) -> Self {
        Scalar::Int(v.into())
    }
}

impl From<u32> for Scalar {
    fn from(v: u32) -> Self {
        Scalar::Int(v.into())
    }
}

impl From<u64> for Scalar {
    fn from(v: u64) -> Self {
        i64::try_from(v).map_or(Scalar::Float(v as f64), Scalar::Int)
    }
}

impl From<f64> for Scalar {
    fn from(v: f64) -> Self {
        if v.is_finite() { Scalar::Float(v) } else { Scalar::Null }
    }
}

impl From<&str> for Scalar {
    fn from(v: &str) -> Self {
        Scalar::Text(v.to_owned())
    }
}

impl From<String> for Scalar {
    fn from(v: String) -> Self {
        Scalar::Text(v)
    }
}

impl<T: Into<Scalar>> From<Option<T>> for Scalar {
    fn from(v: Option<T>) -> Self {
        v.map_or(Scalar::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_found_by_its_stored_name() {
        for source in Source::ALL {
            assert_eq!(Source::from_name(source.name()), Some(source));
            assert_eq!(
                serde_json::to_value(source).unwrap(),
                serde_json::Value::String(source.name().to_owned()),
            );
        }
    }

    #[test]
    fn what_is_not_there_is_not_zero() {
        let mut row = Row::new();
        row.set("wal_sync_time", Option::<f64>::None).set("wal_bytes", 0_i64);
        assert_eq!(row.number("wal_sync_time"), None);
        assert_eq!(row.number("no_such_column"), None);
        assert_eq!(row.number("wal_bytes"), Some(0.0));
    }

    #[test]
    fn a_newer_reading_replaces_what_it_has() {
        let of = |columns: &str, value: i64| {
            let mut row = Row::new();
            for column in columns.chars() {
                row.set(column.to_string(), value);
            }
            row
        };
        for before in ["", "abc", "bd", "e"] {
            for newer in ["", "abc", "ab", "bc", "ac", "abcd", "0bcz"] {
                let mut row = of(before, 1);
                row.update(of(newer, 2));
                let mut expected = of(before, 1);
                expected.0.extend(of(newer, 2).0);
                assert_eq!(row, expected, "{before} and {newer}");
            }
        }
    }

    #[test]
    fn rows_survive_json() {
        let mut row = Row::new();
        row.set("a", 1_i64)
            .set("b", 1.5)
            .set("c", "x")
            .set("d", true)
            .set("e", Option::<i64>::None);
        let back: Row = serde_json::from_str(&serde_json::to_string(&row).unwrap()).unwrap();
        assert_eq!(back, row);
    }
}
