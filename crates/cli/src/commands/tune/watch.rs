//! A tune while it goes on: a line for each measurement, on standard error.

use std::sync::{Mutex, PoisonError};

use walwright_figures::compare::FigureUnit;
use walwright_report::{format, metric_value};
use walwright_run::{Observe, Progress};
use walwright_tune::{TuneEvent, change};

use crate::show::data_on_disk::space_text;
use crate::show::lines::{ProgressLines, stage};

/// Changes named in a line; more are counted.
const NAMED: usize = 3;

/// Prints what happens.
pub struct Lines {
    inner: Mutex<Inner>,
}

struct Inner {
    lines: ProgressLines,
    /// What is measured: ` 4 of 60  search: commit_delay = 0`.
    what: String,
    /// What values are in.
    unit: FigureUnit,
}

impl Lines {
    /// Nothing printed yet.
    pub fn new() -> Lines {
        Lines {
            inner: Mutex::new(Inner {
                lines: ProgressLines::new(),
                what: String::new(),
                unit: FigureUnit::Count,
            }),
        }
    }
}

impl Observe<TuneEvent<'_>> for Lines {
    fn event(&self, event: TuneEvent<'_>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            TuneEvent::Begins { id, runs, confirming: (least, most), done, left, unit } => {
                inner.unit = unit;
                let so_far =
                    if done > 0 { format!(", {done} of them done") } else { String::new() };
                let open = match most > least {
                    true => format!(", up to {most} where these leave it open"),
                    false => String::new(),
                };
                inner.lines.line(&format!(
                    "tune {id}: {runs} measurements{so_far}, {least} more to confirm{open}; about {}",
                    format::length(left)
                ));
            }
            TuneEvent::Stage(text) => inner.lines.line(&format!("── {text}")),
            TuneEvent::Measuring { run, why, changes } => {
                let number =
                    run.map_or("   ".to_owned(), |(run, of)| format!("{run:>3} of {of}  "));
                inner.what = format!("{number}{why}{}", named(changes));
            }
            TuneEvent::Run(progress) => inner.progress(progress),
            TuneEvent::Measured { value, change: relative, crashed, left } => {
                let value = match (value, crashed) {
                    (Some(value), _) => metric_value(inner.unit, value),
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
                inner.lines.line(&format!("{what}: {value}{relative}{left}"));
            }
            event => {
                if let Some(text) = message(&event) {
                    inner.lines.line(&format!("   {text}"));
                }
            }
        }
    }
}

/// What an event is worth a line for, whichever way a tune is shown.
pub fn message(event: &TuneEvent<'_>) -> Option<String> {
    match event {
        // The confirmation loads the data once more.
        TuneEvent::Loaded(space) => Some(space_text(space, "a run and the confirmation", 2)),
        TuneEvent::Said(text) => Some((*text).to_owned()),
        _ => None,
    }
}

/// What differs from the baseline, in few words.
pub fn named(changes: &[String]) -> String {
    let shown = changes[..changes.len().min(NAMED)].join(", ");
    match changes.len().saturating_sub(NAMED) {
        _ if changes.is_empty() => String::new(),
        0 => format!(" [{shown}]"),
        more => format!(" [{shown}, {more} more]"),
    }
}

impl Inner {
    /// Within a measurement: what it is at.
    fn progress(&mut self, progress: &Progress<'_>) {
        if !self.lines.may_rewrite() {
            return;
        }
        if let Some(now) = stage(progress) {
            self.lines.rewrite(&format!("{}  {now}", self.what));
        }
    }
}
