//! The generator of this crate: a stream for every step, so that the state of a search
//! need not hold one.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// The generator of step `step` of a search with `seed`.
pub(crate) fn generator(seed: u64, step: u64) -> Xoshiro256PlusPlus {
    // An odd constant with scattered bits (2^64 over the golden ratio) keeps the streams
    // of neighbouring steps and seeds apart.
    Xoshiro256PlusPlus::seed_from_u64(
        seed ^ step.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15),
    )
}
