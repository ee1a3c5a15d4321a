//! Which statement the backends' CPU goes to, and what in it takes it where that can be told.

use walwright_figures::{CpuSource, StatementUse, StatementUses};
use walwright_record::Source;

use super::executor::compiling;
use super::temporary_tables::{Churn, local_blocks};
use crate::{Evidence, Per, Reading, Value};

/// Share of the CPU from which a statement is named.
const NAMED: f64 = 0.2;
/// Pages that a row needs: a descent of a few indexes, and the heap.
const PAGES_OF_A_ROW: f64 = 10.0;
/// Pages that one change of a row or of an index needs: a descent.
const PAGES_OF_A_CHANGE: f64 = 4.0;
/// Times the pages that its rows need from which a statement looks for them the long way.
const MANY_TIMES: f64 = 10.0;
/// Part of a statement's time or blocks from which something in it is what takes its CPU.
const MUCH: f64 = 0.3;

/// A statement that takes much of the CPU.
pub(super) struct Burner {
    /// Its text, cut.
    pub(super) statement: String,
    /// Its share of the CPU of client backends, 0 to 1.
    pub(super) share: f64,
    /// CPU seconds of a transaction, where the kernel counts them.
    pub(super) seconds: Option<f64>,
    /// What in it takes them, each the end of a sentence about it.
    reasons: Vec<String>,
    /// Part of them that its rows do not need, 0 to 1.
    pub(super) needless: f64,
    source: &'static str,
}

/// The statements that take much of the CPU, the largest first.
pub(super) fn burners(reading: &Reading) -> Vec<Burner> {
    let Ok(uses) = &reading.statements else { return Vec::new() };
    let Some(cpu) = reading.summary.statements.as_ref().and_then(|s| s.cpu.as_ref()) else {
        return Vec::new();
    };
    let source = match cpu.source {
        CpuSource::Samples => "pg_stat_activity.query_id",
        CpuSource::Executions => "pg_stat_statements.total_exec_time",
    };
    let mut found: Vec<Burner> = uses
        .toplevel()
        .map(|statement| (statement, cpu.share(&statement.query_id)))
        .filter(|(_, share)| *share >= NAMED)
        .map(|(statement, share)| Burner {
            statement: statement.short(),
            share,
            seconds: cpu.counted.map(|counted| share * counted.as_secs_f64()),
            reasons: reasons(reading, uses, statement),
            needless: needless(statement),
            source,
        })
        .collect();
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    found
}

impl Burner {
    /// One sentence about it.
    pub(super) fn sentence(&self) -> String {
        let why = match self.reasons.as_slice() {
            [] => String::new(),
            reasons => format!(": it {}", reasons.join(", ")),
        };
        format!(
            "{:.0} % of the CPU of client backends goes to \"{}\"{why}.",
            100.0 * self.share,
            self.statement
        )
    }

    /// Its share and its CPU as evidence.
    pub(super) fn evidence(&self, per: Per) -> Vec<Evidence> {
        let share = format!("share of the CPU of client backends in: {}", self.statement);
        let seconds = format!("CPU of {}", self.statement);
        let share = Evidence::new(self.source, share, Value::Fraction(self.share));
        let seconds = self
            .seconds
            .map(|s| Evidence::new("/proc/PID/schedstat", seconds, Value::Seconds(s)).per(per));
        [Some(share), seconds].into_iter().flatten().collect()
    }
}

