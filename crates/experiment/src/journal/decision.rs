//! What an experiment decides, and why: from its verdicts to words.
//!
//! Only what is proven decides, by the metric that is judged alone.

use walwright_catalog::DurabilityClass;
use walwright_figures::experiment::{ArmOutcome, JudgedArm, Outcome, Reason};
use walwright_stats::{Estimate, Verdict};

use super::change_text::{LEFT_OUT, class_of};
use crate::Design;

/// Reasons told of an arm.
const REASONS: usize = 3;
/// What the name of an arm of an ablation begins with.
const WITHOUT: &str = "without ";

/// What follows from an experiment.
pub(super) fn decision(of: &Outcome) -> String {
    let metric = &of.judged.metric.name;
    let ablation = of.design == Design::Ablation.name();
    let (gains, losses) = (proven(of, true), proven(of, false));
    let mut said = Vec::new();
    // In an ablation what an arm lacks is what is decided about.
    let kept = if ablation { &losses } else { &gains };
    if !gains.is_empty() {
        said.push(match ablation {
            false => format!("Keep {}: {metric} is proven better.", list(&gains, ablation)),
            true => {
                format!("Leave out {}: {metric} is proven better without.", list(&gains, ablation))
            }
        });
    }
    if !losses.is_empty() {
        said.push(match ablation {
            false => format!("Do not keep {}: {metric} is proven worse.", list(&losses, ablation)),
            true => {
                format!("Keep {}: {metric} is proven worse without.", list(&losses, ablation))
            }
        });
    }
    if kept.len() > 1 {
        said.push("Each is proven against the baseline, not against the others.".to_owned());
    }
    if gains.is_empty() && (!ablation || losses.is_empty()) {
        let open = open(of);
        let what = if ablation { "Nothing is left out" } else { "Nothing is changed" };
        said.push(match open.is_empty() {
            true => format!("{what}."),
            false => format!("{what} ({}).", open.join("; ")),
        });
    }
    said.extend(lowered(kept));
    said.join(" ")
}

/// A sentence for each proven arm: what else changed with it, each with its interval.
pub(super) fn reasons(of: &Outcome) -> Vec<String> {
    let proven = of.judged.arms.iter().filter(|arm| arm.verdict == Some(Verdict::Proven));
    proven
        .filter_map(|judged| {
            let arm = story(of, judged)?;
            let told: Vec<String> = arm.reasons.iter().take(REASONS).map(reason).collect();
            let with = if arm.name.starts_with(WITHOUT) { "" } else { "with " };
            (!told.is_empty())
                .then(|| format!("What changed {with}{}: {}.", arm.name, told.join(", ")))
        })
        .collect()
}

fn story<'a>(of: &'a Outcome, judged: &JudgedArm) -> Option<&'a ArmOutcome> {
    of.arms.iter().find(|arm| arm.name == judged.name)
}

/// The arms that are proven better, or worse, by more than does not matter.
fn proven(of: &Outcome, better: bool) -> Vec<&ArmOutcome> {
    let arms = of.judged.arms.iter().filter(|arm| {
        arm.verdict == Some(Verdict::Proven)
            && (arm.better == Some(true)) == better
            && !is_negligible(of, arm)
    });
    arms.filter_map(|arm| story(of, arm)).collect()
}

/// Whether the whole interval lies among changes that do not matter, by the plan.
fn is_negligible(of: &Outcome, arm: &JudgedArm) -> bool {
    let ends = arm.effect.as_ref().and_then(|effect| effect.change.interval);
    ends.is_some_and(|ends| ends.low >= -of.negligible && ends.high <= of.negligible)
}

/// Names of arms with what they change, where the name does not say it.
fn list(arms: &[&ArmOutcome], ablation: bool) -> String {
    let bare = |text: &str, before: &str| match ablation {
        true => text.strip_prefix(before).unwrap_or(text).to_owned(),
        false => text.to_owned(),
    };
    let named = |arm: &&ArmOutcome| {
        let name = bare(&arm.name, WITHOUT);
        let changes: Vec<String> =
            arm.changes.iter().map(|change| bare(change, LEFT_OUT)).collect();
        let changes = changes.join(", ");
        if changes.is_empty() || changes == name { name } else { format!("{name} ({changes})") }
    };
    arms.iter().map(named).collect::<Vec<_>>().join("; ")
}

/// Why arms are not decided about, each as part of a sentence.
fn open(of: &Outcome) -> Vec<String> {
    let mut said = Vec::new();
    let mut say = |what: &str, wanted: &dyn Fn(&JudgedArm) -> bool| {
        let arms = of.judged.arms.iter().filter(|arm| wanted(arm));
        let names: Vec<&str> = arms.map(|arm| arm.name.as_str()).collect();
        if !names.is_empty() {
            said.push(format!("{what}: {}", names.join(", ")));
        }
    };
    let verdict = |arm: &JudgedArm, wanted| arm.verdict == Some(wanted);
    say("proven, but too small to matter", &|arm| {
        verdict(arm, Verdict::Proven) && is_negligible(of, arm)
    });
    say("measured in too few blocks to prove it", &|arm| verdict(arm, Verdict::Screened));
    say("not told from noise", &|arm| verdict(arm, Verdict::WithinNoise));
    say("left open by the data", &|arm| verdict(arm, Verdict::Open));
    say("not measured", &|arm| arm.verdict.is_none());
    said
}

/// That what is kept lowers durability, where it does.
fn lowered(kept: &[&ArmOutcome]) -> Option<String> {
    let mut lower: Vec<&str> = Vec::new();
    for change in kept.iter().flat_map(|arm| &arm.changes) {
        let bare = change.strip_prefix(LEFT_OUT).unwrap_or(change);
        let grave = matches!(class_of(change), Some(DurabilityClass::D | DurabilityClass::X));
        if grave && !lower.contains(&bare) {
            lower.push(bare);
        }
    }
    (!lower.is_empty()).then(|| {
        format!("Durability is lower with {}: committed data may be lost.", lower.join(", "))
    })
}

/// A figure that changed with an arm: `WAL a transaction −62.0 % (−64.1 to −60.2 %)`.
fn reason(of: &Reason) -> String {
    let name = &of.figure.name;
    match &of.change {
        Some(change) => format!("{name} {}", relative(change)),
        None if of.arm == 0.0 => format!("{name} fell to zero"),
        None => format!("{name} was zero before"),
    }
}

pub(super) fn relative(of: &Estimate) -> String {
    let percent = |share: f64| format!("{:+.1}", share * 100.0);
    match of.interval {
        Some(ends) => {
            format!("{} % ({} to {} %)", percent(of.center), percent(ends.low), percent(ends.high))
        }
        None => format!("{} %, without an interval", percent(of.center)),
    }
}
