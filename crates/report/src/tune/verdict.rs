//! What a tune came to, in a few sentences.

use walwright_search::Effect;
use walwright_tune::{
    Cause, Objective, TuneState, about, again_on, client_option_effects, effect, percent,
    shown as of_figure,
};

/// Names told in a sentence.
const TOLD: usize = 6;

/// The whole in a few sentences.
pub fn verdict(state: &TuneState, objective: &Objective) -> String {
    let Some(end) = state.conclusion() else {
        let made = state.made.len();
        return match state.best_so_far() {
            Some(best) => format!(
                "The search is unfinished. The best of {made} measurements changes {} by {}: {}.",
                objective.name(),
                effect(&of_figure(&best.gain, objective)),
                best.changes.join(", ")
            ),
            None => "The search is unfinished.".to_owned(),
        };
    };
    let gain = effect(&of_figure(&end.gain, objective));
    let name = objective.name();
    let outside = outside(state, objective);
    if !end.is_proposed {
        let claim = claim(state, &name, &end.gain).unwrap_or_else(|| {
            format!(
                "Inconclusive: no gain in {name} is proven and none is excluded; increase --runs"
            )
        });
        let found = match &end.gain {
            Effect::Crashed => "The best configuration found did not run in every block".to_owned(),
            _ => format!(
                "The best configuration found differs from the baseline by {gain} over {} blocks",
                end.blocks
            ),
        };
        return format!(
            "{claim}. {found}. {}{outside}",
            limit(&state.cause, "What limits", "The baseline")
        );
    }
    let confirmed = &state.confirmation;
    let effect_confirmed = state.confirmed();
    let replay = effect(&of_figure(&effect_confirmed, objective));
    let on = again_on(state);
    if let Some(failure) = confirmed.failure() {
        return format!(
            "Over {} blocks {name} changed by {gain}, but {on} {failure}. Nothing is promoted. {}{outside}",
            end.blocks,
            limit(&state.cause, "What limits", "The baseline")
        );
    }
    if !state.is_confirmed() {
        return format!(
            "Over {} blocks {name} changes by {gain}; not confirmed yet, with {} of {} pairs made.",
            end.blocks,
            confirmed.pairs(),
            state.confirming_pairs()
        );
    }
    match (confirmed.pairs(), effect_confirmed.is_gain()) {
        (pairs, true) => format!(
            "Over {} blocks {name} changes by {gain}{}, and by {replay} over {pairs} pairs {on} with other seeds{}{}{}.{}{}{outside}",
            end.blocks,
            if end.gain.is_gain() { "" } else { " (not proven by these)" },
            throughput_kept(state, objective),
            looked_twice(state),
            checkpoints_held(state),
            not_promoted(state),
            next_limit(state).map_or(String::new(), |told| format!(" {told}"))
        ),
        (pairs, false) => format!(
            "Over {} blocks {name} changed by {gain}, and {on} by {replay} over {pairs} pairs{}: that proves no gain, so nothing is promoted. {}. {}{outside}",
            end.blocks,
            looked_twice(state),
            claim(state, &name, &effect_confirmed)
                .unwrap_or_else(|| left_open(state, &effect_confirmed)),
            limit(&state.cause, "What limits", "The baseline")
        ),
    }
}

/// That configuration does not limit, where the best that was found excludes a gain worth
/// a change.
pub(super) fn claim(state: &TuneState, name: &str, best: &Effect) -> Option<String> {
    // What is worse for certain says nothing of what else there is.
    let excluded = !best.is_loss() && best.excludes(state.questions().worth);
    excluded.then(|| match not_searched(state) {
        None => format!("Configuration does not limit {name} here"),
        Some(but) => {
            format!(
                "The part of the configuration that was searched does not limit {name} here ({but})"
            )
        }
    })
}

/// What is to be said where configuration may limit all the same.
fn left_open(state: &TuneState, best: &Effect) -> String {
    if best.is_loss() {
        return "It is worse; other configurations may be better: increase --runs".to_owned();
    }
    let takes = state.pairs_needed().map_or_else(
        || "more pairs, or longer windows of the confirmation".to_owned(),
        |needed| {
            format!("{} pairs of such windows (--confirm-pairs), or longer ones", about(needed))
        },
    );
    format!("None is excluded either: that takes {takes}")
}

