//! What makes the figures of a measurement less certain, or the disk less trustworthy.

use std::time::Duration;

use walwright_record::{StorageMeasurement, StoragePattern, StoragePlace, Warning, WarningCode};

use super::cells::BASE;

/// No drive that stores what it is told answers sooner: a command to an NVMe device and
/// its interrupt alone take about as long.
const FASTEST: Duration = Duration::from_micros(10);
/// The same for a platter: its block must come round, at 15,000 turns a minute every 4 ms.
const FASTEST_TURN: Duration = Duration::from_millis(2);
/// A flush that takes less than this part more than the write alone did nothing.
const NOTHING: f64 = 0.15;
/// Repeats of the same pattern on a steady disk are less than this part apart.
const STEADY: f64 = 0.2;
/// Part of the time that a writer alone on the machine may wait for a processor.
const WAITING: f64 = 0.1;

/// The warnings; `on_metal` where the machine is not virtual.
pub(super) fn of(measured: &StorageMeasurement, on_metal: bool) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let wal_in_memory = in_memory(&measured.wal);
    if wal_in_memory {
        warnings.push(memory(&measured.wal, "WAL"));
    }
    if in_memory(&measured.data) && measured.data != measured.wal {
        warnings.push(memory(&measured.data, "data"));
    }
    let bases: Vec<_> = measured.of(BASE).collect();
    let Some(p50) = bases.iter().map(|cell| cell.latency.p50).min() else { return warnings };
    if !wal_in_memory {
        warnings.extend(implausible(measured, on_metal, p50));
    }
    let rates = bases.iter().map(|cell| cell.per_second);
    let (low, high) = rates.fold((f64::INFINITY, 0.0_f64), |(l, h), r| (l.min(r), h.max(r)));
    if high > low * (1.0 + STEADY) {
        warnings.push(
            Warning::new(
                WarningCode::Storage,
                format!(
                    "the same flush was done {low:.0} and {high:.0} times a second at different \
                     moments of this measurement: the disk is not steady, or others use it"
                ),
            )
            .hint("measure again when nothing else runs, with a longer --for"),
        );
    }
    let waiting = measured.fastest(BASE).and_then(|cell| cell.waiting_for_processor);
    if let Some(share) = waiting.filter(|share| *share > WAITING) {
        warnings.push(
            Warning::new(
                WarningCode::NoisyNeighbour,
                format!(
                    "the flushes waited for a processor {:.0} % of their time: other processes \
                     kept the processors busy, and that time is in the figures",
                    share * 100.0
                ),
            )
            .hint("measure again when nothing else runs"),
        );
    }
    warnings
}

fn in_memory(place: &StoragePlace) -> bool {
    matches!(place.file_system.file_system.as_str(), "tmpfs" | "ramfs")
}

fn memory(place: &StoragePlace, what: &str) -> Warning {
    Warning::new(
        WarningCode::MemoryFileSystem,
        format!(
            "{} lies in memory ({}): the figures of the {what} say nothing of a disk, and nothing \
             there survives a restart",
            place.directory, place.file_system.file_system
        ),
    )
    .hint("name a directory on a disk with --wal-dir and --data-dir")
}

