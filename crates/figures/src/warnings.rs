//! Warnings that only the finished record shows, each with the figures that raise it.

use std::time::Duration;

use walwright_record::{
    InstrumentFacts, LoadInterval, Probes, Record, RunState, Source, Warning, WarningCode,
};
use walwright_stats::median;

use crate::{Blind, Summary, commit_clock};

/// A driver thread that was busy more of the time than this may have kept clients
/// waiting: requests that come at random queue before a server is fully busy.
const BUSY_THREAD: f64 = 0.8;
/// Share of its own ceiling from which the driver may shape the result.
const NEAR_CEILING: f64 = 0.7;
/// CPU taken by the hypervisor that is worth a word.
const STEAL: f64 = 0.02;
/// Processors kept busy by one process that is neither ours nor the server's.
const NEIGHBOUR: f64 = 0.05;
/// Part of the work that counters may not hold that is worth a word.
const LATE: f64 = 0.05;
/// Shortest window whose tail percentiles mean something.
const SHORT: Duration = Duration::from_secs(20);
/// Part of what was due that counts as reached.
const RATE_REACHED: f64 = 0.98;
/// Earlier runs that say what is usual.
const FEWEST_BEFORE: usize = 3;
/// Flush latency varies from one second to the next; a factor is another disk.
const UNUSUAL_FLUSH: f64 = 2.0;
/// Speed of a processor, measured by the same code, varies by a few percent.
const UNUSUAL_SPEED: f64 = 0.15;

/// What the driver knows of itself over the measured window.
pub fn instrument(record: &Record) -> Option<InstrumentFacts> {
    let window = record.window()?;
    let inside: Vec<&LoadInterval> = crate::intervals_inside(record, window).collect();
    let seconds: f64 = inside.iter().map(|i| i.length.as_secs_f64()).sum();
    let cpu: Duration = inside.iter().map(|i| i.driver_cpu).sum();
    let busiest: Duration = inside.iter().map(|i| i.busiest_thread_cpu).sum();
    let count: u64 = inside.iter().map(|i| crate::transactions(i)).sum();
    Some(InstrumentFacts {
        cpu_per_transaction: (count > 0).then(|| cpu.div_f64(count as f64)),
        ceiling: record.instrument.as_ref().and_then(|known| known.ceiling),
        busiest_thread: (seconds > 0.0).then(|| busiest.as_secs_f64() / seconds),
    })
}

/// The warnings.
pub fn warnings(record: &Record, summary: &Summary, earlier: &[Probes]) -> Vec<Warning> {
    [
        ended_early(record),
        generator(record, summary),
        short_window(summary),
        no_checkpoint(summary),
        failures(summary),
        rate_not_reached(summary),
        timing_off(summary),
        late_counters(record),
        resets(summary),
        steal(summary),
        swapping(record),
        durability(record),
    ]
    .into_iter()
    .flatten()
    .chain(unlike_before(record, earlier))
    .chain(neighbours(summary))
    .collect()
}

fn generator(record: &Record, summary: &Summary) -> Option<Warning> {
    let instrument = record.instrument.as_ref()?;
    let threads = "more driver threads (--threads) on more processors, or fewer clients a machine";
    if let Some(busy) = instrument.busiest_thread.filter(|busy| *busy > BUSY_THREAD) {
        return Some(
            Warning::new(
                WarningCode::GeneratorNearCeiling,
                format!(
                    "the busiest driver thread used {:.0} % of a processor: the load generator may be the limit, and latencies include its queue",
                    busy * 100.0
                ),
            )
            .hint(threads),
        );
    }
    let rate = summary.load.as_ref()?.throughput.as_ref()?.center;
    let ceiling = instrument.ceiling?;
    (rate > NEAR_CEILING * ceiling).then(|| {
        Warning::new(
            WarningCode::GeneratorNearCeiling,
            format!(
                "{rate:.0} transactions a second is {:.0} % of what the load generator can do here ({ceiling:.0} a second)",
                rate / ceiling * 100.0
            ),
        )
        .hint(threads)
    })
}

