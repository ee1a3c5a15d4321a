//! D15 and D19: what foreign keys cost.
//!
//! A delete of a referenced row, or an update of its key, looks for rows that point
//! at it. Without an index on the referencing side that reads the whole table: each page is
//! looked up in the buffers, each row version checked. What that takes is a model; the
//! statement that fires it holds the true cost, so its time is the upper bound. Where it is
//! fired inside a function, it is in the statement that calls the function.
//!
//! An insert on the referencing side locks the referenced row (`FOR KEY SHARE`), one
//! look-up of 3 to 30 µs for each key.

use walwright_figures::WaitClass;
use walwright_record::{
    ForeignKey, Row, SchemaIndex, SchemaTable, Source, TableKind, quoted_identifier,
};
use walwright_stats::{Estimate, Interval};

use super::super::threshold::worth;
use super::by_cost;
use super::statement_text::columns_set;
use super::view::{View, bounded};
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Relief, Value};

/// Seconds that a sequential scan with one condition takes a row in shared buffers, and a
/// page beside its rows.
const ROW: (f64, f64, f64) = (10e-9, 50e-9, 150e-9);
const PAGE: (f64, f64, f64) = (0.2e-6, 0.5e-6, 2e-6);
/// Times its centre that the model's cost may be, where it is a share of a statement's time.
const MOST_OFF: f64 = 3.0;
/// Seconds that a delete or update by key takes without the scan.
const BY_KEY: f64 = 100e-6;
/// Seconds of one look-up of the referenced row.
const CHECK: (f64, f64, f64) = (3e-6, 8e-6, 30e-6);
/// Looks at members of multixacts a transaction from which rows are shared as a rule.
const SHARED: f64 = 0.5;
/// What sessions wait for that lock the same row: its page, and the multixact.
const LOCKING: [&str; 7] = [
    "buffercontent",
    "multixactgen",
    "multixactoffsetbuffer",
    "multixactoffsetslru",
    "multixactmemberbuffer",
    "multixactmemberslru",
    "multixacttruncation",
];
/// Checks of foreign keys by name in the statements that PostgreSQL runs for them.
const KEY_SHARE: &str = "for key share of x";

pub(super) fn findings(view: &View) -> Vec<Finding> {
    let Some(keys) = &view.facts.foreign_keys else { return Vec::new() };
    let own: Vec<&ForeignKey> = keys.iter().filter(|key| !key.inherited).collect();
    let unindexed = own.iter().filter_map(|key| unindexed(view, key));
    let duplicates = own.iter().filter_map(|key| duplicate(view, key, &own));
    unindexed.chain(duplicates).chain(checks(view)).chain(crowded(view, &own)).collect()
}

