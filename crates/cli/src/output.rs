//! What goes to standard output and standard error, and in which form.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;
use tracing_subscriber::EnvFilter;

use crate::args::Colour;

/// Exit codes, as `walwright --help` lists them.
pub mod exit {
    /// Something failed.
    pub const FAILED: u8 = 1;
    /// What was typed, or a plan, is not right; clap exits so too.
    pub const USAGE: u8 = 2;
    /// The run was interrupted or lost its server; its record is kept.
    pub const INTERRUPTED: u8 = 3;
    /// Left by a second signal: 128 + SIGINT, as shells report it.
    pub const KILLED: u8 = 130;
    /// A check of the workload failed.
    pub const CHECK_FAILED: u8 = 4;
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
        if self.json { self.print_json(value) } else { print(&human()) }
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
            let body = serde_json::json!({ "error": chain.join(": ") });
            let _ = writeln!(std::io::stderr(), "{body}");
        } else {
            let (bold, plain) = if self.colour_err { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
            let _ =
                writeln!(std::io::stderr(), "{bold}error:{plain} {}", chain.join("\n  because: "));
        }
        ExitCode::from(exit::FAILED)
    }

    /// The same for work that ended early: an interruption has an exit code of its own.
    pub fn ended(&self, interrupted: bool, error: impl Into<anyhow::Error>) -> ExitCode {
        let code = self.fail(&error.into());
        if interrupted { ExitCode::from(exit::INTERRUPTED) } else { code }
    }
}

/// A value as JSON. Durations are seconds, as all times in JSON are.
pub fn json_text<T: Serialize + ?Sized>(value: &T) -> anyhow::Result<String> {
    let mut value = serde_json::to_value(value)?;
    durations_to_seconds(&mut value);
    let mut text = serde_json::to_string_pretty(&value)?;
    text.push('\n');
    Ok(text)
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

/// Text in lines of at most 96 characters.
pub fn wrapped(text: &str, indent: &str) -> String {
    const WIDTH: usize = 96;
    let mut out = String::new();
    let mut line = indent.to_owned();
    for word in text.split_whitespace() {
        if line.len() > indent.len() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out.push_str(&line);
            out.push('\n');
            line = indent.to_owned();
        }
        if line.len() > indent.len() {
            line.push(' ');
        }
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
    out
}

/// Writes to standard output.
pub fn print(text: &str) -> anyhow::Result<()> {
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
    let filter = EnvFilter::try_from_env("WALWRIGHT_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .without_time()
        .with_target(false)
        .init();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

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
