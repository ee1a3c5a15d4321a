//! What a tune came to, as text and as JSON.

use std::fmt::Write;

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};
use walwright_report::format::counted;
use walwright_search::{Effect, Line, Searcher, Standing};
use walwright_store::Lab;
use walwright_tune::{
    Layer, Objective, Phase, TuneState, by_what, client_option_effects, crash_in_words, effect,
    shown, verdict,
};

use super::list::stands;
use super::page;
use crate::output::Output;

/// Prints a tune and writes its page.
pub fn print(lab: &Lab, state: &TuneState, output: &Output) -> anyhow::Result<()> {
    let objective = state.plan.objective()?;
    let page = page::write(lab, state);
    output.result(&summary(state, &objective), || {
        let mut text = text(state, &objective);
        if let Ok(path) = &page {
            let _ = writeln!(text, "Page:     {}", path.display());
        }
        text
    })?;
    page.map(|_| ())
}

/// What became of a line, in words.
fn standing(line: &Line) -> &'static str {
    match line.standing {
        Standing::Proven | Standing::Likely => "kept: worse without it",
        Standing::Carrying => "kept: the gain may depend on it",
        Standing::Keeping => "kept: throughput may depend on it",
        Standing::Returned if line.without.is_gain() => "reset to default: it is better",
        Standing::Returned => "reset to default: no difference measured",
        Standing::Restored => "reset to yours: it is better",
        Standing::HarmUndone => "reset: it did harm",
        Standing::HarmlessUndone => "reset: no difference measured",
        Standing::NotMeasured => "not ablated",
    }
}

/// The same of a line, and what says so.
fn became(line: &Line) -> String {
    let by = match line.standing {
        Standing::HarmUndone | Standing::HarmlessUndone | Standing::Restored => {
            by_what(&line.harm, 0)
        }
        _ => by_what(&line.without, line.together),
    };
    format!("{}{by}", standing(line))
}

