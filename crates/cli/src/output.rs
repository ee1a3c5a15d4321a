//! What goes to standard output and standard error, and in which form.
//!
//! All of it leaves through [`print`], [`Output::print_painted`] and [`say`], which show what
//! would act on a terminal instead of sending it: servers, files and scripts have their words
//! in most of what is printed.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Value, json};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;
use walwright_experiment::{ExperimentError, Remarks};
use walwright_figures::compare::CompareError;
use walwright_report::List;
use walwright_report::terminal::{Style, fit, printable, printable_json, printable_painted};
use walwright_run::RunError;
use walwright_tune::TuneError;
use walwright_workload::WorkloadError;

use crate::args::{Colour, LogFormat};

/// Exit codes, as `walwright --help` lists them.
pub mod exit {
    /// Something failed.
    pub const FAILED: u8 = 1;
    /// What was typed, or a plan, is not right; clap exits so too.
    pub const USAGE: u8 = 2;
    /// The run was interrupted, or its server was lost, restarted or crashed under it; its
    /// record is kept.
    pub const INTERRUPTED: u8 = 3;
    /// Left by a second signal: 128 + SIGINT, as shells report it.
    pub const KILLED: u8 = 130;
    /// A check of the workload failed, a pass mark was missed, a quarter or more of the
    /// transactions failed, or a limit was passed.
    pub const CHECK_FAILED: u8 = 4;
    /// Something on a server is not as it was: others changed it meanwhile, and it was left.
    pub const LEFT: u8 = 5;
}

/// How results are printed.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// Results as JSON.
    pub json: bool,
    /// Colours on standard output.
    pub colour: bool,
    /// Colours on standard error.
    pub colour_err: bool,
}

impl Output {
    /// Decides by flag, `NO_COLOR` and terminal.
    pub fn new(json: bool, colour: Colour) -> Output {
        let wanted = |terminal: bool| match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
        };
        Output {
            json,
            colour: wanted(std::io::stdout().is_terminal()),
            colour_err: wanted(std::io::stderr().is_terminal()),
        }
    }

    /// Prints a result: `human` makes the text, unless JSON is wanted.
    pub fn result<T: Serialize>(
        &self,
        value: &T,
        human: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        if self.json { self.print_json(value) } else { print(&for_stdout(&human())) }
    }

    /// The same for a text in colours.
    pub fn painted_result<T: Serialize>(
        &self,
        value: &T,
        human: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        if self.json { self.print_json(value) } else { self.print_painted(&human()) }
    }

    /// How documents are drawn on this terminal.
    pub fn style(&self) -> Style {
        Style::for_terminal(terminal_width(), self.colour)
    }

    /// How lists are drawn: as wide as the terminal, and where there is none a row a line.
    pub fn list_style(&self) -> Style {
        const UNBROKEN: usize = 10_000;
        let width = if std::io::stdout().is_terminal() { terminal_width() } else { UNBROKEN };
        Style { width, ..self.style() }
    }

    /// Prints a list, or what to say where it is empty, unless JSON is wanted.
    pub fn list<T: Serialize>(
        &self,
        value: &T,
        list: impl FnOnce() -> Result<List, String>,
    ) -> anyhow::Result<()> {
        self.painted_result(value, || match list() {
            Ok(list) => list.document().terminal(&self.list_style()),
            // It names directories and labels of others, and has no colours of its own.
            Err(empty) => printable(&empty).into_owned(),
        })
    }

    /// Prints a text that was painted where colours are wanted.
    pub fn print_painted(&self, text: &str) -> anyhow::Result<()> {
        let text = for_stdout(text);
        if self.colour { write_out(&printable_painted(&text)) } else { print(&text) }
    }

    /// Prints a value as JSON, as [`json_text`] writes it.
    pub fn print_json<T: Serialize>(&self, value: &T) -> anyhow::Result<()> {
        print(&json_text(value)?)
    }

    /// Prints an error with its causes, as text or JSON, and gives the exit code.
    pub fn fail(&self, error: &anyhow::Error) -> ExitCode {
        if error.is::<Unread>() {
            return ExitCode::SUCCESS;
        }
        let chain = sentences(error);
        if self.json {
            let body = json!({ "error": chain.join(": ") }).to_string();
            let _ = writeln!(std::io::stderr(), "{}", printable_json(&body));
        } else {
            let (bold, plain) = if self.colour_err { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
            let chain = chain.join("\n  because: ");
            let text = format!("{bold}error:{plain} {}\n", printable(&chain));
            let _ = std::io::stderr().write_all(for_stderr(&text).as_bytes());
        }
        ExitCode::from(if is_usage(error) { exit::USAGE } else { exit::FAILED })
    }

    /// Tells what is not as it was on a server when work there has ended. What others
    /// changed and was left to them makes an exit code of its own, unless the work has one.
    pub fn remarked(&self, remarks: &Remarks, code: ExitCode) -> ExitCode {
        let (left, file) = (remarks.of_others(), remarks.of_the_file());
        let told: Vec<&String> = left.iter().chain(&file).collect();
        if told.is_empty() {
            return code;
        }
        if self.json {
            let body = serde_json::json!({ "left": left, "file": file });
            let _ = writeln!(std::io::stderr(), "{body}");
        } else {
            told.iter().for_each(|one| {
                let _ = writeln!(std::io::stderr(), "not as it was on the server: {one}");
            });
        }
        match left.is_empty() || code != ExitCode::SUCCESS {
            true => code,
            false => ExitCode::from(exit::LEFT),
        }
    }

    /// Prints the error of work that ended early: an interruption has an exit code of its own.
    pub fn ended(&self, interrupted: bool, error: impl Into<anyhow::Error>) -> ExitCode {
        let code = self.fail(&error.into());
        if interrupted { ExitCode::from(exit::INTERRUPTED) } else { code }
    }
}

