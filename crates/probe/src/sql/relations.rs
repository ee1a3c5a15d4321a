//! Tables and indexes of the database.

use std::collections::HashMap;
use std::time::Duration;

use tokio_postgres::Statement;
use walwright_record::{Row, Source};

use super::context::Context;
use super::session::{Session, to_row};
use super::sparse::Sparse;
use super::views::{Columns, select_list};
use crate::observation::emit;

/// More relations than this are not followed.
const LIMIT: usize = 2_000;

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
    sparse: Sparse,
}

impl RelationsState {
    pub(crate) fn tables() -> Self {
        RelationsState { source: Source::Tables, sparse: Sparse::new(LIMIT) }
    }

    pub(crate) fn indexes() -> Self {
        RelationsState { source: Source::Indexes, sparse: Sparse::new(LIMIT) }
    }

    /// What could not be followed.
    pub(crate) fn not_observable(&self) -> Option<String> {
        (self.sparse.ignored() > 0).then(|| {
            format!(
                "{}: {} beyond the {LIMIT} most active are not sampled",
                self.source.name(),
                self.sparse.ignored()
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
    ) -> Result<Relations, tokio_postgres::Error> {
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
    ) -> Result<Relations, tokio_postgres::Error> {
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
    ) -> Result<Relations, tokio_postgres::Error> {
        let sum: Vec<String> =
            activity.iter().map(|name| format!("pg_stat_get_{name}(c.oid)")).collect();
        let look = session
            .prepare(&format!(
                "SELECT c.oid::int8, {} AS activity
                 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                 WHERE c.relkind IN ({kinds}) AND {USER_SCHEMAS}
                 ORDER BY activity DESC, c.relpages DESC",
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
    ) -> Result<RelationsReading, tokio_postgres::Error> {
        let first = state.sparse.is_first();
        let look = session.read(&self.look, &[], &ctx.clock, &ctx.cost).await?;
        let mut cost = look.cost;
        let at = look.at;
        let wanted: Vec<u32> = state
            .sparse
            .changed(look.rows.iter().map(|row| (row.get(0), row.get(1))))
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
                let bytes: HashMap<i64, Option<i64>> =
                    sizes.rows.iter().map(|row| (row.get(0), row.get(1))).collect();
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
