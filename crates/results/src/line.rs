//! Rows of a file with their numbers.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use serde_json::Value;

use crate::{Format, ResultsError};

/// Bytes of the longest line or row: no tool writes one as long.
const LONGEST: u64 = 1 << 20;
/// Bytes of the largest summary in JSON.
pub(crate) const LARGEST: u64 = 2 << 20;

/// No load test counts further.
const MOST: f64 = 1e15;

/// What is being read, for errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a str,
    pub(crate) format: Format,
}

impl Source<'_> {
    /// A line that does not fit.
    pub(crate) fn line(&self, line: u64, problem: impl Into<String>) -> ResultsError {
        ResultsError::Line {
            file: self.file.to_owned(),
            line,
            problem: problem.into(),
            format: self.format,
        }
    }

    /// A file that does not fit.
    pub(crate) fn whole(&self, problem: impl Into<String>) -> ResultsError {
        ResultsError::Whole {
            file: self.file.to_owned(),
            problem: problem.into(),
            format: self.format,
        }
    }

    pub(crate) fn io(&self, source: std::io::Error) -> ResultsError {
        ResultsError::Io { file: self.file.to_owned(), source }
    }
}

/// What is wrong with a line of [`LONGEST`] bytes.
const TOO_LONG: &str = "the line is longer than 1 MiB, which no line of such a file is";

/// A whole file of JSON.
pub(crate) fn json(source: Source<'_>, from: impl Read) -> Result<Value, ResultsError> {
    let mut text = Vec::new();
    from.take(LARGEST + 1).read_to_end(&mut text).map_err(|error| source.io(error))?;
    if text.len() as u64 > LARGEST {
        return Err(source.whole("it is larger than 2 MiB, which no summary is"));
    }
    serde_json::from_slice(&text).map_err(|error| source.whole(format!("it is no JSON: {error}")))
}

/// Bytes that a row may still take before it is too long; a quoted field may go over many
/// lines.
struct Measured<R> {
    from: R,
    row: Rc<Cell<u64>>,
}

impl<R: Read> Read for Measured<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.row.get() > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, TOO_LONG));
        }
        let read = self.from.read(into)?;
        self.row.set(self.row.get() + read as u64);
        Ok(read)
    }
}

/// Gives `take` each line that is not blank, with its number from 1. True when the last line
/// has no end and was left out: a number cut through is a number still.
pub(crate) fn whole_lines(
    source: Source<'_>,
    mut from: impl BufRead,
    mut take: impl FnMut(u64, &str) -> Result<(), ResultsError>,
) -> Result<bool, ResultsError> {
    let (mut raw, mut number) = (Vec::new(), 0);
    loop {
        raw.clear();
        let mut line = from.by_ref().take(LONGEST);
        if line.read_until(b'\n', &mut raw).map_err(|error| source.io(error))? == 0 {
            return Ok(false);
        }
        number += 1;
        if raw.len() as u64 == LONGEST {
            return Err(source.line(number, TOO_LONG));
        }
        let text = String::from_utf8_lossy(&raw);
        if text.trim().is_empty() {
            continue;
        }
        if !raw.ends_with(b"\n") {
            return Ok(true);
        }
        take(number, &text)?;
    }
}

/// A CSV file with a header, row by row.
pub(crate) struct Table<'a, R> {
    source: Source<'a>,
    reader: csv::Reader<Measured<R>>,
    /// Bytes read since the last row began.
    read: Rc<Cell<u64>>,
    header: Vec<String>,
    row: csv::ByteRecord,
}

/// One row of a table.
pub(crate) struct Fields<'t> {
    row: &'t csv::ByteRecord,
    /// Its line in the file, from 1.
    pub(crate) line: u64,
    width: usize,
}

