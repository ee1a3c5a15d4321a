//! Runs that are taken for repeats of one thing.

use serde::Serialize;
use walwright_record::Record;

/// Runs that are taken for repeats of one thing.
#[derive(Debug, Clone)]
pub struct RunGroup {
    /// What a person calls them.
    pub name: String,
    /// Their records.
    pub runs: Vec<Record>,
}

/// A figure in one group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupValue {
    /// In each run; `None` where it is not known.
    pub runs: Vec<Option<f64>>,
    /// The mean over the runs that know it: geometric where all are above zero, as the
    /// changes are.
    pub center: Option<f64>,
}

impl GroupValue {
    pub(super) fn of(runs: Vec<Option<f64>>) -> GroupValue {
        let known: Vec<f64> = runs.iter().copied().flatten().collect();
        let count = known.len() as f64;
        let center = if known.is_empty() {
            None
        } else if known.iter().all(|value| *value > 0.0) {
            Some((known.iter().map(|value| value.ln()).sum::<f64>() / count).exp())
        } else {
            Some(known.iter().sum::<f64>() / count)
        };
        GroupValue { runs, center }
    }
}
