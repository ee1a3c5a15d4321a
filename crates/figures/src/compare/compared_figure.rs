//! A figure of several groups of runs.

use serde::Serialize;

use super::effect::Effect;
use super::group::GroupValue;
use crate::figure_unit::{Better, FigureUnit};

/// Where a figure belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// What the clients saw.
    Load,
    /// Where the time of a unit of work went.
    Time,
    /// What a unit of work cost.
    Work,
    /// The machine over the window.
    Machine,
}

impl Section {
    /// Every section, as they are shown.
    pub const ALL: [Section; 4] = [Section::Load, Section::Time, Section::Work, Section::Machine];
}

/// One figure in every group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// A short stable name.
    pub key: String,
    /// What a person calls it.
    pub name: String,
    /// Where it belongs.
    pub section: Section,
    /// Its unit.
    pub unit: FigureUnit,
    /// Which way is better, where one is.
    pub better: Option<Better>,
    /// Its value in each group, the baseline first.
    pub values: Vec<GroupValue>,
    /// Its change in each group but the baseline; `None` where it has no ratio.
    pub effects: Vec<Option<Effect>>,
}

impl ComparedFigure {
    /// Whether nothing is known of it in any group, or it is zero in all.
    pub fn is_idle(&self) -> bool {
        self.values.iter().all(|value| value.center.unwrap_or(0.0) == 0.0)
    }
}
