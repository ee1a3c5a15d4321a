//! What was measured, why, and what it showed.

use serde::{Deserialize, Serialize};

use crate::Configuration;

/// Probability of running and keeping the constraints from which a configuration may be
/// recommended.
pub(crate) const FEASIBLE: f64 = 0.5;

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

    /// Probability that it runs and keeps the constraints.
    pub fn feasible(&self) -> f64 {
        match self.outcome {
            Outcome::Measured { feasible, .. } => feasible,
            Outcome::Crashed => 0.0,
        }
    }

    /// Whether it runs and keeps the constraints more likely than not.
    pub fn is_feasible(&self) -> bool {
        self.feasible() >= FEASIBLE
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
    /// A configuration of which the model knows too little, once more.
    Again,
    /// A race of a challenger against the best.
    Race {
        /// Which challenger, from 0.
        challenger: usize,
        /// Whether this run is the challenger's.
        is_challenger: bool,
    },
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
        /// Probability that it keeps the constraints: 1 where there are none.
        feasible: f64,
    },
    /// The server did not start, died, or the load failed under it.
    Crashed,
}

impl Outcome {
    /// A score without constraints.
    pub fn score(score: f64) -> Outcome {
        Outcome::Measured { score, feasible: 1.0 }
    }
}
