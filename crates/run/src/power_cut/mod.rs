//! Cutting the power of an embedded server under load, and auditing what it had acknowledged.

mod crash_audit;
mod ledger;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use walwright_server::{
    Client, Cluster, ClusterError, ClusterSpec, Places, PowerCut, Stop, check_settings,
    connect_for_workload,
};

pub use crash_audit::CrashAudit;
use ledger::Ledger;

use crate::run::{blocking, failed};
use crate::{Observer, Progress, RunError, install, with_connections};

/// Checkpoints while the load runs, at even distances: recovery then begins at one of them.
const CHECKPOINTS: u32 = 2;

/// A power cut, and the server it comes to.
#[derive(Debug, Clone)]
pub struct PowerCutPlan {
    /// Major version of the PostgreSQL to fetch and start.
    pub major: String,
    /// Directory of PostgreSQL binaries to use instead.
    pub pg_bin: Option<PathBuf>,
    /// Settings of the server.
    pub settings: Vec<(String, String)>,
    /// Least time of every flush.
    pub flush_latency: Option<Duration>,
    /// Clients that commit.
    pub clients: u32,
    /// Length of the load before the cut.
    pub after: Duration,
    /// What it takes.
    pub cut: PowerCut,
}

/// Makes a fresh cluster, loads it, cuts its power, has it recover and looks for every commit
/// that was acknowledged.
///
/// # Errors
/// When the server cannot be made, started or loaded, its disk cannot be put back, or `stop`
/// is requested. A server that does not recover is a result.
pub async fn cut_power(
    plan: PowerCutPlan,
    stop: &Stop,
    observer: &Observer,
) -> Result<CrashAudit, RunError> {
    let told = |step: &str| observer.event(Progress::Step(step));
    let places = Places::open(None)?;
    let install = install(&places, &plan.major, plan.pg_bin.as_deref(), observer)?;
    told("making a cluster whose power can be cut");
    let audited = async {
        let (clients, after, cut) = (plan.clients, plan.after, plan.cut);
        let cluster = blocking(move || -> Result<Cluster, RunError> {
            let mut spec = ClusterSpec::new(&places, install);
            spec.settings = with_connections(&plan.settings, plan.clients);
            check_settings(&spec.install, &spec.settings)?;
            spec.flush_latency = plan.flush_latency;
            walwright_server::sweep(&places)?;
            Ok(Cluster::create(spec)?)
        })
        .await??;
        audit(cluster, clients, after, cut, &told).await
    };
    tokio::select! {
        audit = audited => audit,
        () = stop.requested() => Err(RunError::Stopped),
    }
}

/// The same of a fresh cluster; `told` what is being done.
///
/// # Errors
/// See [`cut_power`].
pub async fn audit(
    cluster: Cluster,
    clients: u32,
    after: Duration,
    cut: PowerCut,
    told: &(dyn Fn(&str) + Sync),
) -> Result<CrashAudit, RunError> {
    let started = cluster.clone();
    let server = blocking(move || started.start_watched()).await??;
    let control = connect_for_workload(&server.connect_params("postgres")).await?;
    let begun = Instant::now();
    let mut ledger = Ledger::begin(&server, clients).await?;
    told(&format!("{clients} clients commit for {:.0} s", after.as_secs_f64()));
    let mut from = None;
    for passed in 0..=CHECKPOINTS {
        if passed > 0 {
            let done = control.batch_execute("CHECKPOINT").await;
            done.map_err(failed("a checkpoint under load"))?;
            from = position(&control).await?;
        }
        tokio::time::sleep(after / (CHECKPOINTS + 1)).await;
        ledger.all_commit().await?;
    }
    let to = position(&control).await?;
    told("cutting the power");
    let seconds = begun.elapsed().as_secs_f64();
    let unflushed = blocking(move || server.cut_power(cut)).await??;
    drop(control);
    let acknowledged = ledger.acknowledged().await;
    told("recovering, and looking for what was acknowledged");
    let mut audit = CrashAudit {
        acknowledged: acknowledged.iter().map(|n| n.unsigned_abs()).sum(),
        lost: 0,
        checkpoints: CHECKPOINTS,
        recovery_seconds: None,
        unrecovered: None,
        replayed_bytes: from.zip(to).map(|(from, to)| to - from),
        unflushed: Some(unflushed),
        seconds,
    };
    if let Err(reason) = recover(cluster, &acknowledged, &mut audit).await? {
        audit.lost = audit.acknowledged;
        audit.unrecovered = Some(reason);
    }
    Ok(audit)
}

/// Starts the server again and counts what is lost; gives the reason where that cannot be.
async fn recover(
    cluster: Cluster,
    acknowledged: &[i64],
    audit: &mut CrashAudit,
) -> Result<Result<(), String>, RunError> {
    let begun = Instant::now();
    let server = match blocking(move || cluster.start()).await? {
        Ok(server) => server,
        Err(error @ (ClusterError::StartFailed { .. } | ClusterError::StartTimeout { .. })) => {
            return Ok(Err(error.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    audit.recovery_seconds = Some(begun.elapsed().as_secs_f64());
    let client = match connect_for_workload(&server.connect_params("postgres")).await {
        Ok(client) => client,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let lost = ledger::lost(&client, acknowledged).await;
    drop(client);
    blocking(move || server.stop_immediately()).await??;
    Ok(lost.map(|lost| audit.lost = lost).map_err(|error| error.to_string()))
}

async fn position(control: &Client) -> Result<Option<i64>, RunError> {
    let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
    let row = control.query_one(sql, &[]).await;
    row.and_then(|row| row.get(0)).map_err(failed("reading the WAL position"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    async fn audited(settings: &[(&str, &str)], cut: PowerCut) -> CrashAudit {
        let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let plan = PowerCutPlan {
            major: "18".to_owned(),
            pg_bin: None,
            settings: settings.collect(),
            flush_latency: None,
            clients: 4,
            after: Duration::from_millis(1_200),
            cut,
        };
        cut_power(plan, &Stop::default(), &Silent).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_acknowledged_commit_survives_unless_commits_do_not_wait() {
        for cut in [PowerCut::All, PowerCut::Random { seed: 7 }] {
            let safe = audited(&[], cut).await;
            assert!(safe.acknowledged > 0 && safe.checkpoints == CHECKPOINTS, "{safe:?}");
            assert!(safe.unflushed.is_some_and(|unflushed| unflushed.pages_lost > 0), "{safe:?}");
            assert_eq!((safe.lost, &safe.unrecovered), (0, &None), "{safe:?}");
        }
        // The audit must be able to see a loss: here two are certain.
        let late = [("synchronous_commit", "off"), ("wal_writer_delay", "10s")];
        let asynchronous = audited(&late, PowerCut::All).await;
        assert!(asynchronous.lost > 0, "{asynchronous:?}");
        // A killed process loses nothing of what it wrote; a power cut does.
        let unflushed = audited(&[("fsync", "off")], PowerCut::All).await;
        assert!(unflushed.lost > 0 && unflushed.lost == unflushed.acknowledged, "{unflushed:?}");
    }
}
