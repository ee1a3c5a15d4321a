//! Readings that the server answered with an error.

use std::fmt::Display;
use std::time::Instant;

use crate::pace::Pace;

/// Errors of one kind of reading. What the server itself said is told at the end, so that
/// nobody takes a reading that was refused for one that was slow.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    number: u64,
    last: Option<String>,
    /// Times the connection was lost.
    lost: u64,
}

impl Failures {
    /// Counts an error.
    pub(crate) fn take(&mut self, error: &impl Display) {
        self.number += 1;
        self.last = Some(error.to_string());
    }

    /// Counts a connection that was lost.
    pub(crate) fn lost(&mut self) {
        self.lost += 1;
    }

    /// What to say of them, where there are any.
    pub(crate) fn sentences(&self, what: &str) -> impl Iterator<Item = String> {
        let failed = self.last.as_ref().map(|last| {
            let readings = if self.number == 1 { "reading" } else { "readings" };
            format!("{what}: {} {readings} failed, the last with: {last}", self.number)
        });
        let lost = (self.lost > 0).then(|| {
            let times = if self.lost == 1 { "once".to_owned() } else { format!("{} times", self.lost) };
            format!("{what}: the probe's connection was lost {times}, and what happened until it was back was not seen")
        });
        failed.into_iter().chain(lost)
    }
}

/// What to say where no reading was answered at all, though there was time for one.
pub(crate) fn nothing_read(what: &str, pace: &Pace) -> Option<String> {
    let was_time = Instant::now() >= pace.due() + pace.interval();
    (pace.taken == 0 && was_time).then(|| format!("{what}: the server answered no reading"))
}
