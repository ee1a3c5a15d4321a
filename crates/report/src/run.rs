//! A run as every rendering of it needs it.

use walwright_diagnose::{Diagnosis, findings_with};
use walwright_figures::Summary;
use walwright_figures::scaling::{PointFinding, SweptRun};
use walwright_record::Record;

/// A record with what follows from it, computed once.
#[derive(Debug)]
pub struct RunReport {
    /// The record.
    pub record: Record,
    /// Its figures.
    pub summary: Summary,
    /// Its findings.
    pub diagnosis: Diagnosis,
}

impl RunReport {
    /// Computes figures and findings.
    pub fn new(record: Record) -> RunReport {
        let summary = walwright_figures::summary(&record);
        RunReport::with(record, summary)
    }

    /// The same, where the figures are known already.
    pub fn with(record: Record, summary: Summary) -> RunReport {
        let diagnosis = findings_with(&record, &summary);
        RunReport { record, summary, diagnosis }
    }

    /// The run as one of a sweep.
    pub fn swept(&self) -> SweptRun<'_> {
        let problem = self.diagnosis.problems().next().map(|finding| PointFinding {
            id: finding.id.to_string(),
            cause: finding.cause.clone(),
            share: finding.impact.as_ref().map(|impact| impact.share.center),
        });
        SweptRun { record: &self.record, summary: &self.summary, problem }
    }
}