fn short_window(summary: &Summary) -> Option<Warning> {
    let window = summary.window.filter(|window| *window < SHORT)?;
    Some(
        Warning::new(
            WarningCode::ShortWindow,
            format!(
                "the window is {:.0} s: its tail percentiles rest on few seconds, and no drift can show",
                window.as_secs_f64()
            ),
        )
        .hint("measure longer"),
    )
}

fn no_checkpoint(summary: &Summary) -> Option<Warning> {
    let checkpoints = summary.checkpoints.as_ref()?;
    let writes = summary.wal.as_ref()?.bytes_per_transaction? > 0.0;
    (checkpoints.completed == 0 && writes).then(|| {
        Warning::new(
            WarningCode::NoCheckpoint,
            "no checkpoint completed inside the window, so its cost, and that of the full-page images after it, is not in the figures",
        )
        .hint("measure longer than checkpoint_timeout before you compare write-heavy runs")
    })
}

fn failures(summary: &Summary) -> Option<Warning> {
    let load = summary.load.as_ref().filter(|load| load.failed > 0)?;
    let kinds: Vec<String> =
        load.failures.iter().map(|(kind, count)| format!("{kind} x {count}")).collect();
    Some(Warning::new(
        WarningCode::Failures,
        format!(
            "{} of {} {}s failed ({}); they are in no latency and no throughput",
            load.failed,
            load.failed + load.transactions,
            load.unit.name(),
            kinds.join(", ")
        ),
    ))
}

fn rate_not_reached(summary: &Summary) -> Option<Warning> {
    let load = summary.load.as_ref()?;
    let open = load.open_loop.as_ref()?;
    // Against what was due, not the nominal rate: Poisson arrivals scatter. What is in
    // flight at either end of the window is no shortfall.
    let missing = open.due.saturating_sub(load.transactions) as f64;
    let in_flight = f64::from(summary.clients.unwrap_or(1));
    (missing > (1.0 - RATE_REACHED) * open.due as f64 + in_flight).then(|| {
        Warning::new(
            WarningCode::RateNotReached,
            format!(
                "{:.0} a second were offered and {:.0} reached: of {} transactions due in the window {} ended well, the rest queued, was skipped or failed",
                open.offered, open.reached, open.due, load.transactions
            ),
        )
        .hint("latency under overload grows with the length of the run; offer less, or read it as a limit")
    })
}

fn timing_off(summary: &Summary) -> Option<Warning> {
    let off = summary.not_observable.iter().any(|n| matches!(n.why, Blind::TimingOff { .. }));
    off.then(|| {
        Warning::new(WarningCode::TimingOff, "timing is off on the server, so flush or I/O times are unknown")
            .hint("track_wal_io_timing = on and track_io_timing = on cost little where reading the clock is cheap: pg_test_timing tells")
    })
}

/// Counters whose distance to the clients is not known.
fn late_counters(record: &Record) -> Option<Warning> {
    let off = commit_clock::unknown_part(record, record.window()?).filter(|off| *off > LATE)?;
    Some(
        Warning::new(
            WarningCode::NotObservable,
            format!(
                "sessions count up to a second late, and commits do not tell how late: WAL and flushes per transaction may be off by {:.0} %",
                off * 100.0
            ),
        )
        .hint("measure longer"),
    )
}

fn resets(summary: &Summary) -> Option<Warning> {
    let void: Vec<&str> = summary
        .not_observable
        .iter()
        .filter(|n| matches!(n.why, Blind::Reset { .. }))
        .map(|n| n.figure.as_str())
        .collect();
    (!void.is_empty()).then(|| {
        Warning::new(
            WarningCode::StatisticsReset,
            format!("statistics were reset inside the window, which voids: {}", void.join(", ")),
        )
    })
}

