//! Statements whose execution costs more than the rows are worth: spills, JIT,
//! observers; and who writes the WAL.

use walwright_figures::{StatementUse, StatementUses, WaitClass};
use walwright_record::Source;

use super::threshold::{FEW, worth};
use super::writes::calls;
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Per, Reading, Relief, Value};

/// CPU of one 8 kB block of a temporary file, written to the page cache and read
/// back: two copies and two system calls at a few GB/s.
const TEMP_BLOCK: f64 = 5e-6;
/// Share of the WAL from which one statement is worth naming.
const MOST_WAL: f64 = 0.4;
/// Bytes that a sort or hash needs in memory for each byte it spilled.
const IN_MEMORY: f64 = 2.0;

pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    let Ok(uses) = &reading.statements else { return spills(reading, None).into_iter().collect() };
    [spills(reading, Some(uses)), jit(reading, uses), observers(reading, uses), wal(reading, uses)]
        .into_iter()
        .flatten()
        .collect()
}

/// Part of a spilling statement's CPU that goes with the spill, at most: an external sort
/// of rows that would fit into memory was seen to take up to three times as long.
const EXTERNAL: f64 = 0.7;

/// D29: sorts and hashes spill to temporary files.
fn spills(reading: &Reading, uses: Option<&StatementUses>) -> Option<Finding> {
    let database = reading.difference(Source::Database).ok()?;
    let work = reading.work(&database).ok()?;
    let bytes = database.sum("temp_bytes").ok().filter(|b| *b > 0.0)? / work.count;
    let files = database.sum("temp_files").unwrap_or(0.0);
    let waiting = reading.in_events("IO", &["buffileread", "buffilewrite"]);
    let copying = reading.with_processor_wait(bytes / 8192.0 * TEMP_BLOCK);
    let time = match waiting {
        Some(waiting) => waiting.map(|w| w + copying),
        None => reading.counted(copying),
    };
    let impact = worth(reading, Some(time.clone()))?;
    let worst = uses.and_then(|uses| {
        let spilled = |s: &StatementUse| s.sum("temp_blks_written").unwrap_or(0.0);
        let worst = uses.toplevel().max_by(|a, b| spilled(a).total_cmp(&spilled(b)))?;
        (spilled(worst) > 0.0).then_some((uses, worst))
    });
    let mut finding = reading
        .finding(
            DiagnosisId::D29,
            Kind::Problem,
            match worst {
                Some((_, s)) => {
                    format!(
                        "Sorts or hashes do not fit into work_mem and spill, in \"{}\".",
                        s.short()
                    )
                }
                None => "Sorts or hashes do not fit into work_mem and spill to files.".to_owned(),
            },
        )
        .seen([
            Evidence::new("pg_stat_database", "bytes spilled", Value::Bytes(bytes))
                .per(reading.per()),
            Evidence::new("pg_stat_database", "temporary files", Value::Count(files / work.count))
                .per(reading.per()),
        ])
        .costs(Some(impact));
    // With the spill some of the statement's own work goes: never more than all of it.
    let most = worst.map(|(uses, s)| s.seconds() / uses.work.count).unwrap_or(time.center);
    let relief = Relief::new(time.clone().map(|t| t.max(most)), [WaitClass::Io, WaitClass::Cpu])
        .and_cpu(copying.max(EXTERNAL * reading.execution(most).cpu));
    finding = finding.gains(reading.gain(&relief));
    if let Some((uses, statement)) = worst {
        finding = finding.seen([calls(reading, uses, statement)]);
        let blocks = statement.per_call("temp_blks_written").unwrap_or(0.0);
        let needed = (blocks * 8192.0 * IN_MEMORY / 1048576.0).ceil().max(1.0);
        let megabytes = (needed as u64).next_power_of_two();
        let now = reading.bytes("work_mem").unwrap_or(0.0);
        if megabytes as f64 * 1048576.0 > now && fits(reading, megabytes as f64 * 1048576.0) {
            finding.actions.extend(reading.set(
                "work_mem",
                &format!("{megabytes}MB"),
                "Give what spilled the memory it needs; better for the one role or statement \
                 (ALTER ROLE … SET work_mem) than for all.",
            ));
        } else {
            finding = finding.advise(Action::advice(
                "What spills is too large for memory times sessions: sort or group less, or find \
                 an index that gives the order.",
            ));
        }
    }
    Some(finding)
}

/// Whether every session could take this much at once and leave half of the memory.
fn fits(reading: &Reading, work_mem: f64) -> bool {
    let sessions = f64::from(reading.summary.clients.unwrap_or(20)).max(1.0);
    reading.memory().is_none_or(|memory| work_mem * sessions < 0.5 * memory)
}

