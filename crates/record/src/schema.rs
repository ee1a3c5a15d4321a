//! The schema as the catalog shows it: what a write must maintain, check and log.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// The catalog read once. Lists are bounded; what was left out is said in
/// [`SchemaFacts::incomplete`], so that "not in the list" is never taken for "not there".
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SchemaFacts {
    /// When it was read.
    pub at: Timestamp,
    /// Tables, the most written first, then the largest.
    pub tables: Vec<SchemaTable>,
    /// Indexes of those tables.
    pub indexes: Vec<SchemaIndex>,
    /// All foreign keys whose referencing table is among them; `None` where they could
    /// not be read whole.
    pub foreign_keys: Option<Vec<ForeignKey>>,
    /// Publications of the database; `None` where they could not be read.
    pub publications: Option<Vec<Publication>>,
    /// Replication slots of the cluster; `None` where they could not be read.
    pub slots: Option<Vec<ReplicationSlot>>,
    /// Age of the database's `datfrozenxid` in transactions.
    pub database_xid_age: Option<u64>,
    /// Age of the database's `datminmxid` in multixacts.
    pub database_multixact_age: Option<u64>,
    /// Values that `default_toast_compression` takes in this build.
    pub toast_compressions: Option<Vec<String>>,
    /// When the statistics of the database were last reset; `None` where they never
    /// were, and scans count from the making of the relation.
    pub stats_reset: Option<Timestamp>,
    /// Plans of statements that touch partitioned tables.
    pub plans: Vec<PartitionPlan>,
    /// What was cut or could not be seen, each a sentence.
    pub incomplete: Vec<String>,
}

impl SchemaFacts {
    /// The table with this oid.
    pub fn table(&self, oid: u32) -> Option<&SchemaTable> {
        self.tables.iter().find(|table| table.oid == oid)
    }

    /// The indexes of a table.
    pub fn indexes_of(&self, table: u32) -> impl Iterator<Item = &SchemaIndex> {
        self.indexes.iter().filter(move |index| index.table == table)
    }

    /// Whether it is worth keeping beside what was read before the load.
    pub fn tells_more_than(&self, before: &SchemaFacts) -> bool {
        !self.plans.is_empty() || !self.same_definitions(before)
    }

    /// Whether it describes the same definitions as `other`: sizes, scans, rows and
    /// ages may differ.
    pub fn same_definitions(&self, other: &SchemaFacts) -> bool {
        fn bare(facts: &SchemaFacts) -> SchemaFacts {
            let mut bare = SchemaFacts {
                tables: facts.tables.clone(),
                indexes: facts.indexes.clone(),
                foreign_keys: facts.foreign_keys.clone(),
                publications: facts.publications.clone(),
                slots: facts.slots.clone(),
                ..SchemaFacts::default()
            };
            for table in &mut bare.tables {
                table.gauges = TableGauges::default();
                table.columns.iter_mut().for_each(|column| column.statistics = None);
            }
            for index in &mut bare.indexes {
                (index.bytes, index.rows, index.scans) = (None, None, None);
            }
            for slot in bare.slots.iter_mut().flatten() {
                slot.retained_bytes = None;
            }
            bare.tables.sort_by_key(|table| table.oid);
            bare.indexes.sort_by_key(|index| index.oid);
            bare.foreign_keys.iter_mut().for_each(|keys| keys.sort_by_key(|key| key.oid));
            bare
        }
        bare(self) == bare(other)
    }
}

/// What a table is (`relkind`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableKind {
    /// An ordinary table, or a partition that holds rows.
    Table,
    /// A partitioned table: holds no rows itself.
    Partitioned,
    /// A materialized view.
    MaterializedView,
}

/// How old rows are identified in the WAL for logical decoding (`relreplident`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaIdentity {
    /// By the primary key, if there is one.
    Default,
    /// Not at all.
    Nothing,
    /// By the whole old row.
    Full,
    /// By the columns of an index.
    Index,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchemaTable {
    /// `pg_class.oid`.
    pub oid: u32,
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// What it is.
    pub kind: TableKind,
    /// Whether it writes no WAL (`UNLOGGED`).
    pub unlogged: bool,
    /// The partitioned table it is a partition of.
    pub parent: Option<u32>,
    /// How it is partitioned, where it is.
    pub partitioning: Option<Partitioning>,
    /// Replica identity.
    pub replica_identity: ReplicaIdentity,
    /// Storage parameters, name to value, those of its TOAST table as `toast.NAME`.
    pub options: BTreeMap<String, String>,
    /// Its columns in order.
    pub columns: Vec<SchemaColumn>,
    /// Whether all its indexes are in [`SchemaFacts::indexes`].
    pub indexes_complete: bool,
    /// What changes while it is used.
    pub gauges: TableGauges,
}

