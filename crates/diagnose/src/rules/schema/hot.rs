//! D24: updates that are not heap-only.
//!
//! An update is HOT when the new version fits on the old one's page and no column of
//! an index changed value (from 16 on, summarizing indexes, BRIN, do not count).
//! Otherwise it makes an entry in every index, whichever column changed.

use walwright_figures::StatementUse;
use walwright_record::{SchemaIndex, SchemaTable, TableKind};
use walwright_stats::Estimate;

use super::by_cost;
use super::indexes::is_needless;
use super::statement_text::columns_set;
use super::view::{TableUse, View, bounded};
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Value};

/// Share of HOT updates under which a table is looked at: above it a full page now
/// and then is normal.
const RATIO: f64 = 0.5;
/// Updates in the window under which a ratio says nothing.
const UPDATES: f64 = 100.0;
/// Seconds of one index entry, at least.
const ENTRY: f64 = 1e-6;
/// Work of an update besides its index entries, in entries.
const REST_OF_A_ROW: f64 = 4.0;
/// Size of a page.
const PAGE: f64 = 8192.0;

pub(super) fn findings(view: &View) -> Vec<Finding> {
    view.whole_tables().filter_map(|(table, used)| table_finding(view, table, used)).collect()
}

fn table_finding(view: &View, table: &SchemaTable, used: TableUse) -> Option<Finding> {
    let updates = used.updated * view.work_done();
    if updates < UPDATES || used.hot / used.updated > RATIO || !table.indexes_complete {
        return None;
    }
    let cold = used.updated - used.hot;
    let indexes: Vec<&SchemaIndex> = view.facts.indexes_of(table.oid).collect();
    if indexes.is_empty() {
        return None;
    }
    let blocking = blocking(view, table, &indexes);
    // An update that stays on its page and is not HOT changed an indexed column.
    let on_page = used.new_page.map(|moved| (cold - moved).max(0.0));
    let by_index = !blocking.is_empty() && on_page.is_none_or(|stayed| stayed > 0.1 * cold);
    let ratio = used.hot / used.updated;
    let cause = if by_index {
        let named: Vec<String> = blocking
            .iter()
            .map(|(index, columns)| format!("{} ({})", index.name, columns.join(", ")))
            .collect();
        format!(
            "Updates of {} change columns that are indexed by {}, so each makes an entry in all {} indexes",
            table.qualified(),
            named.join(" and "),
            indexes.len()
        )
    } else {
        format!(
            "Updated rows of {} find no room on their page, so each makes an entry in all {} indexes",
            table.qualified(),
            indexes.len()
        )
    };
    let mut finding = view
        .finding(DiagnosisId::D24, Kind::Information, cause)
        .about(table.qualified())
        .seen([
            view.evidence(
                "pg_stat_user_tables.n_tup_upd",
                "rows updated",
                Value::Count(used.updated),
            ),
            Evidence::new(
                "pg_stat_user_tables.n_tup_hot_upd",
                "share of them that is HOT",
                Value::Fraction(ratio),
            ),
        ])
        .seen(used.new_page.map(|moved| {
            Evidence::new(
                "pg_stat_user_tables.n_tup_newpage_upd",
                "share of them that went to another page",
                Value::Fraction(moved / used.updated),
            )
        }));
    if by_index {
        for (index, _) in &blocking {
            finding = finding.advise(drop_or_think(view, table, index));
        }
    } else if let Some(action) = make_room(table) {
        finding = finding.advise(action);
    } else {
        finding = finding.advise(Action::advice(
            "the fill factor leaves room already: vacuum the table more often, so that dead versions give theirs back",
        ));
    }
    let finding = by_cost(view.costing_cpu(finding, cost(view, table, used, indexes.len())));
    let needless = |(index, _): &(&SchemaIndex, _)| is_needless(view, table, used, index.oid);
    Some(match by_index && blocking.iter().all(needless) {
        // They are dropped in any case.
        true => Finding { kind: Kind::Symptom, gain: None, ..finding.caused_by(DiagnosisId::D28) },
        false => finding,
    })
}

/// Whether these indexes alone keep the updates of a table from being HOT.
pub(super) fn is_blocked_by(view: &View, table: &SchemaTable, used: TableUse, of: &[u32]) -> bool {
    let updates = used.updated * view.work_done();
    if updates < UPDATES || used.hot / used.updated > RATIO {
        return false;
    }
    let indexes: Vec<&SchemaIndex> = view.facts.indexes_of(table.oid).collect();
    let blocking = blocking(view, table, &indexes);
    !blocking.is_empty() && blocking.iter().all(|(index, _)| of.contains(&index.oid))
}

/// What entries in all of so many indexes cost a transaction, for updates that are not HOT.
pub(super) fn cost(view: &View, table: &SchemaTable, used: TableUse, indexes: usize) -> Estimate {
    let updating = view.all_working(&view.writers(table, &["update"]))
        + view.all_working(&upserts(view, table));
    let n = indexes as f64;
    let cold = used.updated - used.hot;
    let low = cold * n * ENTRY;
    let share = cold / used.updated;
    match updating > 0.0 {
        true => bounded(
            low,
            updating * share * n / (n + REST_OF_A_ROW),
            updating * share * n / (n + 1.0),
        ),
        false => bounded(low, 3.0 * low, 10.0 * low),
    }
}

