//! Runs, profiles and holds on real servers.

mod bed;
mod hold;
mod profile;
mod statements;
