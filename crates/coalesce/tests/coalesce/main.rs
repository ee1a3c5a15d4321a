//! A coalescer before real servers.

mod common;
mod refused;
mod rows;