/// D15.
fn unindexed(view: &View, key: &ForeignKey) -> Option<Finding> {
    let table = view.facts.table(key.table)?;
    let referenced = view.facts.table(key.referenced)?;
    if !table.indexes_complete || covered(view, table, key) {
        return None;
    }
    let (child, parent) = (view.used(table)?, view.used(referenced)?);
    let rekeyed: Vec<_> = view
        .writers(referenced, &["update", "insert", "merge"])
        .into_iter()
        .filter(|s| {
            let set = columns_set(s.plain());
            key.referenced_columns.iter().any(|c| set.contains(&c.to_lowercase()))
        })
        .collect();
    let rekeys = if rekeyed.is_empty() { 0.0 } else { parent.updated };
    let fired = parent.deleted + rekeys;
    // Each fired check reads every partition of the referencing table.
    let partitions = view.leaves(table).len().max(1) as f64;
    let scans = child.sequential_scans / partitions;
    if fired <= 0.0 || scans < 0.5 * fired {
        return None;
    }
    let by_checks = (fired / scans).min(1.0);
    let rows = child.rows_by_sequential_scans * by_checks;
    let mut firing = view.writers(referenced, &["delete", "merge"]);
    firing.extend(rekeyed.iter().copied().filter(|s| s.verb() != "merge"));
    let pages = view.pages(table) * child.sequential_scans / partitions * by_checks;
    let scanning = |row: f64, page: f64| rows * row + pages * page;
    let [low, center, high] =
        [(ROW.0, PAGE.0), (ROW.1, PAGE.1), (ROW.2, PAGE.2)].map(|(row, page)| scanning(row, page));
    let calls: f64 = firing.iter().map(|s| s.calls).sum();
    let work = view.reading.statements.as_ref().map_or(1.0, |s| s.work.count);
    // A delete that cascades from a third table, or that a function runs, is in other
    // statements: those that touch about as many blocks as the scans do.
    let hidden = firing.is_empty();
    if hidden {
        firing = view.touching(pages);
    }
    let cost = match view.all_working(&firing) {
        time if time > 0.0 && !hidden => bounded(low, time - BY_KEY * calls / work, time),
        // On a crowded machine the statement takes longer than the model says, in proportion.
        time if time > 0.0 => {
            let share = pages / view.blocks(&firing).max(pages);
            let center = center.max(share * time);
            bounded(low, center, time.max(center).min(high.max(MOST_OFF * center)))
        }
        _ => bounded(low, center, high),
    };
    let columns: Vec<&str> = key
        .columns
        .iter()
        .filter_map(|number| table.column(*number))
        .map(|column| column.name.as_str())
        .collect();
    let cause = format!(
        "Foreign key {} of {} has no index on ({}), so each delete or key change in {} reads the whole of it",
        key.name,
        table.qualified(),
        columns.join(", "),
        key.referenced_name,
    );
    let mut finding = view
        .finding(DiagnosisId::D15, Kind::Problem, cause)
        .about(format!("{}.{}", table.qualified(), key.name))
        .seen([
            view.evidence(
                "pg_stat_user_tables.seq_scan",
                &format!("sequential scans of {}", table.qualified()),
                Value::Count(child.sequential_scans),
            ),
            view.evidence(
                "pg_stat_user_tables.seq_tup_read",
                "rows read by them",
                Value::Count(child.rows_by_sequential_scans),
            ),
            view.evidence(
                "pg_stat_user_tables",
                &format!("rows of {} deleted or given another key", key.referenced_name),
                Value::Count(fired),
            ),
        ])
        .seen(firing.first().map(|s| {
            Evidence::new(
                "pg_stat_statements",
                match hidden {
                    true => format!("mean time of `{}`, which runs such a statement", s.short()),
                    false => format!("mean time of `{}`", s.short()),
                },
                Value::Seconds(s.seconds() / s.calls),
            )
            .per(crate::Per::Call)
        }))
        .advise(create_index(table, &columns));
    if by_checks < 1.0 {
        finding = finding.blind_to(format!(
            "which of the {scans:.2} sequential scans a transaction are the foreign key's: other statements scan {} too",
            table.qualified()
        ));
    }
    Some(view.costing_execution(finding, cost))
}

fn create_index(table: &SchemaTable, columns: &[&str]) -> Action {
    let list: Vec<String> = columns.iter().map(|c| quoted_identifier(c)).collect();
    let mut name = format!("{}_{}_idx", table.name, columns.join("_"));
    while name.len() > 63 {
        name.pop();
    }
    let index = quoted_identifier(&name);
    // A partitioned table takes no CONCURRENTLY.
    let how = if table.kind == TableKind::Partitioned { "" } else { " CONCURRENTLY" };
    Action::ddl(
        "index the referencing columns; each write to the table then maintains one index more",
        format!("CREATE INDEX{how} {index} ON {} ({});", table.sql(), list.join(", ")),
        format!("DROP INDEX{how} {}.{index};", quoted_identifier(&table.schema)),
    )
}

