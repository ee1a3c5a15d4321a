//! D28: indexes that cost on every write and serve nothing.
//!
//! Kept out: primary keys, unique indexes (they refuse rows), exclusion constraints,
//! indexes a foreign key points at or is checked by, the replica identity, and
//! partitions of an index (their parent speaks for them).
//!
//! A B-tree entry takes 1 to 10 µs of CPU on cached pages; the statements that write
//! the table bound it from above by the share that indexes have of a row's work.

use walwright_record::{SchemaIndex, SchemaTable, TableKind, TargetKind};
use walwright_stats::Estimate;

use super::by_cost;
use super::foreign_keys::supports;
use super::view::{TableUse, View, bounded};
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Value};

/// Seconds of one entry.
const ENTRY: (f64, f64, f64) = (1e-6, 3e-6, 10e-6);
/// Work of one row besides its index entries, in entries: parsing, planning or
/// binding, the executor, the heap, the WAL record.
const REST_OF_A_ROW: f64 = 4.0;
/// Seconds of a block that is read from outside shared buffers.
const READ: (f64, f64) = (20e-6, 200e-6);
/// Indexes and tables that a finding names; the others are counted.
const NAMED: usize = 6;
/// On a server of someone's own, statistics this old have seen the weekly job.
const LONG_ENOUGH_DAYS: f64 = 8.0;

/// Why an index is not needed.
enum Unneeded<'a> {
    /// The same keys as another.
    Duplicate(&'a SchemaIndex),
    /// The keys begin another's.
    Prefix(&'a SchemaIndex),
    /// No query may use it.
    Invalid,
    /// No query used it.
    Unused,
}

/// The indexes of one table that are not needed: what they cost is felt together.
struct Needless<'a> {
    table: &'a SchemaTable,
    used: TableUse,
    indexes: Vec<(&'a SchemaIndex, Unneeded<'a>)>,
    cost: Estimate,
}

pub(super) fn findings(view: &View) -> Vec<Finding> {
    let mut tables: Vec<Needless> =
        view.whole_tables().filter_map(|(table, used)| needless(view, table, used)).collect();
    if tables.is_empty() {
        return Vec::new();
    }
    tables.sort_by(|a, b| b.cost.center.total_cmp(&a.cost.center));
    let reasons = || tables.iter().flat_map(|of| &of.indexes);
    let only_unused = reasons().all(|(_, why)| matches!(why, Unneeded::Unused));
    let found = by_cost(finding(view, &tables));
    vec![if only_unused { warning(view, found) } else { found }]
}

fn needless<'a>(view: &'a View, table: &'a SchemaTable, used: TableUse) -> Option<Needless<'a>> {
    let of = needless_of(view, table, used);
    if of.is_empty() {
        return None;
    }
    let oids: Vec<u32> = of.iter().map(|(index, _)| index.oid).collect();
    let all = view.facts.indexes_of(table.oid).count();
    let entries = cost(view, table, used, &oids, all);
    // Where they alone keep updates from being HOT, the entries in all others go with them.
    let updates = super::hot::is_blocked_by(view, table, used, &oids)
        .then(|| super::hot::cost(view, table, used, all));
    let cost = updates.filter(|of| of.center > entries.center).unwrap_or(entries);
    Some(Needless { table, used, indexes: of, cost })
}

/// The indexes of a table that are not needed, with the reason.
fn needless_of<'a>(
    view: &'a View,
    table: &'a SchemaTable,
    used: TableUse,
) -> Vec<(&'a SchemaIndex, Unneeded<'a>)> {
    if used.index_entries() <= 0.0 || !table.indexes_complete {
        return Vec::new();
    }
    let indexes: Vec<&SchemaIndex> = view.facts.indexes_of(table.oid).collect();
    let needless = indexes.iter().filter_map(|index| {
        let why = unneeded(view, table, index, &indexes)?;
        Some((*index, why))
    });
    needless.collect()
}

/// Whether an index of a table is not needed.
pub(super) fn is_needless(view: &View, table: &SchemaTable, used: TableUse, index: u32) -> bool {
    needless_of(view, table, used).iter().any(|(of, _)| of.oid == index)
}

