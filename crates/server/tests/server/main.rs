//! Servers of our own and of others: installed, started, killed, snapshotted, reached.

mod access;
mod common;
mod crashes;
mod installs;
mod lifecycle;
mod memory_limit;
mod power_cuts;
mod sessions;
mod snapshots;
