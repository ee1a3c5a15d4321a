//! What the clients of a load that is not ours said of it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// What one operation of the client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientUnit {
    /// A database transaction, as pgbench counts them.
    Transaction,
    /// A request to an application, which may be any number of transactions.
    Request,
}

impl ClientUnit {
    /// The word for one of them.
    pub fn name(self) -> &'static str {
        match self {
            ClientUnit::Transaction => "transaction",
            ClientUnit::Request => "request",
        }
    }
}

/// How much of the clients' latency a log holds, the most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientDetail {
    /// Each operation with its latency: every percentile of any stretch is known.
    Operations,
    /// Counts and sums over short intervals: rates and means are known, percentiles
    /// are not.
    Intervals,
    /// Totals over the whole test, warm-up included: percentiles are those the tool
    /// computed, and of no other stretch.
    Totals,
}

/// The client-side results that joined a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientFacts {
    /// What the operations in the record's intervals are.
    pub unit: ClientUnit,
    /// Names of the operations, in the order of the scripts of each interval.
    pub operations: Vec<String>,
    /// The files.
    pub logs: Vec<ClientLog>,
}

impl ClientFacts {
    /// How much the fullest of the files tells; `None` without any.
    pub fn detail(&self) -> Option<ClientDetail> {
        // The fullest stands first.
        self.logs.iter().map(|log| log.detail).min()
    }
}

/// One file of client-side results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientLog {
    /// Name of the file, without its directory.
    pub file: String,
    /// What wrote it: `pgbench log`, `Locust statistics`, …
    pub format: String,
    /// How much it tells.
    pub detail: ClientDetail,
    /// Part of all operations that the file holds, 0 to 1, where it is a sample.
    pub sampling: Option<f64>,
    /// Begin of the first operation or interval, where the file says.
    pub first: Option<Timestamp>,
    /// End of the last.
    pub last: Option<Timestamp>,
    /// Operations in the file that ended well, where it counts them.
    pub succeeded: Option<u64>,
    /// Operations in the file that failed, by kind.
    pub failures: BTreeMap<String, u64>,
    /// Totals by operation, where the file holds some.
    pub totals: Vec<OperationTotals>,
    /// What a reader should know about the file, each a sentence.
    pub notes: Vec<String>,
}

/// What a tool computed of one operation over its whole test.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OperationTotals {
    /// Its name.
    pub name: String,
    /// How often it was done, failures included where the tool counts them.
    pub count: Option<u64>,
    /// How often it failed.
    pub failed: Option<u64>,
    /// Mean latency.
    pub mean: Option<Duration>,
    /// Shortest.
    pub min: Option<Duration>,
    /// Longest.
    pub max: Option<Duration>,
    /// (percent, latency), ascending. As the tool rounds them.
    pub percentiles: Vec<(f64, Duration)>,
    /// How often it was done a second, where the tool says.
    #[serde(default)]
    pub throughput: Option<f64>,
    /// Bytes of answers a second, where the tool says.
    #[serde(default)]
    pub received: Option<f64>,
}
