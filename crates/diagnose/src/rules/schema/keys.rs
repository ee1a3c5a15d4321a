//! D23: random keys. Each insert lands on another leaf page of the index, so that
//! after a checkpoint nearly every insert logs a whole page, leaves split in the
//! middle, and an index larger than shared buffers is read for every insert.

use walwright_record::{SchemaColumn, SchemaIndex, SchemaTable};

use super::by_cost;
use super::view::{TableUse, View, bounded};
use crate::rules::buffers::COPY;
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Value};

/// The words of the evidence that tells how many blocks of the index were read.
pub(in crate::rules) const INDEX_BLOCKS_READ: &str =
    "blocks of the index read from outside shared buffers";
/// Defaults that make random keys.
const RANDOM: [&str; 4] = ["gen_random_uuid", "uuid_generate_v4", "uuidv4", "random()"];
/// Correlation with the order of insertion under which values come in no order. Of
/// uniformly random values it is about 1 / √sample, below 0.01.
const NO_ORDER: f64 = 0.3;
/// Rows under which an index is a few pages, whatever its order.
const ROWS: u64 = 10_000;
/// Seconds that logging one full page takes: copying, checksum, room in the WAL.
const PAGE_IMAGE: f64 = 5e-6;
/// Size of a page.
const PAGE: f64 = 8192.0;

pub(super) fn findings(view: &View) -> Vec<Finding> {
    let tables = view.whole_tables().filter(|(_, used)| used.inserted > 0.0);
    tables.flat_map(|(table, used)| table_findings(view, table, used)).collect()
}

fn table_findings(view: &View, table: &SchemaTable, used: TableUse) -> Vec<Finding> {
    let rows = |t: &SchemaTable| t.gauges.rows.max(t.gauges.live_rows);
    let large = view.leaves(table).iter().filter_map(|leaf| rows(leaf)).sum::<u64>() >= ROWS
        || used.inserted * view.work_done() >= ROWS as f64;
    if !large {
        return Vec::new();
    }
    view.facts
        .indexes_of(table.oid)
        .filter(|index| index.method == "btree")
        .filter_map(|index| {
            let column = table.column(*index.key_columns.first()?)?;
            let proof = randomness(view, table, column)?;
            Some(finding(view, table, used, index, column, &proof))
        })
        .collect()
}

/// Why the values of a column come in no order.
fn randomness(view: &View, table: &SchemaTable, column: &SchemaColumn) -> Option<String> {
    if let Some(default) = &column.default
        && RANDOM.iter().any(|random| default.contains(random))
    {
        return Some(format!("its default is {default}"));
    }
    if column.data_type != "uuid" {
        return None;
    }
    let statements = view.writers(table, &["insert", "merge"]);
    if let Some(random) =
        RANDOM[..3].iter().find(|random| statements.iter().any(|s| s.plain().contains(**random)))
    {
        return Some(format!("the inserts call {random}()"));
    }
    // Keys that the client makes.
    let correlation = column.statistics.as_ref()?.correlation?;
    (correlation.abs() < NO_ORDER)
        .then(|| format!("its values come in no order: correlation {correlation:.2} in pg_stats"))
}

fn finding(
    view: &View,
    table: &SchemaTable,
    used: TableUse,
    index: &SchemaIndex,
    column: &SchemaColumn,
    proof: &str,
) -> Finding {
    let inserts = view.writers(table, &["insert", "copy", "merge"]);
    let statements = view.reading.statements.as_ref();
    let work = statements.map_or(1.0, |s| s.work.count);
    let images: f64 = inserts.iter().filter_map(|s| s.sum("wal_fpi")).sum::<f64>() / work;
    let reads = view.index_reads(index.oid);
    let cause = format!(
        "{} of {} is random ({proof}), so each insert goes to another page of {}",
        column.name,
        table.qualified(),
        index.name
    );
    let mut finding = view
        .finding(DiagnosisId::D23, Kind::Information, cause)
        .about(format!("{}.{}", index.schema, index.name))
        .seen([
            view.evidence(
                "pg_stat_user_tables.n_tup_ins",
                "rows inserted",
                Value::Count(used.inserted),
            ),
            view.evidence(
                "pg_stat_statements.wal_fpi",
                "full-page images of the inserts, all indexes",
                Value::Count(images),
            ),
        ])
        .seen(reads.map(|reads| {
            view.evidence(
                "pg_statio_user_indexes.idx_blks_read",
                INDEX_BLOCKS_READ,
                Value::Count(reads),
            )
        }))
        .seen(index.bytes.map(|bytes| {
            Evidence::new("pg_relation_size", "size of the index", Value::Bytes(bytes as f64))
        }));
    for action in actions(view, table, column) {
        finding = finding.advise(action);
    }
    // What goes with the WAL: flushes and writes in proportion to the bytes of the
    // images. Half a flush is latency of the device and does not shrink with them.
    let share = view.wal_bytes().map_or(0.0, |bytes| (images * PAGE / bytes).min(1.0));
    let flushing = view.flushing() * share;
    // A page that comes in displaces one, which inserts in no order have made dirty.
    let blocks = reads.unwrap_or(0.0);
    let (read, written) = (block_time(view, "read"), block_time(view, "write"));
    let moving = blocks * (read + written);
    let center = images * PAGE_IMAGE + 0.5 * flushing + moving;
    let high = 2.0 * images * PAGE_IMAGE + flushing + 2.0 * moving;
    let cpu = images * PAGE_IMAGE + blocks * (read.min(COPY) + written.min(COPY));
    by_cost(view.costing_wal(finding, bounded(0.3 * center, center, high), cpu))
}

