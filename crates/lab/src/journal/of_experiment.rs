//! What the journal keeps of an experiment.

use walwright_catalog::{DurabilityClass, parameter};
use walwright_diagnose::experiment::{ArmOutcome, Ending, Held, Judged, Outcome, PredictionMet};
use walwright_record::journal::{Change, Effect, Entry, Origin};
use walwright_stats::Verdict;

use super::{Journal, JournalError, effect};
use crate::Lab;

/// Appends what an experiment that has ended came to; `None` for one that has not.
/// Called again for the same experiment it gives the entry that is there.
///
/// # Errors
/// When the journal or the records cannot be used.
pub fn keep_experiment(lab: &Lab, of: &Outcome) -> Result<Option<Entry>, JournalError> {
    if of.ending == Ending::Unfinished {
        return Ok(None);
    }
    let journal = Journal::of(lab);
    let there = journal.read()?.entries.into_iter().find(|entry| {
        let made = matches!(entry.origin, Origin::Experiment | Origin::Proof);
        made && entry.experiments.contains(&of.id)
    });
    if there.is_some() {
        return Ok(there);
    }
    let mut entry = entry(of);
    if let Some(store) = lab.existing_store()? {
        let runs = store.runs()?;
        entry.workload =
            runs.into_iter().find(|run| entry.runs.contains(&run.id)).map(|run| run.workload);
    }
    journal.append(entry).map(Some)
}

fn entry(of: &Outcome) -> Entry {
    let metric = &of.judged.metric.name;
    let question = of.question.clone().unwrap_or_else(|| match &of.prediction {
        Some(met) => format!(
            "Does what {} advises on run {} do what was predicted? {}",
            met.prediction.finding, met.prediction.run, met.prediction.action
        ),
        None => format!("What does {} change in {metric}?", of.name),
    });
    let baseline_runs = of.baseline_runs.iter().flatten();
    let runs = baseline_runs.chain(of.arms.iter().flat_map(|arm| &arm.runs));
    let open: Vec<&str> = of
        .judged
        .arms
        .iter()
        .filter(|arm| arm.verdict == Some(Verdict::Undecided))
        .map(|arm| arm.name.as_str())
        .collect();
    Entry {
        origin: if of.prediction.is_some() { Origin::Proof } else { Origin::Experiment },
        baseline: (!of.baseline.is_empty()).then(|| of.baseline.join(", ")),
        changes: changes(&of.arms),
        runs: runs.flatten().cloned().collect(),
        experiments: vec![of.id.clone()],
        effects: [Some(&of.judged), of.contrasts.as_ref()]
            .into_iter()
            .flatten()
            .flat_map(effects)
            .collect(),
        result: Some(result(of)),
        durability: durability(&of.arms),
        next_question: (!open.is_empty())
            .then(|| format!("What do more blocks say of {}?", open.join(", "))),
        notes: (!of.doubts.is_empty()).then(|| of.doubts.join("\n")),
        ..Entry::asking(question)
    }
}

/// The changes of all arms; with several arms each says which.
fn changes(arms: &[ArmOutcome]) -> Vec<Change> {
    let of = |arm: &ArmOutcome, text: &String| {
        let (name, to) =
            text.split_once(" = ").map_or((text.as_str(), None), |(n, v)| (n, Some(v)));
        let name = if arms.len() > 1 { format!("{}: {name}", arm.name) } else { name.to_owned() };
        Change { name, from: None, to: to.map(str::to_owned) }
    };
    arms.iter().flat_map(|arm| arm.changes.iter().map(move |text| of(arm, text))).collect()
}

fn effects(of: &Judged) -> impl Iterator<Item = Effect> {
    of.arms.iter().filter_map(|arm| {
        let (measured, p) = (arm.effect.as_ref()?, arm.corrected_p?);
        Some(effect(&arm.name, &of.metric.name, measured, p, of.floor.as_ref(), arm.verdict?))
    })
}

/// The whole in words; the figures are the effects.
fn result(of: &Outcome) -> String {
    let named = |verdict: Verdict| -> Option<String> {
        let arms = of.judged.arms.iter().filter(|arm| arm.verdict == Some(verdict));
        let names: Vec<&str> = arms.map(|arm| arm.name.as_str()).collect();
        let said = match verdict {
            Verdict::Proven => "proven",
            Verdict::Screened => "seen in too few blocks to be proven",
            Verdict::WithinNoise => "within noise",
            Verdict::Undecided => "undecided",
        };
        (!names.is_empty()).then(|| format!("{said}: {}", names.join(", ")))
    };
    let kinds = [Verdict::Proven, Verdict::Screened, Verdict::WithinNoise, Verdict::Undecided];
    let mut said: Vec<String> = kinds.into_iter().filter_map(named).collect();
    let failed = of.arms.iter().filter(|arm| arm.failed.is_some()).map(|arm| arm.name.as_str());
    let failed: Vec<&str> = failed.collect();
    if !failed.is_empty() {
        said.push(format!("given up: {}", failed.join(", ")));
    }
    let blocks = if of.blocks == 1 { "block" } else { "blocks" };
    let mut text =
        format!("{} over {} {blocks}: {}.", of.judged.metric.name, of.blocks, said.join("; "));
    if let Some(met) = &of.prediction {
        text.push_str(&predicted(met));
    }
    text
}

