//! Since when the server's processes run: whether it restarted, or recovered from a crash.

use std::time::Duration;

use walwright_record::Timestamp;
use walwright_server::{Client, QueryError, Row};

use crate::ProbeError;

/// After the crash of one of its processes a server ends all others and starts them anew,
/// while the postmaster, and so its start time, stays. The checkpointer runs from the
/// start, or the recovery, to the end; this role may not see it without `pg_monitor`.
const STARTED: &str = "
/* walwright probe */ SELECT
    extract(epoch FROM pg_catalog.pg_postmaster_start_time())::text,
    extract(epoch FROM pg_catalog.clock_timestamp()
                       - pg_catalog.pg_postmaster_start_time())::float8,
    extract(epoch FROM min(backend_start))::text,
    extract(epoch FROM pg_catalog.clock_timestamp() - min(backend_start))::float8
FROM pg_catalog.pg_stat_get_activity(NULL)
WHERE backend_type = 'checkpointer'";

/// When a server's processes started.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerStart {
    postmaster: Started,
    /// `None` where this role may not see it.
    checkpointer: Option<Started>,
}

/// When one process started, by the server's clock and by ours.
#[derive(Debug, Clone, PartialEq)]
struct Started {
    by_server: String,
    by_us: Timestamp,
}

/// What became of a server between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// It was stopped and started, or another server answers in its place.
    Restarted,
    /// One of its processes crashed, and it recovered.
    Recovered,
}

impl ServerStart {
    /// What has happened to the server since `before`, and when, by our clock; `None`
    /// where it runs as it did.
    pub fn since(&self, before: &ServerStart) -> Option<(Restart, Timestamp)> {
        let differs = |now: &Started, then: &Started| now.by_server != then.by_server;
        if differs(&self.postmaster, &before.postmaster) {
            return Some((Restart::Restarted, self.postmaster.by_us));
        }
        let (now, then) = self.checkpointer.as_ref().zip(before.checkpointer.as_ref())?;
        differs(now, then).then_some((Restart::Recovered, now.by_us))
    }

    /// Whether a crash that the server recovers from shows in it.
    pub fn shows_crashes(&self) -> bool {
        self.checkpointer.is_some()
    }
}

/// Reads when the server behind `client` started.
///
/// # Errors
/// When it does not answer.
pub async fn server_start(client: &Client) -> Result<ServerStart, ProbeError> {
    let wrong = |source| ProbeError::Query { what: "when it started", source };
    let row = client.query_one(STARTED, &[]).await.map_err(wrong)?;
    read(&row, Timestamp::now()).map_err(wrong)
}

fn read(row: &Row, now: Timestamp) -> Result<ServerStart, QueryError> {
    let started = |by_server: String, age: f64| {
        let age = Duration::try_from_secs_f64(age).unwrap_or_default();
        let micros = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        Started { by_server, by_us: Timestamp(now.0.saturating_sub(micros)) }
    };
    let checkpointer = row.get::<Option<String>>(2)?.zip(row.get::<Option<f64>>(3)?);
    Ok(ServerStart {
        postmaster: started(row.get(0)?, row.get(1)?),
        checkpointer: checkpointer.map(|(by_server, age)| started(by_server, age)),
    })
}
