//! The schema, read once from the catalog.
//!
//! What it may cost the server is bounded: every query is a read-only transaction of
//! its own with a timeout and a limit on its rows, and none takes a lock that waits
//! long. A query that fails leaves its part of the facts empty and says so.

mod constraints;
mod indexes;
mod plans;
mod replication;
mod tables;

use std::time::{Duration, Instant};

use tokio_postgres::types::ToSql;
use walwright_record::{SchemaFacts, Timestamp};
use walwright_server::{Client, QueryError, Row};

pub use plans::partition_plans;

/// Tables described: the most written, then the largest.
const TABLES: usize = 500;
/// Columns, indexes and foreign keys described of them.
const COLUMNS: usize = 20_000;
const INDEXES: usize = 3_000;
const FOREIGN_KEYS: usize = 5_000;

/// No part is begun after so much time: a server this slow has better things to do.
const TOTAL: Duration = Duration::from_secs(5);

/// Begins each query's transaction. What is set ends with it, so that nothing stays
/// in a session that a pooler lends on.
const BEGIN: &str = "BEGIN TRANSACTION READ ONLY;
    SET LOCAL statement_timeout = '5s'; SET LOCAL lock_timeout = '100ms';
    SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0";

/// Reads the schema of the database behind `client`: tables, columns, indexes,
/// foreign keys, publications and slots. What is missing is said in
/// [`SchemaFacts::incomplete`].
pub async fn schema_facts(client: &Client) -> SchemaFacts {
    let mut facts = SchemaFacts { at: Timestamp::now(), ..SchemaFacts::default() };
    let began = Instant::now();
    tables::read(client, &mut facts).await;
    let oids: Vec<u32> = facts.tables.iter().map(|table| table.oid).collect();
    if !oids.is_empty() && in_time(began, "columns", &mut facts) {
        tables::columns(client, &oids, &mut facts).await;
        if in_time(began, "statistics of columns", &mut facts) {
            tables::statistics(client, &mut facts).await;
        }
        if in_time(began, "indexes", &mut facts) {
            indexes::read(client, &oids, &mut facts).await;
        }
        if in_time(began, "constraints", &mut facts) {
            constraints::read(client, &oids, &mut facts).await;
        }
        if in_time(began, "sizes of tables and indexes", &mut facts) {
            sizes(client, &mut facts).await;
        }
    }
    replication::read(client, &mut facts).await;
    facts
}

/// Whether there is time for one more part; notes that it is left out where not.
fn in_time(began: Instant, what: &str, facts: &mut SchemaFacts) -> bool {
    let in_time = began.elapsed() < TOTAL;
    if !in_time {
        let took = began.elapsed().as_secs();
        facts.incomplete.push(format!("{what}: not read, since the parts before took {took} s"));
    }
    in_time
}

/// Asks one query in a read-only transaction of its own.
async fn ask(
    client: &Client,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, QueryError> {
    client.begin(BEGIN).await?;
    let rows = client.query(&format!("/* walwright probe */ {sql}"), parameters).await;
    let ended = client.end("ROLLBACK").await;
    let rows = rows?;
    ended?;
    Ok(rows)
}

/// Notes what a failed query leaves out.
fn note(error: &QueryError, what: &str, facts: &mut SchemaFacts) {
    facts.incomplete.push(format!("{what}: {error}"));
}

/// What was read of the rows, or nothing with what is missing noted.
fn or_note<T>(
    rows: Result<Vec<Row>, QueryError>,
    read: impl Fn(&Row) -> Result<T, QueryError>,
    what: &str,
    facts: &mut SchemaFacts,
) -> Vec<T> {
    let read = rows.and_then(|rows| rows.iter().map(read).collect());
    read.unwrap_or_else(|error| {
        note(&error, what, facts);
        Vec::new()
    })
}

/// A count of the server that is never negative; negative ones mean unknown there.
fn count<N: TryInto<u64>>(value: Option<N>) -> Option<u64> {
    value.and_then(|value| value.try_into().ok())
}

/// Rows estimated in `pg_class`: −1 where never vacuumed or analysed.
fn estimate(rows: f64) -> Option<u64> {
    (rows >= 0.0).then_some(rows as u64)
}

/// Exact sizes, in a query of its own: they take a lock on each relation, which
/// someone's `ALTER` or `VACUUM FULL` may hold back.
async fn sizes(client: &Client, facts: &mut SchemaFacts) {
    const SIZES: &str =
        "SELECT c.oid, pg_relation_size(c.oid), pg_relation_size(nullif(c.reltoastrelid, 0))
        FROM pg_class c WHERE c.oid = ANY ($1)";
    let tables = facts.tables.iter().map(|table| table.oid);
    let oids: Vec<u32> = tables.chain(facts.indexes.iter().map(|index| index.oid)).collect();
    let rows = ask(client, SIZES, &[&oids]).await;
    let read = |row: &Row| {
        Ok((row.get::<u32>(0)?, row.get::<Option<i64>>(1)?, row.get::<Option<i64>>(2)?))
    };
    for (oid, bytes, toast) in or_note(rows, read, "sizes of tables and indexes", facts) {
        if let Some(table) = facts.tables.iter_mut().find(|table| table.oid == oid) {
            table.gauges.bytes = count(bytes);
            table.gauges.toast_bytes = count(toast);
        } else if let Some(index) = facts.indexes.iter_mut().find(|index| index.oid == oid) {
            index.bytes = count(bytes);
        }
    }
}
