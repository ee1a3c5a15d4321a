//! The lab: the directory where everything is kept that outlives a command.
//!
//! [`Lab`] is the directory. [`Store`] holds the records of runs in one SQLite file.
//! [`journal`] is the history of experiments and decisions; [`ledger`] notes what is changed
//! outside clusters of our own, so that it can be undone.

mod find;
pub mod journal;
mod lab;
pub mod ledger;
mod line_file;
mod named_runs;
pub mod private;
mod storage;
mod store;
mod whole_file;

pub use find::{FindError, Kind};
pub use lab::Lab;
pub use line_file::{LineFile, whole_lines};
pub use named_runs::NamedRuns;
pub use storage::{StorageError, StorageMeasurements};
pub use store::{Following, RunWriter, Store, StoreError};
pub use whole_file::{OPEN, flush_directory, replace, write_private, write_whole};
