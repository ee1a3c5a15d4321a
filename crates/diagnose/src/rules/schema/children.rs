//! D17 where the statements hide in a function: rows of a parent are deleted and inserted again
//! while the parent stays.
//!
//! `pg_stat_statements` counts what functions run only where it tracks all. The counters of the
//! tables show it without: rows that are no rows but of their parent (their key begins with the
//! parent's) are deleted far more often than parents are, and come again. Whether that is one
//! statement's work tells the WAL: each row deleted or inserted, and each entry of an index, is a
//! record.

use walwright_figures::StatementUse;
use walwright_record::{ForeignKey, SchemaTable};

use super::super::forgotten_plans::ForgottenPlans;
use super::super::threshold::FEW;
use super::by_cost;
use super::foreign_keys::supports;
use super::view::{View, bounded};
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Per, Value};

/// Rows of a parent from which they are a set.
const SET: f64 = 1.5;
/// Part of a parent's rows that a call rewrites from which it is all of them.
const WHOLE: f64 = 0.7;
/// Part of the rows deleted that no parent's end explains from which they are rewritten.
const UNEXPLAINED: f64 = 0.5;
/// Part of the records of rewriting that one statement has written from which it is the one that
/// rewrites.
const MOST: f64 = 0.7;
/// Part of a statement's time that its rewritten rows take of their part of its records: the
/// lower end, the centre, the upper end.
const OF_TIME: (f64, f64, f64) = (0.2, 0.6, 1.2);

pub(super) fn findings(view: &View) -> Vec<Finding> {
    let Some(keys) = &view.facts.foreign_keys else { return Vec::new() };
    let own = || keys.iter().filter(|key| !key.inherited);
    own().filter_map(|key| rewritten(view, key, own())).collect()
}

fn rewritten<'a>(
    view: &View,
    key: &ForeignKey,
    all: impl Iterator<Item = &'a ForeignKey>,
) -> Option<Finding> {
    let table = view.facts.table(key.table)?;
    let parent = view.facts.table(key.referenced)?;
    if !is_part_of(view, table, key) || !view.writers(table, &["delete"]).is_empty() {
        return None;
    }
    let used = view.used(table)?;
    let (rows, parents) = (view.live_rows(table)?, view.live_rows(parent)?);
    let each = rows / parents;
    if parents <= 0.0 || each < SET / 2.0 {
        return None;
    }
    // Whatever it refers to may take its rows along.
    let explained = |key: &ForeignKey| {
        let referenced = view.facts.table(key.referenced)?;
        let each = rows / view.live_rows(referenced).filter(|rows| *rows > 0.0)?;
        let used = view.used(referenced)?;
        Some((used.deleted * each, used.inserted * each))
    };
    let explained: Vec<(f64, f64)> =
        all.filter(|other| other.table == key.table).filter_map(explained).collect();
    let most = |of: fn(&(f64, f64)) -> f64| explained.iter().map(of).fold(0.0, f64::max);
    let gone = used.deleted - most(|e| e.0);
    let come = used.inserted - most(|e| e.1);
    let again = gone.min(come);
    if gone < UNEXPLAINED * used.deleted || again * view.work_done() < FEW {
        return None;
    }
    let indexes = view.facts.indexes_of(table.oid).count() as f64;
    // A row deleted, one inserted with its entries, and a lock on what each key refers to.
    let records = again * (2.0 + indexes + explained.len() as f64);
    let host = host(view, records)?;
    let statements = view.reading.statements.as_ref().ok()?;
    // Who writes the difference leaves most of a set as it is.
    let of_old = host.calls / statements.work.count - view.used(parent)?.inserted;
    let of_set = again / of_old.max(f64::MIN_POSITIVE);
    if of_old <= 0.0 || of_set < SET.max(WHOLE * each) {
        return None;
    }
    let written = host.sum("wal_records")? / statements.work.count;
    // What the function plans again after resets is theirs.
    let plans =
        ForgottenPlans::of(view.reading, statements).map_or([0.0; 3], |plans| plans.seconds(host));
    let of_host =
        |planning: f64| (view.working(host) - planning).max(0.0) * (records / written).min(1.0);
    let cost = bounded(
        OF_TIME.0 * of_host(plans[2]),
        OF_TIME.1 * of_host(plans[1]),
        OF_TIME.2 * of_host(plans[0]),
    );
    let names = |numbers: &[i16]| -> String {
        let names = numbers.iter().filter_map(|number| Some(table.column(*number)?.name.as_str()));
        names.collect::<Vec<_>>().join(", ")
    };
    let cause = format!(
        "\"{}\" deletes the rows of {} that belong to a row of {} and inserts as many again, {of_set:.1} \
         of them at each call for a row that is there, by ({}): most of it writes what was there before.",
        host.short(),
        table.qualified(),
        parent.qualified(),
        names(&key.columns),
    );
    let finding = view
        .finding(DiagnosisId::D17, Kind::Problem, cause)
        .about(table.qualified())
        .seen([
            view.evidence(
                "pg_stat_user_tables",
                "rows deleted while what they refer to stays",
                Value::Count(gone),
            ),
            view.evidence(
                "pg_stat_user_tables",
                "rows inserted for what was there before",
                Value::Count(come),
            ),
            Evidence::new(
                "pg_stat_statements.wal_records",
                format!("WAL records of {}", host.short()),
                Value::Count(host.sum("wal_records")? / host.calls),
            )
            .per(Per::Call),
        ])
        .blind_to(
            "How many of the rows really differ; the gain is what remains if none does. \
             pg_stat_statements.track = all shows the statements inside the function.",
        )
        .advise(Action::advice(format!(
            "Write the difference only: look first whether anything differs, then MERGE INTO {0}, \
             or INSERT … ON CONFLICT DO NOTHING and DELETE only what is gone.",
            table.sql()
        )));
    Some(by_cost(view.costing_execution(finding, cost)))
}

