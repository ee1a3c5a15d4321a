//! Waiting for locks, and what waits: rows, tables, conflicts.

use walwright_figures::WaitClass;
use walwright_record::{Row, Source};

use super::threshold::{CERTAIN, FEW, worth};
use super::waiters::{Waiters, waiters};
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Reading, Relief, Value};

/// Share of tries that conflicts undo from which they are a problem: the work of a
/// try is lost whole, so the share is the cost.
const CONFLICTS: f64 = 0.02;

/// Part of the CPU of a transaction that goes with its waits for locks at most, where they are
/// all of its latency.
const WAITS: f64 = 0.5;

/// Kinds of locks that are waited for apart, with their wait events.
const KINDS: [(&str, &[&str]); 5] = [
    ("rows", &["transactionid", "tuple", "speculative token"]),
    ("tables", &["relation", "virtualxid"]),
    (NOTIFY, &["object"]),
    ("extension of relations", &["extend"]),
    ("advisory locks", &["advisory"]),
];

/// Locks on objects that are no tables. Up to 18, a commit that sends NOTIFY takes one on
/// "database 0", exclusively, until it has ended (`PreCommit_Notify` in async.c): the only such
/// lock that statements other than DDL wait for.
pub(super) const NOTIFY: &str = "notifications";
/// The same where DDL waits for them.
const OBJECTS: &str = "objects";
/// First words of DDL.
const DDL: [&str; 8] =
    ["create ", "alter ", "drop ", "grant ", "revoke ", "comment ", "reassign ", "refresh "];

/// The words of the evidence that D8 is related by.
pub(super) const IDLE_BLOCKERS: &str = "waits whose blocker is idle in its transaction";

pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        KINDS.iter().filter_map(|(what, events)| waits(reading, what, events)).collect();
    found.extend(conflicts(reading));
    found.extend(refused(reading));
    found
}

fn is_event(row: &Row, events: &[&str]) -> bool {
    WaitClass::of(row) == Some(WaitClass::Lock)
        && row.text("wait_event").is_some_and(|e| events.iter().any(|n| e.eq_ignore_ascii_case(n)))
}

/// D9: sessions wait for locks of one kind.
fn waits(reading: &Reading, what: &str, events: &[&str]) -> Option<Finding> {
    let time = reading.spent(|row| is_event(row, events))?;
    let impact = worth(reading, Some(time.clone()))?;
    let waiters = waiters(reading, |row| is_event(row, events));
    let statement = waiters.as_ref().and_then(|w| w.statement.as_deref());
    let plain = waiters.as_ref().and_then(|w| w.plain.as_deref()).unwrap_or_default();
    let is_ddl = DDL.iter().any(|word| plain.trim_start().starts_with(word));
    let what = if what == NOTIFY && is_ddl { OBJECTS } else { what };
    let cause = match (what, statement) {
        (NOTIFY, _) => {
            let of = statement.map_or(String::new(), |of| format!(" Most wait in \"{of}\"."));
            format!(
                "Commits that send NOTIFY go one at a time, in all databases: each holds a lock of \
                 the whole cluster until its WAL flush has ended.{of}"
            )
        }
        ("rows", Some(statement)) => format!(
            "Sessions queue for the same rows: each holds its row lock until its commit. Most wait \
             in \"{statement}\"."
        ),
        ("rows", None) => {
            "Sessions queue for the same rows: each holds its row lock until its commit.".to_owned()
        }
        ("extension of relations", _) => {
            "Sessions that insert wait for each other to add pages to the table.".to_owned()
        }
        (_, Some(statement)) => {
            format!("Sessions wait for locks on {what}, most in \"{statement}\".")
        }
        (_, None) => format!("Sessions wait for locks on {what}."),
    };
    // Adding pages is part of inserting; no setting and no order of statements avoids it.
    let kind = if what == "extension of relations" { Kind::Symptom } else { Kind::Problem };
    // Samples that miss who runs, as they do on full processors, make more of it.
    let most = reading.summary.time.as_ref().and_then(|time| time.counted_cpu);
    let most = most.map_or(0.0, |cpu| WAITS * cpu.as_secs_f64() * impact.share.center);
    let cpu = reading.cpu_of_waiting(time.center).min(most);
    // Who queues for a lock, and who wakes them, meet at a partition of the lock table.
    let manager = reading.in_events("LWLock", &["lockmanager"]).map_or(0.0, |of| of.center);
    let queueing = time.clone().map(|seconds| seconds + manager.min(time.center));
    let relief = Relief::new(queueing, [WaitClass::Lock, WaitClass::Lwlock]).and_cpu(cpu);
    let mut finding = reading
        .finding(DiagnosisId::D9, kind, cause)
        .about(what)
        .seen([Evidence::new("pg_stat_activity", "waiting for locks", Value::Seconds(time.center))
            .per(reading.per())])
        .seen(waiters.iter().map(Waiters::evidence))
        .costs(Some(impact))
        .gains(reading.gain(&relief));
    if let Some(idle) = idle_blockers(reading) {
        finding = finding.seen([Evidence::new(
            "pg_blocking_pids()",
            IDLE_BLOCKERS,
            Value::Fraction(idle),
        )]);
    }
    Some(advise(reading, finding, what))
}

