//! What disks can do: the result of one storage measurement.
//!
//! The lab keeps these by file system. A record takes along the one that was known when
//! its run began, so that the distance to the ceiling can be told without the lab.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::journal::Machine;
use crate::{DiskFacts, LatencyHistogram, Timestamp, Warning, WarningCode};

/// Bars of a kept distribution to each power of ten.
const BARS_PER_DECADE: f64 = 20.0;

/// What makes a file system the same one: looked at on the same host, with the same
/// device number and the same id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystemId {
    /// Host name.
    pub host: String,
    /// Type: `ext4`, `xfs`, `tmpfs`.
    pub file_system: String,
    /// Number of the device as `MAJOR:MINOR` (`st_dev`).
    pub device: String,
    /// `f_fsid` of statvfs(3) in hexadecimal digits; of ext4 it comes from the UUID.
    pub id: String,
}

/// Where something was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoragePlace {
    /// The directory.
    pub directory: String,
    /// The file system under it.
    pub file_system: FileSystemId,
    /// The device, where it shows.
    pub disk: Option<DiskFacts>,
}

/// How a write is made durable, as `wal_sync_method` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlushMethod {
    /// write, then fdatasync(2): PostgreSQL's choice on Linux.
    Fdatasync,
    /// write, then fsync(2).
    Fsync,
    /// A file opened with O_DSYNC.
    OpenDatasync,
    /// A file opened with O_SYNC.
    OpenSync,
}

impl FlushMethod {
    /// All of them.
    pub const ALL: [FlushMethod; 4] = [
        FlushMethod::Fdatasync,
        FlushMethod::Fsync,
        FlushMethod::OpenDatasync,
        FlushMethod::OpenSync,
    ];

    /// The value of `wal_sync_method`.
    pub fn name(self) -> &'static str {
        match self {
            FlushMethod::Fdatasync => "fdatasync",
            FlushMethod::Fsync => "fsync",
            FlushMethod::OpenDatasync => "open_datasync",
            FlushMethod::OpenSync => "open_sync",
        }
    }

    /// The method that `wal_sync_method` names; `None` for one this platform has not.
    pub fn from_name(name: &str) -> Option<FlushMethod> {
        FlushMethod::ALL.into_iter().find(|method| method.name() == name)
    }
}

/// What the file is like that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// Written whole before: a recycled segment, or a new one with `wal_init_zero = on`.
    Written,
    /// Has its size but no blocks: a new segment with `wal_init_zero = off`.
    Sized,
    /// Grows with each write.
    Growing,
}

impl FileState {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            FileState::Written => "written",
            FileState::Sized => "only sized",
            FileState::Growing => "growing",
        }
    }
}

/// Reading or writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reading.
    Read,
    /// Writing; nothing is flushed, so a cache of the device may answer.
    Write,
}

/// What the data disk does while the WAL is flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataLoad {
    /// One writer of random pages, as backends and background writer when the data do
    /// not fit in memory.
    PageWrites,
    /// Four readers of random pages: the same data, read.
    PageReads,
    /// A checkpoint: pages in file order through the page cache, pushed out every
    /// `checkpoint_flush_after`, then an fsync; again and again.
    Checkpoint,
    /// All three at once.
    Everything,
}

impl DataLoad {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            DataLoad::PageWrites => "random page writes",
            DataLoad::PageReads => "random page reads",
            DataLoad::Checkpoint => "checkpoint bursts",
            DataLoad::Everything => "all three at once",
        }
    }
}

/// One pattern of access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StoragePattern {
    /// Each of `files` writers writes `bytes` to a file of its own and flushes, again
    /// and again: with one file what a WAL does without group commit.
    Flush {
        /// How.
        method: FlushMethod,
        /// Into which kind of file.
        file: FileState,
        /// Bytes of a write.
        bytes: u32,
        /// Files, each with a writer.
        files: u32,
    },
    /// `committers` sessions commit `record_bytes` each to one WAL: one flushes for all
    /// that arrived, as `WALWriteLock` has it; each begins the next when its own is durable.
    GroupCommit {
        /// Sessions.
        committers: u32,
        /// WAL of a commit.
        record_bytes: u32,
    },
    /// Direct writes of WAL pages without a flush: what the flush adds is the difference.
    UnflushedWrite {
        /// Bytes of a write.
        bytes: u32,
    },
    /// Pages of 8 kB at random places of the data file, by direct I/O.
    Random {
        /// Which way.
        access: Access,
        /// Requests under way.
        depth: u32,
    },
    /// Blocks of 1 MB one after the other through the data file, by direct I/O.
    Sequential {
        /// Which way.
        access: Access,
        /// Requests under way.
        depth: u32,
    },
    /// One writer flushes 8 kB to the WAL disk again and again while the data disk is busy.
    FlushUnder {
        /// With what.
        load: DataLoad,
    },
}

/// The distribution of the times of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Operations.
    pub count: u64,
    /// Mean.
    #[serde(with = "crate::seconds")]
    pub mean: Duration,
    /// Shortest.
    #[serde(with = "crate::seconds")]
    pub min: Duration,
    /// Median.
    #[serde(with = "crate::seconds")]
    pub p50: Duration,
    /// 90th percentile.
    #[serde(with = "crate::seconds")]
    pub p90: Duration,
    /// 99th percentile; `None` of fewer than 100.
    #[serde(with = "crate::seconds::option")]
    pub p99: Option<Duration>,
    /// 99.9th percentile; `None` of fewer than 1000.
    #[serde(with = "crate::seconds::option")]
    pub p999: Option<Duration>,
    /// Longest.
    #[serde(with = "crate::seconds")]
    pub max: Duration,
    /// (lower edge in seconds, count) of bars that are equally wide on a logarithmic
    /// axis, ascending; bars without a count are left out.
    pub bars: Vec<(f64, u64)>,
}

