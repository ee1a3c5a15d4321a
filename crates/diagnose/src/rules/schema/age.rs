//! D40: the age of the oldest transaction and multixact ids.
//!
//! A table older than `autovacuum_freeze_max_age` is vacuumed whatever else is set,
//! and such a vacuum does not give way to locks. At `vacuum_failsafe_age` vacuum
//! leaves out everything but freezing, and at 2^31 less 3 million the server takes
//! no more writes.

use walwright_record::{Sample, SchemaTable, Source};

use super::view::View;
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Value};

/// Ids after which the server stops (`xidStopLimit`: 2^31 − 3,000,000).
const STOP: f64 = 2_144_483_648.0;
/// A vacuum that is due is under way soon; one this much overdue is not keeping up.
const OVERDUE: f64 = 1.2;

pub(super) fn findings(view: &View) -> Vec<Finding> {
    let ids = of(
        view,
        "transaction ids",
        "relfrozenxid",
        "autovacuum_freeze_max_age",
        "vacuum_failsafe_age",
        |table| table.gauges.xid_age,
    );
    let multixacts = of(
        view,
        "multixact ids",
        "relminmxid",
        "autovacuum_multixact_freeze_max_age",
        "vacuum_multixact_failsafe_age",
        |table| table.gauges.multixact_age,
    );
    ids.into_iter().chain(multixacts).collect()
}

fn of(
    view: &View,
    what: &str,
    column: &str,
    limit: &str,
    failsafe: &str,
    age: impl Fn(&SchemaTable) -> Option<u64>,
) -> Option<Finding> {
    let global = view.reading.number(limit)?;
    // The table that is furthest over its own limit.
    let (table, age, limit_of_table) = view
        .facts
        .tables
        .iter()
        .filter_map(|table| {
            let own = table.options.get(limit).and_then(|v| v.parse::<f64>().ok());
            Some((table, age(table)? as f64, own.map_or(global, |own| own.min(global))))
        })
        .max_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2)))?;
    if age < limit_of_table {
        return None;
    }
    let failsafe = view.reading.number(failsafe);
    let kind = if age >= OVERDUE * limit_of_table { Kind::Problem } else { Kind::Information };
    let left = (STOP - age).max(0.0);
    let cause = if failsafe.is_some_and(|f| age >= f) {
        format!(
            "{} holds {what} {age:.0} old: vacuum does nothing but freeze, and at {STOP:.0} the server refuses all writes",
            table.qualified()
        )
    } else {
        format!(
            "{} holds {what} {age:.0} old, beyond {limit} ({limit_of_table:.0}), so it is vacuumed against wraparound, whatever else is set",
            table.qualified()
        )
    };
    let mut finding = view
        .finding(DiagnosisId::D40, kind, cause)
        .about(format!("{} {column}", table.qualified()))
        .seen([
            Evidence::new(format!("age(pg_class.{column})"), "age", Value::Count(age)),
            Evidence::new("pg_settings", limit, Value::Count(limit_of_table)),
        ])
        .advise(Action::sql(
            "freeze it now, when it suits you, rather than when it must",
            format!("VACUUM (FREEZE) {};", table.sql()),
            None,
        ));
    if let Some(rate) = rate(view).filter(|rate| *rate > 0.0 && column == "relfrozenxid") {
        finding = finding.seen([Evidence::new(
            "the load of this window",
            "time until the server refuses writes, if nothing freezes",
            Value::Seconds(left / rate),
        )]);
    }
    Some(finding)
}

/// Transaction ids taken a second, by how fast an unfrozen table ages.
fn rate(view: &View) -> Option<f64> {
    let samples = view.reading.record.samples(Source::Tables);
    let ages = |relid: f64| {
        let age = |sample: &Sample| {
            let row = sample.rows.iter().find(|row| row.number("relid") == Some(relid))?;
            Some((sample.at, row.number("relfrozenxid_age")?))
        };
        let (first, last) = (samples.iter().find_map(age)?, samples.iter().rev().find_map(age)?);
        let seconds = last.0.since(first.0).as_secs_f64();
        (seconds > 0.0).then(|| (last.1 - first.1) / seconds)
    };
    let tables = view.facts.tables.iter().take(20);
    tables.filter_map(|table| ages(f64::from(table.oid))).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Testbed, table};
    use super::*;

    #[test]
    fn age_is_judged_against_the_limit_of_the_table() {
        let found = |age: u64, own: Option<&str>| {
            let mut testbed = Testbed::new();
            testbed.build.setting("autovacuum_freeze_max_age", "200000000");
            testbed.build.setting("vacuum_failsafe_age", "1600000000");
            let mut t = table(1, "t", &["id"]);
            t.gauges.xid_age = Some(age);
            t.options.extend(own.map(|v| ("autovacuum_freeze_max_age".to_owned(), v.to_owned())));
            testbed.table(t, []);
            testbed.findings()
        };
        assert_eq!(found(150_000_000, None), []);
        assert_eq!(found(210_000_000, None)[0].kind, Kind::Information);
        assert_eq!(found(300_000_000, None)[0].kind, Kind::Problem);
        assert_eq!(found(150_000_000, Some("100000000"))[0].kind, Kind::Problem);
        let late = found(1_700_000_000, None);
        assert!(late[0].cause.contains("refuses all writes"), "{}", late[0].cause);
        assert_eq!(late[0].actions[0].command().unwrap(), "VACUUM (FREEZE) public.t;");
    }
}
