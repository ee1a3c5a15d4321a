//! What is written to a terminal.

mod bars;
mod commit;
mod document;
mod forest;
pub(crate) mod printable;
mod scaling;
mod storage;
pub(crate) mod style;

pub use commit::commit;
pub use printable::{printable, printable_json, printable_painted};
pub use scaling::{scaling, scaling_styled};
pub use storage::{storage, storage_list};
pub use style::{Style, fit};
