//! D22, D38 and D41: dead rows that vacuum does not keep up with.
//!
//! Autovacuum takes a table when its dead rows exceed `threshold + scale_factor ×
//! rows` (at most `max_threshold` from 18 on), looked at every naptime. Dead rows
//! beyond that for two naptimes mean that it does not run, or does not get through.

use std::time::Duration;

use walwright_record::{Row, SchemaTable, Source, TableKind, Timestamp};

use super::by_cost;

use super::view::{View, bounded};
use crate::rules::threshold::WORTH;
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Value};

/// Dead rows for each live one from which a table is mostly dead.
const MOSTLY_DEAD: f64 = 10.0;
/// Dead rows under which that costs nothing yet.
const MANY: f64 = 10_000.0;
/// Dead rows over the threshold before anything is said: it is crossed and come
/// back from all the time.
const OVER: f64 = 2.0;
/// Buffers a second that a vacuum takes again from its ring, from which the ring limits it.
const REUSES: f64 = 100.0;

pub(super) fn findings(view: &View) -> Vec<Finding> {
    let tables = view.facts.tables.iter().filter(|t| t.kind != TableKind::Partitioned);
    let mut found: Vec<Finding> = tables.filter_map(|table| dead_rows(view, table)).collect();
    let behind = !found.is_empty();
    found.extend(ring(view, behind));
    found
}

/// Dead and live rows of a table at the end of the window.
struct Rows {
    dead: f64,
    live: f64,
    threshold: f64,
    /// Whether they were over it for two naptimes and nothing vacuumed.
    overdue: bool,
}

