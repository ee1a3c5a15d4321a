//! How near a run came to what the disk under its data was measured to be able to do.
//!
//! The kernel counts requests and bytes of a device (`/proc/diskstats`), of whatever size
//! the requests are. A disk is measured with two sizes: pages at random, which gives the most
//! requests, and large blocks in order, which gives the most bytes. Against either a run shows
//! the least share that it took: a request that is larger than a page takes longer, and so
//! does a byte that comes in smaller ones than blocks. On a disk that turns, a request in
//! order costs less than one at random, so that only bytes are held against it.

use serde::Serialize;
use walwright_record::{
    Access, DiskFacts, Record, Row, Source, StorageCell, StorageMeasurement, StoragePattern, Window,
};

use crate::counters::{Difference, difference};

/// Bytes of a sector of `/proc/diskstats`, whatever the device's own.
pub const SECTOR: f64 = 512.0;

/// What the device under the data did over the measured window, for whomever.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DataDiskUse {
    /// Its name in `/proc/diskstats`.
    pub device: String,
    /// Whether the WAL lies on it too, so that its flushes are among the writes.
    pub holds_wal: bool,
    /// Reads.
    pub reads: Requests,
    /// Writes.
    pub writes: Requests,
}

/// Requests of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Requests {
    /// Requests a second.
    pub per_second: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// The share of what the disk was measured to do that this takes at least; `None` where
    /// that was not measured, or other work held the measurement up.
    pub least_share: Option<f64>,
}

/// What the device under the data did; `None` where that cannot be seen.
pub fn data_disk_use(record: &Record, window: Window) -> Option<DataDiskUse> {
    let local = record.target.as_ref().is_some_and(|target| target.local);
    let host = record.host.as_ref().filter(|_| local)?;
    let disk = host.data_disk.as_ref()?;
    let device = disk.device.clone()?;
    let counted = difference(record, Source::Disk, window).ok()?;
    let measured = record.storage_measured.as_ref();
    let measured = measured.filter(|measured| is_of(measured, disk) && !measured.is_disturbed());
    let turns = disk.queue.get("rotational").is_some_and(|rotational| rotational == "1");
    let of = |access| requests(&counted, &device, access, measured, turns);
    Some(DataDiskUse {
        holds_wal: host.wal_disk.as_ref().is_some_and(|wal| wal.device == disk.device),
        reads: of(Access::Read)?,
        writes: of(Access::Write)?,
        device,
    })
}

/// Whether the data patterns of a measurement were made on this disk.
fn is_of(measured: &StorageMeasurement, disk: &DiskFacts) -> bool {
    let there = measured.data.disk.as_ref();
    there.is_some_and(|there| there.device == disk.device && there.mount == disk.mount)
}

fn requests(
    counted: &Difference,
    device: &str,
    access: Access,
    measured: Option<&StorageMeasurement>,
    turns: bool,
) -> Option<Requests> {
    let [ios, sectors] = match access {
        Access::Read => ["read_ios", "read_sectors"],
        Access::Write => ["write_ios", "write_sectors"],
    };
    let per_second = rate(counted, device, ios)?;
    let bytes_per_second = rate(counted, device, sectors)? * SECTOR;
    let most = |which: fn(StoragePattern) -> Option<Access>, of: fn(&StorageCell) -> f64| {
        let cells = measured?.cells.iter().filter(|cell| which(cell.pattern) == Some(access));
        cells.map(of).reduce(f64::max).filter(|most| *most > 0.0)
    };
    let blocks = most(in_order, |cell| cell.bytes_per_second);
    let pages = most(at_random, |cell| cell.per_second).filter(|_| !turns);
    let least_share = blocks.map(|blocks| {
        let of_requests = pages.map_or(0.0, |pages| per_second / pages);
        of_requests.max(bytes_per_second / blocks)
    });
    Some(Requests { per_second, bytes_per_second, least_share })
}

/// A field of a device a second; `None` where the kernel does not count it.
pub fn rate(counted: &Difference, device: &str, field: &str) -> Option<f64> {
    let of_device = |row: &Row| row.text("device") == Some(device);
    Some(counted.sum_where(field, of_device).ok()? / counted.length().as_secs_f64())
}

