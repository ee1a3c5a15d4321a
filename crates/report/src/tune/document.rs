//! The page of a tune, ended or not.

use std::collections::BTreeMap;

use walwright_search::{Effect, Line, Standing};
use walwright_tune::{
    Layer, Objective, Phase, TuneState, by_what, client_option_effects, crash_in_words, effect,
    shown,
};

use super::course::course;
use super::verdict::{claim, verdict};
use crate::compare::words as compared;
use crate::document::{
    Action, Block, Cell, Chart, Column, Document, Field, Figure, Reach, Section, Table, Warning,
};
use crate::format::{self, counted};
use crate::words;

/// The page of a tune.
pub fn tune_document(state: &TuneState, objective: &Objective) -> Document {
    let load = state.plan.workload_in_words();
    let version = state.server_version.as_ref().map(|version| format!("PostgreSQL {version}"));
    let around = state.plan.surroundings_in_words();
    Document {
        kind: "tune",
        date: Some(format::moment(state.begun)),
        id: state.id.clone(),
        title: format!("tune of {load}, objective {}", state.plan.objective),
        deck: vec![format!("{}{around}", version.as_deref().unwrap_or("PostgreSQL"))],
        state: (state.phase != Phase::Done)
            .then(|| ("Unfinished", format!("It has come to its {}.", stage(state)))),
        verdict: Some(headline(state, objective)),
        figures: figures(state, objective),
        warnings: tune_warnings(state).iter().map(|text| Warning::saying(text)).collect(),
        sections: [
            result(state, objective),
            lines(state, objective),
            outside(state, objective),
            search(state, objective),
            method(state),
            kept(state),
        ]
        .into_iter()
        .flatten()
        .collect(),
        ..Document::default()
    }
}

/// What it came to, in a line that needs no statistics.
fn headline(state: &TuneState, objective: &Objective) -> String {
    let name = objective.name();
    let Some(end) = state.conclusion() else {
        return "Nothing is found yet.".to_owned();
    };
    let confirmed = state.confirmed();
    let shown = shown(&confirmed, objective);
    let change = shown.estimate().map_or_else(String::new, |estimate| {
        let ends = estimate.interval.map(|ends| {
            format!(" ({} to {})", compared::percent(ends.low), compared::percent(ends.high))
        });
        format!(" {}{}", compared::percent(estimate.center), ends.unwrap_or_default())
    });
    if !end.is_proposed {
        return claim(state, &name, &end.gain).map_or_else(
            || format!("Inconclusive: no gain in {name} is proven, none excluded."),
            |claim| format!("{claim}."),
        );
    }
    if !state.is_confirmed() {
        return format!("A gain in {name} was found and is not confirmed yet.");
    }
    if !confirmed.is_gain() {
        return format!("No gain in {name} is proven; nothing is promoted.");
    }
    let promoted = match (&state.promoted, state.phase) {
        (Some(_), _) => ", and promoted",
        (None, Phase::Done) => ", but not promoted",
        (None, _) => "",
    };
    format!("Proven: {name}{change}{promoted}.")
}

/// The whole in a few sentences, with the method.
fn result(state: &TuneState, objective: &Objective) -> Option<Section> {
    state.best_so_far()?;
    let told = Block::Text(words::sentence(&verdict(state, objective)));
    Some(Section::new("result", "Result", Reach::Paper, vec![told]))
}

/// Which stage a tune has come to.
pub fn stage(state: &TuneState) -> &'static str {
    match state.phase {
        Phase::Baseline | Phase::Probe => "baseline",
        Phase::Search => "search",
        Phase::ClientOptions => "client options",
        Phase::Confirm => "confirmation",
        Phase::Crash => "crash audit",
        Phase::Promote => "promotion",
        Phase::Done => "end",
    }
}

fn figures(state: &TuneState, objective: &Objective) -> Vec<Figure> {
    let unit = objective.metric.kind().unit;
    let baseline = state.baseline_value().map(|value| compared::value(unit, Some(value)));
    let mut figures: Vec<Figure> = baseline
        .map(|value| Figure::new("Baseline", Some(value)).note(objective.name()))
        .into_iter()
        .collect();
    if let Some(end) = state.conclusion() {
        let gain = cell(&end.gain, objective);
        let note = format!("the best found, over {}", counted(end.blocks as u64, "block"));
        figures.push(Figure::new("Found", Some(gain).filter(|gain| !gain.is_empty())).note(note));
    }
    if state.is_confirmed() {
        let pairs = counted(state.confirmation.pairs() as u64, "pair");
        let note = format!("over {pairs} {}", walwright_tune::again_on(state));
        figures
            .push(Figure::new("Confirmed", Some(cell(&state.confirmed(), objective))).note(note));
    }
    if state.phase != Phase::Done {
        let left =
            Figure::new("Remains", Some(format!("about {}", format::length(state.time_left()))));
        figures.push(left.note("of measuring, by what its measurements have taken"));
    }
    figures
}

