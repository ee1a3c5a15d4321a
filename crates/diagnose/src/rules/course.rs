//! The course of a run: cliffs, and runs that are all warm-up.

use std::time::Duration;

use walwright_figures::compare::commit_rates;
use walwright_figures::difference;
use walwright_figures::window::{intervals_inside, transactions};
use walwright_record::{Row, Source, Timestamp, Window};
use walwright_stats::{Cliff, SteadyState, Unsteady, cliffs, line_fits_better, mean};

use super::course_waits::longer_wait;
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Reading, Relief, Value};

/// A change of level that someone would notice.
const CLIFF: f64 = 0.15;
/// Level of the test: a level run of any length shows a cliff once in a hundred.
const ALPHA: f64 = 0.01;
/// Shortest level in seconds; a shorter dip is a hiccup.
const SHORTEST: usize = 8;
/// Factor by which something must have changed to explain a cliff.
const EXPLAINS: f64 = 1.5;
/// Seconds around a cliff in which an event may have to do with it.
const NEAR: f64 = 3.0;

pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    [cliff(reading), warm_up(reading)].into_iter().flatten().collect()
}

/// D35: throughput falls within the window and stays down for long, or to its end.
fn cliff(reading: &Reading) -> Option<Finding> {
    let course = course(reading);
    let source = match reading.record.intervals.is_empty() {
        true => "pg_stat_database",
        false => "driver",
    };
    let rates: Vec<f64> = course.iter().map(|(_, rate)| *rate).collect();
    let found = cliffs(&rates, ALPHA, SHORTEST);
    let falls = |c: &Cliff| {
        // To the next change of level on either side: a steady decline has many.
        let begin = found.iter().rev().find(|other| other.at < c.at).map_or(0, |other| other.at);
        let end = found.iter().find(|other| other.at > c.at).map_or(rates.len(), |o| o.at);
        let sudden = !line_fits_better(rates.get(begin..end)?, c.at - begin);
        c.relative_change().filter(|change| *change <= -CLIFF && sudden)
    };
    let worst = found
        .iter()
        .filter(|c| falls(c).is_some())
        .min_by(|a, b| falls(a).unwrap_or(0.0).total_cmp(&falls(b).unwrap_or(0.0)))?;
    let at = course.get(worst.at)?.0;
    let change = worst.relative_change()?;
    // It is over where throughput is nearer to what it was before than to what it fell to.
    let middle = f64::midpoint(worst.before, worst.after);
    let over = found.iter().find(|c| c.at > worst.at && c.after >= middle);
    let low = rates.get(worst.at..over.map_or(rates.len(), |over| over.at))?;
    let until = over.and_then(|over| course.get(over.at)).map_or(reading.window.end, |(at, _)| *at);
    // Had the level before held, these seconds would have cost as little.
    let missing: f64 = low.iter().map(|rate| (1.0 - rate / worst.before).max(0.0)).sum();
    let time = reading.counted(reading.latency()? * missing / rates.len() as f64);
    let seconds = at.seconds_from(reading.window.start);
    let lasts = match over {
        Some(_) => format!("comes back {:.0} s later", until.seconds_from(at)),
        None => "stays down".to_owned(),
    };
    let low = Window { start: at, end: until };
    let suspects = suspects(reading, low);
    let waits = longer_wait(reading, low);
    let mut why = match suspects.first() {
        Some(first) => format!("With it changed: {}.", first.words()),
        None if waits.is_none() => "Nothing that is sampled changed with it as much.".to_owned(),
        None => String::new(),
    };
    if let Some(waits) = &waits {
        why = format!("{why} {}", waits.words(reading.per())).trim_start().to_owned();
    }
    let mut finding = reading
        .finding(
            DiagnosisId::D35,
            Kind::Problem,
            format!(
                "Throughput falls by {:.0} % at {seconds:.0} s into the window and {lasts}. {why}",
                -100.0 * change
            ),
        )
        .within(low)
        .seen([
            Evidence::new(source, "before", Value::Count(worst.before)).per(crate::Per::Second),
            Evidence::new(source, "after", Value::Count(worst.after)).per(crate::Per::Second),
        ])
        .seen(waits.iter().flat_map(|waits| waits.evidence(reading.per())))
        .seen(
            events(reading, at).map(|text| {
                Evidence::new("events", "at that moment", Value::Text(text.to_owned()))
            }),
        )
        .seen(suspects.iter().take(4).map(|s| {
            Evidence::new(
                s.source.name(),
                format!("{}: {}", s.what, s.words()),
                Value::Fraction(s.after / s.before.max(1e-9)),
            )
        }))
        .costs(reading.impact(time.clone()))
        .gains(reading.gain(&Relief::new(time, [])))
        .advise(Action::advice(match suspects.first() {
            Some(suspect) => suspect.advice,
            None if waits.is_some() => {
                "See who makes them wait from that second on: the timeline of the report, and the \
                 finding about these waits."
            }
            None => "Run longer, and look at the timeline of the report around that second.",
        }));
    if reading.summary.checkpoints.as_ref().is_some_and(|c| c.completed == 0) {
        finding = finding.blind_to(
            "No checkpoint completed in the window, so what one does to this load is not in it.",
        );
    }
    Some(finding)
}

