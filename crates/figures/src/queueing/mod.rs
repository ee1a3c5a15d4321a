//! What throughput and latency become when a demand changes: a closed queueing network,
//! calibrated from a record.
//!
//! - [`Network`] is the clients and what a transaction takes of each station; it is solved for
//!   throughput and latency.
//! - [`Calibration`] makes a network that reproduces a record.
//! - [`WhatIf`] is a change that a person asks about, and its [`Prediction`].

mod calibration;
mod crowd;
mod error;
mod network;
mod what_if;

pub use calibration::{Calibration, Uncalibrated, processors};
pub use error::around;
pub use network::{Commits, Delay, Driver, Network, Processing, Serial, Solution, Station, Worker};
pub use what_if::{Prediction, WhatIf, WhatIfError};
