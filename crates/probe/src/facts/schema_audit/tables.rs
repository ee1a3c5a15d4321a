//! Tables, their columns, and what `pg_stats` says of these.

use std::collections::{BTreeMap, HashMap};

use walwright_record::{
    ColumnStatistics, Partitioning, ReplicaIdentity, SchemaColumn, SchemaFacts, SchemaTable,
    TableGauges, TableKind,
};
use walwright_server::{Client, QueryError, Row};

use super::{COLUMNS, TABLES, ask, count, estimate, or_note};

/// Partitioned tables come first, because their partitions mean little without
/// them; then what is written most, then what is largest (`relpages`, since sizes on
/// disk take a system call for each table).
const READ: &str = "SELECT c.oid, n.nspname::text, c.relname::text, c.relkind::text,
       c.relpersistence = 'u',
       (SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = c.oid AND c.relispartition LIMIT 1),
       CASE WHEN c.relkind = 'p' THEN pg_get_partkeydef(c.oid) END,
       ARRAY(SELECT a.attname::text FROM pg_partitioned_table p, pg_attribute a
             WHERE p.partrelid = c.oid AND a.attrelid = c.oid
               AND a.attnum = ANY (p.partattrs::int2[]) AND a.attnum > 0 ORDER BY a.attnum),
       (SELECT pg_catalog.count(*) FROM pg_inherits i WHERE i.inhparent = c.oid),
       c.relreplident::text,
       coalesce(c.reloptions, '{}') || ARRAY(SELECT 'toast.' || o FROM unnest(t.reloptions) o),
       c.reltuples::float8,
       pg_stat_get_live_tuples(c.oid), pg_stat_get_dead_tuples(c.oid),
       CASE WHEN c.relfrozenxid <> '0' THEN age(c.relfrozenxid) END,
       CASE WHEN c.relminmxid <> '0' THEN mxid_age(c.relminmxid) END
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_class t ON t.oid = c.reltoastrelid
    WHERE c.relkind IN ('r', 'p', 'm') AND c.relpersistence <> 't'
      AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
    ORDER BY c.relkind = 'p' DESC,
             pg_stat_get_tuples_inserted(c.oid) + pg_stat_get_tuples_updated(c.oid)
                 + pg_stat_get_tuples_deleted(c.oid) DESC,
             c.relpages DESC, c.oid
    LIMIT $1";

const READ_COLUMNS: &str = "SELECT a.attrelid, a.attnum, a.attname::text,
       format_type(a.atttypid, a.atttypmod), a.attnotnull,
       CASE WHEN a.attidentity <> '' THEN 'identity'
            WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END,
       a.attstorage::text, a.attcompression::text
    FROM pg_attribute a
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = ANY ($1) AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY array_position($1, a.attrelid), a.attnum
    LIMIT $2";

const READ_STATISTICS: &str = "SELECT s.schemaname::text, s.tablename::text, s.attname::text,
       s.inherited, s.avg_width, s.null_frac::float8, s.correlation::float8
    FROM pg_stats s WHERE s.schemaname = ANY ($1) AND s.tablename = ANY ($2)";

/// Reads the tables.
pub(super) async fn read(client: &Client, facts: &mut SchemaFacts) {
    let rows = ask(client, READ, &[&(TABLES as i64 + 1)]).await;
    let mut tables: Vec<SchemaTable> = or_note(rows, table, "tables", facts);
    if tables.len() > TABLES {
        tables.truncate(TABLES);
        facts.incomplete.push(format!(
            "tables: only the {TABLES} most written and largest are described; others exist"
        ));
    }
    facts.tables = tables;
}

