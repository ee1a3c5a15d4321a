//! Tables of the target when the load begins.

use walwright_record::TableFacts;
use walwright_server::{Client, QueryError, Row};

use crate::ProbeError;

/// Which tables are described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TablesOfInterest {
    /// Those with these OIDs.
    Known(Vec<u32>),
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
      AND ($1::oid[] IS NULL OR c.oid = ANY ($1))
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
    let (known, limit) = match which {
        TablesOfInterest::Known(oids) => (Some(oids), MOST),
        TablesOfInterest::Largest(most) => (None, i64::from(*most)),
    };
    let rows = client
        .query(CHOSEN, &[&known, &limit])
        .await
        .map_err(|source| ProbeError::Query { what: "tables", source })?;
    let described = rows.iter().map(described).collect::<Result<_, _>>();
    described.map_err(|source| ProbeError::Query { what: "tables", source })
}

fn described(row: &Row) -> Result<TableFacts, QueryError> {
    // -1 where the table was never vacuumed or analysed.
    let estimate: f64 = row.get(2)?;
    let bytes: i64 = row.get(3)?;
    Ok(TableFacts {
        schema: row.get(0)?,
        name: row.get(1)?,
        rows: (estimate >= 0.0).then_some(estimate as u64),
        bytes: u64::try_from(bytes).unwrap_or(0),
        indexes: row.get(4)?,
        options: row.get(5)?,
    })
}