/// Whether an index finds the rows that point at a referenced row.
fn covered(view: &View, table: &SchemaTable, key: &ForeignKey) -> bool {
    let by = |of: &SchemaTable, columns: &[i16]| {
        view.facts.indexes_of(of.oid).any(|index| supports(of, index, columns))
    };
    if by(table, &key.columns) {
        return true;
    }
    // Partitions may number their columns otherwise than their parent, and be indexed
    // one by one.
    let leaves: Vec<&SchemaTable> =
        view.facts.tables.iter().filter(|t| t.parent == Some(table.oid)).collect();
    let names: Vec<&str> =
        key.columns.iter().filter_map(|n| Some(table.column(*n)?.name.as_str())).collect();
    !leaves.is_empty()
        && leaves.iter().all(|leaf| {
            let columns: Vec<i16> = leaf
                .columns
                .iter()
                .filter(|c| names.contains(&c.name.as_str()))
                .map(|c| c.number)
                .collect();
            columns.len() == names.len() && by(leaf, &columns)
        })
}

/// Whether an index serves `column = value` for all of these columns: its first keys
/// are they, in any order, and it holds every row whose columns are not NULL.
pub(super) fn supports(table: &SchemaTable, index: &SchemaIndex, columns: &[i16]) -> bool {
    let Some(first) = index.key_columns.get(..columns.len()) else { return false };
    let whole = index.predicate.as_ref().is_none_or(|predicate| {
        columns.iter().filter_map(|number| table.column(*number)).any(|column| {
            let bare = predicate.trim_matches(['(', ')']).replace('"', "");
            bare == format!("{} IS NOT NULL", column.name)
        })
    });
    index.valid
        && whole
        && matches!(index.method.as_str(), "btree" | "hash")
        && columns.iter().all(|column| first.contains(column))
}

/// D19: the same check twice.
fn duplicate(view: &View, key: &ForeignKey, all: &[&ForeignKey]) -> Option<Finding> {
    let twin = all.iter().find(|other| {
        other.oid < key.oid
            && (other.table, other.referenced) == (key.table, key.referenced)
            && other.columns == key.columns
            && other.referenced_columns == key.referenced_columns
            && (other.on_delete, other.on_update) == (key.on_delete, key.on_update)
    })?;
    let table = view.facts.table(key.table)?;
    let used = view.used(table)?;
    let rows = used.inserted;
    if rows <= 0.0 {
        return None;
    }
    let cause = format!(
        "{} and {} are the same foreign key of {}, so every inserted row is checked twice",
        twin.name,
        key.name,
        table.qualified()
    );
    let names: Vec<String> = key
        .columns
        .iter()
        .filter_map(|number| Some(quoted_identifier(&table.column(*number)?.name)))
        .collect();
    let referenced: Vec<String> =
        key.referenced_columns.iter().map(|name| quoted_identifier(name)).collect();
    let target = view.facts.table(key.referenced)?;
    let constraint = quoted_identifier(&key.name);
    let finding = view
        .finding(DiagnosisId::D19, Kind::Problem, cause)
        .about(format!("{}.{}", table.qualified(), key.name))
        .seen([view.evidence("pg_stat_user_tables.n_tup_ins", "rows inserted", Value::Count(rows))])
        .advise(Action::ddl(
            "drop one of the two",
            format!("ALTER TABLE {} DROP CONSTRAINT {constraint};", table.sql()),
            format!(
                "ALTER TABLE {} ADD CONSTRAINT {constraint} FOREIGN KEY ({}) REFERENCES {} ({}){};",
                table.sql(),
                names.join(", "),
                target.sql(),
                referenced.join(", "),
                actions(key)
            ),
        ));
    Some(view.costing_cpu(finding, bounded(rows * CHECK.0, rows * CHECK.1, rows * CHECK.2)))
}

fn actions(key: &ForeignKey) -> String {
    use walwright_record::ForeignKeyAction as On;
    let words = |action| match action {
        On::NoAction => None,
        On::Restrict => Some("RESTRICT"),
        On::Cascade => Some("CASCADE"),
        On::SetNull => Some("SET NULL"),
        On::SetDefault => Some("SET DEFAULT"),
    };
    let part =
        |event, action| words(action).map(|w| format!(" ON {event} {w}")).unwrap_or_default();
    part("DELETE", key.on_delete) + &part("UPDATE", key.on_update)
}