fn table(row: &Row) -> Result<SchemaTable, QueryError> {
    let partition_key: Option<String> = row.get(6)?;
    let partitions: i64 = row.get(8)?;
    let partitioning = match partition_key {
        Some(key) => Some(Partitioning {
            key,
            columns: row.get(7)?,
            partitions: u32::try_from(partitions).unwrap_or(u32::MAX),
        }),
        None => None,
    };
    Ok(SchemaTable {
        oid: row.get(0)?,
        schema: row.get(1)?,
        name: row.get(2)?,
        kind: match row.get::<String>(3)?.as_str() {
            "p" => TableKind::Partitioned,
            "m" => TableKind::MaterializedView,
            _ => TableKind::Table,
        },
        unlogged: row.get(4)?,
        parent: row.get(5)?,
        partitioning,
        replica_identity: match row.get::<String>(9)?.as_str() {
            "f" => ReplicaIdentity::Full,
            "n" => ReplicaIdentity::Nothing,
            "i" => ReplicaIdentity::Index,
            _ => ReplicaIdentity::Default,
        },
        options: options(row.get(10)?),
        columns: Vec::new(),
        indexes_complete: false,
        gauges: TableGauges {
            rows: estimate(row.get(11)?),
            bytes: None,
            toast_bytes: None,
            live_rows: count(row.get::<Option<i64>>(12)?),
            dead_rows: count(row.get::<Option<i64>>(13)?),
            xid_age: count(row.get::<Option<i32>>(14)?),
            multixact_age: count(row.get::<Option<i32>>(15)?),
        },
    })
}

fn options(stored: Vec<String>) -> BTreeMap<String, String> {
    stored
        .into_iter()
        .filter_map(|option| {
            option.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
        })
        .collect()
}

/// Reads the columns of the tables.
pub(super) async fn columns(client: &Client, oids: &[u32], facts: &mut SchemaFacts) {
    let rows = ask(client, READ_COLUMNS, &[&oids, &(COLUMNS as i64)]).await;
    let columns = or_note(rows, column, "columns", facts);
    if columns.len() == COLUMNS {
        facts.incomplete.push(format!("columns: only the first {COLUMNS} are described"));
    }
    let places: HashMap<u32, usize> =
        facts.tables.iter().enumerate().map(|(place, table)| (table.oid, place)).collect();
    for (table, column) in columns {
        let Some(place) = places.get(&table) else { continue };
        facts.tables[*place].columns.push(column);
    }
}

/// A column and the table that it is of.
fn column(row: &Row) -> Result<(u32, SchemaColumn), QueryError> {
    let column = SchemaColumn {
        number: row.get(1)?,
        name: row.get(2)?,
        data_type: row.get(3)?,
        not_null: row.get(4)?,
        default: row.get(5)?,
        storage: row.get::<String>(6)?.chars().next().unwrap_or('p'),
        compression: match row.get::<String>(7)?.as_str() {
            "p" => Some("pglz".to_owned()),
            "l" => Some("lz4".to_owned()),
            _ => None,
        },
        statistics: None,
    };
    Ok((row.get(0)?, column))
}

/// Adds what `pg_stats` shows this role of the columns.
pub(super) async fn statistics(client: &Client, facts: &mut SchemaFacts) {
    let schemas: Vec<&str> = facts.tables.iter().map(|table| table.schema.as_str()).collect();
    let names: Vec<&str> = facts.tables.iter().map(|table| table.name.as_str()).collect();
    let rows = ask(client, READ_STATISTICS, &[&schemas, &names]).await;
    let read = |row: &Row| {
        let width: i32 = row.get(4)?;
        let statistics = ColumnStatistics {
            average_width: u32::try_from(width).unwrap_or(0),
            null_share: row.get(5)?,
            correlation: row.get(6)?,
        };
        let table: (String, String, bool) = (row.get(0)?, row.get(1)?, row.get(3)?);
        Ok((table, row.get::<String>(2)?, statistics))
    };
    let mut known: HashMap<(String, String, bool), HashMap<String, ColumnStatistics>> =
        HashMap::new();
    for (table, column, statistics) in
        or_note(rows, read, "statistics of columns (pg_stats)", facts)
    {
        known.entry(table).or_default().insert(column, statistics);
    }
    for table in &mut facts.tables {
        let inherited = table.kind == TableKind::Partitioned;
        let key = (table.schema.clone(), table.name.clone(), inherited);
        let Some(columns) = known.get_mut(&key) else { continue };
        for column in &mut table.columns {
            column.statistics = columns.remove(&column.name);
        }
    }
}