impl Latencies {
    /// What is kept of a histogram; `None` of an empty one.
    pub fn of(histogram: &LatencyHistogram) -> Option<Latencies> {
        let count = histogram.count();
        let deep = |percent: f64, least: u64| {
            (count >= least).then(|| histogram.percentile(percent)).flatten()
        };
        let mut bars: Vec<(i32, u64)> = Vec::new();
        for (time, n) in histogram.buckets() {
            let place = (time.as_secs_f64().max(1e-9).log10() * BARS_PER_DECADE).floor() as i32;
            match bars.last_mut() {
                Some((last, count)) if *last == place => *count += n,
                _ => bars.push((place, n)),
            }
        }
        let edge = |place: i32| 10f64.powf(f64::from(place) / BARS_PER_DECADE);
        Some(Latencies {
            count,
            mean: histogram.mean()?,
            min: histogram.min()?,
            p50: histogram.percentile(50.0)?,
            p90: histogram.percentile(90.0)?,
            p99: deep(99.0, 100),
            p999: deep(99.9, 1000),
            max: histogram.max()?,
            bars: bars.into_iter().map(|(place, n)| (edge(place), n)).collect(),
        })
    }
}

/// One pattern, measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageCell {
    /// What was done.
    pub pattern: StoragePattern,
    /// Operations a second: writes with their flush, commits, reads.
    pub per_second: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Times of one operation.
    pub latency: Latencies,
    /// Flushes a second, where an operation is not a flush of its own (group commit).
    pub flushes_per_second: Option<f64>,
    /// Operations a second of the data disk beside it, where there were any.
    pub beside_per_second: Option<f64>,
    /// Share of the time, 0 to 1, that the workers were ready to run and had no
    /// processor: time that is in the latencies and not the disk's. `None` where the
    /// kernel does not tell.
    pub waiting_for_processor: Option<f64>,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageMeasurement {
    /// Its name in the lab, as a run's.
    pub id: String,
    /// When it began.
    pub measured: Timestamp,
    /// How long it took.
    #[serde(with = "crate::seconds")]
    pub took: Duration,
    /// Time given to each pattern.
    #[serde(with = "crate::seconds")]
    pub each: Duration,
    /// Version of walwright that measured.
    pub walwright_version: String,
    /// The machine.
    pub machine: Machine,
    /// Where the WAL patterns were measured.
    pub wal: StoragePlace,
    /// Where the data patterns were measured.
    pub data: StoragePlace,
    /// Size of the data file.
    pub data_bytes: u64,
    /// What was measured, in order. A pattern that was measured again stands again:
    /// how far the repeats lie apart is how steady the disk is.
    pub cells: Vec<StorageCell>,
    /// What makes the figures less certain.
    #[serde(alias = "doubts")]
    pub warnings: Vec<Warning>,
    /// Whether all patterns were measured.
    pub complete: bool,
}

impl StorageMeasurement {
    /// The cells of a pattern, all its repeats.
    pub fn of(&self, pattern: StoragePattern) -> impl Iterator<Item = &StorageCell> {
        self.cells.iter().filter(move |cell| cell.pattern == pattern)
    }

    /// Of all repeats of a pattern the fastest: what the disk did it can do, and whatever
    /// disturbs a measurement makes it slower.
    pub fn fastest(&self, pattern: StoragePattern) -> Option<&StorageCell> {
        self.of(pattern).max_by(|a, b| a.per_second.total_cmp(&b.per_second))
    }

    /// Whether other work held the measurement up, so that the disk can do more.
    pub fn is_disturbed(&self) -> bool {
        self.warnings.iter().any(|warning| warning.code == WarningCode::NoisyNeighbour)
    }

    /// The same without the bars of its distributions: what a record takes along.
    #[must_use]
    pub fn without_bars(mut self) -> StorageMeasurement {
        for cell in &mut self.cells {
            cell.latency.bars.clear();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_keeps_every_count_and_no_percentile_it_cannot_know() {
        let mut histogram = LatencyHistogram::new();
        assert_eq!(Latencies::of(&histogram), None);
        for micros in 1..=99_u64 {
            histogram.record(Duration::from_micros(micros * micros));
        }
        let few = Latencies::of(&histogram).unwrap();
        assert_eq!((few.count, few.p99, few.p999), (99, None, None));
        assert_eq!(few.bars.iter().map(|(_, n)| n).sum::<u64>(), 99);
        assert!(few.bars.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(few.bars[0].0 <= 1e-6 && few.bars.last().unwrap().0 <= few.max.as_secs_f64());
        histogram.record(Duration::from_millis(20));
        let more = Latencies::of(&histogram).unwrap();
        assert!(more.p99.unwrap() < more.max && more.p999.is_none());
        let text = serde_json::to_string(&more).unwrap();
        let back: Latencies = serde_json::from_str(&text).unwrap();
        assert_eq!(back.count, more.count);
        assert!(back.p50.abs_diff(more.p50) < Duration::from_nanos(2));
    }

    #[test]
    fn methods_are_named_as_postgresql_does() {
        for method in FlushMethod::ALL {
            assert_eq!(FlushMethod::from_name(method.name()), Some(method));
        }
        assert_eq!(FlushMethod::from_name("fsync_writethrough"), None);
    }
}
