//! D27: wide values compressed by pglz.
//!
//! Values are compressed when a row is longer than about 2 kB (`TOAST_TUPLE_THRESHOLD`).
//! pglz compresses 50 to 300 MB/s, lz4 three to ten times as much. How wide values
//! were before is not in the catalog; at least as wide as they are stored.

use walwright_record::{SchemaColumn, SchemaTable, quoted_identifier};

use super::by_cost;
use super::view::{TableUse, View, bounded};
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Value};

/// Stored bytes a row from which values are compressed.
const WIDE: f64 = 1_000.0;
/// Seconds that pglz takes a stored byte: twice as many raw ones at 300, 150 and 50 MB/s.
const BYTE: (f64, f64, f64) = (2.0 / 300e6, 2.0 / 150e6, 2.0 / 50e6);
/// Share of that which lz4 leaves.
const LEFT: f64 = 0.2;

pub(super) fn findings(view: &View) -> Vec<Finding> {
    let lz4 = |known: &Vec<String>| known.iter().any(|method| method == "lz4");
    if !view.facts.toast_compressions.as_ref().is_some_and(lz4) {
        return Vec::new();
    }
    view.whole_tables().filter_map(|(table, used)| finding(view, table, used)).collect()
}

fn finding(view: &View, table: &SchemaTable, used: TableUse) -> Option<Finding> {
    let wide: Vec<&SchemaColumn> =
        table.columns.iter().filter(|column| compressed_by_pglz(view, column)).collect();
    let stored = stored_width(view, table, &wide)?;
    // An update writes a wide value anew only when it changes it, which is not counted.
    let rows = used.inserted;
    if wide.is_empty() || stored < WIDE || rows <= 0.0 {
        return None;
    }
    let names: Vec<&str> = wide.iter().map(|column| column.name.as_str()).collect();
    let cause = format!(
        "Rows of {} store {stored:.0} B of wide values, compressed by pglz: {}",
        table.qualified(),
        names.join(", ")
    );
    let mut finding = view
        .finding(DiagnosisId::D27, Kind::Information, cause)
        .about(table.qualified())
        .seen([
            view.evidence("pg_stat_user_tables.n_tup_ins", "rows inserted", Value::Count(rows)),
            Evidence::new(
                "pg_relation_size, pg_stats.avg_width",
                "wide values of a row as stored",
                Value::Bytes(stored),
            ),
        ])
        .blind_to("how well the values compress, and how wide they were before");
    for column in wide {
        let (sql, name) = (table.sql(), quoted_identifier(&column.name));
        let now = column.compression.as_deref().unwrap_or("default");
        finding = finding.advise(Action::ddl(
            "compress new values with lz4; stored ones stay as they are",
            format!("ALTER TABLE {sql} ALTER COLUMN {name} SET COMPRESSION lz4;"),
            format!("ALTER TABLE {sql} ALTER COLUMN {name} SET COMPRESSION {now};"),
        ));
    }
    let bytes = rows * stored * (1.0 - LEFT);
    let writing = view.all_working(&view.writers(table, &["insert", "copy", "merge"]));
    let most = if writing > 0.0 { writing } else { f64::MAX };
    let cost =
        bounded((bytes * BYTE.0).min(most), (bytes * BYTE.1).min(most), (bytes * BYTE.2).min(most));
    Some(by_cost(view.costing_cpu(finding, cost)))
}

/// Whether new values of a column would be compressed, and by pglz.
fn compressed_by_pglz(view: &View, column: &SchemaColumn) -> bool {
    let default = view.reading.setting("default_toast_compression").map(|s| s.value.as_str());
    let method = column.compression.as_deref().or(default);
    matches!(column.storage, 'x' | 'm')
        && method == Some("pglz")
        && matches!(column.data_type.as_str(), "text" | "jsonb" | "json" | "bytea" | "xml")
}

/// Bytes of wide values a row has stored: in the heap by `pg_stats`, out of line by
/// the size of the TOAST table; `None` where neither is known.
fn stored_width(view: &View, table: &SchemaTable, wide: &[&SchemaColumn]) -> Option<f64> {
    let inline: Option<f64> = wide
        .iter()
        .map(|column| column.statistics.as_ref().map(|s| f64::from(s.average_width)))
        .sum();
    let leaves = view.leaves(table);
    let rows: u64 = leaves.iter().filter_map(|t| t.gauges.rows.max(t.gauges.live_rows)).sum();
    let toast: u64 = leaves.iter().filter_map(|t| t.gauges.toast_bytes).sum();
    let outside = (rows > 0).then(|| toast as f64 / rows as f64);
    match (inline, outside) {
        (None, None) => None,
        (inline, outside) => Some(inline.unwrap_or(0.0) + outside.unwrap_or(0.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Testbed, table};
    use super::*;

    fn testbed(methods: &[&str], compression: Option<&str>, toast: u64) -> Testbed {
        let mut testbed = Testbed::new();
        testbed.build.setting("default_toast_compression", "pglz");
        let mut t = table(1, "t", &["id", "body"]);
        t.columns[1].data_type = "jsonb".to_owned();
        t.columns[1].storage = 'x';
        t.columns[1].compression = compression.map(str::to_owned);
        t.gauges.toast_bytes = Some(toast);
        testbed.table(t, [("n_tup_ins", 1.0)]);
        testbed.facts.toast_compressions = Some(methods.iter().map(|m| (*m).to_owned()).collect());
        testbed.statement(7, "INSERT INTO t VALUES ($1, $2)", 1.0, 1.0);
        testbed
    }

    #[test]
    fn wide_values_under_pglz_are_a_finding_where_lz4_is_there() {
        let found = testbed(&["pglz", "lz4"], None, 800_000_000).findings();
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(finding.id, DiagnosisId::D27);
        assert!(
            finding.actions[0].rollback.as_ref().unwrap().ends_with("SET COMPRESSION default;")
        );
        // 8 kB a row, doubled, at 150 MB/s, less what lz4 takes: 85 µs of 2 ms.
        let impact = finding.impact.as_ref().unwrap();
        assert!((impact.per_transaction.center - 85.3e-6).abs() < 1e-6, "{impact:?}");
        assert_eq!(finding.kind, crate::Kind::Problem);
        assert_eq!(testbed(&["pglz"], None, 800_000_000).findings(), [], "no lz4 in this build");
        assert_eq!(testbed(&["pglz", "lz4"], Some("lz4"), 800_000_000).findings(), []);
        assert_eq!(testbed(&["pglz", "lz4"], None, 8_000_000).findings(), [], "80 B a row");
    }
}
