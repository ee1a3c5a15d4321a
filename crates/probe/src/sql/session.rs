//! One of the probe's own connections.

use std::fs::File;
use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use walwright_record::{Row, Timestamp};
use walwright_server::{Client, QueryError, Row as PgRow, Statement};

use super::decode::scalar;
use crate::clock::Clock;
use crate::cost::Cost;
use crate::host::processes::{is_postgres_backend, schedstat_nanos};
use crate::host::read::reread_piece;
use crate::{Connector, ProbeError};

/// Stands at the head of every query, so that the server's own statistics show
/// who asked.
pub(crate) const MARK: &str = "/* walwright probe */ ";

/// A connection with what is needed to know its cost.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) backend_pid: u32,
    /// `/proc/PID/schedstat` of the backend, where it runs here.
    schedstat: Option<File>,
    /// Room to read it into.
    text: String,
    /// Its processor time when last looked at.
    charged: Duration,
    /// Whether a pooler stands between.
    pub(crate) pooled: bool,
    /// `server_version_num`.
    pub(crate) version_num: i32,
    /// Whether `pg_stat_database` has its commits before it ends.
    pub(crate) adds_commits: bool,
    /// Shortest answer to an empty query: the part of a reading's time that is
    /// the network's.
    round_trip: Duration,
    pub(crate) opened: Instant,
    /// The pause before it was opened.
    pub(crate) pause: Duration,
}

/// The answer to one query.
pub(crate) struct Reading {
    pub(crate) at: Timestamp,
    pub(crate) rows: Vec<PgRow>,
    /// What it cost the server: processor time of the backend where that can be
    /// seen, else the time it took beyond a round trip.
    pub(crate) cost: Duration,
}

/// The answers to several queries, each on its own.
pub(crate) struct Readings {
    pub(crate) at: Timestamp,
    pub(crate) answers: Vec<Result<Vec<PgRow>, QueryError>>,
    pub(crate) cost: Duration,
}

impl Session {
    /// Opens a connection. `local` says that the server's processes are this
    /// machine's. Nothing is set in it: see [`Connector::to`] for its settings.
    pub(crate) async fn open(
        connector: &Connector,
        local: bool,
        cost: &Cost,
    ) -> Result<Session, ProbeError> {
        let began = Instant::now();
        let client = connector.connect().await.map_err(ProbeError::Connect)?;
        let query = |what| move |source| ProbeError::Query { what, source };
        let pooled = is_pooled(&client, began).await.map_err(query("the age of the session"))?;
        let row = client
            .query_one(
                "SELECT pg_backend_pid(), current_setting('server_version_num')::int4,
                        current_setting('server_version')",
                &[],
            )
            .await
            .map_err(query("version"))?;
        let malformed = query("version");
        let read = || Ok((row.get::<i32>(0)?, row.get::<i32>(1)?, row.get::<String>(2)?));
        let (pid, version_num, version) = read().map_err(malformed)?;
        if version_num < 140_000 {
            return Err(ProbeError::TooOld(version));
        }
        let backend_pid = u32::try_from(pid).unwrap_or(0);
        let schedstat = (local && is_postgres_backend(backend_pid))
            .then(|| File::open(format!("/proc/{backend_pid}/schedstat")).ok())
            .flatten();
        let mut round_trip = Duration::MAX;
        for _ in 0..3 {
            let sent = Instant::now();
            client.simple_query("").await.map_err(query("an empty query"))?;
            round_trip = round_trip.min(sent.elapsed());
        }
        let mut session = Session {
            client,
            backend_pid,
            schedstat,
            text: String::new(),
            pooled,
            version_num,
            adds_commits: true,
            charged: Duration::ZERO,
            round_trip,
            opened: Instant::now(),
            pause: Duration::ZERO,
        };
        session.charge(cost);
        Ok(session)
    }

    /// Prepares a query under the probe's mark.
    pub(crate) async fn prepare(&self, sql: &str) -> Result<Statement, QueryError> {
        self.client.prepare(&format!("{MARK}{sql}")).await
    }

    /// Whether the connection is gone.
    pub(crate) fn is_lost(&self) -> bool {
        self.client.is_closed()
    }

