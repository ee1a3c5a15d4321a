//! What a commit waits for: the flush, its queue, the storage behind it.

use walwright_figures::WaitClass;
use walwright_stats::Estimate;

use super::bounds::{FULL, is_crowded_by_others};
use super::control::per_commit;
use super::holding::with_row_locks;
use super::threshold::worth;
use crate::{
    Action, Change, DiagnosisId, DurabilityClass, Evidence, Finding, Kind, Needs, Reading, Relief,
    Value,
};

/// A flush that takes longer is one over a network, or on a disk without a cache
/// that survives a power loss. Local NVMe with one takes 0.02 to 0.2 ms, good block
/// storage of a cloud about 1 ms.
const SLOW_FLUSH: f64 = 1.5e-3;
/// From here on the flush is what a commit of one statement costs; below, on fast
/// storage, it is the processors' work around it.
const COSTLY_FLUSH: f64 = 0.5e-3;
/// What local NVMe with such a cache takes under load: the floor that D6 compares with.
const FAST_FLUSH: f64 = 0.2e-3;
/// The fastest of that kind: the bound on what better storage can gain.
const FASTEST_FLUSH: f64 = 0.02e-3;
/// Times that a flush may wait for a processor: who flushes, and the kernel's threads that end it.
const WAKES: f64 = 4.0;
/// A storage probe this slow shows the same without the server's own timing.
const SLOW_PROBE: f64 = 0.75e-3;
/// Statements that one flush serves once they are batched. More gain little: of
/// the flush's share a sixteenth is left.
const BATCH: f64 = 16.0;

/// Share of the latency in the queue of a flush from which the queue is the matter, where
/// neither the storage is slow nor a transaction too small.
const QUEUED: f64 = 0.3;

/// Part of the time in which one flush or another is under way from which there is no room
/// for more of them.
const FLUSHING: f64 = 0.7;

/// The words of the same evidence in several findings.
const MEAN_FLUSH: &str = "mean time of a flush";
const PROBED: &str = "median flush of the storage before the run";

/// The classes a commit waits in.
pub(super) const COMMIT: [WaitClass; 2] = [WaitClass::Flush, WaitClass::FlushQueue];

pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    // Without flushes what is left is writing to the page cache: D37 speaks of that.
    if reading.is_set("fsync", "off") {
        return Vec::new();
    }
    let Some(wait) = reading.in_classes(&COMMIT) else { return Vec::new() };
    // The barrier's flush is in these samples; its clients wait in the gateway.
    let wait = wait.map(|seconds| seconds + reading.withheld());
    if worth(reading, Some(wait.clone())).is_none() {
        return Vec::new();
    }
    let slow = slow_storage(reading, &wait);
    let single = one_statement_a_flush(reading, &wait);
    let problems = [&slow, &single].into_iter().flatten().filter(|f| f.kind == Kind::Problem);
    let parent = problems.max_by(|a, b| cost(a).total_cmp(&cost(b)));
    let parent = match delayed(reading) {
        true => Some(DiagnosisId::D3),
        false => parent.map(|f| f.id),
    };
    let device = slow.is_none().then(|| device_is_fine(reading, parent)).flatten();
    let queue = flush_queue(reading, parent);
    [slow, single, device, queue, group_commit(reading)].into_iter().flatten().collect()
}

fn cost(finding: &Finding) -> f64 {
    finding.impact.as_ref().map_or(0.0, |i| i.share.center)
}

fn delayed(reading: &Reading) -> bool {
    reading.number("commit_delay").is_some_and(|delay| delay > 0.0)
}

/// Mean seconds of a flush by the server's counters.
pub(super) fn mean_flush(reading: &Reading) -> Option<f64> {
    Some(reading.summary.wal.as_ref()?.mean_flush?.as_secs_f64())
}

