//! Creating the workload's tables and filling them.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::SinkExt;
use tokio_postgres::CopyInSink;
use walwright_server::{Client, ConnectParams, QueryError};
use walwright_workload::Plan;
use walwright_workload::generate::{Chunk, TableLoad};
use walwright_workload::workload::SqlStep;

use super::error::failed;
use super::statements::Statements;
use super::{RunError, tables};
use crate::{Observer, Progress};

/// Bytes of COPY text sent at once.
const COPY_BYTES: usize = 256 * 1024;
/// Comment on a table that is not yet filled.
pub(super) const UNFINISHED: &str = "walwright has not filled this table to its end";
/// Comment on a table that is.
pub(super) const FILLED: &str = "walwright made and filled this table, and --init replaces it";
/// Connections that copy, at most, unless told otherwise.
const MOST_JOBS: usize = 8;

/// Creates the schema, copies the rows in over `jobs` connections and builds keys
/// and indexes.
pub(super) async fn load(
    plan: &Plan,
    statements: &Statements,
    jobs: Option<usize>,
    observer: &Observer,
) -> Result<(), RunError> {
    let client = statements.connect().await?;
    steps(&client, &plan.before_load).await?;
    mark(plan, &client, UNFINISHED).await?;
    let copied = Copied { rows: AtomicU64::new(0), total: plan.total_rows(), observer };
    observer.event(Progress::Step("copying rows"));
    match jobs.unwrap_or_else(default_jobs) {
        0 | 1 if !partitioned(plan, &client).await? => copy_frozen(plan, &client, &copied).await?,
        jobs => copy_parallel(plan, statements, &client, jobs.max(1), &copied).await?,
    }
    observer.event(Progress::Step("vacuum, keys and indexes"));
    steps(&client, &plan.after_load).await?;
    mark(plan, &client, FILLED).await
}

/// The same on an attached server, where no table goes that walwright did not make and that
/// `replace` does not name.
pub(super) async fn load_attached(
    plan: &Plan,
    statements: &Statements,
    replace: &[String],
    jobs: Option<usize>,
    observer: &Observer,
) -> Result<(), RunError> {
    let own = walwright_server::connect(statements.params()).await?;
    let names = statements.connect().await?;
    tables::may_be_replaced(&tables::found(plan, &own, &names).await?, replace)?;
    drop((own, names));
    load(plan, statements, jobs, observer).await
}

/// Comments on the workload's tables, so that whoever finds them knows who made them and
/// whether they were filled to their end, whatever happened meanwhile.
async fn mark(plan: &Plan, client: &Client, comment: &str) -> Result<(), RunError> {
    for table in &plan.tables {
        let sql = format!("COMMENT ON TABLE {} IS '{comment}'", table.table());
        client.batch_execute(&sql).await.map_err(failed(&sql))?;
    }
    Ok(())
}

/// Lets the measured window pay for its own writes and not for those of the load. On
/// an attached server a checkpoint is theirs to ask for.
pub(super) async fn checkpoint(params: &ConnectParams) -> Result<(), RunError> {
    let client = walwright_server::connect_without_limit(params).await?;
    client.batch_execute("CHECKPOINT").await.map_err(failed("CHECKPOINT"))
}

/// Half the processors: each connection also has a server process.
fn default_jobs() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).clamp(1, MOST_JOBS)
}

/// Changes data that were restored, statement by statement.
pub(super) async fn change(changes: &[String], client: &Client) -> Result<(), RunError> {
    for sql in changes {
        client.batch_execute(sql).await.map_err(failed(sql))?;
    }
    Ok(())
}

/// What the workload wants done before every run.
pub(super) async fn before_run(plan: &Plan, client: &Client) -> Result<(), RunError> {
    steps(client, &plan.before_run).await
}

async fn steps(client: &Client, steps: &[SqlStep]) -> Result<(), RunError> {
    for step in steps {
        client
            .batch_execute(&step.sql)
            .await
            .map_err(|error| failed(&format!("{}:{}", step.file, step.line))(error))?;
    }
    Ok(())
}