/// Whether rows of the table are parts of what the key refers to: a unique key of theirs begins
/// with it.
fn is_part_of(view: &View, table: &SchemaTable, key: &ForeignKey) -> bool {
    view.facts.indexes_of(table.oid).any(|index| {
        index.unique
            && index.key_columns.len() > key.columns.len()
            && supports(table, index, &key.columns)
    })
}

/// The client's statement that wrote most of so many records a transaction.
fn host<'a>(view: &View<'a, '_>, records: f64) -> Option<&'a StatementUse> {
    let statements = view.reading.statements.as_ref().ok()?;
    let each = |s: &StatementUse| s.sum("wal_records").unwrap_or(0.0) / statements.work.count;
    let most = statements.toplevel().max_by(|a, b| each(a).total_cmp(&each(b)))?;
    (each(most) >= MOST * records).then_some(most)
}

#[cfg(test)]
mod tests {
    use walwright_record::SchemaIndex;

    use super::super::testing::{Testbed, foreign_key, index, primary, table};
    use super::*;

    const CALL: &str = "SELECT store_order($1, $2)";

    /// Orders of five lines each, of which a function that the clients call deletes and inserts
    /// so many.
    fn orders(lines: f64, orders: [(&str, f64); 2], key: SchemaIndex) -> Testbed {
        let mut testbed = Testbed::new();
        let [gone, come] = orders;
        testbed.table(table(1, "orders", &["id"]), [("n_live_tup", 1e3), gone, come]);
        let again = [("n_live_tup", 5e3), ("n_tup_del", lines), ("n_tup_ins", lines)];
        testbed.table(table(2, "line", &["order_id", "no"]), again);
        testbed.facts.indexes = vec![primary(10, 1), key];
        testbed.facts.foreign_keys = Some(vec![foreign_key(30, 2, 1, 1)]);
        testbed.writing(7, CALL, 1.0, 1.5, 4.0 * lines);
        testbed
    }

    const NO_ORDERS: [(&str, f64); 2] = [("n_tup_del", 0.0), ("n_tup_ins", 0.0)];

    fn of_lines() -> SchemaIndex {
        SchemaIndex { unique: true, ..index(20, 2, "line_pkey", &[1, 2]) }
    }

    #[test]
    fn whole_sets_that_come_and_go_while_their_parent_stays_are_rewritten() {
        let found = orders(5.0, NO_ORDERS, of_lines()).findings();
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((finding.id, finding.kind), (DiagnosisId::D17, Kind::Problem));
        assert_eq!(finding.subject.as_deref(), Some("public.line"));
        assert!(finding.cause.contains(CALL) && finding.cause.contains("order_id"), "{finding:?}");
        let share = finding.impact.as_ref().unwrap().share.center;
        assert!(share > 0.2 && share < 0.75, "{share}");
    }

    #[test]
    fn sets_that_go_with_their_parent_and_parts_of_sets_are_not() {
        // An order in a transaction goes, and another comes.
        let replaced = [("n_tup_del", 1.0), ("n_tup_ins", 1.0)];
        assert_eq!(orders(5.0, replaced, of_lines()).findings(), []);
        // One line of five differs.
        assert_eq!(orders(1.0, NO_ORDERS, of_lines()).findings(), []);
        // Rows of their own, such as jobs of a customer, are no parts of it.
        let of_jobs = SchemaIndex { unique: true, ..index(20, 2, "job_pkey", &[2]) };
        let found = orders(5.0, NO_ORDERS, of_jobs).findings();
        assert!(!found.iter().any(|f| f.id == DiagnosisId::D17), "{found:?}");
        // Nobody has written as much.
        let mut little = orders(5.0, NO_ORDERS, of_lines());
        little.build.record.samples.remove(&walwright_record::Source::Statements);
        little.writing(7, CALL, 1.0, 1.5, 2.0);
        assert_eq!(little.findings(), []);
        // Who sees the statement judges it by its text.
        let mut seen = orders(5.0, NO_ORDERS, of_lines());
        seen.statement(8, "DELETE FROM line WHERE order_id = $1", 1.0, 0.1);
        assert_eq!(seen.findings(), []);
    }
}
