//! What was measured, why, and what it showed.

use serde::{Deserialize, Serialize};

use crate::Configuration;

/// One measurement of one configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its number, from 0.
    pub id: u32,
    /// Why it was made.
    pub purpose: Purpose,
    /// What was measured.
    pub configuration: Configuration,
    /// Measurements of one block were made near each other, so drift hardly divides them.
    pub block: u32,
    /// What it showed.
    pub outcome: Outcome,
}

impl Trial {
    /// Its score; `None` when it crashed.
    pub fn score(&self) -> Option<f64> {
        match self.outcome {
            Outcome::Measured { score, .. } => Some(score),
            Outcome::Crashed => None,
        }
    }

    /// What is to be kept, as a logarithm; `None` when it crashed or nothing is.
    pub fn kept(&self) -> Option<f64> {
        match self.outcome {
            Outcome::Measured { kept, .. } => kept,
            Outcome::Crashed => None,
        }
    }
}

/// Why a configuration is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "purpose", rename_all = "snake_case")]
pub enum Purpose {
    /// The baseline against itself: noise and drift.
    Baseline,
    /// A configuration that rules or a diagnosis propose.
    Start {
        /// Where it comes from.
        name: String,
    },
    /// A run of a screening design.
    Screen {
        /// Row of the design.
        row: usize,
    },
    /// What the model expects most of.
    Search,
    /// A configuration of which the model knows too little, once more. Earlier versions wrote
    /// the races that they had too, which were that.
    #[serde(alias = "race")]
    Again,
    /// An arm of the ablation.
    Ablate {
        /// Which arm: 0 is the baseline, 1 the winner, the others the winner with something
        /// taken back.
        arm: usize,
        /// Block of the ablation.
        block: u32,
    },
}

/// What a measurement showed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It ran.
    Measured {
        /// Natural logarithm of what is to be large.
        score: f64,
        /// Natural logarithm of what must not fall far below the baseline's
        /// ([`Options::allowed_loss`](crate::Options)); `None` where nothing is to be kept.
        #[serde(default)]
        kept: Option<f64>,
    },
    /// The server did not start, died, or the load failed under it.
    Crashed,
}

impl Outcome {
    /// A score beside which nothing is to be kept.
    pub fn score(score: f64) -> Outcome {
        Outcome::Measured { score, kept: None }
    }

    /// The same to nine digits after the point.
    pub(crate) fn rounded(self) -> Outcome {
        let round = |value: f64| (value * 1e9).round() / 1e9;
        match self {
            Outcome::Measured { score, kept } => {
                Outcome::Measured { score: round(score), kept: kept.map(round) }
            }
            Outcome::Crashed => Outcome::Crashed,
        }
    }

    pub(crate) fn is_finite(&self) -> bool {
        match self {
            Outcome::Measured { score, kept } => {
                score.is_finite() && kept.is_none_or(f64::is_finite)
            }
            Outcome::Crashed => true,
        }
    }
}
