//! What is written to a terminal.

mod bars;
mod document;
mod forest;
pub(crate) mod printable;
mod scaling;
pub(crate) mod style;
pub(crate) mod trend;

pub use printable::{printable, printable_json, printable_painted};
pub use style::{Style, fit};
