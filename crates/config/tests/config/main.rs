//! Runs, profiles and holds on real servers.

mod hold;
mod profile;
mod statements;
mod testbed;
