//! A client of the document service, and what it must have been answered.

mod client;
mod history;
mod model;

pub use client::{Answer, Client, Leaving};
pub use model::{CHECKS, Modelled, Shared, Violation, check_shared};
