//! Records for tests, built second by second.

mod build;
mod header;

pub use build::*;
pub use header::header;
