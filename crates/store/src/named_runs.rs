//! What a person means by the name of runs.

use std::collections::BTreeSet;

use walwright_record::{RunHeader, RunState};

use crate::{FindError, Kind};

/// Before a label that names all runs which carry it.
const LABEL: &str = "label:";
/// Candidates named in a refusal; more are counted.
const CANDIDATES: usize = 8;

pub(crate) static RUNS: Kind = Kind { one: "run", many: "runs", listed_by: "walwright runs list" };

static LABELLED: Kind =
    Kind { one: "run labelled", many: "runs", listed_by: "walwright runs list" };

/// The runs that a name means.
#[derive(Debug, Clone, PartialEq)]
pub enum NamedRuns {
    /// One, by its id.
    Run(RunHeader),
    /// All that carry a label.
    Label(String, Vec<RunHeader>),
    /// All of a sweep, an experiment or a tune.
    Series(String, Vec<RunHeader>),
}

impl NamedRuns {
    /// Finds them among `all`, which come oldest first. A name is an id, the beginning or end
    /// of one, `latest`, a label (`label:TEXT` where it could be something else), or the name
    /// of a sweep, an experiment or a tune, which may be cut short too.
    ///
    /// # Errors
    /// When nothing fits, or several.
    pub fn find(all: Vec<RunHeader>, name: &str) -> Result<NamedRuns, FindError> {
        if let Some(label) = name.strip_prefix(LABEL) {
            let runs = labelled(&all, label);
            return match runs.is_empty() {
                true => Err(LABELLED.no_such(label)),
                false => Ok(NamedRuns::Label(label.to_owned(), runs)),
            };
        }
        let is_id = matches!(name, "latest" | "last") || all.iter().any(|run| run.id.0 == name);
        if is_id || name.is_empty() {
            return RUNS.find(all, |run| vec![&run.id.0], name).map(NamedRuns::Run);
        }
        let series: BTreeSet<&str> = all.iter().filter_map(RunHeader::series).collect();
        if series.contains(name) {
            let runs = of_series(&all, name);
            return Ok(NamedRuns::Series(name.to_owned(), runs));
        }
        let runs = labelled(&all, name);
        if !runs.is_empty() {
            return Ok(NamedRuns::Label(name.to_owned(), runs));
        }
        let fits = |id: &str| id.starts_with(name) || id.ends_with(name);
        let runs: Vec<&RunHeader> = all.iter().filter(|run| fits(&run.id.0)).collect();
        let series: Vec<&str> = series.into_iter().filter(|series| fits(series)).collect();
        match (&runs[..], &series[..]) {
            ([], []) => Err(RUNS.no_such(name)),
            ([run], []) => Ok(NamedRuns::Run((*run).clone())),
            ([], [series]) => Ok(NamedRuns::Series((*series).to_owned(), of_series(&all, series))),
            _ => Err(several(name, series.into_iter().chain(ids(&runs)))),
        }
    }

    /// The one run.
    ///
    /// # Errors
    /// When there are several.
    pub fn one(self, name: &str) -> Result<RunHeader, FindError> {
        let mut runs = self.all();
        match runs.len() {
            1 => Ok(runs.remove(0)),
            _ => Err(several(name, ids(&runs.iter().collect::<Vec<_>>()))),
        }
    }

    /// All of them, oldest first.
    pub fn all(self) -> Vec<RunHeader> {
        match self {
            NamedRuns::Run(run) => vec![run],
            NamedRuns::Label(_, runs) | NamedRuns::Series(_, runs) => runs,
        }
    }

    /// Those that figures can be taken of: the one that was named, or of several the complete
    /// ones.
    pub fn measured(self) -> Vec<RunHeader> {
        match self {
            NamedRuns::Run(run) => vec![run],
            several => {
                let complete = |run: &RunHeader| run.state == RunState::Complete;
                several.all().into_iter().filter(complete).collect()
            }
        }
    }
}

fn labelled(all: &[RunHeader], label: &str) -> Vec<RunHeader> {
    let carries = |run: &&RunHeader| {
        run.label.as_deref() == Some(label) || (!label.is_empty() && run.own_label() == label)
    };
    all.iter().filter(carries).cloned().collect()
}

fn of_series(all: &[RunHeader], series: &str) -> Vec<RunHeader> {
    all.iter().filter(|run| run.series() == Some(series)).cloned().collect()
}

