//! The words of experiments: one place for every rendering.

use walwright_figures::compare::{Better, Section};
use walwright_figures::experiment::{
    Ending, Held, Judged, JudgedArm, NoRatio, Outcome, Outlook, PredictionMet, Prospect, Reason,
    blocks_to_settle,
};
use walwright_stats::{Estimate, Interval, Verdict};

use crate::compare::words::{percent, value};
use crate::format;

/// Both ends of a relative change: `+4.1 to +6.7 %`.
pub fn range(of: Interval) -> String {
    let low = percent(of.low);
    format!("{} to {}", low.strip_suffix(" %").unwrap_or(&low), percent(of.high))
}

/// The interval of a change; empty where there is none.
pub(crate) fn interval(of: &Estimate) -> String {
    of.interval.map(range).unwrap_or_default()
}

/// A p-value.
pub(crate) fn p_value(p: f64) -> String {
    if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
}

/// What an experiment came to, in one line that needs no statistics.
pub fn experiment_verdict(of: &Outcome) -> String {
    match &of.judged.arms[..] {
        [] => "Nothing was compared.".to_owned(),
        [arm] => one_verdict(arm, &of.judged, of.negligible),
        arms => {
            let count = |wanted: fn(&JudgedArm) -> bool| arms.iter().filter(|a| wanted(a)).count();
            let better =
                count(|arm| arm.verdict == Some(Verdict::Proven) && arm.better == Some(true));
            let worse =
                count(|arm| arm.verdict == Some(Verdict::Proven) && arm.better != Some(true));
            let rest = arms.len() - better - worse;
            let named = |arm: &&JudgedArm| arm.verdict == Some(Verdict::Proven);
            let change = |arm: &JudgedArm| {
                let change = arm.effect.as_ref().map(|effect| percent(effect.change.center));
                format!("{} {}", arm.name, change.unwrap_or_default())
            };
            let proven: Vec<String> = arms.iter().filter(named).map(change).collect();
            let told =
                if proven.is_empty() { String::new() } else { format!(": {}", proven.join(", ")) };
            format!(
                "Of {} arms {better} proven better, {worse} worse, {rest} undecided{told}.",
                arms.len()
            )
        }
    }
}

/// The same of a single arm.
fn one_verdict(arm: &JudgedArm, of: &Judged, negligible: f64) -> String {
    let name = &arm.name;
    let Some((effect, verdict)) = arm.effect.as_ref().zip(arm.verdict) else {
        return format!("Undecided: {name} was not measured beside the baseline.");
    };
    let pairs = |count: usize| format::counted(count as u64, "pair");
    let (change, blocks) = (&effect.change, effect.log_ratios.len());
    let is = |looks: &str| {
        let sizes = change.interval.map(|ends| {
            let (low, high) =
                (ends.low.abs().min(ends.high.abs()), ends.low.abs().max(ends.high.abs()));
            let low = plain(low);
            format!(" ({} to {})", low.trim_end_matches(" %"), plain(high))
        });
        let (size, sizes) = (plain(change.center.abs()), sizes.unwrap_or_default());
        let key = of.metric.key.as_str();
        match key == "throughput" || key.starts_with("latency") {
            true => {
                let way = if arm.better == Some(true) { "faster" } else { "slower" };
                format!("{name} {looks} {way} by {size}{sizes}")
            }
            false => {
                let way = if change.center > 0.0 { "higher" } else { "lower" };
                format!("{name}: {} {looks} {size} {way}{sizes}", of.metric.name)
            }
        }
    };
    match verdict {
        Verdict::Proven => format!("{}, {}.", is("is"), pairs(blocks)),
        Verdict::Screened => format!(
            "{} after {}; {} can prove it.",
            is("looks"),
            pairs(blocks),
            of.blocks_to_prove.max(blocks + 1)
        ),
        Verdict::WithinNoise | Verdict::Open => {
            let Some(interval) = change.interval else {
                return format!("Undecided after {}.", pairs(blocks));
            };
            let between =
                format!("between {} and {}", percent(interval.low), percent(interval.high));
            if interval.low >= -negligible && interval.high <= negligible {
                return format!("No difference that matters: {between}, {}.", pairs(blocks));
            }
            if !interval.contains(0.0) && verdict == Verdict::WithinNoise {
                return format!("No difference beyond noise: {between}, {}.", pairs(blocks));
            }
            let needed = blocks_to_settle(effect, of.confidence, negligible);
            let settle = needed.filter(|needed| *needed > blocks);
            let settle = settle.map_or_else(String::new, |needed| {
                format!("; about {} would settle it", pairs(needed))
            });
            format!("Undecided: {between}{settle}.")
        }
    }
}

