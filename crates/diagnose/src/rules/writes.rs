//! Statements that write in a costlier way than they need to.

use walwright_figures::{StatementUse, StatementUses, WaitClass};

use super::control::is_data;
use super::threshold::{FEW, worth};
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Reading, Relief, Value};

/// Single-row inserts into one table in a transaction from which they are a stream
/// and not a few facts.
const STREAM: f64 = 5.0;
/// Part of a row's execution that a multi-row insert saves: parse, bind, executor
/// start and end. Rows sent as arrays take about half the time of rows sent alone.
const SAVED: f64 = 0.5;

pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    let Ok(uses) = &reading.statements else { return Vec::new() };
    [row_by_row(reading, uses), reinsert(reading, uses), no_change(reading, uses)]
        .into_iter()
        .flatten()
        .collect()
}

/// Evidence of a statement's calls a transaction.
pub(super) fn calls(reading: &Reading, uses: &StatementUses, of: &StatementUse) -> Evidence {
    let what = format!("calls of {}", of.short());
    Evidence::new("pg_stat_statements", what, Value::Count(of.calls / uses.work.count))
        .per(reading.per())
}

/// D7: a stream of one-row inserts.
fn row_by_row(reading: &Reading, uses: &StatementUses) -> Option<Finding> {
    let each = |s: &StatementUse| s.calls / uses.work.count;
    let stream = uses
        .toplevel()
        .filter(|s| s.verb() == "insert" && s.per_call("rows").is_some_and(|rows| rows <= 1.5))
        .max_by(|a, b| a.calls.total_cmp(&b.calls))
        .filter(|s| each(s) >= STREAM)?;
    let all: f64 = uses.toplevel().filter(|s| is_data(s)).map(each).sum();
    let executing = stream.seconds() / uses.work.count;
    let gaps = reading.in_classes(&[WaitClass::Client])?;
    let share = each(stream) / all.max(1.0) * (1.0 - 1.0 / each(stream));
    // Each round trip wakes the backend, which then waits for a processor.
    let waking = reading.in_run_queue() * share;
    let time = gaps.map(|g| g * share + waking + SAVED * executing);
    let impact = worth(reading, Some(time.clone()))?;
    // What a statement takes besides its execution goes with it: reading its messages,
    // binding, answering.
    let all_cpu = reading.summary.time.as_ref().and_then(|t| t.counted_cpu);
    let cpu = all_cpu.map_or(SAVED * executing, |cpu| cpu.as_secs_f64() * share);
    let relief = Relief::new(time, [WaitClass::Client, WaitClass::RunQueue, WaitClass::Cpu])
        .and_cpu(cpu)
        .and_messages(share);
    let table = stream.target().unwrap_or_else(|| "the table".to_owned());
    Some(
        reading
            .finding(
                DiagnosisId::D7,
                Kind::Problem,
                format!(
                    "A transaction inserts {:.0} rows into {table} one by one, each with its own \
                     round trip and execution.",
                    each(stream)
                ),
            )
            .about(table.clone())
            .seen([calls(reading, uses, stream)])
            .seen(stream.per_call("rows").map(|rows| {
                Evidence::new("pg_stat_statements", "rows", Value::Count(rows))
                    .per(crate::Per::Call)
            }))
            .costs(Some(impact))
            .gains(reading.gain(&relief))
            .advise(reading.in_form(
                format!(
                    "Send the rows together: INSERT INTO {table} … SELECT * FROM unnest($1, $2, …), \
                     a multi-row VALUES list, or COPY."
                ),
                "unnest",
                None,
            ))
            .advise(reading.pipelined(
                "Where the code cannot change, send the inserts in a pipeline: fewer round trips.",
            )),
    )
}

/// Sets of rows, as large as a DELETE takes, that a table holds at least if they stay in
/// it: more than the sessions of a usual load have in hand at a time.
const SETS: f64 = 20.0;
/// Rows that a DELETE takes on average from which it takes the children of a row, not a row
/// by its key.
const SET_ROWS: f64 = 1.5;

