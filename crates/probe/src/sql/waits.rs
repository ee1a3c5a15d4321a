//! Ticks of wait events: what every session does at one moment.

use std::time::{Duration, Instant};

use walwright_record::{Row, Scalar, Source};
use walwright_server::{QueryError, Row as PgRow};

use super::context::{Context, Lost};
use super::failures::{Failures, nothing_read};
use super::session::{Reading, Session, is_lasting};
use crate::cost::SlowedSource;
use crate::observation::emit;
use crate::pace::Pace;
use crate::rates::Rates;

/// One row per distinct state of a session. Ours are those of our load and, where our gateway
/// stands before the server, the session that flushes for it. It asks the function under
/// `pg_stat_activity`, which spares the view's joins with databases and roles.
/// A session of another role that this one may not see has no backend type, as have the
/// server's own processes then; a client's alone has a role and a database.
const QUERY: &str = "
SELECT backend_type, state, wait_event_type, wait_event, query_id, count(*),
    application_name IN ('walwright load', 'walwright barrier'),
    count(*) FILTER (WHERE backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL),
    application_name = 'walwright barrier'
FROM pg_stat_get_activity(NULL)
WHERE application_name IS DISTINCT FROM 'walwright probe'
GROUP BY 1, 2, 3, 4, 5, 7, 9";

/// Processors' worth of time the ticks may take, as a share of the machine.
const BUDGET: f64 = 0.003;

/// How far a tick may move from the grid, as a part of the interval. PostgreSQL's
/// own processes wake on round periods (`wal_writer_delay` and `bgwriter_delay`
/// are 200 ms), and ticks in step with them would always see the same moment.
const JITTER: f64 = 0.8;

/// What the sampling of waits has to say at its end.
#[derive(Debug, Default)]
pub(crate) struct WaitsReport {
    pub(crate) slowed: Option<SlowedSource>,
    pub(crate) not_observable: Vec<String>,
}

/// Version from which a session that reads no table adds its commits to the statistics when
/// it ends (`pgstat_report_stat`).
const COMMITS_AT_END: i32 = 150_000;

/// Samples until stopped; gives the session back, whose end would show as commits.
pub(crate) async fn sample(
    ctx: &Context,
    mut session: Session,
    rates: Rates,
) -> (WaitsReport, Session) {
    let every = rates.waits;
    let processors = rates.budget_processors(ctx.budget_processors());
    let mut pace = Pace::new(every, BUDGET * processors, Instant::now());
    let mut report = WaitsReport::default();
    let (mut hidden_most, mut own_hidden) = (0, false);
    let mut failed = Failures::default();
    'connection: loop {
        session.adds_commits = session.version_num < COMMITS_AT_END;
        let Some(prepared) = ctx.answered(session.prepare(QUERY)).await else { break };
        let statement = match prepared {
            Ok(statement) => statement,
            Err(error) if is_lasting(&error) => {
                report.not_observable.push(format!("wait events: {error}"));
                break;
            }
            Err(error) => {
                failed.take(&error);
                failed.lost();
                if !ctx.reopen(&mut session, Lost::Waits).await {
                    break;
                }
                continue;
            }
        };
        loop {
            if !ctx.sleep_until(pace.due() + jitter(pace.taken, every)).await {
                break 'connection;
            }
            let reading = session.read(&statement, &[], &ctx.clock, &ctx.cost);
            let Some(result) = ctx.answered(reading).await else {
                note(ctx, &mut pace, |pace| pace.stopped(Instant::now()));
                break 'connection;
            };
            match result {
                Ok(reading) => {
                    match hand_over(ctx, &reading) {
                        Ok(hidden) => {
                            hidden_most = hidden_most.max(hidden.clients);
                            own_hidden |= hidden.own;
                        }
                        Err(error) => failed.take(&error),
                    }
                    note(ctx, &mut pace, |pace| pace.taken(Instant::now(), Some(reading.cost)));
                }
                Err(error) => {
                    failed.take(&error);
                    note(ctx, &mut pace, |pace| pace.failed(Instant::now()));
                }
            }
            if session.is_lost() {
                failed.lost();
                if !ctx.reopen(&mut session, Lost::Waits).await {
                    break 'connection;
                }
                continue 'connection;
            }
        }
    }
    if hidden_most > 0 {
        report.not_observable.push(format!(
            "up to {hidden_most} sessions at a time belong to roles whose activity this role may not see, and are missing from the wait events; grant it pg_monitor"
        ));
    }
    report.not_observable.extend(failed.sentences("wait events"));
    if report.not_observable.is_empty() {
        report.not_observable.extend(nothing_read("wait events", &pace));
    }
    if own_hidden {
        report.not_observable.push(
            "what the server's own processes (checkpointer, WAL writer, autovacuum) wait for is hidden from this role; grant it pg_monitor"
                .to_owned(),
        );
    }
    report.slowed = SlowedSource::of("wait events", &pace);
    (report, session)
}