fn ids<'a>(runs: &[&'a RunHeader]) -> Vec<&'a str> {
    runs.iter().map(|run| run.id.0.as_str()).collect()
}

fn several<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> FindError {
    let all: Vec<&str> = candidates.into_iter().collect();
    let mut candidates = all[..all.len().min(CANDIDATES)].join(", ");
    if let Some(more) = all.len().checked_sub(CANDIDATES).filter(|more| *more > 0) {
        candidates.push_str(&format!(" and {more} more"));
    }
    FindError::Several { kind: &RUNS, name: name.to_owned(), candidates }
}

#[cfg(test)]
mod tests {
    use walwright_testing::header;

    use super::*;

    /// Runs with their labels, all complete but the last.
    fn runs() -> Vec<RunHeader> {
        let all = [
            ("20261120-000001-aaa", ""),
            ("20261120-000002-aab", "before"),
            ("20261120-000003-aac", "before"),
            ("20261120-000004-aad", "after"),
            ("20261120-000005-aae", "mine sweep-20261120-000005-k3f"),
            ("20261120-000006-aaf", "mine sweep-20261120-000005-k3f"),
            ("20261121-000008-aag", "20261121-000007-xyz block 1 baseline"),
            ("20261121-000009-aah", "20261121-000007-xyz block 1 a block b"),
            ("20261122-000001-aai", "tune 20261122-000000-tun: trial 1"),
            ("20261123-000001-aaj", "one block away"),
            ("20261123-000002-aak", "20261120-000001"),
        ];
        let run = |(id, label): &(&str, &str)| RunHeader {
            id: walwright_record::RunId((*id).to_owned()),
            label: (!label.is_empty()).then(|| (*label).to_owned()),
            state: RunState::Complete,
            ..header()
        };
        let mut runs: Vec<RunHeader> = all.iter().map(run).collect();
        runs.last_mut().unwrap().state = RunState::Interrupted;
        runs
    }

    /// The ends of the ids that a name means.
    fn meant(name: &str) -> Vec<String> {
        let found = NamedRuns::find(runs(), name).unwrap_or_else(|error| panic!("{error}"));
        found.all().into_iter().map(|run| run.id.0[16..].to_owned()).collect()
    }

    #[test]
    fn a_name_is_an_id_a_label_or_a_series() {
        for (name, ends) in [
            ("latest", &["aak"][..]),
            ("20261120-000001-aaa", &["aaa"]),
            ("aab", &["aab"]),
            ("before", &["aab", "aac"]),
            ("label:after", &["aad"]),
            ("mine", &["aae", "aaf"]),
            ("label:mine", &["aae", "aaf"]),
            ("sweep-20261120-000005-k3f", &["aae", "aaf"]),
            ("sweep-", &["aae", "aaf"]),
            ("20261121-000007-xyz", &["aag", "aah"]),
            ("xyz", &["aag", "aah"]),
            ("tun", &["aai"]),
            ("20261120-000002", &["aab"]),
            // A whole label, and only the beginning of an id.
            ("20261120-000001", &["aak"]),
            ("one block away", &["aaj"]),
        ] {
            assert_eq!(meant(name), ends, "{name}");
        }
    }

    #[test]
    fn what_fits_several_is_refused_with_the_candidates() {
        let find = |name: &str| NamedRuns::find(runs(), name).map_err(|error| error.to_string());
        let one = |name: &str| find(name)?.one(name).map_err(|error| error.to_string());
        let several = one("before").unwrap_err();
        assert!(several.contains("20261120-000002-aab, 20261120-000003-aac"), "{several}");
        assert!(one("after").is_ok() && one("tun").is_ok());
        // A run and an experiment of the same day.
        let several = find("20261121").unwrap_err();
        assert!(several.contains("20261121-000007-xyz, 20261121-000008-aag"), "{several}");
        let many = find("2026112").unwrap_err();
        assert!(many.contains("and 5 more"), "{many}");
        for none in ["", "label:", "label:nobody", "nobody", "block"] {
            assert!(find(none).unwrap_err().contains("`walwright runs list`"), "{none}");
        }
    }

    #[test]
    fn of_several_the_complete_ones_have_figures() {
        let found = |name: &str| NamedRuns::find(runs(), name).unwrap().measured().len();
        assert_eq!((found("before"), found("latest"), found("20261120-000001")), (2, 1, 0));
    }
}
