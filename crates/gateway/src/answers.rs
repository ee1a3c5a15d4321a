//! What a client is to be told, and since when it may be.

use std::collections::VecDeque;

use crate::Until;

/// Memory kept between two answers.
const KEEP: usize = 16 * 1024;

/// Bytes on their way to a client, in order, each with the barrier that it waits for.
#[derive(Debug, Default)]
pub struct Answers {
    bytes: Vec<u8>,
    /// Bytes at the front that were taken by the client's socket.
    taken: usize,
    /// Ends of stretches, as places in `bytes`, and what each waits for.
    held: VecDeque<Held>,
    /// Up to where bytes may leave.
    free: usize,
    /// Whether what may leave ends within a message.
    free_is_torn: bool,
}

#[derive(Debug)]
struct Held {
    end: usize,
    until: Until,
    /// Whether its end is within a message.
    is_torn: bool,
}

impl Answers {
    /// Adds bytes of an answer that goes on: they wait until it is [held](Answers::hold).
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The buffer that answers are added to.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What was added until now waits for a barrier.
    pub fn hold(&mut self, until: Until) {
        self.hold_torn(until, false);
    }

    /// The same, where the last message that was added may go on.
    pub fn hold_torn(&mut self, until: Until, is_torn: bool) {
        let end = self.bytes.len();
        if end == self.end_of_held() {
            return;
        }
        if until == Until::AT_ONCE && self.held.is_empty() {
            (self.free, self.free_is_torn) = (end, is_torn);
            return;
        }
        match self.held.back_mut() {
            // Never earlier than what comes before it.
            Some(last) if last.until.covers(until) => (last.end, last.is_torn) = (end, is_torn),
            _ => self.held.push_back(Held { end, until, is_torn }),
        }
    }

    /// Forgets what was added and not held. Whether another message may follow what is left.
    pub fn drop_unheld(&mut self) -> bool {
        self.bytes.truncate(self.end_of_held());
        !self.held.back().map_or(self.free_is_torn, |last| last.is_torn)
    }

    /// Where what was not held yet begins.
    fn end_of_held(&self) -> usize {
        self.held.back().map_or(self.free, |last| last.end)
    }

    /// Forgets all that may not leave yet: its barrier will never return. Whether another
    /// message may follow what is left.
    pub fn drop_held(&mut self) -> bool {
        self.held.clear();
        self.drop_unheld()
    }

    /// Barriers returned.
    pub fn release(&mut self, returned: impl Fn(Until) -> bool) {
        while let Some(first) = self.held.pop_front_if(|first| returned(first.until)) {
            (self.free, self.free_is_torn) = (first.end, first.is_torn);
        }
    }

    /// Bytes that may leave now.
    pub fn ready(&self) -> &[u8] {
        &self.bytes[self.taken..self.free]
    }

    /// So many of the bytes that may leave did.
    pub fn advance(&mut self, count: usize) {
        self.taken += count.min(self.free - self.taken);
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(KEEP);
            (self.taken, self.free) = (0, 0);
        } else if self.taken > KEEP && self.taken > self.bytes.len() / 2 {
            self.bytes.drain(..self.taken);
            self.free -= self.taken;
            for held in &mut self.held {
                held.end -= self.taken;
            }
            self.taken = 0;
        }
    }

    /// Bytes that are kept here.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Whether nothing is kept here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives back memory that an idle client does not need.
    pub fn shrink(&mut self) {
        if self.is_empty() {
            self.bytes = Vec::new();
            self.held = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::barrier::tests_support::epoch;

    fn until(number: u64) -> Until {
        Until { barrier: 0, epoch: epoch(number) }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Push(Vec<u8>, u64),
        Release(u64),
        Take(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (prop::collection::vec(any::<u8>(), 0..9000), 0..6_u64)
                .prop_map(|(bytes, until)| Step::Push(bytes, until)),
            (0..6_u64).prop_map(|until| Step::Push(Vec::new(), until)),
            (0..8_u64).prop_map(Step::Release),
            (0..20_000_usize).prop_map(Step::Take),
        ]
    }

    proptest! {
        #[test]
        fn bytes_leave_in_order_once_and_never_before_their_barrier(
            steps in prop::collection::vec(step(), 0..60),
        ) {
            let mut answers = Answers::default();
            // Every byte with what it and those before it wait for.
            let mut all: Vec<(u8, u64)> = Vec::new();
            let (mut left, mut returned) = (0, 0);
            for step in steps {
                match step {
                    Step::Push(bytes, until) => {
                        answers.push(&bytes);
                        answers.hold(super::tests::until(until));
                        all.extend(bytes.iter().map(|byte| (*byte, until)));
                    }
                    Step::Release(to) => {
                        returned = returned.max(to);
                        answers.release(|of| of.epoch <= epoch(returned));
                    }
                    Step::Take(count) => {
                        let ready = answers.ready();
                        let count = count.min(ready.len());
                        for (at, byte) in ready[..count].iter().enumerate() {
                            let (expected, until) = all[left + at];
                            prop_assert_eq!(*byte, expected);
                            prop_assert!(until <= returned);
                        }
                        left += count;
                        answers.advance(count);
                    }
                }
                prop_assert_eq!(answers.len(), all.len() - left);
            }
            answers.release(|_| true);
            prop_assert_eq!(answers.ready().len(), all.len() - left);
        }
    }
}
