//! Killing the winner's server under load, and auditing what it had acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use walwright_server::{Client, Cluster, QueryError, Row, RunningCluster};

use super::embedded::{aside, create};
use super::{CrashAudit, TuneError, TunePlan};

/// Sessions that write and count what was acknowledged.
const WRITERS: usize = 8;
/// Rows of the table that the writers update, so that recovery has pages to replay.
const ROWS: i64 = 20_000;
/// Checkpoints while they write: recovery then begins at one of a running load.
const CHECKPOINTS: u32 = 2;
/// Least time before each checkpoint and before the kill.
const STRETCH: Duration = Duration::from_secs(2);
/// Longest such time.
const LONGEST: Duration = Duration::from_secs(20);

/// The stretch for windows of this length.
pub(super) fn stretch(plan: &TunePlan) -> Duration {
    plan.window.0.clamp(STRETCH, LONGEST)
}

/// Makes a fresh cluster with these settings, loads it, kills every process of its
/// server with SIGKILL, starts it again and looks for what was acknowledged.
///
/// `stretch` is the time before each checkpoint and before the kill.
pub(super) async fn crash(
    plan: &TunePlan,
    settings: Vec<(String, String)>,
    stretch: Duration,
) -> Result<CrashAudit, TuneError> {
    let owned = plan.clone();
    let cluster = aside(move || create(&owned, settings)).await?;
    let started = cluster.clone();
    let server = aside(move || Ok(started.start()?)).await?;
    let control =
        walwright_server::connect_for_workload(&server.connect_params("postgres")).await?;
    prepare(&control).await?;

    let begun = Instant::now();
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let client =
            walwright_server::connect_for_workload(&server.connect_params("postgres")).await?;
        let acknowledged = Arc::new(AtomicI64::new(0));
        let (count, stop) = (Arc::clone(&acknowledged), Arc::clone(&stop));
        let task = tokio::spawn(async move { write(&client, writer as i64, &count, &stop).await });
        writers.push((acknowledged, task));
    }
    let mut checkpoints = 0;
    for _ in 0..CHECKPOINTS {
        tokio::time::sleep(stretch).await;
        said(control.batch_execute("CHECKPOINT").await, "a checkpoint under load")?;
        checkpoints += 1;
    }
    let from: Option<i64> = position(&control).await?;
    tokio::time::sleep(stretch).await;
    let to = position(&control).await?;
    kill_all(&server);
    let seconds = begun.elapsed().as_secs_f64();
    stop.store(true, Ordering::Release);
    let mut acknowledged = Vec::new();
    for (count, task) in writers {
        // The task ends with its connection.
        let _ = task.await;
        acknowledged.push(count.load(Ordering::Acquire));
    }
    drop(control);
    aside(move || {
        drop(server);
        Ok(())
    })
    .await?;
    let (recovery, lost) = recover(&cluster, &acknowledged).await?;
    Ok(CrashAudit {
        acknowledged: acknowledged.iter().map(|n| n.unsigned_abs()).sum(),
        lost,
        checkpoints,
        recovery_seconds: recovery.as_secs_f64(),
        replayed_bytes: from.zip(to).map(|(from, to)| to - from),
        seconds,
    })
}

fn said<T>(result: Result<T, QueryError>, what: &'static str) -> Result<T, TuneError> {
    result.map_err(|source| TuneError::Sql { what, source })
}

async fn prepare(control: &Client) -> Result<(), TuneError> {
    let sql = format!(
        "CREATE TABLE audit (writer bigint, sequence bigint, PRIMARY KEY (writer, sequence));
         CREATE TABLE page (id bigint PRIMARY KEY, filler text);
         INSERT INTO page SELECT id, repeat('x', 200) FROM generate_series(1, {ROWS}) AS id"
    );
    said(control.batch_execute(&sql).await, "creating the tables of the crash test")
}

/// One writer: a transaction that dirties a page and appends the next number; the number
/// counts once its commit is acknowledged.
async fn write(client: &Client, writer: i64, acknowledged: &AtomicI64, stop: &AtomicBool) {
    let touch = client.prepare("UPDATE page SET filler = md5($1::text) WHERE id = $2").await;
    let append = client.prepare("INSERT INTO audit VALUES ($1, $2)").await;
    let (Ok(touch), Ok(append)) = (touch, append) else { return };
    let mut sequence: i64 = 0;
    while !stop.load(Ordering::Acquire) {
        sequence += 1;
        // Spread over the table: a stride that is coprime with its rows.
        let id = (writer * 2_503 + sequence * 7_919) % ROWS + 1;
        let text = sequence.to_string();
        let committed = async {
            client.batch_execute("BEGIN").await?;
            done(client.query_prepared(&[(&touch, &[&text, &id])]).await?)?;
            done(client.query_prepared(&[(&append, &[&writer, &sequence])]).await?)?;
            client.batch_execute("COMMIT").await
        };
        match committed.await {
            Ok(()) => acknowledged.store(sequence, Ordering::Release),
            Err(_) => return,
        }
    }
}

/// Whether all that was asked was done.
fn done(answers: Vec<Result<Vec<Row>, QueryError>>) -> Result<(), QueryError> {
    answers.into_iter().try_for_each(|answer| answer.map(drop))
}

async fn position(control: &Client) -> Result<Option<i64>, TuneError> {
    let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
    let row = control.query_one(sql, &[]).await;
    said(row.and_then(|row| row.get(0)), "reading the WAL position")
}

/// SIGKILL to the postmaster first, so that it cannot restart what dies, and to all its
/// children.
fn kill_all(server: &RunningCluster) {
    let postmaster = server.postmaster_pid();
    let listed = std::fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children"));
    let pids = std::iter::once(postmaster).chain(
        listed.iter().flat_map(|list| list.split_whitespace()).filter_map(|pid| pid.parse().ok()),
    );
    for pid in pids.filter_map(|pid| i32::try_from(pid).ok()) {
        // One that has ended already is as good.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// Starts the server again and counts the acknowledged numbers that are not there.
async fn recover(cluster: &Cluster, acknowledged: &[i64]) -> Result<(Duration, u64), TuneError> {
    let begun = Instant::now();
    let again = cluster.clone();
    let server = aside(move || Ok(again.start()?)).await?;
    let recovery = begun.elapsed();
    let client = walwright_server::connect_for_workload(&server.connect_params("postgres")).await?;
    let mut lost = 0;
    for (writer, last) in acknowledged.iter().enumerate() {
        let sql = "SELECT count(*) FROM audit WHERE writer = $1 AND sequence <= $2";
        let row = client.query_one(sql, &[&(writer as i64), last]).await;
        let there: i64 =
            said(row.and_then(|row| row.get(0)), "crash test: counting acknowledged commits")?;
        lost += (last - there).unsigned_abs();
    }
    drop(client);
    aside(move || Ok(server.stop_immediately()?)).await?;
    Ok((recovery, lost))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::plan;

    async fn audited(settings: &[(&str, &str)]) -> CrashAudit {
        let settings =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        crash(&plan(), settings.collect(), Duration::from_millis(400)).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_acknowledged_commit_survives_unless_commits_do_not_wait() {
        let safe = audited(&[]).await;
        assert!(safe.acknowledged > 0 && safe.checkpoints == CHECKPOINTS, "{safe:?}");
        assert_eq!(safe.lost, 0, "{safe:?}");
        // The audit must be able to see a loss: here one is certain.
        let asynchronous =
            audited(&[("synchronous_commit", "off"), ("wal_writer_delay", "10s")]).await;
        assert!(asynchronous.lost > 0, "{asynchronous:?}");
    }
}