fn steal(summary: &Summary) -> Option<Warning> {
    let steal = summary.cpu.as_ref()?.steal.filter(|share| *share > STEAL)?;
    Some(
        Warning::new(
            WarningCode::Steal,
            format!("the hypervisor stole {:.1} % of the processors' time", steal * 100.0),
        )
        .hint("compare only runs interleaved in one experiment"),
    )
}

/// What a run that did not come to its planned end leaves out.
fn ended_early(record: &Record) -> Option<Warning> {
    let header = &record.header;
    let reason = header.error.as_deref().unwrap_or("nobody said why");
    // A server that was lost, or restarted, has been told of.
    let told = record.warnings.iter().any(|warning| warning.code == WarningCode::ServerLost);
    match header.state {
        RunState::Failed if record.window().is_some() => {
            Some(Warning::new(WarningCode::Failures, format!("the run failed: {reason}")))
        }
        RunState::Interrupted if !told => Some(Warning::new(
            WarningCode::Interrupted,
            format!("the run did not reach its planned end: {reason}"),
        )),
        _ => None,
    }
}

fn swapping(record: &Record) -> Option<Warning> {
    let window = record.window()?;
    let memory = crate::difference(record, Source::Memory, window).ok()?;
    let pages = |name: &str| memory.sum(name).ok().filter(|pages| *pages > 0.0);
    let (read, written) = (pages("pswpin"), pages("pswpout"));
    (read.is_some() || written.is_some()).then(|| {
        Warning::new(
            WarningCode::Swapping,
            format!(
                "the machine swapped inside the window: {:.0} pages in, {:.0} out",
                read.unwrap_or(0.0),
                written.unwrap_or(0.0)
            ),
        )
        .hint("free memory or lower the server's, then measure again")
    })
}

/// Whether the short probes before the run differ from what they said before earlier
/// runs in this lab.
fn unlike_before(record: &Record, earlier: &[Probes]) -> Vec<Warning> {
    let hint = "the machine was noisy: compare only with runs interleaved with this one";
    let usual = |values: Vec<f64>| (values.len() >= FEWEST_BEFORE).then(|| median(&values))?;
    let mut warnings = Vec::new();
    if let Some(now) = &record.storage {
        let alike = earlier.iter().filter_map(|probes| probes.storage.as_ref());
        let alike = alike.filter(|p| p.method == now.method && p.path == now.path);
        let before = usual(alike.map(|p| p.p50.as_secs_f64()).collect());
        let p50 = now.p50.as_secs_f64();
        if let Some(before) = before.filter(|b| p50 > UNUSUAL_FLUSH * b || p50 * UNUSUAL_FLUSH < *b)
        {
            warnings.push(
                Warning::new(
                    WarningCode::ProbeOff,
                    format!(
                        "a flush took {:.0} us before this run, and {:.0} us (median) before earlier ones",
                        p50 * 1e6,
                        before * 1e6
                    ),
                )
                .hint(hint),
            );
        }
    }
    if let Some(now) = &record.cpu {
        let alike = earlier.iter().filter_map(|probes| probes.cpu.as_ref());
        let alike = alike.filter(|p| p.method == now.method);
        let before = usual(alike.map(|p| p.rounds_per_second).collect());
        if let Some(before) =
            before.filter(|b| (now.rounds_per_second / b - 1.0).abs() > UNUSUAL_SPEED)
        {
            warnings.push(
                Warning::new(
                    WarningCode::ProbeOff,
                    format!(
                        "the processor was {:.0} % {} than before earlier runs",
                        (now.rounds_per_second / before - 1.0).abs() * 100.0,
                        if now.rounds_per_second < before { "slower" } else { "faster" }
                    ),
                )
                .hint(hint),
            );
        }
    }
    warnings
}