/// Whether one of the tables is partitioned: rows in it cannot be frozen as they are copied.
async fn partitioned(plan: &Plan, client: &Client) -> Result<bool, RunError> {
    let sql = "SELECT relkind::text FROM pg_catalog.pg_class
                WHERE oid OPERATOR(pg_catalog.=) $1::text::regclass";
    for table in &plan.tables {
        let row = client.query_one(sql, &[&table.table()]).await.map_err(failed(sql))?;
        let kind: String = row.get(0).map_err(failed(sql))?;
        if kind == "p" {
            return Ok(true);
        }
    }
    Ok(false)
}

/// How far the copying is.
struct Copied<'a> {
    rows: AtomicU64,
    total: u64,
    observer: &'a Observer,
}

impl Copied<'_> {
    fn add(&self, rows: u64) {
        let done = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        self.observer.event(Progress::Rows { done, total: self.total });
    }
}

/// Fills all tables in one transaction after a TRUNCATE, as pgbench does, so that
/// COPY may freeze the rows it writes: the state of the pages, and with it the WAL
/// of the first updates, is then the same as after `pgbench -i`.
async fn copy_frozen(plan: &Plan, client: &Client, copied: &Copied<'_>) -> Result<(), RunError> {
    let Some(truncate) = plan.truncate_statement() else { return Ok(()) };
    // Where a step fails the session goes, and the transaction with it.
    client.begin("BEGIN").await.map_err(failed("BEGIN"))?;
    client.batch_execute(&truncate).await.map_err(failed(&truncate))?;
    for table in &plan.tables {
        for chunk in table.chunks(1) {
            let sink = client.copy_in(&table.copy_statement(true)).await;
            copy_chunk(client, sink, table, chunk, copied).await?;
        }
    }
    client.end("COMMIT").await.map_err(failed("COMMIT"))
}

/// Fills tables over several connections. None of them may freeze what it copies,
/// so a VACUUM does it afterwards.
async fn copy_parallel(
    plan: &Plan,
    statements: &Statements,
    client: &Client,
    jobs: usize,
    copied: &Copied<'_>,
) -> Result<(), RunError> {
    let Some(truncate) = plan.truncate_statement() else { return Ok(()) };
    client.batch_execute(&truncate).await.map_err(failed(&truncate))?;
    let mut connections = Vec::with_capacity(jobs);
    for _ in 0..jobs {
        connections.push(statements.connect().await?);
    }
    for table in &plan.tables {
        let copy = table.copy_statement(false);
        let chunks = connections.iter().zip(table.chunks(jobs)).map(async |(connection, chunk)| {
            copy_chunk(connection, connection.copy_in(&copy).await, table, chunk, copied).await
        });
        futures_util::future::try_join_all(chunks).await?;
        let vacuum = format!("VACUUM (FREEZE) {}", table.table());
        client.batch_execute(&vacuum).await.map_err(failed(&vacuum))?;
    }
    Ok(())
}

async fn copy_chunk(
    client: &Client,
    sink: Result<CopyInSink<Bytes>, QueryError>,
    table: &TableLoad,
    mut chunk: Chunk,
    copied: &Copied<'_>,
) -> Result<(), RunError> {
    let what = format!("COPY into {}", table.table());
    let mut sink = pin!(sink.map_err(failed(&what))?);
    loop {
        let mut buffer = Vec::with_capacity(COPY_BYTES + 4096);
        let rows = chunk.fill(&mut buffer, COPY_BYTES)?;
        if rows == 0 {
            break;
        }
        let sent = sink.send(buffer.into()).await;
        sent.map_err(|error| failed(&what)(client.explained(&error)))?;
        copied.add(rows);
    }
    let finished = sink.finish().await;
    finished.map_err(|error| failed(&what)(client.explained(&error)))?;
    Ok(())
}
