//! The journal's account of a tune.

use walwright_catalog::{DurabilityClass, parameter};
use walwright_record::RunId;
use walwright_record::journal::{Change, Effect as Told, Entry, Origin, Plot};
use walwright_search::{Conclusion, Effect, Line};
use walwright_tune::{
    ClientOptionEffect, Kept, Layer, Objective, Open, TuneState, again_on, client_option_effects,
    crash_in_words, effect, kept, shown,
};

use super::course::course as measured;
use super::verdict;

/// Lines named of those that went back together.
const TOLD: usize = 3;

/// The journal's entry of a tune that has ended.
pub fn tune_entry(state: &TuneState, objective: &Objective) -> Entry {
    let end = state.conclusion();
    let settings: Vec<String> =
        state.plan.settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let version = state.server_version.as_deref().unwrap_or("of unknown version");
    let around = state.plan.surroundings_in_words();
    let baseline = match settings.is_empty() {
        true => format!("PostgreSQL {version} at its defaults{around}"),
        false => format!("PostgreSQL {version} with {}{around}", settings.join(", ")),
    };
    let workload = state.plan.workload.clone();
    let load = workload.as_deref().unwrap_or("this load");
    let mut entry = Entry {
        origin: Origin::Tuning,
        workload: workload.clone(),
        baseline: Some(baseline),
        runs: runs(state),
        experiments: vec![state.id.clone()],
        result: Some(verdict::verdict(state, objective)),
        plots: course(state, objective).into_iter().collect(),
        ..Entry::asking(format!(
            "What configuration is best for {} of {load}, and does configuration limit it?",
            objective.name()
        ))
    };
    if let Some(end) = end {
        entry.changes = kept(end)
            .map(|line| Change {
                name: line.name.clone(),
                from: Some(line.was.clone()),
                to: end.configuration.get(&line.name).cloned(),
            })
            .collect();
        let mut tell = |arm: String, effect: &Effect, blocks: usize, verdict: &str| {
            entry.effects.extend(told(arm, effect, blocks, verdict, objective));
        };
        let verdict = match (end.gain.is_gain(), end.is_proposed) {
            (true, _) => "proven",
            (false, true) => "open",
            (false, false) if end.gain.is_loss() => "worse",
            (false, false) => "within noise",
        };
        tell("the best found".to_owned(), &end.gain, end.blocks, verdict);
        let verdict = |effect: &Effect| match effect.is_gain() || effect.is_loss() {
            true if effect.is_modelled() => "likely",
            true => "proven",
            false => "within noise",
        };
        let (together, alone): (Vec<&Line>, Vec<&Line>) =
            end.lines.iter().partition(|line| line.together > 0);
        for line in alone {
            tell(at_default(line), &line.without, end.blocks, verdict(&line.without));
        }
        for line in &end.lines {
            let arm = format!("{} = {} again", line.name, line.was);
            tell(arm, &line.harm, end.blocks, verdict(&line.harm));
        }
        // They were measured as one.
        if let Some(first) = together.first() {
            tell(
                together_at_defaults(&together),
                &first.without,
                end.blocks,
                verdict(&first.without),
            );
        }
        let confirmed = state.confirmed();
        let verdict = match state.confirmation.open(&state.questions()) {
            _ if confirmed.is_gain() => "proven",
            _ if confirmed.is_loss() => "worse",
            None => "excluded",
            Some(_) => "open",
        };
        let pairs = state.confirmation.pairs();
        if pairs > 0 {
            let arm = format!("the winner {}", again_on(state));
            tell(arm, &confirmed, pairs, verdict);
        }
        for ClientOptionEffect { client_option, effect, blocks } in
            client_option_effects(&state.client_options)
        {
            let proven = effect.is_gain() || effect.is_loss();
            let verdict = if proven { "proven" } else { "open" };
            tell(client_option.name.clone(), &effect, blocks, verdict);
        }
        if pairs > 0 && objective.allowed_loss.is_some() {
            entry.effects.extend(throughput(state, pairs));
        }
        entry.durability = durability(state, end);
    }
    entry.decision = Some(match &state.promoted {
        Some(_) => "Promoted; the configuration is kept with the tune.".to_owned(),
        None => match &state.not_promoted {
            Some(why) => format!("Nothing is promoted and the baseline stays: {why}."),
            None => "Nothing is promoted: the baseline stays.".to_owned(),
        },
    });
    entry.next_question = Some(next_question(state, objective));
    let mut notes: Vec<String> =
        crash_in_words(state).into_iter().map(|told| format!("{told}.")).collect();
    notes.push(format!("Limits of the baseline: {}", state.cause.verdict));
    notes.extend(beyond_settings(state));
    entry.notes = Some(notes.join(" "));
    entry
}

