//! What is wrong with a configuration: where, what, and what to do.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use strsim::damerau_levenshtein;

/// Letters that a name may differ in to be told as the one that was meant.
const NEAR: usize = 3;

/// What is wrong with a configuration. Never holds a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The file; `None` for what was typed.
    pub file: Option<PathBuf>,
    /// The line, from 1.
    pub line: Option<usize>,
    /// What is wrong, and what to do.
    pub what: String,
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{}, line {line}: {}", file.display(), self.what),
            (Some(file), None) => write!(f, "{}: {}", file.display(), self.what),
            (None, _) => f.write_str(&self.what),
        }
    }
}

impl ConfigError {
    /// An error about a file as a whole.
    pub fn of_file(path: &Path, what: impl Into<String>) -> ConfigError {
        ConfigError { file: Some(path.to_owned()), line: None, what: what.into() }
    }

    /// An error in a line of a file.
    pub fn in_line(path: &Path, line: usize, what: impl Into<String>) -> ConfigError {
        ConfigError { file: Some(path.to_owned()), line: Some(line), what: what.into() }
    }

    /// An error in TOML, with the key that was meant where it is an unknown one.
    pub(super) fn of_toml(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
        let line = error.span().map(|span| line_of(text, &span));
        ConfigError { file: Some(path.to_owned()), line, what: told(error.message()) }
    }
}

/// The line in which a span begins, from 1.
pub(super) fn line_of(text: &str, span: &Range<usize>) -> usize {
    let before = text.as_bytes().get(..span.start).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

/// A message of serde's in words, with the nearest of what it lists.
fn told(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let (what, kind) = match message {
        m if m.starts_with("unknown field") => ("there is no key", "keys"),
        m if m.starts_with("unknown variant") => ("there is no value", "values"),
        m => return m.to_owned(),
    };
    let Some(given) = quoted.next() else { return message.to_owned() };
    let known: Vec<&str> = quoted.collect();
    let near = known.iter().map(|known| (damerau_levenshtein(known, given), *known)).min();
    match near {
        Some((distance, near)) if distance <= NEAR && distance < given.len().max(2) => {
            format!("{what} \"{given}\": write {near}")
        }
        _ => format!("{what} \"{given}\": the {kind} here are {}", known.join(", ")),
    }
}
