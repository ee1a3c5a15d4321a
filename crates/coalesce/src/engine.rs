//! What the connections of a coalescer share.

use std::sync::{Mutex, PoisonError};

use crate::batch::Batch;
use crate::dead_letters::DeadLetters;
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
    /// Positions of the source that are written and acknowledged.
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

    /// The rows of a batch are written.
    pub(crate) fn done(&self, batch: &Batch) {
        let mut positions = self.lock();
        for position in batch.rows.iter().filter_map(|row| row.position.as_ref()) {
            positions.add(position);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Positions> {
        self.positions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