/// A size of a change without its sign.
fn plain(share: f64) -> String {
    percent(share.abs()).trim_start_matches('+').to_owned()
}

/// What may be said of an arm, in a word or two.
pub fn verdict(arm: &JudgedArm) -> &'static str {
    match (arm.verdict, arm.better) {
        (Some(Verdict::Proven), Some(true)) => "proven, better",
        (Some(Verdict::Proven), _) => "proven, worse",
        (Some(Verdict::Screened), Some(true)) => "better, screening only",
        (Some(Verdict::Screened), _) => "worse, screening only",
        (Some(Verdict::WithinNoise), _) => "within noise",
        (Some(Verdict::Open), _) => "open",
        (None, _) if arm.has_no_ratio.is_some() => "no ratio",
        (None, _) => "not measured",
    }
}

/// The noise floor of a metric in words.
pub(crate) fn floor(of: &Judged) -> String {
    match of.floor.as_ref().and_then(|floor| floor.relative) {
        Some(floor) => format!(
            "The baseline against itself differs by up to {}: no effect below that is claimed.",
            format::percent(floor)
        ),
        None => match &of.floor_has_no_ratio {
            Some(none) => format!(
                "The baseline against itself has no ratio, {}: nothing is claimed.",
                since(none, "its second run", of)
            ),
            None => "The noise floor is not known before two blocks are done: nothing is claimed."
                .to_owned(),
        },
    }
}

/// Why there is no ratio: `since throughput of the baseline was 0 in block 2`.
fn since(none: &NoRatio, other: &str, of: &Judged) -> String {
    format!(
        "since {} of {} was {} in block {}",
        of.metric.name,
        if none.of_arm { other } else { "the baseline" },
        value(of.metric.unit, Some(none.value)),
        none.block
    )
}

/// What may be said of an arm, in a sentence.
pub(crate) fn sentence(arm: &JudgedArm, of: &Judged) -> String {
    let name = &arm.name;
    let (Some(effect), Some(verdict)) = (&arm.effect, arm.verdict) else {
        return match &arm.has_no_ratio {
            Some(none) => {
                format!("{name} has no ratio to the baseline, {}.", since(none, "the arm", of))
            }
            None => format!("{name} was not measured beside the baseline in any block."),
        };
    };
    let change = &effect.change;
    let way = if arm.better == Some(true) { "better" } else { "worse" };
    let seen = match change.interval {
        Some(interval) => {
            format!("{} {} ({})", of.metric.name, percent(change.center), range(interval))
        }
        None => format!("{} {}", of.metric.name, percent(change.center)),
    };
    let blocks = effect.log_ratios.len();
    match verdict {
        Verdict::Proven => format!(
            "{name} is {way}: {seen}, p = {} corrected for {} over {blocks} blocks.",
            p_value(arm.corrected_p.unwrap_or(1.0)),
            arms(of.arms.len())
        ),
        Verdict::Screened => format!(
            "{name} looks {way}: {seen}. Screening only: {} cannot prove it, {} can.",
            counted_blocks(blocks),
            of.blocks_to_prove.max(blocks + 1)
        ),
        Verdict::WithinNoise => format!("{name} is not told from noise: {seen}."),
        Verdict::Open => {
            format!("{name} is left open: {seen} after {}.", counted_blocks(blocks))
        }
    }
}

