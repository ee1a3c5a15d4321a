//! What a tune says, in words.

use std::path::Path;

use walwright_record::HostFacts;
use walwright_search::{Conclusion, Effect};
use walwright_stats::Estimate;

use super::confirm::Confirmation;
use super::{CrashAudit, Objective, TuneState, levers};

/// Gains above this are worth a search wherever one asks: what excludes them says that
/// configuration does not limit.
const NO_LIMIT: f64 = 0.05;

/// A change in percent, signed.
pub fn change(relative: f64) -> String {
    format!("{:+.1} %", 100.0 * relative)
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
        Effect::Crashed => "the server did not run".to_owned(),
        Effect::NotMeasured => "not measured".to_owned(),
    }
}

/// An effect on the score as a change of the figure itself: where less is better, a
/// gain is a decrease.
pub fn of_figure(effect: &Effect, objective: &Objective) -> Effect {
    if objective.is_more_better() { effect.clone() } else { effect.inverted() }
}

/// The whole in a few sentences.
pub fn verdict(state: &TuneState, objective: &Objective) -> String {
    let Some(end) = state.searcher.as_ref().and_then(|searcher| searcher.conclusion()) else {
        return "The search has not come to its end.".to_owned();
    };
    let gain = effect(&of_figure(&end.gain, objective));
    let name = objective.name();
    let outside = outside(state, objective);
    if !end.is_gain {
        let highest = end.gain.estimate().and_then(Estimate::high);
        let excluded =
            highest.is_some_and(|high| high <= NO_LIMIT.max(3.0 * state.plan.smallest_effect));
        let claim = match excluded {
            true => format!("Configuration does not limit {name} here"),
            false => format!(
                "No gain in {name} is proven, and none excluded: longer windows or more runs would tell"
            ),
        };
        return format!(
            "{claim}. The best configuration found differs from the baseline by {gain} over {} blocks. What limits: {}{outside}",
            end.blocks, state.cause.verdict
        );
    }
    let confirmed = &state.confirmation;
    let effect_confirmed = state.confirmed();
    let replay = effect(&of_figure(&effect_confirmed, objective));
    let on = again_on(state);
    match (confirmed.pairs(), effect_confirmed.is_gain()) {
        (0, _) => {
            format!("{name} changes by {gain} over {} blocks; not confirmed yet.", end.blocks)
        }
        (pairs, true) => format!(
            "{name} changes by {gain} over {} blocks{}, and by {replay} over {pairs} pairs {on} with other seeds{}.{outside}",
            end.blocks,
            if end.gain.is_gain() {
                ""
            } else {
                " (no gain by these alone, but by all measurements together)"
            },
            whole_checkpoints(confirmed)
        ),
        (pairs, false) => format!(
            "{name} changed by {gain} over {} blocks, but {on} by {replay} over {pairs} pairs: that is no gain, so nothing is promoted.",
            end.blocks
        ),
    }
}

/// How many checkpoints every window of the winner held, as the end of a sentence.
fn whole_checkpoints(confirmed: &Confirmation) -> String {
    let least = confirmed.least_checkpoints().filter(|least| *least >= 1.0);
    least.map_or(String::new(), |least| format!(", {least:.0} checkpoints or more in each window"))
}

/// What was measured outside the configuration, as a sentence after others.
fn outside(state: &TuneState, objective: &Objective) -> String {
    let told: Vec<String> = levers::effects(&state.levers)
        .into_iter()
        .map(|(lever, of)| format!("{} {}", lever.name, effect(&of_figure(&of, objective))))
        .collect();
    match told.is_empty() {
        true => String::new(),
        false => format!(" Outside the configuration: {}.", told.join("; ")),
    }
}

/// What the confirmation ran on.
pub(super) fn again_on(state: &TuneState) -> &'static str {
    match &state.plan.server {
        None => "on fresh data",
        Some(on) if on.filled => "on tables filled anew",
        Some(_) => "on the data as they were",
    }
}

/// What the crash showed; `None` where there was none yet.
pub fn crash(state: &TuneState) -> Option<String> {
    let audit = state.crash.as_ref().map(killed);
    match (&state.plan.server, audit) {
        (None, audit) => audit,
        (Some(_), None) if state.confirmation.pairs() == 0 => None,
        (Some(_), None) => {
            Some("What a crash loses was not looked at: the server is somebody's".to_owned())
        }
        (Some(_), Some(told)) => Some(format!(
            "The server is somebody's and was not killed; in its place, a cluster of our own of the same major version with these settings. {told}"
        )),
    }
}

fn killed(audit: &CrashAudit) -> String {
    let lost = match audit.lost {
        0 => "none of them was lost".to_owned(),
        lost => format!("{lost} OF THEM WERE LOST"),
    };
    format!(
        "The server was killed (SIGKILL) after {:.0} s of load, {} checkpoints and {} acknowledged commits; {lost}; it accepted connections {:.2} s after its start",
        audit.seconds, audit.checkpoints, audit.acknowledged, audit.recovery_seconds
    )
}

/// How many other lines went back in the same measurements, in words; empty where none did.
pub fn with_others(together: usize) -> String {
    match together {
        0 => String::new(),
        1 => "together with one other".to_owned(),
        more => format!("together with {more} others"),
    }
}

/// Lines that differ from the baseline and stay.
pub(super) fn kept(end: &Conclusion) -> impl Iterator<Item = &walwright_search::Line> {
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

/// Free bytes on the disk of a directory.
pub(super) fn free_bytes(directory: &Path) -> Option<f64> {
    let found = nix::sys::statvfs::statvfs(directory).ok()?;
    Some(found.blocks_available() as f64 * found.fragment_size() as f64)
}

/// The line of a message that says why: the server's own last word where there is one,
/// else the first.
pub(super) fn reason(text: &str) -> String {
    let grave = |line: &&str| line.contains("FATAL:") || line.contains("PANIC:");
    let line = text.lines().rev().find(grave).or_else(|| text.lines().next());
    line.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_what_the_server_said() {
        let text =
            "the server did not start: its log ends with:\nLOG:  starting\nFATAL:  too little";
        assert_eq!(reason(text), "FATAL:  too little");
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
}
