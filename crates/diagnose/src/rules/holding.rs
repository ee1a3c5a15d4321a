//! What sessions do while others wait for their row locks.
//!
//! A row lock is held until the commit ends. So a commit that waits makes others
//! wait: part of the time in row locks is the commit's, and goes with it.

use walwright_figures::WaitClass;
use walwright_figures::queueing::holders_committing;
use walwright_stats::Estimate;

use super::commit::COMMIT;
use super::waiters::waiters;
use crate::{Evidence, Finding, Reading, Value};

/// The words of the evidence that other findings are related by.
const BEHIND: &str = "waits for row locks that are held meanwhile";

/// Seconds of a transaction in waits for row locks.
pub(super) fn row_locks(reading: &Reading) -> f64 {
    reading.in_events("Lock", &["transactionid", "tuple"]).map_or(0.0, |e| e.center)
}

/// Share of the time that a contended row lock is held in which its holder waits for its commit's
/// flush: by the waits of those who were seen to hold one; where too few were, by the driver's own
/// latencies of the statements after the contended one; where those are not known, from what
/// sessions that do not wait for locks do.
pub(super) fn commit_share(reading: &Reading) -> f64 {
    let seen = holders_committing(reading.record, reading.window);
    seen.or_else(|| timed(reading)).unwrap_or_else(|| {
        let Some(time) = &reading.summary.time else { return 0.0 };
        let lock = time.part(WaitClass::Lock).map_or(0.0, |p| p.per_transaction.center);
        let holding = time.on_server.center - lock;
        let commit = reading.in_classes(&COMMIT).map_or(0.0, |e| e.center);
        if holding > 0.0 { (commit / holding).min(1.0) } else { 0.0 }
    })
}

fn timed(reading: &Reading) -> Option<f64> {
    let contended = waiters(reading, |row| WaitClass::of(row) == Some(WaitClass::Lock))?.plain?;
    let workload = reading.record.workload.as_ref()?;
    let words = |text: &str| -> Vec<String> {
        text.split_whitespace().take(2).map(str::to_ascii_lowercase).collect()
    };
    workload.scripts.iter().zip(&reading.record.statement_latency).find_map(|(script, timed)| {
        let place = script.statements.iter().position(|label| words(label) == words(&contended))?;
        let mean = |i: usize| timed.get(i)?.mean().map(|m| m.as_secs_f64());
        let last = script.statements.len().checked_sub(1).filter(|last| *last > place)?;
        let word = script.statements[last].trim().to_ascii_lowercase();
        if !word.starts_with("end") && !word.starts_with("commit") {
            return None;
        }
        let held: f64 = (place + 1..=last).filter_map(mean).sum();
        // The command takes CPU, and waits for a processor, beside its flush.
        let flush = reading.in_classes(&COMMIT).map_or(0.0, |e| e.center);
        (held > 0.0).then(|| mean(last).map(|commit| commit.min(flush) / held))?
    })
}

/// Time that sessions spend in their commit, with the waits for row locks that go
/// with it, and the evidence for that part.
pub(super) fn with_row_locks(
    reading: &Reading,
    in_commit: Estimate,
) -> (Estimate, Option<Evidence>) {
    let commit = reading.in_classes(&COMMIT).map_or(0.0, |e| e.center);
    let locks = row_locks(reading);
    if commit <= 0.0 || locks <= 0.0 || in_commit.center <= 0.0 {
        return (in_commit, None);
    }
    let part = (in_commit.center / commit).min(1.0);
    let behind = locks * commit_share(reading) * part;
    let factor = 1.0 + behind / in_commit.center;
    let evidence = Evidence::new("wait events", BEHIND, Value::Seconds(behind)).per(reading.per());
    (in_commit.map(|t| t * factor), Some(evidence))
}

/// Seconds of row locks that a finding says stand behind its cause.
pub(super) fn behind(finding: &Finding) -> f64 {
    finding
        .evidence
        .iter()
        .find(|e| e.what == BEHIND)
        .map_or(0.0, |e| if let Value::Seconds(s) = e.value { s } else { 0.0 })
}
