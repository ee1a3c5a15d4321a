//! HTML: one file that needs nothing else, on screen and on paper.

mod document;
mod frame;

use thiserror::Error;

pub(crate) use frame::{STYLE, rendered};

/// The page could not be made from its template.
#[derive(Debug, Error)]
#[error("the report could not be rendered: {0:#}")]
pub struct ReportError(#[from] minijinja::Error);
