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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::plan;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_power_is_cut_also_where_io_uring_won() {
        let plan = TunePlan { window: walwright_experiment::Length(Duration::ZERO), ..plan() };
        let settings = vec![("io_method".to_owned(), "io_uring".to_owned())];
        let audit = crash(&plan, settings).await.unwrap();
        assert!(audit.acknowledged > 0 && audit.lost == 0, "{audit:?}");
        assert!(audit.unflushed.is_some_and(|unflushed| unflushed.pages_lost > 0), "{audit:?}");
    }
}
