//! Sentences about a record that all renderings share.

use std::time::Duration;

use walwright_figures::{
    DataDiskUse, FlushCeiling, Latency, LoadSummary, PassMark, Requests, ServerLoad, StorageUse,
    WaitClass,
};
use walwright_record::{
    ClientDetail, ClientFacts, ClientLog, PhaseName, Record, RunState, Schedule,
};

use crate::format;
use crate::svg::Ink;

/// What ran on what: `tpcb at scale 50 on PostgreSQL 18.6`.
pub(crate) fn title(record: &Record) -> String {
    let workload = match &record.workload {
        Some(workload) => format!("{} at scale {}", workload.name, workload.scale),
        None if record.header.workload.is_empty() => "Observed load".to_owned(),
        None => record.header.workload.clone(),
    };
    match &record.target {
        Some(target) => format!("{workload} on PostgreSQL {}", target.version),
        None => workload,
    }
}

/// How the load was driven and for how long it was measured, as one sentence.
pub(crate) fn deck(record: &Record) -> String {
    let driven = record.load.as_ref().map(|load| {
        let clients = format::counted(load.clients.into(), "client");
        let connections = match load.rules.reconnect {
            true => ", a new connection for each transaction",
            false => "",
        };
        let stages = match load.stages.len() {
            0 => String::new(),
            of => format!(" in {of} stages"),
        };
        let through = match &load.pooler {
            Some(pooler) => format!(", through {}", pooler.name()),
            None => String::new(),
        };
        format!(
            "{clients} in {}{stages}, {} protocol, {} mode{connections}{through}",
            with_article(&schedule(&load.schedule)),
            load.protocol,
            load.mode
        )
    });
    let measured = record.window().map(|window| {
        let warm_up = record.phase(PhaseName::WarmUp).map(|w| w.length()).unwrap_or_default();
        let after = if warm_up >= Duration::from_secs(1) {
            format!(" after {} of warm-up", format::length(warm_up))
        } else {
            String::new()
        };
        format!("measured for {}{after}", format::length(window.length()))
    });
    match (driven, measured) {
        (Some(driven), Some(measured)) => format!("{driven}, {measured}."),
        (Some(driven), None) if record.header.state == RunState::Running => format!("{driven}."),
        (Some(driven), None) => format!("{driven}, ended before the measured window began."),
        (None, Some(measured)) => format!("A load that walwright did not drive, {measured}."),
        (None, None) => "Ended before the load began.".to_owned(),
    }
}

/// Share of the ceiling from which on flushes are said to be at it.
const AT_CEILING: f64 = 0.9;

/// Flushes against the disk's ceiling, in the pieces of a line of the summary.
pub(crate) fn storage_figures(of: &StorageUse) -> Vec<String> {
    let against = match &of.ceiling {
        Some(ceiling) if ceiling.disturbed => {
            "its ceiling was measured on a busy machine".to_owned()
        }
        Some(ceiling) => format!(
            "{} of the {} measured one at a time",
            whole_percent(ceiling.share),
            format::rate(ceiling.per_second)
        ),
        None => "its ceiling unknown: see `walwright diagnose`".to_owned(),
    };
    vec![format::rate_of(of.flushes_per_second, "flushes"), against]
}

/// The disk under the data, in the pieces of a line of the summary.
pub(crate) fn data_disk_figures(of: &DataDiskUse) -> Vec<String> {
    let told = |requests: &Requests, what: &str| {
        let rate = format::rate_of(requests.per_second, what);
        least(requests)
            .map_or(rate.clone(), |share| format!("{rate} (at least {share} of its best)"))
    };
    vec![told(&of.writes, "writes"), told(&of.reads, "reads")]
}

