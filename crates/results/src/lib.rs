//! Client-side results of load tests that walwright does not drive, read into the
//! types of a record.
//!
//! - [`read`] takes one file of a known or recognised [`Format`] and gives what it
//!   holds ([`Results`]): one-second intervals where the file tells single
//!   operations, longer ones where it tells sums, totals where it tells no more.
//! - [`Printed`] takes what a tool prints, as it comes.
//! - [`join`] puts the files of one test together ([`Joined`]).
//!
//! Pure functions from bytes to values: which file, and where it goes, is the
//! caller's business. One module a format, each with what its columns mean and
//! where that is written down. A line that does not fit is an error with its number
//! and never passed over in silence, except the last one of a file that was cut off.

mod collect;
mod error;
mod format;
mod join;
mod line;
mod moment;

mod autocannon;
mod benchbase;
mod jmeter;
mod k6_csv;
mod k6_summary;
mod locust_failures;
mod locust_history;
mod locust_stats;
mod oha;
mod pgbench;
mod pgbench_aggregate;
mod plain_csv;
mod printed;
mod read;
mod results;
mod span;

#[cfg(test)]
mod never_panics;

pub use error::ResultsError;
pub use format::Format;
pub use join::{JoinError, Joined, join};
pub use printed::Printed;
pub use read::read;
pub use results::Results;