fn unneeded<'i>(
    view: &View,
    table: &SchemaTable,
    index: &'i SchemaIndex,
    all: &[&'i SchemaIndex],
) -> Option<Unneeded<'i>> {
    let bound = index.primary || index.constraint.is_some() || index.referenced;
    if bound || index.replica_identity || index.parent.is_some() {
        return None;
    }
    if !index.valid {
        // A partitioned index is invalid until all partitions have theirs.
        return (table.kind != TableKind::Partitioned).then_some(Unneeded::Invalid);
    }
    let others = || all.iter().copied().filter(|other| other.oid != index.oid && other.valid);
    if let Some(twin) = others().find(|other| replaces_whole(other, index)) {
        return Some(Unneeded::Duplicate(twin));
    }
    if index.unique {
        return None;
    }
    if let Some(longer) = others().find(|other| extends(other, index)) {
        return Some(Unneeded::Prefix(longer));
    }
    // What an index that goes served, this one will serve.
    let heir = others().filter(|other| replaces_whole(index, other) || extends(index, other));
    let scans = heir.chain([index]).map(|of| view.scans(of.oid)).sum::<Option<f64>>();
    let unused = scans.is_some_and(|scans| scans <= 0.0);
    (unused && !serves_a_key(view, table, index)).then_some(Unneeded::Unused)
}

/// Whether the catalog's foreign keys are unknown, or one of the table needs the index.
fn serves_a_key(view: &View, table: &SchemaTable, index: &SchemaIndex) -> bool {
    view.facts.foreign_keys.as_ref().is_none_or(|keys| {
        keys.iter().any(|key| key.table == table.oid && supports(table, index, &key.columns))
    })
}

fn alike(a: &SchemaIndex, b: &SchemaIndex) -> bool {
    (&a.method, &a.predicate) == (&b.method, &b.predicate)
}

/// Whether `other` does all that `index` does, key for key. Of two that are equal in
/// everything the older stays, unless the younger belongs to a constraint.
fn replaces_whole(other: &SchemaIndex, index: &SchemaIndex) -> bool {
    let carries = index.included.iter().all(|column| other.included.contains(column));
    let stronger = other.unique || !index.unique;
    let same_nulls = !index.unique || other.nulls_not_distinct == index.nulls_not_distinct;
    let mutual = index.unique == other.unique
        && index.included.len() == other.included.len()
        && other.constraint.is_none()
        && !other.referenced
        && !other.replica_identity;
    alike(other, index)
        && (&other.keys, &other.key_semantics) == (&index.keys, &index.key_semantics)
        && carries
        && stronger
        && same_nulls
        && (!mutual || other.oid < index.oid)
}

/// Whether the keys of `index` begin those of `other`. Only a B-tree serves its prefixes.
fn extends(other: &SchemaIndex, index: &SchemaIndex) -> bool {
    let keys = index.keys.len();
    alike(other, index)
        && index.method == "btree"
        && index.included.is_empty()
        && other.keys.len() > keys
        && other.keys[..keys] == index.keys[..]
        && other.key_semantics.get(..keys) == Some(&index.key_semantics[..])
}

/// What is wrong with one index, as a clause.
fn clause(index: &SchemaIndex, why: &Unneeded) -> String {
    let name = &index.name;
    match why {
        Unneeded::Duplicate(twin) => format!("{name} does nothing that {} does not do", twin.name),
        Unneeded::Prefix(longer) => {
            format!(
                "the keys of {name} begin those of {}, which serves the same queries",
                longer.name
            )
        }
        Unneeded::Invalid => {
            format!("{name} is invalid: every write maintains it and no query may use it")
        }
        Unneeded::Unused => format!("no query has used {name}"),
    }
}

