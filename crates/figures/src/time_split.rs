//! Where the client's time goes: the latency breakdown of one transaction's latency.
//!
//! A tick of wait events counts the sessions that are in each class at one
//! moment. By Little's law the time a transaction spends in a class is the mean
//! number of sessions in it over the throughput. What the latency that clients
//! saw holds beyond the sum of all classes is the residual: network, the client's
//! own work outside transactions, and whatever the sampling cannot see.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use walwright_record::{Record, Sample, Source, Window};
use walwright_stats::{Estimate, Resampling, tick_means};

use crate::sight::HiddenSessions;
use crate::window::{driven_between, failures};
use crate::{Blind, WaitClass, WorkUnit, latency, work_between};

/// Fewest ticks that a split is made from: at one half they give ± 13 points.
const FEWEST_TICKS: usize = 15;
/// Share of the latency by which the parts may exceed it before the latency breakdown is
/// said not to close; sampling itself errs by a few points.
const OVERDRAWN: f64 = 0.1;
/// Events listed for a class.
const EVENTS: usize = 5;

/// The latency breakdown of one transaction's latency, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimeSplit {
    /// What the seconds are per.
    pub unit: WorkUnit,
    /// Mean latency the clients saw; `None` for a load that was not ours.
    #[serde(with = "crate::seconds::option")]
    pub latency: Option<Duration>,
    /// Open loop: the part of the latency before the transaction began (mean lag).
    #[serde(with = "crate::seconds::option")]
    pub queue: Option<Duration>,
    /// Time in each class, in the order of [`WaitClass::ALL`]; classes never seen are left out.
    pub parts: Vec<TimePart>,
    /// Sum of the parts: time inside a transaction on the server.
    pub on_server: Estimate,
    /// Latency − queue − sum of the parts; `None` where the latency is unknown.
    pub residual: Option<Estimate>,
    /// Share of the latency that is residual.
    pub residual_share: Option<f64>,
    /// Ticks the split is made from.
    pub ticks: usize,
    /// Flush time a transaction by the server's own counters, where it times them:
    /// a check on the sampled one. Up to 17 it includes the WAL writer's.
    #[serde(with = "crate::seconds::option")]
    pub counted_flush: Option<Duration>,
    /// CPU of client backends a transaction by the kernel's counters, where the
    /// server's processes can be seen: a check on [`WaitClass::Cpu`], which holds
    /// this and the next.
    #[serde(with = "crate::seconds::option")]
    pub counted_cpu: Option<Duration>,
    /// Time a transaction that client backends waited for a processor, likewise.
    #[serde(with = "crate::seconds::option")]
    pub counted_run_delay: Option<Duration>,
    /// Reasons to trust the split less, each a sentence.
    pub warnings: Vec<String>,
}

/// One class of the split.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimePart {
    /// The class.
    pub class: WaitClass,
    /// Seconds a transaction spends in it.
    pub per_transaction: Estimate,
    /// Share of the client's latency, or of the time on the server where the
    /// latency is unknown.
    pub share: Estimate,
    /// Mean number of sessions in it.
    pub sessions: f64,
    /// Its most frequent events.
    pub events: Vec<EventTime>,
}

/// One wait event of a class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventTime {
    /// `type:event`, or `CPU`.
    pub event: String,
    /// Seconds a transaction spends in it.
    pub per_transaction: f64,
}

impl TimeSplit {
    /// The part of a class; `None` when it was never seen.
    pub fn part(&self, class: WaitClass) -> Option<&TimePart> {
        self.parts.iter().find(|p| p.class == class)
    }

    /// What to say where there is nothing to split: sessions can be seen and none was in
    /// a transaction, and the latency of the clients is not known. `None` otherwise.
    pub fn unseen(&self) -> Option<String> {
        (self.latency.is_none() && self.parts.is_empty()).then(|| {
            format!(
                "none of {} looks found a session in a transaction, so next to none of the time \
                 of a {} goes by on the server",
                self.ticks,
                self.unit.name()
            )
        })
    }
}

