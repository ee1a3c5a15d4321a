//! `pg_stat_statements`, where the extension is there and answers.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tokio_postgres::{Row as PgRow, Statement};
use walwright_record::{Row, Source};

use super::context::Context;
use super::session::{Session, to_row};
use super::sparse::Sparse;
use super::views::{select_list, time_or_null};
use crate::observation::emit;

/// More statements than this are not followed; the default of
/// `pg_stat_statements.max` is 5,000.
const LIMIT: usize = 10_000;

/// The texts of all statements lie in one file that is read whole for any of
/// them, so they are fetched at most this often.
const TEXTS_EVERY: Duration = Duration::from_secs(5);

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
}

impl Statements {
    /// Prepares the queries; a sentence where the extension cannot be used.
    pub(crate) async fn prepare(session: &mut Session) -> Result<Statements, String> {
        let refused = |error: tokio_postgres::Error| {
            format!("pg_stat_statements: {}", crate::error::server_says(&error))
        };
        let schema: Option<String> = session
            .client
            .query_opt(
                "SELECT quote_ident(n.nspname) FROM pg_catalog.pg_extension e
                 JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
                 WHERE e.extname = 'pg_stat_statements'",
                &[],
            )
            .await
            .map_err(refused)?
            .map(|row| row.get(0));
        let Some(schema) = schema else {
            return Err("pg_stat_statements: the extension is not in this database".to_owned());
        };
        let call = format!("{schema}.pg_stat_statements(false) v");
        // Fails where the library is not preloaded, but only if a row is asked for.
        let probe =
            session.prepare(&format!("SELECT * FROM {call} LIMIT 1")).await.map_err(refused)?;
        session.client.query(&probe, &[]).await.map_err(refused)?;
        let names: Vec<String> = probe
            .columns()
            .iter()
            .map(|column| column.name().to_owned())
            .filter(|name| name != "query")
            .collect();
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
        let texts = session
            .prepare(&format!(
                "SELECT v.queryid, v.userid::int8, v.toplevel, left(v.query, {TEXT_LENGTH})
                 FROM {schema}.pg_stat_statements(true) v
                 WHERE {mine} AND v.queryid = ANY ($1)"
            ))
            .await
            .map_err(refused)?;
        Ok(Statements { look, full, texts })
    }

    /// Reads what changed; returns what it cost the server. With `last` the texts
    /// still missing are fetched whatever the time.
    pub(crate) async fn sample(
        &self,
        ctx: &Context,
        session: &mut Session,
        state: &mut StatementsState,
        last: bool,
    ) -> Result<Duration, tokio_postgres::Error> {
        let first = state.sparse.is_first();
        let look = session.read(&self.look, &[], &ctx.clock, &ctx.cost).await?;
        let mut spent = look.cost;
        let mut wanted = state.sparse.changed(look.rows.iter().map(|row| (row.get(0), row.get(1))));
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
            let texts = session.read(&self.texts, &[&ids], &ctx.clock, &ctx.cost).await?;
            spent += texts.cost;
            texts.rows.iter().for_each(|text| attach(&mut rows, text));
            state.with_text.extend(state.without_text.drain());
            state.texts_read = Some(Instant::now());
        }
        emit(&ctx.sink, full.at, Source::Statements, rows);
        state.sparse.stored();
        Ok(spent)
    }
}

fn attach(rows: &mut [Row], text: &PgRow) {
    let queryid: Option<i64> = text.get(0);
    let userid: Option<i64> = text.get(1);
    let toplevel: Option<bool> = text.get(2);
    let query: Option<String> = text.get(3);
    let (Some(queryid), Some(userid)) = (queryid, userid) else { return };
    for row in rows {
        let same = row.0.get("queryid") == Some(&queryid.into())
            && row.0.get("userid") == Some(&userid.into())
            && row.0.get("toplevel") == Some(&toplevel.into());
        if same {
            row.set("query", query.clone());
        }
    }
}
