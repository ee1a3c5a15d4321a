//! Workloads: built in, in directories, as pgbench has them, and on a server.

mod builtin;
mod directory;
mod pgbench;
mod properties;
mod requests;
mod script;
mod server;
