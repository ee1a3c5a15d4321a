//! What a day was like: what was normal, what changed, when.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use walwright_record::{Timestamp, Window};

use crate::event::{Event, EventKind, FindingOf};
use crate::metric::{self, Metric};
use crate::ring::{Entry, Ring, RingError};
use crate::slot::{Slot, StatementCounts, Value};

/// The stretches that are compared.
const BIN: Duration = Duration::from_secs(600);
/// Times the middle that a stretch has to be above, or below, to be a change.
const FACTOR: f64 = 2.0;
/// Fewer stretches tell nothing of what is normal.
const LEAST: usize = 6;

/// The figures that are told of: a counter's rate a second, a gauge's largest reading.
const TOLD: [(Metric, &str, &str, Of, Unit); 12] = [
    (metric::COMMITS, "", "commits", Of::Mean, Unit::PerSecond),
    (metric::ROLLBACKS, "", "rollbacks", Of::Mean, Unit::PerSecond),
    (metric::WAL_BYTES, "", "WAL", Of::Mean, Unit::BytesPerSecond),
    (metric::WAL_FLUSHES, "", "flushes", Of::Mean, Unit::PerSecond),
    (metric::WAL_FLUSH_SECONDS, "", "a flush", Of::Mean, Unit::Seconds),
    (metric::WAIT_SECONDS, "lock", "waiting for locks", Of::Mean, Unit::Sessions),
    (metric::WAIT_SECONDS, "flush_queue", "queued for a flush", Of::Mean, Unit::Sessions),
    (metric::SESSIONS, "active", "active", Of::Mean, Unit::Sessions),
    (
        metric::CHECKPOINT_PRESSURE_RATIO,
        "",
        "WAL since a checkpoint over max_wal_size",
        Of::Max,
        Unit::Share,
    ),
    (metric::VACUUM_DEBT_RATIO, "", "dead rows over when autovacuum comes", Of::Max, Unit::Times),
    (metric::OLDEST_TRANSACTION_SECONDS, "", "the oldest transaction", Of::Max, Unit::Seconds),
    (metric::REPLICATION_LAG_SECONDS, "*", "replication lag", Of::Max, Unit::Seconds),
];

/// What a figure is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// So many a second.
    PerSecond,
    /// Bytes a second.
    BytesPerSecond,
    /// Seconds.
    Seconds,
    /// Sessions, on average.
    Sessions,
    /// A part of one.
    Share,
    /// A multiple.
    Times,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Of {
    Mean,
    Max,
}

/// A figure over the day.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureOfDay {
    /// What it is.
    pub name: &'static str,
    /// What it is counted in.
    pub unit: Unit,
    /// A tenth of the stretches were below.
    pub low: f64,
    /// The middle one.
    pub middle: f64,
    /// A tenth of the stretches were above.
    pub high: f64,
    /// The largest of any stretch that was kept.
    pub largest: f64,
}

/// A stretch in which a figure was not as it mostly is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// When.
    pub window: Window,
    /// Which figure.
    pub name: &'static str,
    /// What it is counted in.
    pub unit: Unit,
    /// What it was, the farthest from what is normal.
    pub was: f64,
    /// What it mostly is.
    pub normal: f64,
}

/// A finding over the day.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FoundOfDay {
    /// The finding, as it was seen last.
    pub finding: FindingOf,
    /// Diagnoses that found it.
    pub diagnoses: usize,
    /// Its largest cost.
    pub cost: Option<f64>,
    /// From its first to its last stretch.
    pub window: Window,
}

/// A day, or how much of it was asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Day {
    /// What was asked for.
    pub window: Window,
    /// How much of it was watched.
    #[serde(with = "walwright_figures::seconds")]
    pub watched: Duration,
    /// How long the server did not answer meanwhile.
    #[serde(with = "walwright_figures::seconds")]
    pub down: Duration,
    /// What was normal.
    pub figures: Vec<FigureOfDay>,
    /// What was not, the farthest first.
    pub changes: Vec<Change>,
    /// Diagnoses made.
    pub diagnoses: usize,
    /// Problems and symptoms that were found, the most often first.
    pub findings: Vec<FoundOfDay>,
    /// What happened, without what samplers saw.
    pub events: Vec<Event>,
    /// Statements with their texts, the most WAL first.
    pub statements: Vec<(i64, Option<String>, StatementCounts)>,
}

impl Day {
    /// Reads a window of a ring.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(ring: &Ring, window: Window) -> Result<Day, RingError> {
        let mut bins: BTreeMap<i64, Vec<Value>> = BTreeMap::new();
        let mut whole = Slot::default();
        let (mut watched, mut down) = (Duration::ZERO, Duration::ZERO);
        let (mut events, mut found) = (Vec::new(), Vec::<FoundOfDay>::new());
        let mut diagnoses = 0;
        ring.read(window, |entry| match entry {
            Entry::Slot(slot) => {
                watched += slot.length();
                let up = slot.figure(metric::UP.name).and_then(Value::mean).unwrap_or(1.0);
                down += slot.length().mul_f64((1.0 - up).clamp(0.0, 1.0));
                let place = slot.start.0.div_euclid(BIN.as_micros() as i64);
                let bin = bins.entry(place).or_insert_with(|| vec![Value::default(); TOLD.len()]);
                for ((metric, label, ..), value) in TOLD.iter().zip(bin) {
                    each(&slot, metric, label, |more| value.add(*more));
                }
                whole.texts.extend(slot.texts);
                for (id, counts) in slot.statements {
                    whole.statements.entry(id).or_default().add(counts);
                }
            }
            Entry::Event(event) if event.kind != EventKind::Server => events.push(event),
            Entry::Event(_) => {}
            Entry::Findings(seen) => {
                diagnoses += 1;
                for of in seen.findings {
                    take(&mut found, of, seen.window);
                }
            }
        })?;
        let (figures, mut changes): (Vec<_>, Vec<_>) =
            (0..TOLD.len()).filter_map(|place| figure(&bins, place)).unzip();
        let mut changes: Vec<Change> = changes.drain(..).flatten().collect();
        changes.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
        found.sort_by_key(|of| std::cmp::Reverse(of.diagnoses));
        let mut statements: Vec<_> = whole
            .statements
            .into_iter()
            .map(|(id, counts)| (id, whole.texts.get(&id).cloned(), counts))
            .collect();
        statements.sort_by(|a, b| b.2.wal_bytes.total_cmp(&a.2.wal_bytes));
        Ok(Day {
            window,
            watched,
            down,
            figures,
            changes,
            diagnoses,
            findings: found,
            events,
            statements,
        })
    }
}