/// Seconds that a process waits for a processor each time it wakes, on average: a
/// flush that ended shows as a wait until then.
fn waking(reading: &Reading) -> f64 {
    let delay = reading.summary.time.as_ref().and_then(|t| t.counted_run_delay);
    let statements = reading
        .statements
        .as_ref()
        .ok()
        .map(|uses| uses.toplevel().map(|s| s.calls).sum::<f64>() / uses.work.count);
    // It wakes for each message and, in a commit, for the flush.
    delay.map_or(0.0, |d| d.as_secs_f64() / (statements.unwrap_or(1.0) + 1.0))
}

/// What is known about flushes, as evidence.
fn evidence(reading: &Reading, wait: &Estimate) -> Vec<Evidence> {
    let per = reading.per();
    let source = match reading.withheld() {
        0.0 => "wait events",
        _ => "wait events and the gateway's metrics",
    };
    let mut seen = vec![
        Evidence::new(source, "waiting for WAL flushes", Value::Seconds(wait.center)).per(per),
    ];
    let wal = reading.summary.wal.as_ref();
    if let Some(flushes) = wal.and_then(|w| w.flushes_per_transaction) {
        seen.push(Evidence::new(view(reading), "flushes", Value::Count(flushes)).per(per));
    }
    if let Some(mean) = mean_flush(reading) {
        seen.push(Evidence::new(view(reading), MEAN_FLUSH, Value::Seconds(mean)));
    }
    if let Some(probe) = &reading.record.storage {
        seen.push(Evidence::new("storage probe", PROBED, Value::Seconds(probe.p50.as_secs_f64())));
    }
    let storage = reading.summary.storage.as_ref();
    if let Some(ceiling) = storage.and_then(|s| s.ceiling.as_ref()).filter(|c| !c.disturbed) {
        let source = format!("walwright storage {}", ceiling.measurement);
        let what = "of the flushes a second that this disk did, one at a time";
        seen.push(Evidence::new(source, what, Value::Fraction(ceiling.share)));
    }
    seen
}

/// The view that counts flushes on this version.
fn view(reading: &Reading) -> &'static str {
    match reading.version() {
        Some(version) if version >= 180_000 => "pg_stat_io (object wal)",
        _ => "pg_stat_wal",
    }
}

/// D1: with one statement a transaction each pays for a commit alone.
fn one_statement_a_flush(reading: &Reading, wait: &Estimate) -> Option<Finding> {
    let commits = per_commit(reading)?;
    // Below 1.5 most commits hold one statement; one of many rows is a batch already.
    if commits.statements >= 1.5 || commits.writes < 0.5 || commits.rows_per_write > 2.0 {
        return None;
    }
    let saved = 1.0 - 1.0 / BATCH;
    let time = wait.clone().map(|w| w * saved);
    let impact = worth(reading, Some(time.clone()))?;
    let relief = Relief::new(time, COMMIT).and_flushes(saved);
    // Rows that are only added can be collected by whoever sends them. A row that is
    // updated by its key is mostly an operation of its own: on fast storage that is how
    // the load is, and worth knowing.
    let flush = mean_flush(reading).map(|f| f - waking(reading));
    let costly = flush.is_some_and(|f| f >= COSTLY_FLUSH) && !is_crowded_by_others(reading);
    let kind = if costly || commits.adds_rows { Kind::Problem } else { Kind::Information };
    let mut finding = reading
        .finding(
            DiagnosisId::D1,
            kind,
            match reading.summary.wal.as_ref().and_then(|wal| wal.transactions_per_flush) {
                Some(merged) if merged >= 1.5 => format!(
                    "Each statement is its own transaction, so each waits for a WAL flush, which it \
                     shares with {:.1} others on average.",
                    merged - 1.0
                ),
                _ => "Each statement is its own transaction, so each waits for a WAL flush of \
                      its own."
                    .to_owned(),
            },
        )
        .seen(evidence(reading, wait))
        .seen([Evidence::new(
            "pg_stat_statements",
            "data statements",
            Value::Count(commits.statements),
        )
        .per(crate::Per::Commit)])
        .costs(Some(impact))
        .gains(reading.gain(&relief))
        .advise(reading.in_form(
            format!(
                "Put several statements into one transaction, or several rows into one statement: \
                 {BATCH:.0} to a commit leave a sixteenth of the wait. Where each row comes from \
                 another client, a write coalescer does it for them."
            ),
            "transaction",
            Some(BATCH as u32),
        ));
    finding.actions.extend(not_to_wait(reading));
    Some(finding)
}

