//! The numeric functions whose results must equal pgbench's bit for bit.
//!
//! Constants and algorithms are those of `src/bin/pgbench/pgbench.c`
//! (PostgreSQL 18).

use super::rng::Rng;

const FNV_OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// FNV-1a over the eight bytes of `value`, lowest first.
pub(crate) fn hash_fnv1a(value: i64, seed: i64) -> i64 {
    let start = FNV_OFFSET_BASIS ^ seed as u64;
    let hash = value
        .to_le_bytes()
        .iter()
        .fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME));
    hash as i64
}

const MURMUR2_MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const MURMUR2_SHIFT: u32 = 47;

/// MurmurHash2 (64-bit) of the eight bytes of `value`.
pub(crate) fn hash_murmur2(value: i64, seed: i64) -> i64 {
    let mut hash = seed as u64 ^ MURMUR2_MULTIPLIER.wrapping_mul(8);
    let mut block = (value as u64).wrapping_mul(MURMUR2_MULTIPLIER);
    block ^= block >> MURMUR2_SHIFT;
    block = block.wrapping_mul(MURMUR2_MULTIPLIER);

    hash = (hash ^ block).wrapping_mul(MURMUR2_MULTIPLIER);
    hash ^= hash >> MURMUR2_SHIFT;
    hash = hash.wrapping_mul(MURMUR2_MULTIPLIER);
    (hash ^ (hash >> MURMUR2_SHIFT)) as i64
}

/// A pseudorandom permutation of `[0, size)`: the place of `value`.
///
/// Six rounds; each scrambles the lower and the upper power-of-two part of
/// the range by an odd multiplier, a XOR and a rotation, then shifts the whole
/// range. `size` must be positive.
pub(crate) fn permute(value: i64, size: i64, seed: i64) -> i64 {
    if size < 2 {
        return 0;
    }
    let mut rng = Rng::from_seed(seed as u64);
    let size = size as u64;
    let mut place = value as u64 % size;
    let mask_bits = size.ilog2();
    let mask = (1u64 << mask_bits) - 1;
    let scramble = |part: u64, multiplier: u64, flip: u64| {
        let mixed = (part.wrapping_mul(multiplier) ^ flip) & mask;
        ((mixed << 1) & mask) | (mixed >> (mask_bits - 1))
    };
    for _ in 0..6 {
        let multiplier = (rng.next_u64() & mask) | 1;
        let flip = rng.next_u64() & mask;
        if place <= mask {
            place = scramble(place, multiplier, flip);
        }

        let multiplier = (rng.next_u64() & mask) | 1;
        let flip = rng.next_u64() & mask;
        let from_top = size - 1 - place;
        if from_top <= mask {
            place = size - 1 - scramble(from_top, multiplier, flip);
        }

        let offset = rng.range_u64(0, size - 1);
        place = ((u128::from(place) + u128::from(offset)) % u128::from(size)) as u64;
    }
    place as i64
}

/// Smallest parameter of `random_gaussian`.
pub(crate) const MIN_GAUSSIAN: f64 = 2.0;
/// Smallest parameter of `random_zipfian`.
pub(crate) const MIN_ZIPFIAN: f64 = 1.001;
/// Largest parameter of `random_zipfian`.
pub(crate) const MAX_ZIPFIAN: f64 = 1000.0;

/// Uniform in `[min, max]`.
#[inline]
pub(crate) fn uniform(rng: &mut Rng, min: i64, max: i64) -> i64 {
    min.wrapping_add(rng.range_u64(0, max.wrapping_sub(min) as u64) as i64)
}

/// Truncated exponential on `[min, max]`; `parameter > 0`.
pub(crate) fn exponential(rng: &mut Rng, min: i64, max: i64, parameter: f64) -> i64 {
    let cut = (-parameter).exp();
    let uniform = 1.0 - rng.next_f64();
    let fraction = -(cut + (1.0 - cut) * uniform).ln() / parameter;
    scaled(min, max, fraction)
}

/// Truncated normal on `[min, max]`, cut at `parameter` standard deviations.
pub(crate) fn gaussian(rng: &mut Rng, min: i64, max: i64, parameter: f64) -> i64 {
    let deviation = loop {
        let deviation = rng.next_normal();
        if deviation >= -parameter && deviation < parameter {
            break deviation;
        }
    };
    let fraction = (deviation + parameter) / (parameter * 2.0);
    scaled(min, max, fraction)
}

/// The integer at `fraction`, from 0 to 1, of the way through `[min, max]`.
/// The caller has checked that the number of integers fits an `i64`; as a
/// double it may round up, so the result is kept inside the range.
fn scaled(min: i64, max: i64, fraction: f64) -> i64 {
    let count = max - min + 1;
    let offset = ((count as f64 * fraction) as i64).clamp(0, count - 1);
    min + offset
}

/// Zipfian on `[min, max]` by rejection (Devroye, "Non-Uniform Random Variate
/// Generation", 1986, p. 550).
pub(crate) fn zipfian(rng: &mut Rng, min: i64, max: i64, parameter: f64) -> i64 {
    let count = max - min + 1;
    if count <= 1 {
        return min;
    }
    let exponent = parameter - 1.0;
    let b = 2f64.powf(exponent);
    loop {
        let u = rng.next_f64();
        let v = rng.next_f64();
        let x = u.powf(-1.0 / exponent).floor();
        let t = (1.0 + 1.0 / x).powf(exponent);
        if v * x * (t - 1.0) / (b - 1.0) <= t / b && x <= count as f64 {
            return min + (x as i64 - 1).clamp(0, count - 1);
        }
    }
}
