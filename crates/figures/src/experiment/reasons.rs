//! What else changed with an arm: where its effect comes from.

use std::collections::BTreeMap;

use serde::Serialize;
use walwright_stats::{Confidence, Estimate, paired_effect};

use super::judge::pairs;
use crate::compare::{FigureKind, Section};

/// Relative changes smaller than this are no reason for anything.
const SMALL: f64 = 0.02;
/// Times that change by less than this part of the mean latency are no reason either.
const SMALL_TIME: f64 = 0.01;

/// A figure that is not the same in an arm as in the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reason {
    /// What it is.
    #[serde(flatten)]
    pub figure: FigureKind,
    /// Mean over the baseline's runs, in the figure's unit.
    pub baseline: f64,
    /// Mean over the arm's runs.
    pub arm: f64,
    /// Relative change, block by block; `None` where one side is zero, which has no
    /// ratio.
    pub change: Option<Estimate>,
}

/// A part of the time of a transaction, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimeBook {
    /// The class of waits, in words.
    pub name: String,
    /// Mean over the baseline's runs.
    pub baseline: f64,
    /// Mean over the arm's runs.
    pub arm: f64,
}

/// Where the time of a transaction went, in the blocks that know it of both; parts that are
/// nothing in both are left out.
pub fn latency_breakdowns(
    kinds: &[FigureKind],
    baseline: &[Option<&BTreeMap<String, f64>>],
    arm: &[Option<&BTreeMap<String, f64>>],
) -> Vec<TimeBook> {
    kinds
        .iter()
        .filter(|kind| kind.section == Section::Time)
        .filter_map(|kind| {
            let (base, other) = pairs(&series(baseline, &kind.key), &series(arm, &kind.key));
            let (baseline, arm) = (mean(&base)?, mean(&other)?);
            let name = kind.name.clone();
            (baseline != 0.0 || arm != 0.0).then_some(TimeBook { name, baseline, arm })
        })
        .collect()
}

fn series(runs: &[Option<&BTreeMap<String, f64>>], key: &str) -> Vec<Option<f64>> {
    runs.iter().map(|figures| figures.as_ref()?.get(key).copied()).collect()
}

/// The figures that changed with an arm: section by section, the largest change first.
///
/// `baseline` and `arm` hold the figures of their run of each block by key. A figure
/// counts as changed where the 95 % interval of its paired change leaves out zero and the
/// change is not small, or where it is zero on one side only. Many figures are looked
/// at, so one in twenty of those that did not change shows here by chance.
pub fn reasons(
    kinds: &[FigureKind],
    baseline: &[Option<&BTreeMap<String, f64>>],
    arm: &[Option<&BTreeMap<String, f64>>],
) -> Vec<Reason> {
    let latency = mean(&series(baseline, "latency_mean").into_iter().flatten().collect::<Vec<_>>());
    let mut found: Vec<Reason> = kinds
        .iter()
        .filter_map(|kind| {
            let (base, other) = pairs(&series(baseline, &kind.key), &series(arm, &kind.key));
            let reason = reason(kind, &base, &other)?;
            let time = kind.section == Section::Time;
            let small = |latency: f64| (reason.arm - reason.baseline).abs() < SMALL_TIME * latency;
            (!(time && latency.is_some_and(small))).then_some(reason)
        })
        .collect();
    // Parts of one time are compared by their size, other figures by their ratio.
    let size = |reason: &Reason| match (reason.figure.section, &reason.change) {
        (Section::Time, _) => (reason.arm - reason.baseline).abs(),
        (_, Some(change)) => change.center.ln_1p().abs(),
        (_, None) => f64::INFINITY,
    };
    found.sort_by(|a, b| a.figure.section.cmp(&b.figure.section).then(size(b).total_cmp(&size(a))));
    found
}

fn reason(kind: &FigureKind, base: &[f64], other: &[f64]) -> Option<Reason> {
    let zero = |values: &[f64]| values.iter().all(|value| *value == 0.0);
    let change = match (zero(base), zero(other)) {
        _ if base.is_empty() => return None,
        (true, true) => return None,
        (true, false) | (false, true) => None,
        (false, false) => {
            let change = paired_effect(base, other, Confidence::P95, 0).ok()?.change;
            if !change.excludes(0.0) || change.center.abs() < SMALL {
                return None;
            }
            Some(change)
        }
    };
    Some(Reason { figure: kind.clone(), baseline: mean(base)?, arm: mean(other)?, change })
}

fn mean(values: &[f64]) -> Option<f64> {
    walwright_stats::mean(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::figure_kinds;

    type Figures = BTreeMap<String, f64>;

    fn figures(of: &[(&str, f64)]) -> Figures {
        of.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect()
    }

    fn found(baseline: &[Figures], arm: &[Figures]) -> Vec<String> {
        let baseline: Vec<_> = baseline.iter().map(Some).collect();
        let arm: Vec<_> = arm.iter().map(Some).collect();
        reasons(&figure_kinds(), &baseline, &arm).into_iter().map(|r| r.figure.key).collect()
    }

    #[test]
    fn what_changed_is_told_and_what_wobbles_is_not() {
        let run = |wal: f64, fpi: f64, records: f64, flush: f64, lock: f64| {
            figures(&[
                ("latency_mean", 2e-3),
                ("wal_bytes", wal),
                ("wal_fpi", fpi),
                ("wal_records", records),
                ("time_flush", flush),
                ("time_lock", lock),
            ])
        };
        let base = [run(500.0, 0.02, 9.0, 1e-3, 1e-6), run(510.0, 0.03, 9.1, 1.1e-3, 1e-6)];
        let arm = [run(2_000.0, 0.9, 9.05, 5e-4, 3e-6), run(2_100.0, 1.0, 9.0, 6e-4, 3e-6)];
        let found = found(&base, &arm);
        // Two blocks make wide intervals: WAL quadrupled is beyond them.
        assert!(found.contains(&"wal_bytes".to_owned()), "{found:?}");
        assert!(!found.contains(&"wal_records".to_owned()));
        assert!(!found.contains(&"time_lock".to_owned()), "2 µs of 2 ms are no reason");
    }

    #[test]
    fn what_appears_has_no_ratio_and_is_told() {
        let base = vec![figures(&[("temp_bytes", 0.0)]); 3];
        let arm = vec![figures(&[("temp_bytes", 8192.0)]); 3];
        assert_eq!(found(&base, &arm), ["temp_bytes"]);
        assert!(found(&base, &base).is_empty());
        assert!(found(&[], &[]).is_empty());
    }
}