/// Mean seconds of a `read` or `write` of one block, where the server times it; a tenth of
/// a millisecond otherwise, as of flash behind a network or a busy local disk.
fn block_time(view: &View, what: &str) -> f64 {
    let Ok(statements) = &view.reading.statements else { return 1e-4 };
    let of = |column: String| statements.sum(&column).unwrap_or(0.0);
    // Named without `shared_` before 17.
    let milliseconds = of(format!("shared_blk_{what}_time")) + of(format!("blk_{what}_time"));
    let done = if what == "read" { "read" } else { "written" };
    let blocks = of(format!("shared_blks_{done}"));
    if milliseconds > 0.0 && blocks > 0.0 { milliseconds / 1e3 / blocks } else { 1e-4 }
}

fn actions(view: &View, table: &SchemaTable, column: &SchemaColumn) -> Vec<Action> {
    let name = walwright_record::quoted_identifier(&column.name);
    let has_v7 = view.reading.version().is_some_and(|version| version >= 180_000);
    match &column.default {
        Some(default) if column.data_type == "uuid" && has_v7 => vec![Action::ddl(
            "make new keys in order of time; a uuidv7 shows when it was made",
            format!("ALTER TABLE {} ALTER COLUMN {name} SET DEFAULT uuidv7();", table.sql()),
            format!("ALTER TABLE {} ALTER COLUMN {name} SET DEFAULT {default};", table.sql()),
        )],
        _ if column.data_type == "uuid" => vec![Action::advice(
            "make version 7 UUIDs, which begin with the time, where the keys are made now, or a sequence (bigint identity)",
        )],
        _ => vec![Action::advice(
            "take keys that grow: a sequence, or a time before the random part",
        )],
    }
}

#[cfg(test)]
mod tests {
    use walwright_record::ColumnStatistics;

    use super::super::testing::{Testbed, primary, table};
    use super::*;

    fn testbed(default: Option<&str>, correlation: Option<f64>, insert: &str) -> Testbed {
        let mut testbed = Testbed::new();
        testbed.build.setting("wal_level", "replica");
        let mut t = table(1, "t", &["id", "a"]);
        t.columns[0].data_type = "uuid".to_owned();
        t.columns[0].default = default.map(str::to_owned);
        t.columns[0].statistics =
            Some(ColumnStatistics { average_width: 16, null_share: 0.0, correlation });
        testbed.table(t, [("n_tup_ins", 10.0)]);
        testbed.facts.indexes = vec![primary(10, 1)];
        testbed.statement(7, insert, 10.0, 0.1);
        testbed
    }

    const PLAIN: &str = "INSERT INTO t (id, a) VALUES ($1, $2)";

    #[test]
    fn random_keys_are_told_by_default_text_or_order() {
        for mut random in [
            testbed(Some("gen_random_uuid()"), None, PLAIN),
            testbed(None, None, "INSERT INTO t VALUES (gen_random_uuid(), $1)"),
            testbed(None, Some(0.01), PLAIN),
        ] {
            let found = random.findings();
            let [finding] = found.as_slice() else { panic!("{found:?}") };
            assert_eq!(finding.id, DiagnosisId::D23);
            // Five images of 5 µs a transaction of 2 ms.
            let impact = finding.impact.as_ref().unwrap();
            assert!((impact.per_transaction.center - 25e-6).abs() < 1e-9, "{impact:?}");
        }
        for mut ordered in [
            testbed(Some("uuidv7()"), Some(0.99), PLAIN),
            testbed(None, None, PLAIN),
            testbed(None, Some(0.95), PLAIN),
        ] {
            assert_eq!(ordered.findings(), []);
        }
    }
}
