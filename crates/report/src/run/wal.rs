//! WAL, checkpoints, storage and row changes as rows of names and values.

use walwright_figures::Summary;
use walwright_record::Record;

use crate::document::Field;
use crate::{format, words};

/// The write-ahead log.
pub(super) fn wal(summary: &Summary) -> Vec<Field> {
    let Some(wal) = &summary.wal else {
        return vec![Field::known("WAL", None).note(why(summary, "WAL a transaction"))];
    };
    let per = |what: &str| format!("{what} per {}", wal.unit.name());
    let number = |value: Option<f64>| value.map(format::number);
    let mut facts = vec![
        Field::known(per("Bytes"), wal.bytes_per_transaction.map(format::bytes)),
        Field::known("Bytes per second", wal.bytes_per_second.map(format::byte_rate)),
        Field::known(per("Records"), number(wal.records_per_transaction)),
        Field::known(per("Full-page images"), number(wal.fpi_per_transaction)),
        Field::known(per("Flushes"), number(wal.flushes_per_transaction)),
        Field::known(
            format!("{}s per flush", words::capital(wal.unit.name())),
            number(wal.transactions_per_flush),
        ),
        Field::known("Mean time of a flush", wal.mean_flush.map(format::latency)),
        Field::known(per("Flush time"), wal.flush_time_per_transaction.map(format::latency)),
        Field::known(
            per("Writes because WAL buffers were full"),
            number(wal.buffers_full_per_transaction),
        ),
    ];
    if wal.flushes_per_transaction.is_none() {
        facts[4] = facts[4].clone().note(why(summary, "WAL flushes"));
    }
    if wal.mean_flush.is_none() {
        facts[6] = facts[6].clone().note(why(summary, "flush time"));
    }
    facts
}

/// Checkpoints, the storage probe, and what happened to rows.
pub(super) fn checkpoints(record: &Record, summary: &Summary) -> Vec<Field> {
    let mut facts = Vec::new();
    match &summary.checkpoints {
        Some(seen) => {
            facts.push(Field::new("Completed in the window", format::count(seen.completed)));
            facts.push(Field::known("Begun because of time", seen.timed.map(format::count)));
            let requested = Field::known(
                "Requested, by WAL volume or command",
                seen.requested.map(format::count),
            );
            facts.push(match seen.requested_here {
                0 => requested,
                here => {
                    requested.note(format!("{here} by walwright, so that the window holds one"))
                }
            });
            facts.push(Field::known("Buffers written", seen.buffers_written.map(format::count)));
            facts.push(Field::known("Time writing", seen.write_time.map(format::length)));
            facts.push(Field::known("Time syncing", seen.sync_time.map(format::latency)));
        }
        None => facts.push(Field::known("Checkpoints", None).note(why(summary, "checkpoints"))),
    }
    match &record.storage {
        Some(probe) => {
            let value = format!(
                "{} median, {} p99, {} max",
                format::latency(probe.p50),
                format::latency(probe.p99),
                format::latency(probe.max)
            );
            let how = format!(
                "{} of {}, {} in {}",
                probe.method,
                format::bytes(probe.block_bytes.into()),
                format::counted(probe.flushes, "flush"),
                probe.path
            );
            facts.push(Field::new("Storage flush before the run", value).note(how));
        }
        None => facts.push(Field::new("Storage flush before the run", "not measured")),
    }
    if let Some(used) = &summary.storage {
        facts.push(
            Field::new(
                "Flushes against the disk's ceiling",
                words::storage_figures(used).join(", "),
            )
            .note(words::storage_use(used, summary.window)),
        );
    }
    if let Some(used) = &summary.data_disk {
        facts.push(
            Field::new("Disk under the data", words::data_disk_figures(used).join(", "))
                .note(words::data_disk(used)),
        );
    }
    if let Some(rows) = &summary.rows {
        let unit = rows.unit.name();
        let number = |value: Option<f64>| value.map_or("–".to_owned(), format::number);
        let changed = format!(
            "{} inserted, {} updated, {} deleted",
            number(rows.inserted),
            number(rows.updated),
            number(rows.deleted)
        );
        facts.push(Field::new(format!("Rows per {unit}"), changed));
        if let Some(hot) = rows.hot_ratio {
            let lowest = rows.tables.iter().min_by(|a, b| a.hot_ratio.total_cmp(&b.hot_ratio));
            let note = lowest
                .filter(|t| t.hot_ratio < hot)
                .map(|t| format!("lowest {} in {}", format::percent(t.hot_ratio), t.table));
            facts.push(
                Field::new("Updates that were HOT", format::percent(hot))
                    .note(note.unwrap_or_default()),
            );
        }
    }
    facts
}

/// The reason a figure is not there.
fn why(summary: &Summary, figure: &str) -> String {
    let gap =
        summary.not_observable.iter().find(|n| n.figure == figure || n.figure == "all figures");
    gap.map(|g| g.why.to_string()).unwrap_or_default()
}