/// Work a second over the window, each with its moment: as the clients saw it or, where
/// they are not in the record, by the server's commits.
fn course(reading: &Reading) -> Vec<(Timestamp, f64)> {
    let seen = seen_by_clients(reading);
    if !seen.is_empty() {
        return seen;
    }
    commit_rates(reading.record, reading.window)
        .into_iter()
        .filter_map(|(at, rate)| {
            let after = Duration::try_from_secs_f64(at).ok()?;
            Some((reading.window.start.plus(after), rate))
        })
        .collect()
}

/// Transactions a second over the window as the clients saw them, each with its moment.
fn seen_by_clients(reading: &Reading) -> Vec<(Timestamp, f64)> {
    intervals_inside(reading.record, reading.window)
        .filter(|i| !i.length.is_zero())
        .map(|i| (i.start, transactions(i) as f64 / i.length.as_secs_f64()))
        .collect()
}

/// What the record says happened around a moment.
fn events<'r>(reading: &'r Reading, at: Timestamp) -> impl Iterator<Item = &'r str> {
    let near = move |moment: Timestamp| moment.seconds_from(at).abs() <= NEAR;
    let events = reading.record.events.iter().filter(move |event| near(event.at));
    events.map(|event| event.text.as_str())
}

/// Something that changed where throughput did.
struct Suspect {
    source: Source,
    what: &'static str,
    advice: &'static str,
    before: f64,
    after: f64,
}

impl Suspect {
    fn words(&self) -> String {
        match self.before {
            before if before < 1e-9 => format!("{}, which was not there before", self.what),
            before => format!("{}, by a factor of {:.1}", self.what, self.after / before),
        }
    }
}

/// Rates a second that may change with throughput. What is stated per second is
/// compared as it is: a cause grows although less work is done.
type Counter = fn(&Row) -> Option<f64>;
const SUSPECTS: [(Source, &str, Counter, &str); 7] = [
    (
        Source::Database,
        "pages read from outside shared buffers",
        |row| row.number("blks_read"),
        "The data in use has outgrown shared buffers or the page cache: more memory, a smaller \
         working set, or a random key replaced by one that grows.",
    ),
    (
        Source::Checkpointer,
        "buffers written by the checkpoint",
        |row| row.number("buffers_written"),
        "A checkpoint began: spread it (checkpoint_completion_target 0.9), space checkpoints \
         (max_wal_size, checkpoint_timeout), and judge over whole checkpoints only.",
    ),
    (
        Source::Wal,
        "full-page images",
        |row| row.number("wal_fpi"),
        "Page images after a checkpoint: space checkpoints, or compress them (wal_compression).",
    ),
    (
        Source::Disk,
        "time the disk was busy",
        |row| row.number("io_ticks"),
        "The disk became the limit: see what writes to it in the timeline.",
    ),
    (
        Source::Cpu,
        "CPU stolen by the hypervisor",
        |row| row.number("steal"),
        "The machine itself became slower: repeat on one whose processors are its own.",
    ),
    (
        Source::Processes,
        "CPU of autovacuum",
        |row| {
            let vacuum = row.text("process_group") == Some("server: autovacuum");
            vacuum.then(|| walwright_figures::cpu::cpu_seconds(row)).flatten()
        },
        "Autovacuum began: that is its work; see whether it is too aggressive for the machine.",
    ),
    (
        Source::Neighbours,
        "CPU of other processes",
        |row| {
            let other = row.text("process_group").is_some_and(|g| g.starts_with("other: "));
            other.then(|| walwright_figures::cpu::cpu_seconds(row)).flatten()
        },
        "Another process began to take the machine: stop it and repeat.",
    ),
];

