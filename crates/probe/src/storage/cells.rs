//! The patterns of a measurement, in order, and one of them measured.

use std::io;
use std::path::Path;

use walwright_record::{
    Access, DataLoad, FileState, FlushMethod, Latencies, StorageCell, StoragePattern,
};

use super::data_file::{self, DataFile, SEQUENTIAL};
use super::group_commit::group_commit;
use super::watch::{Measured, Watch};
use super::{PAGE, flush, under_load};

/// WAL of a commit in the group-commit patterns: about what a small transaction writes
/// whose pages were logged before.
const RECORD: u32 = 512;
const KB: u32 = 1024;

/// The flush that all others are compared with: a page, as PostgreSQL flushes it.
pub(super) const BASE: StoragePattern = flush_of(FlushMethod::Fdatasync, FileState::Written, 8, 1);

const fn flush_of(method: FlushMethod, file: FileState, kb: u32, files: u32) -> StoragePattern {
    StoragePattern::Flush { method, file, bytes: kb * KB, files }
}

/// What is measured on the WAL's disk. The base is measured three times in between: how
/// far those lie apart is how steady the disk is.
pub(super) fn of_wal() -> Vec<StoragePattern> {
    use FileState::{Growing, Sized, Written};
    use FlushMethod::{Fdatasync, Fsync, OpenDatasync, OpenSync};
    let mut patterns = vec![BASE];
    patterns
        .extend([16, 32, 64, 128, 256, 512, 1024].map(|kb| flush_of(Fdatasync, Written, kb, 1)));
    patterns.extend([Fsync, OpenDatasync, OpenSync].map(|method| flush_of(method, Written, 8, 1)));
    for method in [Fdatasync, OpenDatasync] {
        patterns.extend([Sized, Growing].map(|file| flush_of(method, file, 8, 1)));
    }
    patterns.push(BASE);
    patterns.extend([2, 4, 8, 16].map(|files| flush_of(Fdatasync, Written, 8, files)));
    patterns.extend(
        [1, 2, 4, 8, 16, 32, 64]
            .map(|committers| StoragePattern::GroupCommit { committers, record_bytes: RECORD }),
    );
    patterns.push(BASE);
    patterns.push(StoragePattern::UnflushedWrite { bytes: 8 * KB });
    patterns
}

/// What is measured on the data's disk; without direct I/O the page cache would answer
/// for the disk, so that only flushes beside buffered writes are left.
pub(super) fn of_data(direct: bool) -> Vec<StoragePattern> {
    let mut patterns = Vec::new();
    if direct {
        for access in [Access::Read, Access::Write] {
            let random = [1, 4, 16, 64].map(|depth| StoragePattern::Random { access, depth });
            let sequential = [1, 4].map(|depth| StoragePattern::Sequential { access, depth });
            patterns.extend(random);
            patterns.extend(sequential);
        }
        patterns.extend(
            [DataLoad::PageWrites, DataLoad::PageReads]
                .map(|load| StoragePattern::FlushUnder { load }),
        );
    }
    patterns.push(StoragePattern::FlushUnder { load: DataLoad::Checkpoint });
    if direct {
        patterns.push(StoragePattern::FlushUnder { load: DataLoad::Everything });
    }
    patterns
}

/// Measures a pattern; `None` when it was stopped before anything counted, and for
/// patterns of data without a data file.
pub(super) fn measure(
    watch: &Watch,
    wal: &Path,
    data: Option<&DataFile>,
    pattern: StoragePattern,
) -> io::Result<Option<StorageCell>> {
    let mut cell = match pattern {
        StoragePattern::Flush { method, file, bytes, files } => {
            of(pattern, &flush::flushes(watch, wal, method, file, bytes, files)?)
        }
        StoragePattern::GroupCommit { committers, record_bytes } => {
            let done = group_commit(watch, wal, committers, record_bytes)?;
            of(pattern, &done.commits).map(|cell| StorageCell {
                flushes_per_second: Some(cell.per_second / done.per_flush),
                ..cell
            })
        }
        StoragePattern::UnflushedWrite { bytes } => match flush::unflushed(watch, wal, bytes) {
            // No direct I/O: there is nothing to compare with.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => None,
            done => of(pattern, &done?),
        },
        StoragePattern::Random { access, depth } => match data {
            Some(data) => of(pattern, &data_file::random(watch, data, access, depth)?),
            None => None,
        },
        StoragePattern::Sequential { access, depth } => match data {
            Some(data) => of(pattern, &data_file::sequential(watch, data, access, depth)?),
            None => None,
        },
        StoragePattern::FlushUnder { load } => match data {
            Some(data) => {
                let done = under_load::flushes_under(watch, wal, data, load)?;
                of(pattern, &done.flushes).map(|cell| StorageCell {
                    beside_per_second: Some(done.pages_per_second),
                    ..cell
                })
            }
            None => None,
        },
    };
    if (watch.stop)() {
        cell = None;
    }
    Ok(cell)
}

fn of(pattern: StoragePattern, done: &Measured) -> Option<StorageCell> {
    Some(StorageCell {
        pattern,
        per_second: done.per_second(),
        bytes_per_second: done.bytes_per_second(),
        latency: Latencies::of(&done.latency)?,
        flushes_per_second: None,
        beside_per_second: None,
        waiting_for_processor: done.waiting_for_processor(),
    })
}

/// What is done, in words for whoever waits.
pub(super) fn words(pattern: StoragePattern) -> String {
    let way = |access| match access {
        Access::Read => "reads",
        Access::Write => "writes",
    };
    match pattern {
        StoragePattern::Flush { method, file, bytes, files } => {
            let side = if files == 1 { String::new() } else { format!(", {files} files at once") };
            format!("{} of {} kB, file {}{side}", method.name(), bytes / KB, file.words())
        }
        StoragePattern::GroupCommit { committers, .. } => {
            let plural = if committers == 1 { "" } else { "s" };
            format!("group commit of {committers} session{plural}")
        }
        StoragePattern::UnflushedWrite { bytes } => {
            format!("writes of {} kB without a flush", bytes / KB)
        }
        StoragePattern::Random { access, depth } => {
            format!("random {} of {} kB, {depth} at once", way(access), PAGE / 1024)
        }
        StoragePattern::Sequential { access, depth } => {
            format!("sequential {} of {} kB, {depth} at once", way(access), SEQUENTIAL / 1024)
        }
        StoragePattern::FlushUnder { load } => format!("flushes under {}", load.words()),
    }
}