/// The values of a figure; `*` stands for any label.
fn each(slot: &Slot, metric: &Metric, label: &str, mut with: impl FnMut(&Value)) {
    match label {
        "" => slot.figure(metric.name).into_iter().for_each(with),
        "*" => slot.labelled(metric.name).for_each(|(_, value)| with(value)),
        label => {
            slot.labelled(metric.name).filter(|(of, _)| *of == label).for_each(|(_, v)| with(v));
        }
    }
}

fn take(found: &mut Vec<FoundOfDay>, of: FindingOf, window: Window) {
    if of.kind == walwright_diagnose::Kind::Information {
        return;
    }
    match found.iter_mut().find(|known| known.finding.key() == of.key()) {
        Some(known) => {
            known.diagnoses += 1;
            known.cost = known.cost.into_iter().chain(of.cost).reduce(f64::max);
            known.window.end = window.end;
            known.finding = of;
        }
        None => found.push(FoundOfDay { cost: of.cost, finding: of, diagnoses: 1, window }),
    }
}

/// A figure of the day and where it was not as it mostly is.
fn figure(bins: &BTreeMap<i64, Vec<Value>>, place: usize) -> Option<(FigureOfDay, Vec<Change>)> {
    let (_, _, name, of, unit) = TOLD[place];
    let value = |values: &Vec<Value>| match of {
        Of::Mean => values[place].mean(),
        Of::Max => values[place].mean().map(|_| values[place].max),
    };
    let seen: Vec<(i64, f64)> =
        bins.iter().filter_map(|(at, values)| Some((*at, value(values)?))).collect();
    let mut sorted: Vec<f64> = seen.iter().map(|(_, value)| *value).collect();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
    let largest = bins.values().map(|values| values[place].max).reduce(f64::max)?;
    if sorted.is_empty() {
        return None;
    }
    let middle = at(0.5);
    let whole = FigureOfDay { name, unit, low: at(0.1), middle, high: at(0.9), largest };
    let mut changes: Vec<Change> = Vec::new();
    let micros = BIN.as_micros() as i64;
    let differs = |value: f64| value > middle * FACTOR || value < middle / FACTOR;
    for (at, was) in seen.iter().filter(|(_, was)| seen.len() >= LEAST && differs(*was)) {
        let window = Window { start: Timestamp(at * micros), end: Timestamp((at + 1) * micros) };
        let next = Change { window, name, unit, was: *was, normal: middle };
        match changes.last_mut() {
            Some(last)
                if last.window.end == window.start && (last.was > middle) == (*was > middle) =>
            {
                last.window.end = window.end;
                if distance(&next) > distance(last) {
                    last.was = *was;
                }
            }
            _ => changes.push(next),
        }
    }
    Some((whole, changes))
}

/// How far a change is from what is normal, as a factor.
fn distance(of: &Change) -> f64 {
    let (was, normal) = (of.was.max(1e-9), of.normal.max(1e-9));
    (was / normal).max(normal / was)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{Keep, RingWriter};
    use walwright_testing::second;

    #[test]
    fn what_was_not_as_it_mostly_is_has_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = RingWriter::open(dir.path(), Keep::default(), second(0.0)).unwrap();
        for minute in 0..240_u32 {
            let start = 60.0 * f64::from(minute);
            let mut slot = Slot::new(second(start), second(start + 60.0));
            // Half an hour of three times the commits, one after the other hour.
            let rate = if (60..90).contains(&minute) { 300.0 } else { 100.0 };
            slot.add("commits", Value::counted(rate * 60.0, 60.0));
            slot.add("up", Value::read(if minute == 10 { 0.0 } else { 1.0 }));
            writer.append(Entry::Slot(slot)).unwrap();
        }
        let window = Window { start: second(0.0), end: second(240.0 * 60.0) };
        let day = Day::read(writer.ring(), window).unwrap();
        assert_eq!(day.watched, Duration::from_secs(240 * 60));
        assert_eq!(day.down, Duration::from_secs(60));
        let [commits] = &day.figures[..] else { panic!("{:?}", day.figures) };
        assert_eq!((commits.low, commits.middle, commits.largest), (100.0, 100.0, 300.0));
        let [change] = &day.changes[..] else { panic!("{:?}", day.changes) };
        assert_eq!((change.was, change.normal), (300.0, 100.0));
        assert_eq!(change.window, Window { start: second(3600.0), end: second(5400.0) });
    }
}