/// What changed from the time before a stretch of low throughput to that stretch.
fn suspects(reading: &Reading, after: Window) -> Vec<Suspect> {
    let before = Window { start: reading.window.start, end: after.start };
    let mut found: Vec<Suspect> = SUSPECTS
        .iter()
        .filter_map(|(source, what, counter, advice)| {
            let rate = |window: Window| -> Option<f64> {
                let difference = difference(reading.record, *source, window).ok()?;
                let seconds = difference.length().as_secs_f64();
                let moved = difference.rows.iter().filter_map(|row| row.moved(counter));
                Some(moved.reduce(|a, b| a + b)? / seconds)
            };
            let after = rate(after)?;
            let before = rate(before).unwrap_or(0.0);
            let suspect = Suspect { source: *source, what, advice, before, after };
            // From nothing to next to nothing explains nothing.
            let large = match source {
                Source::Cpu | Source::Processes | Source::Neighbours => after - before > 0.1,
                // Buffers, images, and milliseconds of a disk.
                _ => after - before > 100.0,
            };
            (large && after > EXPLAINS * before).then_some(suspect)
        })
        .collect();
    let factor = |s: &Suspect| s.after / s.before.max(1e-3 * s.after);
    found.sort_by(|a, b| factor(b).total_cmp(&factor(a)));
    found
}

/// D49: throughput still rises when the window ends.
fn warm_up(reading: &Reading) -> Option<Finding> {
    let load = reading.summary.load.as_ref()?;
    let course = seen_by_clients(reading);
    let rates: Vec<f64> = course.iter().map(|(_, rate)| *rate).collect();
    let third = rates.len() / 3;
    let end = reading.window.end;
    let (rising, until) = match load.steadiness.as_ref()? {
        // Steady in the end, after a part of the window that is too long to be nothing.
        SteadyState::Steady { from } => {
            (*from >= third, course.get(*from).map_or(end, |(at, _)| *at))
        }
        SteadyState::NotSteady { why: Unsteady::StillWarming } => (true, end),
        SteadyState::NotSteady { why: Unsteady::Drifting { change } } => (change.center > 0.0, end),
        SteadyState::NotSteady { .. } => (false, end),
    };
    let first = mean(rates.get(..third)?)?;
    let last = mean(rates.get(rates.len() - third..)?)?;
    // A run that is all warm-up ends well above where it began, not by its noise.
    if !rising || last < (1.0 + CLIFF) * first {
        return None;
    }
    let latency = reading.latency()?;
    let time = reading.counted(latency * (1.0 - mean(&rates)? / last).max(0.0));
    Some(
        reading
            .finding(
                DiagnosisId::D49,
                Kind::Problem,
                format!(
                    "Throughput rises in the window, from {first:.0} to {last:.0} a second: the \
                     run is warm-up, and its figures describe no state that lasts."
                ),
            )
            .within(Window { end: until, ..reading.window })
            .seen([
                Evidence::new("driver", "first third", Value::Count(first)).per(crate::Per::Second),
                Evidence::new("driver", "last third", Value::Count(last)).per(crate::Per::Second),
            ])
            .costs(reading.impact(time))
            .advise(Action::client(
                "Warm up until throughput is level, then measure.",
                "--warmup auto --duration 10m (walwright)",
            )),
    )
}