/// What of the configuration was not searched though it may limit; `None` where nothing.
fn not_searched(state: &TuneState) -> Option<String> {
    let mut told = Vec::new();
    if let Some(searcher) = &state.searcher {
        let (dimensions, budget) = (searcher.space().dimensions.len(), searcher.budget());
        if !budget.looks_at_all(dimensions) {
            told.push(format!(
                "{} measurements are too few to look at each of {dimensions} parameters",
                budget.runs
            ));
        }
    }
    let held: Vec<&str> =
        state.dropped.iter().filter(|d| d.may_limit).map(|d| d.name.as_str()).collect();
    match &held[..] {
        _ if !state.plan.only.is_empty() => {
            told.push(format!("only {}", state.plan.only.join(", ")))
        }
        [] => {}
        few if few.len() <= TOLD => told.push(format!("without {}", few.join(", "))),
        many => {
            told.push(format!("without {} and {} more", many[..TOLD].join(", "), many.len() - TOLD))
        }
    }
    (!told.is_empty()).then(|| told.join("; "))
}

/// That an interval on fresh data is wider than others, and why, as a part of a sentence.
fn looked_twice(state: &TuneState) -> String {
    let confidence = state.questions().confidence();
    match confidence == walwright_stats::Confidence::P95 {
        true => String::new(),
        false => format!(" (at {}, for two looks)", percent(confidence.level())),
    }
}

/// How many checkpoints every window of the winner held, as the end of a sentence.
fn checkpoints_held(state: &TuneState) -> String {
    let (confirmed, window) = (&state.confirmation, state.plan.confirm_window);
    match confirmed.least_checkpoints() {
        Some(least) if confirmed.held_checkpoints() => {
            format!(", at least {least:.0} checkpoints in each window of {window}")
        }
        Some(least) if least >= 1.0 => {
            format!(", at least one checkpoint in each window of {window}")
        }
        _ => String::new(),
    }
}

/// What became of throughput where it is to be kept, as a part of a sentence.
fn throughput_kept(state: &TuneState, objective: &Objective) -> String {
    match objective.allowed_loss.is_some() {
        true => match state.confirmed_throughput() {
            of @ Effect::Measured(_) => format!(", throughput by {}", effect(&of)),
            _ => ", at a throughput that is not known".to_owned(),
        },
        false => String::new(),
    }
}

/// Why a gain is not promoted all the same, as a sentence after others.
fn not_promoted(state: &TuneState) -> String {
    let why = state.not_promoted.as_ref();
    why.map_or(String::new(), |why| format!(" Nothing is promoted: {why}."))
}

/// What holds back what is promoted, as a sentence; where a gain is not promoted, what holds
/// the baseline back, which stays. `None` without a gain.
fn next_limit(state: &TuneState) -> Option<String> {
    if !state.confirmed().is_gain() {
        return None;
    }
    if state.not_promoted.is_some() {
        return Some(limit(&state.cause, "What limits", "The baseline"));
    }
    let cause = state.next_cause.as_ref().filter(|cause| !cause.verdict.is_empty())?;
    Some(limit(cause, "What limits then", "The winner"))
}

/// What a diagnosis names, and where it names nothing, what it says and how busy the
/// processors were.
fn limit(cause: &Cause, limits: &str, whose: &str) -> String {
    if !cause.problems.is_empty() {
        return format!("{limits}: {}", cause.verdict);
    }
    let told = cause.verdict.contains("processors");
    let busy = cause
        .busy
        .filter(|_| !told)
        .map(|busy| format!(" Processors were {:.0} % busy.", 100.0 * busy));
    format!("{whose}'s diagnosis: {}{}", cause.verdict, busy.unwrap_or_default())
}

