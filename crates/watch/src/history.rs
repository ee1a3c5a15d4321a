//! What was seen of a server for a while, held in memory for a view.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use walwright_record::{Timestamp, Window};

use crate::event::Event;
use crate::findings::Seen;
use crate::ring::{Entry, Ring, RingError};
use crate::slot::{Slot, StatementCounts, TableCounts};

/// Stretches and events that are held at most: two hours of stretches of ten seconds.
const MOST: usize = 720;
/// Texts and names that are held before those are dropped that no stretch needs.
const TEXTS: usize = 5_000;
/// Time that a reading of statements or tables is of, where the one before is not held.
const READING: Duration = Duration::from_secs(60);
/// Length of what is read of a ring at a time.
const HOUR: i64 = 3_600_000_000;

/// Stretches, events and diagnoses, the newest last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// Stretches; their texts and names are held once, below.
    pub slots: VecDeque<Slot>,
    /// Events.
    pub events: VecDeque<Event>,
    /// Diagnoses.
    pub diagnoses: VecDeque<Seen>,
    /// Texts of statements, by `queryid`.
    pub texts: BTreeMap<i64, String>,
    /// Names of tables, by `relid`.
    pub table_names: BTreeMap<i64, String>,
}

impl History {
    /// Takes what comes next; of more than two hours the oldest goes.
    pub fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Slot(mut slot) => {
                self.texts.append(&mut slot.texts);
                self.table_names.append(&mut slot.table_names);
                push(&mut self.slots, slot);
                self.forget();
            }
            Entry::Event(event) => push(&mut self.events, event),
            Entry::Findings(seen) => push(&mut self.diagnoses, seen),
        }
    }

    /// Drops texts and names that no stretch needs, where there are many.
    fn forget(&mut self) {
        if self.texts.len().max(self.table_names.len()) > TEXTS {
            let slots = &self.slots;
            self.texts.retain(|id, _| slots.iter().any(|slot| slot.statements.contains_key(id)));
            self.table_names.retain(|id, _| slots.iter().any(|slot| slot.tables.contains_key(id)));
        }
    }

    /// The hour of a ring that a moment lies in, and the one before: what was found before the
    /// hour began holds in it.
    ///
    /// # Errors
    /// When the ring cannot be read.
    pub fn hour(ring: &Ring, moment: Timestamp) -> Result<History, RingError> {
        let start = Timestamp(moment.0.div_euclid(HOUR) * HOUR);
        let mut history = History::default();
        let window = Window { start: Timestamp(start.0 - HOUR), end: Timestamp(start.0 + HOUR) };
        ring.read(window, |entry| history.take(entry))?;
        Ok(history)
    }

    /// The part of a ring in which the last stretch begins that does so at `moment` or before,
    /// and its place there; `None` where nothing that old is kept.
    ///
    /// # Errors
    /// When the ring cannot be read.
    pub fn at_or_before(
        ring: &Ring,
        moment: Timestamp,
    ) -> Result<Option<(History, usize)>, RingError> {
        let Some(reach) = ring.reach()? else { return Ok(None) };
        let mut look = moment.min(Timestamp(reach.end.0 - 1));
        while look >= reach.start {
            let hour = History::hour(ring, look)?;
            if let Some(place) = hour.slots.iter().rposition(|slot| slot.start <= moment) {
                return Ok(Some((hour, place)));
            }
            look = Timestamp(look.0.div_euclid(HOUR) * HOUR - 1);
        }
        Ok(None)
    }

    /// The part of a ring in which the first stretch begins that does so at `moment` or after,
    /// and its place there; `None` where nothing was kept since.
    ///
    /// # Errors
    /// When the ring cannot be read.
    pub fn at_or_after(
        ring: &Ring,
        moment: Timestamp,
    ) -> Result<Option<(History, usize)>, RingError> {
        let Some(reach) = ring.reach()? else { return Ok(None) };
        let mut look = moment.max(reach.start);
        while look < reach.end {
            let hour = History::hour(ring, look)?;
            if let Some(place) = hour.slots.iter().position(|slot| slot.start >= moment) {
                return Ok(Some((hour, place)));
            }
            look = Timestamp((look.0.div_euclid(HOUR) + 1) * HOUR);
        }
        Ok(None)
    }

    /// What statements did by the last reading up to the stretch at `place`, and over how long:
    /// they are read less often than stretches end. `None` where nothing was read yet.
    pub fn statements(&self, place: usize) -> Option<(&BTreeMap<i64, StatementCounts>, Duration)> {
        self.reading(place, |slot| &slot.statements)
    }

    /// What became of tables, likewise.
    pub fn tables(&self, place: usize) -> Option<(&BTreeMap<i64, TableCounts>, Duration)> {
        self.reading(place, |slot| &slot.tables)
    }

    fn reading<'h, T>(
        &'h self,
        place: usize,
        of: impl Fn(&'h Slot) -> &'h BTreeMap<i64, T>,
    ) -> Option<(&'h BTreeMap<i64, T>, Duration)> {
        let upto = self.slots.range(..self.slots.len().min(place + 1));
        let mut read = upto.rev().filter(|slot| !of(slot).is_empty());
        let last = read.next()?;
        // One that none came before for long was late: its rates would be those of a pause.
        let before = read.next().map(|slot| last.end.since(slot.end));
        let over = before.filter(|time| *time <= 2 * READING).unwrap_or(READING);
        Some((of(last), over.max(last.length())))
    }
}