/// The same as a sentence: what it did, at least what share of what it can do, and what
/// follows.
pub(crate) fn data_disk(of: &DataDiskUse) -> String {
    let told = |requests: &Requests, what: &str| {
        let share = least(requests)
            .map(|share| format!(", at least {share} of what it was measured to do"));
        format!(
            "{} ({}/s{})",
            format::rate_of(requests.per_second, what),
            format::bytes(requests.bytes_per_second),
            share.unwrap_or_default()
        )
    };
    let fullest = of.writes.least_share.into_iter().chain(of.reads.least_share).reduce(f64::max);
    let place = match fullest {
        Some(share) if share > 1.1 => " It did more than when it was measured: measure it again.",
        Some(share) if share >= AT_CEILING => {
            " It is at its ceiling: it needs fewer pages read and written, or another disk."
        }
        _ => "",
    };
    format!(
        "The disk under the data ({}{}) took {} and {}.{place}",
        of.device,
        if of.holds_wal { ", with the WAL" } else { "" },
        told(&of.writes, "writes"),
        told(&of.reads, "reads")
    )
}

/// Flushes as sentences: what was seen over the window, against what, how sure, and what
/// follows.
pub(crate) fn storage_use(of: &StorageUse, window: Option<Duration>) -> String {
    let over = window.map(|w| format!(" over the window of {}", format::length(w)));
    let over = over.unwrap_or_default();
    let rate = format::rate_of(of.flushes_per_second, "WAL flushes");
    let Some(ceiling) = &of.ceiling else {
        let why = of.absent.as_deref().map(sentence).unwrap_or_default();
        return format!("{rate}{over}. {why}");
    };
    let slowest = whole_percent(ceiling.share_of_slowest);
    format!(
        "{rate}{over}: {} of the {} that this disk did with one at a time, {} of {} each (the \
         fastest repeat of that measurement; {slowest} of the slowest; {}, {}). {}",
        whole_percent(ceiling.share),
        format::rate(ceiling.per_second),
        ceiling.method.name(),
        format::bytes(ceiling.bytes),
        ceiling.measurement,
        format::moment(ceiling.measured),
        at_ceiling(ceiling)
    )
}

fn at_ceiling(of: &FlushCeiling) -> String {
    let warning = match of.warnings.len() {
        0 => String::new(),
        n => format!(
            " That measurement has {}: `walwright storage show`.",
            format::counted(n as u64, "warning")
        ),
    };
    let grouped = match (of.commits_per_second, of.committers) {
        (Some(rate), Some(sessions)) => {
            let sessions = format::counted(sessions.into(), "session");
            let rate = format::rate_of(rate, "commits");
            format!(" With {sessions} that share its flushes it did {rate}.")
        }
        _ => String::new(),
    };
    let place = match of.share {
        _ if of.disturbed => {
            "Other work held that measurement up: the disk can do more, so how full it was cannot \
             be said; measure it again."
        }
        share if share > 1.1 => "The disk did more than when it was measured: measure it again.",
        share if share >= AT_CEILING => {
            "The disk is at its ceiling: more commits need fewer or shared flushes, or another disk."
        }
        _ => "The disk was not at its ceiling.",
    };
    format!("{place}{grouped}{warning}")
}

/// The least share of what a disk can do, where it comes to a percent.
fn least(of: &Requests) -> Option<String> {
    of.least_share.filter(|share| *share >= 0.005).map(whole_percent)
}

/// A share to the whole percent: more digits than that no disk repeats.
fn whole_percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// What stands beside the commits a second of someone else's load.
pub(crate) fn commits_note(load: &ServerLoad) -> String {
    let interval = load.commits_per_second.as_ref().and_then(|rate| rate.interval);
    let what = "server transactions (commits)";
    let precision = match interval {
        Some(_) => format!("{what}, 95 % interval within this record"),
        None => format!("{what}; too short for an interval"),
    };
    match load.rollback_share.filter(|share| *share > 0.0) {
        Some(share) => format!("{precision}; {} rolled back", format::percent(share)),
        None => precision,
    }
}

