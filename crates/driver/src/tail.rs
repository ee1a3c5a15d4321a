//! What was under way when the measured window ended.
//!
//! A load is told of the end of its window a moment after it, and some of what was under
//! way then has ended by that time. So a thread remembers for a while which transactions
//! ended after an interval's end that they had begun before.

use std::collections::BTreeMap;

use walwright_record::{LatencyHistogram, ScriptUnderWay, SparseHistogram, UnderWay};

use crate::clock::Moment;
use crate::tally::{add, add_all};

/// A transaction that ended, and was under way at an interval's end before.
#[derive(Debug, Clone)]
pub(crate) struct Straddler {
    /// Index of its script.
    pub(crate) script: usize,
    /// Where its latency counts from.
    pub(crate) from: Moment,
    pub(crate) ended: Moment,
    /// The kind of its failure, if it failed for good.
    pub(crate) failure: Option<String>,
}

/// One thread's part of what was under way at the end of the window.
#[derive(Debug)]
pub(crate) struct Tail {
    /// The end of the window.
    pub(crate) end: Moment,
    scripts: Vec<ScriptTail>,
    lag: LatencyHistogram,
    not_begun: LatencyHistogram,
}

/// The same of one script; fields as in [`ScriptUnderWay`].
#[derive(Debug)]
struct ScriptTail {
    ended: LatencyHistogram,
    unended: LatencyHistogram,
    failures: BTreeMap<String, u64>,
}

impl Tail {
    /// Nothing counted yet, for a window that ended at `end`.
    pub(crate) fn new(end: Moment, scripts: usize) -> Self {
        let script = || ScriptTail {
            ended: LatencyHistogram::new(),
            unended: LatencyHistogram::new(),
            failures: BTreeMap::new(),
        };
        Tail {
            end,
            scripts: (0..scripts).map(|_| script()).collect(),
            lag: LatencyHistogram::new(),
            not_begun: LatencyHistogram::new(),
        }
    }

    /// Counts a transaction that has ended, if it was under way at the window's end.
    pub(crate) fn ended(&mut self, of: &Straddler) {
        if of.from >= self.end || of.ended < self.end {
            return;
        }
        let Some(script) = self.scripts.get_mut(of.script) else { return };
        match &of.failure {
            None => script.ended.record_nanos(of.ended.nanos_since(of.from)),
            Some(kind) => add(&mut script.failures, kind, 1),
        }
    }

    /// Counts a transaction that is cut off at `now`, if it was under way at the window's end.
    pub(crate) fn cut_off(&mut self, script: usize, from: Moment, now: Moment) {
        if from < self.end
            && let Some(script) = self.scripts.get_mut(script)
        {
            script.unended.record_nanos(now.nanos_since(from));
        }
    }

    /// Counts a transaction that was due in the window and begins after it.
    pub(crate) fn begun_late(&mut self, due: Moment, now: Moment) {
        self.lag.record_nanos(now.nanos_since(due));
    }

    /// Counts a transaction that was due and is given up at `now`, if it was due in the window.
    pub(crate) fn never_begun(&mut self, due: Moment, now: Moment) {
        if due < self.end {
            self.not_begun.record_nanos(now.nanos_since(due));
        }
    }

    /// Adds what another thread counted.
    pub(crate) fn merge(&mut self, other: &Tail) {
        for (mine, theirs) in self.scripts.iter_mut().zip(&other.scripts) {
            mine.ended.merge(&theirs.ended);
            mine.unended.merge(&theirs.unended);
            add_all(&mut mine.failures, &theirs.failures);
        }
        self.lag.merge(&other.lag);
        self.not_begun.merge(&other.not_begun);
    }
}

impl From<&Tail> for UnderWay {
    fn from(tail: &Tail) -> Self {
        let script = |of: &ScriptTail| ScriptUnderWay {
            ended: SparseHistogram::from(&of.ended),
            unended: SparseHistogram::from(&of.unended),
            failures: of.failures.clone(),
        };
        UnderWay {
            scripts: tail.scripts.iter().map(script).collect(),
            lag: SparseHistogram::from(&tail.lag),
            not_begun: SparseHistogram::from(&tail.not_begun),
        }
    }
}
