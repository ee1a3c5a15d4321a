//! What a check reads.

use walwright_catalog::Profile;

use crate::{MachineView, ServerView};

/// What is checked.
#[derive(Clone, Copy)]
pub struct CheckInput<'a> {
    /// What is wanted; without one, good practice is.
    pub profile: Option<&'a Profile>,
    /// The server, where one can be asked.
    pub server: Option<&'a ServerView>,
    /// Its machine, where that can be seen.
    pub machine: Option<&'a MachineView>,
    /// Room for the WAL in bytes, where a person tells it: free and taken together.
    pub wal_disk: Option<f64>,
}
