//! Showing a run while it goes on: a live view on a terminal, plain lines elsewhere. Many
//! runs in a row are shown as [`lines`].

pub mod data_on_disk;
mod every;
pub mod lines;
mod live;
pub mod messages;
mod metrics;
mod plain;
pub mod screen;
mod state;

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;

use walwright_run::{Observer, Silent};
use walwright_server::Stop;

use crate::output::Output;

pub use metrics::exposing;
pub use screen::Guard;

/// How a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// The live view where standard error is a terminal, lines otherwise.
    Auto,
    /// Lines.
    Plain,
    /// Lines, and one of the load every so often.
    Every(Duration),
    /// Nothing.
    Quiet,
}

impl Style {
    /// Whether it is a live view, and there is a terminal to show it on.
    fn is_live(self) -> bool {
        self == Style::Auto && io::stderr().is_terminal() && io::stdin().is_terminal()
    }
}

/// The observer for a style, and the guard that gives the terminal back.
pub fn observer(style: Style, stop: &Stop, output: &Output) -> (Arc<Observer>, Option<Guard>) {
    match style {
        Style::Quiet => (Arc::new(Silent), None),
        Style::Every(every) => (Arc::new(every::Every::new(every)), None),
        Style::Auto | Style::Plain => live_or(
            style,
            || live::start(stop.clone(), output.colour_err),
            || Arc::new(plain::Plain::new()),
        ),
    }
}

/// A live view and its guard where one is wanted and there is a terminal for it, else lines.
pub fn live_or<O: ?Sized>(
    style: Style,
    live: impl FnOnce() -> io::Result<(Arc<O>, Guard)>,
    lines: impl FnOnce() -> Arc<O>,
) -> (Arc<O>, Option<Guard>) {
    match style.is_live().then(live) {
        Some(Ok((view, guard))) => (view, Some(guard)),
        Some(Err(_)) | None => (lines(), None),
    }
}

/// Gives the terminal back when the process ends without the view's guard.
pub fn restore_terminal() {
    screen::restore();
}

/// Whether a view has taken the terminal.
pub fn has_terminal() -> bool {
    screen::is_taken()
}

/// Has what comes next begin a line: a terminal writes `^C` where its cursor stands, and a line
/// that is rewritten may stand there.
pub fn begin_line() {
    if !has_terminal() && io::stderr().is_terminal() {
        lines::erase();
    }
}
