//! What throughput and latency become when a demand changes: a closed queueing network,
//! calibrated from a record.
//!
//! - [`Network`] is the clients and what a transaction takes of each station; it is solved for
//!   throughput and latency.
//! - [`Calibration`] makes a network that reproduces a record.
//! - [`ThroughGateway`] puts walwright's gateway between its clients and the server.
//! - [`WhatIf`] is a change that a person asks about, and its [`Prediction`].

mod calibration;
mod crowd;
mod error;
mod gateway;
mod network;
mod what_if;

pub use calibration::{Calibration, Uncalibrated, holders_committing, processors};
pub use error::around;
pub use gateway::ThroughGateway;
pub use network::{
    Commits, Delay, Driver, Gathered, Network, Processing, Serial, Solution, Station, Worker,
};
pub use what_if::{Prediction, WhatIf, WhatIfError};