fn predicted(met: &PredictionMet) -> String {
    let held = match met.held {
        Held::Yes => "the measured interval meets it",
        Held::Above => "more was measured",
        Held::Below => "less was measured",
        Held::Open => "what was measured says nothing of it",
    };
    let change = met.prediction.change;
    format!(
        " Predicted for {}: {:+.1} to {:+.1} %; {held}.",
        met.prediction.metric,
        change.low * 100.0,
        change.high * 100.0
    )
}

/// The class of what can lose most; `None` where nothing of it is in the catalogue.
fn durability(arms: &[ArmOutcome]) -> Option<DurabilityClass> {
    use DurabilityClass::{D, E, S, T, X};
    let changes = arms.iter().flat_map(|arm| &arm.changes);
    let classes = changes.filter_map(|text| {
        let (name, value) = text.split_once(" = ")?;
        Some(parameter(name)?.class_of(value))
    });
    let weight = |class: &DurabilityClass| match class {
        S => 0,
        E => 1,
        T => 2,
        D => 3,
        X => 4,
    };
    classes.max_by_key(weight)
}

#[cfg(test)]
mod tests {
    use walwright_diagnose::compare::{Better, FigureUnit};
    use walwright_diagnose::experiment::{Arm, Looks, MetricKind, judge};
    use walwright_record::RunId;
    use walwright_stats::Confidence;

    use super::*;

    fn outcome() -> Outcome {
        let metric = MetricKind {
            key: "throughput".to_owned(),
            name: "throughput".to_owned(),
            unit: FigureUnit::PerSecond,
            better: Better::Higher,
            expression: None,
        };
        let known = |values: [f64; 8]| values.map(Some).to_vec();
        let base = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1];
        let again = [100.2, 100.8, 99.1, 100.3, 99.7, 100.0, 99.9, 100.2];
        let arm = |name: &str, by: f64| Arm {
            name: name.to_owned(),
            values: known(base.map(|value| value * by + 0.01 * (value - 100.0))),
        };
        let arms = [arm("off", 1.2), arm("same", 1.0001)];
        let judged = judge(metric, &known(base), &known(again), &arms, Confidence::P95, 1);
        let story = |name: &str, change: &str, run: &str| ArmOutcome {
            name: name.to_owned(),
            changes: vec![change.to_owned()],
            runs: vec![Some(RunId(run.to_owned())), None],
            failed: None,
            time: Vec::new(),
            reasons: Vec::new(),
            statements: Vec::new(),
        };
        Outcome {
            id: "20261121-000000-abc".to_owned(),
            name: "commits".to_owned(),
            question: None,
            design: "one-at-a-time".to_owned(),
            baseline: vec!["tpcb".to_owned(), "16 clients".to_owned()],
            ending: Ending::AllBlocks,
            planned: 8,
            blocks: 8,
            runs: 32,
            looks: Looks::at_end(8, Confidence::P95),
            negligible: 0.01,
            judged,
            contrasts: None,
            others: Vec::new(),
            outlooks: Vec::new(),
            arms: vec![
                story("off", "synchronous_commit = off", "r1"),
                story("same", "wal_buffers = 16MB", "r2"),
            ],
            baseline_runs: vec![[Some(RunId("b1".to_owned())), Some(RunId("b2".to_owned()))]],
            prediction: None,
            doubts: vec!["It was noisy.".to_owned()],
        }
    }

    #[test]
    fn an_experiment_that_ended_is_kept_once_with_its_effects() {
        let dir = tempfile::tempdir().unwrap();
        let lab = Lab::at(Some(dir.path().to_owned()));
        let unfinished = Outcome { ending: Ending::Unfinished, ..outcome() };
        assert_eq!(keep_experiment(&lab, &unfinished).unwrap(), None);
        let kept = keep_experiment(&lab, &outcome()).unwrap().unwrap();
        assert_eq!(keep_experiment(&lab, &outcome()).unwrap().unwrap().id, kept.id);
        assert_eq!(Journal::of(&lab).read().unwrap().entries.len(), 1);
        assert_eq!(kept.question, "What does commits change in throughput?");
        assert_eq!(kept.effects.len(), 2);
        assert!((kept.effects[0].change - 0.2).abs() < 0.01 && kept.effects[0].interval.is_some());
        assert_eq!(kept.effects[0].verdict, "proven");
        assert_eq!(kept.changes[0].name, "off: synchronous_commit");
        assert_eq!(kept.durability, Some(DurabilityClass::D));
        let runs: Vec<&str> = kept.runs.iter().map(|run| run.0.as_str()).collect();
        assert_eq!(runs, ["b1", "b2", "r1", "r2"]);
        let result = kept.result.unwrap();
        assert!(result.starts_with("throughput over 8 blocks: proven: off"), "{result}");
    }
}
