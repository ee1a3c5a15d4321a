//! `walwright tune list`: which tunes there are, and where each stands.

use serde_json::{Value, json};
use walwright_report::{List, format, tune_stage};
use walwright_search::Effect;
use walwright_store::Lab;
use walwright_tune::{Objective, Phase, TuneState, effect, shown};

use super::result::effect_json;
use crate::output::{Output, say};

/// Lists the tunes; those whose state cannot be read are named on standard error.
pub(super) fn print(lab: &Lab, output: &Output) -> anyhow::Result<()> {
    let mut states = Vec::new();
    for name in walwright_tune::list(lab)? {
        match walwright_tune::show(lab, &name) {
            Ok(state) => states.push(state),
            Err(error) => say(&format!("left out: {error}")),
        }
    }
    let all: Vec<Value> = states.iter().map(listed).collect();
    output.list(&all, || {
        if states.is_empty() {
            return Err(format!(
                "No tunes in {}. `walwright tune` makes the first.\n",
                lab.directory().display()
            ));
        }
        let heads = ["tune", "begun", "state", "runs", "objective", "confirmed change"];
        let mut list = List::new(heads);
        for state in &states {
            list.row([
                state.id.clone(),
                format::moment(state.begun),
                stands(state),
                runs(state).map_or(String::new(), |(made, of)| format!("{made} of {of}")),
                state.plan.objective.clone(),
                told(state),
            ]);
        }
        Ok(list)
    })
}

fn listed(state: &TuneState) -> Value {
    let (made, planned) = runs(state).unzip();
    json!({
        "tune": state.id,
        "begun": state.begun,
        "state": stands(state),
        "measured": made,
        "planned": planned,
        "objective": state.plan.objective,
        "workload": state.plan.workload,
        "confirmed": confirmed(state).map(|(of, objective)| effect_json(&of, &objective)),
        "promoted": state.promoted,
    })
}

/// Where it stands, in words.
fn stands(state: &TuneState) -> String {
    match state.phase {
        Phase::Done if state.promoted.is_some() => "promoted".to_owned(),
        Phase::Done => "nothing promoted".to_owned(),
        _ => format!("unfinished: {}", tune_stage(state)),
    }
}

/// Measurements of the search that were made, and how many there are to be; `None` before
/// the search.
fn runs(state: &TuneState) -> Option<(usize, u32)> {
    let searcher = state.searcher.as_ref()?;
    Some((searcher.trials().len(), searcher.budget().runs))
}

/// The effect on fresh data, where that was measured, and on what.
fn confirmed(state: &TuneState) -> Option<(Effect, Objective)> {
    let objective = state.plan.objective().ok()?;
    state.is_confirmed().then(|| (state.confirmed(), objective))
}

/// The same in words.
fn told(state: &TuneState) -> String {
    confirmed(state).map_or(String::new(), |(of, objective)| effect(&shown(&of, &objective)))
}
