//! The formats that rows come in.

use std::path::Path;

/// A format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON objects, one a line.
    Ndjson,
    /// Comma-separated values (RFC 4180) under a header row. An empty field is NULL, a quoted
    /// empty field an empty text, as `COPY … (FORMAT csv)` has it.
    Csv,
    /// The text format of COPY: fields between tabs, `\N` for NULL, backslash escapes.
    Text,
}

impl Format {
    /// What a file's name says.
    #[must_use]
    pub fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "ndjson" | "jsonl" | "json" => Some(Self::Ndjson),
            "csv" => Some(Self::Csv),
            "txt" | "copy" | "tsv" => Some(Self::Text),
            _ => None,
        }
    }
}
