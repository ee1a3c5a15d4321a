//! The promoted configuration: `config.env`, with the proof of each line.

use std::path::{Path, PathBuf};

use walwright_catalog::{DurabilityClass, Entry, Origin, Profile, Proof, parameter};
use walwright_search::{Conclusion, Effect, Line, Standing};
use walwright_store::{Lab, write_whole};

use super::confirm::Kept;
use super::layer::Layer;
use super::state::Phase;
use super::{Objective, TuneError, TuneState, conduct, folder, schema_file, words};

/// Writes the promoted configuration of a tune to `path`.
///
/// What is there already is replaced by `force` alone.
///
/// # Errors
/// When the tune has nothing to promote, or the file is there or cannot be written.
pub fn promote(lab: &Lab, name: &str, path: &Path, force: bool) -> Result<TuneState, TuneError> {
    let state = conduct::show(lab, &folder::find(lab, name)?)?;
    let objective = state.plan.objective()?;
    let mut files = vec![(path.to_owned(), text(&state, &objective)?)];
    files.extend(schema_file::text(&state, &objective).map(|sql| (schema_file::path(path), sql)));
    if !force {
        files.iter().try_for_each(|(path, _)| is_free(path))?;
    }
    for (path, text) in files {
        write(&path, &text)?;
    }
    Ok(state)
}

/// Where [`promote`] writes the statements on the schema that belong to the configuration at
/// `path`; `None` where there are none.
pub fn promoted_schema(state: &TuneState, path: &Path) -> Option<PathBuf> {
    (!state.schema_changes().is_empty()).then(|| schema_file::path(path))
}

/// That nothing is lost by writing a file. A pipe or a device holds nothing that would be.
fn is_free(path: &Path) -> Result<(), TuneError> {
    if path.is_file() { Err(TuneError::Exists(path.to_owned())) } else { Ok(()) }
}

fn write(path: &Path, text: &str) -> Result<(), TuneError> {
    write_whole(path, text.as_bytes()).map_err(TuneError::file("write", path))
}

/// The file's text.
pub(super) fn text(state: &TuneState, objective: &Objective) -> Result<String, TuneError> {
    let nothing =
        |why: &str| TuneError::NothingToPromote { id: state.id.clone(), why: why.to_owned() };
    let end = state.conclusion().ok_or_else(|| nothing("it has unfinished"))?;
    // Half a confirmation proves nothing, and the crash is to come.
    if state.phase < Phase::Promote {
        return Err(nothing(&format!(
            "it is unfinished: `walwright tune resume {}` continues it",
            state.id
        )));
    }
    if !end.is_proposed {
        return Err(nothing("no gain was found that is worth confirming"));
    }
    if let Some(failure) = state.confirmation.failure() {
        return Err(nothing(&format!("{}, {failure}", words::again_on(state))));
    }
    if !state.confirmed().is_gain() {
        let why = format!("no gain was proven {}", words::again_on(state));
        return Err(nothing(&why));
    }
    if let Some(loss) = objective.allowed_loss {
        let allowed = words::percent(loss);
        match state.keeps_throughput() {
            Some(Kept::Yes) => {}
            Some(Kept::No) => {
                return Err(nothing(&format!("it costs more than {allowed} of throughput")));
            }
            Some(Kept::Open) => {
                let pairs = state.confirmation.pairs();
                let needed = state.pairs_needed();
                let about =
                    needed.map_or(String::new(), |needed| format!(", {}", words::about(needed)));
                return Err(nothing(&format!(
                    "{pairs} pairs leave open whether throughput is kept within {allowed}; a new tune with more of them (--confirm-pairs{about}) or a longer --confirm-duration may tell"
                )));
            }
            None => return Err(nothing("its throughput in the confirmation is not known")),
        }
    }
    // The attached server is not killed; one of our own with its settings may not start here.
    if state.crash.is_none() && state.plan.server.is_none() {
        return Err(nothing("it has had no crash test"));
    }
    if state.crash.as_ref().is_some_and(|audit| audit.lost > 0) && !may_lose(state, end) {
        return Err(nothing("the server lost acknowledged commits"));
    }
    Ok(profile(state, objective, end)?.to_config_env())
}

