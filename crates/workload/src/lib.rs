//! What a run executes: the pgbench script language, workload directories,
//! the built-in workloads and the generation of their initial data.
//!
//! Nothing here talks to a server. A workload yields SQL text, COPY byte
//! streams and compiled scripts; the driver and the lab send them.
//!
//! * [`script`]: pgbench's script language, compiled to programs whose
//!   variables are array slots.
//! * [`workload`]: workload directories and how to write one, the built-in
//!   workloads, and the [`Plan`] that a run follows.
//! * [`generate`]: the rows of the initial data as COPY text, in parallel
//!   chunks that do not depend on how many there are.

mod duration;
mod error;
pub mod generate;
mod manifest;
mod protocol;
pub mod script;
pub mod workload;

pub use duration::parse_duration;
pub use workload::{Plan, Settings, Workload, WorkloadError};