/// A change that nobody would call none: an interval that holds it on both sides says nothing.
const LARGE: f64 = 0.1;

/// What became of a line, in words.
fn standing(line: &Line) -> &'static str {
    match line.standing {
        Standing::Proven | Standing::Likely => "yes: worse without it",
        Standing::Carrying => "yes: the gain may depend on it",
        Standing::Keeping => "yes: throughput may depend on it",
        Standing::Returned if line.without.is_gain() => "no, default: it is better",
        Standing::Returned if line.without.is_open(LARGE) => "no, default: effect not known",
        Standing::Returned => "no, default: no difference measured",
        Standing::Restored => "no, yours: it is better",
        Standing::HarmUndone => "no: it did harm",
        Standing::HarmlessUndone if line.harm.is_open(LARGE) => "no: effect not known",
        Standing::HarmlessUndone => "no: no difference measured",
        Standing::NotMeasured => "yes: not measured alone",
    }
}

/// Where what is said of a line is from; empty where blocks of its own measured it.
fn measured_how(line: &Line) -> String {
    let by = match line.standing {
        Standing::HarmUndone | Standing::HarmlessUndone | Standing::Restored => {
            by_what(&line.harm, 0)
        }
        _ => by_what(&line.without, line.together),
    };
    by.trim_start_matches(", ").to_owned()
}

/// Whether it went back with several others, so that one figure is that of all.
fn went_together(line: &Line) -> bool {
    line.standing == Standing::Returned && line.together > 1 && line.harm == Effect::NotMeasured
}

/// An effect in a table, empty where there is none.
fn cell(of: &Effect, objective: &Objective) -> String {
    match of {
        Effect::NotMeasured => String::new(),
        of => effect(&shown(of, objective)),
    }
}

fn lines(state: &TuneState, objective: &Objective) -> Option<Section> {
    let end = state.conclusion()?;
    if end.lines.is_empty() {
        return None;
    }
    let mut blocks = Vec::new();
    if state.phase == Phase::Done && state.promoted.is_none() {
        blocks.push(Block::Muted("The best that was found. It is not promoted.".to_owned()));
    }
    let (together, alone): (Vec<&Line>, Vec<&Line>) =
        end.lines.iter().partition(|line| went_together(line));
    let layer = |line: &&Line| Layer::of(&line.name);
    let layers = alone.iter().any(|line| layer(line) != Layer::Setting);
    let columns = vec![
        Column::code("Parameter"),
        Column::muted("Layer"),
        Column::code("Baseline"),
        Column::code("Found"),
        Column::text("If set to default"),
        Column::text("If set back to yours"),
        Column::text("Kept?"),
    ];
    let row = |line: &Line| -> Vec<Cell> {
        vec![
            line.name.clone().into(),
            Layer::of(&line.name).words().into(),
            line.was.clone().into(),
            line.value.clone().into(),
            cell(&line.without, objective).into(),
            cell(&line.harm, objective).into(),
            standing(line).into(),
        ]
    };
    let mut table = Table { columns, rows: alone.iter().map(|line| row(line)).collect() };
    if !layers {
        table.columns.remove(1);
        table.rows.iter_mut().for_each(|row| drop(row.remove(1)));
    }
    if !table.rows.is_empty() {
        blocks.push(Block::Table(table));
    }
    let mut how: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for line in &alone {
        how.entry(measured_how(line)).or_default().push(&line.name);
    }
    how.remove("");
    for (how, names) in how {
        blocks.push(Block::Muted(format!("{}: {how}.", names.join(", "))));
    }
    if let Some(first) = together.first() {
        let names: Vec<String> =
            together.iter().map(|line| format!("{} = {}", line.name, line.value)).collect();
        blocks.push(Block::Text(format!(
            "Reset to their defaults together, {} by that: {}.",
            cell(&first.without, objective),
            names.join(", ")
        )));
    }
    Some(Section::new("lines", "Each parameter that was changed", Reach::Paper, blocks))
}

