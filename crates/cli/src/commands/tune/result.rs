//! What a tune came to, as text and as JSON, and its page.

use serde_json::{Value, json};
use walwright_report::{tune_document, tune_verdict, tune_warnings};
use walwright_search::Effect;
use walwright_store::Lab;
use walwright_tune::{Layer, Objective, TuneState, client_option_effects, page_path, shown};

use crate::commands::write::write_page;
use crate::output::Output;

/// Prints a tune and writes its page.
pub fn print(lab: &Lab, state: &TuneState, output: &Output) -> anyhow::Result<()> {
    let objective = state.plan.objective()?;
    let document = tune_document(state, &objective);
    let path = page_path(lab, &state.id);
    let written = write_page(lab, &path, &document.html());
    output.painted_result(&summary(state, &objective), || {
        let page = written.is_ok().then(|| format!("\npage: {}\n", path.display()));
        format!("{}{}", document.terminal(&output.style()), page.unwrap_or_default())
    })?;
    written
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
    let end = state.conclusion();
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
        "verdict": tune_verdict(state, objective),
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
        "warnings": tune_warnings(state),
        "dropped": state.dropped,
        "promoted": state.promoted,
        "promoted_schema": state.promoted_schema,
        "journal": state.entry,
    })
}
