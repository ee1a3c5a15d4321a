//! Small schemas with a load on them, for the tests of these rules.

use std::collections::BTreeMap;

use walwright_record::{
    ForeignKey, ForeignKeyAction, ReplicaIdentity, Row, SchemaColumn, SchemaFacts, SchemaIndex,
    SchemaTable, Source, TableGauges, TableKind,
};
use walwright_testing::{Build, named, row};

use crate::{Finding, Reading};

/// A table whose columns are all `bigint`.
pub(super) fn table(oid: u32, name: &str, columns: &[&str]) -> SchemaTable {
    let columns = columns.iter().enumerate().map(|(place, name)| SchemaColumn {
        number: place as i16 + 1,
        name: (*name).to_owned(),
        data_type: "bigint".to_owned(),
        not_null: true,
        default: None,
        storage: 'p',
        compression: None,
        statistics: None,
    });
    SchemaTable {
        oid,
        schema: "public".to_owned(),
        name: name.to_owned(),
        kind: TableKind::Table,
        unlogged: false,
        parent: None,
        partitioning: None,
        replica_identity: ReplicaIdentity::Default,
        options: BTreeMap::new(),
        columns: columns.collect(),
        indexes_complete: true,
        gauges: TableGauges {
            rows: Some(100_000),
            bytes: Some(10_000_000),
            live_rows: Some(100_000),
            ..TableGauges::default()
        },
    }
}

/// A B-tree over columns of a table.
pub(super) fn index(oid: u32, table: u32, name: &str, columns: &[i16]) -> SchemaIndex {
    SchemaIndex {
        oid,
        table,
        schema: "public".to_owned(),
        name: name.to_owned(),
        method: "btree".to_owned(),
        keys: columns.iter().map(|n| format!("c{n}")).collect(),
        key_semantics: columns.iter().map(|_| "1/0/0".to_owned()).collect(),
        key_columns: columns.to_vec(),
        included: Vec::new(),
        depends_on: columns.to_vec(),
        predicate: None,
        definition: format!("CREATE INDEX {name} ON public.t USING btree (c)"),
        unique: false,
        nulls_not_distinct: false,
        primary: false,
        constraint: None,
        referenced: false,
        replica_identity: false,
        valid: true,
        parent: None,
        bytes: Some(1 << 20),
        rows: Some(100_000),
        scans: Some(5),
    }
}

/// A primary key.
pub(super) fn primary(oid: u32, table: u32) -> SchemaIndex {
    SchemaIndex {
        unique: true,
        primary: true,
        constraint: Some("pkey".to_owned()),
        scans: Some(0),
        ..index(oid, table, "pkey", &[1])
    }
}

/// A foreign key from a column of one table to the first of another.
pub(super) fn foreign_key(oid: u32, table: u32, column: i16, referenced: u32) -> ForeignKey {
    ForeignKey {
        oid,
        name: format!("fk{oid}"),
        table,
        columns: vec![column],
        referenced,
        referenced_name: "public.parent".to_owned(),
        referenced_columns: vec!["id".to_owned()],
        on_delete: ForeignKeyAction::NoAction,
        on_update: ForeignKeyAction::NoAction,
        inherited: false,
    }
}

/// A load of 100 transactions of 2 ms a second for 30 s on a schema.
pub(super) struct Testbed {
    pub(super) build: Build,
    pub(super) facts: SchemaFacts,
}

impl Testbed {
    pub(super) fn new() -> Testbed {
        let mut build = Build::new();
        build.load(0, 30, 100).measure(0.0, 30.0);
        let facts = SchemaFacts {
            foreign_keys: Some(Vec::new()),
            publications: Some(Vec::new()),
            slots: Some(Vec::new()),
            ..SchemaFacts::default()
        };
        Testbed { build, facts }
    }

    /// Adds a table with what a transaction does to it, column by column.
    pub(super) fn table<const N: usize>(
        &mut self,
        table: SchemaTable,
        per_transaction: [(&str, f64); N],
    ) -> &mut Self {
        let columns =
            ["n_tup_ins", "n_tup_upd", "n_tup_hot_upd", "n_tup_del", "seq_scan", "seq_tup_read"];
        for s in [0.0, 5.0, 10.0, 15.0, 20.0, 25.0] {
            let mut row = named([("schemaname", "public"), ("relname", &table.name)], []);
            row.set("relid", i64::from(table.oid));
            for column in columns {
                row.set(column, 0.0);
            }
            for (column, n) in per_transaction {
                // Gauges are as they stand; counters grow.
                let gauge = matches!(column, "n_dead_tup" | "n_live_tup" | "reltuples");
                row.set(column, if gauge { n } else { n * 100.0 * s });
            }
            self.row(s, Source::Tables, row);
        }
        self.facts.tables.push(table);
        self
    }

    /// Adds a statement with calls and milliseconds a call.
    pub(super) fn statement(&mut self, id: i64, text: &str, calls: f64, ms: f64) -> &mut Self {
        self.writing(id, text, calls, ms, 0.0)
    }

    /// Adds a statement with calls, and milliseconds and records of WAL a call.
    pub(super) fn writing(
        &mut self,
        id: i64,
        text: &str,
        calls: f64,
        ms: f64,
        records: f64,
    ) -> &mut Self {
        for s in [0.0, 5.0, 10.0, 15.0, 20.0, 25.0] {
            let n = calls * 100.0 * s;
            let mut row = row([("calls", n), ("total_exec_time", n * ms), ("wal_fpi", 0.5 * n)]);
            row.set("wal_records", n * records);
            row.set("queryid", id).set("userid", 10_i64).set("dbid", 5_i64).set("toplevel", true);
            row.set("query", text);
            self.row(s, Source::Statements, row);
        }
        self
    }

    /// Scans of an index a transaction.
    pub(super) fn scans(&mut self, index: u32, each: f64) -> &mut Self {
        for s in [0.0, 5.0, 10.0, 15.0, 20.0, 25.0] {
            let mut row = named([], [("idx_scan", each * 100.0 * s)]);
            row.set("indexrelid", i64::from(index));
            self.row(s, Source::Indexes, row);
        }
        self
    }

    fn row(&mut self, at: f64, source: Source, row: Row) {
        let samples = self.build.record.samples.entry(source).or_default();
        let moment = walwright_testing::second(at);
        match samples.iter_mut().find(|sample| sample.at == moment) {
            Some(sample) => sample.rows.push(row),
            None => {
                self.build.sample(at, source, [row]);
            }
        }
    }

    /// What the rules of the schema find.
    pub(super) fn findings(&mut self) -> Vec<Finding> {
        self.build.record.schema = Some(self.facts.clone());
        super::findings(&Reading::new(&self.build.record).expect("a window"))
    }
}
