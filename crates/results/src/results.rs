//! What one file of another load driver holds.

use walwright_record::{ClientDetail, ClientLog, ClientUnit, LoadInterval};

use crate::ResultsError;
use crate::collect::Collected;
use crate::line::Source;

/// What one file holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// What the record keeps of it.
    pub log: ClientLog,
    /// What its operations are.
    pub unit: ClientUnit,
    /// Names of the operations, in the order of the scripts of each interval.
    pub operations: Vec<String>,
    /// The load it tells, in time order; empty where it holds totals only. Seconds in
    /// which nothing ended are left out.
    pub intervals: Vec<LoadInterval>,
}

impl Results {
    /// What it holds without its intervals; `None` where that is nothing.
    pub fn totals_only(mut self) -> Option<Results> {
        self.intervals.clear();
        self.operations.clear();
        self.log.detail = ClientDetail::Totals;
        (!self.log.totals.is_empty()).then_some(self)
    }
}

/// A log of which nothing is known but its name.
pub(crate) fn empty_log(source: Source<'_>, detail: ClientDetail) -> ClientLog {
    ClientLog {
        file: source.file.to_owned(),
        format: source.format.label().to_owned(),
        detail,
        sampling: None,
        first: None,
        last: None,
        succeeded: None,
        failures: Default::default(),
        totals: Vec::new(),
        notes: Vec::new(),
    }
}

/// Results of a file that tells single operations.
pub(crate) fn of_operations(
    source: Source<'_>,
    unit: ClientUnit,
    collected: Collected,
) -> Result<Results, ResultsError> {
    if collected.intervals.is_empty() {
        return Err(source.whole("it holds no operation, only a header or lines of other kinds"));
    }
    let mut log = empty_log(source, ClientDetail::Operations);
    log.first = collected.first;
    log.last = collected.last;
    log.succeeded = Some(collected.succeeded);
    log.failures = collected.failures;
    Ok(Results { log, unit, operations: collected.operations, intervals: collected.intervals })
}

/// The same of a table, with what is wrong with its last row where that was left out.
pub(crate) fn of_rows(
    source: Source<'_>,
    unit: ClientUnit,
    collected: Collected,
    cut_off: Option<ResultsError>,
) -> Result<Results, ResultsError> {
    let left_out = cut_off.is_some();
    let mut results =
        of_operations(source, unit, collected).map_err(|error| cut_off.unwrap_or(error))?;
    if left_out {
        results.log.notes.push("its last line is not whole and was left out".to_owned());
    }
    Ok(results)
}
