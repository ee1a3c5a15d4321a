//! The histories of the workloads that the journal speaks of.

use std::collections::BTreeMap;

use walwright_figures::{Trend, TrendPoint, trend};
use walwright_record::RunState;
use walwright_store::journal::Contents;
use walwright_store::{Store, StoreError};

/// Which runs make a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those that entries of the journal rest on.
    Entries,
    /// All complete runs of the lab.
    AllRuns,
}

/// The history of each workload, by its name; of `workload` alone where one is named.
///
/// # Errors
/// When the records cannot be read.
pub fn trends(
    contents: &Contents,
    store: &Store,
    scope: Scope,
    workload: Option<&str>,
) -> Result<Vec<Trend>, StoreError> {
    let headlines = store.headlines()?;
    let mut histories: BTreeMap<String, Vec<TrendPoint>> = BTreeMap::new();
    for run in store.runs()? {
        let entry = contents.entries.iter().find(|entry| entry.runs.contains(&run.id));
        let told = entry.is_some() || scope == Scope::AllRuns;
        let wanted = workload.is_none_or(|name| name == run.workload);
        let Some(headline) = headlines.get(&run.id.0) else { continue };
        if !told || !wanted || run.state != RunState::Complete {
            continue;
        }
        histories.entry(run.workload).or_default().push(TrendPoint {
            run: run.id,
            started: run.started,
            throughput: headline.throughput,
            entry: entry.and_then(|entry| entry.id.clone()),
            question: entry.map(|entry| entry.question.clone()),
        });
    }
    Ok(histories.into_iter().map(|(workload, points)| trend(workload, points)).collect())
}

#[cfg(test)]
mod tests {
    use walwright_record::{Headline, RunHeader, RunId, Timestamp};

    use super::*;
    use walwright_store::journal::Entry;
    use walwright_testing::header;

    fn run(store: &Store, number: i64, workload: &str, state: RunState) -> RunId {
        let id = RunId(format!("run-{workload}-{number}"));
        let header = RunHeader {
            id: id.clone(),
            started: Timestamp(number),
            state: RunState::Running,
            workload: workload.to_owned(),
            ..header()
        };
        let mut writer = store.begin(&header).unwrap();
        let headline = Headline { throughput: 100.0 + number as f64, p50: 0.001, p99: 0.002 };
        writer.headline(&headline).unwrap();
        writer.finish(state, Timestamp(number + 1), None).unwrap();
        id
    }

    #[test]
    fn histories_hold_the_runs_of_entries_by_workload() {
        let lab = tempfile::tempdir().unwrap();
        let store = Store::open(lab.path()).unwrap();
        let a = run(&store, 1, "tpcb", RunState::Complete);
        let _untold = run(&store, 2, "tpcb", RunState::Complete);
        let cut = run(&store, 3, "tpcb", RunState::Interrupted);
        let b = run(&store, 4, "ingest", RunState::Complete);
        let entry = Entry { runs: vec![a.clone(), b, cut], ..Entry::asking("more?") };
        let contents = Contents { entries: vec![entry], unreadable: Vec::new() };
        let told = trends(&contents, &store, Scope::Entries, None).unwrap();
        let names: Vec<&str> = told.iter().map(|t| t.workload.as_str()).collect();
        assert_eq!(names, ["ingest", "tpcb"]);
        assert_eq!(told[1].points.len(), 1);
        assert_eq!(told[1].points[0].run, a);
        assert_eq!(told[1].points[0].question.as_deref(), Some("more?"));
        let all = trends(&contents, &store, Scope::AllRuns, Some("tpcb")).unwrap();
        assert_eq!(all[0].points.len(), 2);
        assert_eq!(all[0].points[1].entry, None);
    }
}
