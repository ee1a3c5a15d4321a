//! Checkpoints inside a window.

use std::time::Duration;

use serde::Serialize;
use walwright_record::{Event, Record, Source, Timestamp, Window};

use crate::seconds::duration;
use crate::{Blind, difference};

/// Checkpoints inside a window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checkpoints {
    /// Checkpoints that completed.
    pub completed: u64,
    /// When each completed, as near as the samples tell.
    pub completed_at: Vec<Timestamp>,
    /// Checkpoints due by `checkpoint_timeout` (from 17 on, skipped ones included).
    pub timed: Option<u64>,
    /// Checkpoints asked for, by WAL volume or by command (from 17 on, skipped ones included).
    pub requested: Option<u64>,
    /// How many of those walwright asked for, so that the window holds one.
    pub requested_here: u64,
    /// Buffers the checkpointer wrote.
    pub buffers_written: Option<u64>,
    /// Time spent writing by the checkpoints that completed.
    #[serde(with = "crate::seconds::option")]
    pub write_time: Option<Duration>,
    /// Time spent syncing by the checkpoints that completed.
    #[serde(with = "crate::seconds::option")]
    pub sync_time: Option<Duration>,
}

/// Checkpoints that completed inside the window.
///
/// From 18 `num_done` counts completions. Before, the counters count beginnings
/// (`CheckpointerMain` adds to them before it starts). There a completion shows as
/// a new `checkpoint_lsn` in the control file or, for a role that may not read it,
/// as growth of `write_time` or `sync_time`, which `LogCheckpointEnd` adds to.
///
/// # Errors
/// When the view was not sampled or was reset.
pub fn checkpoints(record: &Record, window: Window) -> Result<Checkpoints, Blind> {
    let difference = difference(record, Source::Checkpointer, window)?;
    let count = |column: &str| difference.sum(column).ok().map(|n| n.round() as u64);
    let completed_at: Vec<Timestamp> = completions(record)
        .into_iter()
        .filter(|at| difference.from < *at && *at <= difference.to)
        .collect();
    let milliseconds = |column: &str| difference.sum(column).ok().and_then(|ms| duration(ms / 1e3));
    Ok(Checkpoints {
        completed: count("num_done").unwrap_or(completed_at.len() as u64),
        completed_at,
        timed: count("num_timed"),
        requested: count("num_requested"),
        requested_here: requests(record, difference.from, difference.to),
        buffers_written: count("buffers_written"),
        write_time: milliseconds("write_time"),
        sync_time: milliseconds("sync_time"),
    })
}

/// How many checkpoints walwright requested between two moments.
fn requests(record: &Record, from: Timestamp, to: Timestamp) -> u64 {
    let events = record.events.iter().filter(|event| event.kind == Event::CHECKPOINT_REQUEST);
    events.filter(|event| from < event.at && event.at <= to).count() as u64
}

/// The moments at which checkpoints were seen to have completed, in the whole record.
pub fn completions(record: &Record) -> Vec<Timestamp> {
    let samples = record.samples(Source::Checkpointer);
    samples
        .windows(2)
        .filter(|pair| {
            let (Some(before), Some(after)) = (pair[0].rows.first(), pair[1].rows.first()) else {
                return false;
            };
            let grew =
                |column: &str| before.number(column).zip(after.number(column)).map(|(b, a)| a > b);
            grew("num_done").or_else(|| grew("checkpoint_lsn")).unwrap_or_else(|| {
                grew("write_time") == Some(true) || grew("sync_time") == Some(true)
            })
        })
        .map(|pair| pair[1].at)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use walwright_testing::{Build, row, second};

    fn window(from: f64, to: f64) -> Window {
        Window { start: second(from), end: second(to) }
    }

    #[test]
    fn up_to_17_a_checkpoint_that_began_has_not_completed() {
        let mut build = Build::new();
        for s in 0..60 {
            // Begins at 10 and ends at 40, as its times then say.
            let t = f64::from(s);
            build.sample(
                t,
                Source::Checkpointer,
                [row([
                    ("num_timed", if t < 10.0 { 3.0 } else { 4.0 }),
                    ("num_requested", 1.0),
                    ("buffers_written", 100.0 * t.clamp(10.0, 40.0)),
                    ("write_time", if t < 40.0 { 5_000.0 } else { 35_000.0 }),
                    ("sync_time", if t < 40.0 { 10.0 } else { 60.0 }),
                ])],
            );
        }
        let early = checkpoints(&build.record, window(5.0, 30.0)).unwrap();
        assert_eq!((early.completed, early.timed), (0, Some(1)));
        let whole = checkpoints(&build.record, window(5.0, 60.0)).unwrap();
        assert_eq!((whole.completed, whole.timed, whole.requested), (1, Some(1), Some(0)));
        assert_eq!(whole.completed_at, [second(40.0)]);
        assert_eq!(whole.write_time, Some(Duration::from_secs(30)));
        assert_eq!(whole.buffers_written, Some(3_000));
    }

    #[test]
    fn up_to_17_the_control_file_tells_of_a_checkpoint_too_short_to_time() {
        let mut build = Build::new();
        for s in 0..20 {
            let t = f64::from(s);
            build.sample(
                t,
                Source::Checkpointer,
                [row([
                    ("num_timed", 0.0),
                    ("write_time", 0.0),
                    ("checkpoint_lsn", if t < 10.0 { 4e8 } else { 5e8 }),
                ])],
            );
        }
        let seen = checkpoints(&build.record, window(5.0, 20.0)).unwrap();
        assert_eq!((seen.completed, seen.completed_at), (1, vec![second(10.0)]));
    }

    #[test]
    fn from_18_completions_are_counted() {
        let mut build = Build::new();
        for s in 0..20 {
            let t = f64::from(s);
            build.sample(
                t,
                Source::Checkpointer,
                // Requests that were skipped do not count as done.
                [row([("num_requested", t), ("num_done", (t / 10.0).floor()), ("write_time", t)])],
            );
        }
        let seen = checkpoints(&build.record, window(5.0, 20.0)).unwrap();
        assert_eq!((seen.completed, seen.requested), (1, Some(14)));
        assert_eq!(seen.completed_at, [second(10.0)]);
        // Seen by the first sample inside: it completed before.
        let after = checkpoints(&build.record, window(10.0, 15.0)).unwrap();
        assert_eq!((after.completed, after.completed_at), (0, Vec::new()));
    }

    #[test]
    fn a_view_not_sampled_is_unknown() {
        let build = Build::new();
        assert!(checkpoints(&build.record, window(0.0, 60.0)).is_err());
    }
}
