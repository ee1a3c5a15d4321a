//! A coalescer before real servers.

mod common;
mod ends;
mod order;
mod refused;
mod rows;
