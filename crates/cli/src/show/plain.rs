//! Progress as lines on standard error, for logs and pipes.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use walwright_report::format;
use walwright_run::{Observe, Progress};

use super::lines::load_text;
use super::state::State;
use crate::output::say;

/// Time between lines of the same kind.
const EVERY: Duration = Duration::from_secs(5);

/// Prints a line when a stage begins, and every few seconds within one.
pub struct Plain {
    inner: Mutex<Inner>,
}

struct Inner {
    state: State,
    last_line: Instant,
}

impl Plain {
    /// Nothing printed yet.
    pub fn new() -> Plain {
        Plain { inner: Mutex::new(Inner { state: State::new(), last_line: Instant::now() }) }
    }
}

impl Observe<Progress<'_>> for Plain {
    fn event(&self, progress: Progress<'_>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.state.update(&progress);
        let due = inner.last_line.elapsed() >= EVERY;
        let line = match progress {
            Progress::Phase(name) => Some(format!("{} ...", name.name())),
            Progress::Step(text) => Some(format!("  {text}")),
            Progress::Event(event) => Some(format!("  {}", event.text)),
            Progress::Warning(warning) => Some(format!("  warning: {warning}")),
            Progress::Rows { done, total } if due => {
                Some(format!("  {} of {} rows", format::count(done), format::count(total)))
            }
            Progress::Connected { done, total } if due => {
                Some(format!("  {done} of {total} clients connected"))
            }
            Progress::Interval { .. } if due => Some(load_line(&inner.state)),
            Progress::Watched { .. } if due => Some(watch_line(&inner.state)),
            _ => None,
        };
        if let Some(line) = line {
            inner.last_line = Instant::now();
            let at = inner.state.started.elapsed().as_secs_f64();
            // What others say must not look like a line of ours.
            say(&format!("[{at:6.1} s] {}", line.replace('\n', "\n    ")));
        }
    }
}

fn load_line(state: &State) -> String {
    let Some(second) = state.seconds.back() else { return String::new() };
    let mut line = match state.measured {
        Some((measured, wanted, until)) => format!("  {}: ", load_text(measured, wanted, until)),
        None => "  warming up: ".to_owned(),
    };
    line.push_str(&format::rate(second.rate));
    if let Some([p50, _, p99]) = second.percentiles {
        line.push_str(&format!(", p50 {}, p99 {}", format::latency(p50), format::latency(p99)));
    }
    if let Some(rate) = state.wal_rate {
        line.push_str(&format!(", WAL {}", format::byte_rate(rate)));
    }
    if state.failures > 0 {
        line.push_str(&format!(", {} failed", format::count(state.failures)));
    }
    line
}

/// Someone else's load: how long it has been watched, and what the server counts.
fn watch_line(state: &State) -> String {
    let mut line = match state.watched {
        Some((elapsed, Some(wanted))) => {
            format!("  watched {:.0} of {:.0} s: ", elapsed.as_secs_f64(), wanted.as_secs_f64())
        }
        Some((elapsed, None)) => format!("  watched {:.0} s: ", elapsed.as_secs_f64()),
        None => "  ".to_owned(),
    };
    match state.seconds.back() {
        Some(second) => line.push_str(&format!("commits {}", format::rate(second.rate))),
        None => line.push_str("no commits counted yet"),
    }
    if let Some(rate) = state.wal_rate {
        line.push_str(&format!(", WAL {}", format::byte_rate(rate)));
    }
    line
}
