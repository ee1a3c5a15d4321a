//! The cumulative views that are read whole each second: which columns this
//! server has, and the query that reads them.
//!
//! Columns are found in the catalog, not by version, because a fork may lack
//! some or have more.

use std::collections::HashMap;

use walwright_record::Source;

use super::session::Session;
use crate::ProbeError;

/// Columns of the statistics views of this server, in their order.
#[derive(Debug, Default, Clone)]
pub(crate) struct Columns(HashMap<String, Vec<String>>);

impl Columns {
    /// Reads them from the catalog.
    pub(crate) async fn detect(session: &Session) -> Result<Columns, ProbeError> {
        let wrong = |source| ProbeError::Query { what: "the columns of its views", source };
        let rows = session
            .client
            .query(
                "SELECT c.relname::text, array_agg(a.attname::text ORDER BY a.attnum)
                 FROM pg_catalog.pg_class c
                 JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
                 WHERE c.relnamespace = 'pg_catalog'::pg_catalog.regnamespace
                   AND (c.relname LIKE 'pg\\_stat%' OR c.relname = 'pg_replication_slots')
                   AND a.attnum > 0 AND NOT a.attisdropped
                 GROUP BY c.relname",
                &[],
            )
            .await
            .map_err(wrong)?;
        let read = rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?)));
        let read = read.collect::<Result<_, _>>();
        Ok(Columns(read.map_err(wrong)?))
    }

    /// The columns of `view`; empty where there is no such view.
    pub(crate) fn of(&self, view: &str) -> &[String] {
        self.0.get(view).map_or(&[], Vec::as_slice)
    }

    /// Whether there is such a view.
    pub(crate) fn has_view(&self, view: &str) -> bool {
        self.0.contains_key(view)
    }

    /// Whether `view` has `column`.
    pub(crate) fn has(&self, view: &str, column: &str) -> bool {
        self.of(view).iter().any(|c| c == column)
    }
}

#[cfg(test)]
impl Columns {
    pub(crate) fn with(mut self, view: &str, columns: &[&str]) -> Self {
        self.0.insert(view.to_owned(), columns.iter().map(|c| (*c).to_owned()).collect());
        self
    }
}

/// A view and the query that reads it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct View {
    pub(crate) source: Source,
    pub(crate) sql: String,
    /// Left out of the record while it has no rows.
    pub(crate) often_empty: bool,
}