impl Fields<'_> {
    /// The text in a column; empty where the row is short.
    pub(crate) fn text(&self, column: usize) -> String {
        String::from_utf8_lossy(self.row.get(column).unwrap_or_default()).trim().to_owned()
    }

    /// The number in a column; `None` where there is none.
    pub(crate) fn number(&self, column: usize) -> Option<f64> {
        let field = std::str::from_utf8(self.row.get(column)?).ok()?;
        field.trim().parse::<f64>().ok().filter(|number| number.is_finite())
    }

    /// A count in a column.
    pub(crate) fn count(&self, column: usize) -> Option<u64> {
        let number = self.number(column)?;
        (0.0..MOST).contains(&number).then(|| number.round() as u64)
    }

    /// Whether the row has as many fields as the header: the last one of a file that
    /// was cut off has not.
    pub(crate) fn is_whole(&self) -> bool {
        self.row.len() >= self.width
    }
}

impl<'a, R: Read> Table<'a, R> {
    pub(crate) fn open(source: Source<'a>, from: R) -> Result<Self, ResultsError> {
        let read = Rc::new(Cell::new(0));
        let from = Measured { from, row: Rc::clone(&read) };
        let mut reader =
            csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(from);
        let mut row = csv::ByteRecord::new();
        if !reader.read_byte_record(&mut row).map_err(|error| problem(source, &error, 1))? {
            return Err(ResultsError::Empty { file: source.file.to_owned() });
        }
        let header = row
            .iter()
            .map(|name| {
                let name = String::from_utf8_lossy(name);
                name.trim_start_matches('\u{feff}').trim().to_ascii_lowercase()
            })
            .collect();
        Ok(Table { source, reader, read, header, row })
    }

    /// The names of the columns in lower case.
    pub(crate) fn header(&self) -> &[String] {
        &self.header
    }

    /// The place of the first of these columns that is there.
    pub(crate) fn find(&self, names: &[&str]) -> Option<usize> {
        names.iter().find_map(|name| self.header.iter().position(|column| column == name))
    }

    /// The place of a column that must be there.
    pub(crate) fn column(&self, name: &str) -> Result<usize, ResultsError> {
        self.find(&[name])
            .ok_or_else(|| self.source.line(1, format!("the header has no column '{name}'")))
    }

    /// The next row.
    pub(crate) fn next(&mut self) -> Result<Option<Fields<'_>>, ResultsError> {
        loop {
            self.read.set(0);
            match self.reader.read_byte_record(&mut self.row) {
                Ok(false) => return Ok(None),
                // An empty line.
                Ok(true) if self.row.iter().all(<[u8]>::is_empty) => {}
                Ok(true) => break,
                Err(error) => {
                    let line = self.reader.position().line();
                    return Err(problem(self.source, &error, line));
                }
            }
        }
        let line = self.row.position().map_or(0, csv::Position::line);
        Ok(Some(Fields { row: &self.row, line, width: self.header.len() }))
    }

    /// Gives `take` each row that is whole; it tells whether the row is as expected. Only the
    /// last row may not be, as that of a file that was cut off: what is wrong with it comes back.
    pub(crate) fn whole_rows(
        &mut self,
        expected: &str,
        mut take: impl FnMut(&Fields<'_>) -> Result<bool, ResultsError>,
    ) -> Result<Option<ResultsError>, ResultsError> {
        let source = self.source;
        let mut cut_off = None;
        while let Some(fields) = self.next()? {
            if let Some(error) = cut_off.take() {
                return Err(error);
            }
            if !(fields.is_whole() && take(&fields)?) {
                // Kept until it is known whether another row follows.
                cut_off = Some(source.line(fields.line, expected));
            }
        }
        Ok(cut_off)
    }
}

fn problem(source: Source<'_>, error: &csv::Error, line: u64) -> ResultsError {
    let line = error.position().map_or(line, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::Io(error) if error.kind() != io::ErrorKind::InvalidData => {
            source.whole(error.to_string())
        }
        csv::ErrorKind::Io(error) => source.line(line, error.to_string()),
        _ => source.line(line, error.to_string()),
    }
}
