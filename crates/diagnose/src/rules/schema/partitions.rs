//! D16: statements that scan every partition, shown by their plans.

use walwright_record::SchemaTable;

use super::by_cost;
use super::view::{View, bounded};
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Per, Value};

/// Partitions under which scanning all is cheap.
const FEW: u32 = 3;

pub(super) fn findings(view: &View) -> Vec<Finding> {
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
    use walwright_record::{PartitionPlan, Partitioning, TableKind};

    use super::super::testing::{Testbed, table};
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
