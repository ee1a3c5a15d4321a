//! The words of findings: one place for every rendering.

use walwright_diagnose::{
    Action, Change, Evidence, Finding, Gain, Impact, Kind, Needs, Per, Value,
};
use walwright_stats::{Estimate, Interval};

use crate::format;

/// A figure with its unit and the unit of work it is of: `1.2 kB a transaction`.
pub(crate) fn figure(evidence: &Evidence) -> String {
    let value = match &evidence.value {
        Value::Count(n) => format::about(*n),
        Value::Seconds(s) => format::seconds(*s),
        Value::Bytes(b) => format::bytes(*b),
        Value::Fraction(f) => format::percent(*f),
        Value::Processors(n) => format!("{} processors", format::number(*n)),
        Value::Text(text) => text.clone(),
    };
    match evidence.per {
        Some(Per::Second) => format!("{value}/s"),
        Some(per) => format!("{value} a {}", per.name()),
        None => value,
    }
}

/// A share with its interval: `32 % (28 to 36 %)`.
pub(crate) fn share(of: &Estimate) -> String {
    let center = format::percent(of.center);
    match of.interval {
        Some(Interval { low, high }) => format!(
            "{center} ({} to {})",
            format::percent(low.max(0.0)).trim_end_matches(" %"),
            format::percent(high)
        ),
        None => center,
    }
}

/// What a finding costs, in words.
pub(crate) fn impact(of: &Impact) -> String {
    format!("{} of the latency, {}", share(&of.share), format::seconds(of.per_transaction.center))
}

/// What fixing it can gain, in words.
pub(crate) fn gain(of: &Gain) -> String {
    let latency = format!("latency at most −{}", format::percent(of.latency.high()));
    let mut text = match &of.throughput {
        Some(bound) => format!("throughput at most +{}, {latency}", format::percent(bound.high())),
        None => latency,
    };
    if let Some(next) = &of.next {
        text.push_str(&format!("; then {}", next.name));
        match (next.limit, next.share) {
            (Some(limit), _) => text.push_str(&format!(" limits at {}", format::rate(limit))),
            (None, Some(share)) => {
                text.push_str(&format!(" is the largest part, {}", format::percent(share)));
            }
            (None, None) => text.push_str(" is next"),
        }
    }
    text
}

/// The word for a kind.
pub(crate) fn kind(of: Kind) -> &'static str {
    match of {
        Kind::Problem => "problem",
        Kind::Symptom => "symptom",
        Kind::Information => "information",
    }
}

/// The conditions of an action: class, what it needs, how it is undone.
pub(crate) fn conditions(action: &Action) -> Option<String> {
    if action.change == Change::Advice {
        return None;
    }
    let mut parts = vec![format!("class {:?}, {}", action.class, action.class.words())];
    if action.needs != Needs::Nothing {
        parts.push(action.needs.words().to_owned());
    }
    if let Some(rollback) = &action.rollback {
        parts.push(format!("undo: {rollback}"));
    }
    Some(parts.join("; "))
}

/// The finding in one line: id, cost, cause.
pub(crate) fn line(finding: &Finding) -> String {
    match &finding.impact {
        Some(impact) => {
            format!("{} {}: {}", finding.id, format::percent(impact.share.center), finding.cause)
        }
        None => format!("{}: {}", finding.id, finding.cause),
    }
}