impl SchemaTable {
    /// `schema.table`, as statistics views are read and joined.
    pub fn qualified(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    /// The name as SQL takes it, quoted where it must be.
    pub fn sql(&self) -> String {
        qualified_identifier(&self.schema, &self.name)
    }

    /// The column with this number (`attnum`).
    pub fn column(&self, number: i16) -> Option<&SchemaColumn> {
        self.columns.iter().find(|column| column.number == number)
    }
}

/// What of a table changes while it is used.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TableGauges {
    /// Estimated rows (`reltuples`); `None` where never vacuumed or analysed.
    pub rows: Option<u64>,
    /// Heap bytes; `None` where the size could not be read.
    pub bytes: Option<u64>,
    /// Bytes of its TOAST table; `None` where it has none.
    pub toast_bytes: Option<u64>,
    /// Live rows as counted (`n_live_tup`).
    pub live_rows: Option<u64>,
    /// Dead rows as counted (`n_dead_tup`).
    pub dead_rows: Option<u64>,
    /// Age of `relfrozenxid`.
    pub xid_age: Option<u64>,
    /// Age of `relminmxid`.
    pub multixact_age: Option<u64>,
}

/// How a table is partitioned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Partitioning {
    /// `pg_get_partkeydef`: `RANGE (created_at)`.
    pub key: String,
    /// Columns of the key; empty for a key of expressions alone.
    pub columns: Vec<String>,
    /// Partitions directly under it.
    pub partitions: u32,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchemaColumn {
    /// `attnum`.
    pub number: i16,
    /// Name.
    pub name: String,
    /// Type as `format_type` writes it.
    pub data_type: String,
    /// Whether it refuses NULL.
    pub not_null: bool,
    /// Default expression, or `identity`.
    pub default: Option<String>,
    /// `attstorage`: p plain, m main, x extended, e external.
    pub storage: char,
    /// Compression chosen for it: `pglz` or `lz4`; `None` takes `default_toast_compression`.
    pub compression: Option<String>,
    /// What `pg_stats` says, where this role may see it and the table was analysed.
    pub statistics: Option<ColumnStatistics>,
}

/// A row of `pg_stats`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnStatistics {
    /// Average width as stored, in bytes; out-of-line values count as their pointer.
    pub average_width: u32,
    /// Share of NULLs, 0 to 1.
    pub null_share: f64,
    /// Correlation of the value with the place in the heap, −1 to 1.
    pub correlation: Option<f64>,
}

/// One index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchemaIndex {
    /// `pg_class.oid`.
    pub oid: u32,
    /// Its table.
    pub table: u32,
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Access method: `btree`, `gin`, `brin`, …
    pub method: String,
    /// Its keys in order, as `pg_get_indexdef` writes them: column names or expressions.
    pub keys: Vec<String>,
    /// Operator class, collation and order of each key, as oids and `indoption`
    /// (`1978/0/0`): equal for keys that sort and compare alike.
    pub key_semantics: Vec<String>,
    /// Column number of each key; 0 for an expression.
    pub key_columns: Vec<i16>,
    /// Names of the columns it carries besides (`INCLUDE`).
    pub included: Vec<String>,
    /// Numbers of all columns it depends on: keys, expressions, predicate, `INCLUDE`.
    pub depends_on: Vec<i16>,
    /// Predicate of a partial index.
    pub predicate: Option<String>,
    /// `pg_get_indexdef`.
    pub definition: String,
    /// Whether it is unique.
    pub unique: bool,
    /// Whether NULLs count as equal (15 on).
    pub nulls_not_distinct: bool,
    /// Whether it is the primary key.
    pub primary: bool,
    /// The constraint it belongs to: primary key, unique or exclusion.
    pub constraint: Option<String>,
    /// Whether a foreign key of another table points at it.
    pub referenced: bool,
    /// Whether it is the replica identity.
    pub replica_identity: bool,
    /// Whether queries may use it.
    pub valid: bool,
    /// The index of the partitioned table that it belongs to.
    pub parent: Option<u32>,
    /// Bytes; `None` where the size could not be read.
    pub bytes: Option<u64>,
    /// Entries (`reltuples`); `None` where never vacuumed or analysed.
    pub rows: Option<u64>,
    /// Scans since statistics began (`idx_scan`).
    pub scans: Option<u64>,
}

