//! Cutting the power of the winner's server under load, and auditing what it had acknowledged.

use std::time::Duration;

use walwright_run::CrashAudit;
use walwright_server::PowerCut;

use super::embedded::{aside, create};
use super::{TuneError, TunePlan};

/// Clients that commit.
const CLIENTS: u32 = 8;
/// Least length of the load, which has two checkpoints.
const SHORTEST: Duration = Duration::from_secs(6);
/// Longest such length.
const LONGEST: Duration = Duration::from_secs(60);

/// Makes a fresh cluster with these settings, loads it for three windows, cuts its power, and
/// looks for what was acknowledged.
pub(super) async fn crash(
    plan: &TunePlan,
    mut settings: Vec<(String, String)>,
) -> Result<CrashAudit, TuneError> {
    for (_, value) in settings.iter_mut().filter(|(name, _)| name == "io_method") {
        // It reads only, and the library that remembers writes takes no chance.
        if value == "io_uring" {
            *value = "worker".to_owned();
        }
    }
    let owned = plan.clone();
    let cluster = aside(move || create(&owned, settings)).await?;
    let length = (plan.window.0 * 3).clamp(SHORTEST, LONGEST);
    Ok(walwright_run::audit(cluster, CLIENTS, length, PowerCut::All, &|_| {}).await?)
}
