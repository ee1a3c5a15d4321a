//! Locust's `_failures.csv`: `Method,Name,Error,Occurrences`, over the whole test.

use std::io::Read;

use walwright_record::{ClientDetail, ClientUnit};

use crate::collect::count_kind;
use crate::line::{Source, Table};
use crate::results::empty_log;
use crate::{Results, ResultsError};

/// Characters of an error kept as the name of a kind.
const LONGEST: usize = 100;

pub(crate) fn read(source: Source<'_>, from: impl Read) -> Result<Results, ResultsError> {
    let mut table = Table::open(source, from)?;
    let (name, error) = (table.column("name")?, table.column("error")?);
    let occurrences = table.column("occurrences")?;
    let mut log = empty_log(source, ClientDetail::Totals);
    while let Some(fields) = table.next()? {
        let Some(count) = fields.count(occurrences) else {
            return Err(source.line(fields.line, "the number of occurrences is no number"));
        };
        let kind = kind(&fields.text(error));
        let kind = if kind.is_empty() { format!("failed: {}", fields.text(name)) } else { kind };
        count_kind(&mut log.failures, &kind, count);
    }
    Ok(Results { log, unit: ClientUnit::Request, operations: Vec::new(), intervals: Vec::new() })
}

/// The kind that an error belongs to: errors that differ in what they quote are one.
fn kind(error: &str) -> String {
    // "HTTPError('404 Client Error: Not Found for url: http://…')"
    let cut = error.split(" for url").next().unwrap_or(error);
    let status = cut.split(|c: char| !c.is_ascii_alphanumeric()).find_map(|word| {
        word.parse::<u32>().ok().filter(|n| word.len() == 3 && (400..600).contains(n))
    });
    match status {
        Some(status) if cut.starts_with("HTTPError") => format!("HTTP {status}"),
        _ => cut.chars().filter(|c| !c.is_control()).take(LONGEST).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    #[test]
    fn failures_are_counted_by_kind() {
        let text = "Method,Name,Error,Occurrences\n\
            POST,/a,HTTPError('400 Client Error: Bad Request for url: http://h/a?1'),200\n\
            POST,/b,HTTPError('400 Client Error: Bad Request for url: http://h/b'),44\n\
            GET,/c,\"ConnectionResetError(104, 'Connection reset')\",3\n";
        let source = Source { file: "x_failures.csv", format: Format::LocustFailures };
        let log = read(source, text.as_bytes()).unwrap().log;
        assert_eq!(log.failures["HTTP 400"], 244);
        assert_eq!(log.failures["ConnectionResetError(104, 'Connection reset')"], 3);
    }

    #[test]
    fn no_failures_is_a_result() {
        let source = Source { file: "x_failures.csv", format: Format::LocustFailures };
        let log = read(source, "Method,Name,Error,Occurrences\n".as_bytes()).unwrap().log;
        assert!(log.failures.is_empty());
    }
}
