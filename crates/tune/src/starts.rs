//! First guesses: what rules and the diagnosis of the baseline would change.

use std::collections::BTreeMap;

use walwright_catalog::{DurabilityClass, parameter};
use walwright_diagnose::{Change, Diagnosis, Kind, ReviewInput, review};
use walwright_figures::Summary;
use walwright_record::Record;
use walwright_search::{Configuration, Space, Start};

use super::state::Cause;

/// Settings that a diagnosis would change, of classes that need no consent; the first
/// finding that names one has it, since findings are ranked.
pub(super) fn diagnosed(diagnosis: &Diagnosis) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    for action in diagnosis.findings.iter().flat_map(|finding| &finding.actions) {
        if let Change::Setting { name, value } = &action.change
            && may_be_tried(name)
            && matches!(action.class, DurabilityClass::S | DurabilityClass::T)
        {
            settings.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    settings
}

/// Settings that the review of the baseline's load would have otherwise. A group leader
/// that waits at all is worth half a flush.
pub(super) fn advised(record: &Record, summary: &Summary) -> BTreeMap<String, String> {
    let Some(input) = ReviewInput::of_record(record) else { return BTreeMap::new() };
    let items = review(&input).items.into_iter();
    let mut advised: BTreeMap<String, String> = items
        .filter(|item| may_be_tried(&item.name) && ["S", "T"].contains(&item.class.as_str()))
        .filter_map(|item| Some((item.name, item.advised?)))
        .collect();
    if let Some(flush) = summary.wal.as_ref().and_then(|wal| wal.mean_flush) {
        let half = (flush.as_micros() / 2).clamp(10, 1_000).to_string();
        advised.entry("commit_delay".to_owned()).or_insert(half);
    }
    advised
}

/// A setting with a range to search: others are a person's to decide.
fn may_be_tried(name: &str) -> bool {
    parameter(name).is_some_and(|p| {
        p.search.is_some() && matches!(p.class, DurabilityClass::S | DurabilityClass::T)
    })
}

/// What holds the baseline back.
pub(super) fn cause(diagnosis: &Diagnosis, summary: &Summary) -> Cause {
    Cause {
        verdict: diagnosis.verdict.clone(),
        problems: diagnosis
            .findings
            .iter()
            .filter(|finding| finding.kind == Kind::Problem)
            .map(|finding| finding.title.clone())
            .collect(),
        busy: summary.cpu.as_ref().and_then(|cpu| cpu.busy),
    }
}

/// The configurations to try first: the defaults where the baseline is at odds with
/// them, what the diagnosis would change, and what rules would.
pub(super) fn starts(
    space: &Space,
    baseline: &Configuration,
    diagnosed: &BTreeMap<String, String>,
    hints: &BTreeMap<String, String>,
) -> Vec<Start> {
    let changed = |from: &Configuration, values: &BTreeMap<String, String>| {
        let mut configuration = from.clone();
        for (name, value) in values {
            let nearest = space.dimension(name).and_then(|d| d.nearest(value).ok());
            if let Some(value) = nearest {
                configuration.insert(name.clone(), value);
            }
        }
        configuration
    };
    let home = space.home();
    let start = |name: &str, configuration| Start { name: name.to_owned(), configuration };
    vec![
        start("defaults", home.clone()),
        start("diagnosis", changed(baseline, diagnosed)),
        start("rules", changed(&home, hints)),
        start("rules on the baseline", changed(baseline, hints)),
    ]
}

#[cfg(test)]
mod tests {
    use walwright_search::Dimension;

    use super::*;

    #[test]
    fn a_mis_set_value_is_tried_at_its_default_and_where_rules_put_it() {
        let of = |name| Dimension::of(parameter(name).unwrap(), 18, Some(8e9)).unwrap();
        let space = Space { dimensions: vec![of("commit_delay"), of("shared_buffers")] };
        let baseline =
            space.configuration([("commit_delay", "5000"), ("shared_buffers", "16MB")]).unwrap();
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let diagnosed = BTreeMap::from([text("commit_delay", "0")]);
        let hints = BTreeMap::from([text("shared_buffers", "2GB"), text("work_mem", "8MB")]);
        let starts = starts(&space, &baseline, &diagnosed, &hints);
        let find = |name: &str| &starts.iter().find(|s| s.name == name).unwrap().configuration;
        assert_eq!(*find("defaults"), space.home());
        assert_eq!(find("diagnosis")["commit_delay"], "0");
        assert_eq!(find("diagnosis")["shared_buffers"], "16MB");
        assert_eq!(find("rules")["shared_buffers"], "2GB");
        assert!(!find("rules").contains_key("work_mem"), "it is not in the space");
        assert!(may_be_tried("max_wal_size") && !may_be_tried("fsync"));
    }
}