/// The course of the search.
fn course(state: &TuneState, objective: &Objective) -> Option<Plot> {
    let svg = measured(state, objective)?.svg()?;
    Some(Plot { title: "The course of the search".to_owned(), svg })
}

/// What the winner does to throughput, where that is to be kept.
fn throughput(state: &TuneState, pairs: usize) -> Option<Told> {
    let verdict = match state.keeps_throughput()? {
        Kept::Yes => "kept",
        Kept::No => "lost",
        Kept::Open => "open",
    };
    let arm = format!("the winner {}", again_on(state));
    let throughput = Objective::parse("throughput").ok()?;
    told(arm, &state.confirmed_throughput(), pairs, verdict, &throughput)
}

/// The runs it rests on. That which was diagnosed need not be a measurement of the search.
fn runs(state: &TuneState) -> Vec<RunId> {
    let made = state.made.iter().filter_map(|made| made.run.clone());
    let confirming = state.confirmation.made.iter().filter_map(|made| made.run.clone());
    let diagnosed = state.diagnosed_run.iter().cloned();
    let mut runs: Vec<RunId> = diagnosed.chain(made).chain(confirming).collect();
    runs.dedup();
    runs
}

/// What a reader has to know of changes that are no settings.
fn beyond_settings(state: &TuneState) -> Vec<String> {
    let mut notes = Vec::new();
    let dimensions = state.searcher.iter().flat_map(|searcher| &searcher.space().dimensions);
    let kernel: Vec<&str> = dimensions
        .map(|dimension| dimension.name.as_str())
        .filter(|name| Layer::of(name) == Layer::Kernel)
        .collect();
    if !kernel.is_empty() {
        notes.push(format!(
            "Values of the kernel that were searched, each restored after its run: {}.",
            kernel.join(", ")
        ));
    }
    let promoted = state.promoted.is_some();
    for change in state.schema_changes().into_iter().filter(|_| promoted) {
        notes.push(format!(
            "{}: {}: {}; undone by {}.",
            change.name,
            change.value,
            change.statements.join("; "),
            change.undo.join("; ")
        ));
    }
    if state.rewrites_tables() {
        notes.push(
            "Every measurement began by rewriting the tables whose fill factor was searched, the baseline's too."
                .to_owned(),
        );
    }
    for together in state.client_options.chunk_by(|a, b| a.note == b.note) {
        let names: Vec<&str> =
            together.iter().map(|client_option| client_option.name.as_str()).collect();
        let note = together.first().and_then(|client_option| client_option.note.as_ref());
        notes.extend(note.map(|note| format!("{}: {note}.", names.join(", "))));
    }
    for left in &state.client_options_left_out {
        notes.push(format!("{} was not measured: {}.", left.name, left.why));
    }
    notes
}

/// What the worst of the values that are no default can lose, in what is promoted or, where
/// nothing is, in the baseline.
fn durability(state: &TuneState, end: &Conclusion) -> Option<DurabilityClass> {
    let left = match (&state.promoted, &state.searcher) {
        (None, Some(searcher)) => searcher.baseline(),
        _ => &end.configuration,
    };
    let class = |name: &str, value: &str| {
        parameter(name).map_or(DurabilityClass::S, |known| known.class_of(value))
    };
    let dimensions = state.searcher.iter().flat_map(|searcher| &searcher.space().dimensions);
    let searched = dimensions
        .filter_map(|of| Some((of, left.get(&of.name)?)))
        .filter(|(of, value)| **value != of.home)
        .map(|(of, value)| class(&of.name, value));
    let kept = state.kept_of_baseline(end).map(|(name, value)| class(name, value));
    searched.chain(kept).max_by_key(|class| class.severity())
}

