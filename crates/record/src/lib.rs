//! The types of a record and their store.
//!
//! A record is everything one run captured: what was run against what, when
//! each phase began and ended, one-second intervals of the load with their
//! latency histograms, timed samples of server and host, events, and the warnings
//! ([`Warning`]) that travel with every figure made from it.
//!
//! Reports, diagnoses and comparisons read records and nothing else, so they can
//! be made again later, elsewhere, without the server. The store is one SQLite
//! file a lab, written as the run goes, so a record survives a killed process.

mod client;
mod facts;
mod histogram;
mod interval;
pub mod journal;
mod name;
mod record;
pub mod redact;
mod run;
mod sample;
mod schema;
pub mod seconds;
mod storage;
mod time;
mod under_way;
mod warning;

pub use client::{ClientDetail, ClientFacts, ClientLog, ClientUnit, OperationTotals};
pub use facts::{
    BatchFacts, ClientRules, CpuProbe, DiskFacts, Headline, HostFacts, InstrumentFacts, LoadFacts,
    LoadLevel, LoadStage, OnError, PoolerFacts, PoolerKind, Probes, Schedule, ScriptFacts, Setting,
    StorageProbe, TableFacts, TargetFacts, TargetKind, WorkloadFacts,
};
pub use histogram::{HistogramError, LatencyHistogram, SparseHistogram};
pub use interval::{LatencySums, LoadInterval, ScriptInterval};
pub use name::Name;
pub use record::Record;
pub use run::{Event, Phase, PhaseName, RunHeader, RunId, RunState};
pub use sample::{Row, Sample, Scalar, Source};
pub use schema::{
    ColumnStatistics, ForeignKey, ForeignKeyAction, PartitionPlan, Partitioning, Publication,
    ReplicaIdentity, ReplicationSlot, SchemaColumn, SchemaFacts, SchemaIndex, SchemaTable,
    TableGauges, TableKind, quoted_identifier,
};
pub use storage::{
    Access, DataLoad, FileState, FileSystemId, FlushMethod, Latencies, StorageCell,
    StorageMeasurement, StoragePattern, StoragePlace,
};
pub use time::{Timestamp, Window};
pub use under_way::{ScriptUnderWay, UnderWay};
pub use warning::{Warning, WarningCode};