/// The views read each second. `control_file` says whether this role may read
/// `pg_control_checkpoint()`.
pub(crate) fn counters(columns: &Columns, control_file: bool) -> Vec<View> {
    [
        database(columns),
        wal(columns),
        io(columns),
        checkpointer(columns, control_file),
        background_writer(columns),
        whole(columns, Source::Slru, "pg_stat_slru"),
        catalog(),
        functions(columns),
        slots(columns),
        replication(columns),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A time column as it is, or null while the setting that fills it is off.
pub(crate) fn time_or_null(column: &str, qualified: &str, setting: &str) -> String {
    // A session may have switched timing on for itself: what is there counts.
    format!(
        "CASE WHEN {qualified} <> 0 OR current_setting('{setting}')::bool THEN {qualified} END AS {column}"
    )
}

/// `prefix.column` for each of `columns`, with `special` deciding on some.
pub(crate) fn select_list(
    columns: &[String],
    prefix: &str,
    special: impl Fn(&str, &str) -> Option<String>,
) -> String {
    let parts: Vec<String> = columns
        .iter()
        .map(|column| {
            let qualified = format!("{prefix}.{column}");
            special(column, &qualified).unwrap_or(qualified)
        })
        .collect();
    parts.join(", ")
}

fn view(source: Source, sql: String) -> Option<View> {
    Some(View { source, sql, often_empty: false })
}

fn whole(columns: &Columns, source: Source, name: &str) -> Option<View> {
    let list = select_list(columns.of(name), "v", |_, _| None);
    if list.is_empty() { None } else { view(source, format!("SELECT {list} FROM {name} v")) }
}

fn database(columns: &Columns) -> Option<View> {
    let list = select_list(columns.of("pg_stat_database"), "v", |column, qualified| {
        matches!(column, "blk_read_time" | "blk_write_time")
            .then(|| time_or_null(column, qualified, "track_io_timing"))
    });
    view(
        Source::Database,
        format!(
            "SELECT {list}, age(d.datfrozenxid) AS datfrozenxid_age,
                    mxid_age(d.datminmxid) AS datminmxid_age
             FROM pg_stat_database v JOIN pg_database d ON d.oid = v.datid
             WHERE v.datname = current_database()"
        ),
    )
}

fn wal(columns: &Columns) -> Option<View> {
    let list = select_list(columns.of("pg_stat_wal"), "v", |column, qualified| {
        matches!(column, "wal_write_time" | "wal_sync_time")
            .then(|| time_or_null(column, qualified, "track_wal_io_timing"))
    });
    // CASE because the functions for the one state fail in the other.
    view(
        Source::Wal,
        format!(
            "SELECT {list},
                    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                         ELSE pg_current_wal_insert_lsn() END AS wal_lsn,
                    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn()
                         ELSE pg_current_wal_flush_lsn() END AS wal_flush_lsn
             FROM pg_stat_wal v"
        ),
    )
}

fn io(columns: &Columns) -> Option<View> {
    let names = columns.of("pg_stat_io");
    if names.is_empty() {
        return None;
    }
    let list = select_list(names, "v", |column, qualified| {
        column.ends_with("_time").then(|| {
            format!(
                "CASE WHEN {qualified} <> 0
                        OR current_setting(CASE v.object WHEN 'wal' THEN 'track_wal_io_timing'
                                                ELSE 'track_io_timing' END)::bool
                      THEN {qualified} END AS {column}"
            )
        })
    });
    view(Source::Io, format!("SELECT {list} FROM pg_stat_io v"))
}

/// Columns of `pg_stat_bgwriter` before 17 that are checkpoint columns, with
/// their names in `pg_stat_checkpointer`.
const CHECKPOINT_COLUMNS: [(&str, &str); 5] = [
    ("checkpoints_timed", "num_timed"),
    ("checkpoints_req", "num_requested"),
    ("checkpoint_write_time", "write_time"),
    ("checkpoint_sync_time", "sync_time"),
    ("buffers_checkpoint", "buffers_written"),
];

fn checkpointer(columns: &Columns, control_file: bool) -> Option<View> {
    let control = if control_file {
        (
            ", c.checkpoint_lsn, c.redo_lsn, c.checkpoint_time",
            "CROSS JOIN pg_control_checkpoint() c",
        )
    } else {
        ("", "")
    };
    let (name, list) = if columns.has_view("pg_stat_checkpointer") {
        let name = "pg_stat_checkpointer";
        (name, select_list(columns.of(name), "v", |_, _| None))
    } else {
        let name = "pg_stat_bgwriter";
        let mut parts: Vec<String> = CHECKPOINT_COLUMNS
            .iter()
            .filter(|(old, _)| columns.has(name, old))
            .map(|(old, new)| format!("v.{old} AS {new}"))
            .collect();
        if parts.is_empty() {
            return None;
        }
        parts.push("v.stats_reset".to_owned());
        (name, parts.join(", "))
    };
    view(Source::Checkpointer, format!("SELECT {list}{} FROM {name} v {}", control.0, control.1))
}

fn background_writer(columns: &Columns) -> Option<View> {
    let name = "pg_stat_bgwriter";
    let own: Vec<String> = columns
        .of(name)
        .iter()
        .filter(|column| CHECKPOINT_COLUMNS.iter().all(|(old, _)| old != column))
        .cloned()
        .collect();
    let list = select_list(&own, "v", |_, _| None);
    if list.is_empty() {
        return None;
    }
    view(Source::BackgroundWriter, format!("SELECT {list} FROM {name} v"))
}

/// The catalogs that `CREATE TABLE` and its drop write to. Their rows tell how often tables are
/// made, wherever the statement that makes them hides.
fn catalog() -> Option<View> {
    view(
        Source::Catalog,
        "SELECT c.relname, pg_stat_get_tuples_inserted(c.oid) AS n_tup_ins,
                pg_stat_get_tuples_updated(c.oid) AS n_tup_upd,
                pg_stat_get_tuples_deleted(c.oid) AS n_tup_del,
                pg_stat_get_dead_tuples(c.oid) AS n_dead_tup
         FROM unnest('{pg_class,pg_attribute,pg_attrdef,pg_type,pg_depend,pg_index,pg_constraint,\
                       pg_statistic}'::text[]) AS v (name)
         JOIN pg_class c ON c.oid = ('pg_catalog.' || v.name)::regclass"
            .to_owned(),
    )
}

/// Empty where `track_functions` is off.
fn functions(columns: &Columns) -> Option<View> {
    let list = select_list(columns.of("pg_stat_user_functions"), "v", |_, _| None);
    // Looking for them goes through all of pg_proc.
    (!list.is_empty()).then(|| View {
        source: Source::Functions,
        sql: format!(
            "SELECT {list} FROM pg_stat_user_functions v
             WHERE current_setting('track_functions') <> 'none'"
        ),
        often_empty: true,
    })
}

fn slots(columns: &Columns) -> Option<View> {
    let list = select_list(columns.of("pg_replication_slots"), "v", |column, qualified| {
        // Transaction ids say little; how far back they hold vacuum does.
        matches!(column, "xmin" | "catalog_xmin")
            .then(|| format!("age({qualified}) AS {column}_age"))
    });
    Some(View {
        source: Source::ReplicationSlots,
        sql: format!("SELECT {list} FROM pg_replication_slots v"),
        often_empty: true,
    })
}

fn replication(columns: &Columns) -> Option<View> {
    let list = select_list(columns.of("pg_stat_replication"), "v", |column, qualified| {
        (column == "backend_xmin").then(|| format!("age({qualified}) AS backend_xmin_age"))
    });
    Some(View {
        source: Source::Replication,
        sql: format!("SELECT {list} FROM pg_stat_replication v"),
        often_empty: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sql(views: &[View], source: Source) -> &str {
        &views.iter().find(|v| v.source == source).unwrap().sql
    }

    fn base() -> Columns {
        Columns::default()
            .with("pg_stat_database", &["datid", "datname", "blk_read_time"])
            .with("pg_stat_wal", &["wal_bytes", "wal_sync_time"])
            .with("pg_stat_slru", &["name", "blks_zeroed"])
            .with("pg_replication_slots", &["slot_name", "xmin"])
            .with("pg_stat_replication", &["pid", "backend_xmin"])
    }

    #[test]
    fn checkpoint_columns_carry_the_names_of_17_on_older_servers() {
        let columns = base().with(
            "pg_stat_bgwriter",
            &["checkpoints_timed", "checkpoints_req", "buffers_clean", "stats_reset"],
        );
        let views = counters(&columns, true);
        let checkpointer = sql(&views, Source::Checkpointer);
        assert!(checkpointer.contains("checkpoints_req AS num_requested"), "{checkpointer}");
        assert!(!checkpointer.contains("buffers_clean"), "{checkpointer}");
        assert!(checkpointer.contains("pg_control_checkpoint()"), "{checkpointer}");
        let writer = sql(&views, Source::BackgroundWriter);
        assert!(writer.contains("buffers_clean") && !writer.contains("checkpoints_"), "{writer}");
        assert!(views.iter().all(|v| v.source != Source::Io));
    }

    #[test]
    fn a_view_of_its_own_is_read_as_it_is() {
        let columns = base()
            .with("pg_stat_bgwriter", &["buffers_clean"])
            .with("pg_stat_checkpointer", &["num_timed", "num_done"])
            .with("pg_stat_io", &["backend_type", "object", "context", "fsync_time"]);
        let views = counters(&columns, false);
        assert_eq!(
            sql(&views, Source::Checkpointer).trim(),
            "SELECT v.num_timed, v.num_done FROM pg_stat_checkpointer v"
        );
        assert!(sql(&views, Source::Io).contains("track_wal_io_timing"));
    }

    #[test]
    fn times_without_timing_are_not_zero() {
        let views = counters(&base(), false);
        assert!(sql(&views, Source::Wal).contains("track_wal_io_timing"));
        assert!(sql(&views, Source::Database).contains("track_io_timing"));
    }
}