/// D22, or D38.
fn dead_rows(view: &View, table: &SchemaTable) -> Option<Finding> {
    let counters = view.counters(table.oid)?;
    let of = |column: &str| counters.delta(column).unwrap_or(0.0);
    let written = of("n_tup_ins") + of("n_tup_upd") + of("n_tup_del");
    if written <= 0.0 {
        return None;
    }
    let rows = rows(view, table, &counters.last)?;
    let disabled = disabled(view, table);
    let staging = of("n_tup_ins") > 0.0
        && of("n_tup_del") >= 0.5 * of("n_tup_ins")
        && rows.dead >= MANY
        && rows.dead >= MOSTLY_DEAD * rows.live.max(1.0);
    let behind = rows.dead > OVER * rows.threshold && (disabled.is_some() || rows.overdue);
    if !staging && !behind {
        return None;
    }
    let name = table.qualified();
    let share = rows.dead / (rows.dead + rows.live).max(1.0);
    let (id, cause) = if staging {
        let cause = format!(
            "{name} is filled and emptied by deletes: {:.0} dead rows for {:.0} live ones, and every scan reads them all",
            rows.dead, rows.live
        );
        (DiagnosisId::D22, cause)
    } else {
        let why = match disabled {
            Some(Disabled::Globally) => "autovacuum is off",
            Some(Disabled::Table) => "autovacuum is off for it",
            None => "no vacuum has got through it for two naptimes",
        };
        let cause = format!(
            "{name} holds {:.0} dead rows, {:.1} times the threshold of autovacuum: {why}",
            rows.dead,
            rows.dead / rows.threshold
        );
        (DiagnosisId::D38, cause)
    };
    let mut finding = view.finding(id, Kind::Information, cause).about(name).seen([
        Evidence::new("pg_stat_user_tables.n_dead_tup", "dead rows", Value::Count(rows.dead)),
        Evidence::new("pg_stat_user_tables.n_live_tup", "live rows", Value::Count(rows.live)),
        Evidence::new(
            "pg_settings, reloptions",
            "threshold of autovacuum",
            Value::Count(rows.threshold),
        ),
        Evidence::new(
            "pg_stat_user_tables.autovacuum_count",
            "autovacuums that ended in the window",
            Value::Count(of("autovacuum_count")),
        ),
    ]);
    let held = old_transactions(view);
    if let Some(age) = held {
        finding = finding.blind_to(format!(
            "how many of them vacuum may remove: a transaction was open for {age:.0} s, and rows that died since stay"
        ));
    }
    for action in actions(view, table, staging, disabled, &rows) {
        finding = finding.advise(action);
    }
    // Statements that find rows by an index pass a dead one now and then; those that
    // scan read all. The statements' own time bounds either.
    let touching = view.all_working(&view.mentioning(table));
    let scans = of("seq_scan") > 0.0;
    let cost = match scans {
        true => bounded(0.1 * touching * share, 0.6 * touching * share, touching * share),
        false => bounded(0.0, 0.1 * touching * share, 0.5 * touching * share),
    };
    let finding = view.costing_cpu(finding, cost);
    // Switched off is a defect, whatever it costs so far. Where autovacuum has had no turn yet
    // nobody knows how many dead rows it would leave: then only what costs much is a problem.
    let costs_much = finding.impact.as_ref().is_some_and(|impact| impact.share.center >= WORTH);
    let had_a_turn = of("autovacuum_count") > 0.0 || rows.overdue || costs_much;
    Some(match disabled {
        Some(_) if behind => Finding { kind: Kind::Problem, ..finding },
        None if !had_a_turn => finding.blind_to(
            "what autovacuum leaves of them: the window ended before its turn came (autovacuum_naptime)",
        ),
        _ => by_cost(finding),
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Disabled {
    Globally,
    Table,
}

fn disabled(view: &View, table: &SchemaTable) -> Option<Disabled> {
    let off = |value: &str| matches!(value, "off" | "false" | "no" | "0");
    if view.reading.is_set("autovacuum", "off") {
        return Some(Disabled::Globally);
    }
    let own = table.options.get("autovacuum_enabled");
    own.is_some_and(|value| off(value)).then_some(Disabled::Table)
}

fn rows(view: &View, table: &SchemaTable, last: &Row) -> Option<Rows> {
    let dead = last.number("n_dead_tup")?;
    let live = last.number("n_live_tup")?;
    let option = |name: &str| {
        let own = table.options.get(name).and_then(|value| value.parse::<f64>().ok());
        own.or_else(|| view.reading.number(name))
    };
    let known = last.number("reltuples").filter(|rows| *rows >= 0.0).unwrap_or(live);
    let mut threshold =
        option("autovacuum_vacuum_threshold")? + option("autovacuum_vacuum_scale_factor")? * known;
    if let Some(most) = option("autovacuum_vacuum_max_threshold").filter(|most| *most >= 0.0) {
        threshold = threshold.min(most);
    }
    let threshold = threshold.max(1.0);
    let naptime = view.reading.seconds("autovacuum_naptime").unwrap_or(60.0);
    let before = Duration::try_from_secs_f64(2.0 * naptime).unwrap_or(Duration::MAX);
    let window = view.reading.window;
    let overdue = window.length() > before && {
        let start = Timestamp(window.end.0.saturating_sub(before.as_micros() as i64));
        let then = state_at(view, table.oid, start);
        then.is_some_and(|then| {
            let over = then.number("n_dead_tup").is_some_and(|dead| dead > OVER * threshold);
            over && then.number("autovacuum_count") == last.number("autovacuum_count")
                && then.number("vacuum_count") == last.number("vacuum_count")
        })
    };
    Some(Rows { dead, live, threshold, overdue })
}

/// What was last known of a table at a moment.
fn state_at<'r>(view: &View<'_, 'r>, table: u32, at: Timestamp) -> Option<&'r Row> {
    let samples = view.reading.record.samples(Source::Tables);
    let before = samples.iter().take_while(|sample| sample.at <= at);
    let rows = before.flat_map(|sample| &sample.rows);
    rows.filter(|row| row.number("relid") == Some(f64::from(table))).last()
}

/// Age in seconds of the oldest transaction seen, where it is longer than the window
/// of a vacuum.
fn old_transactions(view: &View) -> Option<f64> {
    let samples = view.reading.record.samples(Source::Sessions);
    let last = samples.iter().rfind(|s| view.reading.window.contains(s.at))?;
    let age = last.rows.first()?.number("oldest_transaction_seconds")?;
    (age > 60.0).then_some(age)
}

fn actions(
    view: &View,
    table: &SchemaTable,
    staging: bool,
    disabled: Option<Disabled>,
    rows: &Rows,
) -> Vec<Action> {
    let sql = table.sql();
    let mut actions = Vec::new();
    match disabled {
        Some(Disabled::Globally) => {
            actions.extend(view.reading.set("autovacuum", "on", "let dead rows be removed"));
        }
        Some(Disabled::Table) => actions.push(Action::ddl(
            "let autovacuum take it",
            format!("ALTER TABLE {sql} RESET (autovacuum_enabled);"),
            format!("ALTER TABLE {sql} SET (autovacuum_enabled = off);"),
        )),
        None => {}
    }
    if staging {
        actions.push(Action::advice(format!(
            "empty {} by TRUNCATE where all of it goes, or keep one such table a session or partition",
            table.qualified()
        )));
    }
    actions.push(Action::sql(
        "remove them now; space at the end of the table is given back, the rest is used again",
        format!("VACUUM (ANALYZE) {sql};"),
        None,
    ));
    let wanted = if staging { 1_000.0 } else { (0.02 * rows.live).max(1_000.0).round() };
    if rows.threshold > OVER * wanted && disabled.is_none() {
        let options = ["autovacuum_vacuum_scale_factor", "autovacuum_vacuum_threshold"];
        let back: Vec<String> = options
            .iter()
            .filter_map(|name| Some(format!("{name} = {}", table.options.get(*name)?)))
            .collect();
        let rollback = match back.is_empty() {
            true => format!("ALTER TABLE {sql} RESET ({});", options.join(", ")),
            false => format!("ALTER TABLE {sql} SET ({});", back.join(", ")),
        };
        actions.push(Action::ddl(
            "vacuum it sooner than tables in general",
            format!(
                "ALTER TABLE {sql} SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = {wanted});"
            ),
            rollback,
        ));
    }
    actions
}

/// D41: a vacuum that wraps around its ring writes its dirty pages, and flushes the
/// WAL of their changes, itself.
fn ring(view: &View, behind: bool) -> Option<Finding> {
    let io = view.reading.difference(Source::Io).ok()?;
    let vacuum = |row: &Row| {
        row.text("context") == Some("vacuum")
            && matches!(row.text("backend_type"), Some("autovacuum worker" | "client backend"))
    };
    let seconds = io.length().as_secs_f64();
    let reuses = io.sum_where("reuses", vacuum).ok()? / seconds;
    let writes = io.sum_where("writes", vacuum).ok()? / seconds;
    let limit = view.reading.bytes("vacuum_buffer_usage_limit")?;
    let buffers = view.reading.bytes("shared_buffers")?;
    // An eighth of shared buffers is the most it may take; 32 MB is a hundred times
    // fewer flushes than 256 kB and still little.
    let wanted = (32.0 * 1024.0 * 1024.0_f64).min(buffers / 8.0);
    if limit <= 0.0 || limit * 2.0 > wanted || reuses < REUSES || writes < 0.1 * reuses {
        return None;
    }
    let kind = if behind { Kind::Problem } else { Kind::Information };
    let megabytes = (wanted / 1_048_576.0).floor().max(1.0);
    let finding = view
        .finding(
            DiagnosisId::D41,
            kind,
            format!(
                "Vacuum goes round a ring of {:.0} kB and writes out its own dirty pages, with a WAL flush each time round",
                limit / 1024.0
            ),
        )
        .seen([
            Evidence::new("pg_stat_io.reuses", "buffers taken again from the ring", Value::Count(reuses))
                .per(crate::Per::Second),
            Evidence::new("pg_stat_io.writes", "of them written by the vacuum", Value::Count(writes))
                .per(crate::Per::Second),
        ]);
    let action = view.reading.set(
        "vacuum_buffer_usage_limit",
        &format!("{megabytes}MB"),
        "give vacuum a larger ring",
    );
    Some(action.into_iter().fold(finding, Finding::advise))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Testbed, table};
    use super::*;

    fn testbed(dead: f64, live: f64, deleted: f64) -> Testbed {
        let mut testbed = Testbed::new();
        for (name, value) in [
            ("autovacuum", "on"),
            ("autovacuum_vacuum_threshold", "50"),
            ("autovacuum_vacuum_scale_factor", "0.2"),
            ("autovacuum_naptime", "60"),
        ] {
            testbed.build.setting(name, value);
        }
        testbed.build.record.settings.iter_mut().for_each(|s| {
            if s.name == "autovacuum_naptime" {
                s.unit = Some("s".into());
            }
        });
        let used = [
            ("n_tup_ins", 1.0),
            ("n_tup_del", deleted),
            ("seq_scan", 1.0),
            ("n_dead_tup", dead),
            ("n_live_tup", live),
            ("reltuples", live),
            ("autovacuum_count", 0.0),
        ];
        testbed.table(table(1, "t", &["id"]), used);
        testbed.statement(7, "DELETE FROM t WHERE id < $1", 1.0, 1.0);
        testbed
    }

    fn ids(testbed: &mut Testbed) -> Vec<(DiagnosisId, Kind)> {
        testbed.findings().iter().map(|f| (f.id, f.kind)).collect()
    }

    #[test]
    fn a_staging_table_full_of_dead_rows() {
        let found = testbed(100_000.0, 500.0, 1.0).findings();
        assert_eq!((found[0].id, found[0].kind), (DiagnosisId::D22, Kind::Problem));
        assert!(
            found[0]
                .actions
                .iter()
                .any(|a| a.command().is_some_and(|c| c == "VACUUM (ANALYZE) public.t;"))
        );
        assert_eq!(ids(&mut testbed(5_000.0, 100.0, 1.0)), [], "few");
    }

    #[test]
    fn dead_rows_that_autovacuum_will_take_are_nothing_to_say() {
        // Over the threshold, but in a window shorter than two naptimes.
        assert_eq!(ids(&mut testbed(90_000.0, 100_000.0, 0.1)), []);
    }

    #[test]
    fn autovacuum_switched_off_is_a_problem_once_rows_die() {
        let mut off = testbed(90_000.0, 100_000.0, 0.1);
        off.facts.tables[0].options.insert("autovacuum_enabled".into(), "false".into());
        let found = off.findings();
        assert_eq!((found[0].id, found[0].kind), (DiagnosisId::D38, Kind::Problem));
        assert_eq!(
            found[0].actions[0].command().unwrap(),
            "ALTER TABLE public.t RESET (autovacuum_enabled);"
        );
        off.facts.tables[0].options.clear();
        off.build.record.settings.remove(0);
        off.build.setting("autovacuum", "off");
        let found = off.findings();
        assert_eq!(found[0].actions[0].command().unwrap(), "ALTER SYSTEM SET autovacuum = 'on';");
        let mut few = testbed(100.0, 100_000.0, 0.1);
        few.build.record.settings.remove(0);
        few.build.setting("autovacuum", "off");
        assert_eq!(ids(&mut few), [], "nothing to vacuum yet");
    }

    /// A testbed whose vacuum takes buffers again from a ring of so many kB, and writes this share
    /// of them, each second.
    fn ring_of(kilobytes: &str, reuses: f64, written: f64) -> Testbed {
        let mut testbed = testbed(0.0, 100_000.0, 0.1);
        for (name, value, unit) in
            [("vacuum_buffer_usage_limit", kilobytes, "kB"), ("shared_buffers", "65536", "8kB")]
        {
            testbed.build.setting(name, value);
            if let Some(setting) = testbed.build.record.settings.last_mut() {
                setting.unit = Some(unit.into());
            }
        }
        for s in 0..30 {
            let t = f64::from(s);
            let worker = |context: &str| {
                walwright_testing::named(
                    [
                        ("backend_type", "autovacuum worker"),
                        ("object", "relation"),
                        ("context", context),
                    ],
                    [("reuses", reuses * t), ("writes", written * reuses * t)],
                )
            };
            testbed.build.sample(t, Source::Io, [worker("vacuum")]);
        }
        testbed
    }

    #[test]
    fn a_ring_that_vacuum_goes_round_all_the_time() {
        let found = ring_of("256", 2_000.0, 0.6).findings();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].id, found[0].kind), (DiagnosisId::D41, Kind::Information));
        assert!(found[0].cause.contains("a ring of 256 kB"), "{}", found[0].cause);
        let rates: Vec<&Value> = found[0].evidence.iter().map(|e| &e.value).collect();
        assert_eq!(rates, [&Value::Count(2_000.0), &Value::Count(1_200.0)]);
        // An eighth of 512 MB is more than the 32 MB that are enough.
        assert_eq!(
            found[0].actions[0].command().unwrap(),
            "ALTER SYSTEM SET vacuum_buffer_usage_limit = '32MB';"
        );
    }

    #[test]
    fn a_small_ring_counts_where_vacuum_is_behind() {
        let mut behind = ring_of("256", 2_000.0, 0.6);
        behind.facts.tables.clear();
        let used = [
            ("n_tup_ins", 1.0),
            ("n_tup_del", 1.0),
            ("n_dead_tup", 100_000.0),
            ("n_live_tup", 500.0),
        ];
        behind.build.record.samples.remove(&Source::Tables);
        behind.table(table(1, "t", &["id"]), used);
        let found = ids(&mut behind);
        assert!(found.contains(&(DiagnosisId::D41, Kind::Problem)), "{found:?}");
    }

    #[test]
    fn a_ring_that_is_large_idle_or_left_clean_is_nothing_to_say() {
        assert_eq!(ids(&mut ring_of("32768", 2_000.0, 0.6)), [], "large enough");
        assert_eq!(ids(&mut ring_of("0", 2_000.0, 0.6)), [], "no ring at all");
        assert_eq!(ids(&mut ring_of("256", 50.0, 0.6)), [], "hardly any vacuum");
        assert_eq!(ids(&mut ring_of("256", 2_000.0, 0.05)), [], "others clean the pages");
    }
}