fn told(
    arm: String,
    effect: &Effect,
    blocks: usize,
    verdict: &str,
    objective: &Objective,
) -> Option<Told> {
    let effect = shown(effect, objective);
    let estimate = effect.estimate()?;
    Some(Told {
        arm,
        metric: objective.name(),
        change: estimate.center,
        interval: estimate.interval.map(|ends| [ends.low, ends.high]),
        confidence: estimate.confidence.level(),
        // What the model says rests on all measurements, not on blocks.
        blocks: u32::try_from(blocks).ok().filter(|_| !effect.is_modelled()),
        corrected_p: None,
        noise_floor: None,
        verdict: verdict.to_owned(),
    })
}

fn next_question(state: &TuneState, objective: &Objective) -> String {
    let best = client_option_effects(&state.client_options)
        .into_iter()
        .filter(|of| of.effect.is_gain())
        .max_by(|a, b| {
            let center = |of: &ClientOptionEffect| of.effect.estimate().map_or(0.0, |e| e.center);
            center(a).total_cmp(&center(b))
        });
    match (best, state.promoted.is_some()) {
        (Some(ClientOptionEffect { client_option, effect: of, .. }), _) => format!(
            "Can the application use {}? It changes {} by {}.",
            client_option.name,
            objective.name(),
            effect(&shown(&of, objective))
        ),
        (None, true) => "Does the gain hold at another scale and with other clients?".to_owned(),
        (None, false) if open(state) == Some(Open::Throughput) => {
            "Is throughput kept? More confirmation pairs or longer windows may tell.".to_owned()
        }
        (None, false) if open(state) == Some(Open::Gain) => {
            "Is there a gain? More confirmation pairs or longer windows may tell.".to_owned()
        }
        (None, false) => {
            "What can be changed outside the configuration: the client, the schema, the machine?"
                .to_owned()
        }
    }
}

/// What the confirmation leaves open; `None` without one.
fn open(state: &TuneState) -> Option<Open> {
    let confirmation = &state.confirmation;
    (confirmation.pairs() > 0).then(|| confirmation.open(&state.questions())).flatten()
}

fn at_default(line: &Line) -> String {
    format!("{} = {} instead of {}", line.name, line.home, line.value)
}

/// Lines that went back in the same measurements, as one arm.
fn together_at_defaults(lines: &[&Line]) -> String {
    let told: Vec<String> = lines.iter().take(TOLD).map(|line| at_default(line)).collect();
    let more = match lines.len().saturating_sub(TOLD) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("together: {}{more}", told.join(", "))
}

#[cfg(test)]
mod tests {
    use walwright_tune::fixture::{ended, ended_with_schema};
    use walwright_tune::{Cause, Dropped};

    use super::*;

    #[test]
    fn an_entry_has_question_change_effects_and_decision() {
        let mut state = ended();
        state.promoted = Some("config.env".to_owned());
        let limit = "Processors are the limit.".to_owned();
        let problems = vec!["processors".to_owned()];
        state.next_cause = Some(Cause { verdict: limit, problems, ..Cause::default() });
        let objective = state.plan.objective().unwrap();
        let entry = tune_entry(&state, &objective);
        assert!(entry.baseline.as_ref().unwrap().contains("commit_delay = 5000"));
        let delay = entry.changes.iter().find(|change| change.name == "commit_delay").unwrap();
        assert_eq!((delay.from.as_deref(), delay.to.as_deref()), (Some("5000"), Some("0")));
        let told: Vec<&str> = entry.effects.iter().map(|effect| effect.arm.as_str()).collect();
        assert!(told.contains(&"the best found") && told.contains(&"the winner on fresh data"));
        assert!(entry.effects.iter().all(|effect| effect.interval.is_some()));
        assert!(entry.plots[0].svg.starts_with("<svg") && entry.plots[0].svg.ends_with("</svg>"));
        assert!(entry.decision.as_ref().unwrap().starts_with("Promoted"));
        let result = entry.result.as_ref().unwrap();
        assert!(result.ends_with("What limits then: Processors are the limit."), "{result}");
        assert!(!entry.notes.as_ref().unwrap().contains("What limits then"));
    }