/// Splits the latency of a transaction over the window.
///
/// # Errors
/// Without enough ticks of wait events, without work counted over them, or where the
/// sessions that did it could not be seen.
pub fn time_split(record: &Record, window: Window) -> Result<TimeSplit, Blind> {
    let ticks: Vec<&Sample> =
        record.samples(Source::Waits).iter().filter(|s| window.contains(s.at)).collect();
    let (Some(first), Some(last)) = (ticks.first(), ticks.last()) else {
        return Err(Blind::NotSampled { source: Source::Waits });
    };
    if ticks.len() < FEWEST_TICKS {
        let (have, need) = (ticks.len(), FEWEST_TICKS);
        return Err(Blind::TooFewSamples { source: Source::Waits, have, need });
    }
    let length = last.at.since(first.at).as_secs_f64();
    let work = work_between(record, first.at, last.at)?;
    // Sessions of transactions that fail are seen as well, so they count here.
    let failed = driven_between(record, first.at, last.at, failures).unwrap_or(0.0);
    let rate = (work.count + failed) / length;

    // On a shared server the sessions of others are no part of what our clients waited for.
    let ours = record.load.is_some()
        && ticks.iter().flat_map(|tick| &tick.rows).any(|row| row.flag("ours") == Some(true));
    let hidden = HiddenSessions::of(record, window).filter(|_| !ours);
    if let Some(hidden) = hidden.as_ref().filter(|hidden| hidden.are_many()) {
        return Err(hidden.blind());
    }
    let tally = Tally::of(&ticks, ours);
    let means = tick_means(&tally.ticks, &Resampling::default()).ok_or(Blind::NoWork)?;
    let on_server = means[WaitClass::ALL.len()].clone().map(|sessions| sessions / rate);

    let latency = latency::mean_latency(record, window);
    // In a closed loop the lag histograms are empty.
    let queue = latency::lags(record, window).mean();
    let inside = latency.map(|l| l.saturating_sub(queue.unwrap_or_default()).as_secs_f64());
    let whole = latency.map_or(on_server.center, |l| l.as_secs_f64());

    let parts = WaitClass::ALL
        .into_iter()
        .zip(&means)
        .filter(|(_, sessions)| sessions.center > 0.0)
        .map(|(class, sessions)| {
            let per_transaction = sessions.clone().map(|n| n / rate);
            TimePart {
                class,
                share: per_transaction.clone().map(|s| if whole > 0.0 { s / whole } else { 0.0 }),
                sessions: sessions.center,
                events: tally.events_of(class, ticks.len() as f64 * rate),
                per_transaction,
            }
        })
        .collect();
    let residual = inside.map(|inside| on_server.clone().map(|server| inside - server));
    let mut warnings = Vec::new();
    if let Some(hidden) = hidden {
        warnings.push(format!("what some sessions wait for is missing: {}", hidden.blind()));
    }
    if let (Some(latency), Some(residual)) = (latency, &residual)
        && residual.interval.is_some_and(|i| i.high < -OVERDRAWN * latency.as_secs_f64())
    {
        warnings.push(
            "sessions were seen in transactions for longer than clients waited: other clients \
             use this server, or the sampling is biased"
                .to_owned(),
        );
    }
    if failed > 0.01 * work.count {
        warnings.push(
            "more than 1 % of the transactions failed; their time on the server is in the split, \
             their latency is not"
                .to_owned(),
        );
    }
    Ok(TimeSplit {
        unit: work.unit,
        queue,
        parts,
        residual_share: residual.as_ref().filter(|_| whole > 0.0).map(|r| r.center / whole),
        residual,
        on_server,
        ticks: ticks.len(),
        counted_flush: None,
        counted_cpu: None,
        counted_run_delay: None,
        warnings,
        latency,
    })
}

/// Sessions by class and by event, in one pass over the rows.
struct Tally<'r> {
    /// For each tick, sessions in each class of [`WaitClass::ALL`], and last in any of them.
    ticks: Vec<Vec<f64>>,
    /// Sessions over all ticks by class, type and event.
    events: BTreeMap<(WaitClass, Option<&'r str>, Option<&'r str>), f64>,
}

