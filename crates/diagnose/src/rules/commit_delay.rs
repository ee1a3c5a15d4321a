//! D3: `commit_delay` that costs more than it merges.

use walwright_figures::WaitClass;

use super::commit::mean_flush;
use super::holding::with_row_locks;
use super::threshold::worth;
use crate::{DiagnosisId, Evidence, Finding, Kind, Reading, Relief, Value};

/// The part of a flush from which a delay is longer than what it can save: the
/// documentation of `commit_delay` starts at half.
const HALF: f64 = 0.5;
/// The highest `commit_delay` that the server takes (src/backend/utils/misc/guc_tables.c).
const MOST_MICROS: f64 = 100_000.0;
/// Where the time goes from once the delay is gone.
const RELIEVED: [WaitClass; 5] =
    [WaitClass::Cpu, WaitClass::Other, WaitClass::Flush, WaitClass::FlushQueue, WaitClass::Lock];

pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    delay(reading).into_iter().collect()
}

fn delay(reading: &Reading) -> Option<Finding> {
    let delay = reading.number("commit_delay").filter(|micros| *micros > 0.0)? * 1e-6;
    let flush = mean_flush(reading)?;
    if delay <= HALF * flush {
        return None;
    }
    // The session that will flush sleeps inside the lock that the others queue for:
    // of a turn in that queue the delay is this part. Asleep it shows no wait event
    // (up to 18), as if it were on a processor.
    let part = delay / (delay + flush);
    // Without it a commit that comes while another flushes waits half a flush on average.
    let left = 0.5 * flush;
    let queue = reading.in_classes(&[WaitClass::FlushQueue])?;
    let flushes = reading.summary.wal.as_ref()?.flushes_per_transaction?;
    let shown = reading.in_classes(&[WaitClass::Cpu]).map_or(0.0, |e| e.center);
    let asleep = (delay * flushes).min(shown);
    if asleep < 0.3 * delay * flushes {
        // Fewer sessions than commit_siblings are active, so nobody sleeps.
        return None;
    }
    let time = queue.map(|q| (q * part).max(q - left) + asleep);
    let (time, behind) = with_row_locks(reading, time);
    let impact = worth(reading, Some(time.clone()))?;
    let merged = reading.summary.wal.as_ref().and_then(|w| w.transactions_per_flush);
    let mut finding = reading
        .finding(
            DiagnosisId::D3,
            Kind::Problem,
            format!(
                "commit_delay makes each group of commits wait {:.1} ms, {:.0} times as long as \
                 the flush it is to save.",
                delay * 1e3,
                delay / flush
            ),
        )
        .seen([
            Evidence::new("pg_settings", "commit_delay", Value::Seconds(delay)),
            Evidence::new(
                "pg_stat_wal or pg_stat_io",
                "mean time of a flush",
                Value::Seconds(flush),
            ),
        ])
        .seen(merged.map(|m| {
            Evidence::new("pg_stat_wal or pg_stat_io", "transactions a flush", Value::Count(m))
        }))
        .seen([Evidence::new("wait events", "waiting for the delay", Value::Seconds(time.center))
            .per(reading.per())])
        .seen(behind)
        .costs(Some(impact))
        .gains(reading.gain(&Relief::new(time, RELIEVED)));
    finding.actions.extend(reading.set(
        "commit_delay",
        "0",
        "Switch the delay off: group commit merges without it whatever queues during a flush.",
    ));
    if flush >= 0.4e-3 {
        let micros = ((HALF * flush * 1e6 / 50.0).round() * 50.0).min(MOST_MICROS);
        finding.actions.extend(reading.set(
            "commit_delay",
            &format!("{micros:.0}"),
            "Or try half a flush, with commit_siblings raised so that it only acts under load.",
        ));
    }
    Some(finding)
}
