//! Progress of long work of many runs: lines with their time on standard error, and on a
//! terminal a line below them that is rewritten within a run.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use walwright_report::format;
use walwright_report::terminal::printable;
use walwright_run::Progress;

use crate::output::{say, say_text};

/// Time between rewrites of the line within a run.
const EVERY: Duration = Duration::from_millis(500);

/// What stands on standard error so far.
pub struct ProgressLines {
    began: Instant,
    /// Whether a line can be rewritten.
    terminal: bool,
    /// When the last line was written or rewritten.
    last: Instant,
    /// Whether a rewritten line stands there.
    rewritten: bool,
}

impl ProgressLines {
    /// Nothing printed yet.
    pub fn new() -> ProgressLines {
        let now = Instant::now();
        ProgressLines {
            began: now,
            terminal: std::io::stderr().is_terminal(),
            last: now,
            rewritten: false,
        }
    }

    /// A line that stays, after the seconds since the work began.
    pub fn line(&mut self, text: &str) {
        self.clear();
        let at = self.began.elapsed().as_secs_f64();
        // What others say must not look like a line of ours.
        say(&format!("[{at:6.0} s] {}", text.replace('\n', "\n    ")));
        self.wait();
    }

    /// Text as it is, with its own line ends.
    pub fn text(&mut self, text: &str) {
        self.clear();
        say_text(text);
    }

    /// Counts the time to the next line within a run from now.
    pub fn wait(&mut self) {
        self.last = Instant::now();
    }

    /// Whether the rewritten line may say something new.
    pub fn may_rewrite(&self) -> bool {
        self.terminal && self.last.elapsed() >= EVERY
    }

    /// Whether a line is due where nothing can be rewritten, and none came for `every`.
    pub fn line_is_due(&self, every: Duration) -> bool {
        !self.terminal && self.last.elapsed() >= every
    }

    /// Puts `text` in place of the rewritten line.
    pub fn rewrite(&mut self, text: &str) {
        rewrite(text);
        self.rewritten = true;
        self.wait();
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.rewritten) {
            erase();
        }
    }
}

/// Puts as much of `text` as a line of the terminal holds in place of what stands there.
pub fn rewrite(text: &str) {
    erase();
    let width = crate::output::terminal_width().saturating_sub(1);
    let text: String = printable(text).chars().filter(|c| !c.is_control()).take(width).collect();
    let mut to = std::io::stderr();
    // Nobody to show it to is no reason to stop what is shown.
    let _ = write!(to, "{text}").and_then(|()| to.flush());
}

/// Goes back to the first column, and erases what stands there.
pub fn erase() {
    let _ = write!(std::io::stderr(), "\r\x1b[K");
}

/// How far a load is, from what is measured of it, what is wanted, and how much longer it is
/// given to settle where that is all it waits for.
pub fn load_text(measured: Duration, wanted: Duration, until: Option<Duration>) -> String {
    let (so_far, wanted) = (measured.as_secs_f64(), wanted.as_secs_f64());
    match until {
        Some(until) if measured.is_zero() => {
            format!("not settled: at most {:.0} s more", until.as_secs_f64())
        }
        Some(until) => {
            format!(
                "measured {so_far:.0} s, not settled: at most {:.0} s more",
                until.as_secs_f64()
            )
        }
        None if measured.is_zero() => "warming up".to_owned(),
        None => format!("measured {so_far:.0} of {wanted:.0} s"),
    }
}

/// What a run is at, in few words; `None` for what needs none.
pub fn stage(progress: &Progress<'_>) -> Option<String> {
    match progress {
        Progress::Phase(name) => Some(name.name().to_owned()),
        Progress::Step(text) => Some((*text).to_owned()),
        Progress::Rows { done, total } => {
            Some(format!("{} of {} rows", format::count(*done), format::count(*total)))
        }
        Progress::Interval { interval, measured, wanted, until } => {
            let seconds = interval.length.as_secs_f64().max(1e-3);
            let rate = walwright_figures::transactions(interval) as f64 / seconds;
            Some(format!("{}, {}", load_text(*measured, *wanted, *until), format::rate(rate)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_has_not_settled_says_how_long_it_is_waited_for() {
        let text = |measured, until: Option<u64>| {
            let wanted = Duration::from_secs(60);
            load_text(Duration::from_secs(measured), wanted, until.map(Duration::from_secs))
        };
        assert_eq!(text(0, None), "warming up");
        assert_eq!(text(12, None), "measured 12 of 60 s");
        assert_eq!(text(60, Some(45)), "measured 60 s, not settled: at most 45 s more");
    }
}
