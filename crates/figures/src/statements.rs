//! Statements by time and by WAL, from `pg_stat_statements`.

use std::time::Duration;

use serde::Serialize;
use walwright_record::{Record, Window};

use crate::seconds::duration;
use crate::{Blind, StatementCpu, StatementUse, StatementUses, WorkUnit, statement_uses};

/// What one statement did inside the window. A figure this version does not
/// count is `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statement {
    /// `queryid`, as text since JSON numbers cannot hold it.
    pub query_id: String,
    /// Normalised text; `None` where this role may not see it.
    pub query: Option<String>,
    /// Executions.
    pub calls: f64,
    /// Executions a transaction.
    pub calls_per_transaction: f64,
    /// Mean execution time; `None` without calls that ended.
    #[serde(with = "crate::seconds::option")]
    pub mean_time: Option<Duration>,
    /// Execution time a transaction.
    #[serde(with = "crate::seconds")]
    pub time_per_transaction: Duration,
    /// Share of the execution time of all statements, 0 to 1.
    pub time_share: f64,
    /// Share of the CPU of client backends, 0 to 1, as [`Statements::cpu`] says; `None` for
    /// what functions and triggers ran, which is in the statement that called them.
    pub cpu_share: Option<f64>,
    /// Rows returned or changed, a call.
    pub rows_per_call: Option<f64>,
    /// WAL bytes a call.
    pub wal_bytes_per_call: Option<f64>,
    /// Share of the WAL bytes of all statements, 0 to 1.
    pub wal_share: Option<f64>,
    /// Full-page images a call.
    pub wal_fpi_per_call: Option<f64>,
    /// Blocks of 8 kB read from outside shared buffers, a call.
    pub blocks_read_per_call: Option<f64>,
}

/// The statements that ran inside the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statements {
    /// What "a transaction" is.
    pub unit: WorkUnit,
    /// The largest by execution time, descending.
    pub by_time: Vec<Statement>,
    /// The largest by WAL, descending; those that wrote none are left out.
    pub by_wal: Vec<Statement>,
    /// The largest that functions and triggers ran, by execution time; their time is in that of
    /// the statement that called them. Empty where `pg_stat_statements.track` is not `all`.
    pub nested: Vec<Statement>,
    /// Where the shares of the CPU come from; `None` where they are not known.
    pub cpu: Option<StatementCpu>,
    /// Execution time of all statements a transaction.
    #[serde(with = "crate::seconds")]
    pub time_per_transaction: Duration,
    /// WAL bytes of all statements a transaction. Commit records and what
    /// background processes write are not in it.
    pub wal_bytes_per_transaction: Option<f64>,
}

/// The `most` largest statements by time and by WAL.
///
/// Only top-level statements count, so that what a function runs is not counted
/// twice.
///
/// # Errors
/// When the extension was not sampled, was reset, or no work was counted.
pub fn statements(record: &Record, window: Window, most: usize) -> Result<Statements, Blind> {
    Ok(largest(record, window, &statement_uses(record, window)?, most))
}

/// The same of statements that have been read.
pub(crate) fn largest(
    record: &Record,
    window: Window,
    uses: &StatementUses,
    most: usize,
) -> Statements {
    let cpu = StatementCpu::of(record, window, uses);
    let total = |column: &str| uses.sum(column).unwrap_or(0.0);
    let (time, wal) = (total("total_exec_time"), total("wal_bytes"));
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let of = |statement: &StatementUse| {
        let milliseconds = statement.sum("total_exec_time");
        Statement {
            query_id: statement.query_id.clone(),
            query: statement.text.clone(),
            calls: statement.calls,
            calls_per_transaction: statement.calls / uses.work.count,
            mean_time: milliseconds.and_then(|ms| duration(ms / statement.calls / 1e3)),
            time_per_transaction: milliseconds
                .and_then(|ms| duration(ms / uses.work.count / 1e3))
                .unwrap_or_default(),
            time_share: share(milliseconds.unwrap_or(0.0), time),
            cpu_share: cpu
                .as_ref()
                .filter(|_| statement.toplevel)
                .map(|cpu| cpu.share(&statement.query_id)),
            rows_per_call: statement.per_call("rows"),
            wal_bytes_per_call: statement.per_call("wal_bytes"),
            wal_share: statement.sum("wal_bytes").map(|bytes| share(bytes, wal)),
            wal_fpi_per_call: statement.per_call("wal_fpi"),
            blocks_read_per_call: statement.per_call("shared_blks_read"),
        }
    };
    // They come by time.
    let nested = uses.all.iter().filter(|s| !s.toplevel).take(most).map(of).collect();
    let mut all: Vec<Statement> = uses.toplevel().map(of).collect();
    let by_time: Vec<Statement> = all.iter().take(most).cloned().collect();
    all.retain(|s| s.wal_share.is_some_and(|share| share > 0.0));
    all.sort_by(|a, b| b.wal_share.unwrap_or(0.0).total_cmp(&a.wal_share.unwrap_or(0.0)));
    all.truncate(most);
    Statements {
        unit: uses.work.unit,
        by_time,
        by_wal: all,
        nested,
        time_per_transaction: duration(time / uses.work.count / 1e3).unwrap_or_default(),
        wal_bytes_per_transaction: uses.sum("wal_bytes").map(|wal| wal / uses.work.count),
        cpu,
    }
}

