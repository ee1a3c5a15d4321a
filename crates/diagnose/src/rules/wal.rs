//! Full-page images, checkpoints and WAL buffers.

use walwright_figures::WaitClass;

use super::commit::{COMMIT, mean_flush};
use super::holding::with_row_locks;
use super::sessions::sum;
use super::threshold::{FEW, worth};
use crate::{
    Action, DiagnosisId, DurabilityClass, Evidence, Finding, Kind, Reading, Relief, Value,
};

/// Share of the WAL in full-page images that is worth a word.
const MANY_IMAGES: f64 = 0.2;
/// Share of the WAL that wider checkpoint spacing avoids from which the spacing is a
/// problem even where this load's latency does not show it: standbys, archive and
/// recovery pay for each byte.
const AVOIDABLE: f64 = 0.2;
/// A WAL record without its page image, from 14 to 18 seldom less.
const RECORD: f64 = 50.0;
const MB: f64 = 1024.0 * 1024.0;

pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    let forced = forced_checkpoints(reading);
    let images = full_page_images(reading, forced.is_some());
    [forced, images, full_buffers(reading)].into_iter().flatten().collect()
}

/// Share of the WAL bytes that are page images: at most one block each, and the
/// records themselves are not images.
pub(crate) fn image_share(reading: &Reading) -> Option<f64> {
    let wal = reading.summary.wal.as_ref()?;
    let bytes = wal.bytes_per_transaction.filter(|b| *b > 0.0)?;
    let records = wal.records_per_transaction.unwrap_or(0.0);
    let images = wal.fpi_per_transaction? * block(reading);
    Some((images.min(bytes - RECORD * records) / bytes).clamp(0.0, 1.0))
}

fn block(reading: &Reading) -> f64 {
    reading.number("block_size").unwrap_or(8192.0)
}

/// Time of commits that more WAL makes longer: what a flush takes beyond the flush
/// of one block on the idle storage.
fn beyond_floor(reading: &Reading) -> Option<walwright_stats::Estimate> {
    let flush = mean_flush(reading)?;
    let floor = reading.record.storage.as_ref()?.p50.as_secs_f64();
    let share = (1.0 - floor / flush).max(0.0);
    Some(reading.in_classes(&COMMIT)?.map(|w| w * share))
}

/// D34: the volume of WAL asks for checkpoints before their time has come.
fn forced_checkpoints(reading: &Reading) -> Option<Finding> {
    let checkpoints = reading.summary.checkpoints.as_ref()?;
    let timeout = reading.seconds("checkpoint_timeout")?;
    // Those that walwright asked for say nothing of the volume.
    let here = checkpoints.requested_here;
    let requested = checkpoints.requested?.saturating_sub(here);
    let completed = checkpoints.completed.saturating_sub(here);
    let timed = checkpoints.timed.unwrap_or(0);
    let interval = reading.length().as_secs_f64() / completed as f64;
    // One request may be a command or what the warm-up wrote; two in a window are
    // the volume's doing.
    if requested < 2 || completed < 2 || requested <= timed || interval > 0.5 * timeout {
        return None;
    }
    let images = image_share(reading)?;
    // A page is logged whole once a checkpoint: with k checkpoints in one as many as
    // k images of a hot page are written where one would do.
    let avoidable = images * (1.0 - interval / timeout);
    let io = reading.in_classes(&[WaitClass::Io])?;
    let commits = beyond_floor(reading).map(|e| e.map(|t| t * avoidable));
    let commits = commits.map(|e| with_row_locks(reading, e));
    let (time, behind) = match commits {
        Some((commits, behind)) => (sum(&commits, &io), behind),
        None => (io, None),
    };
    let impact = reading.impact(time.clone())?;
    if avoidable < AVOIDABLE && worth(reading, Some(time.clone())).is_none() {
        return None;
    }
    let wal = reading.summary.wal.as_ref()?.bytes_per_second?;
    let relief = Relief::new(time, [WaitClass::Flush, WaitClass::FlushQueue, WaitClass::Io]);
    let mut finding = reading
        .finding(
            DiagnosisId::D34,
            Kind::Problem,
            format!(
                "max_wal_size forces a checkpoint every {interval:.0} s where checkpoint_timeout \
                 allows {timeout:.0} s; after each, every page is logged whole again."
            ),
        )
        .seen([
            Evidence::new(
                "pg_stat_checkpointer",
                "requested checkpoints",
                Value::Count(requested as f64),
            ),
            Evidence::new("pg_stat_checkpointer", "timed checkpoints", Value::Count(timed as f64)),
            Evidence::new(
                "pg_stat_wal",
                "share of the WAL in page images",
                Value::Fraction(images),
            ),
            Evidence::new(
                "pg_stat_wal",
                "share of the WAL to be spared",
                Value::Fraction(avoidable),
            ),
            Evidence::new("pg_stat_wal", "WAL", Value::Bytes(wal)).per(crate::Per::Second),
        ])
        .seen(behind)
        .costs(Some(impact))
        .gains(reading.gain(&relief));
    // Spaced by time, less is written: what is left without the images spared. A
    // checkpoint begins where the next would exceed max_wal_size with the one before
    // (completion target), so twice the volume between two is on the safe side.
    let needed = wal * (1.0 - avoidable) * timeout * 2.0;
    let gigabytes = (needed / (1024.0 * MB)).ceil().max(1.0);
    if reading.bytes("max_wal_size").is_none_or(|now| now < gigabytes * 1024.0 * MB) {
        let action = reading.set(
            "max_wal_size",
            &format!("{gigabytes:.0}GB"),
            "Room for the WAL of two checkpoint_timeouts. Recovery after a crash takes longer, \
             and the WAL needs the space.",
        );
        finding.actions.extend(action.map(|a| a.class(DurabilityClass::T)));
    }
    Some(finding)
}