/// What was measured outside the configuration, as a sentence after others.
fn outside(state: &TuneState, objective: &Objective) -> String {
    let told: Vec<String> = client_option_effects(&state.client_options)
        .into_iter()
        .map(|of| {
            format!("{} {}", of.client_option.name, effect(&of_figure(&of.effect, objective)))
        })
        .collect();
    match told.is_empty() {
        true => String::new(),
        false => format!(" Outside the configuration: {}.", told.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use walwright_tune::fixture::{ended, ended_after, ended_over};
    use walwright_tune::{Dropped, Phase};

    use super::*;

    #[test]
    fn what_was_not_searched_is_not_said_not_to_limit() {
        let dimensions = ["commit_delay", "wal_writer_delay", "bgwriter_delay"].map(|name| {
            let parameter = walwright_catalog::parameter(name).unwrap();
            walwright_search::Dimension::of(parameter, 18, None).unwrap()
        });
        let mut state = ended_over(dimensions.to_vec(), &[], |_| 0.0);
        let objective = state.plan.objective().unwrap();
        state.dropped = vec![Dropped::of("work_mem", "not of writes")];
        let whole = verdict(&state, &objective);
        assert!(whole.starts_with("Configuration does not limit throughput here."), "{whole}");
        state.dropped.push(Dropped::held_back("shared_buffers", "it takes a restart"));
        let told = verdict(&state, &objective);
        assert!(told.contains("does not limit throughput here (without shared_buffers)"), "{told}");
        state.plan.only = vec!["commit_delay".to_owned()];
        assert!(verdict(&state, &objective).contains("here (only commit_delay)"));
    }

    #[test]
    fn what_too_few_measurements_looked_at_is_not_said_not_to_limit() {
        let names = [
            "commit_delay",
            "wal_writer_delay",
            "bgwriter_delay",
            "wal_compression",
            "autovacuum_naptime",
        ];
        let dimensions = names.map(|name| {
            let parameter = walwright_catalog::parameter(name).unwrap();
            walwright_search::Dimension::of(parameter, 18, None).unwrap()
        });
        for (runs, is_told) in [(40, false), (16, true)] {
            let state = ended_after(runs, dimensions.to_vec(), &[], |_| 0.0);
            let few = "16 measurements are too few to look at each of 5 parameters";
            assert_eq!(not_searched(&state).as_deref(), is_told.then_some(few));
        }
    }

    #[test]
    fn a_confirmation_that_did_not_run_says_which_and_why() {
        let mut state = ended();
        let objective = state.plan.objective().unwrap();
        state.confirmation.made.truncate(3);
        let failed = &mut state.confirmation.made[2];
        (failed.score, failed.crashed) = (None, Some("FATAL: no memory".to_owned()));
        assert_eq!(state.confirmation.next(5), None, "nothing can be confirmed any more");
        let told = verdict(&state, &objective);
        let failure = "but on fresh data the winner did not run in pair 2: FATAL: no memory. Nothing is promoted.";
        assert!(told.contains(failure), "{told}");
    }

    #[test]
    fn a_gain_is_told_with_its_checkpoints_and_what_limits_then() {
        let mut state = ended();
        let objective = state.plan.objective().unwrap();
        let told = verdict(&state, &objective);
        assert!(told.contains("at least 2 checkpoints in each window of 20s."), "{told}");
        assert!(!told.contains("What limits"), "{told}");

        let cause = |verdict: &str| Cause {
            verdict: verdict.to_owned(),
            problems: vec!["a problem".to_owned()],
            busy: Some(0.884),
        };
        state.next_cause = Some(cause("Processors are the limit."));
        state.confirmation.made[1].checkpoints = Some(1.0);
        let told = verdict(&state, &objective);
        assert!(told.contains("at least one checkpoint in each window of 20s."), "{told}");
        assert!(told.contains("What limits then: Processors are the limit."), "{told}");
        // A gain that did not show again leaves the baseline, and its cause, in place.
        state.confirmation.made.iter_mut().for_each(|made| made.score = Some(7.0));
        state.cause = cause("Flushes are the limit.");
        let told = verdict(&state, &objective);
        assert!(told.contains("nothing is promoted. Configuration does not limit"), "{told}");
        assert!(told.ends_with("What limits: Flushes are the limit."), "{told}");
        assert_eq!(next_limit(&state), None);
        state.cause = Cause { problems: Vec::new(), ..cause("Nothing to fix here.") };
        let told = verdict(&state, &objective);
        let end = "The baseline's diagnosis: Nothing to fix here. Processors were 88 % busy.";
        assert!(told.ends_with(end), "{told}");
        // Too wide an interval excludes nothing.
        state.confirmation.made[1].score = Some(7.4);
        let told = verdict(&state, &objective);
        assert!(told.contains("None is excluded either"), "{told}");
        for made in &mut state.confirmation.made {
            made.score =
                Some(7.0 + 0.001 * f64::from(made.pair) - f64::from(u8::from(made.is_winner)));
        }
        let told = verdict(&state, &objective);
        assert!(told.contains("It is worse; other configurations"), "{told}");
        // What half of it says is no answer.
        state.phase = Phase::Confirm;
        state.confirmation.made.truncate(4);
        let told = verdict(&state, &objective);
        assert!(told.ends_with("not confirmed yet, with 2 of 5 pairs made."), "{told}");
    }

    #[test]
    fn an_open_confirmation_says_what_it_takes_and_an_earlier_one_is_judged_as_it_was() {
        let mut state = ended();
        let objective = state.plan.objective().unwrap();
        let pair = state.confirmation.made[..4].to_vec();
        state.confirmation.made.clear();
        for number in 0..24 {
            let mut made = pair[number % 4].clone();
            let gain = [0.3, -0.2, 0.1][number / 2 % 3];
            (made.pair, made.score) =
                (number as u32 / 2, Some(if made.is_winner { gain } else { 0.0 }));
            state.confirmation.made.push(made);
        }
        let told = verdict(&state, &objective);
        let takes = told.split("that takes about ").nth(1).expect(&told);
        let pairs: u32 = takes.split(' ').next().unwrap().parse().unwrap();
        assert!(pairs > 40 && told.contains("(at 97.5 %, for two looks)"), "{told}");
        state.format = 2;
        assert_eq!(state.questions().most, 12);
        let told = verdict(&state, &objective);
        assert!(!told.contains("two looks"), "{told}");
    }
}
