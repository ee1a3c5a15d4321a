//! What lies outside the server's configuration: options of the client, measured where
//! that is consented to.

use serde::{Deserialize, Serialize};
use walwright_search::{Ablation, Effect};

use crate::experiment::{LoadChange, Protocol};

/// Blocks in which each lever runs once beside the baseline.
pub(super) const BLOCKS: u32 = 4;

/// One lever.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lever {
    /// What is done, in words.
    pub name: String,
    /// What the load has otherwise.
    pub load: LoadChange,
    /// Its scores, one a block; `None` for a run that failed.
    pub scores: Vec<Option<f64>>,
}

/// The levers of a load that is driven like this; the first is the load as it is.
pub(super) fn levers(load: &LoadChange) -> Vec<Lever> {
    let lever =
        |name: &str, load: LoadChange| Lever { name: name.to_owned(), load, scores: Vec::new() };
    let protocol = |protocol| LoadChange { protocol: Some(protocol), ..LoadChange::default() };
    let lean = LoadChange { lean: Some(true), ..LoadChange::default() };
    let mut levers = vec![lever("the load as it is", LoadChange::default())];
    let now = load.protocol.unwrap_or(Protocol::Prepared);
    if load.lean != Some(true) {
        if now != Protocol::Prepared {
            levers.push(lever("prepared statements", protocol(Protocol::Prepared)));
        }
        if now != Protocol::Simple {
            levers.push(lever("the simple protocol", protocol(Protocol::Simple)));
        }
        let lean = LoadChange { protocol: Some(Protocol::Prepared), ..lean };
        levers.push(lever("one round trip a transaction", lean));
    }
    levers
}

/// The next run: which lever, in which block. Blocks turn the order around, so that
/// steady drift cancels.
pub(super) fn next(levers: &[Lever]) -> Option<(usize, u32)> {
    let done: usize = levers.iter().map(|lever| lever.scores.len()).sum();
    let (block, place) = (done / levers.len().max(1), done % levers.len().max(1));
    let index = if block.is_multiple_of(2) { place } else { levers.len() - 1 - place };
    (levers.len() > 1 && (block as u32) < BLOCKS).then_some((index, block as u32))
}

/// What was measured outside the configuration of a tune.
pub fn effects_of(state: &super::TuneState) -> Vec<(String, Effect)> {
    effects(&state.levers)
}

/// The effect of each lever against the load as it is.
pub(super) fn effects(levers: &[Lever]) -> Vec<(String, Effect)> {
    let ablation = Ablation { scores: levers.iter().map(|l| l.scores.clone()).collect() };
    levers
        .iter()
        .enumerate()
        .skip(1)
        .map(|(index, lever)| (lever.name.clone(), ablation.effect(index, 0, None)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lever_runs_once_a_block_and_has_its_effect() {
        let mut all = levers(&LoadChange::default());
        assert_eq!(all.len(), 3);
        while let Some((index, block)) = next(&all) {
            assert_eq!(all[index].scores.len(), block as usize);
            let truth = [0.0, -0.12, 0.5][index];
            all[index].scores.push(Some(truth + 0.01 * f64::from(block)));
        }
        assert!(all.iter().all(|lever| lever.scores.len() == BLOCKS as usize));
        let found = effects(&all);
        assert_eq!(found[1].0, "one round trip a transaction");
        assert!(found[0].1.is_loss() && found[1].1.is_gain());
    }
}