/// What was typed is not right, whatever the state of servers and of the lab.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An error in what was typed.
pub fn usage(what: impl Into<String>) -> anyhow::Error {
    Usage(what.into()).into()
}

/// Whether an error is in what was typed.
fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let run = cause.downcast_ref::<RunError>();
        let experiment = cause.downcast_ref::<ExperimentError>();
        let tune = cause.downcast_ref::<TuneError>();
        cause.is::<Usage>()
            || experiment.is_some_and(ExperimentError::is_usage)
            || cause.is::<CompareError>()
            || run.is_some_and(RunError::is_usage)
            || cause.downcast_ref::<WorkloadError>().is_some_and(WorkloadError::is_usage)
            || tune.is_some_and(TuneError::is_usage)
    })
}

/// A value as JSON. Durations are seconds, as all times in JSON are.
pub fn json_text<T: Serialize + ?Sized>(value: &T) -> anyhow::Result<String> {
    let mut value = serde_json::to_value(value)?;
    durations_to_seconds(&mut value);
    let mut text = serde_json::to_string_pretty(&value)?;
    text.push('\n');
    Ok(printable_json(&text).into_owned())
}

/// Puts a number of seconds in place of every duration as serde writes it, and as records
/// keep it: an object of `secs` and `nanos`.
fn durations_to_seconds(value: &mut Value) {
    match value {
        Value::Object(fields) if fields.len() == 2 => {
            let part = |name: &str| fields.get(name).and_then(Value::as_u64);
            match part("secs").zip(part("nanos")) {
                Some((secs, nanos)) => {
                    *value = (secs as f64 + nanos as f64 / 1e9).into();
                }
                None => fields.values_mut().for_each(durations_to_seconds),
            }
        }
        Value::Object(fields) => fields.values_mut().for_each(durations_to_seconds),
        Value::Array(items) => items.iter_mut().for_each(durations_to_seconds),
        _ => {}
    }
}

/// Wider than this text is hard to read.
const WIDEST: usize = 96;

/// Text in lines of at most 96 columns, fewer where the terminal has fewer.
pub fn wrapped(text: &str, indent: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let terminal = std::io::stdout().is_terminal();
    let width = if terminal { terminal_width().min(WIDEST) } else { WIDEST };
    fit(&format!("{indent}{}\n", words.join(" ")), width)
}

/// Text for people with lines that fit the terminal on standard output, if it is one.
fn for_stdout(text: &str) -> Cow<'_, str> {
    for_terminal(text, std::io::stdout().is_terminal())
}

/// The same for standard error.
fn for_stderr(text: &str) -> Cow<'_, str> {
    for_terminal(text, std::io::stderr().is_terminal())
}

