//! What the stages of recording share.

use std::path::PathBuf;

use walwright_server::{ConnectParams, Stop};

use super::plan::RecordPlan;
use crate::notes::Notes;

/// What every stage needs.
pub(super) struct Session {
    pub(super) lab: PathBuf,
    pub(super) plan: RecordPlan,
    pub(super) params: ConnectParams,
    pub(super) notes: Notes,
    pub(super) stop: Stop,
}
