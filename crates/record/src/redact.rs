//! Secrets, taken out of what is kept and shown.
//!
//! A record is passed on: it lies in a lab, goes into reports and to colleagues. So what
//! comes from servers, from the command line and from error messages passes here before it is
//! stored. Three forms of text differ in where a secret can stand, and have a function each:
//! [`sql`] for statements, [`command`] for command lines, [`text`] for anything else.
//!
//! Doubt hides: what may be a secret is replaced by [`HIDDEN`], and of a text that was cut
//! off inside a literal nothing is kept from there on.

mod command;
mod name;
mod sql;
mod text;

pub use command::{command, shell};
pub use name::names_secret;
pub use sql::sql;
pub use text::{holds_secret, text};

/// What stands in place of what may be a secret.
pub const HIDDEN: &str = "…";
