//! What the connections of a coalescer share.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::batch::Batch;
use crate::dead_letters::DeadLetters;
use crate::error::Refusal;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::positions::Positions;
use crate::room::Room;

/// What the connections of a coalescer share.
pub(crate) struct Engine {
    pub(crate) options: Options,
    pub(crate) room: Room,
    pub(crate) metrics: Metrics,
    pub(crate) dead_letters: DeadLetters,
    /// Positions of the source that need not be read again.
    pub(crate) positions: Mutex<Positions>,
}

impl Engine {
    pub(crate) fn keeps_dead_letters(&self) -> bool {
        !matches!(self.dead_letters, DeadLetters::None)
    }

    /// What a batch's transaction adds to its connection's record: its own positions, and all
    /// from the start that others have written, which keeps the record short.
    pub(crate) fn positions_of(&self, batch: &Batch) -> Positions {
        let mut positions = Positions::default();
        for position in batch.rows.iter().filter_map(|row| row.position.as_ref()) {
            positions.add(position);
        }
        if let Some(start) = self.lock().first_gapless() {
            positions.add(&start);
        }
        positions
    }

    /// The rows of a batch are written, except those that are refused. What is nowhere kept is
    /// not done: its writer may end before it hears of it.
    pub(crate) fn done(&self, batch: &Batch, refused: &BTreeMap<usize, Refusal>) {
        let mut positions = self.lock();
        for (at, row) in batch.rows.iter().enumerate() {
            let lost = refused.get(&at).is_some_and(|refusal| !refusal.dead_letter);
            if let Some(position) = row.position.as_ref().filter(|_| !lost) {
                positions.add(position);
            }
        }
    }

    /// What was made of these positions is not to be written.
    pub(crate) fn mark_done(&self, position: &Range<u64>) {
        self.lock().add(position);
    }

    /// All positions that need not be read again.
    pub(crate) fn all_done(&self) -> Positions {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Positions> {
        self.positions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
