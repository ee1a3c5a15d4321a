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
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadInterval {
    /// Start of the interval.
    pub start: Timestamp,
    /// Its length.
    pub length: Duration,
    /// One entry a script, in the order of the workload.
    pub scripts: Vec<ScriptInterval>,
    /// Clients connected and running at the end of the interval. Of a load that is
    /// not ours: as many as its log names or, where it names none, operations in
    /// flight on average, rounded up.
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
    /// CPU time of all driver threads in this interval; zero for a load that is not
    /// ours, whose record has [`ClientFacts`](crate::ClientFacts).
    pub driver_cpu: Duration,
    /// CPU time of the busiest driver thread in this interval.
    pub busiest_thread_cpu: Duration,
    /// Time in this interval that driver threads were ready to run and waited for a
    /// processor, all together; `None` where the kernel does not count it, or the load is
    /// not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_run_delay: Option<Duration>,
}

/// The part of one script in an interval.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ScriptInterval {
    /// Transactions that ended well; as many as `latency` counts, or `sums` where
    /// there are some.
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
    /// Sums of the latency where the client's log holds no single ones; `latency` is
    /// empty then, and no percentile can be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sums: Option<LatencySums>,
}

impl ScriptInterval {
    /// Latencies of this interval as (how many, their sum in seconds), from single
    /// ones or from sums.
    pub fn latency_sum(&self) -> (u64, f64) {
        match &self.sums {
            Some(sums) => (self.transactions, sums.seconds),
            None => {
                let mean = self.latency.mean().unwrap_or_default().as_secs_f64();
                let count = self.latency.count();
                (count, mean * count as f64)
            }
        }
    }
}

/// Latencies that are known only as sums.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LatencySums {
    /// Sum in seconds.
    pub seconds: f64,
    /// Sum of squares in seconds squared, where it is known.
    pub squares: Option<f64>,
    /// Shortest, where it is known.
    pub min: Option<Duration>,
    /// Longest, where it is known.
    pub max: Option<Duration>,
}
