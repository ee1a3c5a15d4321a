//! Plans of statements over partitioned tables.
//!
//! Only plans are made, nothing is run: `EXPLAIN` without `ANALYZE` never starts the
//! executor's work. It takes place in a read-only transaction, so that not even a
//! function that the planner evaluates can write; with timeouts, so that it neither
//! waits for a lock nor holds one for long; and only where there are partitioned
//! tables and statements that name one.
//!
//! The parameters of the statements are not known. Their plan is made for any value
//! (a generic plan) and started with NULLs: PostgreSQL then removes the partitions
//! that the start of an execution would remove, which for a condition on the
//! partition key is all of them. Scans that stay are of conditions that do not
//! restrict the key, or that restrict it only while the plan runs (the inner side of
//! a nested loop); the latter name a key column, and are told apart by that.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tokio_postgres::SimpleQueryMessage;
use walwright_record::{PartitionPlan, SchemaFacts, TableKind};
use walwright_server::{Client, QueryError, Row};

use super::ask;
use crate::extension::statements_schema;

/// Statements looked at, those with the most time first.
const STATEMENTS: i64 = 10;

/// Unlike elsewhere the search path is the application's, as the texts expect.
const BEGIN: &str = "BEGIN TRANSACTION READ ONLY;
    SET LOCAL statement_timeout = '2s'; SET LOCAL lock_timeout = '100ms';
    SET LOCAL plan_cache_mode = force_generic_plan";

/// Adds to `facts` how the plans of the statements with the most time treat
/// partitioned tables. Does nothing where there are none.
///
/// Planning may call functions that a statement names, with the rights of who plans, and
/// what a name means may have changed since the statement was run. So on a server that is
/// not `ours` a superuser plans nothing, and any other role only what it has run itself,
/// by `workload`, a session for such statements.
pub async fn partition_plans(
    client: &Client,
    workload: &Client,
    ours: bool,
    facts: &mut SchemaFacts,
) {
    let names: Vec<String> = facts
        .tables
        .iter()
        .filter(|table| table.kind == TableKind::Partitioned && table.parent.is_none())
        .map(|table| format!("%{}%", like_escaped(&table.name)))
        .collect();
    if names.is_empty() {
        return;
    }
    let statements = match statements(client, ours, &names).await {
        Ok(statements) => statements,
        Err(why) => {
            facts.incomplete.push(format!("plans over partitioned tables: {why}"));
            return;
        }
    };
    let mut unplanned = 0;
    for (query_id, text) in statements {
        match explain(workload, &text).await {
            Ok(Some(plan)) => {
                let found = partitions_scanned(&plan, &query_id, facts);
                facts.plans.extend(found);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(%error, query_id, "no plan");
                unplanned += 1;
            }
        }
    }
    if unplanned > 0 {
        facts.incomplete.push(format!(
            "plans over partitioned tables: {unplanned} statements could not be planned without their parameters and session"
        ));
    }
}

fn like_escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

async fn statements(
    client: &Client,
    ours: bool,
    names: &[String],
) -> Result<Vec<(String, String)>, String> {
    let said = |error: QueryError| error.to_string();
    let superuser = "SELECT rolsuper FROM pg_roles WHERE rolname = session_user";
    let superuser = ask(client, superuser, &[]).await.map_err(said)?;
    let superuser = superuser.first().map_or(Ok(true), |row| row.get::<bool>(0)).map_err(said)?;
    if superuser && !ours {
        return Err("not made, since planning calls functions, as a superuser; connect as a role that is none".to_owned());
    }
    let schema = statements_schema(client).await?;
    let sql = format!(
        "SELECT v.queryid::text, v.query FROM {schema}.pg_stat_statements v
         WHERE v.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
           AND v.userid = (SELECT oid FROM pg_roles WHERE rolname = session_user)
           AND v.queryid IS NOT NULL AND v.toplevel AND v.query ILIKE ANY ($1)
           AND v.query ~* '^\\s*(select|update|delete|with|merge|insert)\\M'
         ORDER BY v.total_exec_time DESC LIMIT {STATEMENTS}"
    );
    let rows = ask(client, &sql, &[&names]).await.map_err(said)?;
    let read = |row: &Row| Ok(row.get::<Option<String>>(1)?.map(|text| (row.get(0), text)));
    let texts = rows.iter().map(read).collect::<Result<Vec<_>, QueryError>>().map_err(said)?;
    texts.into_iter().flatten().map(|(id, text)| Ok((id.map_err(said)?, text))).collect()
}

