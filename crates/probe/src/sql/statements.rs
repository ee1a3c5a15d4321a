//! `pg_stat_statements`, where the extension is there and answers.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use walwright_record::{Row, Scalar, Source, redact};
use walwright_server::{QueryError, Row as PgRow, Statement};

use super::context::Context;
use super::session::{Session, numbers, to_row};
use super::sparse::Sparse;
use super::views::{select_list, time_or_null};
use crate::extension::statements_schema;
use crate::observation::emit;

/// More statements than this are not followed; the default of
/// `pg_stat_statements.max` is 5,000.
const LIMIT: usize = 10_000;

/// The texts of all statements lie in one file that is read whole for any of
/// them, so they are fetched at most this often.
const TEXTS_EVERY: Duration = Duration::from_secs(5);

/// Texts asked for at once: a megabyte or two where all are long.
const TEXTS_AT_ONCE: usize = 200;

/// Class of the SQLSTATEs of values that cannot be.
const DATA_EXCEPTION: &str = "22";

/// Longer texts are cut.
const TEXT_LENGTH: i32 = 10_000;

/// What is remembered over reconnections.
#[derive(Debug)]
pub(crate) struct StatementsState {
    sparse: Sparse,
    /// Statements that ran and whose text is not in the record yet.
    without_text: HashSet<i64>,
    with_text: HashSet<i64>,
    texts_read: Option<Instant>,
}

impl StatementsState {
    pub(crate) fn new() -> Self {
        StatementsState {
            sparse: Sparse::new(LIMIT),
            without_text: HashSet::new(),
            with_text: HashSet::new(),
            texts_read: None,
        }
    }

    /// What could not be followed.
    pub(crate) fn not_observable(&self) -> Option<String> {
        (self.sparse.ignored() > 0).then(|| {
            format!(
                "pg_stat_statements: {} statements beyond the {LIMIT} with the most time are not sampled",
                self.sparse.ignored()
            )
        })
    }
}

/// The prepared queries of one connection.
pub(crate) struct Statements {
    look: Statement,
    full: Statement,
    texts: Statement,
    /// The same as they lie there, whatever their encoding.
    bytes: Statement,
}

impl Statements {
    /// Prepares the queries; a sentence where the extension cannot be used.
    pub(crate) async fn prepare(session: &mut Session) -> Result<Statements, String> {
        let refused = |error: QueryError| format!("pg_stat_statements: {error}");
        let schema = statements_schema(&session.client).await;
        let schema = schema.map_err(|why| format!("pg_stat_statements: {why}"))?;
        let call = format!("{schema}.pg_stat_statements(false) v");
        // Fails where the library is not preloaded, but only if a row is asked for.
        let probe =
            session.prepare(&format!("SELECT * FROM {call} LIMIT 1")).await.map_err(refused)?;
        session.ask(&probe).await.map_err(refused)?;
        let names: Vec<String> =
            probe.columns().map(str::to_owned).filter(|name| name != "query").collect();
        let list = select_list(&names, "v", |column, qualified| {
            if column.ends_with("_plan_time") {
                Some(time_or_null(column, qualified, "pg_stat_statements.track_planning"))
            } else if column.contains("blk") && column.ends_with("_time") {
                Some(time_or_null(column, qualified, "track_io_timing"))
            } else {
                None
            }
        });
        let mine = "v.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())";
        let look = session
            .prepare(&format!(
                "SELECT v.queryid, v.calls + v.plans FROM {call}
                 WHERE {mine} AND v.queryid IS NOT NULL ORDER BY v.total_exec_time DESC"
            ))
            .await
            .map_err(refused)?;
        let full = session
            .prepare(&format!("SELECT {list} FROM {call} WHERE {mine} AND v.queryid = ANY ($1)"))
            .await
            .map_err(refused)?;
        let with_text = |text: String| {
            format!(
                "SELECT v.queryid, v.userid::int8, v.toplevel, {text}
                 FROM {schema}.pg_stat_statements(true) v
                 WHERE {mine} AND v.queryid = ANY ($1)"
            )
        };
        let text = with_text(format!("left(v.query, {TEXT_LENGTH})"));
        let texts = session.prepare(&text).await.map_err(refused)?;
        // To SQL_ASCII nothing is converted, and nothing checked.
        let bytes = format!("substr(convert_to(v.query, 'SQL_ASCII'), 1, {TEXT_LENGTH})");
        let bytes = session.prepare(&with_text(bytes)).await.map_err(refused)?;
        Ok(Statements { look, full, texts, bytes })
    }

