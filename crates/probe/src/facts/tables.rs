//! Tables of the target when the load begins.

use tokio_postgres::Client;
use walwright_record::TableFacts;

use crate::ProbeError;

/// Which tables are described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TablesOfInterest {
    /// Those of the workload: names as in `regclass` input (`events`, `app."Order"`).
    /// Names without a schema are found by the search path; one that is not there is left out.
    Named(Vec<String>),
    /// The largest, at most so many.
    Largest(u16),
}

/// `relpages` chooses the largest, because sizes on disk take a system call for
/// each table; sizes of the chosen are exact.
const CHOSEN: &str = "
/* walwright probe */ WITH chosen AS (
    SELECT c.oid, c.relname, n.nspname, c.reltuples, c.reloptions, c.relkind
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'm')
      AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
      AND ($1::text[] IS NULL
           OR c.oid IN (SELECT pg_catalog.to_regclass(name) FROM pg_catalog.unnest($1) AS w (name)))
    ORDER BY c.relpages DESC, c.oid LIMIT $2)
SELECT nspname, relname, reltuples::float8,
       coalesce(pg_catalog.pg_relation_size(oid), 0),
       ARRAY(SELECT pg_catalog.pg_get_indexdef(i.indexrelid) FROM pg_catalog.pg_index i
             WHERE i.indrelid = chosen.oid ORDER BY i.indexrelid),
       coalesce(reloptions, '{}')
FROM chosen ORDER BY nspname, relname";

/// More tables than this are never described.
const MOST: i64 = 1000;

/// Describes the tables.
pub(crate) async fn table_facts(
    client: &Client,
    which: &TablesOfInterest,
) -> Result<Vec<TableFacts>, ProbeError> {
    let (names, limit) = match which {
        TablesOfInterest::Named(names) => (Some(names), MOST),
        TablesOfInterest::Largest(most) => (None, i64::from(*most)),
    };
    let rows = client
        .query(CHOSEN, &[&names, &limit])
        .await
        .map_err(|source| ProbeError::Query { what: "its tables", source })?;
    Ok(rows
        .iter()
        .map(|row| {
            // -1 where the table was never vacuumed or analysed.
            let estimate: f64 = row.get(2);
            let bytes: i64 = row.get(3);
            TableFacts {
                schema: row.get(0),
                name: row.get(1),
                rows: (estimate >= 0.0).then_some(estimate as u64),
                bytes: u64::try_from(bytes).unwrap_or(0),
                indexes: row.get(4),
                options: row.get(5),
            }
        })
        .collect())
}
