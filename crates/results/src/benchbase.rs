//! BenchBase's files (util/ResultWriter.java).
//!
//! `.summary.json`: totals of the whole measured time, latencies in microseconds.
//! `.raw.csv`: a line for each transaction, whose start is in seconds since 1970 (whatever
//! its header says), the latency in microseconds. `.results.csv` and `.samples.csv`: rates and
//! latencies of some seconds each, counted from a start that they do not tell.

use std::io::Read;
use std::time::Duration;

use serde_json::Value;
use walwright_record::{ClientDetail, ClientUnit, OperationTotals};

use crate::collect::{Collector, Operation, Outcome};
use crate::line::{Source, Table, json};
use crate::moment::moment;
use crate::results::{empty_log, of_rows};
use crate::{Results, ResultsError};

const UNIT: ClientUnit = ClientUnit::Transaction;

/// Reads `.summary.json`.
pub(crate) fn summary(source: Source<'_>, from: impl Read) -> Result<Results, ResultsError> {
    let body = json(source, from)?;
    let number = |name: &str| body.get(name).and_then(Value::as_f64).filter(|n| *n >= 0.0);
    let Some(latency) = body.get("Latency Distribution").and_then(Value::as_object) else {
        return Err(source.whole("it has no 'Latency Distribution'"));
    };
    let micros = |name: &str| {
        let micros = latency.get(&format!("{name} Latency (microseconds)"))?.as_f64()?;
        // An empty test has -1.
        Duration::try_from_secs_f64(micros / 1e6).ok()
    };
    let percentiles = [
        ("25th Percentile", 25.0),
        ("Median", 50.0),
        ("75th Percentile", 75.0),
        ("90th Percentile", 90.0),
        ("95th Percentile", 95.0),
        ("99th Percentile", 99.0),
    ];
    let seconds = number("Elapsed Time (nanoseconds)").map(|nanos| nanos / 1e9);
    let count = number("Measured Requests").filter(|n| *n < 1e15).map(|n| n as u64);
    let mut log = empty_log(source, ClientDetail::Totals);
    let good = number("Goodput (requests/second)").zip(seconds).map(|(rate, s)| rate * s);
    log.succeeded = good.filter(|n| *n < 1e15).map(|n| n.round() as u64);
    // The clock began before the warm-up, so neither moment is known well.
    log.totals.push(OperationTotals {
        name: "transactions".to_owned(),
        count,
        failed: None,
        mean: micros("Average"),
        min: micros("Minimum"),
        max: micros("Maximum"),
        percentiles: percentiles
            .into_iter()
            .filter_map(|(name, percent)| Some((percent, micros(name)?)))
            .collect(),
        throughput: number("Throughput (requests/second)"),
        ..OperationTotals::default()
    });
    log.notes.push(format!("it holds {WHOLE}"));
    Ok(Results { log, unit: UNIT, operations: Vec::new(), intervals: Vec::new() })
}

/// What is said of totals.
const WHOLE: &str =
    "totals of BenchBase's whole measured time; its .raw.csv tells every transaction";

/// Reads `.raw.csv`.
pub(crate) fn raw(source: Source<'_>, from: impl Read) -> Result<Results, ResultsError> {
    let mut table = Table::open(source, from)?;
    let (name, began) =
        (table.column("transaction name")?, table.column("start time (microseconds)")?);
    let latency = table.column("latency (microseconds)")?;
    let mut collector = Collector::default();
    let expected = "expected a start in seconds since 1970 and a latency in microseconds";
    let cut_off = table.whole_rows(expected, |fields| {
        let micros = fields.number(latency).map(|micros| micros / 1e6);
        let micros = micros.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let Some((mut ended, latency)) = moment(&fields.text(began)).zip(micros) else {
            return Ok(false);
        };
        ended.at = ended.at.plus(latency);
        let operation = Operation {
            name: &fields.text(name),
            ended,
            latency,
            outcome: Outcome::Good,
            lag: None,
            retries: 0,
        };
        collector.add(operation).map_err(|problem| source.line(fields.line, problem))?;
        Ok(true)
    })?;
    let mut results = of_rows(source, UNIT, collector.finish(1.0, None), cut_off)?;
    results
        .log
        .notes
        .push("BenchBase writes transactions that it rolled back like the others".to_owned());
    Ok(results)
}

