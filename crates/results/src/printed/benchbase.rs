//! What BenchBase prints at its end: `Results(state=EXIT, nanoSeconds=…,
//! measuredRequests=…) = … requests/sec (throughput), … requests/sec (goodput)`
//! (Results.java); OLTP-Bench, before it, without state and goodput.

use std::time::Duration;

use walwright_record::{ClientUnit, OperationTotals, Timestamp};

use super::told::Told;
use super::{Tool, whole};

#[derive(Debug, Default)]
pub(super) struct Benchbase {
    result: Option<Told>,
}

impl Tool for Benchbase {
    fn line(&mut self, line: &str, _: Option<Timestamp>) {
        if let Some((_, result)) = line.split_once("Results(") {
            self.result = read(result).or(self.result.take());
        }
    }

    fn told(&self) -> Option<Told> {
        self.result.clone()
    }
}

fn read(result: &str) -> Option<Told> {
    let after = |name: &str| {
        let (_, rest) = result.split_once(name)?;
        whole(rest.split([',', ')']).next())
    };
    let (nanos, requests) = (after("nanoSeconds=")?, after("measuredRequests=")?);
    let seconds = Duration::from_nanos(nanos).as_secs_f64();
    if seconds <= 0.0 {
        return None;
    }
    // The rate stands before its name.
    let good = result.strip_suffix(" requests/sec (goodput)").and_then(|before| {
        before.rsplit(' ').next()?.parse::<f64>().ok().filter(|rate| (0.0..1e12).contains(rate))
    });
    let mut told = Told::of(ClientUnit::Transaction);
    told.succeeded = good.map(|rate| (rate * seconds).round() as u64);
    told.totals.push(OperationTotals {
        name: "transactions".to_owned(),
        count: Some(requests),
        throughput: Some(requests as f64 / seconds),
        ..OperationTotals::default()
    });
    told.notes.push(
        "its totals are of BenchBase's whole measured time; its .raw.csv tells every transaction"
            .to_owned(),
    );
    Some(told)
}
