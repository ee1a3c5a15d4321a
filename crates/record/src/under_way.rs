//! What was under way when the measured window ended.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::SparseHistogram;

/// The transactions that were under way when the measured window ended, and in an open
/// loop those that had come due in it and were not begun.
///
/// They count as transactions of no interval of the window, since they did not end in it.
/// Their latency belongs to it: a server that stands still at the end of a window holds up
/// what would otherwise be missing from it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct UnderWay {
    /// One entry a script, in the order of the workload.
    pub scripts: Vec<ScriptUnderWay>,
    /// Open loop: how long after its due time each of those that had not begun in the
    /// window began after it.
    pub lag: SparseHistogram,
    /// Open loop: how long those that never began had been due when they were given up.
    pub not_begun: SparseHistogram,
}

/// The part of one script.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ScriptUnderWay {
    /// Latency of those that ended well after the window.
    pub ended: SparseHistogram,
    /// Age of those that had not ended when they were cut off: their latency is at least
    /// this.
    pub unended: SparseHistogram,
    /// Those that failed after the window, by SQLSTATE, `connection` or `script`.
    pub failures: BTreeMap<String, u64>,
}

impl UnderWay {
    /// Latencies that are known, of all scripts.
    pub fn ended(&self) -> impl Iterator<Item = &SparseHistogram> {
        self.scripts.iter().map(|script| &script.ended)
    }

    /// Latencies of which only a lower bound is known.
    pub fn at_least(&self) -> impl Iterator<Item = &SparseHistogram> {
        self.scripts.iter().map(|script| &script.unended).chain([&self.not_begun])
    }

    /// How many ended well after the window.
    pub fn ended_count(&self) -> u64 {
        self.ended().map(SparseHistogram::count).sum()
    }

    /// How many never ended.
    pub fn unended_count(&self) -> u64 {
        self.scripts.iter().map(|script| script.unended.count()).sum()
    }

    /// How many failed after the window.
    pub fn failed_count(&self) -> u64 {
        self.scripts.iter().flat_map(|script| script.failures.values()).sum()
    }

    /// The longest latency or age among them; `None` where there are none.
    pub fn longest(&self) -> Option<Duration> {
        self.ended().chain(self.at_least()).filter_map(SparseHistogram::max).max()
    }
}
