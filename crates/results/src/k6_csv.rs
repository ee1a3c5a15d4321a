//! k6's CSV output: one line a measurement.
//!
//! `metric_name,timestamp,metric_value,…,error,error_code,…,expected_response,…,
//! method,name,…,status,…`. A request is its `http_req_duration` (milliseconds),
//! stamped when it ended: by default in whole seconds (`K6_CSV_TIME_FORMAT`). Where
//! there are no such lines, gRPC's and then iterations' durations are taken.

use std::collections::HashMap;
use std::io::Read;
use std::time::Duration;

use walwright_record::ClientUnit;

use crate::collect::{Collector, Operation, Outcome};
use crate::line::{Source, Table};
use crate::moment::moment;
use crate::results::of_operations;
use crate::{Results, ResultsError, plain_csv};

/// Metrics that are durations of operations, the first that occurs is taken.
const DURATIONS: [&str; 3] = ["http_req_duration", "grpc_req_duration", "iteration_duration"];

pub(crate) fn read(source: Source<'_>, from: impl Read) -> Result<Results, ResultsError> {
    let mut table = Table::open(source, from)?;
    let metric = table.column("metric_name")?;
    let (time, value) = (table.column("timestamp")?, table.column("metric_value")?);
    let (method, name) = (table.find(&["method"]), table.find(&["name"]));
    let (url, status) = (table.find(&["url"]), table.find(&["status"]));
    let (error, code) = (table.find(&["error"]), table.find(&["error_code"]));
    let expected = table.find(&["expected_response"]);
    let mut collectors: HashMap<&'static str, Collector> = HashMap::new();
    let mut broken = None;
    while let Some(fields) = table.next()? {
        if let Some(error) = broken.take() {
            return Err(error);
        }
        let line = fields.line;
        let metric = fields.text(metric);
        let Some(wanted) = DURATIONS.iter().find(|name| **name == metric) else { continue };
        let parsed = moment(&fields.text(time))
            .zip(fields.number(value).and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok()));
        let Some((ended, latency)) = parsed.filter(|_| fields.is_whole()) else {
            broken = Some(source.line(line, "expected a timestamp and a duration of at least 0"));
            continue;
        };
        let text = |column: Option<usize>| column.map(|c| fields.text(c)).unwrap_or_default();
        let (status, expected, code) = (text(status), text(expected), text(code));
        let mut called = text(name);
        if called.is_empty() {
            called = text(url);
        }
        let called = format!("{} {called}", text(method)).trim().to_owned();
        // What k6 was told to expect decides; else the status does.
        let good = match expected.as_str() {
            "true" => true,
            "false" => false,
            _ => code.is_empty() && text(error).is_empty() && plain_csv::is_success(&status),
        };
        let kind = match status.as_str() {
            "" | "0" if code.is_empty() => text(error),
            "" | "0" => format!("k6 error {code}"),
            status if plain_csv::is_success(status) => format!("unexpected HTTP {status}"),
            status => plain_csv::kind(status),
        };
        let kind = if kind.is_empty() { "failed".to_owned() } else { kind };
        let operation = Operation {
            name: if called.is_empty() { wanted } else { &called },
            ended,
            latency,
            outcome: if good { Outcome::Good } else { Outcome::Failed(&kind) },
            lag: None,
            retries: 0,
        };
        let collector = collectors.entry(wanted).or_default();
        collector.add(operation).map_err(|problem| source.line(line, problem))?;
    }
    let taken = DURATIONS.iter().find_map(|name| Some((*name, collectors.remove(name)?)));
    let Some((name, collector)) = taken else {
        return Err(match broken {
            Some(error) => error,
            None => source
                .whole("it holds no http_req_duration, grpc_req_duration or iteration_duration"),
        });
    };
    let mut results = of_operations(source, ClientUnit::Request, collector.finish(1.0, None))?;
    if name == "iteration_duration" {
        results.log.notes.push("its operations are k6's iterations, pauses included".to_owned());
    }
    if broken.is_some() {
        results.log.notes.push("its last line is cut off and was left out".to_owned());
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    const HEADER: &str = "metric_name,timestamp,metric_value,check,error,error_code,expected_response,group,method,name,proto,scenario,service,status,subproto,tls_version,url,extra_tags,metadata\n";

    fn results(rows: &str) -> Result<Results, ResultsError> {
        let source = Source { file: "k6.csv", format: Format::K6Csv };
        read(source, format!("{HEADER}{rows}").as_bytes())
    }

    fn request(time: &str, ms: f64, status: &str, expected: &str, code: &str) -> String {
        format!(
            "http_req_duration,{time},{ms},,,{code},{expected},,GET,http://h/,HTTP/1.1,default,,{status},,,http://h/,,\n"
        )
    }

    #[test]
    fn requests_are_counted_and_other_metrics_are_not() {
        let rows = [
            "vus,1795132800,10,,,,,,,,,,,,,,,,\n".to_owned(),
            "iteration_duration,1795132800,900,,,,,,,,,,,,,,,,\n".to_owned(),
            request("1795132800", 12.5, "200", "true", ""),
            request("1795132801", 13.5, "503", "false", "1503"),
            request("1795132801", 0.0, "0", "false", "1212"),
        ];
        let results = results(&rows.concat()).unwrap();
        assert_eq!(results.operations, ["GET http://h/"]);
        assert_eq!(results.log.succeeded, Some(1));
        let kinds: Vec<&str> = results.log.failures.keys().map(String::as_str).collect();
        assert_eq!(kinds, ["HTTP 503", "k6 error 1212"]);
        // Whole seconds: the last request ended somewhere in its second.
        assert_eq!(results.intervals[1].length, Duration::from_secs(1));
    }

    #[test]
    fn finer_times_are_read_too() {
        let rows = request("1795132800123456", 3.0, "200", "", "");
        let results = results(&rows).unwrap();
        assert_eq!(results.log.last.unwrap().0, 1_795_132_800_123_456);
    }

    #[test]
    fn without_requests_there_is_an_answer_why() {
        let error = results("vus,1795132800,10,,,,,,,,,,,,,,,,\n").unwrap_err().to_string();
        assert!(error.contains("http_req_duration"), "{error}");
    }
}
