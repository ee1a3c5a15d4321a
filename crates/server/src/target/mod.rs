//! The server under test: how to reach it, and a connection to it.

mod connect;
mod conninfo;
mod params;
mod passfile;
mod resolve;
mod secret;
mod service;
mod tls;

pub use connect::{ConnectError, ConnectFailure, connect, connect_versioned};
pub use conninfo::{ConninfoError, holds_password};
pub use params::{ChannelBinding, ConnectParams, Host, RootCert, SslMode};
pub use resolve::TargetError;
pub use secret::Secret;
pub use tls::{TlsError, tls_client_config};
