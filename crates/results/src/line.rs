//! Rows of a file with their numbers.

use std::io::{BufRead, Read};

use crate::{Format, ResultsError};

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
        if from.read_until(b'\n', &mut raw).map_err(|error| source.io(error))? == 0 {
            return Ok(false);
        }
        number += 1;
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
    reader: csv::Reader<R>,
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
        let mut reader =
            csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(from);
        let mut row = csv::ByteRecord::new();
        if !reader.read_byte_record(&mut row).map_err(|error| problem(source, &error))? {
            return Err(ResultsError::Empty { file: source.file.to_owned() });
        }
        let header = row
            .iter()
            .map(|name| {
                let name = String::from_utf8_lossy(name);
                name.trim_start_matches('\u{feff}').trim().to_ascii_lowercase()
            })
            .collect();
        Ok(Table { source, reader, header, row })
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
            match self.reader.read_byte_record(&mut self.row) {
                Ok(false) => return Ok(None),
                // An empty line.
                Ok(true) if self.row.iter().all(<[u8]>::is_empty) => {}
                Ok(true) => break,
                Err(error) => return Err(problem(self.source, &error)),
            }
        }
        let line = self.row.position().map_or(0, csv::Position::line);
        Ok(Some(Fields { row: &self.row, line, width: self.header.len() }))
    }
}

fn problem(source: Source<'_>, error: &csv::Error) -> ResultsError {
    match error.position() {
        Some(position) => source.line(position.line(), error.to_string()),
        None => source.whole(error.to_string()),
    }
}
