//! How a number of runs is divided among the stages of a search.

use serde::{Deserialize, Serialize};

use crate::Runs;

/// Dimensions up to which a screening costs more than it tells.
const FEW: usize = 4;
/// Runs that must remain to search with, for a screening to be worth its runs.
const WORTH_SEARCHING: u32 = 6;
/// Blocks of an ablation that are planned for; where lines can be told apart in fewer, it has
/// more arms instead.
pub(crate) const PLANNED_BLOCKS: u32 = 4;
/// Arms of an ablation that are planned for.
const MOST_ARMS: u32 = 8;
/// Blocks beyond which more runs buy little.
pub(crate) const MOST_BLOCKS: u32 = 8;

/// Runs of each stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// All of them.
    pub runs: u32,
    /// The baseline against itself.
    pub baseline: u32,
    /// Start points.
    pub starts: u32,
    /// The screening design, where there is one.
    pub screening: Option<Runs>,
    /// What the model chooses.
    pub search: u32,
    /// The winner minus one.
    pub ablation: u32,
}

impl Budget {
    /// The least number of runs that end in something: two of the baseline, one of
    /// anything else, two blocks of both.
    pub const LEAST: u32 = 8;

    /// Whether they are enough to look at each of so many dimensions: a screening does, and few
    /// dimensions need none.
    pub fn looks_at_all(&self, dimensions: usize) -> bool {
        self.screening.is_some() || dimensions <= FEW
    }

    /// Divides `runs` for a space of `dimensions` with `starts` start points and a
    /// baseline with `at_odds` values that are no defaults: what each of those costs is
    /// worth knowing even where undoing them is all there is to gain.
    pub fn of(runs: u32, dimensions: usize, starts: usize, at_odds: usize) -> Budget {
        let runs = runs.max(Budget::LEAST);
        // On simulated surfaces three of sixty led to less regret than two or five
        // (docs/reference/search.md).
        let baseline = (2 + runs / 40).min(5);
        // Baseline, winner, and the unproven lines together, besides those values.
        let arms = (3 + at_odds as u32).min(MOST_ARMS);
        let ablation = (PLANNED_BLOCKS * arms).min(runs / 2);
        let starts = (starts as u32).min(4).min((runs - baseline - ablation) / 2);
        let left = runs - baseline - ablation - starts;
        let screening = Some(Runs::Twelve)
            .filter(|design| dimensions > FEW && left >= design.count() as u32 + WORTH_SEARCHING);
        let search = left - screening.map_or(0, |design| design.count() as u32);
        Budget { runs, baseline, starts, screening, search, ablation }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sixty_runs_are_divided_as_the_method_says() {
        let budget = Budget::of(60, 20, 3, 0);
        assert_eq!((budget.baseline, budget.starts, budget.ablation), (3, 3, 12));
        assert_eq!(budget.screening, Some(Runs::Twelve));
        assert!(budget.search >= 12, "{budget:?}");
        let mis_set = Budget::of(60, 20, 3, 4);
        assert_eq!(mis_set.ablation, 28);
        assert_eq!(Budget::of(12, 20, 3, 0).screening, None);
        let at_all = |runs, dimensions| Budget::of(runs, dimensions, 3, 0).looks_at_all(dimensions);
        assert!(at_all(60, 20) && at_all(12, 4) && !at_all(24, 20));
    }

    proptest! {
        #[test]
        fn no_run_is_lost_or_invented(runs in 0_u32..300, dimensions in 1_usize..40, starts in 0_usize..9, odd in 0_usize..9) {
            let b = Budget::of(runs, dimensions, starts, odd);
            let screened = b.screening.map_or(0, |design| design.count() as u32);
            let all = b.baseline + b.starts + screened + b.search + b.ablation;
            prop_assert_eq!(all, b.runs);
            prop_assert!(b.search + b.starts >= 1);
        }
    }
}
