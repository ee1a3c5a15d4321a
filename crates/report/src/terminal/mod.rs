//! What is written to a terminal.

mod bars;
mod commit;
mod document;
mod forest;
pub(crate) mod printable;
mod scaling;
pub(crate) mod style;

pub use commit::commit;
pub use printable::{printable, printable_json, printable_painted};
pub use style::{Style, fit};