/// The generic plan as JSON; `None` for a text that cannot be sent on safely.
async fn explain(client: &Client, text: &str) -> Result<Option<Value>, QueryError> {
    // The texts come with their constants and the final semicolon taken out. One that
    // still has a semicolon could be more than one command.
    if text.contains(';') || text.contains('\0') {
        return Ok(None);
    }
    let nulls = vec!["NULL"; parameters(text)];
    let arguments =
        if nulls.is_empty() { String::new() } else { format!("({})", nulls.join(", ")) };
    client.begin(BEGIN).await?;
    let planned = async {
        client.batch_execute(&format!("PREPARE walwright_plan AS {text}")).await?;
        // What a session keeps beyond its transaction is taken back before it ends,
        // whatever the plan says: a pooler may lend the session on.
        client.batch_execute("SAVEPOINT walwright_plan").await?;
        let answer = client
            .simple_query(&format!(
                "EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) EXECUTE walwright_plan{arguments}"
            ))
            .await;
        client.batch_execute("ROLLBACK TO walwright_plan; DEALLOCATE walwright_plan").await?;
        answer
    }
    .await;
    client.end("ROLLBACK").await?;
    let lines: Vec<String> = planned?
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.try_get(0).ok()?.map(str::to_owned),
            _ => None,
        })
        .collect();
    Ok(serde_json::from_str(&lines.join("\n")).ok())
}

/// The highest `$n` of a text.
fn parameters(text: &str) -> usize {
    text.split('$')
        .skip(1)
        .filter_map(|rest| {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..digits].parse::<usize>().ok()
        })
        .filter(|number| *number <= 65_535)
        .max()
        .unwrap_or(0)
}

/// What is found of one partitioned table in a plan.
#[derive(Default)]
struct Scans {
    partitions: BTreeSet<u32>,
    key_in_conditions: bool,
}

/// The partitioned tables whose partitions a plan scans.
fn partitions_scanned(plan: &Value, query_id: &str, facts: &SchemaFacts) -> Vec<PartitionPlan> {
    let mut found: BTreeMap<u32, Scans> = BTreeMap::new();
    let mut open = vec![plan];
    while let Some(node) = open.pop() {
        match node {
            Value::Array(parts) => open.extend(parts),
            Value::Object(fields) => {
                scan(node, facts, &mut found);
                open.extend(fields.values().filter(|v| v.is_array() || v.is_object()));
            }
            _ => {}
        }
    }
    found
        .into_iter()
        .map(|(table, scans)| PartitionPlan {
            query_id: query_id.to_owned(),
            table,
            scanned: scans.partitions.len() as u32,
            partitions: leaves(facts, table),
            key_in_conditions: scans.key_in_conditions,
        })
        .collect()
}

/// Takes in a node if it scans a partition.
fn scan(node: &Value, facts: &SchemaFacts, found: &mut BTreeMap<u32, Scans>) {
    let text = |field: &str| node.get(field).and_then(Value::as_str);
    let (Some(kind), Some(schema), Some(name)) =
        (text("Node Type"), text("Schema"), text("Relation Name"))
    else {
        return;
    };
    if !kind.contains("Scan") {
        return;
    }
    let Some(table) = facts.tables.iter().find(|t| t.schema == schema && t.name == name) else {
        return;
    };
    let mut ancestors = Vec::new();
    let mut above = table.parent.and_then(|parent| facts.table(parent));
    while let Some(parent) = above {
        ancestors.push(parent);
        above = parent.parent.and_then(|parent| facts.table(parent));
    }
    let Some(root) = ancestors.last() else { return };
    let scans = found.entry(root.oid).or_default();
    scans.partitions.insert(table.oid);
    let conditions: Vec<&str> =
        ["Index Cond", "Recheck Cond", "Filter", "TID Cond"].into_iter().filter_map(text).collect();
    // A key of expressions cannot be looked for by its columns; then nothing is claimed.
    scans.key_in_conditions |= ancestors.iter().filter_map(|t| t.partitioning.as_ref()).any(|p| {
        p.columns.is_empty()
            || p.columns.iter().any(|column| conditions.iter().any(|c| names(c, column)))
    });
}

/// Whether a condition names a column.
fn names(condition: &str, column: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    condition.match_indices(column).any(|(at, _)| {
        let before = condition[..at].chars().next_back();
        let after = condition[at + column.len()..].chars().next();
        !before.is_some_and(word) && !after.is_some_and(word)
    })
}

/// Partitions under a table that hold rows.
fn leaves(facts: &SchemaFacts, table: u32) -> u32 {
    let children = facts.tables.iter().filter(|child| child.parent == Some(table));
    children
        .map(|child| match child.kind {
            TableKind::Partitioned => leaves(facts, child.oid),
            TableKind::Table | TableKind::MaterializedView => 1,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_counted() {
        assert_eq!(parameters("UPDATE t SET a = $2 WHERE b = $10 AND c = '$x'"), 10);
        assert_eq!(parameters("SELECT 1"), 0);
        assert_eq!(parameters("SELECT $99999999999999999999"), 0);
    }

    #[test]
    fn a_column_is_a_whole_word() {
        assert!(names("((p.day >= $1) AND (p.id = 3))", "day"));
        assert!(!names("(p.birthday = $1)", "day"));
        assert!(!names("(p.day_of = $1)", "day"));
        assert!(names("(p.\"Day\" = $1)", "Day"));
    }
}
