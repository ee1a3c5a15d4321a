//! An input's rows, read and taken apart by a thread of its own.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;

use crate::csv;
use crate::error::IngestError;
use crate::feed::Reading;
use crate::format::Format;
use crate::input::Input;
use crate::records::{Fault, Record, Records};
use crate::rejects::Reason;
use crate::summary::Counts;
use crate::table::{Header, Mapped, Table};
use crate::text;

/// Bytes asked of an input at once.
const CHUNK: usize = 256 * 1024;
/// Most rows that go from the reader's thread at once, so that the first are on their way while
/// the next are read.
const ROWS: usize = 512;

/// A row as the reader made it.
pub(crate) struct Item {
    pub(crate) line: u64,
    /// What of the input is done with this row: all since the one before.
    pub(crate) covers: Range<u64>,
    /// As it came, where it may be wanted again.
    pub(crate) raw: Vec<u8>,
    pub(crate) row: Result<Mapped, Reason>,
    /// Whether this is the last piece of its record.
    pub(crate) ends: bool,
}

/// What the reader hands over.
pub(crate) enum Read {
    Header(Vec<u8>),
    Items(Vec<Item>),
    Failed(IngestError),
}

/// Reads an input in a thread of its own.
pub(crate) struct Reader {
    pub(crate) input: Input,
    pub(crate) reading: Reading,
    pub(crate) table: Arc<Table>,
    /// Of a format whose records do not name their fields.
    pub(crate) header: Option<Header>,
    /// What an earlier run has done, ascending.
    pub(crate) done: Vec<Range<u64>>,
    pub(crate) keeps_raw: bool,
    /// Up to where the input is covered by rows.
    pub(crate) covered: u64,
    pub(crate) counts: Arc<Counts>,
    pub(crate) send: mpsc::Sender<Read>,
}

impl Reader {
    pub(crate) fn run(mut self, wake: &OwnedFd) {
        if let Err(error) = self.read(wake) {
            // Who does not listen any more has an error of their own.
            _ = self.send.blocking_send(Read::Failed(error));
        }
    }

    fn read(&mut self, wake: &OwnedFd) -> Result<(), IngestError> {
        if self.reading.format == Format::Text {
            let header = self.table.positional();
            self.header = Some(header.map_err(|reason| self.wrong_header(reason))?);
        }
        let mut records = Records::new(self.reading.format, self.reading.longest);
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = self.input.read(&mut chunk, wake).map_err(|error| IngestError::File {
                path: self.input.name.clone().into(),
                error,
            })?;
            let Some(count) = count else {
                self.tell_end(&records);
                return Ok(());
            };
            if count == 0 {
                records.end();
            }
            self.counts.bytes.fetch_add(count as u64, Ordering::Relaxed);
            records.push(&chunk[..count]);
            loop {
                let mut items = Vec::with_capacity(ROWS);
                while items.len() < ROWS
                    && let Some(record) = records.next_record()
                {
                    if self.ends_data(&record) {
                        return self.hand_over(items).map(|_| ());
                    }
                    if let Some(item) = self.item(&record)? {
                        items.push(item);
                    }
                }
                if items.is_empty() {
                    break;
                }
                if !self.hand_over(items)? {
                    return Ok(());
                }
            }
            if count == 0 {
                return Ok(());
            }
        }
    }

    /// Says up to where the input is read whose reading was ended.
    fn tell_end(&self, records: &Records) {
        let Input { name, .. } = &self.input;
        let next = match self.reading.resumes {
            true => "ingest it again to go on",
            false => "what follows is not written",
        };
        self.counts
            .note(format!("the reading of {name} ended before line {}; {next}", records.line()));
    }

    /// `false` where nobody takes them any more.
    fn hand_over(&self, items: Vec<Item>) -> Result<bool, IngestError> {
        Ok(self.send.blocking_send(Read::Items(items)).is_ok())
    }

    /// Whether this is the mark that ends data in COPY's text format.
    fn ends_data(&self, record: &Record<'_>) -> bool {
        self.reading.format == Format::Text && record.bytes == b"\\."
    }

    fn wrong_header(&self, reason: String) -> IngestError {
        IngestError::Header { input: self.input.name.clone(), reason }
    }

    /// What a record is; none where it is no row, or an earlier run has written it.
    fn item(&mut self, record: &Record<'_>) -> Result<Option<Item>, IngestError> {
        const MARK: &[u8] = "\u{feff}".as_bytes();
        let mut bytes = record.bytes;
        if record.range.start == 0 && self.reading.format != Format::Text {
            bytes = bytes.strip_prefix(MARK).unwrap_or(bytes);
        }
        if self.reading.format == Format::Csv && self.header.is_none() {
            let header = match (record.fault, str::from_utf8(bytes)) {
                (None, Ok(text)) => {
                    let fields = csv::fields(text);
                    self.table.header(fields.iter().map(|field| &*field.text))
                }
                (Some(fault), _) => Err(self.told(fault)),
                (None, Err(_)) => Err("it is not UTF-8".to_owned()),
            };
            self.header = Some(header.map_err(|reason| self.wrong_header(reason))?);
            _ = self.send.blocking_send(Read::Header(bytes.to_vec()));
            return Ok(None);
        }
        let blank = bytes.trim_ascii().is_empty() && self.reading.format != Format::Text;
        if blank && record.fault.is_none() {
            return Ok(None);
        }
        let ends = record.fault != Some(Fault::TooLong { last: false });
        if self.is_done(&record.range) {
            self.counts.before.fetch_add(1, Ordering::Relaxed);
            self.covered = record.range.end;
            return Ok(None);
        }
        if ends {
            self.counts.rows.fetch_add(1, Ordering::Relaxed);
        }
        let row = match record.fault {
            Some(fault) => Err(self.told(fault)),
            None => row(&self.table, self.header.as_ref(), self.reading.format, bytes),
        };
        let covers = std::mem::replace(&mut self.covered, record.range.end)..record.range.end;
        let raw = if self.keeps_raw { record.bytes.to_vec() } else { Vec::new() };
        Ok(Some(Item { line: record.line, covers, raw, row: row.map_err(Reason::from), ends }))
    }

    fn is_done(&self, range: &Range<u64>) -> bool {
        let behind = self.done.partition_point(|done| done.start <= range.start);
        behind.checked_sub(1).is_some_and(|at| range.end <= self.done[at].end)
    }

    fn told(&self, fault: Fault) -> String {
        match fault {
            Fault::TooLong { .. } => {
                format!("it is longer than {} bytes", self.reading.longest)
            }
            Fault::OpenQuote => "a quote that begins in it is not closed".to_owned(),
        }
    }
}

/// A record as a row of a table.
pub(crate) fn row(
    table: &Table,
    header: Option<&Header>,
    format: Format,
    bytes: &[u8],
) -> Result<Mapped, String> {
    let text = str::from_utf8(bytes)
        .map_err(|error| format!("it is not UTF-8: byte {} of it", error.valid_up_to() + 1))?;
    let row = match (format, header) {
        (Format::Csv, Some(header)) => {
            let fields = csv::fields(text).into_iter();
            header.row(fields.map(|field| {
                (field.quoted || !field.text.is_empty()).then(|| field.text.into_owned())
            }))
        }
        (Format::Text, Some(header)) => header.row(text::fields(text)?.into_iter()),
        _ => table.of_document(text),
    }?;
    if row.1.iter().flatten().any(|field| field.contains('\0')) {
        return Err("it has a NUL, which no text of the server holds".to_owned());
    }
    Ok(row)
}
