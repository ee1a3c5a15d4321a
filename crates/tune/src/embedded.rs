//! Clusters of ours: their version, and one outside of a measurement, for the probe and the crash.

use std::str::FromStr;

use walwright_experiment::Postgres;
use walwright_run::{RunError, Silent, install};
use walwright_server::{Cluster, ClusterSpec, Install, Major, Places, RunningCluster};

use super::{TuneError, TunePlan};

/// The major version that is tuned: binaries of a person's own are run once to tell it. Blocks.
pub(super) fn major(plan: &TunePlan) -> Result<u32, TuneError> {
    let (major, pg_bin) = Postgres::parts(plan.postgres.clone());
    match pg_bin {
        Some(directory) => {
            let install = Install::from_bin_dir(&directory).map_err(RunError::from)?;
            Ok(install.version().major())
        }
        None => match Major::from_str(&major) {
            Ok(major) => Ok(major.number()),
            Err(unknown) => Err(RunError::NoSuchMajor(unknown.0).into()),
        },
    }
}

/// A fresh cluster with these settings, started. Blocks.
pub(super) fn start(
    plan: &TunePlan,
    settings: Vec<(String, String)>,
) -> Result<RunningCluster, TuneError> {
    Ok(create(plan, settings)?.start()?)
}

/// A fresh cluster with these settings. Blocks.
pub(super) fn create(
    plan: &TunePlan,
    settings: Vec<(String, String)>,
) -> Result<Cluster, TuneError> {
    let places = Places::open(None).map_err(RunError::from)?;
    let (major, pg_bin) = Postgres::parts(plan.postgres.clone());
    let install = install(&places, &major, pg_bin.as_deref(), &Silent)?;
    let mut spec = ClusterSpec::new(&places, install);
    spec.settings = settings;
    spec.flush_latency = plan.flush_latency.map(|least| least.0);
    Ok(Cluster::create(spec)?)
}

/// Runs blocking work aside.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TuneError> + Send + 'static,
) -> Result<T, TuneError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or(Err(TuneError::Run(RunError::Internal("work beside a tune"))))
}
