//! A cluster that runs start from one after another: made and filled once, at rest,
//! restored to the same bytes before each run.

use std::sync::Arc;
use std::time::Duration;

use walwright_record::{TargetKind, Warning};
use walwright_server::{Cluster, Snapshot};

use super::load_data;
use super::target::{Embedded, Target};
use super::{RunError, RunPlan, blocking};
use crate::{Observer, Progress, Stop};

/// Name of the snapshot inside the cluster's directory: it goes with the cluster, also
/// when walwright is killed.
const SNAPSHOT: &str = "prepared";

/// A filled cluster at rest. Clones are the same one, and only one run at a time can use
/// it; the last clone to go removes it.
#[derive(Debug, Clone)]
pub struct PreparedCluster {
    cluster: Cluster,
    snapshot: Snapshot,
    facts: Arc<Facts>,
}

/// What every run from it says of its target.
#[derive(Debug)]
struct Facts {
    address: String,
    install: Option<String>,
    flush_latency: Option<Duration>,
    warnings: Vec<Warning>,
}

/// Makes the embedded cluster of a plan, fills it with the workload's data, and brings it
/// to rest. It allows the connections of `clients`.
///
/// # Errors
/// What keeps a run from beginning, and a snapshot that cannot be taken.
pub async fn prepare(
    plan: &RunPlan,
    clients: u32,
    stop: &Stop,
    observer: Arc<dyn Observer>,
) -> Result<PreparedCluster, RunError> {
    plan.check()?;
    let workload = plan.workload()?;
    let job = plan.job(&workload)?;
    let filled = async {
        let (target, watcher) = (plan.target.clone(), Arc::clone(&observer));
        let target =
            blocking(move || Target::prepare(&target, clients, watcher.as_ref())).await??;
        let client = walwright_server::connect(&target.params).await?;
        load_data::load(&job, &target.params, plan.load_jobs, observer.as_ref()).await?;
        load_data::checkpoint(&client).await?;
        Ok::<Target, RunError>(target)
    };
    let target = tokio::select! {
        filled = filled => filled?,
        () = stop.requested() => return Err(RunError::Stopped),
    };
    observer.notice(Progress::Step("keeping a copy of the data that every run starts from"));
    blocking(move || target.come_to_rest()).await?
}

impl PreparedCluster {
    /// What records call the server.
    pub fn address(&self) -> &str {
        &self.facts.address
    }
}

impl Target {
    /// Shuts an embedded server down in order and keeps its data for other runs. Blocks.
    fn come_to_rest(self) -> Result<PreparedCluster, RunError> {
        let Some(Embedded { server, .. }) = self.embedded else {
            return Err(RunError::Internal("preparing a server that is not ours"));
        };
        let cluster = server.cluster().clone();
        server.stop()?;
        let (snapshot, _) = Snapshot::take(&cluster, &cluster.dir().join(SNAPSHOT))?;
        let facts = Facts {
            address: self.address,
            install: self.install,
            flush_latency: self.flush_latency,
            warnings: self.warnings,
        };
        Ok(PreparedCluster { cluster, snapshot, facts: Arc::new(facts) })
    }

    /// Restores a prepared cluster and starts it. Blocks.
    pub(super) fn restored(
        from: &PreparedCluster,
        observer: &dyn Observer,
    ) -> Result<Target, RunError> {
        observer.notice(Progress::Step("restoring the data"));
        from.snapshot.restore(&from.cluster)?;
        let server = from.cluster.start()?;
        Ok(Target {
            kind: TargetKind::Embedded,
            address: from.facts.address.clone(),
            params: server
                .tcp_connect_params("postgres")
                .unwrap_or_else(|| server.connect_params("postgres")),
            warnings: from.facts.warnings.clone(),
            install: from.facts.install.clone(),
            flush_latency: from.facts.flush_latency,
            embedded: Some(Embedded { server, keep: false }),
        })
    }
}
