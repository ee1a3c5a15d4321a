//! The binary, end to end, against real servers.

mod ab;
mod attached_identical;
mod attached_server;
mod audit;
mod bad_input;
mod bad_luck;
mod catalog;
mod commands;
mod common;
mod compare;
mod config;
mod diagnose;
mod documents;
mod experiment;
mod gateway_config;
mod gateway_service;
mod hostile_database;
mod hostile_server;
mod hostile_words;
mod http;
mod ingest;
mod journal;
// The same on both sides, and not all of it is needed here.
mod attached_limits;
#[allow(dead_code)]
#[path = "../../../../bench/src/kills.rs"]
mod kill_rounds;
mod kills;
mod limits;
mod load;
mod maintenance;
mod patterns;
mod pgbench_options;
mod pooler;
mod power_cut;
mod record;
mod record_others;
mod run;
mod secrets;
mod serve;
mod stalls;
mod storage;
mod study;
mod sweep;
mod tune;
mod watch;
