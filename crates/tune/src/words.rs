//! How a tune words figures, where it goes on and in the files that it writes.

use walwright_record::HostFacts;
use walwright_run::CrashAudit;
use walwright_search::{Conclusion, Effect};

use super::confirm::Open;
use super::{Objective, TuneState};

/// Pairs beyond which their number is of no use to anybody.
const MANY_PAIRS: u32 = 1_000;

/// A change in percent, signed.
pub fn change(relative: f64) -> String {
    format!("{:+.1} %", 100.0 * relative)
}

/// A share in percent, to a tenth.
pub fn percent(share: f64) -> String {
    format!("{} %", (1_000.0 * share).round() / 10.0)
}

/// An effect with its interval.
pub fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Measured(estimate) => match &estimate.interval {
            Some(ends) => {
                format!("{} [{}, {}]", change(estimate.center), change(ends.low), change(ends.high))
            }
            None => format!("{}, without an interval", change(estimate.center)),
        },
        Effect::Crashed => "a run of it failed".to_owned(),
        Effect::NotMeasured => "not measured".to_owned(),
    }
}

/// An effect on the score as a change of the figure itself: where less is better, a
/// gain is a decrease.
pub fn of_figure(effect: &Effect, objective: &Objective) -> Effect {
    if objective.is_more_better() { effect.clone() } else { effect.inverted() }
}

/// A number of pairs, as far as anybody makes them.
pub fn about(pairs: u32) -> String {
    match pairs {
        0..=MANY_PAIRS => format!("about {pairs}"),
        _ => format!("more than {MANY_PAIRS}"),
    }
}

/// That the confirmation goes on, by so many pairs, and why.
pub(super) fn more_pairs(state: &TuneState, objective: &Objective, more: u32) -> String {
    let made = state.confirmation.pairs();
    let asked = state.questions();
    let more = if more == 1 { "1 pair".to_owned() } else { format!("{more} pairs") };
    if made > asked.planned as usize {
        let needed = state.confirmation.needed(&asked).unwrap_or(asked.most);
        return match needed > asked.most {
            true => format!(
                "{more} more, as many as it may: to tell takes {} in all, by the spread of these {made}",
                about(needed)
            ),
            false => {
                format!("{more} more: so many it takes to tell, by the spread of these {made}")
            }
        };
    }
    match state.confirmation.open(&asked) {
        Some(Open::Throughput) => format!(
            "{more} more: throughput by {} leaves open whether it is kept within {}",
            effect(&state.confirmed_throughput()),
            percent(asked.allowed_loss.unwrap_or_default())
        ),
        _ => format!(
            "{more} more: {} by {} leaves open whether there is a gain of {}",
            objective.name(),
            effect(&of_figure(&state.confirmed(), objective)),
            percent(state.plan.worth)
        ),
    }
}

/// What the confirmation ran on.
pub fn again_on(state: &TuneState) -> &'static str {
    match &state.plan.server {
        None => "on fresh data",
        Some(on) if on.filled => "on tables filled anew",
        Some(_) => "on the data as they were",
    }
}

/// What the crash showed; `None` where there was none yet.
pub fn crash(state: &TuneState) -> Option<String> {
    let audit = state.crash.as_ref().map(told);
    match (&state.plan.server, audit) {
        (None, audit) => audit,
        (Some(_), None) if !state.confirmed().is_gain() => None,
        (Some(_), None) => Some("Crash test skipped: attached server".to_owned()),
        (Some(_), Some(told)) => Some(format!(
            "The attached server was left alone: what follows is of a test cluster of the same major version with these settings. {told}"
        )),
    }
}

fn told(audit: &CrashAudit) -> String {
    let lost = match audit.lost {
        0 => "none of them was lost".to_owned(),
        lost => format!("{lost} OF THEM WERE LOST"),
    };
    let (what, taken) = match &audit.unflushed {
        None => ("The server was killed (SIGKILL)", String::new()),
        Some(unflushed) => (
            "The server's power was cut",
            format!(", though all of {} unflushed pages were", unflushed.pages),
        ),
    };
    let recovered = match (audit.recovery_seconds, &audit.unrecovered) {
        (_, Some(reason)) => format!("it did not recover: {reason}"),
        (Some(seconds), None) => format!("it accepted connections {seconds:.2} s after its start"),
        (None, None) => "its recovery was not timed".to_owned(),
    };
    format!(
        "{what} after {:.0} s of load, {} checkpoints and {} acknowledged commits; {lost}{taken}; {recovered}",
        audit.seconds, audit.checkpoints, audit.acknowledged
    )
}

