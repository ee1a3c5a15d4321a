//! Sessions by state, who waits for whom, and commands in progress.

use std::collections::HashMap;
use std::time::Duration;

use walwright_record::{Row, Source};
use walwright_server::{QueryError, Statement};

use super::context::Context;
use super::events::AutovacuumWatch;
use super::session::{Session, to_row};
use super::views::Columns;
use crate::observation::{emit, emit_event};

/// Commands that `pg_stat_get_progress_info` knows, and their views.
const PROGRESS: [(&str, &str); 6] = [
    ("VACUUM", "pg_stat_progress_vacuum"),
    ("ANALYZE", "pg_stat_progress_analyze"),
    ("CLUSTER", "pg_stat_progress_cluster"),
    ("CREATE INDEX", "pg_stat_progress_create_index"),
    ("BASEBACKUP", "pg_stat_progress_basebackup"),
    ("COPY", "pg_stat_progress_copy"),
];

/// `pg_blocking_pids` locks the whole lock table for each call, so only the few
/// sessions that have waited longest are asked about.
const BLOCKED_ASKED: i32 = 3;

const BLOCKERS: &str = "
WITH blocked AS (
    SELECT w.pid, pg_blocking_pids(w.pid) AS by FROM unnest($1::int4[]) AS w (pid)
), blocking AS (
    SELECT DISTINCT b.pid FROM blocked, unnest(blocked.by) AS b (pid)
)
SELECT (SELECT string_agg(pid::text, ',' ORDER BY pid) FROM blocked WHERE by <> '{}'),
       string_agg(b.pid::text, ',' ORDER BY b.pid),
       count(*) FILTER (WHERE a.state LIKE 'idle in transaction%'),
       count(*) FILTER (WHERE a.wait_event_type = 'Lock'),
       count(*) FILTER (WHERE lower(a.wait_event) IN ('walsync', 'walwrite', 'commitdelay', 'syncrep'))
FROM blocking b LEFT JOIN pg_stat_get_activity(NULL) a ON a.pid = b.pid";

/// The prepared queries of one connection.
pub(crate) struct Activity {
    sessions: Statement,
    blockers: Statement,
    /// Prepared when such a command first runs.
    progress: HashMap<String, Statement>,
    views: HashMap<&'static str, String>,
}

/// What is remembered from one reading to the next.
#[derive(Debug, Default)]
pub(crate) struct ActivityState {
    pub(crate) autovacuum: AutovacuumWatch,
    in_progress: bool,
    hidden_most: i64,
}

impl ActivityState {
    /// What could not be seen.
    pub(crate) fn not_observable(&self) -> Option<String> {
        (self.hidden_most > 0).then(|| {
            format!(
                "the state of up to {} sessions of other roles is hidden from this role; grant it pg_monitor",
                self.hidden_most
            )
        })
    }
}

impl Activity {
    pub(crate) async fn prepare(
        session: &Session,
        columns: &Columns,
    ) -> Result<Activity, QueryError> {
        let known: Vec<&str> = PROGRESS
            .iter()
            .filter(|(_, view)| columns.has_view(view))
            .map(|(command, _)| *command)
            .collect();
        let sessions = session.prepare(&sessions_query(&known)).await?;
        let blockers = session.prepare(BLOCKERS).await?;
        let views = PROGRESS
            .iter()
            .filter(|(_, view)| columns.has_view(view))
            .map(|(command, view)| (*command, progress_query(command, view, columns.of(view))))
            .collect();
        Ok(Activity { sessions, blockers, progress: HashMap::new(), views })
    }

    /// Reads and stores both sources; returns what it cost the server.
    pub(crate) async fn sample(
        &mut self,
        ctx: &Context,
        session: &mut Session,
        state: &mut ActivityState,
    ) -> Result<Duration, QueryError> {
        let reading = session.read(&self.sessions, &[], &ctx.clock, &ctx.cost).await?;
        let mut cost = reading.cost;
        let Some(pg) = reading.rows.first() else { return Ok(cost) };
        let mut row = to_row(pg);
        let waiting: Option<Vec<i32>> = pg.named("waiting_pids")?;
        let commands: Vec<String> = pg.named("in_progress")?;
        state.hidden_most = state.hidden_most.max(pg.named("hidden")?);
        if let Some(waiting) = waiting {
            let answer = session.read(&self.blockers, &[&waiting], &ctx.clock, &ctx.cost).await?;
            cost += answer.cost;
            if let Some(found) = answer.rows.first() {
                row.set("blocked_pids", found.get::<Option<String>>(0)?)
                    .set("blocking_pids", found.get::<Option<String>>(1)?)
                    .set("blocking_idle_in_transaction", found.get::<i64>(2)?)
                    .set("blocking_waiting_for_lock", found.get::<i64>(3)?)
                    .set("blocking_committing", found.get::<i64>(4)?);
            }
        }
        emit(&ctx.sink, reading.at, Source::Sessions, vec![row]);
        cost += self.sample_progress(ctx, session, state, &commands).await?;
        Ok(cost)
    }

