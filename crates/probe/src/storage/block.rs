//! What is written: bytes that do not compress, at an address that direct I/O takes.

use crate::cpu::mix;

/// Direct I/O wants memory that begins at a multiple of the device's block; no device
/// in use wants more than a page of memory.
const ALIGNMENT: usize = 4096;

/// A piece of aligned memory.
#[derive(Debug)]
pub(super) struct Block {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Block {
    /// `length` bytes that look random, so that nothing below can store less of them.
    pub(super) fn random(length: usize, seed: u64) -> Block {
        let memory = vec![0; length + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let mut block = Block { memory, start, length };
        let mut state = seed;
        for word in block.bytes_mut().chunks_mut(8) {
            state = state.wrapping_add(1);
            word.copy_from_slice(&mix(state).to_le_bytes()[..word.len()]);
        }
        block
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }

    /// Makes it differ from what was written before, so that nothing below can tell
    /// that it need not be written.
    pub(super) fn stamp(&mut self, number: u64) {
        for sector in self.bytes_mut().chunks_mut(512) {
            if let Some(head) = sector.first_chunk_mut() {
                *head = mix(number).to_le_bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_no_two_stamps_leave_a_sector_alike() {
        let mut block = Block::random(8192, 7);
        assert_eq!(block.bytes().as_ptr().align_offset(ALIGNMENT), 0);
        let before = block.bytes().to_vec();
        block.stamp(1);
        let sectors = before.chunks(512).zip(block.bytes().chunks(512));
        assert!(sectors.into_iter().all(|(a, b)| a != b));
        assert!(before.chunks(8).collect::<std::collections::BTreeSet<_>>().len() > 1000);
    }
}