/// Whether the winner holds a value that may lose commits. Only what was consented to by
/// name is searched, so it was, or the baseline had it already; consent that the winner
/// makes no use of excuses nothing.
fn may_lose(state: &TuneState, end: &Conclusion) -> bool {
    end.configuration.iter().chain(state.kept_of_baseline(end)).any(|(name, value)| {
        parameter(name).is_some_and(|of| of.class_of(value) == DurabilityClass::D)
    })
}

fn profile(
    state: &TuneState,
    objective: &Objective,
    end: &Conclusion,
) -> Result<Profile, TuneError> {
    let date = date(state);
    let mut entries = Vec::new();
    for line in words::kept(end) {
        let value = &end.configuration[&line.name];
        let part = state.schema.iter().find(|part| part.name == line.name);
        let mut entry = match part {
            // The statements beside this file say the rest of it.
            Some(part) => match part.entry(value) {
                Some(entry) => entry,
                None => continue,
            },
            None => Entry::new(&line.name, value, None)?,
        };
        let having = proof(line, end).inverted();
        let together = if *value == line.home { 0 } else { line.together };
        let by = words::by_what(&having, together);
        entry.comments = vec![format!("# {}{by}", reason(line))];
        entry.comments.extend(warning_of_time(state, line));
        let stands = having.is_gain() || having.is_loss() || having == Effect::Crashed;
        if stands && !having.is_modelled() {
            entry.proof = Some(Proof {
                experiment: format!("tune {}", state.id),
                effect: effect(&having, objective),
                machine: Some(state.machine.clone()),
                date: Some(date.clone()),
            });
        } else if having.estimate().is_some() {
            let told = words::effect(&words::of_figure(&having, objective));
            entry.comments.push(format!("# unproven: {} {told}", objective.name()));
        }
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
    let workload = state.plan.workload_in_words();
    let gain = words::effect(&words::of_figure(&state.confirmed(), objective));
    let title = format!("{workload}, {} {gain} {}", objective.name(), words::again_on(state));
    let mut trailer = vec![String::new()];
    let schema = state.schema_changes();
    if !schema.is_empty() {
        trailer.push("# On the schema, as statements with their undoing in the .schema.sql file beside this one:".to_owned());
        let told = schema.iter().map(|change| schema_file::told(state, change, objective));
        trailer.extend(told.map(|told| format!("#   {}", told.replace('\n', " "))));
    }
    trailer.extend(words::crash(state).map(|told| format!("# {told}")));
    trailer.push(format!(
        "# The baseline: {}{}",
        state
            .server_version
            .as_deref()
            .map_or("PostgreSQL".to_owned(), |v| format!("PostgreSQL {v}")),
        state.plan.surroundings_in_words()
    ));
    Ok(Profile {
        origin: Some(Origin { title, machine: Some(state.machine.clone()), date: Some(date) }),
        entries,
        trailer,
    })
}

/// What proves the promoted value of a line: what its absence costs, or what the
/// baseline's value costs.
fn proof(line: &Line, end: &Conclusion) -> Effect {
    match end.configuration[&line.name] == line.home {
        true => line.cost_of_baseline(),
        false => line.without.clone(),
    }
}

/// A warning about a line that moves cost in time: what was measured must hold whole
/// checkpoints to judge it.
fn warning_of_time(state: &TuneState, line: &Line) -> Option<String> {
    let moves = parameter(&line.name).is_some_and(|p| p.class == DurabilityClass::T);
    (moves && !state.confirmation.held_checkpoints()).then(|| {
        let least = state.confirmation.least_checkpoints();
        let told = match least {
            Some(1.0) => "1 checkpoint".to_owned(),
            Some(least) => format!("{least:.0} checkpoints"),
            None => "an unknown number of checkpoints".to_owned(),
        };
        format!("# it moves cost in time, and windows of the confirmation held {told}")
    })
}

/// Why a line is there.
fn reason(line: &Line) -> String {
    let Line { home, was, .. } = line;
    let usual = Layer::of(&line.name).home();
    match (line.standing, &line.cost_of_baseline()) {
        (Standing::Proven | Standing::Likely, _) => format!("worse with {usual}, {home}"),
        (Standing::Carrying, _) => format!(
            "instead of {usual}, {home}: not proven on its own, but the gain may depend on it"
        ),
        (Standing::Keeping, _) => {
            format!("beside {usual}, {home}: throughput may depend on it")
        }
        (_, harm) if harm.is_loss() || *harm == Effect::Crashed => {
            format!("the default: {was} does harm")
        }
        (_, Effect::Measured(_)) => {
            format!("the default: {was} makes no measurable difference")
        }
        (Standing::NotMeasured, _) => "its own effect was not measured".to_owned(),
        _ => format!("the default instead of {was}: no other value was better"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{ended, ended_with_schema};

    #[test]
    fn a_file_that_is_there_is_not_written_over() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("config.env");
        assert!(super::is_free(&file).is_ok() && super::is_free(Path::new("/dev/null")).is_ok());
        std::fs::write(&file, "mine").unwrap();
        let error = super::is_free(&file).unwrap_err().to_string();
        assert!(error.contains("--force") && error.contains("config.env"), "{error}");
    }

    fn text_of(state: &TuneState) -> Result<String, TuneError> {
        text(state, &state.plan.objective().unwrap())
    }

    #[test]
    fn the_file_reads_back_and_each_line_has_its_proof() {
        let state = ended();
        let text = text_of(&state).unwrap();
        let profile = Profile::from_config_env(text.as_bytes()).unwrap();
        let entry = |name: &str| profile.entries.iter().find(|e| e.parameter.name == name).unwrap();
        let delay = entry("commit_delay");
        assert_eq!(delay.value, "0");
        let proof = delay.proof.as_ref().unwrap();
        let effect = proof.effect.as_ref().unwrap();
        // e to the one: 172 % more.
        assert!((150.0..200.0).contains(&effect.percent) && effect.low > 100.0, "{effect:?}");
        assert!(proof.experiment.contains(&state.id));
        assert!(text.contains("5000 does harm"), "{text}");
        let kept = entry("max_connections");
        assert_eq!((kept.value.as_str(), &kept.proof), ("60", &None));
        assert!(text.contains("none of them was lost") && text.contains("durability class"));
    }

    #[test]
    fn what_only_the_model_says_of_a_line_is_no_proof() {
        let mut state = ended();
        let searcher = serde_json::to_string(&state.searcher).unwrap();
        let modelled = searcher.replace("\"paired_log_ratio\"", "\"gaussian_process\"");
        assert_ne!(searcher, modelled);
        state.searcher = serde_json::from_str(&modelled).unwrap();
        let text = text_of(&state).unwrap();
        assert!(text.contains("5000 does harm, estimated from all measurements"), "{text}");
        assert!(text.contains("# unproven: throughput +"), "{text}");
        let profile = Profile::from_config_env(text.as_bytes()).unwrap();
        assert!(profile.entries.iter().all(|entry| entry.proof.is_none()), "{text}");
    }

    #[test]
    fn less_wal_that_costs_throughput_is_not_promoted() {
        let mut state = ended();
        state.plan.objective = "wal-bytes".to_owned();
        assert!(text_of(&state).is_ok());
        for made in state.confirmation.made.iter_mut().filter(|made| made.is_winner) {
            made.throughput = Some(920.0);
        }
        let error = text_of(&state).unwrap_err().to_string();
        assert!(error.contains("more than 3 % of throughput"), "{error}");
        for made in state.confirmation.made.iter_mut().filter(|made| made.is_winner) {
            made.throughput = Some([980.0, 900.0, 1_150.0][made.pair as usize % 3]);
        }
        let error = text_of(&state).unwrap_err().to_string();
        assert!(error.contains("5 pairs leave open whether throughput"), "{error}");
        state.confirmation.made[1].throughput = None;
        assert!(text_of(&state).unwrap_err().to_string().contains("not known"));
    }

    #[test]
    fn half_a_confirmation_is_not_promoted() {
        let mut state = ended();
        state.phase = Phase::Confirm;
        state.confirmation.made.truncate(2);
        let error = text_of(&state).unwrap_err().to_string();
        assert!(error.contains("unfinished") && error.contains("tune resume"), "{error}");
    }

    #[test]
    fn commits_may_be_lost_where_the_baseline_loses_them_already() {
        let mut state = ended();
        state.crash.as_mut().unwrap().lost = 3;
        assert!(text_of(&state).unwrap_err().to_string().contains("lost acknowledged commits"));
        state.plan.settings.insert("synchronous_commit".to_owned(), "off".to_owned());
        assert!(text_of(&state).is_ok());
    }

    #[test]
    fn each_layer_is_promoted_as_what_it_is() {
        let state = ended_with_schema();
        let objective = state.plan.objective().unwrap();
        let text = text_of(&state).unwrap();
        let profile = Profile::from_config_env(text.as_bytes()).unwrap();
        let titles: Vec<String> = profile.entries.iter().map(Entry::title).collect();
        assert!(titles.contains(&"table.fillfactor (public.t)".to_owned()), "{text}");
        assert!(text.contains("VM_DIRTY_BACKGROUND_BYTES="), "{text}");
        assert!(text.contains("worse with the machine's own value, 0"), "{text}");
        assert!(text.contains("worse with the schema as it was, 100"), "{text}");
        let end = state.conclusion().unwrap();
        let needed: Vec<String> = end
            .lines
            .iter()
            .map(|line| reason(&Line { standing: Standing::Carrying, ..line.clone() }))
            .collect();
        for usual in
            ["instead of the machine's own value, 0", "instead of the schema as it was, 100"]
        {
            assert!(needed.iter().any(|reason| reason.starts_with(usual)), "{needed:?}");
        }
        let index = text.lines().find(|line| line.contains("index public.t_n: dropped")).unwrap();
        assert!(index.contains("instead of kept: ") && index.contains("throughput +"), "{index}");
        let sql = schema_file::text(&state, &objective).unwrap();
        let sent: Vec<&str> =
            sql.lines().filter(|l| !l.is_empty() && !l.starts_with("--")).collect();
        assert_eq!(sent.len(), 4, "{sql}");
        assert!(sent.contains(&"DROP INDEX CONCURRENTLY public.t_n;"), "{sql}");
        assert!(
            sql.contains("-- Undo:\n-- CREATE INDEX t_n ON public.t USING btree (n);"),
            "{sql}"
        );
        assert!(sql.contains("-- ALTER TABLE public.t RESET (fillfactor);"), "{sql}");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("prod.env");
        assert_eq!(promoted_schema(&state, &file), Some(directory.path().join("prod.schema.sql")));
        assert_eq!(promoted_schema(&ended(), &file), None);
    }

    #[test]
    fn what_did_not_replay_or_lost_commits_is_not_promoted() {
        let mut state = ended();
        for made in &mut state.confirmation.made {
            made.score = Some(7.0 + 0.01 * f64::from(made.pair));
        }
        assert!(text_of(&state).unwrap_err().to_string().contains("fresh data"));
        let mut state = ended();
        state.crash.as_mut().unwrap().lost = 1;
        assert!(text_of(&state).unwrap_err().to_string().contains("lost acknowledged commits"));
        state.plan.consent = vec!["synchronous_commit".to_owned()];
        let lost = text_of(&state).unwrap_err().to_string();
        assert!(lost.contains("lost acknowledged commits"), "the winner does not use the consent");
        state.crash = None;
        assert!(text_of(&state).is_err());
    }
}