fn upserts<'a, 'r>(view: &View<'a, 'r>, table: &'r SchemaTable) -> Vec<&'a StatementUse> {
    let both = view.writers(table, &["insert", "merge"]);
    both.into_iter().filter(|s| !columns_set(s.plain()).is_empty()).collect()
}

/// The indexes that depend on a column that statements set, with those columns.
fn blocking<'i>(
    view: &View,
    table: &SchemaTable,
    indexes: &[&'i SchemaIndex],
) -> Vec<(&'i SchemaIndex, Vec<String>)> {
    let mut set: Vec<String> = Vec::new();
    for statement in view.writers(table, &["update", "insert", "merge"]) {
        set.extend(columns_set(statement.plain()));
    }
    let summarizing = |index: &SchemaIndex| {
        index.method == "brin" && view.reading.version().is_some_and(|v| v >= 160_000)
    };
    indexes
        .iter()
        .filter(|index| !summarizing(index))
        .filter_map(|index| {
            let columns: Vec<String> = index
                .depends_on
                .iter()
                .filter_map(|number| Some(table.column(*number)?.name.clone()))
                .filter(|name| set.contains(&name.to_lowercase()))
                .collect();
            (!columns.is_empty()).then_some((*index, columns))
        })
        .collect()
}

fn drop_or_think(view: &View, table: &SchemaTable, index: &SchemaIndex) -> Action {
    let free = !index.primary
        && index.constraint.is_none()
        && !index.unique
        && !index.referenced
        && !index.replica_identity;
    if free && view.scans(index.oid) == Some(0.0) {
        let how = if table.kind == TableKind::Partitioned { "" } else { " CONCURRENTLY" };
        return Action::ddl(
            format!("no query has used {}: drop it", index.name),
            format!("DROP INDEX{how} {};", index.sql()),
            format!("{};", index.definition),
        );
    }
    Action::advice(format!(
        "{} is in use: weigh its queries against the updates it makes dear, or leave the column out of the update where its value stays",
        index.name
    ))
}

/// A fill factor that leaves room for two more versions of a row, or a tenth of the
/// page; `None` where there is as much already.
fn make_room(table: &SchemaTable) -> Option<Action> {
    // Of a partitioned table the partitions have the option.
    if table.kind == TableKind::Partitioned {
        return Some(Action::advice(
            "give its partitions that are updated a fill factor below 100: ALTER TABLE <partition> SET (fillfactor = 90)",
        ));
    }
    let now: f64 = table.options.get("fillfactor").and_then(|v| v.parse().ok()).unwrap_or(100.0);
    let width = match (table.gauges.bytes, table.gauges.rows) {
        (Some(bytes), Some(rows)) if rows > 0 => (bytes as f64 / rows as f64).min(PAGE),
        _ => 0.0,
    };
    let room = (2.0 * width / PAGE * 100.0).clamp(10.0, 50.0).ceil();
    let wanted = 100.0 - room;
    if now <= wanted {
        return None;
    }
    let sql = table.sql();
    let rollback = match table.options.get("fillfactor") {
        Some(value) => format!("ALTER TABLE {sql} SET (fillfactor = {value});"),
        None => format!("ALTER TABLE {sql} RESET (fillfactor);"),
    };
    Some(Action::ddl(
        "leave room on new pages; pages that are full already get it by VACUUM FULL or as rows move off them",
        format!("ALTER TABLE {sql} SET (fillfactor = {wanted});"),
        rollback,
    ))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Testbed, index, primary, table};
    use super::*;

    fn testbed(hot: f64, new_page: f64) -> Testbed {
        let mut testbed = Testbed::new();
        let used = [("n_tup_upd", 1.0), ("n_tup_hot_upd", hot), ("n_tup_newpage_upd", new_page)];
        testbed.table(table(1, "t", &["id", "a", "seen"]), used);
        testbed.facts.indexes = vec![primary(10, 1), index(11, 1, "by_seen", &[3])];
        testbed.statement(7, "UPDATE t SET seen = $1 WHERE id = $2", 1.0, 0.5);
        testbed
    }

    #[test]
    fn an_index_on_what_is_updated_blocks() {
        let found = testbed(0.0, 0.05).findings();
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((finding.id, finding.kind), (DiagnosisId::D24, Kind::Problem));
        assert!(finding.cause.contains("by_seen (seen)"), "{}", finding.cause);
        assert_eq!(finding.actions[0].command(), None, "the index is in use: no drop");
        let mut unused = testbed(0.0, 0.05);
        unused.facts.indexes[1].scans = Some(0);
        let found = unused.findings();
        let hot = found.iter().find(|f| f.id == DiagnosisId::D24).unwrap();
        assert_eq!(hot.actions[0].command().unwrap(), "DROP INDEX CONCURRENTLY public.by_seen;");
    }

    #[test]
    fn a_full_page_wants_room() {
        let mut full = testbed(0.1, 0.9);
        full.facts.indexes.truncate(1);
        let found = full.findings();
        assert_eq!(
            found[0].actions[0].command().unwrap(),
            "ALTER TABLE public.t SET (fillfactor = 90);"
        );
        full.facts.tables[0].options.insert("fillfactor".into(), "70".into());
        let found = full.findings();
        assert_eq!(found[0].actions[0].command(), None, "there is room already");
    }

    #[test]
    fn hot_updates_are_no_finding() {
        assert_eq!(testbed(0.9, 0.05).findings(), []);
    }
}
