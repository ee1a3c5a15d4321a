//! Statements that carry data, apart from those that begin, end or set something.

use walwright_figures::{StatementUse, StatementUses};
use walwright_record::Source;

use crate::Reading;

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

/// What a commit of this load holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct PerCommit {
    /// Statements that read or write data.
    pub(super) statements: f64,
    /// Those of them that write.
    pub(super) writes: f64,
    /// Rows that a writing statement touches.
    pub(super) rows_per_write: f64,
    /// Whether most writing statements only add rows.
    pub(super) adds_rows: bool,
}

/// What a commit holds; `None` where the texts of a relevant part are hidden.
pub(super) fn per_commit(reading: &Reading) -> Option<PerCommit> {
    let uses = reading.statements.as_ref().ok()?;
    let calls = |chosen: &dyn Fn(&StatementUse) -> bool| -> f64 {
        uses.toplevel().filter(|s| chosen(s)).map(|s| s.calls).sum()
    };
    let all = calls(&|_| true);
    if all <= 0.0 || calls(&|s| s.text.is_none()) > 0.1 * all {
        return None;
    }
    let commits = commits_of(reading, uses).max(1.0);
    let writes = calls(&is_write);
    let rows: f64 = uses.toplevel().filter(|s| is_write(s)).filter_map(|s| s.sum("rows")).sum();
    let adds = calls(&|s| s.verb() == "insert" && !s.plain().contains(" on conflict "));
    Some(PerCommit {
        statements: calls(&is_data) / commits,
        writes: writes / commits,
        rows_per_write: if writes > 0.0 { rows / writes } else { 0.0 },
        adds_rows: adds > 0.5 * writes,
    })
}

/// Commits while the statements ran: a transaction of the driver's without BEGIN
/// commits after each statement.
fn commits_of(reading: &Reading, uses: &StatementUses) -> f64 {
    let counted = reading.difference(Source::Database).ok().and_then(|database| {
        let rate = database.sum("xact_commit").ok()? / database.length().as_secs_f64();
        Some(rate * uses.seconds)
    });
    counted.unwrap_or(uses.work.count)
}