/// What indexes of one table, or of several, cost without need.
fn finding(view: &View, tables: &[Needless]) -> Finding {
    let all: Vec<(&SchemaTable, &SchemaIndex, &Unneeded)> = tables
        .iter()
        .flat_map(|of| of.indexes.iter().map(|(index, why)| (of.table, *index, why)))
        .collect();
    let clauses: Vec<String> = all.iter().take(NAMED).map(|(_, i, why)| clause(i, why)).collect();
    let more = match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more alike"),
    };
    let what = match all.len() {
        1 => "an index".to_owned(),
        several => format!("{several} indexes"),
    };
    let names: Vec<String> = tables.iter().map(|of| of.table.qualified()).collect();
    let (written, about) = match (names.as_slice(), all.as_slice()) {
        ([name], [(_, index, _)]) => (name.clone(), format!("{}.{}", index.schema, index.name)),
        ([name], _) => (name.clone(), name.clone()),
        (names, _) => {
            (names.join(", "), format!("{} indexes of {} tables", all.len(), names.len()))
        }
    };
    let cause = format!(
        "Every row written to {written} maintains {what} without need: {}{more}",
        clauses.join("; ")
    );
    let mut finding = view.finding(DiagnosisId::D28, Kind::Problem, cause).about(about);
    for of in tables.iter().take(NAMED) {
        let entries =
            "row versions that need an entry in each (inserts and updates that are not HOT)";
        let what = match tables.len() {
            1 => entries.to_owned(),
            _ => format!("{}: {entries}", of.table.qualified()),
        };
        let entries = Value::Count(of.used.index_entries());
        finding = finding.seen([view.evidence("pg_stat_user_tables", &what, entries)]);
    }
    for (_, index, _) in all.iter().take(NAMED) {
        let scans = view.scans(index.oid).map(|scans| {
            let what = format!("scans of {} since statistics began", index.name);
            Evidence::new("pg_stat_user_indexes.idx_scan", what, Value::Count(scans))
        });
        let size = index.bytes.filter(|bytes| *bytes > 0).map(|bytes| {
            let what = format!("size of {}", index.name);
            Evidence::new("pg_relation_size", what, Value::Bytes(bytes as f64))
        });
        finding = finding.seen(scans).seen(size);
    }
    let drops: Vec<String> = all
        .iter()
        .map(|(table, index, _)| match table.kind {
            TableKind::Partitioned => format!("DROP INDEX {};", index.sql()),
            _ => format!("DROP INDEX CONCURRENTLY {};", index.sql()),
        })
        .collect();
    let makes: Vec<String> = all
        .iter()
        .map(|(table, index, _)| format!("{};", concurrently(&index.definition, table)))
        .collect();
    let title = match all.as_slice() {
        [(_, index, _)] => format!("drop {}", index.name),
        _ => "drop them, one statement at a time".to_owned(),
    };
    finding = finding.advise(Action::ddl(title, drops.join("\n"), makes.join("\n")));
    let sum = |of: fn(&Estimate) -> f64| tables.iter().map(|t| of(&t.cost)).sum::<f64>();
    let cost = bounded(
        sum(|cost| cost.low().unwrap_or(0.0)),
        sum(|cost| cost.center),
        sum(|cost| cost.high().unwrap_or(cost.center)),
    );
    view.costing_cpu(finding, cost)
}

