//! In which order the runs of a block are made, and which seed they share.

use walwright_workload::script::Rng;

/// The baseline's place among the runs of a block.
pub const BASELINE: usize = 0;
/// The place of its repeat, the A/A arm.
pub const AGAIN: usize = 1;
/// The place of the first arm.
pub const FIRST_ARM: usize = 2;

/// The runs of a block in random order: the baseline, the baseline again, every arm.
/// It follows from the seed alone, so that a resumed experiment goes on in the same
/// order.
pub fn of_block(seed: u64, block: usize, arms: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..FIRST_ARM + arms).collect();
    let mut rng = generator(seed, block);
    // Fisher and Yates.
    for last in (1..places.len()).rev() {
        let chosen = rng.range_u64(0, last as u64) as usize;
        places.swap(last, chosen);
    }
    places
}

/// The seed of the load that all runs of a block share: the same transactions in the same
/// order, as far as speed allows.
pub fn load_seed(seed: u64, block: usize) -> u64 {
    generator(!seed, block).next_u64()
}

fn generator(seed: u64, block: usize) -> Rng {
    let mut rng = Rng::from_seed(seed);
    // Seeds one apart give unrelated sequences (splitmix64), so blocks may count on.
    Rng::from_seed(rng.next_u64().wrapping_add(block as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_every_run_once_and_its_order_is_its_own() {
        let orders: Vec<Vec<usize>> = (0..50).map(|block| of_block(7, block, 3)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
        }
        assert_eq!(orders[3], of_block(7, 3, 3));
        let firsts: Vec<usize> =
            (0..5).map(|p| orders.iter().filter(|o| o[0] == p).count()).collect();
        assert!(firsts.iter().all(|count| (3..=20).contains(count)), "{firsts:?}");
    }

    #[test]
    fn blocks_differ_in_their_load() {
        let seeds: std::collections::BTreeSet<u64> = (0..100).map(|b| load_seed(1, b)).collect();
        assert_eq!(seeds.len(), 100);
        assert_ne!(load_seed(1, 0), load_seed(2, 0));
    }
}
