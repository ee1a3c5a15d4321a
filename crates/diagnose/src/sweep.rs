//! The runs of a sweep, each read and diagnosed once.

use walwright_figures::scaling::{PointFinding, SweptRun};
use walwright_figures::summary;
use walwright_record::Record;

use crate::{Finding, Reading, diagnose};

/// Reads each run of a sweep, for [`walwright_figures::scaling::scaling`].
pub fn read_sweep(records: &[Record]) -> Vec<SweptRun<'_>> {
    records.iter().map(read).collect()
}

fn read(record: &Record) -> SweptRun<'_> {
    match Reading::new(record) {
        Some(reading) => SweptRun {
            record,
            problem: diagnose(&reading).problems().next().map(problem),
            summary: reading.summary,
        },
        None => SweptRun { record, summary: summary(record), problem: None },
    }
}

fn problem(finding: &Finding) -> PointFinding {
    PointFinding {
        id: finding.id.to_string(),
        cause: finding.cause.clone(),
        share: finding.impact.as_ref().map(|impact| impact.share.center),
    }
}
