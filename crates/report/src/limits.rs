//! Limits as a person reads them.

use walwright_figures::limit::{JudgedLimit, LimitOutcome, Measure};

use crate::compare::words::{percent, value};

/// What came of a limit: `failed: p99 is 31 ms (--fail-if 'p99 > 20ms')`.
pub fn limit(of: &JudgedLimit) -> String {
    let limit = &of.limit;
    let group = of.group.as_ref().map_or_else(String::new, |group| format!(" of {group}"));
    let what = match limit.of_change {
        true => format!("the change of {}{group}", limit.measure),
        false => format!("{}{group}", limit.measure),
    };
    let seen = match of.value {
        Some(change) if limit.of_change => percent(change),
        measured => value(limit.unit(), measured),
    };
    match of.outcome {
        LimitOutcome::Passed => format!("passed: {what} is {seen} (--fail-if '{limit}')"),
        LimitOutcome::Failed => format!("failed: {what} is {seen} (--fail-if '{limit}')"),
        LimitOutcome::LowerBound => format!(
            "failed: {what} is at least {seen}, as transactions had not ended: '{limit}' cannot be judged"
        ),
        LimitOutcome::Unknown => {
            let why = match limit.measure {
                Measure::LagPercentile(_) => "; only a run with --rate has it",
                _ => "",
            };
            format!("failed: {what} is not known{why}: '{limit}' cannot be judged")
        }
    }
}