impl<'r> Tally<'r> {
    /// Counts all client sessions, or `ours` alone.
    fn of(ticks: &[&'r Sample], ours: bool) -> Self {
        let mut tally = Tally { ticks: Vec::with_capacity(ticks.len()), events: BTreeMap::new() };
        for tick in ticks {
            let mut counts = vec![0.0; WaitClass::ALL.len() + 1];
            for row in &tick.rows {
                let Some(class) = WaitClass::of(row) else { continue };
                if ours && row.flag("ours") != Some(true) {
                    continue;
                }
                let Some(sessions) = row.number("sessions") else { continue };
                counts[class as usize] += sessions;
                counts[WaitClass::ALL.len()] += sessions;
                let event = (class, row.text("wait_event_type"), row.text("wait_event"));
                *tally.events.entry(event).or_insert(0.0) += sessions;
            }
            tally.ticks.push(counts);
        }
        tally
    }

    /// The most frequent events of a class; `per` turns summed sessions into
    /// seconds a transaction.
    fn events_of(&self, class: WaitClass, per: f64) -> Vec<EventTime> {
        let mut events: Vec<EventTime> = self
            .events
            .iter()
            .filter(|((of, ..), _)| *of == class)
            .map(|((_, kind, event), sum)| EventTime {
                event: match (kind, event) {
                    (Some(kind), Some(event)) => format!("{kind}:{event}"),
                    (Some(kind), None) => (*kind).to_owned(),
                    _ if class == WaitClass::Cpu => "CPU".to_owned(),
                    _ => "idle in transaction".to_owned(),
                },
                per_transaction: sum / per,
            })
            .collect();
        events.sort_by(|a, b| b.per_transaction.total_cmp(&a.per_transaction));
        events.truncate(EVENTS);
        events
    }
}

#[cfg(test)]
mod tests {
    use walwright_record::TargetFacts;

    use super::*;
    use walwright_testing::{Build, embedded, row, second, wait};

    /// Ten clients, 1,000 transactions a second of 8 ms: 8 sessions in
    /// transactions, of which 2 on CPU, 4 flushing, 1 queued for the flush, 1 idle
    /// in transaction; 2 idle.
    fn latency_breakdown() -> Build {
        let mut build = Build::new();
        for s in 0..30 {
            build.interval(f64::from(s), &vec![Duration::from_millis(10); 1_000]);
        }
        for tick in 0..300_u32 {
            let cpu = f64::from(tick % 3) + 1.0;
            build.sample(
                f64::from(tick) / 10.0,
                Source::Waits,
                [
                    wait("active", "", "", cpu),
                    wait("active", "IO", "walsync", 6.0 - cpu),
                    wait("active", "LWLock", "walwrite", 1.0),
                    wait("idle in transaction", "Client", "clientread", 1.0),
                    wait("idle", "Client", "clientread", 2.0),
                ],
            );
        }
        build
    }

    fn split(build: &Build) -> Result<TimeSplit, Blind> {
        time_split(&build.record, Window { start: second(0.0), end: second(30.0) })
    }

    #[test]
    fn the_books_close_with_a_stated_residual() {
        let split = split(&latency_breakdown()).unwrap();
        assert_eq!(split.ticks, 300);
        let seconds = |class| split.part(class).unwrap().per_transaction.center;
        assert!((seconds(WaitClass::Cpu) - 0.002).abs() < 1e-5);
        assert!((seconds(WaitClass::Flush) - 0.004).abs() < 1e-5);
        assert!((seconds(WaitClass::FlushQueue) - 0.001).abs() < 1e-6);
        assert!((seconds(WaitClass::Client) - 0.001).abs() < 1e-6);
        assert!((split.on_server.center - 0.008).abs() < 1e-6);
        // 10 ms of latency: 8 on the server, 2 outside of transactions.
        let residual = split.residual.as_ref().unwrap();
        assert!((residual.center - 0.002).abs() < 2e-5, "{residual:?}");
        assert!((split.residual_share.unwrap() - 0.2).abs() < 2e-3);
        assert!(split.part(WaitClass::Io).is_none());
        assert!(split.warnings.is_empty());
    }

    #[test]
    fn parts_and_residual_make_up_the_latency() {
        let split = split(&latency_breakdown()).unwrap();
        let shares: f64 = split.parts.iter().map(|p| p.share.center).sum();
        assert!((shares + split.residual_share.unwrap() - 1.0).abs() < 1e-9);
        let interval = split.part(WaitClass::Cpu).unwrap().share.interval.unwrap();
        assert!(interval.low < 0.2 && interval.high > 0.199 && interval.high < 0.25);
    }

    #[test]
    fn flush_is_not_called_the_throttle_when_it_is_six_percent() {
        // E1: 0.435 ms of flush in 7.38 ms at 1,200 a second are 0.52 sessions.
        let mut build = Build::new();
        for s in 0..60 {
            build.interval(f64::from(s), &vec![Duration::from_micros(7_380); 1_200]);
        }
        for tick in 0..600_u32 {
            let flushing = if tick % 25 < 13 { 1.0 } else { 0.0 };
            build.sample(
                f64::from(tick) / 10.0,
                Source::Waits,
                [wait("active", "IO", "walsync", flushing), wait("active", "", "", 1.0)],
            );
        }
        let window = Window { start: second(0.0), end: second(60.0) };
        let split = time_split(&build.record, window).unwrap();
        let flush = split.part(WaitClass::Flush).unwrap();
        assert!((flush.share.center - 0.0587).abs() < 0.002, "{}", flush.share.center);
        assert!(flush.share.interval.unwrap().high < 0.08);
        assert!(split.residual_share.unwrap() > 0.75);
    }