fn neighbours(summary: &Summary) -> Vec<Warning> {
    let groups = summary.cpu.as_ref().map_or(&[][..], |cpu| &cpu.groups);
    groups
        .iter()
        .filter_map(|group| Some((group.group.strip_prefix("other: ")?, group.processors)))
        .filter(|(_, processors)| *processors > NEIGHBOUR)
        .map(|(name, processors)| {
            Warning::new(
                WarningCode::NoisyNeighbour,
                format!("another process, {name}, used {processors:.2} processors"),
            )
            .hint("stop it, or treat the figures as those of a shared machine")
        })
        .collect()
}

fn durability(record: &Record) -> Option<Warning> {
    let is = |name: &str, value: &str| record.setting(name).is_some_and(|s| s.value == value);
    let mut lost = Vec::new();
    if is("fsync", "off") {
        lost.push("fsync = off: a crash of the machine can corrupt the database");
    }
    if is("full_page_writes", "off") {
        lost.push("full_page_writes = off: a crash of the machine can leave torn pages");
    }
    if is("synchronous_commit", "off") {
        lost.push("synchronous_commit = off: a crash loses the last acknowledged commits");
    }
    // Without a synchronous standby these are the same as `on`.
    let standbys =
        record.setting("synchronous_standby_names").is_some_and(|s| !s.value.trim().is_empty());
    if standbys && (is("synchronous_commit", "local") || is("synchronous_commit", "remote_write")) {
        lost.push("synchronous_commit is below on: a failover can lose acknowledged commits");
    }
    (!lost.is_empty()).then(|| Warning::new(WarningCode::DurabilityLowered, lost.join("; ")))
}

#[cfg(test)]
mod tests {
    use walwright_record::{CpuProbe, Setting};

    use super::*;
    use walwright_testing::header;

    fn record() -> Record {
        Record::new(header())
    }

    fn setting(name: &str, value: &str) -> Setting {
        Setting {
            name: name.to_owned(),
            value: value.to_owned(),
            unit: None,
            shown: value.to_owned(),
            boot_value: None,
            source: "command line".to_owned(),
            source_file: None,
            context: "sighup".to_owned(),
            pending_restart: false,
        }
    }

    #[test]
    fn lowered_durability_is_said_in_words() {
        let mut record = record();
        assert_eq!(durability(&record), None);
        record.settings = vec![setting("fsync", "off"), setting("synchronous_commit", "on")];
        let warning = durability(&record).unwrap();
        assert!(warning.text.contains("corrupt"), "{warning}");
        assert!(!warning.text.contains("acknowledged"), "{warning}");
    }

    #[test]
    fn a_local_commit_gives_nothing_away_where_no_standby_is_synchronous() {
        let mut record = record();
        record.settings =
            vec![setting("synchronous_commit", "local"), setting("synchronous_standby_names", "")];
        assert_eq!(durability(&record), None);
        record.settings[1].value = "s1".to_owned();
        assert!(durability(&record).unwrap().text.contains("failover"));
    }

    #[test]
    fn a_machine_unlike_its_earlier_self_has_a_warning() {
        let speed = |rounds_per_second| CpuProbe {
            method: "a".to_owned(),
            rounds_per_second,
            spread: 0.01,
        };
        let earlier: Vec<Probes> = [100.0, 101.0, 99.0]
            .map(|speed_then| Probes { storage: None, cpu: Some(speed(speed_then)) })
            .into();
        let mut record = record();
        record.cpu = Some(speed(95.0));
        assert_eq!(unlike_before(&record, &earlier), []);
        record.cpu = Some(speed(70.0));
        assert!(unlike_before(&record, &earlier)[0].text.contains("30 % slower"));
        assert_eq!(unlike_before(&record, &earlier[..2]), []);
    }

    #[test]
    fn an_interrupted_run_says_so() {
        let mut record = record();
        record.header.state = RunState::Interrupted;
        record.header.error = Some("it was stopped".to_owned());
        assert!(ended_early(&record).unwrap().text.contains("it was stopped"));
    }

    #[test]
    fn an_empty_record_raises_no_warning_about_figures_it_does_not_have() {
        let record = record();
        let summary = crate::summary(&record);
        assert_eq!(warnings(&record, &summary, &[]), []);
    }
}
