//! From a record to what a person is told: figures, series, findings.
//!
//! Pure functions over [`walwright_record::Record`]: no server, no clock, no
//! files. The same record gives the same answer on any machine and at any time.
//!
//! - [`summary`] is what a run says on one screen ([`Summary`]).
//! - [`timeline`] is what its plots show ([`Timeline`]).
//! - [`findings`] is what an expert says about it: causes, what each costs, what
//!   fixing it can gain, what to type ([`Diagnosis`]). The rules are in `rules`.
//! - [`review`] judges settings, of a file, a server or a record ([`Review`]).
//! - [`compare::compare`] lays runs beside each other.
//! - [`scaling::scaling`] reads a sweep over clients.
//! - [`experiment`] judges arms of an experiment against its baseline.
//! - The parts can be asked for alone: [`load_summary`], [`time_split`],
//!   [`checkpoints`], [`statements`], [`row_changes`], [`server_load`].
//!
//! Three rules hold everywhere. Counters are differenced between samples inside
//! the window and divided by the work done between the same two moments
//! ([`difference`], [`work_between`]). A view whose statistics were reset inside
//! the window is void. What cannot be seen is absent, with the reason
//! ([`Blind`]), and never zero.

mod action;
mod books;
#[cfg(test)]
mod build;
mod checkpoints;
mod commit_anatomy;
pub mod compare;
mod counters;
mod cpu;
mod data_disk_use;
mod diagnosis;
pub mod experiment;
mod explain;
mod finding;
mod gain;
mod host_series;
mod id;
mod latency;
mod not_observable;
mod process_role;
mod reading;
mod review;
mod rules;
pub mod scaling;
mod seconds;
mod series;
mod server_load;
mod sight;
mod statement_use;
mod statements;
mod storage_use;
mod summary;
mod tables;
mod time_split;
mod timeline;
mod trend;
mod wait_class;
mod wal;
mod window;

pub use action::{Action, Change, DurabilityClass, Needs};
pub use books::{BookLine, Books, CrossCheck};
pub use checkpoints::{Checkpoints, checkpoints};
pub use commit_anatomy::{CommitAnatomy, DelayOutlook, Station, Writer, commit_anatomy};
pub use counters::{Difference, RowDifference, difference};
pub use cpu::{CpuUse, GroupCpu};
pub use data_disk_use::{DataDiskUse, Requests};
pub use diagnosis::{Diagnosis, diagnose, findings};
pub use explain::Explanation;
pub use finding::{Evidence, Finding, Impact, Kind, Per, Value};
pub use gain::{Bottleneck, Bound, Gain, Relief};
pub use id::{DiagnosisId, UnknownDiagnosis};
pub use latency::{
    Latency, LatencyPrecision, LoadSummary, OpenLoop, PassMark, ScriptSummary, StatementLatency,
    UnderWaySummary, latencies, load_summary,
};
pub use not_observable::{Blind, NotObservable};
pub use process_role::ProcessRole;
pub use reading::{Execution, Reading};
pub use review::{Given, Machine, Review, ReviewInput, ReviewItem, Standing, review};
pub use series::{Series, Unit};
pub use server_load::{ServerLoad, server_load};
pub use statement_use::{StatementUse, StatementUses, statement_uses};
pub use statements::{Statement, Statements, statements};
pub use storage_use::{FlushCeiling, StorageUse};
pub use summary::{Summary, summary};
pub use tables::{RowChanges, TableUpdates, row_changes};
pub use time_split::{EventTime, TimePart, TimeSplit, time_split};
pub use timeline::{Mark, Stretch, Timeline, timeline};
pub use trend::{Shift, Trend, TrendPoint, trend};
pub use wait_class::WaitClass;
pub use wal::WalSummary;
pub use window::{Work, WorkUnit, failures, intervals_inside, transactions, work_between};