/// D19: what the checks take, where the server counts nested statements.
fn checks(view: &View) -> Option<Finding> {
    let statements = view.reading.statements.as_ref().ok()?;
    let nested: Vec<_> =
        statements.all.iter().filter(|s| !s.toplevel && s.plain().ends_with(KEY_SHARE)).collect();
    let seconds: f64 = nested.iter().map(|s| s.seconds()).sum::<f64>() / statements.work.count;
    let calls: f64 = nested.iter().map(|s| s.calls).sum::<f64>() / statements.work.count;
    if calls <= 0.0 {
        return None;
    }
    let finding = view
        .finding(
            DiagnosisId::D19,
            Kind::Information,
            "each inserted or changed reference locks the row it points at, to check that it exists",
        )
        .seen([
            view.evidence("pg_stat_statements.calls", "checks (FOR KEY SHARE)", Value::Count(calls)),
            view.evidence(
                "pg_stat_statements.total_exec_time",
                "time in them, waits for locks included",
                Value::Seconds(seconds),
            ),
        ])
        .advise(Action::advice(
            "insert several rows in one statement, so that rows in cache are checked together, and leave out keys that another key implies",
        ));
    Some(by_cost(view.costing_cpu(finding, bounded(0.0, 0.5 * seconds, seconds))))
}

