//! Connections against real servers, and against servers that lie.

mod common;
mod hostile;
mod server;
mod trust;
