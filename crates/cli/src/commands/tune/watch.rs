//! A tune while it goes on: a line for each measurement, on standard error.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use walwright_lab::Progress;
use walwright_lab::tune::{TuneNotice, TuneWatcher, change};
use walwright_report::format;

/// Time between rewrites of the line within a measurement.
const EVERY: Duration = Duration::from_millis(500);
/// Changes named in a line; more are counted.
const NAMED: usize = 3;

/// Prints what happens.
pub struct Lines {
    inner: Mutex<Inner>,
}

struct Inner {
    began: Instant,
    terminal: bool,
    last: Instant,
    /// What is measured: ` 4 of 60  search: commit_delay = 0`.
    what: String,
    /// Whether a line that is rewritten stands there.
    rewritten: bool,
}

impl Lines {
    /// Nothing printed yet.
    pub fn new() -> Lines {
        Lines {
            inner: Mutex::new(Inner {
                began: Instant::now(),
                terminal: std::io::stderr().is_terminal(),
                last: Instant::now(),
                what: String::new(),
                rewritten: false,
            }),
        }
    }
}

impl TuneWatcher for Lines {
    fn notice(&self, notice: TuneNotice<'_>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match notice {
            TuneNotice::Begins { id, runs: (search, confirm), done, left } => {
                let so_far =
                    if done > 0 { format!(", {done} of them done") } else { String::new() };
                inner.line(&format!(
                    "tune {id}: {search} measurements{so_far}, up to {confirm} more to confirm; about {}",
                    format::length(left)
                ));
            }
            TuneNotice::Stage(text) => inner.line(&format!("── {text}")),
            TuneNotice::Said(text) => inner.line(&format!("   {text}")),
            TuneNotice::Measuring { run, why, changes } => {
                let number =
                    run.map_or("   ".to_owned(), |(run, of)| format!("{run:>3} of {of}  "));
                inner.what = format!("{number}{why}{}", named(changes));
            }
            TuneNotice::Run(progress) => inner.progress(progress),
            TuneNotice::Measured { value, change: relative, crashed, left } => {
                let value = match (value, crashed) {
                    (Some(value), _) => format::number(value),
                    (None, Some(why)) => format!("did not run: {why}"),
                    (None, None) => format::NOT_OBSERVABLE.to_owned(),
                };
                let relative =
                    relative.map_or(String::new(), |relative| format!(" ({})", change(relative)));
                let what = std::mem::take(&mut inner.what);
                let left = match left.is_zero() {
                    true => String::new(),
                    false => format!("; about {} left", format::length(left)),
                };
                inner.line(&format!("{what}: {value}{relative}{left}"));
            }
        }
    }
}

/// What differs from the baseline, in few words.
fn named(changes: &[String]) -> String {
    let shown = changes[..changes.len().min(NAMED)].join(", ");
    match changes.len().saturating_sub(NAMED) {
        _ if changes.is_empty() => String::new(),
        0 => format!(" [{shown}]"),
        more => format!(" [{shown}, {more} more]"),
    }
}

impl Inner {
    fn line(&mut self, text: &str) {
        self.clear();
        let at = self.began.elapsed().as_secs_f64();
        let _ = writeln!(std::io::stderr(), "[{at:6.0} s] {text}");
        self.last = Instant::now();
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.rewritten) {
            // Back to the first column, and erase what stands there.
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    /// Within a measurement: what it is at.
    fn progress(&mut self, progress: &Progress<'_>) {
        if !self.terminal || self.last.elapsed() < EVERY {
            return;
        }
        let now = match progress {
            Progress::Phase(name) => name.name().to_owned(),
            Progress::Step(text) => (*text).to_owned(),
            Progress::Rows { done, total } => {
                format!("{} of {} rows", format::count(*done), format::count(*total))
            }
            Progress::Interval { interval, measured, wanted } => {
                let seconds = interval.length.as_secs_f64().max(1e-3);
                let rate = walwright_diagnose::transactions(interval) as f64 / seconds;
                format!(
                    "{:.0} of {:.0} s, {}",
                    measured.as_secs_f64(),
                    wanted.as_secs_f64(),
                    format::rate(rate)
                )
            }
            _ => return,
        };
        self.clear();
        let width = crate::show::terminal_width().saturating_sub(1);
        let text: String = format!("{}  {now}", self.what).chars().take(width).collect();
        let _ = write!(std::io::stderr(), "{text}");
        let _ = std::io::stderr().flush();
        self.rewritten = true;
        self.last = Instant::now();
    }
}
