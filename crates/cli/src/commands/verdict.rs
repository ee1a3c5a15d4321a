//! How a run went, as an exit code tells it.

use std::process::ExitCode;

use walwright_figures::limit::{JudgedLimit, Limit};
use walwright_record::WarningCode;
use walwright_report::RunReport;

use crate::output::exit;

/// Limits held against a run.
pub fn judged(run: &RunReport, limits: &[Limit]) -> Vec<JudgedLimit> {
    limits.iter().map(|limit| limit.judge(&run.record, run.summary.load.as_ref())).collect()
}

/// The exit code of a run that came to its end.
pub fn verdict(run: &RunReport, limits: &[JudgedLimit]) -> ExitCode {
    let check_failed = run.record.warnings.iter().any(|w| w.code == WarningCode::CheckFailed);
    let load = run.summary.load.as_ref();
    let missed = load.and_then(|load| load.pass_mark.as_ref()).is_some_and(|m| !m.passed);
    let failed = load.is_some_and(|load| too_many_failed(load.transactions, load.failed));
    let passed = !limits.iter().any(JudgedLimit::is_failed);
    match check_failed || missed || failed || !passed {
        true => ExitCode::from(exit::CHECK_FAILED),
        false => ExitCode::SUCCESS,
    }
}

/// Whether a quarter or more of the transactions failed.
fn too_many_failed(succeeded: u64, failed: u64) -> bool {
    failed > 0 && failed.saturating_mul(3) >= succeeded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_failed_transactions_is_too_many() {
        assert!(too_many_failed(75, 25) && too_many_failed(0, 1));
        assert!(!too_many_failed(76, 25) && !too_many_failed(0, 0));
    }
}