/// D6: the flush itself is slow.
fn slow_storage(reading: &Reading, wait: &Estimate) -> Option<Finding> {
    let probe = reading.record.storage.as_ref().map(|p| p.p50.as_secs_f64());
    let timed = mean_flush(reading).map(|f| f - waking(reading));
    let flush = timed.or(probe)?;
    if flush < if timed.is_some() { SLOW_FLUSH } else { SLOW_PROBE } {
        return None;
    }
    let over = 1.0 - (FAST_FLUSH / flush).min(1.0);
    let (time, behind) = with_row_locks(reading, wait.clone().map(|w| w * over));
    let impact = worth(reading, Some(time.clone()))?;
    let cause = match probe {
        Some(probe) if flush > 3.0 * probe => format!(
            "A WAL flush takes {:.1} ms under this load, {:.0} times as long as the storage alone \
             took before it: something else keeps the device busy, or it slows down under load.",
            flush * 1e3,
            flush / probe
        ),
        _ => format!(
            "A WAL flush takes {:.1} ms, the floor of this storage; commits cannot be faster.",
            flush * 1e3
        ),
    };
    let classes = [WaitClass::Flush, WaitClass::FlushQueue, WaitClass::Lock];
    // At most all that stands above the fastest storage there is goes.
    let fastest = 1.0 - (FASTEST_FLUSH / flush).min(1.0);
    let relief = Relief::new(time.map(|t| t * fastest / over), classes).and_flushes(fastest);
    // However long a flush waited for its processors, one that is slower still is the storage's.
    let crowded = is_crowded_by_others(reading) && flush - WAKES * waking(reading) < SLOW_FLUSH;
    let kind = if crowded { Kind::Symptom } else { Kind::Problem };
    let mut finding = reading
        .finding(DiagnosisId::D6, kind, cause)
        .seen(evidence(reading, wait))
        .seen(behind)
        .costs(Some(impact))
        .gains(reading.gain(&relief))
        .advise(Action::advice(
            "Put the WAL on local NVMe whose cache survives a power loss (0.02 to 0.2 ms a flush).",
        ))
        .advise(Action::advice(
            "Or commit less often: more statements in a transaction, or coalesced commits.",
        ));
    if crowded {
        finding = finding.caused_by(DiagnosisId::D55).blind_to(
            "The storage itself: other processes keep the processors busy, which a flush needs to \
             end and the storage probe needed too.",
        );
    }
    if mean_flush(reading).is_none() {
        finding = finding.blind_to(
            "The server does not time its flushes (track_wal_io_timing): the figure is the \
             storage probe's.",
        );
    }
    Some(finding)
}

/// D4: the device is fast; it is the number of flushes that costs.
fn device_is_fine(reading: &Reading, parent: Option<DiagnosisId>) -> Option<Finding> {
    let mean = mean_flush(reading).filter(|mean| *mean < SLOW_FLUSH)?;
    let mut finding = reading
        .finding(
            DiagnosisId::D4,
            Kind::Information,
            format!(
                "A flush takes {:.2} ms: the storage is fast, the number of flushes costs. Fewer \
                 commits help, a faster disk does not.",
                mean * 1e3
            ),
        )
        .seen([Evidence::new(view(reading), MEAN_FLUSH, Value::Seconds(mean))]);
    finding.parent = parent;
    Some(finding)
}

