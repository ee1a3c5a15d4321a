//! What a power cut lost.

use serde::{Deserialize, Serialize};
use walwright_server::Unflushed;

/// What a power cut showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CrashAudit {
    /// Commits that were acknowledged before the cut.
    pub acknowledged: u64,
    /// Acknowledged commits that were not there after recovery.
    pub lost: u64,
    /// Checkpoints completed while the load ran.
    pub checkpoints: u32,
    /// From the start of the server until it accepted connections, in seconds; `None` where
    /// it never did.
    pub recovery_seconds: Option<f64>,
    /// Why it did not recover, or not to a database that can be read: all is lost then.
    #[serde(default)]
    pub unrecovered: Option<String>,
    /// WAL written since the last checkpoint completed, in bytes. Recovery replays at least that:
    /// it begins where that checkpoint began.
    pub replayed_bytes: Option<i64>,
    /// What was written and not flushed, and was taken. `None` in audits of a time when
    /// processes were killed and the disk kept everything.
    #[serde(default)]
    pub unflushed: Option<Unflushed>,
    /// Length of the load in seconds.
    pub seconds: f64,
}