/// Reads `.results.csv` and `.samples.csv`, which add up to totals.
pub(crate) fn results(source: Source<'_>, from: impl Read) -> Result<Results, ResultsError> {
    let mut table = Table::open(source, from)?;
    let time = table.column("time (seconds)")?;
    let rate = table.column("throughput (requests/second)")?;
    let find = |name: &str| {
        [("millisecond", 1e-3), ("microseconds", 1e-6)].into_iter().find_map(|(unit, seconds)| {
            Some((table.find(&[&format!("{name} latency ({unit})")])?, seconds))
        })
    };
    let (mean, min, max) = (find("average"), find("minimum"), find("maximum"));
    let mut rows: Vec<Row> = Vec::new();
    let cut_off = table.whole_rows("expected seconds and a rate, both numbers", |fields| {
        let seconds = |column: Option<(usize, f64)>| {
            let (column, unit) = column?;
            Some(fields.number(column)? * unit).filter(|seconds| *seconds >= 0.0)
        };
        let counted = fields.number(time).zip(fields.number(rate));
        let Some((time, rate)) = counted.filter(|(t, r)| *t >= 0.0 && (0.0..1e12).contains(r))
        else {
            return Ok(false);
        };
        if rows.len() > crate::collect::MOST_SECONDS {
            return Err(source.line(fields.line, crate::collect::TOO_MANY_SECONDS));
        }
        rows.push(Row { time, rate, mean: seconds(mean), min: seconds(min), max: seconds(max) });
        Ok(true)
    })?;
    // All are as long as the first, whose end is the second's begin.
    let [first, second, ..] = &rows[..] else {
        return Err(cut_off.unwrap_or_else(|| {
            source.whole("it holds fewer than two rows, so how long one lasts is not known")
        }));
    };
    let length = second.time - first.time;
    let counts = || rows.iter().map(|row| row.rate * length);
    let count: f64 = counts().sum();
    let timed =
        || rows.iter().zip(counts()).filter(|(row, count)| row.mean.is_some() && *count > 0.0);
    let sum: f64 = timed().filter_map(|(row, count)| Some(row.mean? * count)).sum();
    let over: f64 = timed().map(|(_, count)| count).sum();
    let span = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
    let most = |times: &mut dyn Iterator<Item = f64>| times.max_by(f64::total_cmp).and_then(span);
    let least = |times: &mut dyn Iterator<Item = f64>| times.min_by(f64::total_cmp).and_then(span);
    let all = length * rows.len() as f64;
    let mut log = empty_log(source, ClientDetail::Totals);
    log.totals.push(OperationTotals {
        name: "transactions".to_owned(),
        count: (0.0..1e15).contains(&count).then(|| count.round() as u64),
        mean: span(sum / over),
        min: least(&mut timed().filter_map(|(row, _)| row.min)),
        max: most(&mut timed().filter_map(|(row, _)| row.max)),
        throughput: Some(count / all).filter(|rate| rate.is_finite() && *rate >= 0.0),
        ..OperationTotals::default()
    });
    log.notes.push(format!("its times have no begin, so they are summed: {WHOLE}"));
    Ok(Results { log, unit: UNIT, operations: Vec::new(), intervals: Vec::new() })
}

struct Row {
    time: f64,
    rate: f64,
    /// In seconds.
    mean: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
}

#[cfg(test)]
mod tests {
    use walwright_record::Timestamp;

    use super::*;
    use crate::read;

