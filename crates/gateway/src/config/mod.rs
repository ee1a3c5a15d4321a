//! `gateway.toml`: how it is written, and what it means.
//!
//! [`File`] is what is written; what is typed on a command line is put into it, and wins.
//! [`File::read`] and [`File::config`] tell what is wrong with a sentence that names file and
//! line. How connection strings are read is given from outside ([`Resolve`]).

mod error;
mod file;
mod import;
mod meaning;
mod time;

pub use error::ConfigError;
pub use file::{
    AuthType, AuthenticationTable, DatabaseTable, Dsn, File, LimitsTable, MetricsTable,
    PoolingTable, Said, TlsTable, UserTable,
};
pub use import::{Import, Machine, Surroundings, import};
pub use meaning::{Config, Resolve, Resolved};
pub use time::Time;

/// A configuration with everything in it, for people to begin with.
pub const EXAMPLE: &str = include_str!("example.toml");
