//! The journal's account of a tune.

use walwright_catalog::{DurabilityClass, parameter};
use walwright_search::Effect;
use walwright_stats::Method;

use super::{Objective, TuneError, TuneState, levers, plot, words};
use crate::Lab;
use crate::journal::{Change, Effect as Told, Entry, Journal, Origin};

/// Appends the account, unless it is there already, and gives its name.
pub(super) fn append(
    lab: &Lab,
    state: &TuneState,
    objective: &Objective,
) -> Result<String, TuneError> {
    let journal = Journal::of(lab);
    // Killed between appending and keeping its name: it is there.
    let told = journal.read()?.entries.into_iter();
    let mut these = told
        .filter(|entry| entry.origin == Origin::Tuning && entry.experiments.contains(&state.id));
    if let Some(entry) = these.next_back() {
        return Ok(entry.name().to_owned());
    }
    Ok(journal.append(entry(state, objective))?.name().to_owned())
}

fn entry(state: &TuneState, objective: &Objective) -> Entry {
    let end = state.searcher.as_ref().and_then(|searcher| searcher.conclusion());
    let settings: Vec<String> =
        state.plan.settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let version = state.server_version.as_deref().unwrap_or("of unknown version");
    let baseline = match settings.is_empty() {
        true => format!("PostgreSQL {version} at its defaults"),
        false => format!("PostgreSQL {version} with {}", settings.join(", ")),
    };
    let workload = state.plan.workload.clone();
    let load = workload.as_deref().unwrap_or("this load");
    let mut entry = Entry {
        origin: Origin::Tuning,
        workload: workload.clone(),
        baseline: Some(baseline),
        runs: state.made.iter().filter_map(|made| made.run.clone()).collect(),
        experiments: vec![state.id.clone()],
        result: Some(words::verdict(state, objective)),
        plots: plot::course(state, objective).into_iter().collect(),
        ..Entry::asking(format!(
            "What configuration is best for {} of {load}, and does configuration limit it?",
            objective.name()
        ))
    };
    if let Some(end) = end {
        entry.changes = words::kept(end)
            .map(|line| Change {
                name: line.name.clone(),
                from: Some(line.was.clone()),
                to: end.configuration.get(&line.name).cloned(),
            })
            .collect();
        let mut tell = |arm: String, effect: &Effect, blocks: usize, verdict: &str| {
            entry.effects.extend(told(arm, effect, blocks, verdict, objective));
        };
        let verdict = if end.is_gain { "proven" } else { "within noise" };
        tell("the best found".to_owned(), &end.gain, end.blocks, verdict);
        for line in &end.lines {
            let verdict = |effect: &Effect| {
                let stands = effect.is_gain() || effect.is_loss();
                if stands { "proven" } else { "within noise" }
            };
            let arm = format!("{} = {} instead of {}", line.name, line.home, line.value);
            tell(arm, &line.without, end.blocks, verdict(&line.without));
            let arm = format!("{} = {} again", line.name, line.was);
            tell(arm, &line.harm, end.blocks, verdict(&line.harm));
        }
        let confirmed = state.confirmed();
        let verdict = if confirmed.is_gain() { "proven" } else { "undecided" };
        let pairs = state.confirmation.pairs();
        if pairs > 0 {
            tell("the promoted on fresh data".to_owned(), &confirmed, pairs, verdict);
        }
        for (name, effect) in levers::effects(&state.levers) {
            let proven = effect.is_gain() || effect.is_loss();
            let verdict = if proven { "proven" } else { "undecided" };
            tell(name, &effect, levers::BLOCKS as usize, verdict);
        }
        entry.durability = end
            .configuration
            .iter()
            .filter_map(|(name, value)| class(name, value))
            .max_by_key(|class| matches!(class, DurabilityClass::D));
    }
    entry.decision = Some(match &state.promoted {
        Some(_) => "Promoted; the configuration is kept with the tune.".to_owned(),
        None => "Nothing is promoted: the baseline stays.".to_owned(),
    });
    entry.next_question = Some(next_question(state, objective));
    let mut notes: Vec<String> = state.crash.iter().map(words::crash).collect();
    notes.push(format!("What held the baseline back: {}", state.cause.verdict));
    entry.notes = Some(notes.join(" "));
    entry
}

/// What setting a searched parameter to a value can lose.
fn class(name: &str, value: &str) -> Option<DurabilityClass> {
    parameter(name).map(|parameter| parameter.class_of(value))
}

fn told(
    arm: String,
    effect: &Effect,
    blocks: usize,
    verdict: &str,
    objective: &Objective,
) -> Option<Told> {
    let effect = words::of_figure(effect, objective);
    let estimate = effect.estimate()?;
    Some(Told {
        arm,
        metric: objective.name(),
        change: estimate.center,
        interval: estimate.interval.map(|ends| [ends.low, ends.high]),
        confidence: estimate.confidence.level(),
        // What the model says rests on all measurements, not on blocks.
        blocks: u32::try_from(blocks).ok().filter(|_| estimate.method != Method::GaussianProcess),
        corrected_p: None,
        noise_floor: None,
        verdict: verdict.to_owned(),
    })
}

fn next_question(state: &TuneState, objective: &Objective) -> String {
    let best = levers::effects(&state.levers)
        .into_iter()
        .filter(|(_, effect)| effect.is_gain())
        .max_by(|a, b| {
            let center = |e: &Effect| e.estimate().map_or(0.0, |e| e.center);
            center(&a.1).total_cmp(&center(&b.1))
        });
    match (best, state.promoted.is_some()) {
        (Some((name, effect)), _) => format!(
            "Can the application use {name}? It changes {} by {}.",
            objective.name(),
            words::effect(&words::of_figure(&effect, objective))
        ),
        (None, true) => "Does the gain hold at another scale and with other clients?".to_owned(),
        (None, false) => {
            "What can be changed outside the configuration: the client, the schema, the machine?"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::promote::tests::ended;

    #[test]
    fn the_account_has_question_change_effects_and_decision_and_is_given_once() {
        let directory = tempfile::tempdir().unwrap();
        let lab = Lab::at(Some(directory.path().to_owned()));
        let mut state = ended();
        state.promoted = Some("config.env".to_owned());
        let objective = state.plan.objective().unwrap();
        let name = append(&lab, &state, &objective).unwrap();
        assert_eq!(append(&lab, &state, &objective).unwrap(), name);
        let contents = Journal::of(&lab).read().unwrap();
        assert_eq!(contents.entries.len(), 1);
        let entry = &contents.entries[0];
        assert!(entry.baseline.as_ref().unwrap().contains("commit_delay = 5000"));
        let delay = entry.changes.iter().find(|change| change.name == "commit_delay").unwrap();
        assert_eq!((delay.from.as_deref(), delay.to.as_deref()), (Some("5000"), Some("0")));
        let told: Vec<&str> = entry.effects.iter().map(|effect| effect.arm.as_str()).collect();
        assert!(told.contains(&"the best found") && told.contains(&"the promoted on fresh data"));
        assert!(entry.effects.iter().all(|effect| effect.interval.is_some()));
        assert!(entry.plots[0].svg.starts_with("<svg") && entry.plots[0].svg.ends_with("</svg>"));
        assert!(entry.decision.as_ref().unwrap().starts_with("Promoted"));
    }
}