/// What in a statement takes its time, by the traces it leaves.
fn reasons(reading: &Reading, uses: &StatementUses, statement: &StatementUse) -> Vec<String> {
    let mut reasons = Vec::new();
    let hidden = |churn: &Churn| churn.hides_in(statement);
    if Churn::of(reading, uses).as_ref().is_some_and(hidden) {
        reasons.push("makes temporary tables".to_owned());
    } else if local_blocks(statement) > 0.0 {
        reasons.push("works in temporary tables".to_owned());
    }
    if let Some(table) = scanned(reading, uses, statement) {
        reasons.push(table);
    }
    if compiling(statement) >= MUCH * statement.seconds() {
        reasons.push("is compiled by JIT".to_owned());
    }
    if statement.sum("temp_blks_written").is_some_and(|n| n > 0.0) {
        reasons.push("sorts or hashes more than work_mem holds".to_owned());
    }
    if needless(statement) > 0.0 {
        let [pages, rows] = pages_and_rows(statement).unwrap_or_default();
        let (pages, rows) = (pages / statement.calls, rows / statement.calls);
        reasons.push(format!(
            "reads {pages:.0} pages at each call and returns or changes {rows:.1} rows"
        ));
    }
    if let Some((function, share)) = function(reading, uses, statement) {
        reasons.push(format!("spends {:.0} % of its time in function {function}", 100.0 * share));
    }
    reasons
}

/// Pages that a statement touched, and rows that it returned or changed.
fn pages_and_rows(statement: &StatementUse) -> Option<[f64; 2]> {
    let pages =
        statement.sum("shared_blks_hit")? + statement.sum("shared_blks_read").unwrap_or(0.0);
    Some([pages, statement.sum("rows")?])
}

/// Pages that what a statement changed needs, also in functions and triggers, whose rows are not
/// among its own: each row, and each entry of an index, leaves a record in the WAL.
fn pages_written(statement: &StatementUse) -> f64 {
    // A page that is only read may leave one too, with its image.
    let records = statement.sum("wal_records").unwrap_or(0.0);
    let changes = records - statement.sum("wal_fpi").unwrap_or(0.0);
    PAGES_OF_A_CHANGE * changes.max(0.0)
}

/// Part of a statement's pages that its rows do not need, where it touches many more: an index
/// that has its rows in its order leads to them.
fn needless(statement: &StatementUse) -> f64 {
    let Some([pages, rows]) = pages_and_rows(statement) else { return 0.0 };
    let needed = (PAGES_OF_A_ROW * rows.max(statement.calls)).max(pages_written(statement));
    if pages < MANY_TIMES * needed { 0.0 } else { 1.0 - needed / pages }
}

/// The table that a statement reads by sequential scans for much of its blocks.
fn scanned(reading: &Reading, uses: &StatementUses, statement: &StatementUse) -> Option<String> {
    let touched =
        statement.sum("shared_blks_hit")? + statement.sum("shared_blks_read").unwrap_or(0.0);
    let touched = touched / uses.work.count;
    let tables = reading.difference(Source::Tables).ok()?;
    let work = reading.work(&tables).ok()?.count;
    let scans = tables.rows.iter().filter_map(|row| {
        let pages = row.last.number("relation_bytes")? / 8192.0;
        Some((row.last.text("relname")?, pages * row.delta("seq_scan")? / work))
    });
    let (table, pages) = scans.max_by(|a, b| a.1.total_cmp(&b.1))?;
    // Counters of tables come a second later than those of statements.
    if pages < MUCH * touched || pages > 1.3 * touched {
        return None;
    }
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let named = statement.plain().split(|c| !word(c)).any(|w| w == table.to_lowercase());
    let inside = if named { "" } else { " (in a function, a trigger or a foreign-key check)" };
    Some(format!("reads all of {table} at each call{inside}"))
}

/// The function that no statement names, so that a trigger or another function calls it, in
/// which a statement seems to spend much of its time; where the server times functions.
fn function(
    reading: &Reading,
    uses: &StatementUses,
    statement: &StatementUse,
) -> Option<(String, f64)> {
    let functions = reading.difference(Source::Functions).ok()?;
    let named = |name: &str| {
        let call = format!("{}(", name.to_lowercase());
        uses.toplevel().any(|s| s.plain().contains(&call))
    };
    let timed = functions.rows.iter().filter_map(|row| {
        let name = row.last.text("funcname").filter(|name| !named(name))?;
        // Its own statements are in it, other functions are not.
        Some((name.to_owned(), row.delta("self_time")? / 1e3 / statement.seconds()))
    });
    let (name, share) = timed.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (MUCH..=1.0).contains(&share).then_some((name, share))
}