fn advise(reading: &Reading, finding: Finding, what: &str) -> Finding {
    match what {
        "rows" => finding
            .advise(Action::advice(
                "Update the contended row last in its transaction, so that it is held only for \
                 the commit; spread a counter over several rows; for a queue, take rows with \
                 FOR UPDATE SKIP LOCKED.",
            ))
            .advise(reading.pipelined(
                "Make the rest of the transaction shorter: fewer round trips between the update \
                 and the commit.",
            )),
        "tables" => finding.advise(Action::advice(
            "Find the command that takes the table lock (LOCK TABLE, DDL, TRUNCATE) and take a \
             weaker lock or do it at another time.",
        )),
        NOTIFY => finding.advise(Action::advice(
            "Notify less often: one NOTIFY for many changes, a statement-level trigger in place of \
             a row-level one, or listeners that poll.",
        )),
        "extension of relations" => finding.advise(Action::advice(
            "Load with COPY or multi-row INSERT, which extend by many pages at once; partition \
             the table by writer.",
        )),
        _ => finding.advise(Action::advice(
            "The application serialises itself here: hold the advisory lock for less, or use more \
             keys.",
        )),
    }
}

/// Share of the readings with waiters in which a blocker was idle in its transaction.
pub(super) fn idle_blockers(reading: &Reading) -> Option<f64> {
    let rows: Vec<&Row> = reading
        .record
        .samples(Source::Sessions)
        .iter()
        .filter(|s| reading.window.contains(s.at))
        .flat_map(|s| &s.rows)
        .filter(|row| row.text("blocking_pids").is_some())
        .collect();
    if rows.len() < 5 {
        return None;
    }
    let idle = rows.iter().filter(|row| row.number("blocking_idle_in_transaction") > Some(0.0));
    Some(idle.count() as f64 / rows.len() as f64)
}

/// D9 again: work undone by deadlocks and serialization failures.
fn conflicts(reading: &Reading) -> Option<Finding> {
    let load = reading.summary.load.as_ref()?;
    let of = |code: &str| -> f64 {
        let count = |map: &std::collections::BTreeMap<String, u64>| {
            map.get(code).copied().unwrap_or(0) as f64
        };
        count(&load.retries) + count(&load.failures)
    };
    let (serialization, deadlocks) = (of("40001"), of("40P01"));
    let undone = serialization + deadlocks;
    let tries = load.transactions as f64 + undone;
    let share = undone / tries;
    if undone < FEW || share < CONFLICTS {
        return None;
    }
    let time = reading.counted(reading.latency()? * share);
    Some(
        reading
            .finding(
                DiagnosisId::D9,
                Kind::Problem,
                format!(
                    "{:.1} % of the tries are undone by conflicts and begun again or given up.",
                    share * 100.0
                ),
            )
            .about("conflicts")
            .seen([
                Evidence::new(
                    "driver",
                    "serialization failures (40001)",
                    Value::Count(serialization),
                ),
                Evidence::new("driver", "deadlocks (40P01)", Value::Count(deadlocks)),
            ])
            .costs(reading.impact(time.clone()))
            .gains(reading.gain(&Relief::new(time, [WaitClass::Lock])))
            .advise(Action::advice(
                "Take locks in the same order everywhere; keep conflicting transactions short, or \
                 serialise them by one lock taken first.",
            )),
    )
}

/// D13: locks that are refused at once instead of awaited.
fn refused(reading: &Reading) -> Option<Finding> {
    let load = reading.summary.load.as_ref()?;
    let count = |map: &std::collections::BTreeMap<String, u64>| {
        map.get("55P03").copied().unwrap_or(0) as f64
    };
    let refused = count(&load.failures) + count(&load.retries);
    let share = refused / (load.transactions as f64 + refused);
    if refused < FEW {
        return None;
    }
    let time = reading.counted(reading.latency()? * share);
    let kind = if share >= CERTAIN { Kind::Problem } else { Kind::Information };
    Some(
        reading
            .finding(
                DiagnosisId::D13,
                kind,
                format!(
                    "{:.1} % of the transactions fail because a lock is not free at once (NOWAIT \
                     or lock_timeout).",
                    share * 100.0
                ),
            )
            .seen([
                Evidence::new("driver", "lock not available (55P03)", Value::Count(refused)),
                Evidence::new(
                    "driver",
                    "transactions that ended well",
                    Value::Count(load.transactions as f64),
                ),
            ])
            .costs(reading.impact(time))
            .advise(Action::advice(
                "Wait instead of failing, or take a weaker lock; then compare commits and \
                 failures together, never commits alone.",
            )),
    )
}
