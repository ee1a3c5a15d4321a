//! From a record to figures and series.
//!
//! Pure functions over [`walwright_record::Record`]: no server, no clock, no
//! files. The same record gives the same answer on any machine and at any time.
//!
//! - [`summary`] is what a run says on one screen ([`Summary`]).
//! - [`timeline`] is what its plots show ([`Timeline`]), [`latency_map::latency_map`] how its
//!   latencies spread over time.
//! - [`compare::compare`] lays runs beside each other.
//! - [`scaling`] reads a sweep over clients.
//! - [`queueing`] predicts what a change does to throughput and latency.
//! - [`experiment`] judges arms of an experiment against its baseline.
//! - [`warnings`] are warnings that only the finished record shows.
//! - The parts can be asked for alone: [`load_summary`], [`time_split`],
//!   [`checkpoints`], [`statements`], [`row_changes`], [`server_load`].
//!
//! Three rules hold everywhere. Counters are differenced between samples inside
//! the window and divided by the work done between the same two moments
//! ([`difference`], [`work_between`]), or by the work whose counts were added between them
//! ([`work_counted`]). A view whose statistics were reset inside
//! the window is void. What cannot be seen is absent, with the reason
//! ([`Blind`]), and never zero.

mod checkpoints;
mod client_sessions;
mod commit_clock;
pub mod compare;
pub mod counters;
pub mod cpu;
pub mod data_disk_use;
pub mod experiment;
mod figure_unit;
mod host_series;
mod latency;
mod latency_breakdown;
pub mod latency_map;
pub mod limit;
mod load;
mod not_observable;
mod process_role;
mod processor_account;
pub mod queueing;
pub mod scaling;
pub mod seconds;
mod series;
mod server_load;
pub mod sight;
mod stages;
mod statement_cpu;
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
pub mod warnings;
pub mod window;

pub use checkpoints::{Checkpoints, checkpoints};
pub use client_sessions::ClientSessions;
pub use commit_clock::work_counted;
pub use counters::{Difference, RowDifference, difference};
pub use cpu::{CpuUse, GroupCpu, busiest_thread};
pub use data_disk_use::{DataDiskUse, Requests};
pub use latency::{Latency, lags, latencies};
pub use latency_breakdown::{BookLine, CrossCheck, LatencyBreakdown};
pub use load::{
    LatencyPrecision, LoadSummary, OpenLoop, PassMark, RowsWritten, ScriptSummary,
    StatementLatency, UnderWaySummary, load_summary, rows_each,
};
pub use not_observable::{Blind, NotObservable};
pub use process_role::ProcessRole;
pub use processor_account::SleepScale;
pub use series::{Series, Unit};
pub use server_load::{ServerLoad, server_load};
pub use stages::StageSummary;
pub use statement_cpu::{CpuSource, StatementCpu};
pub use statement_use::{StatementUse, StatementUses, statement_uses};
pub use statements::{Statement, Statements, statements};
pub use storage_use::{FlushCeiling, StorageUse};
pub use summary::{Summary, TIME, summary, summary_with};
pub use tables::{RowChanges, TableUpdates, row_changes};
pub use time_split::{
    ApplicationTime, DriverTime, EventTime, GatewayTime, TimePart, TimeSplit, time_split,
};
pub use timeline::{Mark, Stretch, Timeline, timeline};
pub use trend::{Shift, Trend, TrendPoint, trend};
pub use wait_class::WaitClass;
pub use wal::WalSummary;
pub use window::{Work, WorkUnit, failures, intervals_inside, transactions, work_between};
