//! What the measuring commands share.
//!
//! Each command in `src/bin` measures one thing that walwright promises, against
//! pgbench of the same install where there is something to compare with, and prints
//! the figures, as a table or with `--json`. Contenders run in interleaved blocks of
//! random order on one server, each block from the same state of the data, because
//! the speed of a machine drifts. pgbench runs twice a block: the difference between
//! the two is the noise floor.
//!
//! Build walwright first: `cargo build --release`; then, for example,
//! `cargo run --release -p walwright-bench --bin client-cpu`.

mod apart;
mod blocks;
mod differences;
mod document_service;
mod fault;
pub mod foreign;
mod gateway_process;
mod hostile;
pub mod ingest;
mod kills;
pub mod ledger;
mod link;
mod output;
mod peers;
mod pgbench;
mod process;
pub mod raw_client;
pub mod suites;
mod surfaces;
pub mod survival;
mod testbed;
mod walwright;

pub use apart::{apart, on_processors, together};
pub use blocks::{Blocks, Contender, Ratio};
pub use differences::{Difference, MeantDifferences, Rule};
pub use document_service::{DocumentService, free_address};
pub use fault::{Fault, Side};
pub use gateway_process::{GatewayPlaces, GatewayProcess, GatewaySettings, OTHER, ReadsWait};
pub use hostile::{Draw, Hostile, MISDEEDS, Misdeed, Moment, Strike, Which};
pub use kills::{Cycle, Kills, Kind as Kill};
pub use link::Link;
pub use output::{Options, Report};
pub use peers::{Machine, Rules, mention, postgresqltuner};
pub use pgbench::{PIPELINED, Pgbench};
pub use process::{
    Busy, Usage, children, cpu_time, process, resident_bytes, run_measured, run_measured_to,
    without_pg_variables,
};
pub use raw_client::RawClient;
pub use surfaces::{Bench as SimulatedBench, Family, Kind, Surface};
pub use testbed::{Testbed, local_dsn};
pub use walwright::{Recording, Walwright};

/// What one contender showed in one block.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Transactions a second.
    pub throughput: f64,
    /// CPU of the load generator a transaction, in microseconds.
    pub cpu_us: f64,
    /// Latency of transactions, where the load generator tells it.
    pub latency: Option<Latency>,
}

/// Latency of transactions in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
}
