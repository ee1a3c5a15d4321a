//! D21: tables that are made and dropped again and again, wherever the statement that makes
//! them hides, and whether a reset of the session is what makes it necessary.
//!
//! A table writes rows to `pg_class`, `pg_attribute`, `pg_type` and `pg_depend` when it is made
//! and deletes them when it is gone. The catalog counts them, also where the table is made inside
//! a function; statements that use one have local blocks in `pg_stat_statements`.

use walwright_figures::{StatementUse, StatementUses, WaitClass};
use walwright_record::{Row, Source};
use walwright_stats::Estimate;

use super::schema::bounded;
use super::threshold::{FEW, worth};
use super::writes::calls;
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Per, Reading, Relief, Value};

/// Seconds of a statement for each row that it writes to the catalog, with its index entries,
/// its part of the table's files and of planning anew what uses the table: 20 µs on two virtual
/// processors, PostgreSQL 18.
const MADE: (f64, f64, f64) = (8e-6, 20e-6, 40e-6);
/// Times the deletion of a row of the catalog that its insertion takes, there.
const MADE_TO_GONE: (f64, f64, f64) = (1.0, 2.4, 4.0);
/// Blocks of shared buffers that a statement touches for each such row, there.
const BLOCKS: f64 = 9.0;
/// Part of its time that a statement gives to making a table that touches no other block.
const OF_TIME: f64 = 0.7;
/// Rows of `pg_type` for a table: its row type and the array of it.
const TYPES: f64 = 2.0;
/// WAL records of a reset from which it drops a table: that deletes a dozen rows and more.
const DROPS: f64 = 5.0;
/// Share of the tables made from which the statements that were counted are those that make
/// them.
const MOST: f64 = 0.5;

/// The words by which the finding is related to that of the reset.
pub(super) const BY_RESETS: &str = "tables that a reset drops, so that they are made again";

/// Tables that come and go.
pub(super) struct Churn<'a> {
    /// Tables made a transaction.
    tables: f64,
    /// Rows written to the catalog a transaction; `None` where it was not sampled.
    rows: Option<f64>,
    /// Seconds of statements a transaction that make them, and drop them unless a reset does.
    pub(super) making: Estimate,
    /// The client's statements that use temporary tables, those with most time first.
    users: Vec<&'a StatementUse>,
    /// The statements that make them, where they are counted.
    makers: Vec<&'a StatementUse>,
    /// Whether resets drop the tables.
    pub(super) by_resets: bool,
}

/// A statement that sets a session back to its beginning, or part of it.
pub(super) fn is_reset(statement: &StatementUse) -> bool {
    matches!(statement.verb().as_str(), "discard" | "deallocate" | "reset")
}

/// Whether it drops tables: then it writes WAL, which it does not otherwise.
pub(super) fn drops_tables(reset: &StatementUse) -> bool {
    reset.verb() == "discard" && reset.per_call("wal_records").is_some_and(|n| n >= DROPS)
}

/// Blocks of temporary tables that a statement touched, a call.
pub(super) fn local_blocks(statement: &StatementUse) -> f64 {
    let columns = ["local_blks_hit", "local_blks_read", "local_blks_dirtied", "local_blks_written"];
    columns.iter().filter_map(|column| statement.per_call(column)).sum()
}

fn makes_table(statement: &StatementUse) -> bool {
    let text = statement.plain();
    text.starts_with("create temp") || text.starts_with("create local temp")
}

