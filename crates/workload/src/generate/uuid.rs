//! UUIDs from the generator of a row.

use crate::script::{Rng, write_uuid};

const VERSION_MASK: u128 = 0xF << 76;
const VARIANT_MASK: u128 = 0b11 << 62;
const VARIANT: u128 = 0b10 << 62;

fn random_bits(rng: &mut Rng) -> u128 {
    u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())
}

/// A random UUID (RFC 9562, version 4).
pub(crate) fn write_v4(rng: &mut Rng, out: &mut Vec<u8>) {
    let bits = random_bits(rng) & !VERSION_MASK & !VARIANT_MASK;
    write_uuid(bits | 4 << 76 | VARIANT, out);
}

/// 2025-01-01 00:00:00 UTC in milliseconds since 1970: a fixed start, so that
/// the data follow from the seed alone.
const V7_START_MS: u64 = 1_735_689_600_000;

/// A time-ordered UUID (RFC 9562, version 7), one millisecond per row.
pub(crate) fn write_v7(row: u64, rng: &mut Rng, out: &mut Vec<u8>) {
    let time = u128::from((V7_START_MS + row) & 0xFFFF_FFFF_FFFF) << 80;
    let random = random_bits(rng) & ((1 << 80) - 1) & !VERSION_MASK & !VARIANT_MASK;
    write_uuid(time | random | 7 << 76 | VARIANT, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn version_and_variant_are_where_the_rfc_puts_them() {
        for seed in 0..100 {
            let mut rng = Rng::from_seed(seed);
            for (version, uuid) in [
                ('4', text(|out| write_v4(&mut rng.clone(), out))),
                ('7', text(|out| write_v7(seed, &mut rng, out))),
            ] {
                let chars: Vec<char> = uuid.chars().collect();
                assert_eq!(chars.len(), 36);
                assert_eq!(chars[14], version, "{uuid}");
                assert!(matches!(chars[19], '8' | '9' | 'a' | 'b'), "{uuid}");
                assert!([8, 13, 18, 23].iter().all(|at| chars[*at] == '-'), "{uuid}");
            }
        }
    }

    #[test]
    fn version_7_sorts_by_row() {
        let uuid = |row| text(|out| write_v7(row, &mut Rng::from_seed(row), out));
        assert!(uuid(1) < uuid(2) && uuid(2) < uuid(100_000));
    }

    #[test]
    fn a_number_stands_in_the_last_digits() {
        assert_eq!(text(|out| write_uuid(0x3e8, out)), "00000000-0000-0000-0000-0000000003e8");
    }
}