/// Signs that a flush does not reach what keeps data without power.
///
/// Virtual disks often say that they turn, which means nothing.
fn implausible(measured: &StorageMeasurement, on_metal: bool, p50: Duration) -> Option<Warning> {
    let queue = |name: &str| measured.wal.disk.as_ref()?.queue.get(name).map(String::as_str);
    let micros = p50.as_secs_f64() * 1e6;
    let text = if p50 < FASTEST {
        format!(
            "a flush of 8 kB takes {micros:.1} µs, less than a command to any drive: something \
             answers that does not store it"
        )
    } else if queue("rotational") == Some("1") && on_metal && p50 < FASTEST_TURN {
        format!(
            "a flush of 8 kB takes {micros:.0} µs on a device that says it turns, less than half \
             a turn: a cache answers"
        )
    } else if queue("write_cache") == Some("write back") {
        let alone = StoragePattern::UnflushedWrite { bytes: 8192 };
        let alone = measured.of(alone).map(|cell| cell.latency.p50).min()?;
        if p50.as_secs_f64() > alone.as_secs_f64() * (1.0 + NOTHING) {
            return None;
        }
        format!(
            "a flush of 8 kB takes {micros:.0} µs, hardly more than the {:.0} µs of the write alone, \
             on a device that says it has a volatile cache (write_cache is write back): either \
             that cache survives a loss of power, or flushes are dropped on the way",
            alone.as_secs_f64() * 1e6
        )
    } else {
        return None;
    };
    Some(Warning::new(WarningCode::Storage, text).hint(
        "find out what keeps the cache when the power goes: a battery, capacitors of the drive, or \
         nothing. A virtual disk with cache=unsafe, and a drive without protection whose cache \
         ignores flushes, lose acknowledged commits and can corrupt the cluster",
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use walwright_record::journal::Machine;
    use walwright_record::{
        DiskFacts, FileSystemId, Latencies, LatencyHistogram, StorageCell, Timestamp,
    };

    use super::*;

    fn cell(pattern: StoragePattern, micros: f64) -> StorageCell {
        let mut histogram = LatencyHistogram::new();
        histogram.record(Duration::from_secs_f64(micros / 1e6));
        StorageCell {
            pattern,
            per_second: 1e6 / micros,
            bytes_per_second: 8192e6 / micros,
            latency: Latencies::of(&histogram).unwrap(),
            flushes_per_second: None,
            beside_per_second: None,
            waiting_for_processor: None,
        }
    }

    fn disk(
        file_system: &str,
        queue: &[(&str, &str)],
        flushes: &[f64],
        alone: f64,
    ) -> Vec<Warning> {
        of(&measured(file_system, queue, flushes, alone), true)
    }

    fn measured(
        file_system: &str,
        queue: &[(&str, &str)],
        flushes: &[f64],
        alone: f64,
    ) -> StorageMeasurement {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let place = StoragePlace {
            directory: "/wal".to_owned(),
            file_system: FileSystemId {
                host: "h".to_owned(),
                file_system: file_system.to_owned(),
                device: "8:1".to_owned(),
                id: "1".to_owned(),
            },
            disk: Some(DiskFacts {
                queue: queue.iter().map(owned).collect::<BTreeMap<_, _>>(),
                ..DiskFacts::default()
            }),
        };
        let mut cells: Vec<StorageCell> = flushes.iter().map(|us| cell(BASE, *us)).collect();
        cells.push(cell(StoragePattern::UnflushedWrite { bytes: 8192 }, alone));
        StorageMeasurement {
            id: String::new(),
            measured: Timestamp(0),
            took: Duration::ZERO,
            each: Duration::ZERO,
            walwright_version: String::new(),
            machine: Machine::default(),
            wal: place.clone(),
            data: place,
            data_bytes: 0,
            cells,
            warnings: Vec::new(),
            complete: true,
        }
    }

    #[test]
    fn a_steady_honest_disk_raises_none() {
        assert_eq!(disk("ext4", &[("write_cache", "write back")], &[400.0, 420.0], 60.0), []);
        assert_eq!(disk("ext4", &[("write_cache", "write through")], &[60.0, 61.0], 58.0), []);
    }

    #[test]
    fn dropped_flushes_are_suspected_by_each_sign() {
        for (queue, flush, alone, says) in [
            (vec![], 4.0, 3.0, "less than a command"),
            (vec![("rotational", "1")], 90.0, 80.0, "half a turn"),
            (vec![("write_cache", "write back")], 60.0, 58.0, "hardly more"),
        ] {
            let warnings = disk("xfs", &queue, &[flush], alone);
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert_eq!(warnings[0].code, WarningCode::Storage);
            assert!(warnings[0].text.contains(says), "{warnings:?}");
        }
    }

    #[test]
    fn a_wait_for_a_processor_counts_where_it_is_in_the_ceiling() {
        let mut measured = measured("ext4", &[], &[400.0, 410.0], 50.0);
        let mut waits = |slower, faster| {
            measured.cells[1].waiting_for_processor = Some(slower);
            measured.cells[0].waiting_for_processor = Some(faster);
            of(&measured, true)
        };
        assert_eq!(waits(0.5, 0.02), []);
        let warnings = waits(0.0, 0.5);
        assert_eq!(warnings[0].code, WarningCode::NoisyNeighbour);
        assert!(warnings[0].text.contains("50 %"), "{warnings:?}");
    }

    #[test]
    fn memory_and_unsteadiness_are_told() {
        let warnings = disk("tmpfs", &[], &[2.0, 2.1], 1.0);
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0].code, WarningCode::MemoryFileSystem);
        let warnings = disk("ext4", &[], &[400.0, 800.0], 50.0);
        assert!(warnings[0].text.contains("1250 and 2500"), "{warnings:?}");
    }
}