fn arms(count: usize) -> String {
    if count == 1 { "1 arm".to_owned() } else { format!("{count} arms") }
}

/// `1 block`, `6 blocks`.
pub(crate) fn counted_blocks(count: usize) -> String {
    format::counted(count as u64, "block")
}

/// How far it is.
pub(super) fn done(of: &Outcome) -> String {
    format!(
        "{} of {} done, {}",
        of.blocks,
        counted_blocks(of.planned),
        format::counted(of.runs as u64, "run")
    )
}

/// How far it is, and how it was looked at.
pub(crate) fn progress(of: &Outcome) -> String {
    let level = format::percent(of.looks.confidence.level());
    let done = done(of);
    let ending = match of.ending {
        Ending::Unfinished => ", not finished",
        Ending::AllBlocks => "",
        Ending::Clear => ", ended early: every arm is clear",
        Ending::Hopeless => ", ended early: what is open would stay open",
        Ending::NoArmLeft => ", ended early: every arm was given up",
    };
    let looks = match of.looks.after.len() {
        1 => String::new(),
        _ => format!(
            " Looks were planned after {} blocks, so each is taken at {level}.",
            of.looks.after.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
        ),
    };
    format!("{done}{ending}; design {}.{looks}", of.design)
}

/// What the remaining blocks will buy an arm; `None` where none remain.
pub(crate) fn prospect(of: &Outlook, negligible: f64) -> Option<String> {
    if of.blocks >= of.planned {
        return None;
    }
    let then = match of.prospect(negligible) {
        Prospect::WillShow => "an effect of this size will show",
        Prospect::WillBeScreened => "so few blocks will not prove an effect of this size",
        Prospect::WillBeNoise => "an effect of this size will not be told from noise",
        Prospect::WillBeNegligible => "that will show that it does not matter",
        Prospect::WillStayOpen => "that will not make it clear",
    };
    Some(format!(
        "{} now, {} after {}: {then}",
        range(of.now),
        range(of.then),
        counted_blocks(of.planned)
    ))
}

/// A figure that changed with an arm: `WAL 6.1 kB to 2.3 kB (−62.0 %)`.
pub(crate) fn reason(of: &Reason) -> String {
    let unit = of.figure.unit;
    let change = of.change.as_ref().map(|change| format!(" ({})", percent(change.center)));
    format!(
        "{} {} to {}{}",
        of.figure.name,
        value(unit, Some(of.baseline)),
        value(unit, Some(of.arm)),
        change.unwrap_or_default()
    )
}

/// The reasons of one section.
pub(crate) fn reasons_of(of: &[Reason], section: Section) -> Vec<&Reason> {
    of.iter().filter(|reason| reason.figure.section == section).collect()
}

/// Whether a figure moved to the better, where one way is.
pub(crate) fn moved_better(of: &Reason) -> Option<bool> {
    let up = of.arm > of.baseline;
    Some(match of.figure.better? {
        Better::Higher => up,
        Better::Lower => !up,
    })
}

/// Predicted beside measured, in a sentence.
pub(crate) fn prediction(of: &PredictionMet) -> String {
    let predicted = &of.prediction;
    let measured = match &of.measured {
        Some(change) => match change.interval {
            Some(interval) => {
                format!("measured {} ({})", percent(change.center), range(interval))
            }
            None => format!("measured {}", percent(change.center)),
        },
        None => "not measured".to_owned(),
    };
    let held = match of.held {
        Held::Yes => "the prediction held",
        Held::Above => "more than predicted: the prediction did not hold",
        Held::Below => "less than predicted: the prediction did not hold",
        Held::Open => "whether it held is open",
    };
    format!(
        "{} of run {} predicted {} of {} from {}; {measured}: {held}.",
        predicted.finding,
        predicted.run,
        range(predicted.change),
        predicted.metric,
        predicted.action.trim_end_matches(';')
    )
}

#[cfg(test)]
mod tests {
    use walwright_figures::compare::FigureUnit;
    use walwright_figures::experiment::{Arm, MetricKind, judge};
    use walwright_stats::Confidence;

