//! Tables and indexes of the database.

use std::collections::HashMap;
use std::time::Duration;

use walwright_record::{Row, Source};
use walwright_server::{QueryError, Statement};

use super::context::Context;
use super::session::{MARK, Session, numbers, to_row};
use super::sparse::Sparse;
use super::views::{Columns, select_list};
use crate::observation::emit;

/// More relations than this are not followed.
const LIMIT: usize = 2_000;

/// What a relation costs in a look at all, and its row in the first reading, which has the
/// server open it: measured with 3,000 tables of PostgreSQL 18 and rounded up.
const LOOK_COST: Duration = Duration::from_micros(2);
const FIRST_COST: Duration = Duration::from_micros(100);

/// Relations looked at, the most active first: an answer about all of a server with more
/// would take more memory than one may.
const LOOKED_AT: usize = 50_000;

/// Relations that `pg_stat_user_tables` and `pg_stat_user_indexes` show.
const USER_SCHEMAS: &str = "n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND n.nspname !~ '^pg_toast'";

/// A number that grows whenever a table does, is read, vacuumed or analysed.
const TABLE_ACTIVITY: [&str; 11] = [
    "numscans",
    "tuples_returned",
    "tuples_fetched",
    "tuples_inserted",
    "tuples_updated",
    "tuples_deleted",
    "blocks_fetched",
    "vacuum_count",
    "autovacuum_count",
    "analyze_count",
    "autoanalyze_count",
];

/// The same for an index; an insertion fetches blocks.
const INDEX_ACTIVITY: [&str; 3] = ["numscans", "tuples_returned", "blocks_fetched"];

/// Tables or indexes: what is remembered over reconnections.
#[derive(Debug)]
pub(crate) struct RelationsState {
    source: Source,
    limit: usize,
    sparse: Sparse,
}

/// Relations whose first reading `budget` processor seconds a second can pay for. It has a row
/// of every relation followed, so it is by far the dearest, and is paid for over some time.
fn affordable(budget: f64, paid_over: Duration) -> usize {
    let allowance = budget * paid_over.as_secs_f64();
    ((allowance / FIRST_COST.as_secs_f64()) as usize).clamp(1, LIMIT)
}

/// What a look at all relations is likely to cost the server. Counting them is cheap beside
/// reading what each has done.
pub(crate) async fn cost_of_a_look(session: &Session) -> Result<Duration, QueryError> {
    let count = format!("{MARK}SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'm', 'i')");
    let relations: i64 = session.client.query_one(&count, &[]).await?.get(0)?;
    Ok(LOOK_COST.saturating_mul(u32::try_from(relations).unwrap_or(u32::MAX)))
}

impl RelationsState {
    /// `budget` is the processor time that tables and indexes together may take of a second.
    pub(crate) fn tables(budget: f64, paid_over: Duration) -> Self {
        RelationsState::new(Source::Tables, budget, paid_over)
    }

    pub(crate) fn indexes(budget: f64, paid_over: Duration) -> Self {
        RelationsState::new(Source::Indexes, budget, paid_over)
    }

    fn new(source: Source, budget: f64, paid_over: Duration) -> Self {
        let limit = affordable(budget / 2.0, paid_over);
        RelationsState { source, limit, sparse: Sparse::new(limit) }
    }

    /// What could not be followed.
    pub(crate) fn not_observable(&self) -> Option<String> {
        (self.sparse.ignored() > 0).then(|| {
            format!(
                "{}: {} beyond the {} most active are not sampled",
                self.source.name(),
                self.sparse.ignored(),
                self.limit
            )
        })
    }
}

/// The prepared queries of one connection for tables or indexes.
pub(crate) struct Relations {
    look: Statement,
    full: Statement,
    sizes: Statement,
}

/// What one reading found.
pub(crate) struct RelationsReading {
    /// What it cost the server.
    pub(crate) cost: Duration,
    /// The rows that were stored.
    pub(crate) rows: Vec<Row>,
    /// When they were read.
    pub(crate) at: walwright_record::Timestamp,
}

impl Relations {
    pub(crate) async fn tables(
        session: &Session,
        columns: &Columns,
    ) -> Result<Relations, QueryError> {
        let own = select_list(columns.of("pg_stat_user_tables"), "s", |_, _| None);
        let io = without(columns.of("pg_statio_user_tables"), &["relid", "schemaname", "relname"]);
        let full = format!(
            "SELECT {own}, {io}, c.relpages, c.reltuples, c.relallvisible,
                    age(c.relfrozenxid) AS relfrozenxid_age, mxid_age(c.relminmxid) AS relminmxid_age,
                    c.relreplident, c.relpersistence
             FROM pg_stat_user_tables s
             JOIN pg_statio_user_tables io ON io.relid = s.relid
             JOIN pg_class c ON c.oid = s.relid
             WHERE s.relid = ANY ($1) AND io.relid = ANY ($1) AND c.oid = ANY ($1)"
        );
        Self::prepare(session, "'r', 'm'", &TABLE_ACTIVITY, &full).await
    }

