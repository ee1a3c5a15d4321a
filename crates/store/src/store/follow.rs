//! A record that is being written, read as it grows.

use std::collections::BTreeMap;

use walwright_record::{Record, RunId, RunState, Source, Timestamp};

use super::load::{self, Reader};
use super::{Store, StoreError};

/// A record that another process writes. Each [`read`](Self::read) brings what has come since the
/// one before, whatever the record holds already.
///
/// The latency of single statements is not read before the run has ended: it is merged over the
/// whole window.
#[derive(Debug)]
pub struct Following {
    store: Store,
    record: Record,
}

impl Following {
    pub(super) fn begin(store: Store, id: &RunId) -> Result<Following, StoreError> {
        let header = load::header_of(&store, id)?;
        let mut following = Following { store, record: Record::new(header) };
        following.read()?;
        Ok(following)
    }

    /// What is known by now.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Reads on. Of a run that has ended since, all is read again, as its end has it.
    ///
    /// # Errors
    /// When the run was deleted, or its record is damaged.
    pub fn read(&mut self) -> Result<(), StoreError> {
        self.store.mark_dead_runs()?;
        let id = self.record.header.id.clone();
        let header = load::header_of(&self.store, &id)?;
        if header.state != RunState::Running {
            self.record = self.store.load(&id)?;
            return Ok(());
        }
        let reader = Reader { store: &self.store, id: &id };
        self.record.header = header;
        // Facts are few until the load begins, and stay as they are while it goes on.
        if self.record.intervals.is_empty() {
            reader.facts(&mut self.record)?;
        }
        self.record.phases = reader.phases()?;
        self.record.events = reader.events()?;
        self.record.warnings = reader.warnings()?;
        let last = |samples: &[walwright_record::Sample]| samples.last().map(|sample| sample.at);
        let known: BTreeMap<Source, Timestamp> = Source::ALL
            .into_iter()
            .filter_map(|source| Some((source, last(self.record.samples(source))?)))
            .collect();
        for source in Source::ALL {
            let newer = reader.newer_samples(source, known.get(&source).copied())?;
            if !newer.is_empty() {
                self.record.samples.entry(source).or_default().extend(newer);
            }
        }
        let after = self.record.intervals.last().map(|interval| interval.start);
        self.record.intervals.extend(reader.newer_intervals(after)?);
        Ok(())
    }
}