/// D17: all children of a row are deleted and inserted again.
fn reinsert(reading: &Reading, uses: &StatementUses) -> Option<Finding> {
    // Functions may do it, too; their statements are counted where nested ones are tracked.
    let deletes = uses.all.iter().filter(|s| s.verb() == "delete" && s.calls >= FEW);
    let pairs = deletes.filter_map(|delete| {
        let table = delete.target()?;
        let key = filter_columns(delete.plain()).into_iter().next()?;
        let inserts: Vec<&StatementUse> = uses
            .all
            .iter()
            .filter(|s| s.verb() == "insert" && s.target().as_ref() == Some(&table))
            .filter(|s| inserts_column(s.plain(), &key))
            .collect();
        let rows = |s: &StatementUse| s.sum("rows");
        let inserted: f64 = inserts.iter().filter_map(|s| rows(s)).sum();
        let deleted = rows(delete)?;
        // A queue deletes single rows by their own key. A set of children goes and
        // comes by the key of the parent, about as many as before.
        let own_key = is_unique_key(reading, &table, &filter_columns(delete.plain()));
        let balanced = inserted > 0.0 && (deleted / inserted) > 0.5 && (deleted / inserted) < 2.0;
        // A table that is filled and emptied again keeps no rows: that is staging.
        let kept =
            live_rows(reading, &table).is_none_or(|live| live >= SETS * deleted / delete.calls);
        // One row a call is one row by a key, whatever it is inserted again for.
        let whole_sets = deleted >= SET_ROWS * delete.calls;
        (balanced && !own_key && whole_sets && kept).then_some((table, key, delete, inserts))
    });
    let time_of = |delete: &StatementUse, inserts: &[&StatementUse]| -> f64 {
        delete.seconds() + inserts.iter().map(|s| s.seconds()).sum::<f64>()
    };
    let (table, key, delete, inserts) =
        pairs.max_by(|a, b| time_of(a.2, &a.3).total_cmp(&time_of(b.2, &b.3)))?;
    let executing = time_of(delete, &inserts) / uses.work.count;
    let wal = |s: &StatementUse| s.sum("wal_bytes").unwrap_or(0.0);
    let written = (wal(delete) + inserts.iter().map(|s| wal(s)).sum::<f64>()) / uses.work.count;
    // Their WAL is flushed by the commit, in proportion.
    let share = uses.sum("wal_bytes").filter(|all| *all > 0.0);
    let share = share.map_or(0.0, |all| written * uses.work.count / all);
    let sent = inserts.iter().copied().chain([delete]).filter(|s| s.toplevel);
    let trips: f64 =
        sent.map(|s| s.calls).sum::<f64>() / uses.toplevel().map(|s| s.calls).sum::<f64>();
    let gaps = reading.in_classes(&[WaitClass::Client]).map_or(0.0, |e| e.center);
    let execution = reading.execution(executing);
    let time = reading.counted(execution.time + trips * gaps);
    let impact = worth(reading, Some(time.clone()))?;
    let relief = Relief::new(time, [WaitClass::Cpu, WaitClass::Client]).and_cpu(execution.cpu);
    Some(
        reading
            .finding(
                DiagnosisId::D17,
                Kind::Problem,
                format!(
                    "Rows of {table} are deleted by {key} and inserted again, about as many as \
                     were there: most of it writes what was there before."
                ),
            )
            .about(table.clone())
            .seen([calls(reading, uses, delete)])
            .seen(inserts.iter().map(|s| calls(reading, uses, s)))
            .seen([
                Evidence::new("pg_stat_statements", "WAL of both", Value::Bytes(written))
                    .per(reading.per()),
                Evidence::new(
                    "pg_stat_statements",
                    "their share of the WAL",
                    Value::Fraction(share),
                ),
            ])
            .costs(Some(impact))
            .gains(reading.gain(&relief))
            .blind_to("How many of the rows really differ; the gain is what remains if none does.")
            .advise(Action::advice(format!(
                "Write the difference only: MERGE INTO {table}, or INSERT … ON CONFLICT DO UPDATE \
                 … WHERE the row IS DISTINCT FROM the new one, and DELETE only what is gone."
            ))),
    )
}

