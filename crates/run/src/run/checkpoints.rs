//! Checkpoints that a measured window is to hold, so that no configuration looks good by
//! moving their cost past the end of it.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use walwright_record::Event;
use walwright_server::{Client, QueryError};

use super::context::Context;
use super::target::Target;

/// Where the last checkpoint began: another one for each that completes (pg_controldata's
/// "Latest checkpoint location").
const LATEST: &str = "SELECT checkpoint_lsn::text FROM pg_control_checkpoint()";

/// What is left of a window for the last of its checkpoints to complete: a sixth of it,
const REST: f64 = 1.0 / 6.0;
/// or of a short one so much, but no more than half of it.
const LEAST_REST: Duration = Duration::from_secs(5);

/// Sees to the checkpoints that the load of this run is to hold, once its window has begun.
/// Goes on for ever, so that the load ends it.
///
/// The first is requested as the window begins and the last near its end, so that it holds one
/// whole cycle as long as it can be: the page images after a checkpoint and the writes of the
/// next. Those after the first are requested only where the server completed none since the one
/// before. A role that may not request them is told of once; what completes by itself is counted
/// elsewhere.
pub(super) async fn hold(context: &Context, target: &Target, measuring: &Notify) -> Infallible {
    let wanted = context.plan.load.checkpoints;
    if wanted > 0 {
        let params = target.params.clone().with_application_name("walwright checkpoints");
        let window = context.plan.load.duration;
        let seen_to = async {
            let client = walwright_server::connect_without_limit(&params).await;
            let client = client.map_err(|e| e.to_string())?;
            measuring.notified().await;
            let told = |after| context.notes.event(Event::CHECKPOINT_REQUEST, text(after));
            see_to(&client, due(wanted, window), told).await.map_err(|e| e.to_string())
        };
        if let Err(error) = seen_to.await {
            let text = format!("a checkpoint could not be requested: {error}");
            context.notes.event("checkpoint_failure", text);
        }
    }
    std::future::pending().await
}

/// When so many checkpoints of a window are due, from its beginning.
fn due(wanted: u32, window: Duration) -> impl Iterator<Item = Duration> {
    let parts = wanted.saturating_sub(1).max(1);
    let rest = window.mul_f64(REST).max(LEAST_REST).min(window / 2);
    (0..wanted).map(move |number| (window - rest) * number / parts)
}

/// That one is requested, so long after a window began.
fn text(after: Duration) -> String {
    match after.is_zero() {
        true => "checkpoint requested: the window begins with one".to_owned(),
        false => format!(
            "checkpoint requested: the server completed none since the one before, up to {after:.1?} of the window"
        ),
    }
}

/// Requests the first that is due, and each other that did not complete by itself; tells of each
/// that it requested.
async fn see_to(
    client: &Client,
    due: impl Iterator<Item = Duration>,
    mut told: impl FnMut(Duration),
) -> Result<(), QueryError> {
    let begun = Instant::now();
    let mut last = None;
    for after in due {
        tokio::time::sleep_until(begun + after).await;
        if let Some(last) = &mut last
            && completed_since(client, last).await?
        {
            continue;
        }
        client.batch_execute("CHECKPOINT").await?;
        last = Some(latest(client).await?);
        told(after);
    }
    Ok(())
}

/// Whether a checkpoint completed after `last`, which becomes the latest.
async fn completed_since(client: &Client, last: &mut String) -> Result<bool, QueryError> {
    let latest = latest(client).await?;
    Ok(std::mem::replace(last, latest.clone()) != latest)
}

async fn latest(client: &Client) -> Result<String, QueryError> {
    client.query_one(LATEST, &[]).await?.get(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use walwright_server::{Cluster, ClusterSpec, Installs, Major, Places};

    #[test]
    fn a_window_begins_with_one_and_the_last_has_time_to_complete() {
        let seconds = |wanted| {
            let all = due(wanted, Duration::from_secs(60));
            all.map(|after| after.as_secs_f64().round() as u64).collect::<Vec<_>>()
        };
        assert_eq!(seconds(2), [0, 50]);
        assert_eq!(seconds(3), [0, 25, 50]);
        assert_eq!((seconds(1), seconds(0)), (vec![0], vec![]));
        let last = |window| due(2, Duration::from_secs(window)).last().unwrap().as_secs();
        assert_eq!([6, 20, 30].map(last), [3, 15, 25]);
    }

    #[test]
    fn a_window_begins_with_one_and_gets_more_where_the_server_completes_none() {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let places = Places::open(Some(place.path().join("cache"))).unwrap();
        for major in [Major::V14, Major::V18] {
            let install = Installs::open(None).unwrap().ensure(major, &mut |_| {}).unwrap();
            let server = Cluster::create(ClusterSpec::new(&places, install)).unwrap();
            let server = server.start().unwrap();
            tokio::runtime::Runtime::new().unwrap().block_on(async {
                let params = server.connect_params("postgres");
                let client = walwright_server::connect_for_workload(&params).await.unwrap();
                let checkpoint = async || client.batch_execute("CHECKPOINT").await.unwrap();
                checkpoint().await;
                let before = latest(&client).await.unwrap();
                let mut requested = Vec::new();
                let due = [0, 1, 2].map(Duration::from_millis);
                see_to(&client, due.into_iter(), |after| requested.push(after)).await.unwrap();
                assert_eq!(requested, due, "the server completed none by itself");

                // Before the second is due another one completes.
                let (first, mut requested) = tokio::sync::mpsc::unbounded_channel();
                let (completes, completed) = std::sync::mpsc::channel();
                let other = walwright_server::connect_for_workload(&params).await.unwrap();
                tokio::spawn(async move {
                    requested.recv().await.unwrap();
                    other.batch_execute("CHECKPOINT").await.unwrap();
                    completes.send(()).unwrap();
                });
                let second = std::iter::once_with(|| {
                    completed.recv().unwrap();
                    Duration::from_millis(1)
                });
                let due = std::iter::once(Duration::ZERO).chain(second);
                let mut told = Vec::new();
                let tell = |after| {
                    told.push(after);
                    first.send(()).unwrap();
                };
                see_to(&client, due, tell).await.unwrap();
                assert_eq!(told, [Duration::ZERO]);

                let mut last = before;
                assert!(completed_since(&client, &mut last).await.unwrap(), "those since");
                assert!(!completed_since(&client, &mut last).await.unwrap(), "none since");
            });
            server.stop().unwrap();
        }
    }
}
