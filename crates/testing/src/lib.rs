//! For tests: records built second by second, memory counted, a browser, and a model of the
//! document service.

pub mod browser;
mod build;
pub mod documents;
mod header;
pub mod memory;
pub mod site;

pub use build::*;
pub use header::header;
