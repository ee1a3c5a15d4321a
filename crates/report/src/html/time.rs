//! Where the time of a transaction went.

use walwright_figures::{Summary, TimePart, TimeSplit, WaitClass};
use walwright_stats::Estimate;

use super::page::{Time, TimeRow};
use crate::{format, words};

/// Parts smaller than this have no room for their name inside the bar.
const NAMED: f64 = 0.09;

/// The latency breakdown of a transaction's latency.
pub(super) fn time(split: &TimeSplit) -> Time {
    let whole = split.latency.map_or(split.on_server.center, |l| l.as_secs_f64());
    let unit = split.unit.name();
    let mut rows: Vec<TimeRow> = split.parts.iter().map(part).collect();
    if let Some(queue) = split.queue.filter(|q| !q.is_zero()) {
        let share = queue.as_secs_f64() / whole;
        rows.insert(
            0,
            plain(
                "waiting to begin (lag)",
                share,
                queue.as_secs_f64(),
                "due, but no client was free",
            ),
        );
    }
    if let Some(residual) = &split.residual {
        let share = split.residual_share.unwrap_or(0.0);
        let mut row = plain(
            "outside the transaction",
            share,
            residual.center,
            "network, the client's own work, what sampling cannot see",
        );
        row.interval = interval(&residual.clone().map(|s| s / whole), format::percent);
        rows.push(row);
    }
    let of = match split.latency {
        Some(latency) => format!(
            "The mean latency of a {unit}, {}, split by what sessions in a transaction were seen doing",
            format::latency(latency)
        ),
        None => format!(
            "The time a {unit} spends on the server, {}, split by what sessions in a transaction were seen doing",
            format::seconds(split.on_server.center)
        ),
    };
    let mut notes: Vec<String> = split.warnings.iter().map(|d| words::sentence(d)).collect();
    if let Some(counted) = split.counted_flush {
        let sampled = split.part(WaitClass::Flush).map(|p| p.per_transaction.center);
        let sampled = sampled.map_or(format::NOT_OBSERVABLE.to_owned(), format::seconds);
        notes.push(format!(
            "By the server's own counters flushes took {} a {unit}, by sampling {sampled}.",
            format::latency(counted)
        ));
    }
    Time {
        lede: format!("{of}: {} of wait events.", format::counted(split.ticks as u64, "sample")),
        rows,
        notes,
    }
}

fn part(part: &TimePart) -> TimeRow {
    let share = part.share.center;
    let events: Vec<String> = part
        .events
        .iter()
        .filter(|_| part.class != WaitClass::Cpu)
        .map(|e| format!("{} {}", e.event, format::seconds(e.per_transaction)))
        .collect();
    let name = part.class.label();
    TimeRow {
        name: name.to_owned(),
        ink: words::ink(part.class).class(),
        weight: share.max(0.0) * 100.0,
        inside: inside(name, share),
        share: format::percent(share),
        interval: interval(&part.share, format::percent),
        sessions: format::number(part.sessions),
        per_transaction: format::seconds(part.per_transaction.center),
        events: events.join(", "),
    }
}

/// A part that is not a class of waits.
fn plain(name: &str, share: f64, seconds: f64, about: &str) -> TimeRow {
    TimeRow {
        name: name.to_owned(),
        ink: "i-outside",
        weight: share.max(0.0) * 100.0,
        inside: inside(name, share),
        share: format::percent(share),
        interval: String::new(),
        sessions: String::new(),
        per_transaction: format::seconds(seconds),
        events: about.to_owned(),
    }
}

fn inside(name: &str, share: f64) -> String {
    // Letters are about 0.7 % of the bar wide.
    let room = share / 0.0078;
    if share < NAMED / 2.0 {
        String::new()
    } else if room > name.chars().count() as f64 + 8.0 {
        format!("{name} {}", format::percent(share))
    } else if room > name.chars().count() as f64 + 1.0 {
        name.to_owned()
    } else {
        String::new()
    }
}

fn interval(of: &Estimate, write: fn(f64) -> String) -> String {
    of.interval.map_or_else(String::new, |i| {
        let low = write(i.low);
        format!("{} to {}", low.strip_suffix(" %").unwrap_or(&low), write(i.high))
    })
}

/// Why there is no split.
pub(super) fn missing(summary: &Summary) -> String {
    if let Some(unseen) = summary.time.as_ref().and_then(TimeSplit::unseen) {
        return words::sentence(&unseen);
    }
    let why = summary.not_observable.iter().find(|n| n.figure == "time of a transaction");
    match why {
        Some(gap) => format!("Not observable: {}.", gap.why),
        None => "Not observable: the run has no measured window.".to_owned(),
    }
}
