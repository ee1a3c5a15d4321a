//! D16: statements that scan every partition, shown by their plans; and where functions and foreign
//! keys hide them, by the counters of the partitions' indexes.

use std::collections::BTreeMap;

use walwright_record::SchemaTable;
use walwright_stats::{mean, variance};

use super::by_cost;
use super::view::{View, bounded};
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Per, Value};

/// Partitions under which scanning all is cheap.
const FEW: u32 = 3;
/// Look-ups in the window from which their scans are compared.
const ENOUGH: f64 = 100.0;
/// Variance of the scans of partitions, in their mean, up to which they went in step: look-ups that
/// each go to one partition differ by chance, as their number does (Poisson: 1).
const IN_STEP: f64 = 0.05;
/// Part of all scans that another key saves at least.
const SAVES: f64 = 0.25;
/// CPU seconds of opening, locking and searching one partition: the lower end, the centre, the
/// upper end.
const PARTITION: (f64, f64, f64) = (3e-6, 15e-6, 60e-6);

pub(super) fn findings(view: &View) -> Vec<Finding> {
    let mut found = unpruned(view);
    let seen = |table: &SchemaTable| {
        let name = format!("{} ", table.qualified());
        let about = |f: &Finding| f.subject.as_ref().is_some_and(|of| of.starts_with(&name));
        found.iter().any(|f| about(f) && f.kind == Kind::Problem)
    };
    let hidden = view.facts.tables.iter().filter(|table| !seen(table));
    let hidden: Vec<Finding> = hidden.filter_map(|table| misplaced(view, table)).collect();
    found.extend(hidden);
    found
}

/// A table that is looked into by another column more than by its partition key: each of these
/// look-ups goes to all partitions, whose scans are then equal in number.
fn misplaced(view: &View, table: &SchemaTable) -> Option<Finding> {
    let partitioning = table.partitioning.as_ref()?;
    let [key] = partitioning.columns.as_slice() else { return None };
    let partitions = view.leaves(table).len() as f64;
    if partitions <= f64::from(FEW) {
        return None;
    }
    let (mut by_key, mut by_others) = (0.0, BTreeMap::<i16, f64>::new());
    for index in view.facts.indexes_of(table.oid) {
        let scans = view.scans_of_partitions(index.oid)?;
        let (each, spread) = (mean(&scans)?, variance(&scans)?);
        let in_step = each >= ENOUGH && spread <= IN_STEP * each;
        match index.key_columns.first() {
            Some(first) if in_step => *by_others.entry(*first).or_default() += each,
            _ => by_key += scans.iter().sum::<f64>(),
        }
    }
    let (number, others) = by_others.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
    let column = table.column(*number)?;
    // Each unique key holds the partition key, so what one lacks cannot be it.
    let mut unique = view.facts.indexes_of(table.oid).filter(|index| index.unique);
    if column.name == *key || unique.any(|index| !index.key_columns.contains(number)) {
        return None;
    }
    let now = partitions * by_others.values().sum::<f64>() + by_key;
    // By that column its look-ups go to one partition, and those by the key of now to all.
    let saved = (partitions - 1.0) * (others - by_key);
    if saved < SAVES * now {
        return None;
    }
    let saved = saved / view.work_done();
    let cause = format!(
        "{} is partitioned by {}, {}, and looked into by {} more often: each of these look-ups goes \
         to all {partitions:.0} partitions",
        table.qualified(),
        key,
        partitioning.key,
        column.name,
    );
    let finding = view
        .finding(DiagnosisId::D16, Kind::Problem, cause)
        .about(format!("{} {}", table.qualified(), column.name))
        .seen([
            view.evidence(
                "pg_stat_user_indexes.idx_scan",
                &format!("look-ups by {}, each in all partitions", column.name),
                Value::Count(others / view.work_done()),
            ),
            view.evidence(
                "pg_stat_user_indexes.idx_scan",
                "look-ups in one partition",
                Value::Count(by_key / view.work_done()),
            ),
        ])
        .blind_to(
            "which statements these are: pg_stat_statements.track = all shows those of functions",
        )
        .advise(Action::advice(format!(
            "partition by {} instead, so that these look-ups go to one partition; those by {key} \
             then go to all",
            column.name
        )));
    let cost = bounded(PARTITION.0 * saved, PARTITION.1 * saved, PARTITION.2 * saved);
    Some(by_cost(view.costing_cpu(finding, cost)))
}