impl History {
    /// The last diagnosis up to the stretch at `place`.
    pub fn seen(&self, place: usize) -> Option<&Seen> {
        let until = self.slots.get(place)?.end;
        self.diagnoses.iter().rev().find(|seen| seen.window.end <= until)
    }

    /// Events up to the stretch at `place`, the newest first.
    pub fn events(&self, place: usize) -> impl Iterator<Item = &Event> {
        let until = self.slots.get(place).map(|slot| slot.end);
        self.events.iter().rev().filter(move |event| until.is_none_or(|until| event.at <= until))
    }
}

fn push<T>(held: &mut VecDeque<T>, next: T) {
    held.push_back(next);
    if held.len() > MOST {
        held.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{Keep, RingWriter};
    use walwright_testing::second;

    /// A stretch of ten seconds; statement 1 is read in each sixth.
    fn slot(number: u32) -> Slot {
        let start = 10.0 * f64::from(number);
        let mut slot = Slot::new(second(start), second(start + 10.0));
        if number.is_multiple_of(6) {
            slot.statements.insert(1, StatementCounts { calls: 60.0, ..Default::default() });
            slot.texts.insert(1, "select 1".to_owned());
        }
        slot
    }

    #[test]
    fn a_ring_is_travelled_over_hours_and_gaps() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = RingWriter::open(dir.path(), Keep::default(), second(0.0)).unwrap();
        // The first ten minutes, and ten of the fourth hour.
        for number in (0..60).chain(1080..1140) {
            writer.append(Entry::Slot(slot(number))).unwrap();
        }
        let ring = writer.ring();
        let start = |found: Option<(History, usize)>| {
            found.map(|(history, place)| history.slots[place].start)
        };
        let before = |seconds| start(History::at_or_before(ring, second(seconds)).unwrap());
        let after = |seconds| start(History::at_or_after(ring, second(seconds)).unwrap());
        assert_eq!(before(-1.0), None);
        assert_eq!(before(25.0), Some(second(20.0)));
        assert_eq!(before(7200.0), Some(second(590.0)));
        assert_eq!(before(1e6), Some(second(11390.0)));
        assert_eq!(after(-1.0), Some(second(0.0)));
        assert_eq!(after(600.0), Some(second(10800.0)));
        assert_eq!(after(11391.0), None);
        // A text is told once a file.
        let (history, place) = History::at_or_before(ring, second(11000.0)).unwrap().unwrap();
        let (statements, over) = history.statements(place).unwrap();
        assert_eq!((statements[&1].calls, over), (60.0, Duration::from_secs(60)));
        assert_eq!(history.texts[&1], "select 1");
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut history = History::default();
        for number in 0..2_000 {
            let mut slot = slot(number);
            let texts = (0..10).map(|n| (i64::from(number) * 10 + n + 2, "x".to_owned()));
            slot.texts.extend(texts);
            history.take(Entry::Slot(slot));
        }
        assert_eq!(history.slots.len(), MOST);
        assert!(history.texts.len() <= TEXTS && history.texts.contains_key(&1));
    }
}
