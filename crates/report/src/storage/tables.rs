//! A storage measurement as tables: what terminal and page share.

use walwright_record::{
    Access, FileState, FlushMethod, StorageCell, StorageMeasurement, StoragePattern, StoragePlace,
};

use crate::format;

/// A table of patterns that belong together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Section {
    pub(super) heading: &'static str,
    /// What the rows answer.
    pub(super) lede: &'static str,
    /// Name of the last column.
    pub(super) extra: &'static str,
    pub(super) rows: Vec<Row>,
}

/// One pattern.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) name: String,
    /// Operations or bytes a second, for the bar.
    pub(super) weight: f64,
    pub(super) rate: String,
    pub(super) p50: String,
    pub(super) p99: String,
    pub(super) p999: String,
    /// Of what the section says in its last column.
    pub(super) extra: String,
}

/// The tables; those without a row are left out.
pub(super) fn sections(of: &StorageMeasurement) -> Vec<Section> {
    let all = [
        Section {
            heading: "Flushes one at a time, by size",
            lede: "A write and its flush (fdatasync, file written before), then the next: what a \
                   WAL does without group commit. No server on this disk flushes more often.",
            extra: "written",
            rows: rows(of, |pattern| match pattern {
                StoragePattern::Flush {
                    method: FlushMethod::Fdatasync,
                    file: FileState::Written,
                    bytes,
                    files: 1,
                } => Some(format::bytes(f64::from(bytes))),
                _ => None,
            }),
        },
        Section {
            heading: "The same of 8 kB, by method and kind of file",
            lede: "Methods are those of wal_sync_method. A file that is only sized or that grows \
                   makes each flush write metadata too: why wal_init_zero and wal_recycle are on \
                   where the file system does not copy on write.",
            extra: "written",
            rows: rows(of, |pattern| match pattern {
                StoragePattern::Flush { method, file, bytes: 8192, files: 1 } => {
                    Some(format!("{}, {}", method.name(), file.words()))
                }
                _ => None,
            }),
        },
        Section {
            heading: "Group commit: sessions that share flushes",
            lede: "One flush at a time as WALWriteLock has it; who arrives meanwhile shares the \
                   next. The ceiling of commits a second, measured with these sessions on these \
                   processors.",
            extra: "per flush",
            rows: rows(of, |pattern| match pattern {
                StoragePattern::GroupCommit { committers: 1, .. } => Some("1 session".to_owned()),
                StoragePattern::GroupCommit { committers, .. } => {
                    Some(format!("{committers} sessions"))
                }
                _ => None,
            }),
        },
        Section {
            heading: "Flushes of several files at once",
            lede: "Each file has its own writer: whether the disk takes flushes side by side, as \
                   several clusters, or WAL and data, need.",
            extra: "written",
            rows: rows(of, |pattern| match pattern {
                StoragePattern::Flush { bytes: 8192, files, .. } if files > 1 => {
                    Some(format!("{files} files"))
                }
                StoragePattern::UnflushedWrite { .. } => Some("1 file, no flush".to_owned()),
                _ => None,
            }),
        },
        Section {
            heading: "Pages of 8 kB at random places",
            lede: "Direct I/O, so this kernel's page cache has no part; a cache of the device or \
                   of a host below may. Writes are not flushed.",
            extra: "moved",
            rows: rows(of, |pattern| match pattern {
                StoragePattern::Random { access, depth } => {
                    Some(format!("{}, {depth} at once", way(access)))
                }
                _ => None,
            }),
        },
        Section {
            heading: "Blocks of 1 MB in order",
            lede: "Direct I/O as above.",
            extra: "moved",
            rows: rows(of, |pattern| match pattern {
                StoragePattern::Sequential { access, depth } => {
                    Some(format!("{}, {depth} at once", way(access)))
                }
                _ => None,
            }),
        },
        Section {
            heading: "Flushes of 8 kB while the data disk is busy",
            lede: "What a WAL flush takes while pages are read or written, or a checkpoint \
                   writes, and the pages a second beside it: the patterns of a load whose data do not fit in memory.",
            extra: "beside",
            rows: rows(of, |pattern| match pattern {
                StoragePattern::FlushUnder { load } => Some(load.words().to_owned()),
                _ => None,
            }),
        },
    ];
    all.into_iter().filter(|section| !section.rows.is_empty()).collect()
}

fn way(access: Access) -> &'static str {
    match access {
        Access::Read => "reads",
        Access::Write => "writes",
    }
}

/// The rows of the patterns that have a name here, each pattern once: of repeats the
/// fastest.
fn rows(of: &StorageMeasurement, name: impl Fn(StoragePattern) -> Option<String>) -> Vec<Row> {
    let mut seen: Vec<StoragePattern> = Vec::new();
    let mut rows = Vec::new();
    for cell in &of.cells {
        let Some(name) = name(cell.pattern).filter(|_| !seen.contains(&cell.pattern)) else {
            continue;
        };
        seen.push(cell.pattern);
        let Some(fastest) = of.fastest(cell.pattern) else { continue };
        rows.push(row(name, fastest));
    }
    rows
}