/// What these of so many indexes cost a transaction.
fn cost(
    view: &View,
    table: &SchemaTable,
    used: TableUse,
    needless: &[u32],
    indexes: usize,
) -> Estimate {
    let number = needless.len() as f64;
    let entries = used.index_entries() * number;
    let writing = view.all_working(&view.writers(table, &["insert", "copy", "merge"]))
        + view.all_working(&view.writers(table, &["update"]))
            * (1.0 - used.hot / used.updated.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
    let reads: f64 = needless.iter().filter_map(|index| view.index_reads(*index)).sum();
    let share = number / (indexes as f64 + REST_OF_A_ROW);
    let low = entries * ENTRY.0 + reads * READ.0;
    if writing <= 0.0 {
        return bounded(
            low,
            entries * ENTRY.1 + reads * READ.0,
            entries * ENTRY.2 + reads * READ.1,
        );
    }
    // Each entry is a WAL record as the row is: commits flush less without them.
    let flushing = view.flushing() * number / (indexes as f64 + 1.0);
    let high = (writing * number / (indexes as f64 + 1.0)).max(reads * READ.1).min(writing);
    bounded(low, writing * share, high + flushing)
}

/// What "never used" rests on.
fn warning(view: &View, mut finding: Finding) -> Finding {
    let target = view.reading.record.target.as_ref();
    if target.is_none_or(|t| t.kind == TargetKind::Attached) {
        let since = view.facts.stats_reset;
        let days = since.map(|reset| view.facts.at.since(reset).as_secs_f64() / 86_400.0);
        if days.is_none_or(|days| days < LONG_ENOUGH_DAYS) {
            finding = finding.blind_to(match days {
                Some(days) => format!("use before the statistics began {days:.1} days ago"),
                None => "since when scans are counted: the statistics were never reset, or it is not known when".to_owned(),
            });
        }
    }
    finding.blind_to("use on standbys: scans there are counted there")
}

/// The definition, as a statement that does not lock writers out where it can.
fn concurrently(definition: &str, table: &SchemaTable) -> String {
    if table.kind == TableKind::Partitioned {
        return definition.to_owned();
    }
    for begins in ["CREATE INDEX ", "CREATE UNIQUE INDEX "] {
        if let Some(rest) = definition.strip_prefix(begins) {
            return format!("{begins}CONCURRENTLY {rest}");
        }
    }
    definition.to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Testbed, foreign_key, index, primary, table};
    use super::*;
    use walwright_testing::named;

    fn testbed(indexes: Vec<SchemaIndex>) -> Testbed {
        let mut testbed = Testbed::new();
        testbed.table(table(1, "t", &["id", "a", "b"]), [("n_tup_ins", 10.0)]);
        testbed.facts.indexes = vec![primary(10, 1)];
        testbed.facts.indexes.extend(indexes);
        testbed.statement(7, "INSERT INTO t VALUES ($1, $2, $3)", 10.0, 0.02);
        testbed
    }

    fn subjects(mut testbed: Testbed) -> Vec<String> {
        let found = testbed.findings().into_iter().filter(|f| f.id == DiagnosisId::D28);
        found.filter_map(|f| f.subject).collect()
    }

    #[test]
    fn duplicates_and_prefixes_are_found_and_constraints_are_kept() {
        let twins = || vec![index(11, 1, "first", &[2]), index(12, 1, "second", &[2])];
        assert_eq!(subjects(testbed(twins())), ["public.second"]);
        // All scans went to the twin that goes: the one that stays will have them.
        let mut idle = twins();
        idle[0].scans = Some(0);
        assert_eq!(subjects(testbed(idle)), ["public.second"]);
        let unique = SchemaIndex { unique: true, ..index(12, 1, "second", &[2]) };
        assert_eq!(subjects(testbed(vec![index(11, 1, "first", &[2]), unique])), ["public.first"]);
        let prefix = vec![index(11, 1, "short", &[2]), index(12, 1, "long", &[2, 3])];
        assert_eq!(subjects(testbed(prefix)), ["public.short"]);
        // Another order, another condition, another method: not the same.
        for other in [
            SchemaIndex { key_semantics: vec!["1/0/3".into()], ..index(12, 1, "x", &[2]) },
            SchemaIndex { predicate: Some("(a > 5)".into()), ..index(12, 1, "x", &[2]) },
            SchemaIndex { method: "hash".into(), ..index(12, 1, "x", &[2]) },
        ] {
            assert_eq!(subjects(testbed(vec![index(11, 1, "first", &[2]), other])), [""; 0]);
        }
        // A copy of the primary key is the copy that goes.
        // Also where it is the older one.
        assert_eq!(subjects(testbed(vec![index(9, 1, "copy", &[1])])), ["public.copy"]);
    }

    #[test]
    fn an_unused_index_is_one_that_nothing_needs() {
        let unused = || SchemaIndex { scans: Some(0), ..index(11, 1, "unused", &[2]) };
        assert_eq!(subjects(testbed(vec![unused()])), ["public.unused"]);
        // Scans seen in the window count, though there were none when it began.
        let mut scanned = testbed(vec![unused()]);
        for (at, scans) in [(0.0, 0.0), (25.0, 3.0)] {
            let mut row = named([], [("idx_scan", scans)]);
            row.set("indexrelid", 11_i64);
            scanned.build.sample(at, walwright_record::Source::Indexes, [row]);
        }
        assert_eq!(subjects(scanned), [""; 0]);
        for needed in [
            SchemaIndex { unique: true, ..unused() },
            SchemaIndex { constraint: Some("excluded".into()), ..unused() },
            SchemaIndex { replica_identity: true, ..unused() },
            SchemaIndex { referenced: true, ..unused() },
            SchemaIndex { scans: None, ..unused() },
        ] {
            assert_eq!(subjects(testbed(vec![needed])), [""; 0]);
        }
        let mut supporting = testbed(vec![unused()]);
        supporting.facts.foreign_keys = Some(vec![foreign_key(30, 1, 2, 9)]);
        assert_eq!(subjects(supporting), [""; 0]);
        let mut unknown_keys = testbed(vec![unused()]);
        unknown_keys.facts.foreign_keys = None;
        assert_eq!(subjects(unknown_keys), [""; 0]);
        let mut unwritten = testbed(vec![unused()]);
        unwritten.build.record.samples.remove(&walwright_record::Source::Tables);
        unwritten.facts.tables.clear();
        unwritten.table(table(1, "t", &["id", "a"]), [("seq_scan", 1.0)]);
        assert_eq!(subjects(unwritten), [""; 0]);
    }

    #[test]
    fn the_cost_is_a_share_of_the_writes() {
        let mut testbed = testbed(vec![index(11, 1, "first", &[2]), index(12, 1, "second", &[2])]);
        let found = testbed.findings();
        let impact = found[0].impact.as_ref().unwrap();
        // Ten inserts of 20 µs, one of three indexes and four parts of other work.
        assert!((impact.per_transaction.center - 200e-6 / 7.0).abs() < 1e-9, "{impact:?}");
        assert_eq!(
            found[0].actions[0].command().unwrap(),
            "DROP INDEX CONCURRENTLY public.second;"
        );
        assert!(
            found[0].actions[0]
                .rollback
                .as_ref()
                .unwrap()
                .starts_with("CREATE INDEX CONCURRENTLY second")
        );
    }
}
