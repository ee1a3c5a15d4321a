//! In which order the runs of a block are made, and which seed they share.

use walwright_workload::script::Rng;

/// The baseline's place among the runs of a block.
pub const BASELINE: usize = 0;
/// The place of its repeat, the A/A arm.
pub const AGAIN: usize = 1;
/// The place of the first arm.
pub const FIRST_ARM: usize = 2;

/// The runs of a block in random order: the baseline, the baseline again, every arm. It
/// follows from seed and `restarting` alone, so that a resumed experiment goes on in the same
/// order.
///
/// The places that are `restarting` restart the server for their changes, to make them and to
/// undo them, and the second is also the restart with which the run after it begins. So no two
/// of them are neighbours, as far as the others keep them apart, and the order is one of all
/// such with equal chance: as often one as its reverse, so that what drifts steadily favours
/// none.
pub fn of_block(seed: u64, block: usize, arms: usize, restarting: &[usize]) -> Vec<usize> {
    let mut rng = generator(seed, block);
    let is_restarting = |place: &usize| restarting.contains(place);
    let (mut apart, mut others): (Vec<usize>, Vec<usize>) =
        (0..FIRST_ARM + arms).partition(is_restarting);
    shuffle(&mut apart, &mut rng);
    shuffle(&mut others, &mut rng);
    // Before, between and after the others.
    let mut gaps: Vec<usize> = (0..=others.len()).collect();
    shuffle(&mut gaps, &mut rng);
    let mut order: Vec<Vec<usize>> = vec![Vec::new(); gaps.len()];
    for (place, gap) in apart.into_iter().zip(gaps.iter().cycle()) {
        order[*gap].push(place);
    }
    for (place, gap) in others.into_iter().zip(&mut order) {
        gap.push(place);
    }
    order.concat()
}

/// Every order with equal chance (Fisher and Yates).
fn shuffle(places: &mut [usize], rng: &mut Rng) {
    for last in (1..places.len()).rev() {
        let chosen = rng.range_u64(0, last as u64) as usize;
        places.swap(last, chosen);
    }
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
        let orders: Vec<Vec<usize>> = (0..50).map(|block| of_block(7, block, 3, &[])).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
        }
        assert_eq!(orders[3], of_block(7, 3, 3, &[]));
        let firsts: Vec<usize> =
            (0..5).map(|p| orders.iter().filter(|o| o[0] == p).count()).collect();
        assert!(firsts.iter().all(|count| (3..=20).contains(count)), "{firsts:?}");
    }

    #[test]
    fn runs_that_restart_the_server_are_kept_apart_and_favoured_nowhere() {
        let neighbours = |order: &[usize], restarting: &[usize]| {
            let both = |pair: &&[usize]| pair.iter().all(|place| restarting.contains(place));
            order.windows(2).filter(both).count()
        };
        let mut at = [[0; 5]; 5];
        for block in 0..4_000 {
            let order = of_block(7, block, 3, &[2, 4]);
            assert_eq!(neighbours(&order, &[2, 4]), 0, "{order:?}");
            for (position, place) in order.iter().enumerate() {
                at[*place][position] += 1;
            }
        }
        for (place, at) in at.iter().enumerate() {
            assert_eq!(at.iter().sum::<i32>(), 4_000);
            // The middle of the block on average: steady drift favours none.
            let middle: f64 = at.iter().zip(0..).map(|(n, p)| f64::from(n * p)).sum::<f64>() / 4e3;
            assert!((middle - 2.0).abs() < 0.1, "{place}: {middle}");
            assert!(at.iter().all(|count| *count > 300), "{place}: {at:?}");
        }
        // More of them than gaps: as few neighbours as there can be.
        for block in 0..50 {
            let order = of_block(7, block, 6, &[2, 3, 4, 5, 6, 7]);
            assert_eq!((order.len(), neighbours(&order, &[2, 3, 4, 5, 6, 7])), (8, 3));
        }
    }

    #[test]
    fn blocks_differ_in_their_load() {
        let seeds: std::collections::BTreeSet<u64> = (0..100).map(|b| load_seed(1, b)).collect();
        assert_eq!(seeds.len(), 100);
        assert_ne!(load_seed(1, 0), load_seed(2, 0));
    }
}