/// Rows of a table at the end of the window, as the statistics estimate them.
fn live_rows(reading: &Reading, table: &str) -> Option<f64> {
    let name = table.rsplit('.').next().unwrap_or(table);
    let tables = reading.difference(walwright_record::Source::Tables).ok()?;
    let row = tables.rows.iter().find(|row| row.last.text("relname") == Some(name))?;
    row.last.number("n_live_tup")
}

/// The columns that the WHERE of a statement compares for equality, in order.
fn filter_columns(plain: &str) -> Vec<String> {
    let Some((_, filter)) = plain.split_once(" where ") else { return Vec::new() };
    let column = |condition: &str| {
        let (column, _) = condition.split_once('=')?;
        let column = column.trim().rsplit(['.', ' ', '(']).next()?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        (!column.is_empty() && column.chars().all(is_name)).then(|| column.to_owned())
    };
    filter.split(" and ").filter_map(column).collect()
}

/// Whether an INSERT fills a column: it names it, or names none and so fills all.
fn inserts_column(plain: &str, column: &str) -> bool {
    let Some((_, after)) = plain.split_once(" into ") else { return false };
    let named = after.split_once(' ').is_some_and(|(_, rest)| rest.starts_with('('))
        || after.split(' ').next().is_some_and(|name| name.contains('('));
    if !named {
        return true;
    }
    let Some((list, _)) = after.split_once('(').and_then(|(_, l)| l.split_once(')')) else {
        return false;
    };
    list.split(',').any(|name| name.trim() == column)
}

/// Whether these columns hold a unique key of the table.
fn is_unique_key(reading: &Reading, table: &str, columns: &[String]) -> bool {
    let name = table.rsplit('.').next().unwrap_or(table);
    let tables = reading.record.target.iter().flat_map(|t| &t.tables);
    tables.filter(|t| t.name == name).flat_map(|t| &t.indexes).any(|definition| {
        let unique = definition.starts_with("CREATE UNIQUE");
        let key = definition.rsplit_once('(').and_then(|(_, key)| key.strip_suffix(')'));
        key.is_some_and(|key| {
            unique && key.split(',').all(|part| columns.iter().any(|c| c == part.trim()))
        })
    })
}

/// D18: statements that write a row as it is.
fn no_change(reading: &Reading, uses: &StatementUses) -> Option<Finding> {
    let candidates = uses.all.iter().filter(|s| s.calls >= FEW && s.sum("rows") > Some(0.0));
    let (statement, certain) = candidates
        .filter_map(|s| {
            let text = s.plain();
            let always_there = || overwrites(text) && never_inserts(reading, s);
            if assigns_itself(text) || (always_there() && super::script::writes_by_key(reading, s))
            {
                Some((s, true))
            } else {
                always_there().then_some((s, false))
            }
        })
        .max_by(|a, b| a.0.seconds().total_cmp(&b.0.seconds()))?;
    let executing = statement.seconds() / uses.work.count;
    let execution = reading.execution(executing);
    let time = reading.counted(execution.time);
    let impact = worth(reading, Some(time.clone()))?;
    let relief = Relief::new(time, [WaitClass::Cpu]).and_cpu(execution.cpu);
    let cause = match certain {
        true => format!("Updates write rows as they are: \"{}\".", statement.short()),
        false => format!(
            "Upserts always find their row and overwrite it without a look whether anything \
             changes: \"{}\".",
            statement.short()
        ),
    };
    let kind = if certain { Kind::Problem } else { Kind::Symptom };
    let mut finding = reading
        .finding(DiagnosisId::D18, kind, cause)
        .about(statement.target().unwrap_or_default())
        .seen([calls(reading, uses, statement)])
        .seen(statement.per_call("wal_bytes").map(|bytes| {
            Evidence::new("pg_stat_statements", "WAL", Value::Bytes(bytes)).per(crate::Per::Call)
        }))
        .costs(Some(impact))
        .gains(reading.gain(&relief))
        .advise(Action::advice(
            "Skip what changes nothing: … WHERE (t.a, t.b) IS DISTINCT FROM ($1, $2), for an upsert \
             in its DO UPDATE; or ON CONFLICT DO NOTHING. A skipped row writes no WAL.",
        ));
    if !certain {
        finding =
            finding.blind_to("Whether the new values equal the old ones: no counter shows it.");
    }
    Some(finding)
}

