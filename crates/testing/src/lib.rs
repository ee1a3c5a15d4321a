//! For tests: records built second by second, memory counted, and a model of the document
//! service.

mod build;
pub mod documents;
mod header;
pub mod memory;

pub use build::*;
pub use header::header;
