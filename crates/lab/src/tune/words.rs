//! What a tune says, in words.

use std::path::Path;

use walwright_record::HostFacts;
use walwright_search::{Conclusion, Effect};

use super::{CrashAudit, Objective, TuneState};

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

/// The effect of having something, of that of not having it.
pub(super) fn inverse(without: &Effect) -> Effect {
    match without {
        Effect::Measured(estimate) => {
            Effect::Measured(estimate.clone().map(|change| 1.0 / (1.0 + change) - 1.0))
        }
        other => other.clone(),
    }
}

/// An effect on the score as a change of the figure itself: where less is better, a
/// gain is a decrease.
pub fn of_figure(effect: &Effect, objective: &Objective) -> Effect {
    if objective.is_more_better() { effect.clone() } else { inverse(effect) }
}

/// The whole in a few sentences.
pub fn verdict(state: &TuneState, objective: &Objective) -> String {
    let Some(end) = state.searcher.as_ref().and_then(|searcher| searcher.conclusion()) else {
        return "The search has not come to its end.".to_owned();
    };
    let gain = effect(&of_figure(&end.gain, objective));
    let name = objective.name();
    if !end.is_gain {
        return format!(
            "Configuration does not limit {name} here: the best configuration found differs from the baseline by {gain} over {} blocks, which is no gain. What limits: {}",
            end.blocks, state.cause.verdict
        );
    }
    let confirmed = &state.confirmation;
    let effect_confirmed = state.confirmed();
    let replay = effect(&of_figure(&effect_confirmed, objective));
    match (confirmed.pairs(), effect_confirmed.is_gain()) {
        (0, _) => {
            format!("{name} changes by {gain} over {} blocks; not confirmed yet.", end.blocks)
        }
        (pairs, true) => format!(
            "{name} changes by {gain} over {} blocks, and by {replay} over {pairs} pairs on fresh data with another seed.",
            end.blocks
        ),
        (pairs, false) => format!(
            "{name} changed by {gain} over {} blocks, but on fresh data by {replay} over {pairs} pairs: that is no gain, so nothing is promoted.",
            end.blocks
        ),
    }
}

/// What the crash showed.
pub(super) fn crash(audit: &CrashAudit) -> String {
    let lost = match audit.lost {
        0 => "none of them was lost".to_owned(),
        lost => format!("{lost} OF THEM WERE LOST"),
    };
    format!(
        "The server was killed (SIGKILL) after {:.0} s of load, {} checkpoints and {} acknowledged commits; {lost}; it accepted connections {:.2} s after its start",
        audit.seconds, audit.checkpoints, audit.acknowledged, audit.recovery_seconds
    )
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

/// The first line of a message.
pub(super) fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
