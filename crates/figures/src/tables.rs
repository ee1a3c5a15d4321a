//! What happened to the tables: updates and how many of them were HOT.

use serde::Serialize;
use walwright_record::{Record, Source, Window};

use crate::{Blind, WorkUnit, difference, work_counted};

/// Row changes over the window, all user tables of the database.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowChanges {
    /// What the figures are per.
    pub unit: WorkUnit,
    /// Rows inserted, a transaction.
    pub inserted: Option<f64>,
    /// Rows updated, a transaction.
    pub updated: Option<f64>,
    /// Rows deleted, a transaction.
    pub deleted: Option<f64>,
    /// Heap-only updates over all updates, 0 to 1; `None` when nothing was updated.
    pub hot_ratio: Option<f64>,
    /// The same for each table that was updated, most updates first.
    pub tables: Vec<TableUpdates>,
}

/// Updates of one table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TableUpdates {
    /// `schema.table`.
    pub table: String,
    /// Rows updated in the window.
    pub updates: f64,
    /// Heap-only updates over all updates, 0 to 1.
    pub hot_ratio: f64,
}

/// Row changes over the window.
///
/// # Errors
/// When tables were not sampled twice inside the window or no work was counted.
pub fn row_changes(record: &Record, window: Window) -> Result<RowChanges, Blind> {
    let difference = difference(record, Source::Tables, window)?;
    let work = work_counted(record, &difference)?;
    let per = |column: &str| difference.sum(column).ok().map(|sum| sum / work.count);
    let mut tables: Vec<TableUpdates> = difference
        .rows
        .iter()
        .filter_map(|row| {
            let updates = row.delta("n_tup_upd").filter(|updates| *updates > 0.0)?;
            Some(TableUpdates {
                table: format!(
                    "{}.{}",
                    row.last.text("schemaname").unwrap_or("?"),
                    row.last.text("relname").unwrap_or("?")
                ),
                updates,
                hot_ratio: row.delta("n_tup_hot_upd")? / updates,
            })
        })
        .collect();
    tables.sort_by(|a, b| b.updates.total_cmp(&a.updates));
    let updates = difference.sum("n_tup_upd").ok().filter(|updates| *updates > 0.0);
    Ok(RowChanges {
        unit: work.unit,
        inserted: per("n_tup_ins"),
        updated: per("n_tup_upd"),
        deleted: per("n_tup_del"),
        hot_ratio: updates.zip(difference.sum("n_tup_hot_upd").ok()).map(|(all, hot)| hot / all),
        tables,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use walwright_testing::{Build, named, second};

    #[test]
    fn the_hot_ratio_is_of_the_window_alone() {
        let mut build = Build::new();
        build.load(0, 20, 100);
        for s in [0.0, 5.0, 10.0, 15.0] {
            let table = |relid: i64, name: &str, updates: f64, hot: f64| {
                let mut row = named(
                    [("schemaname", "public"), ("relname", name)],
                    [("n_tup_upd", updates), ("n_tup_hot_upd", hot), ("n_tup_ins", 100.0 * s)],
                );
                row.set("relid", relid);
                row
            };
            // A history of 1,000 updates without one HOT must not show.
            build.sample(
                s,
                Source::Tables,
                [
                    table(1, "accounts", 1_000.0 + 100.0 * s, 80.0 * s),
                    table(2, "tellers", 50.0 * s, 50.0 * s),
                    table(3, "history", 0.0, 0.0),
                ],
            );
        }
        let window = Window { start: second(0.0), end: second(20.0) };
        let changes = row_changes(&build.record, window).unwrap();
        assert!((changes.hot_ratio.unwrap() - 130.0 / 150.0).abs() < 1e-9);
        assert!((changes.updated.unwrap() - 1.5).abs() < 1e-9);
        assert_eq!(changes.deleted, None);
        let names: Vec<&str> = changes.tables.iter().map(|t| t.table.as_str()).collect();
        assert_eq!(names, ["public.accounts", "public.tellers"]);
        assert!((changes.tables[0].hot_ratio - 0.8).abs() < 1e-9);
    }
}
