//! The probe's side towards the server: two connections on one thread, one for
//! wait events, one for everything else, so that a slow view never delays a tick.

mod activity;
mod context;
mod counters;
mod decode;
mod events;
mod failures;
mod relations;
mod session;
mod sparse;
mod statements;
mod views;
mod waits;

pub(crate) use context::Context;
pub use context::LOST;
pub(crate) use counters::CountersReport;
pub(crate) use session::Session;
pub(crate) use waits::WaitsReport;

pub(crate) use counters::sample as sample_counters;
pub(crate) use waits::sample as sample_waits;
