//! A tune: its page, its entry in the journal, and the course of its search.

mod course;
mod document;
mod entry;
mod verdict;

pub use document::{stage as tune_stage, tune_document, tune_warnings};
pub use entry::tune_entry;
pub use verdict::verdict as tune_verdict;
