//! What is seen while a run goes on, and what is known before it.
//!
//! - [`Probe`] samples the server's statistics views, the wait events of its
//!   sessions and the host, and hands every reading to a sink as a
//!   [`Sample`](walwright_record::Sample) or an [`Event`](walwright_record::Event).
//!   It also measures its own cost.
//! - [`target_facts`], [`settings`] and [`host_facts`] describe server and machine
//!   once, before the load.
//! - [`schema_facts`] reads tables, indexes and foreign keys from the catalog, bounded in
//!   rows and time; [`partition_plans`] looks at plans over partitioned tables.
//! - [`storage_probe`] measures flush latency where the WAL lies, [`cpu_probe`] the
//!   speed of one processor; [`measure_storage`] what disks can do, by itself.
//!
//! Nothing here judges what is seen (that is the diagnosis), nothing writes to the
//! server, resets a statistic or changes a setting outside the probe's own sessions.
//!
//! # How readings are stored
//!
//! Columns keep PostgreSQL's and the kernel's names and units. Beyond
//! [`Source`](walwright_record::Source)'s own rules:
//!
//! - A time column of a view reads `Null` while the setting that fills it
//!   (`track_io_timing`, `track_wal_io_timing`) is off, because the 0 that
//!   PostgreSQL shows there means "not measured".
//! - LSNs are bytes since 0/0, moments are microseconds since 1970 (as
//!   [`Timestamp`](walwright_record::Timestamp)), intervals are milliseconds.
//! - In `io`, columns that do not apply to a row (`NULL` in the view) are absent.
//! - Sources that are often empty (`replication`, `replication_slots`, `functions`, `progress`)
//!   are stored when they hold rows, and once when they become empty.
//! - In `statements`, `query` is in the first row of a statement that ran while the
//!   probe looked (or, where texts are costly to read, a few samples later).
//! - In `processes`, `neighbours`, `disk`, `cpu` and `probe_cost` every column is cumulative
//!   unless its name says otherwise (`count`, `*_bytes` of memory, `in_flight`).
//! - In `neighbours`, groups are `other: COMMAND`, `kernel threads` for all of the
//!   kernel's, and `application: COMMAND`, `load generator: COMMAND` and
//!   `pooler: COMMAND` for those that have a part in the load ([`LoadParts`]).

mod clock;
mod connector;
mod cost;
mod cpu;
mod error;
mod extension;
mod facts;
mod host;
mod machine;
mod observation;
mod own_backends;
mod pace;
mod probe;
mod rates;
mod sql;
mod storage;

pub use clock::Clock;
pub use connector::{BoxedError, Connector};
pub use cost::{ProbeReport, SlowedSource};
pub use cpu::cpu_probe;
pub use error::ProbeError;
pub use facts::{
    Restart, ServerStart, TablesOfInterest, TargetDescription, host_facts, partition_plans,
    schema_facts, server_start, settings, target_facts,
};
pub use host::{
    GatewayProcess, HostScope, Listening, LoadParts, ProcessName, gateways, listener, wal_directory,
};
pub use machine::this_machine;
pub use observation::{Observation, Sink};
pub use probe::{Probe, ProbeSpec};
pub use rates::Rates;
pub use sql::LOST;
pub use storage::{StoragePlan, StorageStep, file_system_of, measure_storage, storage_probe};

/// The name the probe's sessions carry in `pg_stat_activity`.
pub const APPLICATION_NAME: &str = "walwright probe";
