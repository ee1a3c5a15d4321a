//! The rules: pure functions from a [`Reading`] to findings, one file a family.
//!
//! A rule reports only what the record shows, with a threshold that follows from
//! a cost; it advises nothing that is there already and nothing that the load does
//! not justify. What a rule cannot look for it leaves to [`not_observable`].

mod schema;

use crate::{Finding, Reading};

/// A family of rules.
pub type Family = fn(&Reading) -> Vec<Finding>;

/// All families. The order does not matter: findings are ranked afterwards.
pub const FAMILIES: &[Family] = &[schema::findings];

/// The whole in a sentence.
pub(crate) fn verdict(_reading: &Reading, findings: &[Finding]) -> String {
    match findings.first() {
        Some(first) => first.cause.clone(),
        None => "Nothing to fix here.".to_owned(),
    }
}

/// What could not be looked for.
pub(crate) fn not_observable(reading: &Reading) -> Vec<String> {
    reading.summary.not_observable.iter().map(|n| format!("{}: {}", n.figure, n.why)).collect()
}
