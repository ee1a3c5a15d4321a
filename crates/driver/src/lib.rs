//! Drives load against a PostgreSQL server, or an application by HTTP, and counts what happens.
//!
//! A [`LoadPlan`] says what is run (compiled pgbench scripts, or files of requests), who answers
//! ([`Endpoint`]), how statements travel ([`Protocol`], [`Mode`]) and when transactions begin ([`Arrival`]: a
//! closed loop, or an open one whose due times do not depend on the server).
//! [`Load::start`] connects all clients, runs them on a few threads and yields a
//! [`LoadInterval`](walwright_record::LoadInterval) a second; [`Load::join`]
//! gives the totals.
//!
//! What is held to here: latency counts from when a transaction was due, and
//! over all its tries; failures are counted apart and never mixed into latency;
//! what the driver itself costs is measured with every interval; and it costs
//! little, since each system call of the generator is one the server does not
//! get on a shared machine. One socket write and one read serve a round trip, and
//! nothing is asked of the kernel that the protocol already tells.
//!
//! What does not live here: the script language and data generation
//! (`walwright-workload`), messages and sockets (`walwright-wire`), deciding
//! when a run is warm or over (the lab).

mod calibrate;
mod capture;
mod client;
mod clock;
mod coalesce;
mod compile;
mod connect;
mod connection_totals;
mod courtesy;
mod endpoint;
mod engine;
mod execute;
mod load;
mod merge;
mod outcome;
mod plan;
mod receive;
mod request;
mod responder;
mod response;
mod rows;
mod schedule;
mod send_queue;
mod shared;
mod system;
mod tail;
mod tally;
mod worker;

pub use calibrate::{Calibration, calibrate};
pub use endpoint::{Endpoint, HttpServer, HttpServerError};
pub use load::Load;
pub use outcome::{ErrorSamples, LoadError, LoadOutcome, ScriptTotals, ServerLost};
pub use plan::{Arrival, Gaps, LoadPlan, Mode, PlanError, Protocol, ThinkTime};
pub use shared::LoadPhase;
pub use walwright_record::{ClientRules, LoadLevel, LoadStage, OnError};