/// D19: everybody locks the same referenced rows. A row that several transactions lock at
/// once carries a multixact; each further lock makes another, under the lock of the row's
/// page (src/backend/access/heap/README.tuplock).
fn crowded(view: &View, keys: &[&ForeignKey]) -> Option<Finding> {
    let reading = view.reading;
    let slru = reading.difference(Source::Slru).ok()?;
    // Named otherwise before 17.
    let members = |row: &Row| {
        row.text("name")
            .is_some_and(|n| n.eq_ignore_ascii_case("multixact_member") || n == "MultiXactMember")
    };
    let used = slru.sum_where("blks_hit", members).ok()? / reading.work(&slru).ok()?.count;
    if used < SHARED {
        return None;
    }
    let waiting = reading.in_events("LWLock", &LOCKING)?;
    let impact = worth(reading, Some(waiting.clone()))?;
    let written = keys.iter().filter_map(|key| {
        let table = view.facts.table(key.table)?;
        let used = view.used(table)?;
        (used.inserted + used.updated > 0.0).then_some((used.inserted + used.updated, key, table))
    });
    let (_, key, table) = written.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let finding = view
        .finding(
            DiagnosisId::D19,
            Kind::Problem,
            format!(
                "Sessions that write {} lock the same rows of {} at the same time, to check {}: \
                 they queue for the pages of those rows",
                table.qualified(),
                key.referenced_name,
                key.name
            ),
        )
        .about(format!("{}.{}", table.qualified(), key.name))
        .seen([
            view.evidence(
                "wait events",
                "waiting for pages and multixacts (LWLock)",
                Value::Seconds(waiting.center),
            ),
            view.evidence(
                "pg_stat_slru.blks_hit",
                "looks at the members of multixacts",
                Value::Count(used),
            ),
        ])
        .blind_to("Which waits for pages are those of the referenced rows: an index that grows at its right end has such waits too.")
        .advise(Action::advice(format!(
            "Do not change {} while its rows are referenced by everybody (keep what changes, such \
             as a counter or a balance, in a table of its own), insert several rows in one \
             statement, or drop {} where the application guarantees it.",
            key.referenced_name, key.name
        )));
    // The checks are part of the statements that write: no more than those can go.
    let writing = view.all_working(&view.writers(table, &["insert", "update", "merge", "copy"]));
    let execution = reading.execution(writing);
    let interval = waiting.interval.map(|i| Interval { high: i.high.max(execution.time), ..i });
    let relief = Relief::new(Estimate { interval, ..waiting }, [WaitClass::Lwlock, WaitClass::Cpu])
        .and_cpu(execution.cpu);
    Some(finding.costs(Some(impact)).gains(reading.gain(&relief)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Testbed, foreign_key, index, primary, table};
    use super::*;

    /// Orders deleted with a scan of 100,000 lines each: 5 ms of a 5.2 ms statement.
    fn orders() -> Testbed {
        let mut testbed = Testbed::new();
        testbed.table(table(1, "parent", &["id", "note"]), [("n_tup_del", 0.2)]);
        let scans = [("n_tup_ins", 1.0), ("seq_scan", 0.2), ("seq_tup_read", 20_000.0)];
        testbed.table(table(2, "child", &["id", "parent_id"]), scans);
        testbed.facts.indexes = vec![primary(10, 1), primary(20, 2)];
        testbed.facts.foreign_keys = Some(vec![foreign_key(30, 2, 2, 1)]);
        testbed.statement(7, "DELETE FROM parent WHERE id = $1", 0.2, 5.2);
        testbed
    }

    #[test]
    fn a_key_without_an_index_costs_what_the_deletes_take() {
        let found = orders().findings();
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((finding.id, finding.kind), (DiagnosisId::D15, Kind::Problem));
        let impact = finding.impact.as_ref().unwrap();
        // 0.2 deletes a transaction of 5.2 ms, of which 0.1 ms are the delete itself.
        assert!((impact.per_transaction.center - 0.2 * 5.1e-3).abs() < 1e-6, "{impact:?}");
        assert!(impact.per_transaction.interval.unwrap().contains(0.2 * 5.0e-3));
        assert!(finding.gain.is_some());
        assert_eq!(
            finding.actions[0].command().unwrap(),
            "CREATE INDEX CONCURRENTLY child_parent_id_idx ON public.child (parent_id);"
        );
        assert_eq!(
            finding.actions[0].rollback.as_deref(),
            Some("DROP INDEX CONCURRENTLY public.child_parent_id_idx;")
        );
    }

    #[test]
    fn nothing_is_advised_that_is_there_or_that_nobody_needs() {
        let mut there = orders();
        there.facts.indexes.push(index(21, 2, "by_parent", &[2]));
        assert_eq!(there.findings(), []);
        // An index that begins otherwise, holds some rows only, or is invalid, is none.
        for wrong in [
            index(21, 2, "other", &[1, 2]),
            SchemaIndex { predicate: Some("(note > 5)".into()), ..index(21, 2, "part", &[2]) },
            SchemaIndex { valid: false, ..index(21, 2, "broken", &[2]) },
        ] {
            let mut testbed = orders();
            testbed.facts.indexes.push(wrong);
            assert!(testbed.findings().iter().any(|f| f.id == DiagnosisId::D15));
        }
        let mut partial = orders();
        let predicate = Some("(parent_id IS NOT NULL)".to_owned());
        partial.facts.indexes.push(SchemaIndex { predicate, ..index(21, 2, "part", &[2]) });
        assert_eq!(partial.findings(), []);
        // Unknown indexes are not missing ones.
        let mut unknown = orders();
        unknown.facts.tables[1].indexes_complete = false;
        assert_eq!(unknown.findings(), []);
        // Nothing is deleted: the scans are someone else's.
        let mut kept = Testbed::new();
        kept.table(table(1, "parent", &["id"]), [("n_tup_ins", 1.0)]);
        kept.table(table(2, "child", &["id", "parent_id"]), [("seq_scan", 0.2)]);
        kept.facts.foreign_keys = Some(vec![foreign_key(30, 2, 2, 1)]);
        assert_eq!(kept.findings(), []);
    }

    #[test]
    fn the_same_key_twice_is_checked_twice() {
        let mut testbed = Testbed::new();
        testbed.table(table(1, "parent", &["id"]), []);
        testbed.table(table(2, "child", &["id", "parent_id"]), [("n_tup_ins", 10.0)]);
        testbed.facts.foreign_keys = Some(vec![foreign_key(30, 2, 2, 1), foreign_key(31, 2, 2, 1)]);
        let found = testbed.findings();
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(finding.id, DiagnosisId::D19);
        assert_eq!(
            finding.actions[0].command().unwrap(),
            "ALTER TABLE public.child DROP CONSTRAINT fk31;"
        );
        assert!(
            finding.actions[0]
                .rollback
                .as_ref()
                .unwrap()
                .contains("REFERENCES public.parent (id);")
        );
    }
}