#[cfg(test)]
mod tests {
    use walwright_record::{Row, Source};

    use super::*;
    use walwright_testing::{Build, row, second};

    fn statement(id: i64, text: Option<&str>, calls: f64, ms: f64, wal: f64) -> Row {
        let mut row =
            row([("calls", calls), ("total_exec_time", calls * ms), ("wal_bytes", calls * wal)]);
        row.set("queryid", id).set("userid", 10_i64).set("dbid", 5_i64).set("toplevel", true);
        if let Some(text) = text {
            row.set("query", text);
        }
        row
    }

    fn build() -> Build {
        let mut build = Build::new();
        build.load(0, 30, 100);
        for s in [0.0, 5.0, 10.0, 15.0, 20.0, 25.0] {
            let n = 100.0 * s;
            let mut rows = vec![
                statement(1, (s == 0.0).then_some("UPDATE a"), 70.0 + n, 0.1, 600.0),
                statement(2, (s == 0.0).then_some("SELECT b"), n, 0.3, 0.0),
            ];
            if s >= 15.0 {
                rows.push(statement(3, Some("INSERT c"), n - 1_500.0, 0.02, 1_000.0));
            }
            if s == 0.0 {
                rows.push(statement(4, Some("CREATE TABLE a"), 1.0, 900.0, 1e6));
            }
            let mut nested = statement(1, None, 10.0 * n, 5.0, 600.0);
            nested.set("toplevel", false);
            rows.push(nested);
            build.sample(s, Source::Statements, rows);
        }
        build
    }

    #[test]
    fn statements_are_ranked_by_time_and_by_wal() {
        let window = Window { start: second(5.0), end: second(26.0) };
        let seen = statements(&build().record, window, 10).unwrap();
        let ids = |list: &[Statement]| -> Vec<String> {
            list.iter().map(|s| s.query_id.clone()).collect()
        };
        assert_eq!(ids(&seen.nested), ["1"]);
        // 4 ran before the window; the nested entry of 1 is not counted.
        assert_eq!(ids(&seen.by_time), ["2", "1", "3"]);
        assert_eq!(ids(&seen.by_wal), ["1", "3"]);
        let first = &seen.by_time[0];
        assert_eq!(first.query.as_deref(), Some("SELECT b"));
        assert!((first.calls_per_transaction - 1.0).abs() < 1e-9);
        assert_eq!(first.mean_time, Some(Duration::from_micros(300)));
        assert!((first.time_share - 0.3 / (0.3 + 0.1 + 0.5 * 0.02)).abs() < 1e-9);
        assert_eq!(seen.by_wal[0].wal_bytes_per_call, Some(600.0));
        assert!((seen.wal_bytes_per_transaction.unwrap() - 1_100.0).abs() < 1e-6);
    }

    #[test]
    fn a_text_that_comes_after_the_window_is_found() {
        let mut build = build();
        build.sample(
            29.0,
            Source::Statements,
            [statement(3, Some("INSERT c"), 1_400.0, 0.02, 1.0)],
        );
        let samples = build.record.samples.get_mut(&Source::Statements).unwrap();
        for row in samples.iter_mut().take(6).flat_map(|s| &mut s.rows) {
            row.0.remove("query");
        }
        let window = Window { start: second(5.0), end: second(26.0) };
        let seen = statements(&build.record, window, 10).unwrap();
        let text =
            |id: &str| seen.by_time.iter().find(|s| s.query_id == id).unwrap().query.as_deref();
        assert_eq!((text("3"), text("1")), (Some("INSERT c"), None));
    }

    #[test]
    fn a_limit_is_kept() {
        let window = Window { start: second(5.0), end: second(26.0) };
        let seen = statements(&build().record, window, 1).unwrap();
        assert_eq!((seen.by_time.len(), seen.by_wal.len()), (1, 1));
    }

    #[test]
    fn without_the_extension_there_is_an_answer_why() {
        let mut build = Build::new();
        build.load(0, 30, 100);
        let window = Window { start: second(5.0), end: second(26.0) };
        assert_eq!(
            statements(&build.record, window, 5),
            Err(Blind::NotSampled { source: Source::Statements })
        );
    }
}
