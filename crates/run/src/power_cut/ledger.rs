//! A load whose every acknowledged commit can be looked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio::task::JoinHandle;
use walwright_server::{Client, QueryError, Row, RunningCluster, connect_for_workload};

use crate::RunError;
use crate::run::failed;

/// Rows of the table that the clients update, so that recovery has pages to replay.
const ROWS: i64 = 20_000;
/// SQLSTATE of a table that is not there.
const NO_TABLE: &str = "42P01";

/// Clients that commit number after number.
pub(super) struct Ledger {
    stop: Arc<AtomicBool>,
    clients: Vec<Committing>,
}

/// A client at work.
struct Committing {
    /// The last number it was told is committed.
    acknowledged: Arc<AtomicI64>,
    task: JoinHandle<Result<(), QueryError>>,
}

impl Ledger {
    /// Makes the tables and lets the clients loose.
    pub async fn begin(server: &RunningCluster, clients: u32) -> Result<Self, RunError> {
        let params = server.connect_params("postgres");
        let control = connect_for_workload(&params).await?;
        let sql = format!(
            "CREATE TABLE audit (client bigint, number bigint, PRIMARY KEY (client, number));
             CREATE TABLE page (id bigint PRIMARY KEY, filler text);
             INSERT INTO page SELECT id, repeat('x', 200) FROM generate_series(1, {ROWS}) AS id"
        );
        let made = control.batch_execute(&sql).await;
        made.map_err(failed("creating the tables of the audit"))?;
        let mut ledger = Self { stop: Arc::default(), clients: Vec::new() };
        for client in 0..i64::from(clients) {
            let session = connect_for_workload(&params).await?;
            let acknowledged = Arc::new(AtomicI64::new(0));
            let (count, stop) = (Arc::clone(&acknowledged), Arc::clone(&ledger.stop));
            let task = tokio::spawn(async move { commit(&session, client, &count, &stop).await });
            ledger.clients.push(Committing { acknowledged, task });
        }
        Ok(ledger)
    }

    /// Fails where a client has ended before the power is cut, which it should not.
    pub async fn all_commit(&mut self) -> Result<(), RunError> {
        let ended = self.clients.iter_mut().find(|client| client.task.is_finished());
        let Some(client) = ended else { return Ok(()) };
        match (&mut client.task).await {
            Ok(Err(error)) => Err(failed("a commit of the audit")(error)),
            _ => Err(RunError::Internal("a client of the audit")),
        }
    }

    /// The last number that each client was told is committed; waits for their ends, which
    /// come with that of the server.
    pub async fn acknowledged(self) -> Vec<i64> {
        self.stop.store(true, Ordering::Release);
        let mut acknowledged = Vec::new();
        for Committing { acknowledged: count, task } in self.clients {
            let _ = task.await;
            acknowledged.push(count.load(Ordering::Acquire));
        }
        acknowledged
    }
}

/// A transaction that dirties a page and appends the next number; the number counts once its
/// commit is acknowledged.
async fn commit(
    session: &Client,
    client: i64,
    acknowledged: &AtomicI64,
    stop: &AtomicBool,
) -> Result<(), QueryError> {
    let touch = session.prepare("UPDATE page SET filler = md5($1::text) WHERE id = $2").await?;
    let append = session.prepare("INSERT INTO audit VALUES ($1, $2)").await?;
    let mut number: i64 = 0;
    while !stop.load(Ordering::Acquire) {
        number += 1;
        // Spread over the table: a stride that is coprime with its rows.
        let id = (client * 2_503 + number * 7_919) % ROWS + 1;
        let text = number.to_string();
        session.batch_execute("BEGIN").await?;
        done(session.query_prepared(&[(&touch, &[&text, &id])]).await?)?;
        done(session.query_prepared(&[(&append, &[&client, &number])]).await?)?;
        session.batch_execute("COMMIT").await?;
        acknowledged.store(number, Ordering::Release);
    }
    Ok(())
}

/// Whether all that was asked was done.
fn done(answers: Vec<Result<Vec<Row>, QueryError>>) -> Result<(), QueryError> {
    answers.into_iter().try_for_each(|answer| answer.map(drop))
}

/// How many of the acknowledged numbers are not there.
pub(super) async fn lost(client: &Client, acknowledged: &[i64]) -> Result<u64, QueryError> {
    let mut lost = 0;
    for (index, last) in (0_i64..).zip(acknowledged) {
        let sql = "SELECT count(*) FROM audit WHERE client = $1 AND number <= $2";
        let there: i64 = match client.query_one(sql, &[&index, last]).await {
            Ok(row) => row.get(0)?,
            // It was made after what the power cut left.
            Err(error) if is_without_table(&error) => 0,
            Err(error) => return Err(error),
        };
        lost += (last - there).unsigned_abs();
    }
    Ok(lost)
}

fn is_without_table(error: &QueryError) -> bool {
    error.as_db_error().is_some_and(|said| said.code().code() == NO_TABLE)
}