fn for_terminal(text: &str, terminal: bool) -> Cow<'_, str> {
    if terminal { Cow::Owned(fit(text, terminal_width())) } else { Cow::Borrowed(text) }
}

/// Writes to standard output as it is: files and statements keep their lines.
pub fn print(text: &str) -> anyhow::Result<()> {
    write_out(&printable(text))
}

/// A line on standard error.
pub fn say(line: &str) {
    say_text(&format!("{line}\n"));
}

/// Text with its own ends of lines on standard error. Nobody to read it is no reason to stop.
pub fn say_text(text: &str) {
    let _ = std::io::stderr().write_all(for_stderr(&printable(text)).as_bytes());
}

fn write_out(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(Unread.into()),
        written => Ok(written?),
    }
}

/// Whoever read standard output has had enough, as `head` has; that is no failure.
#[derive(Debug)]
struct Unread;

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nobody reads the output")
    }
}

impl std::error::Error for Unread {}

/// The causes of an error from the outside in, leaving out one that its parent
/// already quotes.
fn sentences(error: &anyhow::Error) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if !said.iter().any(|earlier| earlier.contains(&text)) {
            said.push(text);
        }
    }
    said
}

/// Sends tracing to standard error; `-v` says more, `WALWRIGHT_LOG` decides finely.
pub fn log_to_stderr(verbose: u8) {
    let level = match verbose {
        0 => "error",
        1 => "info,walwright=debug",
        _ => "debug",
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(|| PrintableStderr)
        .without_time()
        .with_target(false);
    tracing_subscriber::registry().with(lines).with(log_filter(level)).init();
}

/// The same for a service: what goes wrong without `-v`, who comes and goes with it, and when.
pub fn log_events(verbose: u8, format: LogFormat) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(|| PrintableStderr);
    let registry = tracing_subscriber::registry().with(log_filter(level));
    match format {
        LogFormat::Text => registry.with(lines.with_target(false)).init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).init(),
    }
}

fn log_filter(level: &str) -> Option<Targets> {
    let asked = std::env::var("WALWRIGHT_LOG").unwrap_or_default();
    [&*asked, level].into_iter().filter(|text| !text.is_empty()).find_map(|t| t.parse().ok())
}

/// Has a fault of the tool itself say where it is as anything else is said: what it quotes
/// may be a server's.
pub fn tell_of_panics() {
    std::panic::set_hook(Box::new(|fault| {
        let thread = std::thread::current();
        say(&format!("thread '{}' {fault}", thread.name().unwrap_or("unnamed")));
        let trace = std::backtrace::Backtrace::capture();
        if trace.status() == std::backtrace::BacktraceStatus::Captured {
            say(&trace.to_string());
        }
    }));
}

/// Prints why the arguments are not right, or the help they ask for, and ends: clap does, but
/// quotes values as they are, and those may come from the environment or a script.
pub fn refuse(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    if matches!(printable(&text), Cow::Borrowed(_)) {
        error.exit();
    }
    say(text.trim_end());
    std::process::exit(error.exit_code());
}

/// Standard error for what is written in whole lines.
struct PrintableStderr;

impl Write for PrintableStderr {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        std::io::stderr().write_all(printable(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

/// Columns of the terminal on standard output, 100 where there is none.
pub fn terminal_width() -> usize {
    ratatui::crossterm::terminal::size().map_or(100, |(columns, _)| usize::from(columns))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn durations_are_seconds_wherever_they_stand() {
        let value = json!({
            "ramp": Duration::from_millis(1_500),
            "schedule": { "loop": "closed", "think": Duration::from_micros(20) },
            "percentiles": [[50.0, Duration::from_nanos(3)], [99.0, Duration::from_secs(4)]],
            "unknown": null,
            "secs": { "secs": 5, "of": "something else" },
        });
        let read: Value = serde_json::from_str(&json_text(&value).unwrap()).unwrap();
        let expected = json!({
            "ramp": 1.5,
            "schedule": { "loop": "closed", "think": 2e-5 },
            "percentiles": [[50.0, 3e-9], [99.0, 4.0]],
            "unknown": null,
            "secs": { "secs": 5, "of": "something else" },
        });
        assert_eq!(read, expected);
    }
}