/// D5: sessions stand in line for the lock that a flush holds.
fn flush_queue(reading: &Reading, parent: Option<DiagnosisId>) -> Option<Finding> {
    let queue = reading.in_classes(&[WaitClass::FlushQueue])?;
    let impact = worth(reading, Some(queue.clone()))?;
    let sessions =
        reading.summary.time.as_ref()?.part(WaitClass::FlushQueue).map_or(0.0, |p| p.sessions);
    let busy = reading.summary.cpu.as_ref().and_then(|cpu| cpu.busy);
    let flushing = mean_flush(reading).zip(reading.summary.wal.as_ref()).and_then(|(mean, wal)| {
        let load = reading.summary.load.as_ref()?.throughput.as_ref()?.center;
        Some(mean * wal.flushes_per_transaction? * load)
    });
    let costly = mean_flush(reading).is_some_and(|f| f - waking(reading) >= COSTLY_FLUSH);
    // A queue behind full processors waits for those, not for the device; and one for
    // flushes of a tenth of a millisecond is how a load of commits is.
    let itself = parent.is_none()
        && costly
        && impact.share.center >= QUEUED
        && flushing.is_some_and(|busy| busy >= FLUSHING)
        && busy.is_none_or(|busy| busy < FULL)
        && !is_crowded_by_others(reading);
    let mut finding = reading
        .finding(
            DiagnosisId::D5,
            if itself { Kind::Problem } else { Kind::Symptom },
            "Only one session flushes the WAL at a time; the others wait for it (LWLock WALWrite).",
        )
        .seen([Evidence::new(
            "pg_stat_activity",
            "sessions waiting for LWLock WALWrite at a time",
            Value::Count(sessions),
        )])
        .seen(flushing.map(|busy| {
            Evidence::new(
                view(reading),
                "part of the time a flush is under way",
                Value::Fraction(busy),
            )
        }))
        .costs(Some(impact));
    finding.parent = parent;
    if itself {
        let relief = Relief::new(queue, [WaitClass::FlushQueue]).and_flushes(1.0 - 1.0 / BATCH);
        finding = finding.gains(reading.gain(&relief)).advise(Action::advice(
            "Let one commit serve several requests (coalesce them before the server), or spread \
             the load over several servers: one server flushes one WAL.",
        ));
        finding.actions.extend(not_to_wait(reading));
    }
    Some(finding)
}

/// Commits of a role that do not wait for their flush, where they do now.
fn not_to_wait(reading: &Reading) -> Option<Action> {
    let role = reading.record.target.as_ref().map_or("the_role", |t| t.role.as_str());
    reading.is_set("synchronous_commit", "on").then(|| Action {
        text: "Where the last moments may be lost in a crash (up to three times \
               wal_writer_delay), let the writers' role not wait for the flush."
            .to_owned(),
        change: Change::Sql { sql: format!("ALTER ROLE \"{role}\" SET synchronous_commit = off;") },
        class: DurabilityClass::D,
        needs: Needs::NewSessions,
        rollback: Some(format!("ALTER ROLE \"{role}\" RESET synchronous_commit;")),
        gain: None,
    })
}

/// D2: what group commit makes of the flushes.
fn group_commit(reading: &Reading) -> Option<Finding> {
    let per_flush = reading.summary.wal.as_ref()?.transactions_per_flush?;
    let waiting = reading.summary.time.as_ref()?.part(WaitClass::FlushQueue);
    let sessions = waiting.map_or(0.0, |p| p.sessions);
    let mut finding = reading
        .finding(
            DiagnosisId::D2,
            Kind::Information,
            format!("Group commit merges {per_flush:.2} transactions into one flush."),
        )
        .seen([
            Evidence::new(view(reading), "transactions a flush", Value::Count(per_flush)),
            Evidence::new("pg_stat_activity", "sessions queued for it", Value::Count(sessions)),
        ]);
    // A delay can only merge sessions that commit at about the same time. It pays
    // where many queue and the flush is long against it; half a flush is where the
    // documentation of commit_delay starts.
    let flush = mean_flush(reading).unwrap_or(0.0);
    if sessions >= 4.0 && flush >= SLOW_FLUSH && !delayed(reading) {
        let micros = (flush * 0.5e6 / 100.0).round() * 100.0;
        finding.actions.extend(reading.set(
            "commit_delay",
            &format!("{micros:.0}"),
            "Try half a flush of delay; prove it by an experiment, since it may also only add \
             latency.",
        ));
    }
    Some(finding)
}
