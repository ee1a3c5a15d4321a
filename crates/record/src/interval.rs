//! What the load driver saw, second by second.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{SparseHistogram, Timestamp};

/// One interval (normally a second) of the load, over all clients.
///
/// Transactions count in the interval in which they end. Histograms are stored
/// beside the JSON of this struct, so serde leaves them out. In a loaded record
/// `statements` is empty: see [`Record::statement_latency`](crate::Record).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadInterval {
    /// Start of the interval.
    pub start: Timestamp,
    /// Its length.
    pub length: Duration,
    /// One entry a script, in the order of the workload.
    pub scripts: Vec<ScriptInterval>,
    /// Clients connected and running at the end of the interval.
    pub clients: u32,
    /// Open loop: transactions that were due in this interval.
    pub due: u64,
    /// Open loop: transactions skipped because they were later than the latency limit.
    pub skipped: u64,
    /// Transactions that ended later than the latency limit.
    pub late: u64,
    /// Open loop: how long after its due time each transaction began.
    #[serde(skip)]
    pub lag: SparseHistogram,
    /// CPU time of all driver threads in this interval.
    pub driver_cpu: Duration,
    /// CPU time of the busiest driver thread in this interval.
    pub busiest_thread_cpu: Duration,
}

/// The part of one script in an interval.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ScriptInterval {
    /// Transactions that ended well; as many as `latency` counts.
    pub transactions: u64,
    /// Transactions that failed for good, by SQLSTATE, or by `connection` / `script` where there is none.
    pub failures: BTreeMap<String, u64>,
    /// Transactions that needed more than one try, whether or not they ended well.
    pub retried: u64,
    /// Tries beyond the first, by the SQLSTATE that caused them.
    pub retries: BTreeMap<String, u64>,
    /// Latency of transactions that ended well, all tries included; in an open loop from the due time.
    #[serde(skip)]
    pub latency: SparseHistogram,
    /// Latency of each SQL command of the script, successes only, in script order.
    #[serde(skip)]
    pub statements: Vec<SparseHistogram>,
}
