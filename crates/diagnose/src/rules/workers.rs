//! Settings against processors, what observation costs, and versions too old for
//! their load.

use walwright_figures::WaitClass;
use walwright_record::Source;

use super::threshold::{FEW, matters, worth};
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Reading, Relief, Value};

/// Share of parallel workers that were wanted and not to be had.
const REFUSED: f64 = 0.2;
/// Times as many workers as fit that are no matter of taste.
const CROWDED: f64 = 4.0;
/// CPU of one line in the server's log, formatting and a write to a file: 3.8 µs by
/// the kernel's count on a processor of 2.1 GHz.
const LOG_LINE: f64 = 4e-6;
/// Share of the latency below which a log that is written is not worth a word.
const NOTICED: f64 = 0.005;
/// Part of a statement's time that `auto_explain` adds where it times every node:
/// two clock readings for each row and node.
const TIMED_NODES: f64 = 0.1;
/// Connections at which taking a snapshot is slow before 14, whose cost grows with
/// all of them, idle ones too.
const CONNECTIONS: f64 = 200.0;
/// Share of the machine that sampling may take before it is a cost.
const PROBE: f64 = 0.02;

pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    [
        workers(reading).or_else(|| oversized(reading)),
        logging(reading),
        auto_explain(reading),
        probe(reading),
        snapshots(reading),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// D57: queries ask for parallel workers that are not there, or for more than there
/// are processors.
fn workers(reading: &Reading) -> Option<Finding> {
    let uses = reading.statements.as_ref().ok()?;
    let wanted = uses.sum("parallel_workers_to_launch").filter(|n| *n >= FEW)?;
    let launched = uses.sum("parallel_workers_launched")?;
    let processors = reading.processors()?;
    let most = reading.number("max_parallel_workers")?;
    let refused = 1.0 - launched / wanted;
    let crowded = most > processors && refused < REFUSED;
    if refused < REFUSED && !crowded {
        return None;
    }
    let busy = reading.summary.cpu.as_ref()?.busy.unwrap_or(0.0);
    let parallel: f64 = uses
        .toplevel()
        .filter(|s| s.sum("parallel_workers_to_launch") > Some(0.0))
        .map(|s| s.seconds())
        .sum::<f64>()
        / uses.work.count;
    // Workers help while processors are free, and take them from others when not.
    let full = busy >= super::bounds::FULL;
    worth(reading, Some(reading.counted(parallel)))?;
    let mut finding = reading
        .finding(
            DiagnosisId::D57,
            Kind::Information,
            match full {
                true => format!(
                    "{launched:.0} parallel workers were started on {processors:.0} processors that \
                     are full: they take turns with the sessions they are to help."
                ),
                false => format!(
                    "{:.0} % of the parallel workers that queries planned with were not to be had.",
                    refused * 100.0
                ),
            },
        )
        .seen([
            Evidence::new("pg_stat_statements", "workers planned", Value::Count(wanted)),
            Evidence::new("pg_stat_statements", "workers started", Value::Count(launched)),
            Evidence::new("pg_settings", "max_parallel_workers", Value::Count(most)),
            Evidence::new("/proc", "processors", Value::Processors(processors)),
        ]);
    if full {
        finding.actions.extend(reading.set(
            "max_parallel_workers_per_gather",
            "0",
            "Without a free processor a query is done soonest alone.",
        ));
    } else if most < processors {
        finding.actions.extend(reading.set(
            "max_parallel_workers",
            &format!("{processors:.0}"),
            "As many as there are processors (max_worker_processes must allow it).",
        ));
    }
    Some(finding)
}

/// D57: someone allows many times as many workers as there are processors.
fn oversized(reading: &Reading) -> Option<Finding> {
    let processors = reading.processors()?;
    // Defaults are left alone: they are what most servers of any size run with.
    let chosen: Vec<(&str, f64, f64)> = [
        ("max_parallel_workers", processors),
        ("max_parallel_workers_per_gather", (processors / 2.0).ceil()),
        ("autovacuum_max_workers", (processors / 2.0).ceil().max(3.0)),
        ("io_workers", processors.max(3.0)),
    ]
    .into_iter()
    .filter(|(name, _)| reading.setting(name).is_some_and(|s| s.source != "default"))
    .filter_map(|(name, fitting)| Some((name, reading.number(name)?, fitting)))
    .filter(|(_, value, fitting)| *value > CROWDED * fitting)
    .collect();
    let (first, ..) = chosen.first()?;
    let mut finding = reading
        .finding(
            DiagnosisId::D57,
            Kind::Problem,
            format!(
                "{first} and its like allow many times as many workers as the {processors:.0} \
                 processors can run: one query or one round of vacuum can take the machine."
            ),
        )
        .seen(
            chosen
                .iter()
                .map(|(name, value, _)| Evidence::new("pg_settings", *name, Value::Count(*value))),
        )
        .seen([Evidence::new("/proc", "processors", Value::Processors(processors))])
        .blind_to("What it costs: no statement of this load ran in parallel.");
    for (name, _, fitting) in &chosen {
        finding.actions.extend(reading.set(
            name,
            &format!("{fitting:.0}"),
            "As many as the processors can run beside the sessions.",
        ));
    }
    Some(finding)
}

/// D58: every statement is written to the server's log.
fn logging(reading: &Reading) -> Option<Finding> {
    let all = reading.is_set("log_statement", "all") || reading.is_set("log_statement", "mod");
    let every =
        reading.is_set("log_min_duration_statement", "0") || reading.is_set("log_duration", "on");
    if !all && !every {
        return None;
    }
    let uses = reading.statements.as_ref().ok()?;
    let calls = uses.toplevel().map(|s| s.calls).sum::<f64>() / uses.work.count;
    // Where the duration is logged without a limit, each message of the extended protocol has
    // a line: Bind and Execute, and Parse where the statement is not prepared.
    let timed = reading.is_set("log_duration", "on");
    let per_call = |durations: f64| {
        f64::from(u8::from(all)) + if timed { durations } else { f64::from(u8::from(every)) }
    };
    let lines = calls * per_call(2.0);
    let cost = |lines: f64| reading.with_processor_wait(lines * LOG_LINE);
    let ends = [cost(calls * per_call(1.0)), cost(2.0 * calls * per_call(3.0))];
    let time = super::schema::bounded(ends[0], cost(lines), ends[1]);
    let impact = reading.impact(time.clone())?;
    let relief = Relief::new(time, [WaitClass::Cpu]).and_cpu(lines * LOG_LINE);
    let gain = reading.gain(&relief);
    let kind = if matters(&impact, gain.as_ref()) { Kind::Problem } else { Kind::Information };
    if impact.share.center < NOTICED {
        return None;
    }
    let mut finding = reading
        .finding(
            DiagnosisId::D58,
            kind,
            format!(
                "Every statement is written to the server's log: about {lines:.0} lines a \
                 transaction."
            ),
        )
        .about("server log")
        .seen([Evidence::new("pg_stat_statements", "lines logged", Value::Count(lines))
            .per(reading.per())])
        .costs(Some(impact))
        .gains(gain)
        .blind_to("The cost of a line is a typical one, 4 µs of CPU, not measured here.");
    if reading.is_set("log_min_duration_statement", "0") {
        finding.actions.extend(reading.set(
            "log_min_duration_statement",
            "1s",
            "Log slow statements only; pg_stat_statements counts the others.",
        ));
    }
    if all {
        finding.actions.extend(reading.set(
            "log_statement",
            "ddl",
            "Log changes of the schema only.",
        ));
    }
    if reading.is_set("log_duration", "on") {
        finding.actions.extend(reading.set(
            "log_duration",
            "off",
            "Leave durations to the slow ones.",
        ));
    }
    Some(finding)
}

/// D58 again: `auto_explain` times every node of every statement.
fn auto_explain(reading: &Reading) -> Option<Finding> {
    let on = reading.is_set("auto_explain.log_analyze", "on")
        && reading.is_set("auto_explain.log_timing", "on")
        && reading.number("auto_explain.log_min_duration").is_some_and(|ms| ms >= 0.0);
    let sampled = reading.number("auto_explain.sample_rate").unwrap_or(1.0);
    if !on {
        return None;
    }
    let uses = reading.statements.as_ref().ok()?;
    let executing = uses.toplevel().map(|s| s.seconds()).sum::<f64>() / uses.work.count;
    let cost = executing * TIMED_NODES * sampled;
    let time = reading.counted(cost);
    let impact = reading.impact(time.clone())?;
    let problem = worth(reading, Some(time.clone())).is_some();
    let mut finding = reading
        .finding(
            DiagnosisId::D58,
            if problem { Kind::Problem } else { Kind::Information },
            "auto_explain times every node of every statement, also of those it does not log.",
        )
        .about("auto_explain")
        .seen([Evidence::new("pg_stat_statements", "execution", Value::Seconds(executing))
            .per(reading.per())])
        .costs(Some(impact))
        .gains(reading.gain(&Relief::new(time, [WaitClass::Cpu]).and_cpu(cost)))
        .blind_to("What timing costs depends on the clock: pg_test_timing tells; 10 % is assumed.");
    finding.actions.extend(reading.set(
        "auto_explain.log_timing",
        "off",
        "Keep the row counts, leave out the clock.",
    ));
    Some(finding)
}

/// D58 once more: what walwright's own sampling takes.
fn probe(reading: &Reading) -> Option<Finding> {
    let cost = reading.difference(Source::ProbeCost).ok()?;
    let seconds = cost.length().as_secs_f64();
    let own =
        cost.sum("cpu_seconds").unwrap_or(0.0) + cost.sum("backend_cpu_seconds").unwrap_or(0.0);
    let processors = reading.processors()?;
    let share = own / seconds / processors;
    (share > PROBE).then(|| {
        reading
            .finding(
                DiagnosisId::D58,
                Kind::Information,
                format!("walwright's own sampling took {:.1} % of the machine.", share * 100.0),
            )
            .about("walwright")
            .seen([Evidence::new(
                "probe",
                "CPU of the probe and its backends",
                Value::Processors(own / seconds),
            )])
            .advise(Action::client("Sample less often.", "--waits 5 (walwright run)"))
    })
}

/// D44: before 14 a snapshot looks at every connection.
fn snapshots(reading: &Reading) -> Option<Finding> {
    let version = reading.version().filter(|v| *v < 140_000)?;
    let connections = reading
        .record
        .samples(Source::Sessions)
        .iter()
        .flat_map(|s| &s.rows)
        .filter_map(|row| row.number("client_backends"))
        .max_by(f64::total_cmp)
        .filter(|n| *n >= CONNECTIONS)?;
    Some(
        reading
            .finding(
                DiagnosisId::D44,
                Kind::Problem,
                format!(
                    "PostgreSQL {} looks at all {connections:.0} connections for each snapshot, \
                     idle ones too.",
                    version / 10_000
                ),
            )
            .seen([Evidence::new("pg_stat_activity", "connections", Value::Count(connections))])
            .blind_to("The time in GetSnapshotData: only a profile of the CPU shows it.")
            .advise(Action::advice("Upgrade to 14 or newer, or pool connections.")),
    )
}
