//! JMeter's CSV results (JTL; manual, "Listeners", "CSV Log format"): a line for each sample,
//! its begin in milliseconds since 1970 (`timeStamp`), `elapsed` milliseconds, `label`,
//! `responseCode`, `success`. A transaction controller has a line beside those of its parts.

use std::io::Read;
use std::time::Duration;

use walwright_record::ClientUnit;

use crate::collect::{Collector, Operation, Outcome};
use crate::line::{Source, Table};
use crate::moment::moment;
use crate::plain_csv::kind;
use crate::results::of_rows;
use crate::{Results, ResultsError};

pub(crate) fn read(source: Source<'_>, from: impl Read) -> Result<Results, ResultsError> {
    let mut table = Table::open(source, from)?;
    let (began, elapsed) = (table.column("timestamp")?, table.column("elapsed")?);
    let success = table.column("success")?;
    let (label, code) = (table.find(&["label"]), table.find(&["responsecode"]));
    let message = table.find(&["responsemessage"]);
    let mut collector = Collector::default();
    let mut controllers = false;
    let expected = "expected a timeStamp in milliseconds since 1970 and elapsed milliseconds";
    let cut_off = table.whole_rows(expected, |fields| {
        let millis = fields.number(elapsed).filter(|millis| *millis >= 0.0);
        let latency = millis.and_then(|millis| Duration::try_from_secs_f64(millis / 1e3).ok());
        let Some((mut ended, latency)) = moment(&fields.text(began)).zip(latency) else {
            return Ok(false);
        };
        ended.at = ended.at.plus(latency);
        let text = |column: Option<usize>| column.map(|c| fields.text(c)).unwrap_or_default();
        controllers |= text(message).starts_with("Number of samples in transaction");
        let (name, code) = (text(label), text(code));
        let good = fields.text(success).eq_ignore_ascii_case("true");
        // An answer that an assertion did not like has a code of success.
        let kind = match kind(&code) {
            _ if code.starts_with(['1', '2', '3']) || code.is_empty() => "assertion".to_owned(),
            kind => kind,
        };
        collector
            .add(Operation {
                name: if name.is_empty() { "sample" } else { &name },
                ended,
                latency,
                outcome: if good { Outcome::Good } else { Outcome::Failed(&kind) },
                lag: None,
                retries: 0,
            })
            .map_err(|problem| source.line(fields.line, problem))?;
        Ok(true)
    })?;
    let collected = collector.finish(1.0, None);
    let mut results = of_rows(source, ClientUnit::Request, collected, cut_off)?;
    if controllers {
        results.log.notes.push(
            "transaction controllers count beside the samples they hold: throughput counts both"
                .to_owned(),
        );
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    fn results(text: &str) -> Result<Results, ResultsError> {
        read(Source { file: "run.jtl", format: Format::Jmeter }, text.as_bytes())
    }

    /// JMeter 5, as its manual has it.
    const HEADER: &str = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,bytes,sentBytes,grpThreads,allThreads,Latency,IdleTime,Connect\n";

    #[test]
    fn samples_count_where_they_end() {
        let rows = "1499876018809,2384,ipify,200,OK,Thread Group 1-84,text,true,,220,129,2,2,2384,0,0\n\
                    1499876021193,95,ipify,500,Oops,Thread Group 1-84,text,false,,220,129,2,2,94,0,9\n\
                    1499876021288,20,ipify,200,OK,Thread Group 1-84,text,false,too slow,220,129,2,2,20,0,0\n\
                    14998760213";
        let results = results(&format!("{HEADER}{rows}")).unwrap();
        assert_eq!(results.operations, ["ipify"]);
        assert_eq!((results.log.succeeded, results.intervals.len()), (Some(1), 1));
        assert_eq!(results.log.failures["HTTP 500"], 1);
        assert_eq!(results.log.failures["assertion"], 1);
        assert_eq!(results.intervals[0].start.0, 1_499_876_021_000_000);
        assert!(results.log.notes[0].contains("not whole"));
    }

    #[test]
    fn a_bad_line_is_an_error_with_its_number() {
        let rows = "now,5,a,200,OK,t,text,true,,1,1,1,1,1,0,0\n1499876018809,5,a,200,OK,t,text,true,,1,1,1,1,1,0,0\n";
        let error = results(&format!("{HEADER}{rows}")).unwrap_err().to_string();
        assert!(error.starts_with("run.jtl:2: "), "{error}");
    }
}
