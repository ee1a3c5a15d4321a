//! Statements of several runs, matched by their text.
//!
//! Query ids differ between databases and versions even where the statement is the
//! same (they hash the object ids of tables), so the text is what two runs share.

use std::collections::BTreeMap;

use serde::Serialize;
use walwright_record::Record;

use super::group::RunGroup;
use crate::statements;

/// A statement in every group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedStatement {
    /// Its normalised text.
    pub query: String,
    /// What it did in each group, the baseline first; `None` where it did not run or
    /// statements were not sampled.
    pub groups: Vec<Option<StatementSide>>,
    /// Change of its time per unit of work, in seconds, in each group but the baseline; where
    /// it ran in one of the two only, that one's time counts whole.
    pub time_change: Vec<Option<f64>>,
}

/// What a statement did in a group: means over its runs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct StatementSide {
    /// Executions per unit of work.
    pub calls: f64,
    /// Seconds of execution per unit of work.
    pub time: f64,
    /// Seconds an execution takes.
    pub mean_time: Option<f64>,
    /// Bytes of WAL an execution writes.
    pub wal_bytes_per_call: Option<f64>,
    /// Rows an execution returns or changes.
    pub rows_per_call: Option<f64>,
}

/// The statements of one run by text; `None` where they were not sampled.
fn of_run(record: &Record) -> Option<BTreeMap<String, StatementSide>> {
    let seen = statements(record, record.window()?, usize::MAX).ok()?;
    let mut by_text: BTreeMap<String, StatementSide> = BTreeMap::new();
    for statement in seen.by_time {
        let Some(text) = statement.query.as_deref().map(normalised) else { continue };
        let side = by_text.entry(text).or_default();
        let (before, more) = (side.calls, statement.calls_per_transaction);
        let all = before + more;
        // Several roles or databases may run one text; means are weighed by calls.
        let mix = |old: Option<f64>, new: Option<f64>| match (old, new) {
            (Some(old), Some(new)) if all > 0.0 => Some((old * before + new * more) / all),
            (old, new) => new.or(old),
        };
        side.mean_time = mix(side.mean_time, statement.mean_time.map(|t| t.as_secs_f64()));
        side.wal_bytes_per_call = mix(side.wal_bytes_per_call, statement.wal_bytes_per_call);
        side.rows_per_call = mix(side.rows_per_call, statement.rows_per_call);
        side.calls = all;
        side.time += statement.time_per_transaction.as_secs_f64();
    }
    Some(by_text)
}

/// The text with every run of white space as one blank.
fn normalised(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches(';').to_owned()
}

/// The statements of all groups, those with the largest change of time first.
pub fn compared(groups: &[RunGroup]) -> Vec<ComparedStatement> {
    let sides: Vec<Option<BTreeMap<String, StatementSide>>> = groups.iter().map(of_group).collect();
    let mut texts: Vec<&String> = sides.iter().flatten().flat_map(BTreeMap::keys).collect();
    texts.sort();
    texts.dedup();
    let mut all: Vec<ComparedStatement> = texts
        .into_iter()
        .map(|text| {
            let in_groups: Vec<Option<StatementSide>> = sides
                .iter()
                .map(|side| side.as_ref().and_then(|side| side.get(text).copied()))
                .collect();
            let time = |group: usize| {
                sides[group].as_ref()?;
                Some(in_groups[group].map_or(0.0, |side| side.time))
            };
            let time_change =
                (1..groups.len()).map(|other| Some(time(other)? - time(0)?)).collect();
            ComparedStatement { query: text.clone(), groups: in_groups, time_change }
        })
        .collect();
    let largest = |statement: &ComparedStatement| {
        statement.time_change.iter().flatten().map(|change| change.abs()).fold(0.0, f64::max)
    };
    all.sort_by(|a, b| largest(b).total_cmp(&largest(a)));
    all
}

/// Means over the runs of a group that sampled statements.
fn of_group(group: &RunGroup) -> Option<BTreeMap<String, StatementSide>> {
    let runs: Vec<BTreeMap<String, StatementSide>> = group.runs.iter().filter_map(of_run).collect();
    if runs.is_empty() {
        return None;
    }
    let count = runs.len() as f64;
    let mut texts: Vec<&String> = runs.iter().flat_map(BTreeMap::keys).collect();
    texts.sort();
    texts.dedup();
    let mean = |text: &String| {
        let ran: Vec<&StatementSide> = runs.iter().filter_map(|run| run.get(text)).collect();
        let known = |figure: fn(&StatementSide) -> Option<f64>| {
            let known: Vec<f64> = ran.iter().filter_map(|side| figure(side)).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        StatementSide {
            calls: ran.iter().map(|side| side.calls).sum::<f64>() / count,
            time: ran.iter().map(|side| side.time).sum::<f64>() / count,
            mean_time: known(|side| side.mean_time),
            wal_bytes_per_call: known(|side| side.wal_bytes_per_call),
            rows_per_call: known(|side| side.rows_per_call),
        }
    };
    Some(texts.into_iter().map(|text| (text.clone(), mean(text))).collect())
}