impl SchemaIndex {
    /// The name as SQL takes it, quoted where it must be.
    pub fn sql(&self) -> String {
        qualified_identifier(&self.schema, &self.name)
    }
}

/// What a foreign key does when the row it points at goes or changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForeignKeyAction {
    /// `NO ACTION`.
    NoAction,
    /// `RESTRICT`.
    Restrict,
    /// `CASCADE`.
    Cascade,
    /// `SET NULL`.
    SetNull,
    /// `SET DEFAULT`.
    SetDefault,
}

/// One foreign key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForeignKey {
    /// `pg_constraint.oid`.
    pub oid: u32,
    /// Name.
    pub name: String,
    /// The referencing table.
    pub table: u32,
    /// Its columns, by number.
    pub columns: Vec<i16>,
    /// The referenced table.
    pub referenced: u32,
    /// `schema.table` of the referenced table.
    pub referenced_name: String,
    /// Names of the referenced columns.
    pub referenced_columns: Vec<String>,
    /// On delete.
    pub on_delete: ForeignKeyAction,
    /// On update of the referenced key.
    pub on_update: ForeignKeyAction,
    /// Whether it is a partition's share of a foreign key of its parent.
    pub inherited: bool,
}

/// A publication.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Publication {
    /// Name.
    pub name: String,
    /// Whether it publishes all tables.
    pub all_tables: bool,
    /// Whether it publishes updates or deletes, which need a replica identity.
    pub updates_or_deletes: bool,
}

/// A replication slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplicationSlot {
    /// Name.
    pub name: String,
    /// Whether it decodes (logical) rather than streams WAL (physical).
    pub logical: bool,
    /// Whether someone reads from it.
    pub active: bool,
    /// WAL bytes it holds back.
    pub retained_bytes: Option<u64>,
}

/// How a statement's plan treats a partitioned table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartitionPlan {
    /// `queryid`, as text since JSON numbers cannot hold it.
    pub query_id: String,
    /// The partitioned table.
    pub table: u32,
    /// Partitions that the generic plan scans.
    pub scanned: u32,
    /// Partitions there are, with those of sub-partitions.
    pub partitions: u32,
    /// Whether any condition of those scans names a column of the partition key; if
    /// so, executions may still skip partitions.
    pub key_in_conditions: bool,
}

/// An identifier as SQL takes it: quoted unless it is lower case, plain and no
/// keyword that could stand where a name is expected.
pub fn quoted_identifier(name: &str) -> String {
    // Reserved words that are plausible as names of tables and columns; quoting one
    // more name than needed is harmless.
    const RESERVED: [&str; 26] = [
        "all",
        "analyse",
        "analyze",
        "array",
        "check",
        "column",
        "default",
        "desc",
        "do",
        "end",
        "for",
        "from",
        "grant",
        "group",
        "in",
        "limit",
        "offset",
        "on",
        "order",
        "primary",
        "references",
        "select",
        "table",
        "to",
        "user",
        "where",
    ];
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if plain && !RESERVED.contains(&name) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// `schema.name` as SQL takes it.
fn qualified_identifier(schema: &str, name: &str) -> String {
    format!("{}.{}", quoted_identifier(schema), quoted_identifier(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_sql_needs_it() {
        assert_eq!(qualified_identifier("public", "orders"), "public.orders");
        assert_eq!(qualified_identifier("App", "order"), "\"App\".\"order\"");
        assert_eq!(quoted_identifier("we\"ird"), "\"we\"\"ird\"");
        assert_eq!(quoted_identifier("1st"), "\"1st\"");
    }

    #[test]
    fn definitions_are_the_same_whatever_the_sizes() {
        let index = |scans, name: &str| SchemaIndex {
            oid: 2,
            table: 1,
            schema: "public".to_owned(),
            name: name.to_owned(),
            method: "btree".to_owned(),
            keys: vec!["a".to_owned()],
            key_semantics: vec!["1978/0/0".to_owned()],
            key_columns: vec![1],
            included: Vec::new(),
            depends_on: vec![1],
            predicate: None,
            definition: String::new(),
            unique: false,
            nulls_not_distinct: false,
            primary: false,
            constraint: None,
            referenced: false,
            replica_identity: false,
            valid: true,
            parent: None,
            bytes: scans,
            rows: scans,
            scans,
        };
        let facts = |scans, name| SchemaFacts {
            indexes: vec![index(scans, name)],
            database_xid_age: scans,
            ..SchemaFacts::default()
        };
        assert!(facts(Some(1), "i").same_definitions(&facts(Some(9), "i")));
        assert!(!facts(Some(1), "i").same_definitions(&facts(Some(1), "j")));
    }
}
