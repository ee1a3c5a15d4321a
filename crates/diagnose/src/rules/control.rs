//! Statements that carry data, apart from those that begin, end or set something.

use crate::{Reading, StatementUse};

/// Statements that belong to the conversation, not to the work.
const CONTROL: [&str; 16] = [
    "begin",
    "start",
    "commit",
    "end",
    "rollback",
    "abort",
    "savepoint",
    "release",
    "set",
    "reset",
    "show",
    "discard",
    "deallocate",
    "prepare",
    "checkpoint",
    "",
];

/// Whether a statement reads or writes data.
pub(super) fn is_data(statement: &StatementUse) -> bool {
    !CONTROL.contains(&statement.verb().as_str())
}

/// Whether a statement writes rows.
pub(super) fn is_write(statement: &StatementUse) -> bool {
    matches!(statement.verb().as_str(), "insert" | "update" | "delete" | "merge" | "copy")
}

/// Statements a transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct PerTransaction {
    /// All that read or write data.
    pub(super) all: f64,
    /// Those that write.
    pub(super) writes: f64,
}

/// How many data statements a transaction holds; `None` where the texts of a
/// relevant part are hidden.
pub(super) fn data_statements_per_transaction(reading: &Reading) -> Option<PerTransaction> {
    let uses = reading.statements.as_ref().ok()?;
    let hidden: f64 = uses.toplevel().filter(|s| s.text.is_none()).map(|s| s.calls).sum();
    let all: f64 = uses.toplevel().map(|s| s.calls).sum();
    if all <= 0.0 || hidden > 0.1 * all {
        return None;
    }
    let count = |chosen: fn(&StatementUse) -> bool| -> f64 {
        uses.toplevel().filter(|s| chosen(s)).map(|s| s.calls).sum::<f64>() / uses.work.count
    };
    Some(PerTransaction { all: count(is_data), writes: count(is_write) })
}
