//! One file, from bytes to results.

use std::io::{self, BufRead, BufReader, Read};

use flate2::read::MultiGzDecoder;

use crate::line::Source;
use crate::results::Results;
use crate::{
    Format, ResultsError, autocannon, benchbase, jmeter, k6_csv, k6_summary, locust_failures,
    locust_history, locust_stats, oha, pgbench, pgbench_aggregate, plain_csv, printed,
};

/// As much of a file as its format is recognised from.
const HEAD: usize = 64 * 1024;
/// Characters of its first line that are quoted when no format is.
const QUOTED: usize = 80;
/// The first bytes of a gzip file (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Bytes of the largest file, unpacked: a few kilobytes of gzip can be any number of them.
const MOST_BYTES: u64 = 64 << 30;

/// Fails once more than `left` bytes have been read.
struct Limited<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => return Err(io::Error::other("unpacked it is larger than 64 GiB")),
        }
        Ok(read)
    }
}

/// Reads a file called `name` in `format` or, where none is given, in the one it shows.
/// Files that are packed by gzip are unpacked.
///
/// # Errors
/// When it cannot be read, or does not fit the format; with the line and what to do.
pub fn read(name: &str, format: Option<Format>, bytes: impl Read) -> Result<Results, ResultsError> {
    let file = name.rsplit('/').next().unwrap_or(name);
    let io = |source| ResultsError::Io { file: file.to_owned(), source };
    let mut raw = BufReader::with_capacity(HEAD, bytes);
    let packed = raw.fill_buf().map_err(io)?.starts_with(&GZIP);
    let plain: Box<dyn Read + '_> =
        if packed { Box::new(MultiGzDecoder::new(raw)) } else { Box::new(raw) };
    let plain = Limited { from: plain, left: MOST_BYTES };
    let mut head = Vec::new();
    let mut plain = plain.take(HEAD as u64);
    plain.read_to_end(&mut head).map_err(io)?;
    let shown = String::from_utf8_lossy(&head);
    let Some(first) = shown.lines().find(|line| !line.trim().is_empty()) else {
        return Err(ResultsError::Empty { file: file.to_owned() });
    };
    let format = match format.or_else(|| Format::recognise(&shown)) {
        Some(format) => format,
        None => {
            let line = first.chars().filter(|c| !c.is_control()).take(QUOTED).collect();
            return Err(ResultsError::Unknown { file: file.to_owned(), line });
        }
    };
    let whole = BufReader::new(head.as_slice().chain(plain.into_inner()));
    let source = Source { file, format };
    match format {
        Format::Pgbench | Format::PgbenchLag | Format::PgbenchRetries => {
            pgbench::read(source, whole)
        }
        Format::PgbenchAggregate => pgbench_aggregate::read(source, whole),
        Format::PgbenchSummary
        | Format::SysbenchSummary
        | Format::HammerDb
        | Format::Benchbase
        | Format::LocustText
        | Format::K6Text
        | Format::AutocannonTable
        | Format::Oha
        | Format::Wrk
        | Format::JmeterSummary => printed::read(source, whole),
        Format::BenchbaseSummary => benchbase::summary(source, whole),
        Format::BenchbaseRaw => benchbase::raw(source, whole),
        Format::BenchbaseResults => benchbase::results(source, whole),
        Format::OhaJson => oha::read(source, whole),
        Format::Jmeter => jmeter::read(source, whole),
        Format::LocustStats => locust_stats::read(source, whole),
        Format::LocustHistory => locust_history::read(source, whole),
        Format::LocustFailures => locust_failures::read(source, whole),
        Format::K6Csv => k6_csv::read(source, whole),
        Format::K6Summary => k6_summary::read(source, whole),
        Format::Autocannon => autocannon::read(source, whole),
        Format::Csv => plain_csv::read(source, whole),
    }
}
