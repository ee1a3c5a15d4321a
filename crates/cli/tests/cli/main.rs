//! The binary, end to end, against real servers.

mod audit;
mod bad_input;
mod bad_luck;
mod catalog;
mod commands;
mod common;
mod compare;
mod config;
mod diagnose;
mod experiment;
mod guest;
mod guest_identical;
mod hostile_database;
mod hostile_server;
mod hostile_words;
mod journal;
// The same on both sides, and not all of it is needed here.
#[allow(dead_code)]
#[path = "../../../../bench/src/kills.rs"]
mod kill_rounds;
mod kills;
mod load;
mod maintenance;
mod record;
mod record_others;
mod run;
mod secrets;
mod somebodys_server;
mod stalls;
mod storage;
mod sweep;
mod tune;
