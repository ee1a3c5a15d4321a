//! What a run executes: the pgbench script language, workload directories,
//! the built-in workloads and the generation of their initial data.
//!
//! Nothing here talks to a server. A workload yields SQL text, COPY byte
//! streams and compiled scripts; the driver and the lab send them.
//!
//! * [`script`]: pgbench's script language, compiled to programs whose
//!   variables are array slots.

pub mod script;