    async fn sample_progress(
        &mut self,
        ctx: &Context,
        session: &mut Session,
        state: &mut ActivityState,
        commands: &[String],
    ) -> Result<Duration, QueryError> {
        let mut cost = Duration::ZERO;
        let mut rows: Vec<Row> = Vec::new();
        let mut at = ctx.clock.now();
        for command in commands {
            if !self.progress.contains_key(command) {
                let Some(sql) = self.views.get(command.as_str()) else { continue };
                let statement = session.prepare(sql).await?;
                self.progress.insert(command.clone(), statement);
            }
            let reading = session.read(&self.progress[command], &[], &ctx.clock, &ctx.cost).await?;
            cost += reading.cost;
            at = reading.at;
            rows.extend(reading.rows.iter().map(to_row));
        }
        for text in state.autovacuum.progress(&rows, at) {
            emit_event(&ctx.sink, at, "autovacuum", text);
        }
        if !rows.is_empty() || state.in_progress {
            state.in_progress = !rows.is_empty();
            emit(&ctx.sink, at, Source::Progress, rows);
        }
        Ok(cost)
    }
}

fn sessions_query(commands: &[&str]) -> String {
    let commands: Vec<String> = commands.iter().map(|c| format!("'{c}'")).collect();
    // Locks are looked at only while someone waits: reading them holds every
    // partition of the lock table. Ages count client sessions alone, whose
    // transactions are the application's.
    format!(
        "WITH a AS MATERIALIZED (
             SELECT pid, state, wait_event_type, xact_start, query_start, state_change,
                    backend_xmin, backend_type, backend_type = 'client backend' AS client,
                    backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL AS hidden
             FROM pg_stat_get_activity(NULL)
             WHERE application_name IS DISTINCT FROM 'walwright probe'
         ), s AS (
             SELECT count(*) FILTER (WHERE client) AS client_backends,
                    count(*) FILTER (WHERE client AND state = 'active') AS active,
                    count(*) FILTER (WHERE client AND state = 'idle') AS idle,
                    count(*) FILTER (WHERE client AND state = 'idle in transaction') AS idle_in_transaction,
                    count(*) FILTER (WHERE client AND state = 'idle in transaction (aborted)')
                        AS idle_in_transaction_aborted,
                    count(*) FILTER (WHERE hidden) AS hidden,
                    count(*) FILTER (WHERE wait_event_type = 'Lock') AS waiting_for_lock,
                    extract(epoch FROM clock_timestamp() - min(xact_start) FILTER (WHERE client))::float8
                        AS oldest_transaction_seconds,
                    extract(epoch FROM clock_timestamp()
                            - min(query_start) FILTER (WHERE client AND state = 'active'))::float8
                        AS oldest_query_seconds,
                    extract(epoch FROM clock_timestamp()
                            - min(state_change) FILTER (WHERE client AND state LIKE 'idle in%'))::float8
                        AS oldest_idle_in_transaction_seconds,
                    max(age(backend_xmin)) AS oldest_xmin_age,
                    (array_agg(pid ORDER BY state_change) FILTER (WHERE wait_event_type = 'Lock'))
                        [1:{BLOCKED_ASKED}] AS waiting_pids
             FROM a
         )
         SELECT s.*,
                w.locks_not_granted,
                w.longest_lock_wait_seconds,
                (SELECT count(*) FROM pg_prepared_xact()) AS prepared_transactions,
                ARRAY(SELECT p.command FROM unnest(ARRAY[{}]::text[]) AS p (command)
                      WHERE EXISTS (SELECT FROM pg_stat_get_progress_info(p.command))) AS in_progress
         FROM s CROSS JOIN LATERAL (
             SELECT count(*) AS locks_not_granted,
                    extract(epoch FROM clock_timestamp() - min(l.waitstart))::float8
                        AS longest_lock_wait_seconds
             FROM pg_lock_status() l WHERE s.waiting_for_lock > 0 AND NOT l.granted
         ) w",
        commands.join(", ")
    )
}

fn progress_query(command: &str, view: &str, columns: &[String]) -> String {
    let has = |name: &str| columns.iter().any(|c| c == name);
    // Some of the views have a column `command` that says more.
    let command =
        if has("command") { String::new() } else { format!("'{command}'::text AS command, ") };
    let relation = if has("relid") {
        ", CASE WHEN v.datid = (SELECT oid FROM pg_database WHERE datname = current_database())
                THEN (SELECT n.nspname || '.' || c.relname FROM pg_class c
                      JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = v.relid)
           END AS relation"
    } else {
        ""
    };
    format!(
        "SELECT {command}v.*, a.backend_type{relation}
         FROM {view} v LEFT JOIN pg_stat_get_activity(NULL) a ON a.pid = v.pid"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_progress_row_says_its_command() {
        let vacuum =
            progress_query("VACUUM", "pg_stat_progress_vacuum", &["pid".into(), "relid".into()]);
        assert!(vacuum.contains("'VACUUM'::text AS command") && vacuum.contains("AS relation"));
        let copy =
            progress_query("COPY", "pg_stat_progress_copy", &["pid".into(), "command".into()]);
        assert!(!copy.contains("AS command"));
    }
}