    pub(crate) async fn indexes(
        session: &Session,
        columns: &Columns,
    ) -> Result<Relations, QueryError> {
        let own = select_list(columns.of("pg_stat_user_indexes"), "s", |_, _| None);
        let io = without(
            columns.of("pg_statio_user_indexes"),
            &["relid", "indexrelid", "schemaname", "relname", "indexrelname"],
        );
        let full = format!(
            "SELECT {own}, {io}, c.relpages, c.reltuples, i.indisunique, i.indisprimary, i.indisvalid
             FROM pg_stat_user_indexes s
             JOIN pg_statio_user_indexes io ON io.indexrelid = s.indexrelid
             JOIN pg_class c ON c.oid = s.indexrelid
             JOIN pg_index i ON i.indexrelid = s.indexrelid
             WHERE s.indexrelid = ANY ($1) AND io.indexrelid = ANY ($1) AND c.oid = ANY ($1)
               AND i.indexrelid = ANY ($1)"
        );
        Self::prepare(session, "'i'", &INDEX_ACTIVITY, &full).await
    }

    async fn prepare(
        session: &Session,
        kinds: &str,
        activity: &[&str],
        full: &str,
    ) -> Result<Relations, QueryError> {
        let sum: Vec<String> =
            activity.iter().map(|name| format!("pg_stat_get_{name}(c.oid)")).collect();
        let look = session
            .prepare(&format!(
                "SELECT c.oid::int8, {} AS activity
                 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                 WHERE c.relkind IN ({kinds}) AND {USER_SCHEMAS}
                 ORDER BY activity DESC, c.relpages DESC LIMIT {LOOKED_AT}",
                sum.join(" + ")
            ))
            .await?;
        let full = session.prepare(full).await?;
        let sizes = session
            .prepare(
                "SELECT r.oid::int8, pg_relation_size(r.oid) FROM unnest($1::oid[]) AS r (oid)",
            )
            .await?;
        Ok(Relations { look, full, sizes })
    }

    /// Reads and stores what changed.
    pub(crate) async fn sample(
        &self,
        ctx: &Context,
        session: &mut Session,
        state: &mut RelationsState,
    ) -> Result<RelationsReading, QueryError> {
        let first = state.sparse.is_first();
        let look = session.read(&self.look, &[], &ctx.clock, &ctx.cost).await?;
        let mut cost = look.cost;
        let at = look.at;
        let wanted: Vec<u32> = state
            .sparse
            .changed(numbers(&look.rows)?.into_iter())
            .into_iter()
            .filter_map(|oid| u32::try_from(oid).ok())
            .collect();
        if wanted.is_empty() && !first {
            state.sparse.stored();
            return Ok(RelationsReading { cost, rows: Vec::new(), at });
        }
        let full = session.read(&self.full, &[&wanted], &ctx.clock, &ctx.cost).await?;
        cost += full.cost;
        let mut rows: Vec<Row> = full.rows.iter().map(to_row).collect();
        // Sizes take a lock on the relation, which someone's ALTER or VACUUM FULL
        // may hold back; the rows are worth having without them.
        match session.read(&self.sizes, &[&wanted], &ctx.clock, &ctx.cost).await {
            Ok(sizes) => {
                cost += sizes.cost;
                let bytes: HashMap<i64, Option<i64>> = sizes
                    .rows
                    .iter()
                    .map(|row| Ok((row.get(0)?, row.get(1)?)))
                    .collect::<Result<_, QueryError>>()?;
                let key = state.source.key()[0];
                for row in &mut rows {
                    let oid = row.number(key).map(|oid| oid as i64);
                    row.set(
                        "relation_bytes",
                        oid.and_then(|oid| bytes.get(&oid).copied().flatten()),
                    );
                }
            }
            Err(error) if session.is_lost() => return Err(error),
            Err(error) => tracing::debug!(%error, "no relation sizes this time"),
        }
        emit(&ctx.sink, full.at, state.source, rows.clone());
        state.sparse.stored();
        Ok(RelationsReading { cost, rows, at: full.at })
    }
}

fn without(columns: &[String], left_out: &[&str]) -> String {
    let kept: Vec<String> =
        columns.iter().filter(|c| !left_out.contains(&c.as_str())).cloned().collect();
    select_list(&kept, "io", |_, _| None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_machine_follows_fewer_relations() {
        const MINUTE: Duration = Duration::from_secs(60);
        // A thousandth of two processors for both kinds.
        assert_eq!(affordable(0.001, MINUTE), 600);
        assert_eq!(affordable(1.0, MINUTE), LIMIT);
        assert_eq!(affordable(0.0, MINUTE), 1);
    }
}
