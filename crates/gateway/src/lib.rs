//! A gateway between applications and PostgreSQL that separates committing from becoming
//! durable.
//!
//! Server sessions commit without waiting for a flush and are free for the next client at once;
//! one barrier session flushes the WAL while anybody waits; every answer is withheld until a
//! flush that began after it has returned ([`Barrier`]). Each statement stays a transaction of
//! its own with its own result, and an acknowledgement always means durable.
//!
//! [`Gateway`] is the whole. A worker is a thread with an event loop, with clients, server
//! sessions and a barrier session of its own; nothing but counters is shared between workers.

mod acceptor;
mod admission;
mod answers;
mod barrier;
mod census;
mod client;
pub mod config;
mod console;
mod control;
mod dial;
mod gateway;
mod handover;
mod histogram;
mod levels;
mod lexer;
mod lookup;
mod lookups;
mod messages;
mod metrics;
mod options;
mod pace;
mod prepared;
mod report;
mod rules;
mod scram;
mod session;
mod settings;
mod sockets;
mod statement;
mod stats;
mod tls;
mod unit;
mod users;
mod worker;

pub use acceptor::{Listen, Socket};
pub use answers::Answers;
pub use barrier::{Barrier, Epoch, Exposed};
pub use client::ClientId;
pub use gateway::{Gateway, GatewayError};
pub use handover::Predecessor;
pub use histogram::Histogram;
pub use levels::{Barriers, Exposures, Level, Until};
pub use metrics::describe as describe_metrics;
pub use options::{
    Database, Limits, Options, PoolMode, Pooling, PoolingChoice, Reads, Server, SessionAttributes,
    User,
};
pub use rules::{Approach, ClientCertificate, Method, Rule, RuleError, Rules, UserMaps};
pub use scram::{ScramError, Verifier};
pub use sockets::Sockets;
pub use statement::{Hold, Need, Pin, SessionKind};
pub use tls::{Tls, TlsError};
pub use users::{Authentication, Question, Stored, Users, parse_userlist};