    #[test]
    fn other_peoples_sessions_overdraw_the_latency_breakdown() {
        let mut build = latency_breakdown();
        for sample in build.record.samples.get_mut(&Source::Waits).unwrap() {
            sample.rows.push(wait("active", "Lock", "relation", 5.0));
        }
        let split = split(&build).unwrap();
        assert!(split.residual.unwrap().center < 0.0);
        assert_eq!(split.warnings.len(), 1);
    }

    #[test]
    fn transactions_that_fail_hold_sessions_too() {
        let mut build = latency_breakdown();
        for interval in &mut build.record.intervals {
            interval.scripts[0].failures.insert("40001".to_owned(), 1_000);
        }
        // As many fail as succeed: each holds half of the sessions' time.
        let split = split(&build).unwrap();
        assert!((split.on_server.center - 0.004).abs() < 1e-6);
        assert_eq!(split.warnings.len(), 1);
    }

    #[test]
    fn queueing_before_the_start_is_its_own_entry() {
        let mut build = latency_breakdown();
        let lag = walwright_testing::histogram(&[Duration::from_millis(1)]);
        build.record.intervals.iter_mut().for_each(|i| i.lag = lag.clone());
        let split = split(&build).unwrap();
        assert!((split.queue.unwrap().as_secs_f64() - 0.001).abs() < 1e-5);
        assert!((split.residual.unwrap().center - 0.001).abs() < 2e-5);
    }

    #[test]
    fn events_are_named_within_their_class() {
        let split = split(&latency_breakdown()).unwrap();
        let flush = split.part(WaitClass::Flush).unwrap();
        assert_eq!(flush.events[0].event, "IO:walsync");
        assert!((flush.events[0].per_transaction - flush.per_transaction.center).abs() < 1e-9);
    }

    /// A load of others, whose commits the server counts and whose sessions are not shown.
    fn unseen(hidden: f64, seen: f64) -> Build {
        let mut build = Build::new();
        build.record.target = Some(TargetFacts {
            role: "AttachedServer".to_owned(),
            superuser: false,
            monitor: false,
            ..embedded()
        });
        for tick in 0..300_u32 {
            let rows = if seen > 0.0 { vec![wait("active", "", "", seen)] } else { Vec::new() };
            build.sample(f64::from(tick) / 10.0, Source::Waits, rows);
        }
        for s in 0..=30 {
            let t = f64::from(s);
            let counts = row([("hidden", hidden), ("client_backends", seen)]);
            build.sample(t, Source::Sessions, [counts]);
            build.sample(t, Source::Database, [row([("xact_commit", 100.0 * t)])]);
        }
        build
    }

    #[test]
    fn sessions_that_cannot_be_seen_make_no_split() {
        let blind = split(&unseen(8.0, 0.0)).unwrap_err();
        assert!(matches!(blind, Blind::HiddenSessions { sessions: 8, .. }), "{blind:?}");
        assert!(blind.to_string().contains("GRANT pg_monitor TO \"AttachedServer\""), "{blind}");
        // Nor do those of the one session that can, for all the others.
        assert!(split(&unseen(8.0, 1.0)).is_err());
        let mostly = split(&unseen(1.0, 20.0)).unwrap();
        assert!(mostly.warnings[0].contains("GRANT pg_monitor"), "{:?}", mostly.warnings);
        assert!(split(&unseen(0.0, 1.0)).unwrap().warnings.is_empty());
        let idle = split(&unseen(0.0, 0.0)).unwrap();
        assert!(idle.unseen().unwrap().contains("none of 300 looks"), "{:?}", idle.unseen());
    }

    #[test]
    fn few_ticks_or_no_work_make_no_split() {
        let mut build = Build::new();
        assert!(matches!(split(&build), Err(Blind::NotSampled { .. })));
        for tick in 0..100_u32 {
            build.sample(f64::from(tick) / 10.0, Source::Waits, [wait("active", "", "", 1.0)]);
        }
        assert!(split(&build).is_err());
    }
}