    #[test]
    fn a_gain_that_may_cost_throughput_is_told_with_what_is_open() {
        let mut state = ended();
        state.plan.objective = "wal-bytes".to_owned();
        state.not_promoted = Some("it is open".to_owned());
        for made in state.confirmation.made.iter_mut().filter(|made| made.is_winner) {
            made.throughput = Some([980.0, 900.0, 1_150.0][made.pair as usize % 3]);
            made.run = Some(RunId(format!("confirmed-{}", made.pair)));
        }
        let entry = tune_entry(&state, &state.plan.objective().unwrap());
        let told = entry.effects.iter().find(|effect| effect.metric == "throughput").unwrap();
        assert_eq!(
            (told.arm.as_str(), told.verdict.as_str()),
            ("the winner on fresh data", "open")
        );
        assert!(entry.next_question.unwrap().starts_with("Is throughput kept?"));
        assert!(entry.runs.contains(&RunId("confirmed-4".to_owned())));
        let result = entry.result.unwrap();
        assert!(
            result.contains("Nothing is promoted: it is open.") && !result.contains("limits then"),
            "{result}"
        );
    }

    #[test]
    fn what_went_back_together_is_told_once() {
        let state = ended();
        let end = state.conclusion().unwrap();
        let line = |number: usize| Line { name: format!("p{number}"), ..end.lines[0].clone() };
        let lines: Vec<Line> = (0..5).map(line).collect();
        let all: Vec<&Line> = lines.iter().collect();
        let told = together_at_defaults(&all);
        assert!(told.starts_with("together: p0 = ") && told.ends_with(" and 2 more"), "{told}");
        assert!(!together_at_defaults(&all[..3]).contains("more"));
    }

    #[test]
    fn the_account_names_each_layer_and_how_it_is_undone() {
        let mut state = ended_with_schema();
        state.promoted = Some("config.env".to_owned());
        let text = r#"{"name":"10 transactions in one commit","load":{},"units":10,
                       "note":"lost together","scores":[1.0]}"#;
        state.client_options = vec![serde_json::from_str(text).unwrap()];
        let why = "there is only one";
        state.client_options_left_out = vec![Dropped::of("fewer", why)];
        let objective = state.plan.objective().unwrap();
        let entry = tune_entry(&state, &objective);
        let to = |name: &str| {
            entry.changes.iter().find(|change| change.name == name).and_then(|c| c.to.clone())
        };
        assert_eq!(to("index public.t_n").as_deref(), Some("dropped"));
        assert!(to("vm.dirty_background_bytes").is_some());
        assert_eq!(entry.durability, Some(DurabilityClass::E), "the kernel's value is the worst");
        let notes = entry.notes.unwrap();
        assert!(notes.contains("after its start. Limits of the baseline"), "{notes}");
        for told in [
            "each restored after its run: vm.dirty_background_bytes",
            "undone by CREATE INDEX t_n",
            "the baseline's too",
            "10 transactions in one commit: lost together",
            "fewer was not measured: there is only one",
        ] {
            assert!(notes.contains(told), "{told}: {notes}");
        }
        // What is not promoted changes nothing.
        state.promoted = None;
        let entry = tune_entry(&state, &objective);
        assert_eq!(entry.durability, None, "the baseline is the defaults");
        assert!(!entry.notes.unwrap().contains("CREATE INDEX"));
    }
}
