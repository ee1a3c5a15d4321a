//! What the journal keeps of the arms of an experiment, where each is an entry by itself: what it
//! changed against what its claims compare it with, and which of them hold.

use walwright_figures::experiment::{ArmOutcome, ClaimHeld, ClaimMet, Outcome};
use walwright_record::RunId;
use walwright_record::journal::{Change, Entry, Origin};

use super::change_text::{class_of, named};
use super::decision::relative;
use super::of_experiment::effects;

/// An entry for each arm of which a change is claimed, in the order of the plan.
pub(super) fn entries(of: &Outcome) -> Vec<Entry> {
    of.arms.iter().filter_map(|arm| entry(of, arm)).collect()
}

fn entry(of: &Outcome, arm: &ArmOutcome) -> Option<Entry> {
    let claims: Vec<&ClaimMet> = of.claims.iter().filter(|claim| claim.arm == arm.name).collect();
    let (with, without): (Vec<&ClaimMet>, Vec<&ClaimMet>) =
        claims.into_iter().partition(|claim| claim.claimed.is_some());
    let than = with.first()?.than.as_deref();
    let before = than.and_then(|than| of.arms.iter().find(|arm| arm.name == than));
    let said = |claim: &&ClaimMet| format!("Said without a figure: {}.", claim.text);
    let notes: Vec<String> = without.iter().map(said).chain(of.warnings.clone()).collect();
    let changes = changes(before, arm);
    let class = changes.iter().filter_map(|change| {
        class_of(&format!("{} = {}", change.name, change.to.as_deref().unwrap_or_default()))
    });
    Some(Entry {
        origin: Origin::Experiment,
        baseline: Some(than.map_or_else(|| of.baseline.join(", "), str::to_owned)),
        durability: class.max_by_key(|class| class.severity()),
        changes,
        runs: runs(of, before).into_iter().chain(arm.runs.iter().flatten().cloned()).collect(),
        experiments: vec![of.id.clone()],
        effects: with.iter().filter_map(|claim| claim.judged.as_ref()).flat_map(effects).collect(),
        result: Some(match &arm.failed {
            Some(why) => format!("Given up: {why}"),
            None => with.iter().map(|claim| conclusion(claim)).collect::<Vec<_>>().join(" "),
        }),
        notes: (!notes.is_empty()).then(|| notes.join("\n")),
        ..Entry::asking(format!("What did it do: {}?", arm.name))
    })
}

/// What differs between the arm and the one before it, or the baseline.
fn changes(before: Option<&ArmOutcome>, arm: &ArmOutcome) -> Vec<Change> {
    let before = before.map_or(&[][..], |before| &before.changes);
    let part = |text: &String| match named(text) {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (text.clone(), None),
    };
    let value = |name: &str, of: &[String]| of.iter().map(part).find(|part| part.0 == name);
    let new = arm.changes.iter().filter(|text| !before.contains(text)).map(part);
    let new = new.map(|(name, to)| {
        let from = value(&name, before).and_then(|(_, from)| from);
        Change { name, from, to }
    });
    let gone = before.iter().map(part).filter(|(name, _)| value(name, &arm.changes).is_none());
    new.chain(gone.map(|(name, from)| Change { name, from, to: None })).collect()
}

/// The runs that an arm is compared with.
fn runs(of: &Outcome, before: Option<&ArmOutcome>) -> Vec<RunId> {
    match before {
        Some(before) => before.runs.iter().flatten().cloned().collect(),
        None => of.baseline_runs.iter().flatten().flatten().cloned().collect(),
    }
}

/// Whether a claim holds, with what was measured.
fn conclusion(of: &ClaimMet) -> String {
    let held = of.held.unwrap_or(ClaimHeld::Open).words();
    let metric = of.metric.as_ref().map_or("", |metric| metric.name.as_str());
    let measured = match &of.measured {
        Some(measured) => relative(measured),
        None => "not measured".to_owned(),
    };
    format!("\"{}\" {held}: {metric} {measured}.", of.text)
}

#[cfg(test)]
mod tests {
    use walwright_stats::Interval;

    use super::super::of_experiment::tests::outcome_of;
    use super::*;

    /// An experiment of two arms: the second is claimed to have doubled what the first had.
    fn outcome() -> Outcome {
        let mut of = outcome_of(&[
            ("small", 0.5, "wal_buffers = 1MB"),
            ("fast", 1.0, "synchronous_commit = off"),
        ]);
        of.arms[0].changes.push("option reset = discard_all".to_owned());
        of.arms[1].changes.push("option reset = none".to_owned());
        let claim = |text: &str, than: Option<&str>, by: Option<f64>| ClaimMet {
            arm: "fast".to_owned(),
            text: text.to_owned(),
            than: than.map(str::to_owned),
            metric: Some(of.judged.metric.clone()),
            claimed: by.map(|by| Interval { low: by, high: by }),
            measured: of.judged.arms[1].effect.as_ref().map(|effect| effect.change.clone()),
            judged: Some(of.judged.clone()),
            held: by.map(|_| ClaimHeld::Yes),
            durability: String::new(),
        };
        of.claims = vec![
            claim("twice as fast", Some("small"), Some(1.0)),
            claim("it feels better", None, None),
        ];
        Outcome { entry_of_each_arm: true, ..of }
    }

    #[test]
    fn an_arm_with_a_claimed_change_is_an_entry_against_what_it_is_compared_with() {
        let kept = entries(&outcome());
        assert_eq!(kept.len(), 1, "nothing is claimed of the other");
        let entry = &kept[0];
        assert_eq!(entry.question, "What did it do: fast?");
        assert_eq!(entry.baseline.as_deref(), Some("small"));
        let change = |name: &str, from: Option<&str>, to: Option<&str>| Change {
            name: name.to_owned(),
            from: from.map(str::to_owned),
            to: to.map(str::to_owned),
        };
        let changes = [
            change("synchronous_commit", None, Some("off")),
            change("option reset", Some("discard_all"), Some("none")),
            change("wal_buffers", Some("1MB"), None),
        ];
        assert_eq!(entry.changes, changes);
        assert_eq!(entry.durability, Some(walwright_catalog::DurabilityClass::D));
        let runs: Vec<&str> = entry.runs.iter().map(|run| run.0.as_str()).collect();
        assert_eq!(runs, ["r1", "r2"]);
        assert!(entry.effects.iter().all(|effect| effect.interval.is_some()));
        let result = entry.result.as_deref().unwrap();
        assert!(result.starts_with("\"twice as fast\" holds: throughput "), "{result}");
        assert!(entry.notes.as_deref().unwrap().contains("it feels better"));
    }
}