fn row(name: String, cell: &StorageCell) -> Row {
    let deep = |time: Option<_>| time.map_or_else(|| "–".to_owned(), format::latency);
    let bytes = format::byte_rate(cell.bytes_per_second);
    let (rate, weight, extra) = match cell.pattern {
        StoragePattern::Sequential { .. } => {
            (bytes, cell.bytes_per_second, format::rate(cell.per_second))
        }
        StoragePattern::GroupCommit { .. } => {
            let share = cell.flushes_per_second.map(|flushes| cell.per_second / flushes);
            let share = share.map(format::number);
            (format::rate(cell.per_second), cell.per_second, share.unwrap_or_default())
        }
        StoragePattern::FlushUnder { .. } => {
            let beside = cell.beside_per_second.map(format::rate).unwrap_or_default();
            (format::rate(cell.per_second), cell.per_second, beside)
        }
        _ => (format::rate(cell.per_second), cell.per_second, bytes),
    };
    Row {
        name,
        weight,
        rate,
        p50: format::latency(cell.latency.p50),
        p99: deep(cell.latency.p99),
        p999: deep(cell.latency.p999),
        extra,
    }
}

/// The flush that PostgreSQL does most, by its method of choice.
pub(super) const BASE: StoragePattern = StoragePattern::Flush {
    method: FlushMethod::Fdatasync,
    file: FileState::Written,
    bytes: 8192,
    files: 1,
};

/// The whole in a few sentences.
pub(super) fn gist(of: &StorageMeasurement) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(base) = of.fastest(BASE) {
        let rates = || of.of(BASE).map(|cell| cell.per_second);
        let spread = match (rates().reduce(f64::min), rates().reduce(f64::max), rates().count()) {
            (Some(low), Some(high), n) if n > 1 => {
                format!(" ({} to {} over {n} repeats)", format::rate(low), format::rate(high))
            }
            _ => String::new(),
        };
        said.push(format!(
            "One flush of 8 kB at a time: {}{spread}, {} each at the median.",
            format::rate(base.per_second),
            format::latency(base.latency.p50)
        ));
    }
    let best = of
        .cells
        .iter()
        .filter(|cell| matches!(cell.pattern, StoragePattern::GroupCommit { .. }))
        .max_by(|a, b| a.per_second.total_cmp(&b.per_second));
    if let Some((cell, StoragePattern::GroupCommit { committers, .. })) =
        best.map(|cell| (cell, cell.pattern))
    {
        said.push(format!(
            "Sessions that share flushes: {} at most, with {}.",
            format::rate_of(cell.per_second, "commits"),
            format::counted(committers.into(), "session")
        ));
    }
    let under = of
        .cells
        .iter()
        .filter(|cell| matches!(cell.pattern, StoragePattern::FlushUnder { .. }))
        .min_by(|a, b| a.per_second.total_cmp(&b.per_second));
    if let (Some(cell), Some(base)) = (under, of.fastest(BASE))
        && let StoragePattern::FlushUnder { load } = cell.pattern
    {
        said.push(format!(
            "Under {} flushes fall to {}, {} of the quiet disk's.",
            load.words(),
            format::rate(cell.per_second),
            format::percent(cell.per_second / base.per_second)
        ));
    }
    said
}

/// Where it was measured: directory, file system, device and its cache.
pub(super) fn place(of: &StoragePlace) -> String {
    let mut text = format!("{}: {}", of.directory, of.file_system.file_system);
    if let Some(disk) = &of.disk {
        if let Some(device) = &disk.device {
            text.push_str(&format!(" on {device}"));
        }
        text.push_str(&format!(" mounted at {}", disk.mount));
        if let Some(cache) = disk.queue.get("write_cache") {
            text.push_str(&format!(", write cache {cache}"));
        }
        if let Some(scheduler) = disk.queue.get("scheduler") {
            // All there are, with the one in force in brackets.
            let chosen = scheduler.split(['[', ']']).nth(1).unwrap_or(scheduler);
            text.push_str(&format!(", scheduler {chosen}"));
        }
    }
    text
}

/// When, how long, with what, on which machine.
pub(super) fn circumstances(of: &StorageMeasurement) -> String {
    let machine = crate::journal::machine(&of.machine);
    let machine = if machine.is_empty() { machine } else { format!(" On {machine}.") };
    let data = match of.data_bytes {
        0 => String::new(),
        bytes => format!(", data file {}", format::bytes(bytes as f64)),
    };
    let whole = if of.complete { "" } else { " It was stopped before its end and is not kept." };
    format!(
        "Measured {} in {}, {} a pattern{data}.{machine}{whole}",
        format::moment(of.measured),
        format::length(of.took),
        format::length(of.each),
    )
}
