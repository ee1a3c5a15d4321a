//! What the disks under WAL and data can do.
//!
//! - [`storage_probe`] is the short look before a run: flush latency where the WAL lies.
//! - [`measure_storage`] is the long one, by itself, with nothing else going on: flush
//!   latency by size, method and kind of file, group commit, random and sequential
//!   rates, and flushes while the data disk is busy.
//! - [`file_system_of`] says which file system that was, to find the result again.
//!
//! All of it writes to files of its own (`scratch`), which it removes. Reads and writes
//! of data use direct I/O, so that the page cache of this kernel has no part in them;
//! where a file system has none, those figures are left out, not guessed.

mod block;
mod cells;
mod data_file;
mod flush;
mod flush_probe;
mod group_commit;
mod measure;
mod place;
mod scratch;
mod under_load;
mod warnings;
mod watch;

pub use flush_probe::storage_probe;
pub use measure::{StoragePlan, StorageStep, measure_storage};
pub use place::file_system_of;

/// Size of a page of data and of WAL (`BLCKSZ`, `XLOG_BLCKSZ`) as built by default.
const PAGE: usize = 8192;
/// Size of a WAL segment as built by default.
const SEGMENT: u64 = 16 << 20;
