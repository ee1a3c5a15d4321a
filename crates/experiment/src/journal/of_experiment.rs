//! What the journal keeps of an experiment.

use walwright_catalog::DurabilityClass;
use walwright_figures::experiment::{ArmOutcome, Ending, Held, Judged, Outcome, PredictionMet};
use walwright_record::journal::{Change, Effect, Entry, Origin};
use walwright_stats::Verdict;
use walwright_store::Lab;
use walwright_store::journal::{Journal, JournalError};

use super::change_text::{LEFT_OUT, class_of, named};
use super::decision::{decision, reasons};
use super::{effect, of_arms};

/// Appends what an experiment that has ended came to: one entry, or one for each arm; none of one
/// that has not ended. Called again for the same experiment it gives the entries that are there.
///
/// # Errors
/// When the journal or the records cannot be used.
pub fn keep_experiment(lab: &Lab, of: &Outcome) -> Result<Vec<Entry>, JournalError> {
    if of.ending == Ending::Unfinished {
        return Ok(Vec::new());
    }
    let journal = Journal::of(lab);
    let mut there = journal.read()?.entries;
    there.retain(|entry| {
        let made = matches!(entry.origin, Origin::Experiment | Origin::Proof);
        made && entry.experiments.contains(&of.id)
    });
    let runs = match lab.existing_store()? {
        Some(store) => store.runs()?,
        None => Vec::new(),
    };
    let entries = if of.entry_of_each_arm { of_arms::entries(of) } else { vec![entry(of)] };
    let kept = entries.into_iter().map(|mut entry| {
        if let Some(there) = there.iter().find(|there| there.question == entry.question) {
            return Ok(there.clone());
        }
        let run = runs.iter().find(|run| entry.runs.contains(&run.id));
        entry.workload = run.map(|run| run.workload.clone());
        journal.append(entry, walwright_probe::this_machine())
    });
    kept.collect()
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
        .filter(|arm| arm.verdict == Some(Verdict::Open))
        .map(|arm| arm.name.as_str())
        .collect();
    let mut notes = of.warnings.clone();
    notes.extend(reasons(of));
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
        decision: Some(decision(of)),
        durability: durability(of),
        next_question: (!open.is_empty())
            .then(|| format!("What do more blocks say of {}?", open.join(", "))),
        notes: (!notes.is_empty()).then(|| notes.join("\n")),
        ..Entry::asking(question)
    }
}

/// The changes of all arms; with several arms each says which. What an arm of an ablation
/// leaves out goes from its value to none.
fn changes(arms: &[ArmOutcome]) -> Vec<Change> {
    let of = |arm: &ArmOutcome, text: &String| {
        let left_out = text.strip_prefix(LEFT_OUT);
        let (name, value) = match named(left_out.unwrap_or(text)) {
            Some((name, value)) => (name, Some(value.to_owned())),
            // A statement has no value that could be gone: its words stay as they are.
            None => (text.as_str(), None),
        };
        let name = if arms.len() > 1 { format!("{}: {name}", arm.name) } else { name.to_owned() };
        match left_out {
            Some(_) => Change { name, from: value, to: None },
            None => Change { name, from: None, to: value },
        }
    };
    arms.iter().flat_map(|arm| arm.changes.iter().map(move |text| of(arm, text))).collect()
}

pub(super) fn effects(of: &Judged) -> impl Iterator<Item = Effect> {
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
            Verdict::Screened => "measured in too few blocks to prove it",
            Verdict::WithinNoise => "within noise",
            Verdict::Open => "open",
        };
        (!names.is_empty()).then(|| format!("{said}: {}", names.join(", ")))
    };
    let kinds = [Verdict::Proven, Verdict::Screened, Verdict::WithinNoise, Verdict::Open];
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
        Held::Open => "the measurement does not decide it",
    };
    let change = met.prediction.change;
    format!(
        " Predicted for {}: {:+.1} to {:+.1} %; {held}.",
        met.prediction.metric,
        change.low * 100.0,
        change.high * 100.0
    )
}

/// The class of what can lose most, in the arms or in the baseline, which in an ablation holds
/// the changes; `None` where nothing of it is in the catalogue.
fn durability(of: &Outcome) -> Option<DurabilityClass> {
    let changes = of.arms.iter().flat_map(|arm| &arm.changes).chain(&of.baseline);
    changes.filter_map(|text| class_of(text)).max_by_key(|class| class.severity())
}

#[cfg(test)]
pub(super) mod tests {
    use walwright_figures::compare::{Better, FigureUnit, figure_kinds};
    use walwright_figures::experiment::{Arm, Looks, MetricKind, Reason, judge};
    use walwright_record::RunId;
    use walwright_stats::{Confidence, Estimate, Method};

    use super::*;

    fn outcome() -> Outcome {
        outcome_of(&[
            ("off", 1.2, "synchronous_commit = off"),
            ("same", 1.0001, "wal_buffers = 16MB"),
        ])
    }

