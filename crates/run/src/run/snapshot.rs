//! A workload's data at rest: loaded once, restored for every run.

use std::path::PathBuf;
use std::sync::Arc;

use walwright_server::{Cluster, ConnectParams, Snapshot, Stop};

use super::context::blocking;
use super::plan::{RunPlan, TargetPlan};
use super::statements::Statements;
use super::target::Target;
use super::{RunError, load_data};
use crate::Observer;

/// Settings the data are loaded with. They end with the load; what they leave is a
/// data directory with little WAL to copy.
const LOADING: [(&str, &str); 2] = [("max_wal_size", "256MB"), ("autovacuum", "off")];

/// Makes a cluster, loads the workload's data into it and keeps them in `directory`,
/// which must not exist.
///
/// # Errors
/// When a step fails or it is stopped; then there is no directory.
pub async fn snapshot(
    plan: &RunPlan,
    directory: PathBuf,
    stop: &Stop,
    observer: &Arc<Observer>,
) -> Result<Snapshot, RunError> {
    let cluster = filled(plan, stop, observer).await?;
    blocking(move || Ok(Snapshot::take(&cluster, &directory)?.0)).await?
}

/// Makes a cluster, loads the workload's data into it and brings it to rest. Version and
/// binaries are those of the plan's target, settings are PostgreSQL's own: what a run
/// changes is applied to the restored data.
///
/// # Errors
/// When a step fails or it is stopped.
pub async fn filled(
    plan: &RunPlan,
    stop: &Stop,
    observer: &Arc<Observer>,
) -> Result<Cluster, RunError> {
    let job = plan.job(&plan.workload()?)?;
    let TargetPlan::Embedded { major, pg_bin, .. } = &plan.target else {
        return Err(RunError::Internal("a snapshot of an attached server"));
    };
    let target = TargetPlan::Embedded {
        major: major.clone(),
        pg_bin: pg_bin.clone(),
        settings: LOADING.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        keep: false,
        tcp: false,
        flush_latency: None,
        processors: None,
        memory: None,
        restored: None,
    };
    let told = Arc::clone(observer);
    let target = blocking(move || Target::prepare(&target, 1, told.as_ref())).await??;
    let loaded = async {
        load_data::load(&job, target.statements(), plan.load_jobs, observer.as_ref()).await?;
        load_data::checkpoint(&target.params).await
    };
    tokio::select! {
        loaded = loaded => loaded?,
        () = stop.requested() => return Err(RunError::Stopped),
    }
    blocking(move || target.rest()?.ok_or(RunError::Internal("data at rest without a cluster")))
        .await?
}

/// Creates the workload's tables on an attached server and fills them, as a run with
/// `init` does.
///
/// # Errors
/// When a step fails or it is stopped.
pub async fn fill(
    plan: &RunPlan,
    params: &ConnectParams,
    replace: &[String],
    stop: &Stop,
    observer: &Arc<Observer>,
) -> Result<(), RunError> {
    let workload = plan.workload()?;
    let job = plan.job(&workload)?;
    let filled = async {
        let statements = Statements::on_attached(params, &workload.origin, &job).await?;
        let (jobs, observer) = (plan.load_jobs, observer.as_ref());
        load_data::load_attached(&job, &statements, replace, jobs, observer).await
    };
    tokio::select! {
        filled = filled => filled,
        () = stop.requested() => Err(RunError::Stopped),
    }
}
