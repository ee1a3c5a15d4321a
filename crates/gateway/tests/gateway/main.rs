//! The gateway between real clients and real servers.

mod common;
mod console;
mod encryption;
mod failover;
mod hostile_clients;
mod load;
mod people;
mod pipelines;
mod pooling;
mod power_cuts;
mod pressure;
mod restarts;
mod rules;
mod standby;
mod standbys;
mod statements;