/// D32: page images are much of the WAL.
fn full_page_images(reading: &Reading, forced: bool) -> Option<Finding> {
    let share = image_share(reading).filter(|share| *share >= MANY_IMAGES)?;
    let wal = reading.summary.wal.as_ref()?;
    // A load that hardly writes has no WAL to speak of.
    if wal.records_per_transaction.is_some_and(|records| records < 0.5) {
        return None;
    }
    let images = wal.fpi_per_transaction?;
    if images * reading.summary.load.as_ref().map_or(1e6, |l| l.transactions as f64) < FEW {
        return None;
    }
    let completed = reading.summary.checkpoints.as_ref().map_or(0, |c| c.completed);
    // E4: images follow checkpoints, not what statements do to a row.
    let cause = match completed {
        0 => format!(
            "Up to {:.0} % of the WAL are images of pages touched for the first time since the last \
             checkpoint, which was before the window; they become fewer as time goes on.",
            share * 100.0
        ),
        _ => format!(
            "Up to {:.0} % of the WAL are images of pages touched for the first time after each of {} \
             checkpoints.",
            share * 100.0,
            completed
        ),
    };
    let time = beyond_floor(reading).map(|e| e.map(|t| t * share));
    let impact = time.clone().and_then(|t| reading.impact(t));
    let compressed = !reading.is_set("wal_compression", "off");
    let problem = !forced && !compressed && completed > 0 && worth(reading, time.clone()).is_some();
    let kind = match (forced, problem) {
        (true, _) => Kind::Symptom,
        (_, true) => Kind::Problem,
        _ => Kind::Information,
    };
    let mut finding = reading
        .finding(DiagnosisId::D32, kind, cause)
        .seen([
            Evidence::new("pg_stat_wal.wal_fpi", "page images", Value::Count(images))
                .per(reading.per()),
            Evidence::new("pg_stat_wal.wal_bytes", "WAL", Value::Bytes(wal.bytes_per_transaction?))
                .per(reading.per()),
        ])
        .costs(impact);
    if forced {
        finding = finding.caused_by(DiagnosisId::D34);
    }
    if problem {
        finding = finding.gains(time.and_then(|t| reading.gain(&Relief::new(t, COMMIT))));
        // lz4 and zstd from 15; 14 knows on and off.
        let method = if reading.version() >= Some(150_000) { "lz4" } else { "on" };
        finding.actions.extend(reading.set(
            "wal_compression",
            method,
            "Compress the images: some CPU for less WAL.",
        ));
        finding = finding.advise(Action::advice(
            "Space checkpoints further apart (checkpoint_timeout, max_wal_size); recovery after \
             a crash takes longer.",
        ));
    }
    Some(finding)
}

/// D33: sessions write WAL out themselves because its buffers are full.
fn full_buffers(reading: &Reading) -> Option<Finding> {
    let wal = reading.summary.wal.as_ref()?;
    let full = wal.buffers_full_per_transaction.filter(|n| *n > 0.0)?;
    let flushes = wal.flushes_per_transaction.unwrap_or(0.0);
    // Those who find the buffers full wait for a place, and write under the lock that
    // flushes queue for: of that queue theirs is the part of the writes.
    // Others wait for the pages that such a session holds while it writes.
    let place = reading.in_events("LWLock", &["walbufmapping", "walinsert", "buffercontent"])?;
    let writing = reading.in_events("IO", &["walwrite"])?;
    let queue = reading.in_classes(&[WaitClass::FlushQueue])?;
    let part = full / (full + flushes);
    let place = place.map(|p| p * part);
    let (queue, behind) = with_row_locks(reading, queue.map(|q| q * part));
    let time = sum(&sum(&place, &writing), &queue);
    let impact = worth(reading, Some(time.clone()))?;
    let classes = [WaitClass::Lwlock, WaitClass::Flush, WaitClass::FlushQueue, WaitClass::Lock];
    let now = reading.bytes("wal_buffers").unwrap_or(0.0);
    let next = if now < 16.0 * MB { 16.0 } else { (now * 4.0 / MB).min(256.0) };
    let mut finding = reading
        .finding(
            DiagnosisId::D33,
            Kind::Problem,
            "The WAL buffers are full before anybody commits, so sessions stop to write WAL out \
             themselves.",
        )
        .seen([
            Evidence::new(
                "pg_stat_wal.wal_buffers_full",
                "writes for want of room",
                Value::Count(full),
            )
            .per(reading.per()),
            Evidence::new("pg_settings", "wal_buffers", Value::Bytes(now)),
            Evidence::new("wait events", "waiting for WAL buffers", Value::Seconds(place.center))
                .per(reading.per()),
        ])
        .seen(behind)
        .costs(Some(impact))
        .gains(reading.gain(&Relief::new(time, classes)));
    if next * MB > now {
        finding.actions.extend(reading.set(
            "wal_buffers",
            &format!("{next:.0}MB"),
            "Room for what is written between two flushes.",
        ));
    }
    Some(finding)
}