fn at_random(pattern: StoragePattern) -> Option<Access> {
    match pattern {
        StoragePattern::Random { access, .. } => Some(access),
        _ => None,
    }
}

fn in_order(pattern: StoragePattern) -> Option<Access> {
    match pattern {
        StoragePattern::Sequential { access, .. } => Some(access),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use walwright_record::HostFacts;

    use super::*;
    use crate::storage_use::tests::measurement;
    use crate::summary;
    use walwright_testing::{Build, embedded, named};

    fn disk(device: &str) -> DiskFacts {
        let (device, mount) = (Some(device.to_owned()), "/data".to_owned());
        DiskFacts { device, mount, ..DiskFacts::default() }
    }

    /// 500 writes a second of 16 kB each on `sdb`, beside a busier disk, and no reads.
    fn run() -> Build {
        let mut build = Build::new();
        build.load(0, 30, 4_000).measure(0.0, 30.0);
        for s in 0..30 {
            let t = f64::from(s);
            let disk = |device, writes: f64| {
                let counts = [
                    ("read_ios", 0.0),
                    ("read_sectors", 0.0),
                    ("write_ios", writes * t),
                    ("write_sectors", 32.0 * writes * t),
                ];
                named([("device", device)], counts)
            };
            build.sample(t, Source::Disk, [disk("sda", 9_000.0), disk("sdb", 500.0)]);
        }
        let disks = (Some(disk("sdb")), Some(disk("sda")));
        build.record.target = Some(embedded());
        build.record.host =
            Some(HostFacts { data_disk: disks.0, wal_disk: disks.1, ..HostFacts::default() });
        build
    }

    /// Of this disk: 2,000 random pages written a second, 40 MB in order; reads twice that.
    fn measured() -> StorageMeasurement {
        let mut measured = measurement();
        measured.data.disk = Some(disk("sdb"));
        let plain = measured.cells[0].clone();
        for (access, factor) in [(Access::Write, 1.0), (Access::Read, 2.0)] {
            for (depth, share) in [(1, 0.3), (16, 1.0)] {
                let random = StoragePattern::Random { access, depth };
                let per_second = factor * share * 2_000.0;
                measured.cells.push(StorageCell { pattern: random, per_second, ..plain.clone() });
                let pattern = StoragePattern::Sequential { access, depth };
                let bytes_per_second = factor * share * 4e7;
                measured.cells.push(StorageCell { pattern, bytes_per_second, ..plain.clone() });
            }
        }
        measured
    }

    fn seen(build: &Build) -> DataDiskUse {
        summary(&build.record).data_disk.unwrap()
    }

    #[test]
    fn what_the_data_disk_did_is_held_against_what_it_was_measured_to_do() {
        let mut build = run();
        build.record.storage_measured = Some(measured());
        let seen = seen(&build);
        assert_eq!((seen.device.as_str(), seen.holds_wal), ("sdb", false));
        assert!((seen.writes.per_second - 500.0).abs() < 1e-6);
        assert!((seen.writes.bytes_per_second - 500.0 * 16_384.0).abs() < 1e-3);
        // A quarter of the requests, a fifth of the bytes.
        assert!((seen.writes.least_share.unwrap() - 0.25).abs() < 1e-9, "{seen:?}");
        assert_eq!(seen.reads.least_share, Some(0.0));
        assert_eq!(seen.reads.per_second, 0.0);

        let disk = build.record.host.as_mut().unwrap().data_disk.as_mut().unwrap();
        disk.queue.insert("rotational".to_owned(), "1".to_owned());
        let turning = self::seen(&build).writes.least_share.unwrap();
        assert!((turning - 500.0 * 16_384.0 / 4e7).abs() < 1e-9, "{turning}");
    }

    #[test]
    fn a_measurement_of_another_disk_says_nothing_of_this_one() {
        let mut build = run();
        assert_eq!(seen(&build).writes.least_share, None);
        let mut other = measured();
        other.data.disk = Some(disk("sda"));
        build.record.storage_measured = Some(other);
        assert_eq!(seen(&build).writes.least_share, None);
        // Not on this machine, the disks seen here are not the server's.
        build.record.target.as_mut().unwrap().local = false;
        assert_eq!(summary(&build.record).data_disk, None);
    }
}
