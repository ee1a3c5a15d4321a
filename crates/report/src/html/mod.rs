//! HTML: one file that needs nothing else, on screen and on paper.

mod document;
mod frame;
mod scaling;
mod storage;

use thiserror::Error;

pub(crate) use frame::{STYLE, rendered};
pub use scaling::scaling;
pub use storage::storage;

/// The page could not be made from its template.
#[derive(Debug, Error)]
#[error("the report could not be rendered: {0:#}")]
pub struct ReportError(#[from] minijinja::Error);
