//! What a crash of the server lost.

use serde::{Deserialize, Serialize};

/// What a crash showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CrashAudit {
    /// Commits that were acknowledged before the kill.
    pub acknowledged: u64,
    /// Acknowledged commits that were not there after recovery.
    pub lost: u64,
    /// Checkpoints completed while the load ran.
    pub checkpoints: u32,
    /// From the start of the server until it accepted connections, in seconds.
    pub recovery_seconds: f64,
    /// WAL written since the last checkpoint completed, in bytes. Recovery replays at least that:
    /// it begins where that checkpoint began.
    pub replayed_bytes: Option<i64>,
    /// Length of the load in seconds.
    pub seconds: f64,
}
