//! Indexes.

use std::collections::HashSet;

use walwright_record::{SchemaFacts, SchemaIndex};
use walwright_server::{Client, QueryError, Row};

use super::{INDEXES, ask, count, estimate, note};

/// Constraints are grouped once, since `pg_constraint` has no index on `conindid`.
/// `to_jsonb` reads a column that only some versions have.
const READ: &str = "SELECT i.indexrelid, i.indrelid, n.nspname::text, c.relname::text,
       am.amname::text,
       ARRAY(SELECT pg_get_indexdef(i.indexrelid, k, false) FROM generate_series(1, i.indnkeyatts) k),
       ARRAY(SELECT i.indclass[k] || '/' || i.indcollation[k] || '/' || i.indoption[k]
             FROM generate_series(0, i.indnkeyatts - 1) k),
       ARRAY(SELECT i.indkey[k] FROM generate_series(0, i.indnkeyatts - 1) k),
       ARRAY(SELECT a.attname::text FROM generate_series(i.indnkeyatts::int, i.indnatts - 1) k
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[k] ORDER BY k),
       ARRAY(SELECT DISTINCT d.refobjsubid::int2 FROM pg_depend d
             WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
               AND d.refclassid = 'pg_class'::regclass AND d.refobjid = i.indrelid
               AND d.refobjsubid > 0
             UNION SELECT unnest(i.indkey::int2[])),
       pg_get_expr(i.indpred, i.indrelid), pg_get_indexdef(i.indexrelid),
       i.indisunique, coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::bool, false),
       i.indisprimary, k.constraint_name, coalesce(k.referenced, false),
       i.indisreplident, i.indisvalid,
       (SELECT h.inhparent FROM pg_inherits h WHERE h.inhrelid = i.indexrelid LIMIT 1),
       c.reltuples::float8, pg_stat_get_numscans(i.indexrelid)
    FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_am am ON am.oid = c.relam
    LEFT JOIN (SELECT conindid, pg_catalog.max(conname::text) FILTER (WHERE contype IN ('p', 'u', 'x')) AS constraint_name,
                      pg_catalog.bool_or(contype = 'f') AS referenced
               FROM pg_constraint WHERE conindid <> 0 GROUP BY conindid) k
           ON k.conindid = i.indexrelid
    WHERE i.indrelid = ANY ($1)
    ORDER BY array_position($1, i.indrelid), i.indexrelid
    LIMIT $2";

/// Reads the indexes of the tables. Where there are too many, the table at the cut
/// and those after it count as incomplete.
pub(super) async fn read(client: &Client, oids: &[u32], facts: &mut SchemaFacts) {
    let rows = ask(client, READ, &[&oids, &(INDEXES as i64 + 1)]).await;
    let read = rows.and_then(|rows| rows.iter().map(index).collect::<Result<Vec<_>, _>>());
    let mut indexes: Vec<SchemaIndex> = match read {
        Ok(indexes) => indexes,
        Err(error) => return note(&error, "indexes", facts),
    };
    let mut beyond: HashSet<u32> = HashSet::new();
    if indexes.len() > INDEXES {
        let cut = indexes[INDEXES].table;
        indexes.retain(|index| index.table != cut);
        beyond = oids.iter().copied().skip_while(|oid| *oid != cut).collect();
        facts.incomplete.push(format!(
            "indexes: only the first {INDEXES} are described; {} tables are without theirs",
            beyond.len()
        ));
    }
    for table in &mut facts.tables {
        table.indexes_complete = !beyond.contains(&table.oid);
    }
    facts.indexes = indexes;
}

fn index(row: &Row) -> Result<SchemaIndex, QueryError> {
    let mut depends_on: Vec<i16> = row.get(9)?;
    depends_on.retain(|number| *number > 0);
    depends_on.sort_unstable();
    Ok(SchemaIndex {
        oid: row.get(0)?,
        table: row.get(1)?,
        schema: row.get(2)?,
        name: row.get(3)?,
        method: row.get(4)?,
        keys: row.get(5)?,
        key_semantics: row.get(6)?,
        key_columns: row.get(7)?,
        included: row.get(8)?,
        depends_on,
        predicate: row.get(10)?,
        definition: row.get(11)?,
        unique: row.get(12)?,
        nulls_not_distinct: row.get(13)?,
        primary: row.get(14)?,
        constraint: row.get(15)?,
        referenced: row.get(16)?,
        replica_identity: row.get(17)?,
        valid: row.get(18)?,
        parent: row.get(19)?,
        bytes: None,
        rows: estimate(row.get(20)?),
        scans: count(row.get::<Option<i64>>(21)?),
    })
}