/// Statements whose plans look into all partitions.
fn unpruned(view: &View) -> Vec<Finding> {
    let Ok(statements) = &view.reading.statements else { return Vec::new() };
    let unpruned = view.facts.plans.iter().filter(|plan| {
        plan.partitions > FEW && plan.scanned == plan.partitions && !plan.key_in_conditions
    });
    unpruned
        .filter_map(|plan| {
            let table = view.facts.table(plan.table)?;
            let partitioning = table.partitioning.as_ref()?;
            let statement = statements.toplevel().find(|s| s.query_id == plan.query_id)?;
            let cause = format!(
                "`{}` has no condition on the partition key of {}, {}, so it looks into all {} partitions",
                statement.short(),
                table.qualified(),
                partitioning.key,
                plan.partitions
            );
            let working = view.working(statement);
            let needless = 1.0 - 1.0 / f64::from(plan.partitions);
            let finding = view
                .finding(DiagnosisId::D16, Kind::Problem, cause)
                .about(format!("{} {}", table.qualified(), plan.query_id))
                .seen([
                    Evidence::new(
                        "EXPLAIN of the generic plan",
                        "partitions scanned",
                        Value::Count(f64::from(plan.scanned)),
                    )
                    .per(Per::Call),
                    view.evidence(
                        "pg_stat_statements.calls",
                        "calls",
                        Value::Count(statement.calls / statements.work.count),
                    ),
                    Evidence::new(
                        "pg_stat_statements.total_exec_time",
                        "mean time",
                        Value::Seconds(statement.seconds() / statement.calls),
                    )
                    .per(Per::Call),
                ])
                .blind_to("how many partitions hold rows that it needs: where rows are in all of them, only another key or a covering index helps")
                .advise(Action::advice(condition(table, &partitioning.columns)))
                .advise(Action::advice(
                    "or partition by the columns that statements filter on, or, where a join brings the key late, address the partition by its own name",
                ));
            let cost = bounded(0.0, 0.7 * working * needless, working * needless);
            Some(by_cost(view.costing_cpu(finding, cost)))
        })
        .collect()
}

fn condition(table: &SchemaTable, columns: &[String]) -> String {
    format!(
        "add a condition on {} to the statement, where the application knows it: {} is not looked into then beyond the partitions that can match",
        columns.join(", "),
        table.qualified()
    )
}

#[cfg(test)]
mod tests {
    use walwright_record::{PartitionPlan, Partitioning, SchemaIndex, TableKind};

    use super::super::testing::{Testbed, index, table};
    use super::*;

    fn found(scanned: u32, key_in_conditions: bool) -> Vec<Finding> {
        let mut testbed = Testbed::new();
        testbed.table(table(2, "p_1", &["id", "day"]), [("n_tup_ins", 1.0)]);
        let partitioning =
            Partitioning { key: "RANGE (day)".into(), columns: vec!["day".into()], partitions: 16 };
        testbed.facts.tables[0].parent = Some(1);
        testbed.facts.tables.push(SchemaTable {
            kind: TableKind::Partitioned,
            partitioning: Some(partitioning),
            ..table(1, "p", &["id", "day"])
        });
        testbed.facts.plans.push(PartitionPlan {
            query_id: "7".into(),
            table: 1,
            scanned,
            partitions: 16,
            key_in_conditions,
        });
        testbed.statement(7, "SELECT * FROM p WHERE id = $1", 1.0, 1.0);
        testbed.findings()
    }

    /// Lines partitioned by what they refer to, of which so many are looked up by their order, each
    /// in all partitions, and by what they refer to, each in one.
    fn lines(by_order: f64, by_target: f64, off: f64) -> Vec<Finding> {
        let mut testbed = Testbed::new();
        let columns = ["order_id", "target_id"];
        let partitioning = Partitioning {
            key: "LIST (target_id)".into(),
            columns: vec!["target_id".into()],
            partitions: 4,
        };
        testbed.facts.tables.push(SchemaTable {
            kind: TableKind::Partitioned,
            partitioning: Some(partitioning),
            ..table(1, "line", &columns)
        });
        testbed.facts.indexes = vec![
            SchemaIndex { unique: true, ..index(10, 1, "line_pkey", &[1, 2]) },
            index(20, 1, "line_target", &[2]),
        ];
        for leaf in 0..4 {
            let oid = 2 + leaf;
            testbed.table(table(oid, &format!("line_{leaf}"), &columns), [("n_tup_ins", 1.0)]);
            testbed.facts.tables.last_mut().unwrap().parent = Some(1);
            let chance = f64::from(leaf) * off;
            for (parent, scans) in [
                (10, by_order * (1.0 + chance)),
                (20, by_target / 4.0 * (1.0 + 0.1 * f64::from(leaf))),
            ] {
                let child = parent + 1 + leaf;
                testbed.facts.indexes.push(SchemaIndex {
                    parent: Some(parent),
                    ..index(child, oid, &format!("i{child}"), &[1])
                });
                testbed.scans(child, scans);
            }
        }
        testbed.findings().into_iter().filter(|f| f.id == DiagnosisId::D16).collect()
    }

    #[test]
    fn scans_in_step_by_another_column_tell_of_a_wrong_key() {
        let found = lines(2.0, 0.5, 0.0);
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert!(finding.cause.contains("by order_id") && finding.cause.contains("all 4"));
        // By what it refers to it is looked into as often: another key saves nothing.
        assert_eq!(lines(2.0, 2.0, 0.0), []);
        // Each goes to one partition, more often to some.
        assert_eq!(lines(2.0, 0.5, 0.1), []);
    }

    #[test]
    fn only_a_plan_that_cannot_leave_any_out_counts() {
        let all = found(16, false);
        let [finding] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((finding.id, finding.kind), (DiagnosisId::D16, Kind::Problem));
        assert!(finding.cause.contains("RANGE (day)") && finding.cause.contains("all 16"));
        assert!(finding.impact.as_ref().unwrap().share.center > 0.3);
        assert_eq!(found(16, true), [], "an execution may still prune");
        assert_eq!(found(3, false), []);
    }
}
