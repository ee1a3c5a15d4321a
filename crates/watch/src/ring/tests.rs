use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::event::EventKind;
use crate::slot::{StatementCounts, Value};
use walwright_testing::second;

const SLOT: f64 = 10.0;

/// A stretch of ten seconds with a counter, a gauge and a statement; whole numbers, whose sums
/// are exact.
fn slot(start: f64, counted: u32, gauge: u32) -> Slot {
    let mut slot = Slot::new(second(start), second(start + SLOT));
    slot.add("commits", Value::counted(f64::from(counted), SLOT));
    slot.add("sessions|active", Value::read(f64::from(gauge)));
    let counts = StatementCounts { calls: f64::from(counted), ..StatementCounts::default() };
    slot.statements.insert(7, counts);
    slot.texts.insert(7, "SELECT 1".to_owned());
    slot
}

fn all(ring: &Ring) -> Vec<Entry> {
    let mut entries = Vec::new();
    let ever = Window { start: Timestamp(0), end: Timestamp(i64::MAX) };
    ring.read(ever, |entry| entries.push(entry)).unwrap();
    entries
}

/// Commits, the largest rate, the sum and maximum of the gauge, and calls, of all there is.
fn totals(ring: &Ring) -> [f64; 5] {
    let mut whole = Slot::default();
    for entry in all(ring) {
        if let Entry::Slot(slot) = entry {
            whole.merge(slot);
        }
    }
    let of = |name: &str| whole.figure(name).copied().unwrap_or_default();
    let (commits, active) = (of("commits"), of("sessions|active"));
    let calls = whole.statements.get(&7).map_or(0.0, |counts| counts.calls);
    [commits.sum, commits.max, active.sum, active.max, calls]
}

fn short() -> Keep {
    let hours = |n: u64| Duration::from_secs(3600 * n);
    Keep { written: hours(1), minutes: hours(2), at_all: hours(6) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn what_is_put_together_keeps_sums_and_maxima(
        seen in proptest::collection::vec((0_u32..1_000_000, 0_u32..500), 1_200..1_500),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = RingWriter::open(dir.path(), short(), second(0.0)).unwrap();
        let (mut commits, mut rate, mut sum, mut max) = (0.0, 0.0_f64, 0.0, 0.0_f64);
        for (place, (counted, gauge)) in seen.iter().enumerate() {
            writer.append(Entry::Slot(slot(SLOT * place as f64, *counted, *gauge))).unwrap();
            let (counted, gauge) = (f64::from(*counted), f64::from(*gauge));
            commits += counted;
            rate = rate.max(counted / SLOT);
            sum += gauge;
            max = max.max(gauge);
        }
        let hours: Vec<Tier> = writer.ring().hours().unwrap().iter().map(|h| h.tier).collect();
        prop_assert!(hours.contains(&Tier::Coarse) || hours.contains(&Tier::Minutes), "{:?}", hours);
        prop_assert_eq!(totals(writer.ring()), [commits, rate, sum, max, commits]);
    }

    #[test]
    fn a_crash_at_any_byte_leaves_what_came_before(
        cut in 0.0_f64..1.0,
        junk in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = RingWriter::open(dir.path(), short(), second(0.0)).unwrap();
        let path = writer.hour.path(dir.path());
        let mut ends = vec![0];
        for place in 0..20_u32 {
            writer.append(Entry::Slot(slot(SLOT * f64::from(place), place, place))).unwrap();
            ends.push(path.metadata().unwrap().len());
        }
        drop(writer);
        let bytes = std::fs::read(&path).unwrap();
        let cut = (bytes.len() as f64 * cut) as usize;
        std::fs::write(&path, [&bytes[..cut], &junk[..]].concat()).unwrap();
        let whole = ends.iter().filter(|end| **end > 0 && **end <= cut as u64).count();
        let ring = Ring::at(dir.path().to_owned());
        prop_assert_eq!(all(&ring).len(), whole);
        // And the next writer goes on behind it.
        let mut writer = RingWriter::open(dir.path(), short(), second(500.0)).unwrap();
        writer.append(Entry::Slot(slot(500.0, 1, 1))).unwrap();
        let entries = all(&ring);
        prop_assert_eq!(entries.len(), whole + 1);
        let texts = entries.iter().filter(|e| matches!(e, Entry::Slot(s) if !s.texts.is_empty()));
        prop_assert_eq!(texts.count(), 1, "a text is told once in a file");
    }
}

#[test]
fn an_hour_that_was_put_together_when_the_crash_came_is_there_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RingWriter::open(dir.path(), short(), second(0.0)).unwrap();
    for place in 0..360 {
        writer.append(Entry::Slot(slot(SLOT * f64::from(place), 1, 1))).unwrap();
    }
    let hour = writer.hour.clone();
    let written = std::fs::read(hour.path(dir.path())).unwrap();
    let at = second(3600.0 * 2.5);
    let event = Event::new(at, EventKind::Watching, "on");
    writer.append(Entry::Event(event)).unwrap();
    assert_eq!(totals(writer.ring())[0], 360.0);
    // It came between the new file and the end of the old one.
    std::fs::write(hour.path(dir.path()), &written).unwrap();
    std::fs::write(dir.path().join(".walwright-half"), &written[..100]).unwrap();
    assert_eq!(totals(writer.ring())[0], 360.0);
    drop(writer);
    let writer = RingWriter::open(dir.path(), short(), at).unwrap();
    assert!(!hour.path(dir.path()).exists() && !dir.path().join(".walwright-half").exists());
    assert_eq!(totals(writer.ring())[0], 360.0);
    let minutes = all(writer.ring()).iter().filter(|e| matches!(e, Entry::Slot(_))).count();
    assert_eq!(minutes, 60);
}

#[test]
fn what_is_too_old_is_removed_and_one_process_writes() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RingWriter::open(dir.path(), short(), second(0.0)).unwrap();
    for hour in 0..20_u32 {
        writer.append(Entry::Slot(slot(3600.0 * f64::from(hour), 1, 1))).unwrap();
    }
    // Six hours, the one that has just passed and the one under way.
    assert_eq!(totals(writer.ring())[0], 8.0);
    let other = RingWriter::open(dir.path(), short(), second(0.0));
    assert!(matches!(other, Err(RingError::Locked { .. })), "{other:?}");
    drop(writer);
    RingWriter::open(dir.path(), short(), second(3600.0 * 20.0)).unwrap();
}
