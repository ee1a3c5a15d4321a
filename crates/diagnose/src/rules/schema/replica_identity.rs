//! D25 and D26: WAL that only logical decoding would read.
//!
//! Old rows are logged for the replica identity only under `wal_level = logical`
//! (`RelationIsLogicallyLogged`), so that below it a full identity costs nothing.
//! Full-page images follow checkpoints, not the identity.

use walwright_record::{ReplicaIdentity, SchemaIndex, SchemaTable};

use super::by_cost;
use super::view::{TableUse, View, bounded};
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Value};

/// Header of a row in the WAL and in the heap.
const ROW_HEADER: f64 = 24.0;
/// Width taken for a column that was not analysed.
const COLUMN: f64 = 8.0;
/// Seconds of the CPU that a byte of WAL takes: copying and checksum, 0.3 to 2 GB/s.
const BYTE: (f64, f64, f64) = (0.5e-9, 1e-9, 3e-9);
/// Share of the WAL that `logical` adds to `replica`: 10 to 12 % of a measured
/// write load; less where most of it is full-page images.
const LOGICAL: (f64, f64, f64) = (0.0, 0.05, 0.12);

/// Part of the time of flushes that goes with the bytes, the rest being a device's
/// latency whatever it is given.
const OF_FLUSH: f64 = 0.3;

pub(super) fn findings(view: &View) -> Vec<Finding> {
    if !view.reading.is_set("wal_level", "logical") {
        return Vec::new();
    }
    let full: Vec<Whole> =
        view.whole_tables().filter_map(|(table, used)| Whole::of(view, table, used)).collect();
    let full = (!full.is_empty()).then(|| by_cost(whole_rows(view, &full)));
    full.into_iter().chain(unneeded(view).map(by_cost)).collect()
}

/// A table whose old rows are logged whole.
struct Whole<'a> {
    table: &'a SchemaTable,
    /// It, or those of its partitions that have the identity.
    parts: Vec<&'a SchemaTable>,
    /// Rows updated or deleted a transaction, and their bytes.
    changed: f64,
    bytes: f64,
}

impl<'a> Whole<'a> {
    fn of(view: &'a View, table: &'a SchemaTable, used: TableUse) -> Option<Whole<'a>> {
        let full = |t: &&SchemaTable| t.replica_identity == ReplicaIdentity::Full;
        let leaves = view.leaves(table);
        let changed = used.updated + used.deleted;
        if table.unlogged || changed <= 0.0 || !leaves.iter().any(full) {
            return None;
        }
        let parent = Some(table).filter(|t| full(t) && t.partitioning.is_some());
        let parts = leaves.into_iter().filter(full).chain(parent).collect();
        Some(Whole { table, parts, changed, bytes: changed * row_width(table) })
    }
}

/// D25.
fn whole_rows(view: &View, tables: &[Whole]) -> Finding {
    let sum = |of: fn(&Whole) -> f64| tables.iter().map(of).sum::<f64>();
    let (changed, bytes) = (sum(|of| of.changed), sum(|of| of.bytes));
    let names: Vec<String> = tables.iter().map(|of| of.table.qualified()).collect();
    let (has, about) = match names.as_slice() {
        [name] => ("has", name.clone()),
        names => ("have", format!("{} tables", names.len())),
    };
    let cause = format!(
        "{} {has} REPLICA IDENTITY FULL, so every updated or deleted row is logged whole beside the new one",
        names.join(", ")
    );
    let mut finding = view
        .finding(DiagnosisId::D25, Kind::Problem, cause)
        .about(about)
        .seen([
            Evidence::new("pg_class.relreplident", "replica identity", Value::Text("full".to_owned())),
            view.evidence(
                "pg_stat_user_tables",
                "rows updated or deleted",
                Value::Count(changed),
            ),
            view.evidence(
                "pg_stats.avg_width",
                "old rows in the WAL, by the widths of their columns",
                Value::Bytes(bytes),
            ),
        ])
        .seen(view.wal_bytes().map(|all| {
            view.evidence("pg_stat_wal.wal_bytes", "WAL in all", Value::Bytes(all))
        }))
        .not_because("full-page images are not of it: they follow checkpoints")
        .blind_to("whether a consumer needs the old values of other columns than the key (change data capture with before-images does)");
    for part in tables.iter().flat_map(|of| &of.parts) {
        finding = finding.advise(identity(view, part));
    }
    let share = view.wal_bytes().map_or(0.0, |all| (bytes / all).min(1.0));
    let flushing = view.flushing() * share;
    let cost =
        bounded(bytes * BYTE.0, bytes * BYTE.1 + OF_FLUSH * flushing, bytes * BYTE.2 + flushing);
    view.costing_wal(finding, cost, 0.0)
}

fn row_width(table: &SchemaTable) -> f64 {
    let columns = table.columns.iter().map(|column| match &column.statistics {
        Some(s) => f64::from(s.average_width) * (1.0 - s.null_share),
        None => COLUMN,
    });
    ROW_HEADER + columns.sum::<f64>()
}