/// Where the effect of a line is from, as the end of a sentence: how many others went back
/// in the same measurements, or the model; empty where blocks of its own measured it.
pub fn by_what(effect: &Effect, together: usize) -> String {
    match together {
        0 if effect.is_modelled() => ", estimated from all measurements".to_owned(),
        0 => String::new(),
        1 => ", measured together with one other".to_owned(),
        more => format!(", measured together with {more} others"),
    }
}

/// Lines that differ from the baseline and stay.
pub fn kept(end: &Conclusion) -> impl Iterator<Item = &walwright_search::Line> {
    end.lines.iter().filter(|line| end.configuration.get(&line.name) != Some(&line.was))
}

/// A machine in a line.
pub(super) fn machine(host: &HostFacts) -> String {
    let mut parts = Vec::new();
    if let Some(processors) = host.processors {
        parts.push(format!("{processors} processors"));
    }
    parts.extend(host.cpu_model.clone());
    if let Some(bytes) = host.memory_bytes {
        parts.push(format!("{:.1} GB of memory", bytes as f64 / 1_073_741_824.0));
    }
    if let Some(disk) = &host.wal_disk {
        parts.push(format!("WAL on {}", disk.file_system));
    }
    parts.join(", ")
}

/// The line of a message that says why: the server's own last word where there is one,
/// else the first. Which setting a configuration file has wrong it says a line before.
pub(super) fn reason(text: &str) -> String {
    let grave = ["FATAL:", "PANIC:"];
    let said = |line: &str, words: &[&str]| -> Option<String> {
        let begin = words.iter().find_map(|word| line.find(word))?;
        Some(line[begin..].trim().to_owned())
    };
    let lines: Vec<&str> = text.lines().collect();
    let Some(last) = lines.iter().rposition(|line| said(line, &grave).is_some()) else {
        return lines.first().map(|line| line.trim().to_owned()).unwrap_or_default();
    };
    let before = lines[..last].iter().rev().find_map(|line| said(line, &["LOG:"]));
    let own = said(lines[last], &grave).unwrap_or_default();
    if own.ends_with("contains errors") { before.unwrap_or(own) } else { own }
}

#[cfg(test)]
mod tests {
    use walwright_stats::Estimate;

    use super::*;

    #[test]
    fn the_reason_is_what_the_server_said() {
        let text =
            "the server did not start: its log ends with:\nLOG:  starting\nFATAL:  too little";
        assert_eq!(reason(text), "FATAL:  too little");
        let wrong = "its log ends with:\n2026-11-23 08:24:36 GMT [1] LOG:  unrecognized \
                     configuration parameter \"nosuch\" in file \"/c/walwright.conf\" line 3\n\
                     2026-11-23 08:24:36 GMT [1] FATAL:  configuration file \"/c/postgresql.conf\" \
                     contains errors";
        assert_eq!(
            reason(wrong),
            "LOG:  unrecognized configuration parameter \"nosuch\" in file \"/c/walwright.conf\" line 3"
        );
        assert_eq!(reason("no transaction succeeds\nmore"), "no transaction succeeds");
    }

    #[test]
    fn the_effect_of_having_is_the_inverse_of_that_of_not_having() {
        let half = Estimate::symmetric(
            -0.5,
            0.1,
            walwright_stats::Confidence::P95,
            walwright_stats::Method::PairedLogRatio,
        );
        let having = Effect::Measured(half).inverted();
        let estimate = having.estimate().unwrap();
        assert!((estimate.center - 1.0).abs() < 1e-12 && having.is_gain());
        assert_eq!(effect(&having), "+100.0 % [+66.7 %, +150.0 %]");
    }

    #[test]
    fn more_pairs_are_as_many_as_it_takes_or_may() {
        let mut state = crate::fixture::ended();
        let objective = state.plan.objective().unwrap();
        let pair = state.confirmation.made[..4].to_vec();
        state.confirmation.made.clear();
        for number in 0..24 {
            let mut made = pair[number % 4].clone();
            let gain = [0.3, -0.2, 0.1][number / 2 % 3];
            (made.pair, made.score) =
                (number as u32 / 2, Some(if made.is_winner { gain } else { 0.0 }));
            state.confirmation.made.push(made);
        }
        let pairs = state.pairs_needed().unwrap();
        assert!(pairs > 40, "{pairs}");
        assert!(more_pairs(&state, &objective, 28).contains(&format!("about {pairs} in all")));
        assert!(more_pairs(&state, &objective, 1).starts_with("1 pair more, as many as it may"));
        assert_eq!((&*about(1_000), &*about(1_001)), ("about 1000", "more than 1000"));
    }
}
