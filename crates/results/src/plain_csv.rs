//! CSV of operations, for tools whose own format is not known here.
//!
//! The header names the columns, in any order and case; others are passed over:
//! `time` (or `timestamp`, `end`: when the operation ended; `start`: when it began),
//! `operation` (or `name`, `op`; may be missing), `latency_us`, `latency_ms` or
//! `latency_s` (also `duration_…`, `elapsed_…`), and `status` (or `result`, `error`;
//! may be missing). A status that is empty, `ok`, `success`, `true`, `pass`, `00000`
//! or an HTTP status from 100 to 399 is a success; any other is a failure of that
//! kind.

use std::io::Read;
use std::time::Duration;

use walwright_record::ClientUnit;

use crate::collect::{Collector, Operation, Outcome};
use crate::line::{Source, Table};
use crate::moment::moment;
use crate::results::of_rows;
use crate::{Results, ResultsError};

pub(crate) const ENDED: [&str; 4] = ["time", "timestamp", "end", "end_time"];
pub(crate) const BEGAN: [&str; 2] = ["start", "start_time"];
const NAMES: [&str; 4] = ["operation", "name", "op", "label"];
const STATUS: [&str; 3] = ["status", "result", "error"];
pub(crate) const LATENCY: [&str; 3] = ["latency", "duration", "elapsed"];
/// Endings of the latency's column and seconds in their unit.
const UNITS: [(&str, f64); 4] = [("_us", 1e-6), ("_ms", 1e-3), ("_s", 1.0), ("_ns", 1e-9)];

pub(crate) fn read(source: Source<'_>, from: impl Read) -> Result<Results, ResultsError> {
    let mut table = Table::open(source, from)?;
    let ended = table.find(&ENDED);
    let Some(time) = ended.or_else(|| table.find(&BEGAN)) else {
        return Err(source.line(
            1,
            "the header names no column 'time' (when an operation ended) or 'start' (when it began)",
        ));
    };
    let (latency, unit) = latency_column(&table, source)?;
    let name = table.find(&NAMES);
    let status = table.find(&STATUS);
    let mut collector = Collector::default();
    let expected = "expected a time (seconds, milliseconds or microseconds since 1970, or RFC 3339) and a latency that is a number of at least 0";
    let cut_off = table.whole_rows(expected, |fields| {
        let parsed = moment(&fields.text(time))
            .zip(fields.number(latency))
            .and_then(|(at, n)| Some((at, Duration::try_from_secs_f64(n * unit).ok()?)));
        let Some((mut at, latency)) = parsed else { return Ok(false) };
        if ended.is_none() {
            at.at = at.at.plus(latency);
        }
        let name = name.map(|name| fields.text(name)).filter(|name| !name.is_empty());
        let status = status.map(|status| fields.text(status)).unwrap_or_default();
        let kind = kind(&status);
        let operation = Operation {
            name: name.as_deref().unwrap_or("operation"),
            ended: at,
            latency,
            outcome: if is_success(&status) { Outcome::Good } else { Outcome::Failed(&kind) },
            lag: None,
            retries: 0,
        };
        collector.add(operation).map_err(|problem| source.line(fields.line, problem))?;
        Ok(true)
    })?;
    of_rows(source, ClientUnit::Request, collector.finish(1.0, None), cut_off)
}

fn latency_column<R: Read>(
    table: &Table<'_, R>,
    source: Source<'_>,
) -> Result<(usize, f64), ResultsError> {
    for (ending, unit) in UNITS {
        for name in LATENCY {
            if let Some(column) = table.find(&[&format!("{name}{ending}")]) {
                return Ok((column, unit));
            }
        }
    }
    Err(match table.find(&LATENCY) {
        Some(column) => source.line(
            1,
            format!(
                "the column '{}' does not say its unit: call it latency_us, latency_ms or latency_s",
                table.header()[column]
            ),
        ),
        None => source.line(1, "the header names no column latency_us, latency_ms or latency_s"),
    })
}

/// Whether an operation with this status ended well.
pub(crate) fn is_success(status: &str) -> bool {
    let word = status.to_ascii_lowercase();
    matches!(word.as_str(), "" | "ok" | "success" | "true" | "pass" | "00000")
        || word.parse::<u32>().is_ok_and(|http| (100..400).contains(&http))
}

/// How a failure is called.
pub(crate) fn kind(status: &str) -> String {
    match status.parse::<u32>() {
        // Five digits are an SQLSTATE.
        Ok(http) if (400..600).contains(&http) && status.len() == 3 => format!("HTTP {http}"),
        _ => status.chars().filter(|c| !c.is_control()).take(100).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    fn results(text: &str) -> Result<Results, ResultsError> {
        read(Source { file: "ops.csv", format: Format::Csv }, text.as_bytes())
    }

    #[test]
    fn columns_are_found_by_name() {
        let csv = "Status,Latency_ms,Operation,Time,extra\n\
                   200,4.5,\"a, b\",1795132800.5,x\n500,90,c,1795132800.75,x\n\
                   ok,5.5,\"a, b\",1795132801500,x\n";
        let results = results(csv).unwrap();
        assert_eq!(results.operations, ["a, b", "c"]);
        assert_eq!(results.log.succeeded, Some(2));
        assert_eq!(results.log.failures["HTTP 500"], 1);
        let mean = results.intervals[0].scripts[0].latency.mean().unwrap();
        assert!((mean.as_secs_f64() - 0.0045).abs() < 1e-5);
    }

    #[test]
    fn an_operation_counts_where_it_ends() {
        let results = results("start,latency_s\n1795132800.5,0.8\n").unwrap();
        assert_eq!(results.log.last.unwrap().0, 1_795_132_801_300_000);
    }

    #[test]
    fn a_latency_without_a_unit_is_refused() {
        let error = results("time,operation,latency,status\n").unwrap_err().to_string();
        assert!(error.contains("ops.csv:1") && error.contains("latency_ms"), "{error}");
    }

    #[test]
    fn a_bad_line_is_an_error_and_a_bad_end_is_not() {
        let good = "time,latency_ms\n1795132800,1\n";
        let error = results(&format!("{good}soon,1\n1795132801,1\n")).unwrap_err().to_string();
        assert!(error.contains("ops.csv:3"), "{error}");
        let results = results(&format!("{good}17951")).unwrap();
        assert!(results.log.notes[0].contains("not whole"));
    }

    #[test]
    fn statuses_of_http_and_sql() {
        for status in ["", "OK", "200", "304", "00000", "true"] {
            assert!(is_success(status), "{status}");
        }
        for (status, name) in
            [("404", "HTTP 404"), ("40001", "40001"), ("0", "0"), ("timeout", "timeout")]
        {
            assert!(!is_success(status), "{status}");
            assert_eq!(kind(status), name);
        }
    }
}