fn text(state: &TuneState, objective: &Objective) -> String {
    let mut out = String::new();
    let load = state.plan.workload.as_deref().unwrap_or("own scripts");
    let around = state.plan.surroundings_in_words();
    let _ =
        writeln!(out, "tune {} of {load}, objective {}{around}", state.id, state.plan.objective);
    let _ = writeln!(out, "\n{}", verdict(state, objective));
    if let Some(end) = state.searcher.as_ref().and_then(Searcher::conclusion)
        && !end.lines.is_empty()
    {
        if state.phase == Phase::Done && state.promoted.is_none() {
            let _ = writeln!(out, "\nThe best that was found, which is not promoted:");
        }
        let (together, alone): (Vec<&Line>, Vec<&Line>) =
            end.lines.iter().partition(|line| went_together(line));
        let mut table = Table::new();
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.load_style(presets::NOTHING).set_header([
            "parameter",
            "layer",
            "baseline",
            "found",
            "if set to default",
            "if set back to yours",
            "kept?",
        ]);
        for line in alone {
            table.add_row([
                line.name.clone(),
                Layer::of(&line.name).words().to_owned(),
                line.was.clone(),
                line.value.clone(),
                cell(&line.without, objective),
                cell(&line.harm, objective),
                became(line),
            ]);
        }
        let _ = writeln!(out, "\n{}", table.trim_fmt());
        if let Some(first) = together.first() {
            let names: Vec<String> =
                together.iter().map(|line| format!("{} = {}", line.name, line.value)).collect();
            let _ = writeln!(
                out,
                "\nReturned to their defaults together, {} by that: {}",
                cell(&first.without, objective),
                names.join(", ")
            );
        }
    }
    let client_options = client_option_effects(&state.client_options);
    if !client_options.is_empty() || !state.client_options_left_out.is_empty() {
        let _ = writeln!(out, "\nOutside the configuration");
        for together in client_options.chunk_by(|a, b| a.client_option.note == b.client_option.note)
        {
            for of in together {
                let told = effect(&shown(&of.effect, objective));
                let _ = writeln!(out, "  {}: {told}", of.client_option.name);
            }
            if let Some(note) = together.first().and_then(|of| of.client_option.note.as_ref()) {
                let _ = writeln!(out, "    {note}");
            }
        }
        for left in &state.client_options_left_out {
            let _ = writeln!(out, "  {}: not measured: {}", left.name, left.why);
        }
    }
    for warning in warnings(state) {
        let _ = writeln!(out, "\n! {warning}");
    }
    if state.phase != Phase::Done {
        let _ = writeln!(
            out,
            "\nThis tune is {}; `walwright tune resume {}` goes on with it",
            stands(state),
            state.id
        );
    }
    if let Some(told) = crash_in_words(state).filter(|_| state.phase == Phase::Done) {
        let _ = writeln!(out, "\n{told}");
    }
    if let Some(path) = &state.promoted {
        let _ = writeln!(out, "\nPromoted: {path}");
        if let Some(path) = &state.promoted_schema {
            let _ = writeln!(out, "Schema:   {path}");
        }
    }
    if let Some(entry) = &state.entry {
        let _ = writeln!(out, "Journal:  {entry}");
    }
    out
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

/// What makes the result less certain.
fn warnings(state: &TuneState) -> Vec<String> {
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

pub(super) fn effect_json(of: &Effect, objective: &Objective) -> Value {
    change_json(&shown(of, objective))
}

fn change_json(effect: &Effect) -> Value {
    match effect.estimate() {
        Some(estimate) => json!({
            "change": estimate.center,
            "low": estimate.low(),
            "high": estimate.high(),
            "confidence": estimate.confidence.level(),
            "by": if effect.is_modelled() { "model" } else { "blocks" },
        }),
        None => Value::Null,
    }
}

fn summary(state: &TuneState, objective: &Objective) -> Value {
    let end = state.searcher.as_ref().and_then(Searcher::conclusion);
    let lines: Vec<Value> = end
        .iter()
        .flat_map(|end| &end.lines)
        .map(|line| {
            json!({
                "name": line.name,
                "layer": Layer::of(&line.name),
                "baseline": line.was,
                "found": line.value,
                "default": line.home,
                "without": effect_json(&line.without, objective),
                "together_with": line.together,
                "harm": effect_json(&line.cost_of_baseline(), objective),
                "standing": line.standing,
            })
        })
        .collect();
    let client_options: Vec<Value> = client_option_effects(&state.client_options)
        .iter()
        .map(|of| {
            json!({
                "name": of.client_option.name,
                "units_per_transaction": of.client_option.units,
                "note": of.client_option.note,
                "effect": effect_json(&of.effect, objective),
                "blocks": of.blocks,
            })
        })
        .collect();
    let searched: Vec<Value> = state
        .searcher
        .iter()
        .flat_map(|searcher| &searcher.space().dimensions)
        .map(|dimension| {
            let name = &dimension.name;
            json!({ "name": name, "layer": Layer::of(name), "default": dimension.home })
        })
        .collect();
    json!({
        "id": state.id,
        "phase": state.phase,
        "objective": state.plan.objective,
        "flush_latency_seconds": state.plan.flush_latency.map(|least| least.0.as_secs_f64()),
        "tcp": state.plan.tcp,
        "baseline": state.baseline_value(),
        "verdict": verdict(state, objective),
        "is_proposed": end.map(|end| end.is_proposed),
        "gain": end.map(|end| effect_json(&end.gain, objective)),
        "confirmed": state.is_confirmed().then(|| effect_json(&state.confirmed(), objective)),
        "confirming_pairs": state.confirmation.pairs(),
        "throughput": objective.allowed_loss.filter(|_| state.is_confirmed()).map(|loss| json!({
            "effect": change_json(&state.confirmed_throughput()),
            "allowed_loss": loss,
            "is_kept": state.keeps_throughput(),
        })),
        "configuration": end.map(|end| &end.configuration),
        "lines": lines,
        "client_options": client_options,
        "client_options_left_out": state.client_options_left_out,
        "searched": searched,
        "schema": state.schema_changes(),
        "cause": state.cause,
        "next_cause": state.next_cause,
        "crash": state.crash,
        "measurements": state.made.len(),
        "warnings": warnings(state),
        "dropped": state.dropped,
        "promoted": state.promoted,
        "promoted_schema": state.promoted_schema,
        "journal": state.entry,
    })
}
