//! Servers of our own and of others: installed, started, killed, snapshotted, reached.

mod access;
mod common;
mod crashes;
mod installs;
mod lifecycle;
mod sessions;
mod snapshots;