    /// Adds what the backend computed since the last call to the probe's cost;
    /// `None` where it cannot be seen.
    fn charge(&mut self, cost: &Cost) -> Option<Duration> {
        if !reread_piece(self.schedstat.as_ref()?, &mut self.text) {
            return None;
        }
        let now = Duration::from_nanos(schedstat_nanos(&self.text)?.0);
        let spent = now.saturating_sub(self.charged);
        self.charged = now;
        cost.backend(spent);
        Some(spent)
    }

    /// Asks one query.
    pub(crate) async fn read(
        &mut self,
        statement: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
        clock: &Clock,
        cost: &Cost,
    ) -> Result<Reading, QueryError> {
        let sent = Instant::now();
        let rows = match self.client.query_prepared(&[(statement, parameters)]).await {
            Ok(mut answers) => answers.pop().unwrap_or_else(|| Ok(Vec::new())),
            Err(error) => Err(error),
        };
        let (at, cost) = self.account(sent, 1, rows.as_deref().unwrap_or(&[]), clock, cost);
        Ok(Reading { at, rows: rows?, cost })
    }

    /// Asks one query that takes no parameters and whose cost does not count.
    pub(crate) async fn ask(&self, statement: &Statement) -> Result<Vec<PgRow>, QueryError> {
        let mut answers = self.client.query_prepared(&[(statement, &[])]).await?;
        answers.pop().unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Asks several queries in one go, so that they are answered close together
    /// and wake server and probe once.
    pub(crate) async fn read_all(
        &mut self,
        statements: &[&Statement],
        clock: &Clock,
        cost: &Cost,
    ) -> Result<Readings, QueryError> {
        let sent = Instant::now();
        let asked: Vec<(&Statement, &[&(dyn ToSql + Sync)])> =
            statements.iter().map(|statement| (*statement, [].as_slice())).collect();
        let answers = self.client.query_prepared(&asked).await?;
        let mut spent = Duration::ZERO;
        let mut at = clock.at(sent);
        for (place, answer) in answers.iter().enumerate() {
            let rows = answer.as_deref().unwrap_or(&[]);
            if place == 0 {
                (at, spent) = self.account(sent, statements.len() as u64, rows, clock, cost);
            } else {
                cost.bytes(rows.iter().map(PgRow::bytes).sum());
            }
        }
        Ok(Readings { at, answers, cost: spent })
    }

    fn account(
        &mut self,
        sent: Instant,
        queries: u64,
        rows: &[PgRow],
        clock: &Clock,
        cost: &Cost,
    ) -> (Timestamp, Duration) {
        let received = Instant::now();
        cost.queries(queries, received - sent);
        cost.commits(if self.adds_commits { queries } else { 0 });
        cost.bytes(rows.iter().map(PgRow::bytes).sum());
        let waited = (received - sent).saturating_sub(self.round_trip);
        (clock.between(sent, received), self.charge(cost).unwrap_or(waited))
    }
}

/// Whether the backend is older than the connection, as behind a pooler that
/// lends its connections out.
async fn is_pooled(client: &Client, began: Instant) -> Result<bool, QueryError> {
    const CLOCKS_DIFFER: Duration = Duration::from_millis(5);
    let row = client
        .query_one(
            "SELECT extract(epoch FROM pg_catalog.clock_timestamp() - backend_start)::float8
             FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid())",
            &[],
        )
        .await?;
    let age: Option<f64> = row.get(0)?;
    let own = (began.elapsed() + CLOCKS_DIFFER).as_secs_f64();
    Ok(age.is_some_and(|age| age > own))
}

/// A row of the server as a row of a record, column for column.
pub(crate) fn to_row(pg: &PgRow) -> Row {
    let mut row = Row::new();
    for (name, of, bytes) in pg.columns() {
        if let Some(value) = scalar(of, bytes) {
            row.set(name, value);
        }
    }
    row
}

/// The two numbers of each row.
pub(crate) fn numbers(rows: &[PgRow]) -> Result<Vec<(i64, i64)>, QueryError> {
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

/// Whether the server refuses for a reason that another try will not change:
/// a missing privilege, object or feature.
pub(crate) fn is_lasting(error: &QueryError) -> bool {
    let Some(code) = error.code() else { return false };
    *code == SqlState::INSUFFICIENT_PRIVILEGE
        || *code == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE
        || *code == SqlState::FEATURE_NOT_SUPPORTED
        || code.code().starts_with("42")
}