/// The smallest identity there is for a table.
fn identity(view: &View, table: &SchemaTable) -> Action {
    let sql = table.sql();
    let rollback = format!("ALTER TABLE {sql} REPLICA IDENTITY FULL;");
    let indexes: Vec<&SchemaIndex> = view.facts.indexes_of(table.oid).collect();
    if indexes.iter().any(|index| index.primary && index.valid) {
        return Action::ddl(
            "identify old rows by the primary key",
            format!("ALTER TABLE {sql} REPLICA IDENTITY DEFAULT;"),
            rollback,
        );
    }
    // What ALTER TABLE takes: unique, whole, immediate, of columns that are NOT NULL.
    let fits = indexes.iter().find(|index| {
        index.unique
            && index.valid
            && index.predicate.is_none()
            && !index.key_columns.is_empty()
            && index.key_columns.iter().all(|n| table.column(*n).is_some_and(|c| c.not_null))
    });
    match fits {
        Some(index) => Action::ddl(
            "identify old rows by a unique index",
            format!(
                "ALTER TABLE {sql} REPLICA IDENTITY USING INDEX {};",
                walwright_record::quoted_identifier(&index.name)
            ),
            rollback,
        ),
        None => Action::advice(format!(
            "{} has no primary key and no unique index over columns that are NOT NULL: give it one, then set REPLICA IDENTITY DEFAULT",
            table.qualified()
        )),
    }
}

/// D26.
fn unneeded(view: &View) -> Option<Finding> {
    let (slots, publications) = (view.facts.slots.as_ref()?, view.facts.publications.as_ref()?);
    if slots.iter().any(|slot| slot.logical) || !publications.is_empty() {
        return None;
    }
    let finding = view
        .finding(
            DiagnosisId::D26,
            Kind::Problem,
            "wal_level is logical, but no logical slot and no publication of this database would read what it adds",
        )
        .seen([
            Evidence::new("pg_settings", "wal_level", Value::Text("logical".to_owned())),
            Evidence::new("pg_replication_slots", "logical slots", Value::Count(0.0)),
            Evidence::new("pg_publication", "publications", Value::Count(0.0)),
        ])
        .seen(view.wal_bytes().map(|all| {
            view.evidence("pg_stat_wal.wal_bytes", "WAL in all", Value::Bytes(all))
        }))
        .blind_to("tools that make a logical slot only while they work, and publications of other databases");
    let set =
        view.reading.set("wal_level", "replica", "log no more than standbys and archives need");
    let finding = set.into_iter().fold(finding, Finding::advise);
    let bytes = view.wal_bytes().unwrap_or(0.0);
    // A flush is mostly the device's latency: only part of it goes with the bytes.
    let cost = |share: f64, byte: f64| share * (bytes * byte + OF_FLUSH * view.flushing());
    Some(view.costing_wal(
        finding,
        bounded(cost(LOGICAL.0, BYTE.0), cost(LOGICAL.1, BYTE.1), cost(LOGICAL.2, BYTE.2)),
        0.0,
    ))
}

#[cfg(test)]
mod tests {
    use walwright_record::{Publication, ReplicationSlot};

    use super::super::testing::{Testbed, index, primary, table};
    use super::*;

    fn testbed(level: &str) -> Testbed {
        let mut testbed = Testbed::new();
        testbed.build.setting("wal_level", level);
        let full =
            SchemaTable { replica_identity: ReplicaIdentity::Full, ..table(1, "t", &["id", "a"]) };
        testbed.table(full, [("n_tup_upd", 1.0), ("n_tup_hot_upd", 1.0)]);
        testbed.facts.indexes = vec![primary(10, 1)];
        testbed.facts.slots = Some(vec![ReplicationSlot {
            name: "s".into(),
            logical: true,
            active: true,
            retained_bytes: None,
        }]);
        testbed
    }

    #[test]
    fn a_full_identity_costs_under_logical_alone() {
        assert_eq!(testbed("replica").findings(), []);
        let found = testbed("logical").findings();
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(finding.id, DiagnosisId::D25);
        assert_eq!(
            finding.actions[0].command().unwrap(),
            "ALTER TABLE public.t REPLICA IDENTITY DEFAULT;"
        );
        assert_eq!(
            finding.actions[0].rollback.as_deref(),
            Some("ALTER TABLE public.t REPLICA IDENTITY FULL;")
        );
        // E4: images are blamed on checkpoints.
        assert!(finding.ruled_out[0].contains("checkpoints"));
    }

    #[test]
    fn without_a_primary_key_a_unique_index_must_fit() {
        let mut testbed = testbed("logical");
        testbed.facts.indexes = vec![SchemaIndex { unique: true, ..index(11, 1, "u", &[2]) }];
        let command = testbed.findings()[0].actions[0].command().unwrap();
        assert_eq!(command, "ALTER TABLE public.t REPLICA IDENTITY USING INDEX u;");
        testbed.facts.tables[0].columns[1].not_null = false;
        assert_eq!(testbed.findings()[0].actions[0].command(), None);
    }

    #[test]
    fn logical_without_a_reader_is_not_needed() {
        let ids =
            |testbed: &mut Testbed| testbed.findings().iter().map(|f| f.id).collect::<Vec<_>>();
        let mut testbed = testbed("logical");
        testbed.facts.tables[0].replica_identity = ReplicaIdentity::Default;
        assert_eq!(ids(&mut testbed), []);
        testbed.facts.slots = Some(Vec::new());
        assert_eq!(ids(&mut testbed), [DiagnosisId::D26]);
        testbed.facts.publications = Some(vec![Publication {
            name: "p".into(),
            all_tables: true,
            updates_or_deletes: true,
        }]);
        assert_eq!(ids(&mut testbed), []);
        testbed.facts.publications = None;
        assert_eq!(ids(&mut testbed), [], "unknown is not none");
    }
}
