//! The promoted configuration: `config.env`, with the proof of each line.

use std::path::Path;

use walwright_catalog::{Entry, Origin, Profile, Proof, parameter};
use walwright_search::{Conclusion, Effect, Line, Standing};

use super::{Objective, TuneError, TuneState, conduct, folder, words};
use crate::Lab;

/// Writes the promoted configuration of a tune to `path`.
///
/// # Errors
/// When the tune has nothing to promote, or the file cannot be written.
pub fn promote(lab: &Lab, name: &str, path: &Path) -> Result<TuneState, TuneError> {
    let state = conduct::show(lab, &folder::find(lab, name)?)?;
    let objective = state.plan.objective()?;
    let text = text(&state, &objective)?;
    let new = path.with_extension("new");
    std::fs::write(&new, text).map_err(TuneError::file("write", &new))?;
    std::fs::rename(&new, path).map_err(TuneError::file("create", path))?;
    Ok(state)
}

/// The file's text.
pub(super) fn text(state: &TuneState, objective: &Objective) -> Result<String, TuneError> {
    let nothing =
        |why: &str| TuneError::NothingToPromote { id: state.id.clone(), why: why.to_owned() };
    let end = state
        .searcher
        .as_ref()
        .and_then(|searcher| searcher.conclusion())
        .ok_or_else(|| nothing("it has not come to its end"))?;
    if !end.is_gain {
        return Err(nothing("no configuration was better than the baseline"));
    }
    if !state.confirmed().is_gain() {
        return Err(nothing("the gain did not show again on fresh data"));
    }
    if state.crash.as_ref().is_none_or(|audit| audit.lost > 0) && state.plan.consent.is_empty() {
        return Err(nothing("the server lost acknowledged commits, or was not killed to see"));
    }
    Ok(profile(state, objective, end)?.to_config_env())
}

fn profile(
    state: &TuneState,
    objective: &Objective,
    end: &Conclusion,
) -> Result<Profile, TuneError> {
    let date = date(state);
    let mut entries = Vec::new();
    for line in words::kept(end) {
        let mut entry = Entry::new(&line.name, &end.configuration[&line.name], None)?;
        entry.comments = vec![format!("# {}", reason(line))];
        entry.proof = Some(Proof {
            experiment: format!("tune {}", state.id),
            effect: effect(&words::inverse(&line.without), objective),
            machine: Some(state.machine.clone()),
            date: Some(date.clone()),
        });
        entries.push(entry);
    }
    // The rest of the baseline, so that the file stands alone.
    for (name, value) in &state.plan.settings {
        let told =
            entries.iter().any(|entry: &Entry| entry.parameter.name.eq_ignore_ascii_case(name));
        if !told && parameter(name).is_some() {
            let mut entry = Entry::new(name, value, None)?;
            entry.comments = vec!["# as the baseline had it".to_owned()];
            entries.push(entry);
        }
    }
    let workload = state.plan.workload.as_deref().unwrap_or("own scripts");
    let gain = words::effect(&words::of_figure(&state.confirmed(), objective));
    let title = format!("{workload}, {} {gain} on fresh data", objective.name());
    let mut trailer = vec![String::new()];
    trailer.extend(state.crash.as_ref().map(|audit| format!("# {}", words::crash(audit))));
    trailer.push(format!(
        "# The baseline: {}",
        state
            .server_version
            .as_deref()
            .map_or("PostgreSQL".to_owned(), |v| format!("PostgreSQL {v}"))
    ));
    Ok(Profile {
        origin: Some(Origin { title, machine: Some(state.machine.clone()), date: Some(date) }),
        entries,
        trailer,
    })
}

/// Why a line is there.
fn reason(line: &Line) -> String {
    match line.standing {
        Standing::Proven => format!("instead of {}: worse without it", line.instead),
        Standing::Carrying => format!(
            "instead of {}: its own interval contains zero, but the gain needs it or its like",
            line.instead
        ),
        Standing::HarmUndone => format!("the default again: {} does harm", line.was),
        Standing::HarmlessUndone => {
            format!("the default again: {} makes no difference that could be seen", line.was)
        }
        Standing::Returned => {
            format!("the default again, instead of {}: no difference seen", line.was)
        }
        Standing::NotMeasured => "its own effect was not measured".to_owned(),
    }
}

fn effect(of: &Effect, objective: &Objective) -> Option<walwright_catalog::Effect> {
    let effect = words::of_figure(of, objective);
    let estimate = effect.estimate()?;
    let ends = estimate.interval?;
    Some(walwright_catalog::Effect {
        measure: objective.name(),
        percent: 100.0 * estimate.center,
        low: 100.0 * ends.low,
        high: 100.0 * ends.high,
    })
}

/// The day a tune began, as its name tells it.
fn date(state: &TuneState) -> String {
    let day = state.id.get(..8).unwrap_or_default();
    match (day.get(..4), day.get(4..6), day.get(6..8)) {
        (Some(year), Some(month), Some(day)) => format!("{year}-{month}-{day}"),
        _ => day.to_owned(),
    }
}