    fn log(text: &str) -> walwright_record::ClientLog {
        read("tpcc", None, text.as_bytes()).unwrap().log
    }

    /// BenchBase 2023, TPC-C with one warehouse.
    const SUMMARY: &str = r#"{
 "Start timestamp (milliseconds)": 1731548786702,
 "Current Timestamp (milliseconds)": 1731548847872,
 "Elapsed Time (nanoseconds)": 60000083167,
 "DBMS Type": "AURORADSQL",
 "DBMS Version": null,
 "Benchmark Type": "tpcc",
 "Final State": "EXIT",
 "Measured Requests": 201,
 "isolation": null,
 "scalefactor": "1",
 "terminals": "4",
 "Latency Distribution": {
  "95th Percentile Latency (microseconds)": 2176054,
  "Maximum Latency (microseconds)": 8337726,
  "Median Latency (microseconds)": 1066925,
  "Minimum Latency (microseconds)": 218524,
  "25th Percentile Latency (microseconds)": 456543,
  "90th Percentile Latency (microseconds)": 2085734,
  "99th Percentile Latency (microseconds)": 3827992,
  "75th Percentile Latency (microseconds)": 1747994,
  "Average Latency (microseconds)": 1185045
 },
 "Throughput (requests/second)": 3.349995356515603,
 "Goodput (requests/second)": 3.2999954258213404
}"#;

    #[test]
    fn a_summary_is_read() {
        let log = log(SUMMARY);
        assert_eq!((log.format.as_str(), log.succeeded), ("BenchBase summary", Some(198)));
        let totals = &log.totals[0];
        assert_eq!(
            (totals.count, totals.mean),
            (Some(201), Some(Duration::from_micros(1_185_045)))
        );
        assert_eq!(totals.percentiles[5], (99.0, Duration::from_micros(3_827_992)));
        assert!((totals.throughput.unwrap() - 3.35).abs() < 1e-3);
    }

    #[test]
    fn raw_lines_lie_on_the_clock() {
        let text = "Transaction Type Index,Transaction Name,Start Time (microseconds),Latency (microseconds),Worker Id (start number),Phase Id (index in config file)\n\
                    4,DeleteEmployee,1722222636.414196,6786,0,1\n\
                    3,UpdateEmployee,1722222636.421013,1045,0,1\n\
                    1,InsertPosition,1722222636.422064,1402,0,1\n4,Del";
        let results = read("x.raw.csv", None, text.as_bytes()).unwrap();
        assert_eq!(results.log.format, "BenchBase raw CSV");
        assert_eq!(results.log.succeeded, Some(3));
        assert_eq!(results.log.first, Some(Timestamp(1_722_222_636_414_196)));
        assert_eq!(results.operations, ["DeleteEmployee", "UpdateEmployee", "InsertPosition"]);
    }

    #[test]
    fn windows_without_a_begin_are_summed() {
        let text = "Time (seconds),Requests,Throughput (requests/second),Minimum Latency (microseconds),25th Percentile Latency (microseconds),Median Latency (microseconds),Average Latency (microseconds),75th Percentile Latency (microseconds),90th Percentile Latency (microseconds),95th Percentile Latency (microseconds),99th Percentile Latency (microseconds),Maximum Latency (microseconds)\n\
                    0,1780,1780.000,153,6225,6402,5613,6576,6756,7137,9928,12692\n\
                    1,1794,1794.000,132,6360,6592,5582,6690,6835,6870,8501,9909\n";
        let totals = &log(text).totals[0];
        assert_eq!((totals.count, totals.throughput), (Some(3_574), Some(1_787.0)));
        assert_eq!(totals.min, Some(Duration::from_micros(132)));
        assert_eq!(totals.mean.map(|mean| mean.as_micros()), Some(5_597));
        let one = text.lines().take(2).collect::<Vec<_>>().join("\n") + "\n";
        let error = read("x", None, one.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("fewer than two rows"), "{error}");
    }
}
