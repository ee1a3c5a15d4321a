//! A short measure of one processor's speed.

use std::hint::black_box;
use std::time::{Duration, Instant};

use walwright_record::CpuProbe;

/// What is computed. Changing the loop means changing this name.
const METHOD: &str = "splitmix64 chain";
/// Rounds between looks at the clock.
const BATCH: u64 = 100_000;
const REPEATS: usize = 8;
const REPEAT_TIME: Duration = Duration::from_millis(25);

/// Measures for about 0.2 s on the calling thread.
///
/// The loop is a chain of dependent 64-bit operations (the finaliser of
/// SplitMix64), so it tells the speed of a core, not of its vector units, and
/// its spread tells how steady that speed is.
pub fn cpu_probe() -> CpuProbe {
    let mut rates: Vec<f64> = (0..REPEATS).map(repeat).collect();
    rates.sort_by(f64::total_cmp);
    let median = (rates[REPEATS / 2 - 1] + rates[REPEATS / 2]) / 2.0;
    CpuProbe {
        method: METHOD.to_owned(),
        rounds_per_second: median,
        spread: (rates[REPEATS - 1] - rates[0]) / median,
    }
}

fn repeat(number: usize) -> f64 {
    let mut state = black_box(number as u64);
    let mut rounds = 0_u64;
    let started = Instant::now();
    loop {
        for _ in 0..BATCH {
            state = mix(state);
        }
        state = black_box(state);
        rounds += BATCH;
        let elapsed = started.elapsed();
        if elapsed >= REPEAT_TIME {
            return rounds as f64 / elapsed.as_secs_f64();
        }
    }
}

/// The finaliser of SplitMix64.
pub(crate) fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_splitmix64() {
        // First output of the reference implementation for seed 0.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn a_processor_does_more_than_a_million_rounds_a_second() {
        let probe = cpu_probe();
        assert!(probe.rounds_per_second > 1e6, "{probe:?}");
        assert!(probe.spread >= 0.0);
    }
}