fn note(ctx: &Context, pace: &mut Pace, plan: impl FnOnce(&mut Pace)) {
    let before = pace.skipped;
    plan(pace);
    ctx.cost.skipped(pace.skipped - before);
}

/// What a tick did not show.
#[derive(Debug, Clone, Copy, Default)]
struct Hidden {
    /// Sessions of clients.
    clients: i64,
    /// Whether the server's own processes were among it.
    own: bool,
}

/// Stores a tick; returns what was hidden in it.
fn hand_over(ctx: &Context, reading: &Reading) -> Result<Hidden, QueryError> {
    let mut hidden = Hidden::default();
    let mut rows = Vec::with_capacity(reading.rows.len());
    for pg in &reading.rows {
        match to_row(pg)? {
            Ok(row) => rows.push(row),
            Err(more) => {
                hidden.clients = hidden.clients.saturating_add(more.clients);
                hidden.own |= more.own;
            }
        }
    }
    emit(&ctx.sink, reading.at, Source::Waits, rows);
    Ok(hidden)
}

/// A row of a tick, or what is hidden in it.
fn to_row(pg: &PgRow) -> Result<Result<Row, Hidden>, QueryError> {
    let text = |place| pg.get::<Option<String>>(place);
    let sessions: i64 = pg.get(5)?;
    let Some(backend_type) = text(0)? else {
        let clients = pg.get(7)?;
        return Ok(Err(Hidden { clients, own: sessions > clients }));
    };
    let query_id = pg.get::<Option<i64>>(4)?.filter(|id| *id != 0);
    let mut row = Row::new();
    row.set("backend_type", backend_type)
        .set("state", text(1)?)
        .set("wait_event_type", text(2)?)
        .set("wait_event", text(3)?)
        .set("query_id", query_id.map_or(Scalar::Null, Scalar::Int))
        .set("ours", pg.get::<Option<bool>>(6)? == Some(true))
        .set("sessions", sessions);
    if pg.get::<Option<bool>>(8)? == Some(true) {
        row.set("barrier", true);
    }
    Ok(Ok(row))
}

/// A delay for tick `number` that spreads evenly over part of the interval:
/// multiples of the golden ratio, of which any stretch is nearly uniform.
fn jitter(number: u64, every: Duration) -> Duration {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    every.mul_f64(JITTER * (number as f64 * GOLDEN).fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_spread_over_the_phase_of_a_200_ms_cycle() {
        let every = Duration::from_millis(100);
        let mut seen = [0_u32; 8];
        for tick in 0..800_u64 {
            let at = every * u32::try_from(tick).unwrap() + jitter(tick, every);
            let phase = at.as_micros() % 200_000;
            seen[usize::try_from(phase / 25_000).unwrap()] += 1;
        }
        // Evenly over 80 ms of every 100, so the last bucket of each holds a fifth.
        assert!(seen.iter().all(|n| *n >= 20), "{seen:?}");
        assert!(jitter(12_345, every) < every.mul_f64(JITTER));
    }
}