    /// An outcome with these arms: name, factor of the throughput, change.
    pub(in super::super) fn outcome_of(arms: &[(&str, f64, &str)]) -> Outcome {
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
        let values = |(name, by, _): &(&str, f64, &str)| Arm {
            name: (*name).to_owned(),
            values: known(base.map(|value| value * by + 0.01 * (value - 100.0))),
        };
        let measured: Vec<Arm> = arms.iter().map(values).collect();
        let judged = judge(metric, &known(base), &known(again), &measured, Confidence::P95, 1);
        let story = |(place, (name, _, change)): (usize, &(&str, f64, &str))| ArmOutcome {
            name: (*name).to_owned(),
            changes: vec![(*change).to_owned()],
            runs: vec![Some(RunId(format!("r{}", place + 1))), None],
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
            arms: arms.iter().enumerate().map(story).collect(),
            baseline_runs: vec![[Some(RunId("b1".to_owned())), Some(RunId("b2".to_owned()))]],
            prediction: None,
            claims: Vec::new(),
            entry_of_each_arm: false,
            study: None,
            warnings: vec!["It was noisy.".to_owned()],
        }
    }

    #[test]
    fn an_experiment_that_ended_is_kept_once_with_its_effects() {
        let dir = tempfile::tempdir().unwrap();
        let lab = Lab::at(Some(dir.path().to_owned()));
        let unfinished = Outcome { ending: Ending::Unfinished, ..outcome() };
        assert!(keep_experiment(&lab, &unfinished).unwrap().is_empty());
        let kept = keep_experiment(&lab, &outcome()).unwrap().remove(0);
        assert_eq!(keep_experiment(&lab, &outcome()).unwrap()[0].id, kept.id);
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

    #[test]
    fn an_ablation_takes_changes_away_and_has_the_class_of_its_baseline() {
        let change = "synchronous_commit = off";
        let of = Outcome {
            design: "ablation".to_owned(),
            baseline: vec!["tpcb".to_owned(), change.to_owned(), "jit = off".to_owned()],
            ..outcome_of(&[
                ("without synchronous_commit = off", 0.8, "not synchronous_commit = off"),
                ("without jit = off", 1.0001, "not jit = off"),
            ])
        };
        let kept = entry(&of);
        assert_eq!(kept.durability, Some(DurabilityClass::D));
        let (name, from) = ("without jit = off: jit".to_owned(), Some("off".to_owned()));
        assert_eq!(kept.changes[1], Change { name, from, to: None });
        assert_eq!(
            kept.decision.unwrap(),
            "Keep synchronous_commit = off: throughput is proven worse without. \
             Durability is lower with synchronous_commit = off: committed data may be lost."
        );
        // A baseline says it alone, too.
        let baseline = vec![change.to_owned()];
        let of = Outcome { baseline, ..outcome_of(&[("a", 1.2, "jit = off")]) };
        assert_eq!(entry(&of).durability, Some(DurabilityClass::D));
    }

    #[test]
    fn statements_have_a_class_and_keep_their_words() {
        let grave = Some(DurabilityClass::D);
        assert_eq!(class_of("ALTER TABLE t SET unlogged"), grave);
        assert_eq!(class_of("not CREATE UNLOGGED TABLE t (a int)"), grave);
        assert_eq!(class_of("ALTER ROLE app SET synchronous_commit = off"), grave);
        assert_eq!(class_of("CREATE INDEX ON t (unlogged_at)"), None);
        assert_eq!(class_of("workload unlogged, scale 10"), None);
        let sql = "ALTER TABLE t SET (fillfactor = 50)";
        let kept = entry(&outcome_of(&[("half", 1.2, sql)]));
        assert_eq!(kept.changes, [Change { name: sql.to_owned(), ..Change::default() }]);
        assert_eq!(kept.durability, None);
    }

    #[test]
    fn what_is_proven_is_decided_with_its_reasons() {
        let decided = |of: &Outcome| entry(of).decision.unwrap();
        let mut of = outcome();
        assert_eq!(
            decided(&of),
            "Keep off (synchronous_commit = off): throughput is proven better. \
             Durability is lower with synchronous_commit = off: committed data may be lost."
        );
        let wal = figure_kinds().into_iter().find(|kind| kind.key == "wal_bytes").unwrap();
        let told = format!("It was noisy.\nWhat changed with off: {} -50.0 % (", wal.name);
        let change = Some(Estimate::symmetric(-0.5, 0.02, Confidence::P95, Method::PairedLogRatio));
        for arm in &mut of.arms {
            let (figure, change) = (wal.clone(), change.clone());
            arm.reasons = vec![Reason { figure, baseline: 2.0, arm: 1.0, change }];
        }
        let notes = entry(&of).notes.unwrap();
        assert!(notes.starts_with(&told) && notes.ends_with("(-52.0 to -48.0 %)."), "{notes}");

        let small = outcome_of(&[("small", 0.8, "max_wal_size = 64MB")]);
        assert_eq!(
            decided(&small),
            "Do not keep small (max_wal_size = 64MB): throughput is proven worse. \
             Nothing is changed."
        );
        let same = decided(&outcome_of(&[("same", 1.0001, "wal_buffers = 16MB")]));
        assert!(same.starts_with("Nothing is changed (") && same.contains(": same"), "{same}");
        let great = Outcome { negligible: 0.5, ..outcome() };
        let said = decided(&great);
        assert!(said.contains("proven, but too small to matter: off"), "{said}");
    }
}