    use super::*;

    #[test]
    fn what_has_no_ratio_says_why() {
        let kind = MetricKind {
            key: "throughput".to_owned(),
            name: "throughput".to_owned(),
            unit: FigureUnit::PerSecond,
            better: Better::Higher,
            expression: None,
        };
        let (base, again) = ([1.0, 2.0].map(Some), [1.0, 0.0].map(Some));
        let arm = Arm { name: "a".to_owned(), values: vec![Some(3.0), Some(0.0)] };
        let late = Arm { name: "late".to_owned(), values: vec![None, None] };
        let judged = judge(kind, &base, &again, &[arm, late], Confidence::P95, 1);
        let told = sentence(&judged.arms[0], &judged);
        assert!(told.contains("no ratio") && told.ends_with("in block 2."), "{told}");
        assert_eq!(verdict(&judged.arms[0]), "no ratio");
        assert!(sentence(&judged.arms[1], &judged).contains("not measured"), "{told}");
        let floor = floor(&judged);
        assert!(floor.contains("its second run was") && floor.contains("block 2"), "{floor}");
    }

    /// The verdict on one arm whose ratios to the baseline these are; that against itself
    /// has those of `again`.
    fn verdict_of(ratios: &[f64], again: &[f64], key: &str, better: Better) -> String {
        let kind = MetricKind {
            key: key.to_owned(),
            name: key.to_owned(),
            unit: FigureUnit::PerSecond,
            better,
            expression: None,
        };
        let values = |of: &[f64]| of.iter().map(|ratio| Some(100.0 * ratio)).collect::<Vec<_>>();
        let arm = Arm { name: "B".to_owned(), values: values(ratios) };
        let base = vec![Some(100.0); ratios.len()];
        let judged = judge(kind, &base, &values(again), &[arm], Confidence::P95, 1);
        one_verdict(&judged.arms[0], &judged, 0.02)
    }

    #[test]
    fn a_verdict_needs_no_statistics() {
        let quiet = [1.001, 0.999, 1.0, 1.001, 1.0, 0.999, 1.0, 1.0];
        let gain = [1.12, 1.11, 1.13, 1.12, 1.11, 1.13, 1.12, 1.12];
        let of =
            |ratios: &[f64], key, better| verdict_of(ratios, &quiet[..ratios.len()], key, better);
        let faster = of(&gain, "throughput", Better::Higher);
        assert_eq!(faster, "B is faster by 12.0 % (11.4 to 12.6 %), 8 pairs.");
        let slower = of(&gain, "latency_p99", Better::Lower);
        assert!(slower.starts_with("B is slower by 12.0 %"), "{slower}");
        let more = of(&gain, "WAL", Better::Lower);
        assert_eq!(more, "B: WAL is 12.0 % higher (11.4 to 12.6 %), 8 pairs.");
        let few = of(&gain[..3], "throughput", Better::Higher);
        assert!(
            few.starts_with("B looks faster by 12.0 %") && few.contains("3 pairs; 6 can"),
            "{few}"
        );
        let same = of(&[1.001, 0.998, 1.0, 1.002, 0.999, 1.0], "throughput", Better::Higher);
        assert!(same.starts_with("No difference that matters: between −0."), "{same}");
        let open = of(&[1.2, 0.9, 1.1, 0.95, 1.05, 0.97], "throughput", Better::Higher);
        assert!(open.starts_with("Undecided: between −") && open.contains(" and +"), "{open}");
        assert!(open.ends_with(" pairs would settle it."), "{open}");
        let none = of(&[1.2], "throughput", Better::Higher);
        assert_eq!(none, "Undecided after 1 pair.");
    }

    #[test]
    fn ranges_carry_their_unit_once() {
        assert_eq!(range(Interval::between(0.041, 0.067)), "+4.1 to +6.7 %");
        assert_eq!(range(Interval::between(-0.2, 0.1)), "−20.0 to +10.0 %");
    }
}