/// Seconds in which JIT compiled a statement.
pub(super) fn compiling(statement: &StatementUse) -> f64 {
    // `jit_deform_time` (17 on) is part of the generation.
    const TIMES: [&str; 4] =
        ["jit_generation_time", "jit_inlining_time", "jit_optimization_time", "jit_emission_time"];
    TIMES.iter().filter_map(|column| statement.sum(column)).sum::<f64>() / 1e3
}

/// D43: JIT compiles statements that run for less than the compilation takes.
fn jit(reading: &Reading, uses: &StatementUses) -> Option<Finding> {
    let worst = uses.toplevel().max_by(|a, b| compiling(a).total_cmp(&compiling(b)))?;
    let seconds: f64 = uses.toplevel().map(compiling).sum::<f64>() / uses.work.count;
    let execution = reading.execution(seconds);
    let time = reading.counted(execution.time);
    let impact = worth(reading, Some(time.clone()))?;
    let share = compiling(worst) / worst.seconds().max(1e-9);
    let functions = worst.per_call("jit_functions").unwrap_or(0.0);
    let relief = Relief::new(time, [WaitClass::Cpu]).at_least(seconds / 2.0).and_cpu(execution.cpu);
    let mut finding = reading
        .finding(
            DiagnosisId::D43,
            Kind::Problem,
            format!(
                "JIT compilation takes {:.0} % of the time of a statement that is too short for \
                 it: \"{}\".",
                share * 100.0,
                worst.short()
            ),
        )
        .seen([
            Evidence::new("pg_stat_statements", "compiling", Value::Seconds(seconds))
                .per(reading.per()),
            Evidence::new("pg_stat_statements", "functions compiled", Value::Count(functions))
                .per(Per::Call),
            calls(reading, uses, worst),
        ])
        .costs(Some(impact))
        .gains(reading.gain(&relief));
    finding.actions.extend(reading.set(
        "jit",
        "off",
        "Switch JIT off; or only raise jit_above_cost above the cost of these statements.",
    ));
    Some(finding)
}

/// D30: what watches or counts is among what is watched.
fn observers(reading: &Reading, uses: &StatementUses) -> Option<Finding> {
    let watches = |s: &&StatementUse| {
        let text = s.plain();
        // Of a table and nothing else; a query that is wrapped in one computes something.
        let counted = text.strip_prefix("select count(*) from ").unwrap_or_default();
        let counts = !counted.is_empty() && !counted.contains(['(', ',']) && !counted.contains(' ');
        counts
            || text.contains("pg_stat_")
            || text.contains("pg_statio_")
            || text.contains("pg_locks")
    };
    let all: Vec<&StatementUse> = uses.toplevel().filter(watches).collect();
    let executing = all.iter().map(|s| s.seconds()).sum::<f64>() / uses.work.count;
    let worst = all.first()?;
    // By time on the server, since a dashboard's statements are in no client's
    // latency; but they take what the clients could have.
    let whole = uses.toplevel().map(StatementUse::seconds).sum::<f64>() / uses.work.count;
    let execution = reading.execution(executing.min(whole));
    let time = reading.counted(execution.time);
    let impact = worth(reading, Some(time.clone()))?;
    Some(
        reading
            .finding(
                DiagnosisId::D30,
                Kind::Problem,
                format!("Counting and watching is among the largest work: \"{}\".", worst.short()),
            )
            .seen(all.iter().take(3).map(|s| calls(reading, uses, s)))
            .seen([Evidence::new("pg_stat_statements", "their time", Value::Seconds(executing))
                .per(reading.per())])
            .costs(Some(impact))
            .gains(reading.gain(&Relief::new(time, [WaitClass::Cpu]).and_cpu(execution.cpu)))
            .advise(Action::advice(
                "Ask less often, keep the count in a table, or take the estimate of \
                 pg_class.reltuples; leave such statements out when runs are compared.",
            )),
    )
}

/// D31: which statement the WAL comes from.
fn wal(reading: &Reading, uses: &StatementUses) -> Option<Finding> {
    let all = uses.sum("wal_bytes").filter(|bytes| *bytes > 0.0)?;
    let bytes = |s: &StatementUse| s.sum("wal_bytes").unwrap_or(0.0);
    let mut writers: Vec<&StatementUse> =
        uses.toplevel().filter(|s| bytes(s) >= 0.01 * all && s.calls >= FEW).collect();
    writers.sort_by(|a, b| bytes(b).total_cmp(&bytes(a)));
    let first = writers.first().filter(|s| bytes(s) >= MOST_WAL * all)?;
    if writers.len() < 2 {
        return None;
    }
    Some(
        reading
            .finding(
                DiagnosisId::D31,
                Kind::Information,
                format!(
                    "{:.0} % of the WAL of statements comes from \"{}\".",
                    100.0 * bytes(first) / all,
                    first.short()
                ),
            )
            .seen(writers.iter().take(4).map(|s| {
                let what = format!("WAL of {}", s.short());
                Evidence::new("pg_stat_statements", what, Value::Bytes(bytes(s) / s.calls))
                    .per(Per::Call)
            })),
    )
}
