//! Rows that were not written, in a file of the input's own format, and why, beside it.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use crate::error::IngestError;

/// Why a row was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// A sentence.
    pub message: String,
    /// What the server said, where it refused the row.
    pub sqlstate: Option<String>,
    /// The constraint that was violated.
    pub constraint: Option<String>,
}

/// A row that is to be kept.
#[derive(Debug)]
pub(crate) struct Reject {
    pub(crate) line: u64,
    /// As it came.
    pub(crate) raw: Vec<u8>,
    /// Whether this is the last piece of its record.
    pub(crate) ends: bool,
    pub(crate) reason: Reason,
}

impl From<String> for Reason {
    fn from(message: String) -> Self {
        Self { message, sqlstate: None, constraint: None }
    }
}

/// A file that can be ingested once its rows are mended, and one of reasons: a line of JSON for
/// each row, in the same order.
#[derive(Debug)]
pub struct Rejects {
    path: PathBuf,
    files: Mutex<Files>,
}

#[derive(Debug)]
struct Files {
    rows: File,
    reasons: File,
    /// The header that stands, or is to stand, at the beginning.
    header: Option<Vec<u8>>,
    is_empty: bool,
}

impl Rejects {
    /// Opens both files to add to them.
    ///
    /// # Errors
    /// Where one cannot be opened.
    pub fn open(path: &Path) -> Result<Self, IngestError> {
        let mut name = path.as_os_str().to_owned();
        name.push(".reasons");
        let open = |path: &Path| {
            let opened = File::options().create(true).append(true).open(path);
            opened.map_err(|error| IngestError::File { path: path.to_owned(), error })
        };
        let rows = open(path)?;
        let is_empty = rows.metadata().is_ok_and(|about| about.len() == 0);
        let files = Files { rows, reasons: open(Path::new(&name))?, header: None, is_empty };
        Ok(Self { path: path.to_owned(), files: Mutex::new(files) })
    }

    /// The header of the rows to come.
    ///
    /// # Errors
    /// Where rows of another header came before.
    pub(crate) fn set_header(&self, input: &str, header: &[u8]) -> Result<(), IngestError> {
        let mut files = self.lock();
        let is_same = match &files.header {
            Some(before) => before == header,
            None => files.is_empty || self.begins_with(header),
        };
        if !is_same {
            return Err(IngestError::Header {
                input: input.to_owned(),
                reason: format!(
                    "it is not that of {}, which holds rejects of one header only; name another",
                    self.path.display()
                ),
            });
        }
        files.header = Some(header.to_owned());
        Ok(())
    }

    /// Adds rows with their reasons, and has them on the disk.
    pub(crate) fn add(&self, input: &str, rows: &[Reject]) -> Result<(), IngestError> {
        let mut files = self.lock();
        let mut bytes = Vec::new();
        let mut reasons = Vec::new();
        if files.is_empty
            && let Some(header) = &files.header
        {
            bytes.extend_from_slice(header);
            bytes.push(b'\n');
        }
        for Reject { line, raw, ends, reason } in rows {
            bytes.extend_from_slice(raw);
            if *ends {
                bytes.push(b'\n');
                let Reason { message, sqlstate, constraint } = reason;
                let reason = json!({
                    "input": input,
                    "line": line,
                    "message": message,
                    "sqlstate": sqlstate,
                    "constraint": constraint,
                });
                reasons.extend_from_slice(reason.to_string().as_bytes());
                reasons.push(b'\n');
            }
        }
        files.is_empty = false;
        let Files { rows, reasons: why, .. } = &mut *files;
        rows.write_all(&bytes)
            .and_then(|()| why.write_all(&reasons))
            .and_then(|()| rows.sync_data())
            .and_then(|()| why.sync_data())
            .map_err(|error| IngestError::File { path: self.path.clone(), error })
    }

    /// Whether this header stands in the file, from an earlier run.
    fn begins_with(&self, header: &[u8]) -> bool {
        let mut first = vec![0; header.len() + 1];
        let read = File::open(&self.path).and_then(|mut file| file.read_exact(&mut first));
        read.is_ok() && first.strip_suffix(b"\n") == Some(header)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