/// What the clients of someone else's load computed over their whole test, a line for each
/// file that holds such totals.
pub(crate) fn client_totals(client: &ClientFacts) -> Vec<String> {
    let totals = |log: &&ClientLog| log.detail == ClientDetail::Totals || !log.totals.is_empty();
    let totals = client.logs.iter().filter(totals);
    totals
        .map(|log| {
            let mut figures = Vec::new();
            if let Some(of) = log.totals.first() {
                figures.extend(of.count.map(|n| format!("{} {}", format::count(n), of.name)));
                figures.extend(of.throughput.map(|rate| match of.count {
                    Some(_) => format::rate(rate),
                    None => format!("{} {}", format::rate(rate), of.name),
                }));
                figures.extend(of.mean.map(|d| format!("mean {}", format::latency(d))));
                figures.extend(of.percentiles.iter().filter(|(p, _)| *p >= 50.0).map(
                    |(percent, value)| {
                        let name = format::percentile_name(*percent);
                        format!("{name} {}", format::latency(*value))
                    },
                ));
            }
            let failed = log.failures.iter().map(|(k, n)| format!("{k} × {}", format::count(*n)));
            let failed: Vec<String> = failed.collect();
            if !failed.is_empty() {
                figures.push(format!("failed: {}", failed.join(", ")));
            }
            format!("{} ({}, its whole test): {}", log.file, log.format, figures.join(", "))
        })
        .collect()
}

/// Whether the load was someone else's: a measured window, and none of our clients.
pub(crate) fn is_observed(record: &Record) -> bool {
    record.load.is_none() && record.window().is_some()
}

fn with_article(schedule: &str) -> String {
    let article = if schedule.starts_with("open") { "an" } else { "a" };
    format!("{article} {schedule}")
}

/// A schedule in words.
pub(crate) fn schedule(schedule: &Schedule) -> String {
    match schedule {
        Schedule::Closed { think, latency_limit } => {
            let think =
                think.map(|think| format!(" with {} of think time", format::latency(think)));
            let limit =
                latency_limit.map(|limit| format!(", late after {}", format::latency(limit)));
            format!("closed loop{}{}", think.unwrap_or_default(), limit.unwrap_or_default())
        }
        Schedule::Open { rate, poisson, latency_limit } => {
            let gaps = if *poisson { "Poisson arrivals" } else { "even gaps" };
            let limit = latency_limit
                .map(|l| format!(", skipped when later than {}", format::latency(l)))
                .unwrap_or_default();
            format!("open loop at {}, {gaps}{limit}", format::rate(*rate))
        }
    }
}

/// Why a run is not whole: a word and a sentence. `None` for one that ended as planned.
pub(crate) fn state(record: &Record) -> Option<(&'static str, String)> {
    let word = match record.header.state {
        RunState::Complete => return None,
        RunState::Running => "Still running",
        RunState::Interrupted => "Interrupted",
        RunState::Failed => "Failed",
    };
    let mut text = record.header.error.clone().map(|e| sentence(&e)).unwrap_or_default();
    let phase = record.phases.iter().rfind(|p| p.end.is_none()).or(record.phases.last());
    // A run that reached its last stage holds all there was to hold.
    if let Some(phase) = phase.filter(|phase| phase.name != PhaseName::Collect) {
        let during = format!("The record ends in the phase '{}'", phase.name.name());
        text = format!("{text} {during}; what was seen until then is below.").trim().to_owned();
    }
    Some((word, text))
}

/// Text that begins with a capital and ends with a full stop. A name such as
/// `pg_stat_io` stays as it is written.
pub(crate) fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return String::new();
    }
    let name =
        text.split_whitespace().next().is_some_and(|word| word.contains(['_', '.', '/', '=']));
    let text = if name { text.to_owned() } else { capital(text) };
    if text.ends_with(['.', '!', '?']) { text } else { format!("{text}.") }
}

