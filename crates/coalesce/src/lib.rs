#![doc = include_str!("../README.md")]

mod batch;
mod coalescer;
mod dead_letters;
mod engine;
mod error;
mod failure;
mod lane;
mod metrics;
mod options;
mod positions;
mod queue;
mod room;
mod row;
mod session;
mod sift;
mod table;
mod threshold;
mod ticket;
mod worker;

pub use coalescer::Coalescer;
pub use dead_letters::DEAD_LETTERS;
pub use error::{ConnectError, Refusal, WriteError};
pub use lane::LANES;
pub use metrics::describe as describe_metrics;
pub use options::{
    Capacity, Conflict, DeadLetters, Durability, Flush, Idempotency, Lanes, Options, Retry,
    TableOptions,
};
pub use prometheus_client::registry::Registry;
pub use queue::Cause;
pub use row::{Encode, EncodedRow, Fields, Format, Row, TextRow, Values};
pub use ticket::Ticket;
