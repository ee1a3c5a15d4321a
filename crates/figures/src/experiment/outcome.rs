//! What an experiment came to, whole.

use serde::{Deserialize, Serialize};
use walwright_record::RunId;
use walwright_stats::{Estimate, Interval};

use super::{ClaimMet, Judged, Looks, Outlook, Reason, Study, TimeBook};
use crate::compare::ComparedStatement;

/// An experiment's result. In JSON times are seconds and sizes bytes; changes are relative,
/// 0.05 is 5 % more than the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Its name in the lab.
    pub id: String,
    /// What the plan calls it.
    pub name: String,
    /// What it was to answer, in the user's words.
    pub question: Option<String>,
    /// The design: `one-at-a-time`, `addition`, `ablation` or `factorial`.
    pub design: String,
    /// The workload, load and server of the baseline, in words.
    pub baseline: Vec<String>,
    /// How it ended, or that it has not.
    pub ending: Ending,
    /// Blocks planned.
    pub planned: usize,
    /// Blocks of which every run is done.
    pub blocks: usize,
    /// Runs done.
    pub runs: usize,
    /// When it was looked at, and how sure each look is.
    pub looks: Looks,
    /// Changes up to this do not matter, by the plan.
    pub negligible: f64,
    /// The metric that is judged: arms with verdicts.
    pub judged: Judged,
    /// Main effects and interactions of a factorial design, judged as a family of their
    /// own; empty otherwise.
    pub contrasts: Option<Judged>,
    /// Other metrics. Nothing is claimed of them: their tests are corrected for the
    /// arms, but not for there being several metrics.
    pub others: Vec<Judged>,
    /// What the remaining blocks will buy, by arm.
    pub outlooks: Vec<Option<Outlook>>,
    /// Every arm, in the order of the plan.
    pub arms: Vec<ArmOutcome>,
    /// The runs of the baseline and of its repeat, block by block.
    pub baseline_runs: Vec<[Option<RunId>; 2]>,
    /// What was predicted, beside what was measured.
    pub prediction: Option<PredictionMet>,
    /// What others claim of the arms, beside what was measured.
    pub claims: Vec<ClaimMet>,
    /// Whether each arm of which a change is claimed is an entry of the journal by itself.
    pub entry_of_each_arm: bool,
    /// The tables of a study.
    pub study: Option<Study>,
    /// Reasons to trust it less, each a sentence.
    #[serde(alias = "doubts")]
    pub warnings: Vec<String>,
}

/// How an experiment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It goes on, or can be resumed.
    Unfinished,
    /// All planned blocks are done.
    AllBlocks,
    /// A look showed that every arm is clear.
    Clear,
    /// A look showed that what is open will stay open.
    Hopeless,
    /// Every arm was given up, so nothing was left to compare with the baseline.
    NoArmLeft,
}

/// An arm's story.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmOutcome {
    /// Its name.
    pub name: String,
    /// What it changes, each in words: `max_wal_size = 64MB`.
    pub changes: Vec<String>,
    /// Its run in each block.
    pub runs: Vec<Option<RunId>>,
    /// Why it was given up, if it was.
    pub failed: Option<String>,
    /// Where the time of a transaction went, beside the baseline.
    pub time: Vec<TimeBook>,
    /// What else changed with it.
    pub reasons: Vec<Reason>,
    /// Statements whose time changed most, the baseline first.
    pub statements: Vec<ComparedStatement>,
}

/// What was predicted before the experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The run it was derived from.
    pub run: RunId,
    /// The finding: `D34`.
    pub finding: String,
    /// The action, in words.
    pub action: String,
    /// The metric it is about.
    pub metric: String,
    /// The relative change that was to be expected: the ends of the bound.
    pub change: Interval,
}

/// Whether a prediction held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// The measured interval and the predicted one overlap.
    Yes,
    /// The measured interval lies wholly above the predicted one.
    Above,
    /// The measured interval lies wholly below it.
    Below,
    /// There is no interval yet, or one so wide that it would meet almost any prediction.
    Open,
}

/// A prediction beside what was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictionMet {
    /// What was predicted.
    pub prediction: Prediction,
    /// The measured relative change.
    pub measured: Option<Estimate>,
    /// Whether it held.
    pub held: Held,
}

impl PredictionMet {
    /// Lays what was measured beside the prediction.
    pub fn of(prediction: Prediction, measured: Option<Estimate>) -> PredictionMet {
        let held = match measured.as_ref().and_then(|measured| measured.interval) {
            None => Held::Open,
            Some(seen) if seen.low > prediction.change.high => Held::Above,
            Some(seen) if seen.high < prediction.change.low => Held::Below,
            Some(seen) if says_nothing(seen, prediction.change) => Held::Open,
            Some(_) => Held::Yes,
        };
        PredictionMet { prediction, measured, held }
    }
}

/// Whether a measured interval holds the whole prediction and as much again.
fn says_nothing(seen: Interval, predicted: Interval) -> bool {
    seen.contains(predicted.low)
        && seen.contains(predicted.high)
        && seen.half_width() > 2.0 * predicted.half_width()
}

#[cfg(test)]
mod tests {
    use walwright_stats::{Confidence, Method};

    use super::*;

    #[test]
    fn a_prediction_holds_where_the_intervals_meet() {
        let held = |center: f64, half: f64| {
            let prediction = Prediction {
                run: RunId("r".to_owned()),
                finding: "D34".to_owned(),
                action: String::new(),
                metric: "throughput".to_owned(),
                change: Interval::between(0.0, 0.1),
            };
            let method = Method::PairedLogRatio;
            let measured = Estimate::symmetric(center, half, Confidence::P95, method);
            PredictionMet::of(prediction, Some(measured)).held
        };
        assert_eq!(held(0.05, 0.01), Held::Yes);
        assert_eq!(held(0.12, 0.03), Held::Yes);
        assert_eq!(held(0.2, 0.03), Held::Above);
        assert_eq!(held(-0.05, 0.03), Held::Below);
        assert_eq!(held(0.0, f64::INFINITY), Held::Open);
        assert_eq!(held(0.05, 0.5), Held::Open);
    }
}
