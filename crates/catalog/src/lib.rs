//! Parameters of every layer that bears on a write path: what each does, when a
//! change takes effect, and what it can lose.
//!
//! - [`parameter`] and [`parameters`] are the catalogue. Its facts are data: one TOML
//!   file a layer in `data/`, part of the binary.
//! - [`Value`] reads values as PostgreSQL does, with units, and says whether they are
//!   in range.
//! - [`Configuration`] reads `postgresql.conf` with its includes, and
//!   `postgresql.auto.conf`.
//!
//! Nothing here judges whether a value is a good one (that is the review in
//! `diagnose`), nothing talks to a server or to the kernel.

mod configuration;
mod entry;
mod syntax;
mod value;

pub use configuration::{Assignment, Configuration, ConfigurationError};
pub use entry::{Apply, DurabilityClass, Kind, Parameter, SearchRange, parameter, parameters};
pub use syntax::{Line, SyntaxError, parse_line};
pub use value::{Unit, Value, ValueError};