/// Text with its first letter as a capital.
pub(crate) fn capital(text: &str) -> String {
    // The name of a setting or a view stays as it is.
    if text.split(' ').next().is_some_and(|word| word.contains('_')) {
        return text.to_owned();
    }
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Text that goes on inside a sentence. A name in capitals stays as it is.
pub(crate) fn small(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

/// Why there is no figure of the load.
pub(crate) fn no_load(record: &Record) -> String {
    match (record.window(), record.intervals.is_empty()) {
        (_, true) if is_observed(record) && record.client.is_some() => {
            "The load was not walwright's: of its clients only their own totals are known."
                .to_owned()
        }
        (_, true) if is_observed(record) => {
            "The load was not walwright's: what clients saw is not observable.".to_owned()
        }
        (None, _) => format!(
            "The run ended before its measured window began{}, so it has no figures.",
            last_phase(record)
        ),
        (Some(_), true) => "The run ended before the driver reported an interval.".to_owned(),
        (Some(_), false) => "No interval of the load lies in the measured window.".to_owned(),
    }
}

fn last_phase(record: &Record) -> String {
    let last = record.phases.last();
    last.map(|p| format!(" (in the phase '{}')", p.name.name())).unwrap_or_default()
}

/// The pass mark of a workload against what was measured.
pub(crate) fn pass_mark(mark: &PassMark) -> String {
    let side = if mark.passed { "under" } else { "not under" };
    format!(
        "{} a transaction on average, {side} the workload's mark of {}",
        format::latency(mark.mean),
        format::latency(mark.mark)
    )
}

/// Fewer transactions than this beyond a percentile do not fix it.
const BEYOND: f64 = 5.0;

/// Whether enough of `count` transactions lie beyond a percentile to fix it.
pub(crate) fn fixed(count: u64, percent: f64) -> bool {
    percent <= 50.0 || count as f64 * (1.0 - percent / 100.0) >= BEYOND
}

/// The percentiles named everywhere, p50 to p99.9 and the maximum; `None` where
/// there are too few transactions to fix one.
pub(crate) fn percentiles(of: &Latency) -> [(&'static str, Option<String>); 5] {
    let at = |percent, value| fixed(of.count, percent).then(|| bounded(of, value));
    [
        ("p50", at(50.0, of.p50)),
        ("p95", at(95.0, of.p95)),
        ("p99", at(99.0, of.p99)),
        ("p99.9", at(99.9, of.p99_9)),
        ("max", Some(bounded(of, of.max))),
    ]
}

/// The mean of latencies, which is a lower bound where any of them is.
pub(crate) fn mean(of: &Latency) -> String {
    let sign = if of.unended_from.is_some() { AT_LEAST } else { "" };
    format!("{sign}{}", format::latency(of.mean))
}

/// A percentile or the maximum, marked where transactions that never ended make it a
/// lower bound.
fn bounded(of: &Latency, figure: Duration) -> String {
    let sign = if of.is_lower_bound(figure) { AT_LEAST } else { "" };
    format!("{sign}{}", format::latency(figure))
}

/// What stands before a lower bound.
const AT_LEAST: &str = "≥ ";

/// Failures against all transactions: `3 of 637,215`.
pub(crate) fn failed_of(load: &LoadSummary) -> String {
    format!("{} of {}", format::count(load.failed), format::count(load.failed + load.transactions))
}

/// The name of a measure taken beside the load.
pub(crate) fn side_measure(name: &str) -> String {
    let words = name.replace('_', " ");
    sentence(&words).trim_end_matches('.').to_owned()
}

/// What the figure of a side measure is.
pub(crate) const SIDE_MEASURE: &str = "median round trip beside the load";

/// The colour of a class of waits.
pub(crate) fn ink(class: WaitClass) -> Ink {
    match class {
        WaitClass::Cpu => Ink::Cpu,
        WaitClass::RunQueue => Ink::RunQueue,
        WaitClass::Flush => Ink::Flush,
        WaitClass::FlushQueue => Ink::FlushQueue,
        WaitClass::Replication => Ink::Replication,
        WaitClass::Io => Ink::Io,
        WaitClass::Lock => Ink::Lock,
        WaitClass::Lwlock => Ink::LwLock,
        WaitClass::Client => Ink::Client,
        WaitClass::Other => Ink::Other,
    }
}

/// What a kind of failure means: a SQLSTATE in PostgreSQL's own condition names (appendix A of
/// its manual), a status of HTTP in those of RFC 9110, for those that a load is likely to meet;
/// else the name of its class.
pub(crate) fn sqlstate(code: &str) -> &'static str {
    match code {
        "08006" => "connection failure",
        "22012" => "division by zero",
        "22P02" => "invalid text representation",
        "23502" => "not null violation",
        "23503" => "foreign key violation",
        "23505" => "unique violation",
        "23514" => "check violation",
        "25006" => "read only sql transaction",
        "25P02" => "in failed sql transaction",
        "25P03" => "idle in transaction session timeout",
        "25P04" => "transaction timeout",
        "26000" => "invalid sql statement name (a prepared statement is gone)",
        "40001" => "serialization failure",
        "40P01" => "deadlock detected",
        "42501" => "insufficient privilege",
        "42601" => "syntax error",
        "42703" => "undefined column",
        "42P01" => "undefined table",
        "53100" => "disk full",
        "53200" => "out of memory",
        "53300" => "too many connections",
        "55P03" => "lock not available",
        "57014" => "query canceled",
        "57P01" => "admin shutdown",
        "57P02" => "crash shutdown",
        "57P03" => "cannot connect now",
        "connection" => "the connection was lost or refused",
        "timeout" => "no answer came in time",
        "HTTP 400" => "bad request",
        "HTTP 401" => "unauthorized",
        "HTTP 403" => "forbidden",
        "HTTP 404" => "not found",
        "HTTP 408" => "request timeout",
        "HTTP 409" => "conflict",
        "HTTP 412" => "precondition failed",
        "HTTP 413" => "content too large",
        "HTTP 422" => "unprocessable content",
        "HTTP 429" => "too many requests",
        "HTTP 500" => "internal server error",
        "HTTP 502" => "bad gateway",
        "HTTP 503" => "service unavailable",
        "HTTP 504" => "gateway timeout",
        "script" => "the script itself failed in the client",
        other if other.starts_with("HTTP 4") => "client error",
        other if other.starts_with("HTTP 5") => "server error",
        other => match other.get(..2) {
            Some("08") => "connection exception",
            Some("22") => "data exception",
            Some("23") => "integrity constraint violation",
            Some("25") => "invalid transaction state",
            Some("40") => "transaction rollback",
            Some("42") => "syntax error or access rule violation",
            Some("53") => "insufficient resources",
            Some("54") => "program limit exceeded",
            Some("55") => "object not in prerequisite state",
            Some("57") => "operator intervention",
            Some("58") => "system error",
            Some("P0") => "PL/pgSQL error",
            Some("XX") => "internal error",
            _ => "",
        },
    }
}

/// The beginning of a text longer than `most` characters, ending in an ellipsis.
pub(crate) fn cut(text: &str, most: usize) -> Option<String> {
    let (end, _) = text.char_indices().nth(most)?;
    Some(format!("{}…", text[..end].trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_begin_and_end_like_sentences() {
        assert_eq!(sentence("the server went away"), "The server went away.");
        assert_eq!(sentence("Done."), "Done.");
        assert_eq!(sentence("pg_stat_io: not there"), "pg_stat_io: not there.");
        assert_eq!(sentence(" "), "");
        assert_eq!(capital("waiting for locks"), "Waiting for locks");
        assert_eq!(capital("commit_delay costs more"), "commit_delay costs more");
    }

    #[test]
    fn sqlstates_have_names_or_classes() {
        assert_eq!(sqlstate("40P01"), "deadlock detected");
        assert_eq!(sqlstate("23P99"), "integrity constraint violation");
        assert_eq!(sqlstate("HTTP 404"), "not found");
        assert_eq!(sqlstate("HTTP 507"), "server error");
        assert_eq!(sqlstate("é"), "");
        assert_eq!(sqlstate(""), "");
    }

    #[test]
    fn side_measures_are_named_in_words() {
        assert_eq!(side_measure("empty query"), "Empty query");
        assert_eq!(side_measure("connect_time"), "Connect time");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("SELECT 1", 20), None);
        assert_eq!(cut("ääääää", 3).as_deref(), Some("äää…"));
    }
}
