//! What could not be looked for, said so and never passed.

use walwright_figures::{Blind, StatementUse};

use crate::Reading;

/// Functions that a statement may begin with and that run no statement.
const BUILT_IN: [&str; 12] = [
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "coalesce",
    "nextval",
    "setval",
    "currval",
    "now",
    "set_config",
    "exists",
];

/// Sentences about what this record cannot show.
pub(crate) fn not_observable(reading: &Reading) -> Vec<String> {
    let mut blind: Vec<String> =
        reading.summary.not_observable.iter().map(|n| format!("{}: {}", n.figure, n.why)).collect();
    let add = |blind: &mut Vec<String>, sentence: String| {
        if !blind.contains(&sentence) {
            blind.push(sentence);
        }
    };
    if !reading.is_local() {
        add(
            &mut blind,
            "D39, D45 to D52 and D55 to D57: the machine of the server (CPU, memory, disks, \
             kernel) is not visible over SQL"
                .to_owned(),
        );
    }
    if reading.calibration.as_ref().is_ok_and(|calibration| calibration.is_observed) {
        add(
            &mut blind,
            "gains: whether clients wait for an answer before they ask again; they are taken to be \
             a closed loop of as many as the scatter of busy sessions tells"
                .to_owned(),
        );
    }
    if let Err(why) = &reading.statements {
        add(
            &mut blind,
            format!(
                "D1, D7, D10, D17, D18, D20, D21, D29 to D31, D43: statements are not known ({why})"
            ),
        );
    }
    if let Some(call) = hiding(reading) {
        add(
            &mut blind,
            format!(
                "D7, D16 to D18, D30: what functions run, such as that of \"{call}\", is not counted \
                 by statement; pg_stat_statements.track = all shows it, track_functions = pl the \
                 functions' time"
            ),
        );
    }
    if reading.latency_breakdown.is_none() {
        let why = match reading.blind_to_time() {
            Some(why) if !matches!(why, Blind::NotSampled { .. }) => why.to_string(),
            _ => "wait events were not sampled".to_owned(),
        };
        add(
            &mut blind,
            format!(
                "D1 to D9, D33, D36, D42, D53: nothing is known of what sessions wait for ({why})"
            ),
        );
    }
    if reading.record.intervals.is_empty() {
        add(
            &mut blind,
            "D11 to D14, D49: the clients are not in the record, so neither their latency nor \
             their errors are known"
                .to_owned(),
        );
        if !reading.is_local() {
            add(
                &mut blind,
                "D53, D54: neither the latency of the clients nor the machine of the server is \
                 known, so clients that are the limit do not show"
                    .to_owned(),
            );
        }
    }
    if reading.summary.checkpoints.as_ref().is_some_and(|c| c.completed == 0) {
        add(
            &mut blind,
            "D32, D34, D35: no checkpoint completed inside the window, so what one costs is not \
             in the record; no cliff here does not mean that there is none"
                .to_owned(),
        );
    }
    if reading.version().is_some_and(|v| v < 150_000) {
        add(&mut blind, "D43: PostgreSQL counts JIT by statement from 15 on".to_owned());
    }
    let target = reading.record.target.iter().flat_map(|t| &t.not_observable);
    let host = reading.record.host.iter().flat_map(|h| &h.not_observable);
    for sentence in target.chain(host) {
        add(&mut blind, sentence.clone());
    }
    blind
}

/// A statement that calls a function whose statements are not counted.
fn hiding(reading: &Reading) -> Option<String> {
    let uses = reading.statements.as_ref().ok()?;
    if !uses.all.iter().all(|statement| statement.toplevel) {
        return None;
    }
    let calls = |statement: &&StatementUse| {
        let text = statement.plain();
        let name = text.strip_prefix("select * from ").or_else(|| text.strip_prefix("select "));
        let name = name.and_then(|rest| rest.split_once('(')).map_or("", |(name, _)| name);
        let is_name = |c: char| c.is_alphanumeric() || "_.\"".contains(c);
        let built_in = BUILT_IN.contains(&name) || name.starts_with("pg_");
        statement.verb() == "call" || (!name.is_empty() && name.chars().all(is_name) && !built_in)
    };
    uses.toplevel().find(calls).map(StatementUse::short)
}
