//! Limits held against the groups of a comparison.

use super::group::{GroupValue, RunGroup};
use crate::LoadSummary;
use crate::limit::{JudgedLimit, Limit, Measured};

/// Every limit against every group but the baseline.
pub(super) fn judged(
    limits: &[Limit],
    groups: &[RunGroup],
    loads: &[Vec<Option<LoadSummary>>],
) -> Vec<JudgedLimit> {
    let mut judged = Vec::new();
    for limit in limits {
        let measured: Vec<Option<Measured>> =
            groups.iter().zip(loads).map(|(group, loads)| of_group(limit, group, loads)).collect();
        for (group, measured_of) in groups.iter().zip(&measured).skip(1) {
            let held = match limit.of_change {
                true => change(measured[0], *measured_of),
                false => *measured_of,
            };
            judged.push(limit.judged(Some(group.name.clone()), held));
        }
    }
    judged
}

/// The mean over the runs of a group; `None` where one does not know the measure.
fn of_group(limit: &Limit, group: &RunGroup, loads: &[Option<LoadSummary>]) -> Option<Measured> {
    let of_runs = group.runs.iter().zip(loads);
    let of_runs = of_runs.map(|(run, load)| limit.measure.of(run, run.window()?, load.as_ref()?));
    let of_runs = of_runs.collect::<Option<Vec<Measured>>>()?;
    let is_lower_bound = of_runs.iter().any(|measured| measured.is_lower_bound);
    let values = of_runs.into_iter().map(|measured| Some(measured.value)).collect();
    Some(Measured { value: GroupValue::of(values).center?, is_lower_bound })
}

/// The change from the baseline, relative; a ratio of lower bounds says nothing.
fn change(base: Option<Measured>, other: Option<Measured>) -> Option<Measured> {
    let (base, other) = base.zip(other)?;
    let known = !base.is_lower_bound && !other.is_lower_bound && base.value > 0.0;
    known.then(|| Measured { value: other.value / base.value - 1.0, is_lower_bound: false })
}
