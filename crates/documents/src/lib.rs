//! A store of JSON documents over HTTP: the application that the workload `documents` is the
//! database half of.
//!
//! It is an example, and a system under test: small enough to be read, and right where clients
//! meet. A request is one transaction of a [`Store`] on a session of its [`Pool`]; what a pool,
//! a lock or a prepared statement costs is an option ([`Options`]), so that changing one alone
//! is an experiment. The tables are those of the workload, so scripts and the service work on
//! the same documents.

mod error;
mod http;
mod key;
mod metrics;
mod options;
mod pool;
mod service;
mod sql;
mod store;
mod value;

pub use error::{ServiceError, StoreError};
pub use key::{Key, Uuid};
pub use options::{Isolation, Limits, Locks, Options, PoolOptions, Reset, Shape};
pub use pool::Pool;
pub use service::Service;
pub use store::{Document, Found, Posted, Store};
