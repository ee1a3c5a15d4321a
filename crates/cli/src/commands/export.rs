//! `walwright runs export`: a record as JSON, or one of its series as CSV.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};
use walwright_record::{
    LatencyHistogram, LoadInterval, Record, Sample, Source, SparseHistogram, UnderWay,
};
use walwright_report::csv_field;
use walwright_store::Lab;

use crate::args::ExportArgs;
use crate::commands::named;
use crate::commands::write::write_told;
use crate::output::{Output, json_text, print};

/// Name of the driver's own series.
const LOAD: &str = "load";

/// Exports a run.
pub fn write(lab: &Lab, args: &ExportArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let record = named::load(lab, &args.run)?;
    if args.list {
        let names = series_names(&record);
        output.result(&names, || names.iter().map(|n| format!("{n}\n")).collect())?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = match args.series.as_deref() {
        None => json_text(&whole(&record))?,
        Some(LOAD) if output.json => json_text(&intervals(&record))?,
        Some(LOAD) => load_csv(&record.intervals),
        Some(name) => match Source::from_name(name) {
            Some(source) if !record.samples(source).is_empty() => {
                let samples = record.samples(source);
                if output.json { json_text(samples)? } else { samples_csv(samples) }
            }
            _ => bail!(
                "run {} has no series '{name}'; it has {}",
                record.header.id,
                series_names(&record).join(", ")
            ),
        },
    };
    match &args.output {
        Some(path) => write_told(path, &text, output)?,
        None => print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn series_names(record: &Record) -> Vec<&'static str> {
    let load = (!record.intervals.is_empty()).then_some(LOAD);
    let sources = record.samples.iter().filter(|(_, s)| !s.is_empty()).map(|(s, _)| s.name());
    load.into_iter().chain(sources).collect()
}

/// The whole record. Histograms are given as (seconds, count) pairs.
fn whole(record: &Record) -> Value {
    let samples: serde_json::Map<String, Value> =
        record.samples.iter().map(|(source, s)| (source.name().to_owned(), json!(s))).collect();
    let statements: Vec<Vec<Value>> = record
        .statement_latency
        .iter()
        .map(|script| script.iter().map(|h| pairs(&SparseHistogram::from(h))).collect())
        .collect();
    json!({
        "format": "walwright-run-2",
        "run": record.header,
        "target": record.target,
        "settings": record.settings,
        "schema": record.schema,
        "schema_end": record.schema_end,
        "host": record.host,
        "workload": record.workload,
        "load": record.load,
        "client": record.client,
        "instrument": record.instrument,
        "storage": record.storage,
        "storage_measured": record.storage_measured,
        "cpu": record.cpu,
        "side_measures": record.side_measures,
        "phases": record.phases,
        "events": record.events,
        "warnings": record.warnings,
        "summary": walwright_figures::summary(record),
        "intervals": intervals(record),
        "under_way": record.under_way.as_ref().map(under_way),
        "statement_latency": statements,
        "samples": samples,
    })
}

/// The driver's own series.
fn intervals(record: &Record) -> Vec<Value> {
    record
        .intervals
        .iter()
        .map(|interval| {
            let latency: Vec<Value> = interval.scripts.iter().map(|s| pairs(&s.latency)).collect();
            json!({ "interval": interval, "latency": latency, "lag": pairs(&interval.lag) })
        })
        .collect()
}

/// What was under way when the measured window ended.
fn under_way(of: &UnderWay) -> Value {
    let scripts: Vec<Value> = of
        .scripts
        .iter()
        .map(|script| {
            json!({
                "ended": pairs(&script.ended),
                "unended": pairs(&script.unended),
                "failures": script.failures,
            })
        })
        .collect();
    json!({ "scripts": scripts, "lag": pairs(&of.lag), "not_begun": pairs(&of.not_begun) })
}

fn pairs(histogram: &SparseHistogram) -> Value {
    let mut dense = LatencyHistogram::new();
    histogram.add_to(&mut dense);
    dense.buckets().map(|(at, count)| json!([at.as_secs_f64(), count])).collect()
}

/// One line an interval and script; latencies in milliseconds.
fn load_csv(intervals: &[LoadInterval]) -> String {
    let mut csv = String::from(
        "time_us,seconds,script,transactions,failures,retries,clients,mean_ms,p50_ms,p95_ms,p99_ms,max_ms,due,skipped,late,lag_p99_ms,driver_cpu_ms\n",
    );
    let ms = |d: Option<std::time::Duration>| {
        d.map_or_else(String::new, |d| format!("{:.4}", d.as_secs_f64() * 1e3))
    };
    for interval in intervals {
        for (number, script) in interval.scripts.iter().enumerate() {
            let latency = &script.latency;
            let _ = writeln!(
                csv,
                "{},{:.6},{number},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.3}",
                interval.start.0,
                interval.length.as_secs_f64(),
                script.transactions,
                script.failures.values().sum::<u64>(),
                script.retries.values().sum::<u64>(),
                interval.clients,
                ms(latency.mean()),
                ms(latency.percentile(50.0)),
                ms(latency.percentile(95.0)),
                ms(latency.percentile(99.0)),
                ms(latency.max()),
                interval.due,
                interval.skipped,
                interval.late,
                ms(interval.lag.percentile(99.0)),
                interval.driver_cpu.as_secs_f64() * 1e3,
            );
        }
    }
    csv
}

/// One line a row, all columns that any row has; what is unknown is empty.
fn samples_csv(samples: &[Sample]) -> String {
    let columns: BTreeSet<&str> = samples
        .iter()
        .flat_map(|s| &s.rows)
        .flat_map(|row| row.0.keys().map(|name| &**name))
        .collect();
    let mut csv = String::from("time_us");
    for column in &columns {
        csv.push(',');
        csv.push_str(&csv_field(column));
    }
    csv.push('\n');
    for sample in samples {
        for row in &sample.rows {
            csv.push_str(&sample.at.0.to_string());
            for column in &columns {
                csv.push(',');
                if let Some(value) = row.0.get(*column) {
                    csv.push_str(&csv_field(&value.to_string()));
                }
            }
            csv.push('\n');
        }
    }
    csv
}

#[cfg(test)]
mod tests {
    use walwright_record::{Row, Scalar, Timestamp};

    use super::*;

    #[test]
    fn csv_quotes_and_keeps_unknown_apart_from_zero() {
        let mut first = Row::new();
        first.set("calls", 0_i64).set("query", "SELECT \"a\", 'b'");
        let mut second = Row::new();
        second.set("calls", Scalar::Null);
        let sample =
            Sample { at: Timestamp(7), source: Source::Statements, rows: vec![first, second] };
        assert_eq!(
            samples_csv(&[sample]),
            "time_us,calls,query\n7,0,\"SELECT \"\"a\"\", 'b'\"\n7,,\n"
        );
    }
}
