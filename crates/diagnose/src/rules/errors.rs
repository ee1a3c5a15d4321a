//! Requests that fail and work that is rolled back.

use walwright_figures::WaitClass;
use walwright_record::Source;

use super::commit::COMMIT;
use super::control::is_write;
use super::threshold::{FEW, worth};
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Reading, Relief, Value};

/// Share of failed requests from which the 99.9th percentile is about failures.
const FAILURES: f64 = 0.001;
/// Calls of a writing statement over all transactions from which those that roll
/// back write as well.
const WRITE: f64 = 0.9;
/// SQLSTATEs that other diagnoses speak of: conflicts, refused locks, lost prepares.
const ELSEWHERE: [&str; 5] = ["40001", "40P01", "55P03", "26000", "42P05"];

pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    [failures(reading), rollbacks(reading)].into_iter().flatten().collect()
}

/// D14: failures among the measured requests.
fn failures(reading: &Reading) -> Option<Finding> {
    let load = reading.summary.load.as_ref()?;
    let kinds: Vec<(&String, &u64)> =
        load.failures.iter().filter(|(code, _)| !ELSEWHERE.contains(&code.as_str())).collect();
    let failed: u64 = kinds.iter().map(|(_, n)| **n).sum();
    if failed == 0 {
        return None;
    }
    let share = failed as f64 / (load.transactions + load.failed) as f64;
    let kind = if share >= FAILURES { Kind::Problem } else { Kind::Information };
    // A failure ends early or late; on average it takes the time of a success.
    let time = reading.latency().map(|latency| reading.counted(latency * share));
    Some(
        reading
            .finding(
                DiagnosisId::D14,
                kind,
                format!(
                    "{:.2} % of the requests fail. They are counted apart: no latency and no \
                     throughput here has them in it.",
                    share * 100.0
                ),
            )
            .seen(kinds.iter().map(|(code, n)| {
                Evidence::new("clients", format!("failed with {code}"), Value::Count(**n as f64))
            }))
            .costs(time.and_then(|time| reading.impact(time)))
            .advise(Action::advice(
                "Find out why they fail before comparing runs: a run with more failures looks \
                 faster than it is.",
            )),
    )
}

/// D20: WAL written by transactions that roll back.
fn rollbacks(reading: &Reading) -> Option<Finding> {
    let database = reading.difference(Source::Database).ok()?;
    let rolled = database.sum("xact_rollback").ok()?;
    let committed = database.sum("xact_commit").ok()?;
    // A transaction that failed was rolled back too, and is D14's.
    let failed = reading.summary.load.as_ref().map_or(0, |l| l.failed) as f64;
    let rolled = rolled - failed;
    let share = rolled / (rolled + committed);
    let wal = reading.summary.wal.as_ref().and_then(|w| w.bytes_per_transaction)?;
    if rolled < FEW || wal <= 0.0 {
        return None;
    }
    let uses = reading.statements.as_ref().ok()?;
    let writes = || uses.toplevel().filter(|s| is_write(s));
    let written = writes().filter_map(|s| s.sum("wal_bytes")).sum::<f64>() / uses.work.count;
    // Where as many transactions write as there are, those that roll back do too.
    let seconds = database.length().as_secs_f64();
    let all = (rolled + committed) / seconds * uses.seconds;
    let most = writes().map(|s| s.calls).max_by(f64::total_cmp)?;
    if most < WRITE * all {
        return None;
    }
    // What a transaction takes but for its commit is lost where it is rolled back.
    let waits = reading.in_classes(&COMMIT).map_or(0.0, |e| e.center);
    let lost = (reading.latency()? - waits).max(0.0) * share;
    let executing = writes().map(|s| s.seconds()).sum::<f64>() / uses.work.count * share;
    let time = reading.counted(lost);
    let impact = worth(reading, Some(time.clone()))?;
    let relief = Relief::new(time, [WaitClass::Cpu]).and_cpu(executing);
    Some(
        reading
            .finding(
                DiagnosisId::D20,
                Kind::Problem,
                format!(
                    "{:.0} % of the transactions roll back after they have written: their WAL is \
                     written, and their rows are dead at once.",
                    share * 100.0
                ),
            )
            .seen([
                Evidence::new("pg_stat_database", "share rolled back", Value::Fraction(share)),
                Evidence::new("pg_stat_statements", "WAL of writes", Value::Bytes(written))
                    .per(reading.per()),
            ])
            .costs(Some(impact))
            .gains(reading.gain(&relief))
            .blind_to("How much of the WAL the rolled-back ones wrote: taken as their share.")
            .advise(Action::advice(
                "Validate before the first write; let a constraint that often fails be checked by \
                 a read, or use ON CONFLICT DO NOTHING.",
            )),
    )
}
