//! Shared buffers: misses, writes by sessions, contention on their table.

use walwright_figures::{Blind, WaitClass};
use walwright_record::{Row, Source};

use super::threshold::{CERTAIN, worth};
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Reading, Relief, Value};

/// The words of the evidence that tells how many pages were read.
pub(super) const PAGES_READ: &str = "pages read";
/// Seconds of a processor that it takes to copy a page from or to the page cache, with the
/// call into the kernel, at most. What takes longer is a device.
pub(super) const COPY: f64 = 20e-6;
/// Part of the memory that shared buffers may have before the page cache is
/// starved: the documentation's starting point.
const QUARTER: f64 = 0.25;
const MB: f64 = 1024.0 * 1024.0;

pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    [misses(reading), contention(reading)].into_iter().flatten().collect()
}

/// What sessions did to data files, a transaction.
struct Traffic {
    read: f64,
    /// Unknown on a server that does not count it.
    written: Option<f64>,
    /// Seconds, where the server times I/O.
    time: Option<f64>,
}

fn traffic(reading: &Reading) -> Result<Traffic, Blind> {
    let database = reading.difference(Source::Database)?;
    let work = reading.work(&database)?;
    let timed = reading.is_set("track_io_timing", "on");
    let milliseconds = || -> Option<f64> {
        Some(database.sum("blk_read_time").ok()? + database.sum("blk_write_time").ok()?)
    };
    let io = reading.difference(Source::Io).and_then(|io| {
        let of = |row: &Row| {
            row.text("backend_type") == Some("client backend")
                && row.text("object") == Some("relation")
        };
        Ok(io.sum_where("writes", of)? / reading.work(&io)?.count)
    });
    // Up to 15 the counter holds extensions too.
    let written: Result<f64, Blind> = io.or_else(|_| {
        let writer = reading.difference(Source::BackgroundWriter)?;
        Ok(writer.sum("buffers_backend")? / reading.work(&writer)?.count)
    });
    Ok(Traffic {
        read: database.sum("blks_read")? / work.count,
        written: written.ok(),
        time: if timed { milliseconds().map(|ms| ms / 1e3 / work.count) } else { None },
    })
}

/// D36: pages come and go because shared buffers are small.
fn misses(reading: &Reading) -> Option<Finding> {
    let traffic = traffic(reading).ok()?;
    let waiting = reading
        .in_events("IO", &["datafileread", "datafilewrite", "aioiocompletion", "datafileprefetch"]);
    // Reads that the page cache answers are too short to be seen waiting; the
    // server's own clock has them. They are copies: work for a processor.
    let timed = traffic.time.map(|t| reading.counted(reading.with_processor_wait(t)));
    let time =
        [waiting, timed].into_iter().flatten().max_by(|a, b| a.center.total_cmp(&b.center))?;
    let impact = worth(reading, Some(time.clone()))?;
    let pages = traffic.read + traffic.written.unwrap_or(0.0);
    let copying = traffic.time.map_or(0.0, |time| time.min(pages * COPY));
    let now = reading.bytes("shared_buffers")?;
    let data = reading.record.target.as_ref().and_then(|t| t.database_bytes).map(|b| b as f64);
    let memory = reading.memory();
    let room = memory.map_or(f64::INFINITY, |m| m * QUARTER);
    // All the data and a tenth for what it grows by, as far as there is room.
    let wanted = data.map_or(2.0 * now, |d| 1.1 * d).min(room);
    let helps = wanted > 1.2 * now && data.is_none_or(|d| d > now);
    let mut finding = reading
        .finding(
            DiagnosisId::D36,
            if helps { Kind::Problem } else { Kind::Symptom },
            if helps {
                format!(
                    "shared_buffers ({:.0} MB) hold a part of the data only: sessions read {:.1} \
                     pages a {}{}.",
                    now / MB,
                    traffic.read,
                    reading.per().name(),
                    traffic.written.map_or(String::new(), |n| {
                        format!(" and write {n:.2} dirty ones out to make room")
                    })
                )
            } else {
                format!(
                    "Sessions wait for data files: {:.1} pages are read a {}.",
                    traffic.read,
                    reading.per().name()
                )
            },
        )
        .seen([
            Evidence::new("pg_stat_database.blks_read", PAGES_READ, Value::Count(traffic.read))
                .per(reading.per()),
            Evidence::new("pg_settings", "shared_buffers", Value::Bytes(now)),
        ])
        .seen(traffic.written.map(|written| {
            Evidence::new("pg_stat_io", "pages written by sessions", Value::Count(written))
                .per(reading.per())
        }))
        .seen(data.map(|d| Evidence::new("pg_database_size()", "data", Value::Bytes(d))))
        .costs(Some(impact))
        .gains(reading.gain(&Relief::new(time, [WaitClass::Io]).and_cpu(copying)));
    if helps {
        finding.actions.extend(reading.set(
            "shared_buffers",
            &format!("{:.0}MB", (wanted / MB / 64.0).ceil() * 64.0),
            "Room for the data that is in use, up to a quarter of the memory.",
        ));
    }
    if memory.is_none() {
        finding = finding.blind_to("The memory of the server: see how much is free first.");
    }
    if helps && traffic.written.is_some_and(|written| written > 0.1 * traffic.read) {
        finding.actions.extend(reading.set(
            "bgwriter_lru_maxpages",
            "1000",
            "Let the background writer clean more buffers, so that sessions find clean ones.",
        ));
    }
    Some(finding)
}

/// D42: sessions wait for the table of shared buffers.
fn contention(reading: &Reading) -> Option<Finding> {
    let time = reading.in_events("LWLock", &["buffermapping", "buffer_mapping"])?;
    let impact = worth(reading, Some(time.clone()))?;
    let share = impact.share.center;
    Some(
        reading
            .finding(
                DiagnosisId::D42,
                Kind::Problem,
                "Sessions wait for each other to change the table of shared buffers: too many \
                 bring pages in and out at once.",
            )
            .seen([Evidence::new(
                "wait events",
                "LWLock BufferMapping",
                Value::Seconds(time.center),
            )
            .per(reading.per())])
            .costs(Some(impact))
            .gains(reading.gain(&Relief::new(time, [WaitClass::Lwlock])))
            .advise(Action::advice(format!(
                "Fewer sessions at a time, or larger shared_buffers, so that fewer pages change \
                 ({:.0} % of the latency against {:.0} % that sampling can tell apart).",
                share * 100.0,
                CERTAIN * 100.0
            ))),
    )
}
