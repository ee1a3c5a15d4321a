//! For tests: records built second by second, and memory counted.

mod build;
mod header;
pub mod memory;

pub use build::*;
pub use header::header;