/// What was measured outside the configuration.
fn outside(state: &TuneState, objective: &Objective) -> Option<Section> {
    let effects = client_option_effects(&state.client_options);
    let mut blocks = Vec::new();
    for together in effects.chunk_by(|a, b| a.client_option.note == b.client_option.note) {
        let fields = together
            .iter()
            .map(|of| Field::new(&of.client_option.name, effect(&shown(&of.effect, objective))));
        blocks.push(Block::Fields(fields.collect()));
        let note = together.first().and_then(|of| of.client_option.note.clone());
        blocks.extend(note.map(|note| Block::Muted(words::sentence(&note))));
    }
    let left = state.client_options_left_out.iter();
    let left: Vec<String> =
        left.map(|left| format!("{}: not measured: {}", left.name, left.why)).collect();
    if !left.is_empty() {
        blocks.push(Block::List(left));
    }
    let section = Section::new("client", "Options of the client", Reach::Paper, blocks);
    (!section.blocks.is_empty()).then_some(section)
}

fn search(state: &TuneState, objective: &Objective) -> Option<Section> {
    let chart = Block::Chart(Chart::Course(course(state, objective)?));
    Some(Section::new("course", "The course of the search", Reach::Page, vec![chart]))
}

/// How it was measured, and what the crash test showed.
fn method(state: &TuneState) -> Option<Section> {
    let searcher = state.searcher.as_ref()?;
    let plan = &state.plan;
    let mut fields = vec![
        Field::new(
            "Measurements",
            format!(
                "{} of {} of {}, each after {} of warm-up",
                searcher.trials().len(),
                searcher.budget().runs,
                plan.window,
                plan.warm_up
            ),
        ),
        Field::new("Parameters", searcher.space().dimensions.len().to_string()),
        Field::new("Gain worth a change", walwright_tune::percent(plan.worth)),
        Field::new("Seed", plan.seed.to_string()),
    ];
    if !state.machine.is_empty() {
        fields.push(Field::new("Machine", &state.machine));
    }
    let mut blocks = vec![Block::Fields(fields)];
    if state.phase == Phase::Done {
        blocks.extend(crash_in_words(state).map(|told| Block::Text(words::sentence(&told))));
    }
    Some(Section::new("method", "Method", Reach::Paper, blocks))
}

/// Where what came of it is kept, and what to do with it.
fn kept(state: &TuneState) -> Option<Section> {
    let named = [
        ("Promoted", &state.promoted),
        ("Schema", &state.promoted_schema),
        ("Journal", &state.entry),
    ];
    let fields: Vec<Field> = named
        .into_iter()
        .filter_map(|(name, path)| Some(Field::code(name, path.clone()?)))
        .collect();
    let mut blocks = Vec::new();
    if !fields.is_empty() {
        blocks.push(Block::Fields(fields));
    }
    if state.phase != Phase::Done {
        blocks.push(Block::Action(Action {
            text: "Continue the tune where it is.".to_owned(),
            command: Some(format!("walwright tune resume {}", state.id)),
            conditions: None,
        }));
    }
    if state.promoted.is_some() {
        blocks.push(Block::Action(Action {
            text: "Write the configuration to a file of yours.".to_owned(),
            command: Some(format!("walwright tune promote {} --output config.env", state.id)),
            conditions: None,
        }));
    }
    let section = Section::new("next", "Next", Reach::Paper, blocks);
    (!section.blocks.is_empty()).then_some(section)
}

/// What makes the result of a tune less certain, a sentence each.
pub fn tune_warnings(state: &TuneState) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(on) = &state.plan.server {
        warnings.push(match on.filled {
            true => "The tables were filled before every run on this server, whose other data and files were as they were",
            false => "The data were not restored between runs: each went on with what the one before left, and the confirmation is on the same data. Interleaving and replicates balance steady drift; --init fills the workload's tables before every run",
        }.to_owned());
    }
    if state.confirmation.pairs() > 0 && !state.confirmation.held_checkpoints() {
        let checkpoints = state.confirmation.least_checkpoints();
        warnings.push(format!(
            "Windows of the confirmation held {}, so what moves cost past a checkpoint is not judged whole: those requested did not complete in them (see the run's events); a longer --confirm-duration may tell",
            checkpoints.map_or("an unknown number of completed checkpoints".to_owned(), |least| {
                counted(least.round() as u64, "completed checkpoint")
            })
        ));
    }
    let crashed = state.made.iter().filter(|made| made.crashed.is_some()).count();
    if crashed > 0 {
        warnings.push(format!("{} did not run", counted(crashed as u64, "measurement")));
    }
    warnings
}