/// Whether an UPDATE sets a column to itself and nothing else.
fn assigns_itself(plain: &str) -> bool {
    let Some((_, rest)) = plain.split_once(" set ").filter(|_| plain.starts_with("update ")) else {
        return false;
    };
    let list = rest.split(" where ").next().unwrap_or(rest);
    let same = |part: &str| {
        part.split_once('=').is_some_and(|(a, b)| {
            let column = |name: &str| name.trim().rsplit('.').next().unwrap_or("").to_owned();
            column(a) == column(b) && !column(a).is_empty()
        })
    };
    list.split(',').all(same)
}

/// Whether an upsert overwrites with the new values alone and has no guard.
fn overwrites(plain: &str) -> bool {
    let Some((_, update)) = plain.split_once(" do update set ") else { return false };
    let list = update.split(" returning ").next().unwrap_or(update);
    !list.contains(" where ")
        && list.split(',').all(|part| {
            part.split_once('=').is_some_and(|(column, value)| {
                value.trim() == format!("excluded.{}", column.trim())
            })
        })
}

/// Whether no row of the statement's table was inserted in the window while it ran.
fn never_inserts(reading: &Reading, statement: &StatementUse) -> bool {
    let Some(table) = statement.target() else { return false };
    let name = table.rsplit('.').next().unwrap_or(&table);
    let Ok(tables) = reading.difference(walwright_record::Source::Tables) else { return false };
    tables.rows.iter().filter(|row| row.last.text("relname") == Some(name)).any(|row| {
        row.delta("n_tup_upd").is_some_and(|updated| {
            updated >= FEW && row.delta("n_tup_ins").is_some_and(|n| n < 0.01 * updated)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read() {
        let delete = "delete from item where order_id = $1";
        assert_eq!(filter_columns(delete), ["order_id"]);
        assert_eq!(filter_columns("delete from t i where i.a=$1 and b = $2"), ["a", "b"]);
        assert!(filter_columns("delete from t where a in ($1)").is_empty());
        assert!(inserts_column("insert into item (order_id, n) values ($1, $2)", "order_id"));
        assert!(inserts_column(
            "insert into item select $1, l from generate_series($2, $3) l",
            "order_id"
        ));
        assert!(!inserts_column("insert into item(n) values ($1)", "order_id"));
        assert!(assigns_itself("update t set a = a where id = $1"));
        assert!(assigns_itself("update t set a = t.a, b = b"));
        assert!(!assigns_itself("update t set a = a + $1 where id = $2"));
        assert!(!assigns_itself("update t set a = $1, b = b"));
        let upsert = |set: &str| {
            overwrites(&format!(
                "insert into t (k, a) values ($1, $2) on conflict (k) do update set {set}"
            ))
        };
        assert!(upsert("a = excluded.a"));
        assert!(upsert("a = excluded.a returning k"));
        assert!(!upsert("a = t.a + excluded.a"));
        assert!(!upsert("a = excluded.a where t.a is distinct from excluded.a"));
    }
}