    /// Reads what changed; returns what it cost the server. With `last` the texts
    /// still missing are fetched whatever the time.
    pub(crate) async fn sample(
        &self,
        ctx: &Context,
        session: &mut Session,
        state: &mut StatementsState,
        last: bool,
    ) -> Result<Duration, QueryError> {
        let first = state.sparse.is_first();
        let look = session.read(&self.look, &[], &ctx.clock, &ctx.cost).await?;
        let mut spent = look.cost;
        let mut wanted = state.sparse.changed(numbers(&look.rows)?.into_iter());
        if !first {
            // Statements that only stood there when the run began need no text.
            state.without_text.extend(wanted.iter().filter(|id| !state.with_text.contains(id)));
        }
        let texts_due = !state.without_text.is_empty()
            && (last || state.texts_read.is_none_or(|read| read.elapsed() >= TEXTS_EVERY));
        if texts_due {
            let mut seen: HashSet<i64> = wanted.iter().copied().collect();
            wanted.extend(state.without_text.iter().filter(|id| seen.insert(**id)));
        }
        if wanted.is_empty() {
            state.sparse.stored();
            return Ok(spent);
        }
        let full = session.read(&self.full, &[&wanted], &ctx.clock, &ctx.cost).await?;
        spent += full.cost;
        let mut rows: Vec<Row> = full.rows.iter().map(to_row).collect();
        if texts_due {
            let ids: Vec<i64> = state.without_text.iter().copied().collect();
            let mut by_key: HashMap<Key, &mut Row> =
                rows.iter_mut().filter_map(|row| Some((key(row)?, row))).collect();
            for ids in ids.chunks(TEXTS_AT_ONCE) {
                spent += self.read_texts(ctx, session, ids, &mut by_key).await?;
            }
            state.with_text.extend(state.without_text.drain());
            state.texts_read = Some(Instant::now());
        }
        emit(&ctx.sink, full.at, Source::Statements, rows);
        state.sparse.stored();
        Ok(spent)
    }

    /// Adds the texts of some statements to their rows. Where one has bytes that its encoding
    /// does not know, the server refuses them all; then they are read as bytes.
    async fn read_texts(
        &self,
        ctx: &Context,
        session: &mut Session,
        ids: &[i64],
        rows: &mut HashMap<Key, &mut Row>,
    ) -> Result<Duration, QueryError> {
        let unreadable = |error: &QueryError| {
            error.code().is_some_and(|code| code.code().starts_with(DATA_EXCEPTION))
        };
        let reading = match session.read(&self.texts, &[&ids], &ctx.clock, &ctx.cost).await {
            Err(error) if unreadable(&error) => {
                session.read(&self.bytes, &[&ids], &ctx.clock, &ctx.cost).await?
            }
            reading => reading?,
        };
        reading.rows.iter().try_for_each(|text| attach(rows, text))?;
        Ok(reading.cost)
    }
}

/// What tells a statement of one database from another: queryid, userid and toplevel.
type Key = (i64, i64, Option<bool>);

fn key(row: &Row) -> Option<Key> {
    let whole = |column| match row.0.get(column) {
        Some(Scalar::Int(whole)) => Some(*whole),
        _ => None,
    };
    Some((whole("queryid")?, whole("userid")?, row.flag("toplevel")))
}

fn attach(rows: &mut HashMap<Key, &mut Row>, text: &PgRow) -> Result<(), QueryError> {
    let queryid: Option<i64> = text.get(0)?;
    let userid: Option<i64> = text.get(1)?;
    let toplevel: Option<bool> = text.get(2)?;
    let query: Option<String> = text.get(3)?;
    let (Some(queryid), Some(userid)) = (queryid, userid) else { return Ok(()) };
    if let Some(row) = rows.get_mut(&(queryid, userid, toplevel)) {
        // Statements that set passwords are kept by the extension as they were sent.
        row.set("query", query.as_deref().map(|query| redact::sql(query).into_owned()));
    }
    Ok(())
}
