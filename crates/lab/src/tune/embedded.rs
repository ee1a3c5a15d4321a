//! A cluster of ours outside of a measurement: for the probe and the crash.

use std::str::FromStr;

use walwright_server::{Cluster, ClusterSpec, Install, Installs, Major, Places, RunningCluster};

use super::{TuneError, TunePlan};
use crate::RunError;

/// A fresh cluster with these settings, started. Blocks.
pub(super) fn start(
    plan: &TunePlan,
    settings: Vec<(String, String)>,
) -> Result<RunningCluster, TuneError> {
    let cluster = create(plan, settings)?;
    Ok(cluster.start()?)
}

/// A fresh cluster with these settings. Blocks.
pub(super) fn create(
    plan: &TunePlan,
    settings: Vec<(String, String)>,
) -> Result<Cluster, TuneError> {
    let places = Places::open(None).map_err(RunError::from)?;
    let (major, pg_bin) = plan.install();
    let install = match pg_bin {
        Some(directory) => Install::from_bin_dir(&directory).map_err(RunError::from)?,
        None => {
            let major =
                Major::from_str(&major).map_err(|unknown| RunError::NoSuchMajor(unknown.0))?;
            Installs::within(places.clone()).ensure(major, &mut |_| {}).map_err(RunError::from)?
        }
    };
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
