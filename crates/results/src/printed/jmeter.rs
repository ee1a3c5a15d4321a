//! What JMeter prints without its window (the summariser): `summary =  10120 in 00:00:13 =
//! 781.2/s Avg:     7 Min:     2 Max:    59 Err:     0 (0.00%)`, times in milliseconds. Lines
//! with `+` tell what came since the last.

use walwright_record::{ClientUnit, OperationTotals, Timestamp};

use super::told::Told;
use super::{Tool, milliseconds, whole};

#[derive(Debug, Default)]
pub(super) struct Jmeter {
    totals: Option<OperationTotals>,
}

impl Tool for Jmeter {
    fn line(&mut self, line: &str, _: Option<Timestamp>) {
        // The summariser may have another name, and a log a moment before it.
        if let Some((_, sum)) = line.split_once(" = ")
            && sum.contains(" Err:")
        {
            self.totals = totals(sum).or(self.totals.take());
        }
    }

    fn told(&self) -> Option<Told> {
        let note = "it holds totals of JMeter's whole test, failed samples in its times: no percentile \
             can be known from it; -l FILE tells every sample";
        Some(Told::of_whole(ClientUnit::Request, self.totals.clone()?, note))
    }
}

/// What follows `summary = `.
fn totals(sum: &str) -> Option<OperationTotals> {
    let words: Vec<&str> = sum.split_ascii_whitespace().collect();
    let after = |name: &str| {
        let place = words.iter().position(|word| *word == name)?;
        words.get(place + 1).copied()
    };
    let rate = words.iter().find_map(|word| word.strip_suffix("/s")?.parse::<f64>().ok());
    words.get(1).filter(|word| **word == "in")?;
    Some(OperationTotals {
        name: "samples".to_owned(),
        count: Some(whole(words.first().copied())?),
        failed: whole(after("Err:")),
        throughput: rate.filter(|rate| rate.is_finite() && *rate >= 0.0),
        mean: milliseconds(after("Avg:")),
        min: milliseconds(after("Min:")),
        max: milliseconds(after("Max:")),
        percentiles: Vec::new(),
        ..OperationTotals::default()
    })
}