impl<'a> Churn<'a> {
    /// Reads it; `None` where few tables are made.
    pub(super) fn of(reading: &Reading, uses: &'a StatementUses) -> Option<Churn<'a>> {
        // A function that makes one is counted where nested statements are tracked.
        let makers: Vec<&StatementUse> = uses.all.iter().filter(|s| makes_table(s)).collect();
        let counted: f64 = makers.iter().map(|s| s.calls).sum();
        let catalog = Catalog::of(reading);
        let (tables, all) = match &catalog {
            Some(catalog) => (catalog.tables, catalog.tables * catalog.work),
            None => (counted / uses.work.count, counted),
        };
        if all < FEW {
            return None;
        }
        let mut users: Vec<&StatementUse> =
            uses.toplevel().filter(|s| local_blocks(s) > 0.0 && !is_reset(s)).collect();
        users.sort_by(|a, b| b.seconds().total_cmp(&a.seconds()));
        let resets: Vec<&StatementUse> = uses.toplevel().filter(|s| drops_tables(s)).collect();
        let reset: f64 = resets.iter().map(|s| s.seconds()).sum::<f64>() / uses.work.count;
        let by_resets = !resets.is_empty();
        let seconds = |of: &mut dyn Iterator<Item = &StatementUse>| -> f64 {
            of.map(StatementUse::seconds).sum::<f64>() / uses.work.count
        };
        let measured = seconds(&mut makers.iter().copied())
            + seconds(&mut uses.all.iter().filter(|s| s.verb() == "drop"));
        let making = if counted >= MOST * all {
            reading.counted(measured)
        } else {
            // No more than what the statements take that it must be in.
            let most = match users.is_empty() {
                true => seconds(&mut uses.toplevel().filter(|s| !is_reset(s))),
                false => seconds(&mut users.iter().copied()),
            };
            let rows = catalog.as_ref()?.made;
            // What dropping a row takes on this machine is known where resets do it.
            let each = match catalog.as_ref().filter(|_| by_resets).map(|c| reset / c.gone) {
                Some(gone) if gone.is_finite() => {
                    (MADE_TO_GONE.0 * gone, MADE_TO_GONE.1 * gone, MADE_TO_GONE.2 * gone)
                }
                _ => MADE,
            };
            // On a crowded machine statements take many times that; their blocks do not change.
            let hits = users.iter().filter_map(|s| s.sum("shared_blks_hit")).sum::<f64>();
            let blocks = BLOCKS * rows * uses.work.count;
            let of_time = if hits > 0.0 { OF_TIME * (blocks / hits).min(1.0) * most } else { 0.0 };
            let center = (rows * each.1).max(of_time);
            bounded(rows * each.0, center, most.min((rows * each.2).max(center)))
        };
        let rows = catalog.map(|catalog| catalog.made);
        Some(Churn { tables, rows, making, users, makers, by_resets })
    }

    /// What was seen of it.
    pub(super) fn evidence(&self, reading: &Reading, uses: &StatementUses) -> Vec<Evidence> {
        let mut seen = Vec::new();
        if let Some(rows) = self.rows {
            let source = "pg_stat_sys_tables";
            let made = Evidence::new(source, "tables made and dropped", Value::Count(self.tables));
            let rows = Evidence::new(source, "rows written to the catalog", Value::Count(rows));
            seen.extend([made.per(reading.per()), rows.per(reading.per())]);
        }
        seen.extend(self.makers.first().map(|s| calls(reading, uses, s)));
        seen.extend(self.users.iter().take(3).map(|s| {
            let what = format!("blocks of temporary tables in {}", s.short());
            Evidence::new("pg_stat_statements.local_blks_*", what, Value::Count(local_blocks(s)))
                .per(Per::Call)
        }));
        seen
    }

    /// Whether this statement uses such tables, and no statement that the client sent makes them.
    pub(super) fn hides_in(&self, statement: &StatementUse) -> bool {
        self.makers.iter().all(|maker| !maker.toplevel)
            && self.users.iter().any(|s| s.query_id == statement.query_id)
    }
}

/// What happened to the catalog a transaction.
struct Catalog {
    tables: f64,
    made: f64,
    gone: f64,
    work: f64,
}

impl Catalog {
    fn of(reading: &Reading) -> Option<Catalog> {
        let moved = reading.difference(Source::Catalog).ok()?;
        let work = reading.work(&moved).ok()?.count;
        let types = |row: &Row| row.text("relname") == Some("pg_type");
        let made = moved.sum_where("n_tup_ins", types).ok()?;
        // Tables that stay are somebody's schema.
        let come_and_go = made.min(moved.sum_where("n_tup_del", types).ok()?);
        Some(Catalog {
            tables: come_and_go / TYPES / work,
            made: moved.sum("n_tup_ins").ok()? / work,
            gone: moved.sum("n_tup_del").ok()? / work,
            work,
        })
    }
}

/// D21: a temporary table made for each call.
pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    let Ok(uses) = &reading.statements else { return Vec::new() };
    Churn::of(reading, uses).and_then(|churn| finding(reading, uses, &churn)).into_iter().collect()
}

fn finding(reading: &Reading, uses: &StatementUses, churn: &Churn) -> Option<Finding> {
    let executing = churn.making.center;
    let execution = reading.execution(executing);
    let longer = if executing > 0.0 { execution.time / executing } else { 1.0 };
    let time = churn.making.clone().map(|seconds| seconds * longer);
    let impact = worth(reading, Some(time.clone()))?;
    // The commit deletes the files, and the catalog's rows where the drop is its doing.
    let least = time.low().unwrap_or(time.center) / 2.0;
    let relief = Relief::new(time, [WaitClass::Cpu]).at_least(least).and_cpu(execution.cpu_around);
    let inside = churn.users.first().filter(|user| churn.hides_in(user));
    let inside = inside.map_or(String::new(), |s| format!(" inside \"{}\"", s.short()));
    let mut finding = reading
        .finding(
            DiagnosisId::D21,
            Kind::Problem,
            format!(
                "{:.2} temporary tables are made a {}{inside}: each writes to the catalog, and its \
                 rows there are dead when it is gone.",
                churn.tables,
                reading.per().name()
            ),
        )
        .seen(churn.evidence(reading, uses))
        .costs(Some(impact))
        .gains(reading.gain(&relief))
        .blind_to(
            "By how much the files that are made and deleted lengthen flushes: a file system's \
             journal may have to take them along.",
        )
        .advise(Action::advice(
            "Make the table once: CREATE UNLOGGED TABLE with a key for the session, or pass \
             the rows as arrays to unnest(), or use a CTE.",
        ));
    let wal: f64 = churn.makers.iter().filter_map(|s| s.sum("wal_bytes")).sum();
    if churn.makers.is_empty() {
        finding = finding.blind_to(
            "The statement that makes the tables, and its time: pg_stat_statements.track = all \
             shows it, track_functions = pl the function.",
        );
    } else {
        let wal = Value::Bytes(wal / uses.work.count);
        finding = finding
            .seen([Evidence::new("pg_stat_statements", "WAL of it", wal).per(reading.per())]);
    }
    if churn.by_resets {
        let share = Value::Count(churn.tables);
        finding = finding
            .seen([Evidence::new("pg_stat_statements.wal_records", BY_RESETS, share)
                .per(reading.per())]);
    }
    Some(finding)
}
