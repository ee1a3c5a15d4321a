//! Which configurations a plan runs.

use serde::{Deserialize, Serialize};

/// How the arms of a plan are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// Each arm alone against the baseline.
    #[default]
    OneAtATime,
    /// Each arm alone and all of them together. A profile is taken apart, one arm for each change.
    Addition,
    /// All together are the baseline; each is left out once, and all of them. A profile is taken
    /// apart, too.
    Ablation,
    /// Every combination.
    Factorial,
    /// Two arms: the first is the baseline of the second, which has nothing of it.
    Pair,
}

impl Design {
    /// As a plan writes it.
    pub fn name(self) -> &'static str {
        match self {
            Design::OneAtATime => "one-at-a-time",
            Design::Addition => "addition",
            Design::Ablation => "ablation",
            Design::Factorial => "factorial",
            Design::Pair => "pair",
        }
    }
}
