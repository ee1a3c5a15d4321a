//! The server under test: how to reach it, and a connection to it.

mod client;
mod connect;
mod conninfo;
mod params;
mod passfile;
mod query_error;
mod relay;
mod resolve;
mod row;
mod service;
mod text;
mod wire_options;

pub use client::{Client, Statement, all_left, cancelled};
pub use connect::{
    ConnectError, ConnectFailure, FOR_WORKLOAD, OWN_ROLE, SessionSettings, connect,
    connect_for_definitions, connect_for_workload, connect_unchanged, connect_versioned,
    connect_with, connect_without_limit, setting_option, without_triggers,
};
pub use conninfo::{ConninfoError, holds_password};
pub use params::{ConnectParams, quoted};
pub use query_error::QueryError;
pub use resolve::{Hosts, TargetError};
pub use row::{FromColumn, Row};
pub use text::readable;
pub use walwright_wire::{
    ChannelBinding, Host, RequireAuth, RootCert, Secret, SslMode, SslNegotiation,
};
